//! The program that a runner starts as its agent: a script that records its pid and then execs the client.

use crate::scenario::{self, Scenario};
use crate::scratch::ScratchProject;
use ralph_sys::clock::{self, Deadline};
use ralph_sys::fs::{self, FileError, SharedFileMode};
use ralph_sys::proc::line_process;
use ralph_sys::process_identity;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

const MAX_FILE_BYTES: usize = 1024 * 1024;
/// How long killed processes may take to disappear.
const EXIT_GRACE: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
const MAX_COMMAND_CHARS: usize = 200;

pub(super) fn agent_path(stage: &ScratchProject) -> PathBuf {
    stage.root.join("agent")
}

fn pid_list_path(stage: &ScratchProject) -> PathBuf {
    stage.root.join("agents")
}

/// The file in which the fake client stores its position in the script.
pub(super) fn position_path(stage: &ScratchProject) -> PathBuf {
    stage.root.join("position")
}

pub(super) fn install_agent(
    scenario: &Scenario,
    stage: &ScratchProject,
    program: &Path,
    client: Option<&Path>,
) -> Result<(), FileError> {
    let called = match client {
        Some(client) => shell_quote(client),
        None => fake_client_command(scenario, stage, program)?,
    };
    let list = shell_quote(&pid_list_path(stage));
    let runner = scenario.runner.as_deref();
    let flags = runner.into_iter().flat_map(|runner| &runner.wrapper);
    let flags: Vec<_> = flags.map(|flag| shell_quote(Path::new(flag))).collect();
    let flags = flags.join(" ");
    let script = format!("#!/bin/sh\necho $$ >> {list}\nexec {called} \"$@\" {flags}\n");
    fs::replace_with_mode(&agent_path(stage), script.as_bytes(), SharedFileMode::Executable)
}

/// Writes the scenario for the fake client and returns its command line. All its processes share one script position.
fn fake_client_command(
    scenario: &Scenario,
    stage: &ScratchProject,
    program: &Path,
) -> Result<String, FileError> {
    let path = stage.root.join("scenario.toml");
    // Only the turns are needed; everything else is already in the scratch project.
    let turns = Scenario {
        only: Some(scenario::ScenarioPlayer::Pretend),
        copy: None,
        plugins: Vec::new(),
        runner: None,
        expect: scenario::ScenarioExpectations::default(),
        ..scenario.clone()
    };
    fs::replace_with_mode(&path, scenario::write(&turns).as_bytes(), SharedFileMode::Ordinary)?;
    // The program may be a symlink whose meaning depends on the caller (such as [`ralph_sys::env::own_executable`]).
    let program = fs::resolve(program).unwrap_or_else(|| program.to_owned());
    let (program, path, at) =
        (shell_quote(&program), shell_quote(&path), shell_quote(&position_path(stage)));
    Ok(format!("{program} pretend --scenario {path} --position {at} --"))
}

/// Kills the latest agent.
pub(super) fn kill_latest_agent(stage: &ScratchProject) -> Result<(), FileError> {
    // There is no list before the first agent has started.
    let list = fs::read_if_exists(&pid_list_path(stage), MAX_FILE_BYTES)?.unwrap_or_default();
    let list = String::from_utf8_lossy(&list);
    let latest = list.lines().last().and_then(|number| number.parse().ok());
    if let Some(number) = latest {
        line_process::kill_process_with_variable(number, &home_variable(stage));
    }
    Ok(())
}

/// The command lines of processes that still run with the scratch home, after a short wait.
pub(super) fn leftover_processes(stage: &ScratchProject) -> Vec<String> {
    let home = home_variable(stage);
    let bound = Deadline::after(EXIT_GRACE);
    loop {
        let Some(alive) = line_process::pids_with_variable(&home) else {
            return vec!["unknown: this system does not list processes".to_owned()];
        };
        if alive.is_empty() || bound.has_passed() {
            let command_line = |pid| process_identity::describe_process(pid, MAX_COMMAND_CHARS);
            return alive.into_iter().map(command_line).collect();
        }
        clock::sleep(POLL_INTERVAL);
    }
}

/// The environment variable that identifies all processes of the scenario, and no others.
fn home_variable(stage: &ScratchProject) -> OsString {
    let mut variable = OsString::from("HOME=");
    variable.push(&stage.home);
    variable
}

/// Quotes a path for a shell.
fn shell_quote(path: &Path) -> String {
    format!("'{}'", path.to_string_lossy().replace('\'', r"'\''"))
}
