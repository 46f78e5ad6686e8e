//! The program that a runner starts as its agent: it writes its number down, and becomes the client.

use crate::scenario::{self, Scenario};
use crate::stage::Stage;
use ralph_sys::clock::{self, Deadline};
use ralph_sys::fs::{self, FileError, Mode};
use ralph_sys::proc::talk;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

const LARGEST: usize = 1024 * 1024;
/// Whoever was killed takes a moment to be gone.
const GONE: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(20);
const LONGEST_NAME: usize = 200;

pub(super) fn place(stage: &Stage) -> PathBuf {
    stage.root.join("agent")
}

fn numbers(stage: &Stage) -> PathBuf {
    stage.root.join("agents")
}

/// Where a pretended client keeps how far the script is.
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

/// How a pretended client is called that plays the scenario, whichever process of it asks.
fn pretended(scenario: &Scenario, stage: &Stage, program: &Path) -> Result<String, FileError> {
    let path = stage.root.join("scenario.toml");
    // The turns are all that it needs; what stands in other files is on the stage already.
    let turns = Scenario {
        only: Some(scenario::Player::Pretend),
        copy: None,
        plugins: Vec::new(),
        runner: None,
        expect: scenario::Expect::default(),
        ..scenario.clone()
    };
    fs::put(&path, scenario::write(&turns).as_bytes(), Mode::Ordinary)?;
    // Where it is found may be a name for whoever asks.
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

/// Whoever still runs with the home of the stage, after a moment, as it was called.
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

/// Everybody on the stage has it, and nobody else.
fn home(stage: &Stage) -> OsString {
    let mut variable = OsString::from("HOME=");
    variable.push(&stage.home);
    variable
}

/// As a shell reads it.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.to_string_lossy().replace('\'', r"'\''"))
}
