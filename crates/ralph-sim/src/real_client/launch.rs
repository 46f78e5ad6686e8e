//! Starts the real client with the scratch home and the scripted model, isolated from the user's own configuration.

use super::RealClientError;
use crate::scenario::Scenario;
use crate::scratch::{self, ScratchProject};
use crate::server;
use crate::transcript::BYPASS_MODE;
use ralph_sys::fs::{self, FileError, SharedFileMode};
use ralph_sys::proc::cancel::CancelToken;
use ralph_sys::proc::line_process::{self, LineProcess, LineProcessOutput, OnParentDeath};
use serde_json::json;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

const STDERR_FILE: &str = "client.err";
/// The variable with a login token, which replaces the API key.
const LOGIN_VARIABLE: &str = "CLAUDE_CODE_OAUTH_TOKEN";

#[derive(Clone, Copy, Debug)]
pub(super) struct ClientLaunch<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) stage: &'a ScratchProject,
    pub(super) program: &'a Path,
    pub(super) search_path: &'a OsStr,
    pub(super) cancel: &'a CancelToken,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LaunchedSession {
    New(String),
    Resumed(String),
    Forked { from: String, to: String },
}

/// Writes the answers to the questions that the client asks at its first start.
pub(crate) fn seed_client_home(stage: &ScratchProject) -> Result<(), FileError> {
    let path = stage.home.join(".claude.json");
    if fs::exists(&path) {
        return Ok(());
    }
    let project = stage.project.to_string_lossy();
    let known = json!({
        "hasCompletedOnboarding": true,
        "bypassPermissionsModeAccepted": true,
        "projects": {project: {"hasTrustDialogAccepted": true}},
    });
    fs::replace_with_mode(&path, known.to_string().as_bytes(), SharedFileMode::Ordinary)
}

/// The environment of the client, or of the runner that starts it. Without a port there is no model server.
pub(crate) fn client_environment(
    scenario: &Scenario,
    home: &Path,
    search_path: &OsStr,
    port: Option<u16>,
) -> Vec<(OsString, OsString)> {
    let mut environment: Vec<(OsString, OsString)> = vec![
        ("PATH".into(), search_path.to_owned()),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC".into(), "1".into()),
        ("CLAUDE_CODE_MAX_RETRIES".into(), "0".into()),
        ("IS_SANDBOX".into(), "1".into()),
        // Otherwise the client runs commands in zsh where that is installed, which expands more than a POSIX shell.
        ("SHELL".into(), "/bin/bash".into()),
    ];
    // The last value of a variable wins: a scenario may override those above, but not those below.
    let own = scenario.env.iter().map(|(name, value)| (name.into(), value.into()));
    environment.extend(own);
    environment.push(("HOME".into(), home.as_os_str().to_owned()));
    // With both, the client uses the key and reports no rate limits of the account.
    if !scenario.env.contains_key(LOGIN_VARIABLE) {
        environment.push(("ANTHROPIC_API_KEY".into(), server::DUMMY_API_KEY.into()));
    }
    environment
        .extend(port.map(|port| ("ANTHROPIC_BASE_URL".into(), server::loopback_url(port).into())));
    environment
}

impl ClientLaunch<'_> {
    pub(super) fn start(
        &self,
        session: &LaunchedSession,
        place: &LaunchTarget<'_>,
        hear: impl FnMut(LineProcessOutput) + Send + 'static,
    ) -> Result<LineProcess, RealClientError> {
        let argv = self.command_line(session, place.settings);
        let argv: Vec<&OsStr> = argv.iter().map(OsString::as_os_str).collect();
        let env =
            client_environment(self.scenario, &self.stage.home, self.search_path, Some(place.port));
        let env: Vec<_> = env.iter().map(|(name, value)| (name.as_ref(), value.as_ref())).collect();
        let errors = self.stderr_path();
        let spec = line_process::LineProcessSpec {
            argv: &argv,
            cwd: &self.stage.project,
            env: &env,
            stderr_path: &errors,
            mark: None,
            on_parent_death: OnParentDeath::KeepRunning,
        };
        Ok(line_process::start_line_process(&spec, hear)?)
    }

    fn command_line(&self, session: &LaunchedSession, settings: &Path) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = vec![self.program.into()];
        let mut add = |words: &[&str]| arguments.extend(words.iter().map(OsString::from));
        add(&["-p", "--input-format", "stream-json", "--output-format", "stream-json"]);
        add(&["--verbose", "--include-hook-events", "--permission-mode", BYPASS_MODE]);
        match session {
            LaunchedSession::New(id) => add(&["--session-id", id]),
            LaunchedSession::Resumed(id) => add(&["--resume", id]),
            LaunchedSession::Forked { from, to } => {
                add(&["--resume", from, "--fork-session", "--session-id", to]);
            }
        }
        let client = &self.scenario.client;
        if let Some(model) = &client.model {
            add(&["--model", model]);
        }
        if let Some(size) = client.autocompact {
            add(&["--autocompact", &size.to_string()]);
        }
        if let Some(most) = client.max_turns {
            add(&["--max-turns", &most.to_string()]);
        }
        arguments.push("--settings".into());
        arguments.push(settings.into());
        for plugin in &self.stage.plugins {
            arguments.push("--plugin-dir".into());
            arguments.push(plugin.into());
        }
        arguments
    }

    fn stderr_path(&self) -> PathBuf {
        self.stage.root.join(STDERR_FILE)
    }

    /// The last line that the client wrote to standard error.
    pub(super) fn last_stderr_line(&self) -> Result<String, FileError> {
        let last = scratch::last_stderr_lines(&self.stderr_path())?.pop();
        Ok(last.unwrap_or_else(|| "no output".to_owned()))
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct LaunchTarget<'a> {
    pub(super) settings: &'a Path,
    /// Port of the model server.
    pub(super) port: u16,
}
