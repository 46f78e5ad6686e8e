//! Plays one scenario, and compares what happened with its expectations.

use super::super::scratch;
use super::args::Simulate as Args;
use super::hooks::Given;
use super::show::{Show, Telling};
use super::{failure, not_played, search_path};
use crate::report::Failure;
use crate::story::{Judged, Story};
use crate::term;
use ralph_sim::check::{Check, Counts, Mismatch};
use ralph_sim::client::{self, Client};
use ralph_sim::query::{self, Options};
use ralph_sim::runner;
use ralph_sim::scenario::{self, Expect, Mistakes, Player, Scenario};
use ralph_sim::stage::{self, Stage, StageError, Tools};
use ralph_sim::timeline::{Entry, Watcher};
use ralph_sys::clock::Stopwatch;
use ralph_sys::env::{self, Env};
use ralph_sys::proc::cancel::Cancel;
use ralph_sys::{fs, stdin};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const LARGEST_SCENARIO: usize = 4 * 1024 * 1024;
/// The keys of `[expect]`, in the order of the documentation.
const KEYS: [&str; 16] = [
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
    "told",
    "files",
    "says",
    "absent",
    "screen",
];
/// The variable that enables teammates in the client.
const TEAMS: &str = "CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS";

/// What all scenarios of one command share.
pub(super) struct World<'a> {
    pub env: &'a Env,
    pub args: &'a Args,
    pub given: &'a Given,
    /// The real client, if `--client` was given.
    pub client: Option<PathBuf>,
    pub cancel: &'a Arc<Cancel>,
}

pub(super) struct Played {
    pub name: String,
    pub counts: Counts,
    /// In the order of [`EXPECT_KEYS`].
    pub mismatches: Vec<Mismatch>,
    pub exit: i32,
    pub ms: u64,
    pub story: Story,
    /// The client's notices and remarks on invalid answers, if they were not printed as they came.
    pub notices: Vec<String>,
    /// The scratch directory, if it was kept.
    pub kept: Option<PathBuf>,
    expects: bool,
}

impl Played {
    pub(super) fn came_true(&self) -> bool {
        self.mismatches.is_empty()
    }

    pub(super) fn judged(&self) -> Judged<'_> {
        match self.mismatches.as_slice() {
            [] if self.expects => Judged::AsExpected,
            [] => Judged::NothingExpected,
            mismatches => Judged::Otherwise(mismatches),
        }
    }
}

pub(super) fn one(world: &World<'_>, path: &Path, telling: Telling) -> Result<Played, Failure> {
    let mut scenario = read(world, path)?;
    match (scenario.only, &world.client) {
        (Some(Player::Pretend), None) if scenario.runner.is_some() => {}
        (Some(Player::Pretend), Some(_)) if scenario.runner.is_some() => {
            let what = "only the simulated client can play this scenario";
            return Err(Failure::new(what, "omit `--client`"));
        }
        (Some(Player::Client), None) => {
            let what = "only the real client can play this scenario";
            return Err(Failure::new(what, "use `--client`, with `claude` on your `PATH`"));
        }
        (Some(Player::Simulator), Some(_)) => {
            let what = "the real client cannot play this scenario";
            return Err(Failure::new(what, "omit `--client` to simulate it"));
        }
        (Some(Player::Terminal), _) => {
            let what = "this scenario needs the client's terminal";
            return Err(Failure::new(what, "run `cargo xtask e2e` in a checkout of ralph"));
        }
        (Some(Player::Pretend), _) => {
            let what = "this scenario needs a program that drives the client";
            return Err(Failure::new(what, "use `ralph pretend` as the client"));
        }
        (Some(Player::Client | Player::Simulator) | None, _) => {}
    }
    world.given.put_into(&mut scenario);
    let root = scratch(world.env, "ralph-sim")?;
    let played = play(world, &scenario, &root, telling);
    match (played, world.args.keep) {
        (Ok(played), true) => Ok(Played { kept: Some(root), ..played }),
        (Err(failure), true) => {
            term::err(&format!("the files are in {}\n", root.display()));
            Err(failure)
        }
        (played, false) => {
            fs::remove_made_dir(&root)?;
            played
        }
    }
}

fn read(world: &World<'_>, path: &Path) -> Result<Scenario, Failure> {
    let read = if path == Path::new("-") {
        let bytes = stdin::read_all(std::io::stdin(), LARGEST_SCENARIO)
            .map_err(|error| Failure::because("the scenario cannot be read", &error))?;
        let text = String::from_utf8(bytes).map_err(|_| Mistakes::NotText(path.to_owned()));
        text.and_then(|text| scenario::parse(&text, path))
    } else {
        scenario::read(path)
    };
    read.map_err(|mistakes| {
        let is_named = path.extension().is_some_and(|extension| extension == "toml");
        match (&mistakes, &world.args.client) {
            (Mistakes::NotText(_) | Mistakes::File(_), Some(_)) if !is_named => {
                failure(&mistakes).with_hint("name another client with `--client=PROGRAM`")
            }
            (Mistakes::Found(_) | Mistakes::NotText(_) | Mistakes::File(_), _) => {
                failure(&mistakes)
            }
        }
    })
}

fn play(
    world: &World<'_>,
    scenario: &Scenario,
    root: &Path,
    telling: Telling,
) -> Result<Played, Failure> {
    let cancel = world.cancel;
    let stage = stage::build(scenario, root).map_err(|error| not_set_up(&error))?;
    if let Some(scripts) = &world.given.scripts {
        stage::lend(&stage, scripts).map_err(|error| not_set_up(&error))?;
    }
    let program = env::this_program();
    let search_path = search_path(world.env, &program);
    let tools = Tools { program: &program, search_path: &search_path, cancel };
    stage::set_up(scenario, &stage, &tools).map_err(|error| not_set_up(&error))?;
    let options =
        Options { program: &program, search_path: search_path.clone(), cancel: Arc::clone(cancel) };
    let watch = Stopwatch::start();
    let mut check = Check::new(&scenario.expect);
    let mut show = Show::new(telling, &stage);
    let mut watcher = |entry: &Entry| {
        check.watch(entry);
        // After a cancellation, entries are not results of the scenario.
        if !cancel.is_wished() {
            show.entry(entry);
        }
    };
    let mut alive = Vec::new();
    let exit = match &world.client {
        client if scenario.runner.is_some() => {
            let driven = runner::play(scenario, &stage, (&tools, client.as_deref()), &mut watcher)
                .map_err(|error| Failure::because("the scenario cannot be played", &error))?;
            alive = driven.alive;
            driven.code
        }
        None => {
            query::play(scenario, &stage, &options, &mut watcher)
                .map_err(|error| Failure::because("the scenario cannot be played", &error))?
                .exit
        }
        Some(program) => {
            let client = Client { program, search_path: &options.search_path, cancel };
            real(scenario, &stage, &client, &mut watcher)?
        }
    };
    check.left(&alive);
    check.ask(|command| stage::said(command, scenario, &stage, &tools));
    let ms = u64::try_from(watch.elapsed().as_millis()).unwrap_or(u64::MAX);
    let (counts, mut mismatches) = check.finish(&stage);
    mismatches.sort_by_key(|mismatch| place(&mismatch.what));
    let expects = scenario.expect != Expect::default();
    let (name, kept) = (scenario.name.clone(), None);
    let Show { story, notices, .. } = show;
    Ok(Played { name, counts, mismatches, exit, ms, story, notices, kept, expects })
}

/// The exit code of a real client.
fn real(
    scenario: &Scenario,
    stage: &Stage,
    client: &Client<'_>,
    watcher: &mut Watcher<'_>,
) -> Result<i32, Failure> {
    if scenario.env.get(TEAMS).is_some_and(|value| value == "1") {
        let text =
            "only the client's terminal has teammates: headless, as here, they are subagents";
        watcher(&Entry::Notice { text: text.to_owned() });
    }
    let played = client::play(scenario, stage, client, watcher);
    played.map(|outcome| outcome.code).map_err(|error| not_played(&error))
}

fn not_set_up(error: &StageError) -> Failure {
    let failure = Failure::because("the scenario cannot be set up", error);
    match error {
        StageError::TooMany(_) => failure.with_hint("name a copy without build output"),
        StageError::File(_) | StageError::SetUp { .. } => failure,
    }
}

/// The position of the key of `reasons[0]` or `files.a.txt` in [`EXPECT_KEYS`].
fn place(what: &str) -> usize {
    let key = what.split(['[', '.']).next().unwrap_or_default();
    KEYS.iter().position(|known| *known == key).unwrap_or(KEYS.len())
}
