//! A temporary home and a repository whose gate never passes, for benchmarks of the runner.

use super::super::gates;
use crate::{disk, shell};
use anyhow::{Context, Result};
use ralph_sim::server::DUMMY_API_KEY;
use ralph_sys::clock;
use ralph_sys::proc::line_process::{self, LineProcess, LineProcessOutput, OnParentDeath};
use serde_json::json;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

const FILES: usize = 500;
/// No limits, so that only the benchmark ends the run.
const ENDLESS: [&str; 8] = [
    "--max-iterations",
    "0",
    "--max-duration",
    "1h",
    "--max-cost-usd",
    "0",
    "--stuck-after",
    "1000000",
];

pub(super) struct RunnerStage {
    directory: TempDir,
    pub(super) ralph: PathBuf,
    pub(super) client: PathBuf,
}

impl RunnerStage {
    pub(super) fn new(ralph: &Path, client: &Path) -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("ralph-bench-").tempdir()?;
        let (ralph, client) = (ralph.to_owned(), client.to_owned());
        let stage = Self { directory, ralph, client };
        stage.answer_first_start()?;
        stage.create_project()?;
        Ok(stage)
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(super) fn project(&self) -> PathBuf {
        self.path("project")
    }

    /// The environment of the client and the runner. `model` is the address of the model's server.
    pub(super) fn env(&self, model: Option<&str>) -> Vec<(OsString, OsString)> {
        let mut env: Vec<(OsString, OsString)> = vec![
            ("HOME".into(), self.path("home").into()),
            ("PATH".into(), shell::path_variable()),
            ("GIT_CEILING_DIRECTORIES".into(), self.directory.path().into()),
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC".into(), "1".into()),
            ("CLAUDE_CODE_STOP_HOOK_BLOCK_CAP".into(), "0".into()),
            ("IS_SANDBOX".into(), "1".into()),
            ("ANTHROPIC_API_KEY".into(), DUMMY_API_KEY.into()),
        ];
        env.extend(model.map(|url| ("ANTHROPIC_BASE_URL".into(), url.into())));
        env
    }

    /// Changes a file, so that the work tree has a new fingerprint.
    pub(super) fn change_file(&self, round: u32) -> Result<()> {
        let text = format!("round {round}, {}\n", clock::now_ns());
        disk::write_file(&self.project().join("src/round.txt"), text.as_bytes())
    }

    /// Starts `ralph run` with JSON output.
    pub(super) fn start_runner(
        &self,
        agent: &Path,
        model: Option<&str>,
        hear: impl FnMut(LineProcessOutput) + Send + 'static,
    ) -> Result<LineProcess> {
        let mut argv: Vec<OsString> = vec![self.ralph.clone().into(), "run".into()];
        argv.extend(["Work until you are let go.", "--json"].map(OsString::from));
        argv.extend(ENDLESS.map(OsString::from));
        argv.extend(["--agent-program".into(), agent.as_os_str().to_owned()]);
        let mut talk = self.start_program(&argv, model, hear)?;
        talk.close_input();
        Ok(talk)
    }

    pub(super) fn start_program(
        &self,
        argv: &[OsString],
        model: Option<&str>,
        hear: impl FnMut(LineProcessOutput) + Send + 'static,
    ) -> Result<LineProcess> {
        let argv: Vec<&OsStr> = argv.iter().map(OsString::as_os_str).collect();
        let env = self.env(model);
        let env: Vec<_> = env.iter().map(|(name, value)| (name.as_ref(), value.as_ref())).collect();
        let spec = line_process::LineProcessSpec {
            argv: &argv,
            cwd: &self.project(),
            env: &env,
            stderr_path: &self.errors(),
            mark: None,
            on_parent_death: OnParentDeath::KeepRunning,
        };
        line_process::start_line_process(&spec, hear).context("cannot start the program to measure")
    }

    fn errors(&self) -> PathBuf {
        self.path("errors")
    }

    /// The last lines of stderr, for error messages.
    pub(super) fn last_stderr(&self) -> String {
        let said = disk::read_text(&self.errors()).unwrap_or_default();
        said.lines().rev().take(5).collect::<Vec<_>>().join(" · ")
    }

    /// Answers the questions that the client asks at its first start.
    fn answer_first_start(&self) -> Result<()> {
        let project = self.project();
        let known = json!({
            "hasCompletedOnboarding": true,
            "projects": {project.to_string_lossy(): {"hasTrustDialogAccepted": true}},
        });
        disk::write_with_parents(&self.path("home/.claude.json"), &serde_json::to_vec(&known)?)
    }

    fn create_project(&self) -> Result<()> {
        let project = self.project();
        let long_ago = shell::now() - Duration::from_hours(1);
        for number in 0..FILES {
            let path = project.join(format!("src/part{}/file{number}.txt", number % 25));
            disk::write_with_parents(
                &path,
                format!("line of file {number}\n").repeat(100).as_bytes(),
            )?;
            disk::set_modified(&path, long_ago)?;
        }
        disk::write_with_parents(
            &project.join("ralph.toml"),
            b"[[gate]]\nname = \"never\"\nrun = [\"false\"]\n",
        )?;
        let author = ["-c", "user.name=bench", "-c", "user.email=bench@localhost"];
        for step in
            [&["init", "--quiet"][..], &["add", "."], &["commit", "--quiet", "--message=all"]]
        {
            let mut git = shell::command("git");
            git.env_clear().envs(self.env(None)).arg("-C").arg(&project).args(author).args(step);
            shell::command_output(&mut git)?;
        }
        gates::approve_policy(&self.ralph, &self.env(None), &project)
    }
}
