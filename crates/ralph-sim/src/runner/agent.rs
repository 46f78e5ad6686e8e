//! The program that a runner starts as its agent: a script that records its pid and then execs the client.

use crate::scenario::{self, Scenario};
use crate::stage::Stage;
use ralph_sys::clock::{self, Deadline};
use ralph_sys::fs::{self, FileError, Mode};
use ralph_sys::proc::talk;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

const LARGEST: usize = 1024 * 1024;
/// How long killed processes may take to disappear.
const GONE: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(20);
const LONGEST_NAME: usize = 200;

pub(super) fn place(stage: &Stage) -> PathBuf {
    stage.root.join("agent")
}

fn numbers(stage: &Stage) -> PathBuf {
    stage.root.join("agents")
}

/// The file in which the fake client stores its position in the script.
pub(super) fn position(stage: &Stage) -> PathBuf {
    stage.root.join("position")
}

pub(super) fn lay(
    scenario: &Scenario,
    stage: &Stage,
    (program, client): (&Path, Option<&Path>),
) -> Result<(), FileError> {
    let called = match client {
        Some(client) => quoted(client),
        None => pretended(scenario, stage, program)?,
    };
    let list = quoted(&numbers(stage));
    let runner = scenario.runner.as_deref();
    let flags = runner.into_iter().flat_map(|runner| &runner.wrapper);
    let flags: Vec<_> = flags.map(|flag| quoted(Path::new(flag))).collect();
    let flags = flags.join(" ");
    let script = format!("#!/bin/sh\necho $$ >> {list}\nexec {called} \"$@\" {flags}\n");
    fs::put(&place(stage), script.as_bytes(), Mode::Program)
}

/// Writes the scenario for the fake client and returns its command line. All its processes share one script position.
fn pretended(scenario: &Scenario, stage: &Stage, program: &Path) -> Result<String, FileError> {
    let path = stage.root.join("scenario.toml");
    // Only the turns are needed; everything else is already in the scratch project.
    let turns = Scenario {
        only: Some(scenario::Player::Pretend),
        copy: None,
        plugins: Vec::new(),
        runner: None,
        expect: scenario::Expect::default(),
        ..scenario.clone()
    };
    fs::put(&path, scenario::write(&turns).as_bytes(), Mode::Ordinary)?;
    // The program may be a symlink whose meaning depends on the caller (such as `/proc/self/exe`).
    let program = fs::resolve(program).unwrap_or_else(|| program.to_owned());
    let (program, path, at) = (quoted(&program), quoted(&path), quoted(&position(stage)));
    Ok(format!("{program} pretend --scenario {path} --position {at} --"))
}

/// Kills the latest agent.
pub(super) fn kill(stage: &Stage) {
    let list = fs::read(&numbers(stage), LARGEST).unwrap_or_default();
    let list = String::from_utf8_lossy(&list);
    let latest = list.lines().last().and_then(|number| number.parse().ok());
    if let Some(number) = latest {
        talk::kill_carrier(number, &home(stage));
    }
}

/// The command lines of processes that still run with the scratch home, after a short wait.
pub(super) fn left(stage: &Stage) -> Vec<String> {
    let home = home(stage);
    let bound = Deadline::after(GONE);
    loop {
        let alive = talk::carriers(&home);
        if alive.is_empty() || bound.is_over() {
            return alive.into_iter().map(name).collect();
        }
        clock::pause(LOOK);
    }
}

fn name(pid: u32) -> String {
    let path = format!("/proc/{pid}/cmdline");
    let words = fs::read(Path::new(&path), LARGEST).unwrap_or_default();
    let words = String::from_utf8_lossy(&words).replace('\0', " ");
    words.trim_end().chars().take(LONGEST_NAME).collect()
}

/// The environment variable that identifies all processes of the scenario, and no others.
fn home(stage: &Stage) -> OsString {
    let mut variable = OsString::from("HOME=");
    variable.push(&stage.home);
    variable
}

/// Quotes a path for a shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.to_string_lossy().replace('\'', r"'\''"))
}
