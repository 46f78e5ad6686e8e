//! `ralph simulate`: plays scenarios against hooks, or makes a scenario from the transcript of a real session.

pub(crate) mod args;
mod hooks;
mod play;
mod several;
mod show;

use self::args::Simulate as Args;
use self::hooks::Given;
use self::play::{Played, World};
use self::several::Named;
use self::show::Telling;
use super::print_json;
use crate::report::Failure;
use crate::{FAILURE, SUCCESS, excerpt, term, wording};
use ralph_core::redact::Redactor;
use ralph_sim::check::{Counts, Mismatch};
use ralph_sim::client::{self, ClientError};
use ralph_sim::scenario::{self, Mistakes, Scenario, Step};
use ralph_sys::env::Env;
use ralph_sys::fs;
use ralph_sys::proc::cancel::Cancel;
use ralph_sys::proc::signals;
use serde::Serialize;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The exit code after Ctrl-C, as in shells.
pub(super) const INTERRUPTED: u8 = 130;
/// Printed after a mismatch with given hooks, which need not be at fault.
const YOURS: &str = "· the expectations are for the scenario's own hooks, not for yours\n";
const NO_FILES: &str = "the scenario lacks the files of the session: add `copy` or `[files]`, or play it with `--project`";

#[derive(Serialize)]
struct SummaryJson<'a> {
    kind: &'static str,
    v: u8,
    path: String,
    scenario: &'a str,
    /// Whether all expectations were met.
    came_true: bool,
    counts: Counts,
    mismatches: &'a [Mismatch],
    exit: i32,
    ms: u64,
    /// The scratch directory, if it was kept.
    kept: Option<String>,
}

impl<'a> SummaryJson<'a> {
    fn of(path: &Path, played: &'a Played) -> Self {
        Self {
            kind: "summary",
            v: 1,
            path: path.display().to_string(),
            scenario: &played.name,
            came_true: played.came_true(),
            counts: played.counts,
            mismatches: &played.mismatches,
            exit: played.exit,
            ms: played.ms,
            kept: played.kept.as_ref().map(|root| root.display().to_string()),
        }
    }
}

pub(crate) fn run(env: &Env, args: &Args) -> Result<u8, Failure> {
    if let Some(transcript) = &args.record {
        return record(transcript);
    }
    let named = several::named(&args.scenarios)?;
    let given = Given::read(env, args)?;
    for note in &given.notes {
        term::err(&format!("note: {}\n", wording::safe(note)));
    }
    let client = args.client.as_deref().map(|name| locate(env, name)).transpose()?;
    let cancel = Cancel::new().map(Arc::new);
    let cancel = cancel.map_err(|error| Failure::because("cannot wait for hooks", &error))?;
    // Before the first file is created, so that a signal leaves time to clean up.
    signals::wish_on_signals(&cancel)
        .and_then(|()| signals::outlive_readers())
        .map_err(|error| Failure::because("cannot listen for signals", &error))?;
    let world = World { env, args, given: &given, client, cancel: &cancel };
    let code = match named {
        Named::One(path) => alone(&world, &path),
        Named::Several(paths) => several::play(&world, &paths),
    };
    if cancel.is_wished() { Ok(INTERRUPTED) } else { code }
}

/// Plays one scenario and prints all that happens in it.
fn alone(world: &World<'_>, path: &Path) -> Result<u8, Failure> {
    let args = world.args;
    let telling = match (args.quiet, args.json) {
        (true, _) => Telling::Nothing,
        (false, true) => Telling::Json,
        (false, false) => Telling::Story,
    };
    let played = play::one(world, path, telling)?;
    for notice in &played.notices {
        term::err(&format!("notice: {notice}\n"));
    }
    let is_over = !world.cancel.is_wished();
    if args.json && is_over {
        print_json(&SummaryJson::of(path, &played))?;
    } else if is_over {
        let gap = if args.quiet { "" } else { "\n" };
        let summary = played.story.summary(&played.counts, played.judged(), played.ms);
        let yours = if !played.came_true() && world.given.is_any() { YOURS } else { "" };
        term::out(&format!("{gap}{summary}{yours}"))?;
    }
    if let (Some(root), false) = (&played.kept, args.json) {
        term::out(&format!("the files are in {}\n", root.display()))?;
    }
    Ok(if played.came_true() { SUCCESS } else { FAILURE })
}

fn locate(env: &Env, name: &Path) -> Result<PathBuf, Failure> {
    let found = client::locate(Some(name), env.search_path().as_deref());
    let program = found.map_err(|error| not_played(&error))?;
    client::version(&program).map_err(|error| not_played(&error))?;
    Ok(program)
}

fn not_played(error: &ClientError) -> Failure {
    let failure = Failure::because("the scenario was not played", error);
    match error.hint() {
        Some(hint) => failure.with_hint(hint),
        None => failure,
    }
}

/// A transcript may hold secrets, which are redacted, and control characters, which TOML escapes.
fn record(transcript: &Path) -> Result<u8, Failure> {
    let recording = ralph_sim::record::record(transcript)
        .map_err(|error| Failure::because("cannot make a scenario from the transcript", &error))?;
    let text = Redactor::new(Vec::new()).redact(&scenario::write(&recording.scenario));
    for note in &recording.notes {
        term::err(&format!("note: {}\n", wording::safe(note)));
    }
    if recording.broken > 0 {
        term::err(&format!("note: lines that could not be read: {}\n", recording.broken));
    }
    if has_tools(&recording.scenario) {
        term::err(&format!("note: {NO_FILES}\n"));
    }
    term::out(&text)?;
    Ok(SUCCESS)
}

fn has_tools(scenario: &Scenario) -> bool {
    scenario.steps.iter().any(|step| match step {
        Step::Agent(turn) => !turn.tools.is_empty(),
        Step::Person(_) | Step::Session(_) | Step::Screen(_) => false,
    })
}

pub(super) fn failure(mistakes: &Mistakes) -> Failure {
    match mistakes {
        Mistakes::Found(problems) => {
            Failure::in_file("the scenario is invalid", excerpt::render(problems, 0))
        }
        Mistakes::NotText(_) | Mistakes::File(_) => {
            Failure::because("the scenario cannot be read", mistakes)
        }
    }
}

/// Puts the directory of this program first, so that `ralph` in a scenario is this program.
pub(super) fn search_path(env: &Env, program: &Path) -> OsString {
    let usual = env.search_path().unwrap_or_default();
    let program = fs::resolve(program).unwrap_or_else(|| program.to_owned());
    match program.parent() {
        Some(directory) if program.file_name().is_some_and(|name| name == "ralph") => {
            let mut path = directory.as_os_str().to_owned();
            path.push(":");
            path.push(&usual);
            path
        }
        Some(_) | None => usual,
    }
}
