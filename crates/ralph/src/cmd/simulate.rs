//! `ralph lab simulate`: plays scenarios against hooks, or makes a scenario from the transcript of a real session.

pub(crate) mod built_in;
mod hook_overrides;
mod scenario_list;
mod scenario_play;
pub(crate) mod simulate_args;
mod simulate_output;

use self::hook_overrides::HookOverrides;
use self::scenario_list::ScenarioSelection;
use self::scenario_play::{PlayedScenario, SimulateContext};
use self::simulate_args::SimulateArgs as Args;
use self::simulate_output::OutputMode;
use super::print_json;
use crate::failure::CommandFailure;
use crate::{FAILURE, SUCCESS, excerpt, term};
use ralph_core::redact::Redactor;
use ralph_deck::wording;
use ralph_host::HostProfile;
use ralph_sim::mismatch::{ExpectationMismatch, TimelineCounts};
use ralph_sim::real_client::{self, RealClientError};
use ralph_sim::scenario::{self, Scenario, ScenarioError, ScenarioStep};
use ralph_sys::env::Env;
use ralph_sys::fs;
use ralph_sys::proc::signals;
use serde::Serialize;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The exit code after Ctrl-C, as in shells.
pub(super) const INTERRUPTED: u8 = 130;
/// Printed after a mismatch with given hooks, which need not be at fault.
const GIVEN_HOOKS_NOTE: &str =
    "· the expectations are for the scenario's own hooks, not for yours\n";
const NO_FILES_NOTE: &str = "the scenario lacks the files of the session: add `copy` or `[files]`, or play it with `--project`";

#[derive(Serialize)]
struct ScenarioSummaryJson<'a> {
    kind: &'static str,
    v: u8,
    path: String,
    scenario: &'a str,
    /// Whether all expectations were met.
    came_true: bool,
    counts: TimelineCounts,
    mismatches: &'a [ExpectationMismatch],
    exit: i32,
    ms: u64,
    /// The scratch directory, if it was kept.
    kept: Option<String>,
}

impl<'a> ScenarioSummaryJson<'a> {
    fn from_played(path: &Path, played: &'a PlayedScenario) -> Self {
        Self {
            kind: "summary",
            v: 1,
            path: path.display().to_string(),
            scenario: &played.name,
            came_true: played.meets_expectations(),
            counts: played.counts,
            mismatches: &played.mismatches,
            exit: played.exit,
            ms: played.ms,
            kept: played.kept.as_ref().map(|root| root.display().to_string()),
        }
    }
}

pub(crate) fn run(env: &Env, args: &Args) -> Result<u8, CommandFailure> {
    if let Some(transcript) = &args.record {
        return record_scenario(transcript);
    }
    let named = scenario_list::select_scenarios(&args.scenarios)?;
    let given = HookOverrides::read(env, args)?;
    for note in &given.notes {
        term::err(&format!("note: {}\n", wording::safe_line(note)));
    }
    let client = args.client.as_deref().map(|name| locate_client(env, name)).transpose()?;
    // Before the first file is created, so that a signal leaves time to clean up.
    let cancel = super::cancel_on_signals()?;
    signals::survive_broken_pipes()
        .map_err(|error| CommandFailure::caused_by("cannot watch for signals", &error))?;
    let world = SimulateContext { env, args, hook_overrides: &given, client, cancel: &cancel };
    let code = match named {
        ScenarioSelection::One(path) => play_alone(&world, &path),
        ScenarioSelection::Several(paths) => scenario_list::play_all(&world, &paths),
    };
    if cancel.is_cancelled() { Ok(INTERRUPTED) } else { code }
}

/// Plays one scenario and prints all that happens in it.
fn play_alone(world: &SimulateContext<'_>, path: &Path) -> Result<u8, CommandFailure> {
    let args = world.args;
    let mode = match (args.quiet, args.json) {
        (true, _) => OutputMode::Quiet,
        (false, true) => OutputMode::Json,
        (false, false) => OutputMode::Text,
    };
    let played = scenario_play::play_scenario(world, path, mode)?;
    for notice in &played.notices {
        term::err(&format!("notice: {notice}\n"));
    }
    let is_over = !world.cancel.is_cancelled();
    if args.json && is_over {
        print_json(&ScenarioSummaryJson::from_played(path, &played))?;
    } else if is_over {
        let gap = if args.quiet { "" } else { "\n" };
        let summary = played.view.summary(&played.counts, played.expectation_result(), played.ms);
        let yours = if !played.meets_expectations() && world.hook_overrides.is_any() {
            GIVEN_HOOKS_NOTE
        } else {
            ""
        };
        term::out(&format!("{gap}{summary}{yours}"))?;
    }
    if let (Some(root), false) = (&played.kept, args.json) {
        term::out(&format!("the files are in {}\n", root.display()))?;
    }
    Ok(if played.meets_expectations() { SUCCESS } else { FAILURE })
}

fn locate_client(env: &Env, name: &Path) -> Result<PathBuf, CommandFailure> {
    let found = real_client::locate_client(Some(name), env.search_path().as_deref());
    let program = found.map_err(|error| not_played_failure(&error))?;
    real_client::client_version(&program).map_err(|error| not_played_failure(&error))?;
    Ok(program)
}

fn not_played_failure(error: &RealClientError) -> CommandFailure {
    let failure = CommandFailure::caused_by("the scenario was not played", error);
    match error.hint() {
        Some(hint) => failure.with_hint(hint),
        None => failure,
    }
}

/// A transcript may hold secrets, which are redacted, and control characters, which TOML escapes.
pub(super) fn record_scenario(transcript: &Path) -> Result<u8, CommandFailure> {
    let recording = ralph_sim::record::record_transcript(transcript).map_err(|error| {
        CommandFailure::caused_by("cannot make a scenario from the transcript", &error)
    })?;
    let text = Redactor::new(Vec::new()).redact(&scenario::write(&recording.scenario));
    for note in &recording.notes {
        term::err(&format!("note: {}\n", wording::safe_line(note)));
    }
    if recording.unreadable_lines > 0 {
        term::err(&format!("note: lines that could not be read: {}\n", recording.unreadable_lines));
    }
    if has_tools(&recording.scenario) {
        term::err(&format!("note: {NO_FILES_NOTE}\n"));
    }
    term::out(&text)?;
    Ok(SUCCESS)
}

fn has_tools(scenario: &Scenario) -> bool {
    scenario.steps.iter().any(|step| match step {
        ScenarioStep::Agent(turn) => !turn.tools.is_empty(),
        ScenarioStep::Person(_)
        | ScenarioStep::Session(_)
        | ScenarioStep::Screen(_)
        | ScenarioStep::Shell(_) => false,
    })
}

pub(super) fn scenario_failure(mistakes: &ScenarioError) -> CommandFailure {
    match mistakes {
        ScenarioError::Invalid(problems) => {
            CommandFailure::in_file("the scenario is invalid", excerpt::render(problems, 0))
        }
        ScenarioError::NotText(_) | ScenarioError::File(_) => {
            CommandFailure::caused_by("the scenario cannot be read", mistakes)
        }
    }
}

/// The host that `ralph-sim` simulates.
pub(super) fn simulated_host() -> &'static HostProfile {
    &ralph_host::claude::PROFILE
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
