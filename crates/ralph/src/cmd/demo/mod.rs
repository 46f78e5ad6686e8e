//! `ralph demo`: a scripted agent that stops too early, held by the real hook.

mod demo_view;

use super::{create_scratch_dir, print_json, simulate};
use crate::failure::CommandFailure;
use crate::term::{self, OutputReader};
use crate::{FAILURE, SUCCESS};
use clap::Args;
use demo_view::DemoView;
use ralph_core::run::RunState;
use ralph_core::{gate, text};
use ralph_deck::view::decisions::run_decision;
use ralph_deck::wording::{self, safe_line};
use ralph_home::paths::RalphHome;
use ralph_hook::overview::{self, DecisionHistory};
use ralph_sim::mismatch::{ExpectationMismatch, ExpectationWatcher, TimelineCounts};
use ralph_sim::scenario::{self, Scenario};
use ralph_sim::scratch::{self, ScenarioCommandContext, ScratchProject};
use ralph_sim::simulator::{self, SimulatorOptions};
use ralph_sim::timeline::TimelineEntry;
use ralph_sys::clock::{self, Stopwatch};
use ralph_sys::env::{self, Env};
use ralph_sys::fs::{self, ConfinedDir};
use ralph_sys::proc::cancel::CancelToken;
use ralph_sys::proc::program_search;
use ralph_sys::proc::signals;
use serde::Serialize;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

#[derive(Args)]
#[command(after_help = "\
Examples:
  ralph demo
  ralph demo --slow
  ralph demo --keep
  ralph demo --json | jq 'select(.kind == \"summary\").stops'

The agent is scripted. The project, its tests, the edits, the hook and
the journal are real, in a scratch directory with a separate home: none
of your files is read or written. It needs git. The exit code is 0 if
the run ended `verified`, 130 if it was interrupted.")]
pub(crate) struct DemoArgs {
    /// Print at reading speed
    #[arg(long, conflicts_with = "json")]
    pub slow: bool,
    /// Keep the scratch directory, and print what to try there
    #[arg(long)]
    pub keep: bool,
    /// Print one JSON object per line, the summary last
    #[arg(long)]
    pub json: bool,
}

const SCENARIO: &str = include_str!("../../../../../scenarios/demo.toml");
/// The status that the run has to end with.
const EXPECTED_STATUS: &str = "verified";

/// How many characters of an expected or found value an error shows.
const MAX_PART_CHARS: usize = 120;

/// The pause after a line with `--slow`, plus [`PER_CHARACTER`] for each of its characters.
const PER_LINE: Duration = Duration::from_millis(200);
const PER_CHARACTER: Duration = Duration::from_millis(10);
/// How often a pause checks for Ctrl-C.
const PAUSE_STEP: Duration = Duration::from_millis(20);

#[derive(Serialize)]
struct DemoSummaryJson<'a> {
    kind: &'static str,
    v: u8,
    scenario: &'a str,
    /// The status of the run at its end.
    status: &'a str,
    run: &'a str,
    counts: TimelineCounts,
    stops: Vec<DemoStopJson<'a>>,
    mismatches: &'a [ExpectationMismatch],
    ms: u64,
    /// The scratch directory, if it was kept.
    kept: Option<String>,
}

#[derive(Serialize)]
struct DemoStopJson<'a> {
    outcome: &'static str,
    rule: &'static str,
    because: &'a str,
    iteration: u32,
    /// How long the client waited.
    ms: u64,
}

/// The result of the demo.
struct DemoResult {
    history: Option<DecisionHistory>,
    status: &'static str,
    counts: TimelineCounts,
    mismatches: Vec<ExpectationMismatch>,
    /// How long the client waited at each stop.
    waits_ms: Vec<u64>,
    ms: u64,
}

pub(crate) fn run(env: &Env, args: &DemoArgs) -> Result<u8, CommandFailure> {
    let usual = env.search_path().unwrap_or_default();
    if program_search::find_program(OsStr::new("git"), Path::new("/"), &usual).is_none() {
        let what = "git was not found; the project of the demo is a repository";
        return Err(CommandFailure::new(what, "install git, or put it on `PATH`"));
    }
    let scenario = scenario::parse(SCENARIO, Path::new("scenarios/demo.toml"))
        .map_err(|mistakes| simulate::scenario_failure(&mistakes))?;
    // Before the first file is created, so that a signal leaves time to clean up.
    let cancel = super::cancel_on_signals()?;
    signals::survive_broken_pipes()
        .map_err(|error| CommandFailure::caused_by("cannot watch for signals", &error))?;
    let root = create_scratch_dir(env, "ralph-demo")?;
    let shown = play_demo(args, &scenario, DemoPlace { root: &root, usual, cancel: &cancel });
    if !args.keep || cancel.is_cancelled() {
        fs::remove_own_dir_tree(&root)?;
    }
    if cancel.is_cancelled() { Ok(simulate::INTERRUPTED) } else { shown }
}

/// The scratch directory and the environment of the demo.
struct DemoPlace<'a> {
    root: &'a Path,
    /// The person's `PATH`.
    usual: OsString,
    cancel: &'a Arc<CancelToken>,
}

fn play_demo(
    args: &DemoArgs,
    scenario: &Scenario,
    place: DemoPlace<'_>,
) -> Result<u8, CommandFailure> {
    let DemoPlace { root, usual, cancel } = place;
    let failed = |error: &dyn std::error::Error| {
        CommandFailure::caused_by("the demo cannot be set up", error)
    };
    let stage = scratch::build(scenario, root).map_err(|error| failed(&error))?;
    let program = env::own_executable();
    let search_path = search_path(&stage, &program, &usual)?;
    let tools = ScenarioCommandContext { program: &program, search_path: &search_path, cancel };
    let mut screen = DemoOutput { args, cancel, reader: Ok(OutputReader::Open) };
    screen.lines(&demo_view::opening_text());
    scratch::run_setup(scenario, &stage, &tools).map_err(|error| failed(&error))?;
    let options = SimulatorOptions { program: &program, search_path, cancel: Arc::clone(cancel) };
    let watch = Stopwatch::start();
    let mut check = ExpectationWatcher::new(&scenario.expect);
    let mut tale = DemoView::default();
    let mut waits_ms = Vec::new();
    simulator::play(scenario, &stage, &options, &mut |entry| {
        check.watch(entry);
        waits_ms.extend(demo_view::wait_ms(entry));
        screen.entry(entry, &mut tale);
    })
    .map_err(|error| CommandFailure::caused_by("the demo cannot be played", &error))?;
    if cancel.is_cancelled() {
        return Ok(simulate::INTERRUPTED);
    }
    let ms = u64::try_from(watch.elapsed().as_millis()).unwrap_or(u64::MAX);
    let (counts, mismatches) = check.finish(&stage);
    let end = add_history(
        &stage,
        DemoResult { history: None, status: "", counts, mismatches, waits_ms, ms },
    )?;
    if args.keep {
        write_demo_script(&stage, &program)?;
    }
    let code = screen.end(scenario, &stage, &end)?;
    screen.reader?;
    Ok(code)
}

/// Links this program as `ralph` and puts the link first on `PATH`, whatever its file name is.
fn search_path(
    stage: &ScratchProject,
    program: &Path,
    usual: &OsStr,
) -> Result<OsString, CommandFailure> {
    let here = Path::new("bin");
    let target = resolve_program(program)?;
    ConfinedDir::open(&stage.root)?.put_link(&here.join("ralph"), &target)?;
    let mut path = stage.root.join(here).into_os_string();
    path.push(":");
    path.push(usual);
    Ok(path)
}

fn resolve_program(program: &Path) -> Result<PathBuf, CommandFailure> {
    let hint = "run it again; its file was just replaced or removed";
    fs::resolve(program)
        .ok_or_else(|| CommandFailure::new("ralph cannot find its own program", hint))
}

/// Writes a script `ralph` that uses the home of the demo, for a person to call.
fn write_demo_script(stage: &ScratchProject, program: &Path) -> Result<(), CommandFailure> {
    let quoted = |path: &Path| gate::shell_quote(&path.to_string_lossy());
    let script = format!(
        "#!/bin/sh\nunset RALPH_HOME RALPH_OFF RALPH_REHEARSAL {}\nHOME={} exec {} \"$@\"\n",
        simulate::simulated_host().variables.config_dir,
        quoted(&stage.home),
        quoted(&resolve_program(program)?)
    );
    fs::replace_with_mode(
        &stage.root.join("ralph"),
        script.as_bytes(),
        fs::SharedFileMode::Executable,
    )?;
    Ok(())
}

/// Adds the history of the run, and a mismatch if it did not end as [`EXPECTED_STATUS`].
fn add_history(stage: &ScratchProject, mut end: DemoResult) -> Result<DemoResult, CommandFailure> {
    let home = RalphHome::new(stage.home.join(".ralph"));
    end.history = overview::find_history(&home, None)?;
    let entries = end.history.as_ref().map(|history| &*history.entries).unwrap_or_default();
    end.status = RunState::replay(entries)
        .map_or("without a run", |(_, state)| wording::standing(&state, state.phase));
    if end.status != EXPECTED_STATUS {
        end.mismatches.push(ExpectationMismatch {
            what: "status".to_owned(),
            expected: EXPECTED_STATUS.to_owned(),
            found: end.status.to_owned(),
        });
    }
    Ok(end)
}

/// Prints the demo as it happens.
struct DemoOutput<'a> {
    args: &'a DemoArgs,
    cancel: &'a CancelToken,
    /// After a failed write, nothing more is printed.
    reader: Result<OutputReader, CommandFailure>,
}

impl DemoOutput<'_> {
    fn entry(&mut self, entry: &TimelineEntry, tale: &mut DemoView) {
        if !self.args.json {
            self.lines(&tale.render(entry));
        } else if self.is_read() {
            self.reader = print_json(entry);
        }
    }

    fn lines(&mut self, text: &str) {
        self.print_lines(text, |line| term::fit(line, term::columns()));
    }

    /// Cuts no line off, so that commands can be pasted.
    fn whole_lines(&mut self, text: &str) {
        self.print_lines(text, str::to_owned);
    }

    fn print_lines(&mut self, text: &str, shorten: fn(&str) -> String) {
        if self.args.json {
            return;
        }
        for line in text.lines() {
            if !self.is_read() {
                return;
            }
            let line = shorten(line);
            self.reader = term::out(&format!("{line}\n"));
            if self.args.slow {
                self.pause(&line);
            }
        }
    }

    fn is_read(&self) -> bool {
        matches!(self.reader, Ok(OutputReader::Open)) && !self.cancel.is_cancelled()
    }

    fn pause(&self, line: &str) {
        let length = u32::try_from(term::text_width(line)).unwrap_or_default();
        let deadline = clock::Deadline::after(PER_LINE + PER_CHARACTER * length);
        while !deadline.has_passed() && !self.cancel.is_cancelled() {
            clock::sleep(PAUSE_STEP.min(deadline.remaining()));
        }
    }

    fn end(
        &mut self,
        scenario: &Scenario,
        stage: &ScratchProject,
        end: &DemoResult,
    ) -> Result<u8, CommandFailure> {
        let kept = self.args.keep.then(|| stage.root.display().to_string());
        let run = end.history.as_ref().map(|history| &*history.name).unwrap_or_default();
        if self.args.json {
            if self.is_read() {
                self.reader = print_json(&DemoSummaryJson {
                    kind: "summary",
                    v: 1,
                    scenario: &scenario.name,
                    status: end.status,
                    run,
                    counts: end.counts,
                    stops: stops_json(end),
                    mismatches: &end.mismatches,
                    ms: end.ms,
                    kept,
                });
            }
            return Ok(if end.mismatches.is_empty() { SUCCESS } else { FAILURE });
        }
        self.lines(&demo_view::count_text(&end.counts, &end.waits_ms));
        self.lines(&end.history.as_ref().map(demo_view::decisions_text).unwrap_or_default());
        if let Some(root) = &kept {
            self.whole_lines(&demo_view::kept_text(root, run));
        }
        match end.mismatches.first() {
            None => {
                self.lines(&demo_view::closing_text());
                Ok(SUCCESS)
            }
            Some(ExpectationMismatch { what, expected, found }) => {
                let part = |text: &str| text::clean_line(&safe_line(text), MAX_PART_CHARS);
                let what = format!(
                    "the demo ended {}, unexpectedly: `{}`: expected {}, found {}",
                    end.status,
                    part(what),
                    part(expected),
                    part(found)
                );
                let hint = "`ralph demo --keep` keeps the files";
                Err(CommandFailure::new(&what, hint))
            }
        }
    }
}

fn stops_json(end: &DemoResult) -> Vec<DemoStopJson<'_>> {
    let entries = end.history.iter().flat_map(|history| &history.entries);
    let decisions = entries.filter_map(run_decision);
    decisions
        .zip(&end.waits_ms)
        .map(|((entry, decided), ms)| DemoStopJson {
            outcome: wording::decision_outcome(decided),
            rule: decided.rule.name(),
            because: &decided.because,
            iteration: entry.iteration,
            ms: *ms,
        })
        .collect()
}
