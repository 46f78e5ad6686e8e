//! Plays one scenario, and compares what happened with its expectations.

use super::super::create_scratch_dir;
use super::built_in;
use super::hook_overrides::HookOverrides;
use super::simulate_args::SimulateArgs as Args;
use super::simulate_output::{EntryPrinter, OutputMode};
use super::{not_played_failure, scenario_failure, search_path};
use crate::failure::CommandFailure;
use crate::term;
use crate::timeline_view::{ExpectationResult, TimelineView};
use ralph_sim::mismatch::{ExpectationMismatch, ExpectationWatcher, TimelineCounts};
use ralph_sim::real_client::{self, RealClient};
use ralph_sim::runner_play;
use ralph_sim::scenario::{self, Scenario, ScenarioError, ScenarioExpectations, ScenarioPlayer};
use ralph_sim::scratch::{self, ScenarioCommandContext, ScratchError, ScratchProject};
use ralph_sim::simulator::{self, SimulatorOptions};
use ralph_sim::timeline::{TimelineEntry, TimelineWatcher};
use ralph_sys::clock::Stopwatch;
use ralph_sys::env::{self, Env};
use ralph_sys::proc::cancel::CancelToken;
use ralph_sys::{fs, stdin};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const MAX_SCENARIO_BYTES: usize = 4 * 1024 * 1024;
/// The keys of `[expect]`, in the order of the documentation.
const EXPECT_KEYS: [&str; 17] = [
    "status",
    "endings",
    "results",
    "stops",
    "blocks",
    "requests",
    "reasons",
    "events",
    "exit",
    "iterations",
    "sessions",
    "output",
    "told",
    "files",
    "says",
    "absent",
    "screen",
];
/// The variable that enables teammates in the client.
const TEAMS_VARIABLE: &str = "CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS";

/// What all scenarios of one command share.
pub(super) struct SimulateContext<'a> {
    pub env: &'a Env,
    pub args: &'a Args,
    pub hook_overrides: &'a HookOverrides,
    /// The real client, if `--client` was given.
    pub client: Option<PathBuf>,
    pub cancel: &'a Arc<CancelToken>,
}

pub(super) struct PlayedScenario {
    pub name: String,
    pub counts: TimelineCounts,
    /// In the order of [`EXPECT_KEYS`].
    pub mismatches: Vec<ExpectationMismatch>,
    pub exit: i32,
    pub ms: u64,
    pub view: TimelineView,
    /// The client's notices and remarks on invalid answers, if they were not printed as they came.
    pub notices: Vec<String>,
    /// The scratch directory, if it was kept.
    pub kept: Option<PathBuf>,
    expects: bool,
}

impl PlayedScenario {
    pub(super) fn meets_expectations(&self) -> bool {
        self.mismatches.is_empty()
    }

    pub(super) fn expectation_result(&self) -> ExpectationResult<'_> {
        match self.mismatches.as_slice() {
            [] if self.expects => ExpectationResult::Met,
            [] => ExpectationResult::NothingExpected,
            mismatches => ExpectationResult::Mismatched(mismatches),
        }
    }
}

/// Why this player cannot play the scenario of the file. `None` also if the file cannot be read.
pub(super) fn other_player_of(world: &SimulateContext<'_>, path: &Path) -> Option<CommandFailure> {
    // Stdin can be read only once.
    if path.as_os_str() == "-" {
        return None;
    }
    needs_other_player(world, &read_scenario(world, path).ok()?)
}

fn needs_other_player(world: &SimulateContext<'_>, scenario: &Scenario) -> Option<CommandFailure> {
    let (what, hint) = match (scenario.only, &world.client) {
        (Some(ScenarioPlayer::Pretend), None) if scenario.runner.is_some() => return None,
        (Some(ScenarioPlayer::Pretend), Some(_)) if scenario.runner.is_some() => (
            "the real client cannot play this scenario",
            "omit `--client` to let `ralph lab pretend` play it",
        ),
        (Some(ScenarioPlayer::Client), None) => (
            "only the real client can play this scenario",
            "use `--client`, with `claude` on your `PATH`",
        ),
        (Some(ScenarioPlayer::Simulator), Some(_)) => {
            ("the real client cannot play this scenario", "omit `--client` to simulate it")
        }
        (Some(ScenarioPlayer::Terminal), _) => (
            "this scenario needs the client's terminal",
            "run `cargo xtask e2e` in a checkout of ralph",
        ),
        (Some(ScenarioPlayer::Pretend), _) => (
            "this scenario needs a program that drives the client",
            "use `ralph lab pretend` as the client",
        ),
        (Some(ScenarioPlayer::Client | ScenarioPlayer::Simulator) | None, _) => return None,
    };
    Some(CommandFailure::new(what, hint))
}

pub(super) fn play_scenario(
    world: &SimulateContext<'_>,
    path: &Path,
    mode: OutputMode,
) -> Result<PlayedScenario, CommandFailure> {
    let mut scenario = read_scenario(world, path)?;
    if let Some(failure) = needs_other_player(world, &scenario) {
        return Err(failure);
    }
    world.hook_overrides.apply_to(&mut scenario);
    let root = create_scratch_dir(world.env, "ralph-sim")?;
    let played = play_on_stage(world, &scenario, &root, mode);
    match (played, world.args.keep) {
        (Ok(played), true) => Ok(PlayedScenario { kept: Some(root), ..played }),
        (Err(failure), true) => {
            term::err(&format!("the files are in {}\n", root.display()));
            Err(failure)
        }
        (played, false) => {
            fs::remove_own_dir_tree(&root)?;
            played
        }
    }
}

fn read_scenario(world: &SimulateContext<'_>, path: &Path) -> Result<Scenario, CommandFailure> {
    let read = if path == Path::new("-") {
        let bytes = stdin::read_all(std::io::stdin(), MAX_SCENARIO_BYTES)
            .map_err(|error| CommandFailure::caused_by("the scenario cannot be read", &error))?;
        let text = String::from_utf8(bytes).map_err(|_| ScenarioError::NotText(path.to_owned()));
        text.and_then(|text| scenario::parse(&text, path))
    } else {
        built_in::read_file_or_built_in(path)
    };
    read.map_err(|mistakes| {
        let is_named = path.extension().is_some_and(|extension| extension == "toml");
        match (&mistakes, &world.args.client) {
            (ScenarioError::NotText(_) | ScenarioError::File(_), Some(_)) if !is_named => {
                scenario_failure(&mistakes).with_hint("name another client with `--client=PROGRAM`")
            }
            (ScenarioError::Invalid(_) | ScenarioError::NotText(_) | ScenarioError::File(_), _) => {
                scenario_failure(&mistakes)
            }
        }
    })
}

fn play_on_stage(
    world: &SimulateContext<'_>,
    scenario: &Scenario,
    root: &Path,
    mode: OutputMode,
) -> Result<PlayedScenario, CommandFailure> {
    let cancel = world.cancel;
    let stage = scratch::build(scenario, root).map_err(|error| set_up_failure(&error))?;
    if let Some(scripts) = &world.hook_overrides.scripts {
        scratch::copy_user_scripts(&stage, scripts).map_err(|error| set_up_failure(&error))?;
    }
    let program = env::own_executable();
    let search_path = search_path(world.env, &program);
    let tools = ScenarioCommandContext { program: &program, search_path: &search_path, cancel };
    scratch::run_setup(scenario, &stage, &tools).map_err(|error| set_up_failure(&error))?;
    let options = SimulatorOptions {
        program: &program,
        search_path: search_path.clone(),
        cancel: Arc::clone(cancel),
    };
    let watch = Stopwatch::start();
    let mut check = ExpectationWatcher::new(&scenario.expect);
    let mut show = EntryPrinter::new(mode, &stage);
    let mut watcher = |entry: &TimelineEntry| {
        check.watch(entry);
        // After a cancellation, entries are not results of the scenario.
        if !cancel.is_cancelled() {
            show.print_entry(entry);
        }
    };
    let (mut alive, mut output) = (Vec::new(), String::new());
    let exit = match &world.client {
        client if scenario.runner.is_some() => {
            let driven =
                runner_play::play(scenario, &stage, &tools, client.as_deref(), &mut watcher)
                    .map_err(|error| {
                        CommandFailure::caused_by("the scenario cannot be played", &error)
                    })?;
            output = driven.output;
            alive = driven.leftover_processes;
            driven.code
        }
        None => {
            simulator::play(scenario, &stage, &options, &mut watcher)
                .map_err(|error| {
                    CommandFailure::caused_by("the scenario cannot be played", &error)
                })?
                .exit
        }
        Some(program) => {
            let client = RealClient { program, search_path: &options.search_path, cancel };
            play_real_client(scenario, &stage, &client, &mut watcher)?
        }
    };
    check.check_leftover_processes(&alive);
    check.check_output(&output);
    check
        .check_command_output(|command| scratch::command_output(command, scenario, &stage, &tools));
    let ms = u64::try_from(watch.elapsed().as_millis()).unwrap_or(u64::MAX);
    let (counts, mut mismatches) = check.finish(&stage);
    mismatches.sort_by_key(|mismatch| key_position(&mismatch.what));
    let expects = scenario.expect != ScenarioExpectations::default();
    let (name, kept) = (scenario.name.clone(), None);
    let EntryPrinter { view: story, notices, reader, .. } = show;
    reader?;
    Ok(PlayedScenario { name, counts, mismatches, exit, ms, view: story, notices, kept, expects })
}

/// The exit code of a real client.
fn play_real_client(
    scenario: &Scenario,
    stage: &ScratchProject,
    client: &RealClient<'_>,
    watcher: &mut TimelineWatcher<'_>,
) -> Result<i32, CommandFailure> {
    if scenario.env.get(TEAMS_VARIABLE).is_some_and(|value| value == "1") {
        let text =
            "only the client's terminal has teammates: headless, as here, they are subagents";
        watcher(&TimelineEntry::Notice { text: text.to_owned() });
    }
    let played = real_client::play(scenario, stage, client, watcher);
    played.map(|outcome| outcome.code).map_err(|error| not_played_failure(&error))
}

fn set_up_failure(error: &ScratchError) -> CommandFailure {
    let failure = CommandFailure::caused_by("the scenario cannot be set up", error);
    match error {
        ScratchError::TooMany(_) => failure.with_hint("name a copy without build output"),
        ScratchError::File(_) | ScratchError::SetUp { .. } => failure,
    }
}

/// The position of the key of `reasons[0]` or `files.a.txt` in [`EXPECT_KEYS`].
fn key_position(what: &str) -> usize {
    let key = what.split(['[', '.']).next().unwrap_or_default();
    EXPECT_KEYS.iter().position(|known| *known == key).unwrap_or(EXPECT_KEYS.len())
}
