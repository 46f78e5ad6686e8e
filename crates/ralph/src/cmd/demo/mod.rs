//! `ralph demo`: a scripted agent that stops too early, held by the real hook.

mod tell;

use super::{print_json, scratch, simulate, why};
use crate::report::Failure;
use crate::term::{self, Reader};
use crate::wording::{self, safe};
use crate::{FAILURE, SUCCESS};
use clap::Args;
use ralph_core::run::State;
use ralph_core::{gate, text};
use ralph_gates::gates::tools;
use ralph_home::paths::Home;
use ralph_hook::overview::{self, History};
use ralph_sim::check::{Check, Counts, Mismatch};
use ralph_sim::query::{self, Options};
use ralph_sim::scenario::{self, Scenario};
use ralph_sim::stage::{self, Stage, Tools};
use ralph_sim::timeline::Entry;
use ralph_sys::clock::{self, Stopwatch};
use ralph_sys::env::{self, Env};
use ralph_sys::fs::{self, Inside};
use ralph_sys::proc::cancel::Cancel;
use ralph_sys::proc::signals;
use serde::Serialize;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tell::Tale;

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
pub(crate) struct Demo {
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
const HAPPY_END: &str = "verified";

/// How many characters of an expected or found value an error shows.
const LONGEST_PART: usize = 120;

/// The pause after a line with `--slow`, plus [`PER_CHARACTER`] for each of its characters.
const PER_LINE: Duration = Duration::from_millis(200);
const PER_CHARACTER: Duration = Duration::from_millis(10);
/// How often a pause checks for Ctrl-C.
const NAP: Duration = Duration::from_millis(20);

#[derive(Serialize)]
struct SummaryJson<'a> {
    kind: &'static str,
    v: u8,
    scenario: &'a str,
    /// The status of the run at its end.
    status: &'a str,
    run: &'a str,
    counts: Counts,
    stops: Vec<StopJson<'a>>,
    mismatches: &'a [Mismatch],
    ms: u64,
    /// The scratch directory, if it was kept.
    kept: Option<String>,
}

#[derive(Serialize)]
struct StopJson<'a> {
    outcome: &'static str,
    rule: &'static str,
    because: &'a str,
    iteration: u32,
    /// How long the client waited.
    ms: u64,
}

/// The result of the demo.
struct End {
    history: Option<History>,
    status: &'static str,
    counts: Counts,
    mismatches: Vec<Mismatch>,
    /// How long the client waited at each stop.
    waits_ms: Vec<u64>,
    ms: u64,
}

pub(crate) fn run(env: &Env, args: &Demo) -> Result<u8, Failure> {
    let usual = env.search_path().unwrap_or_default();
    if tools::find(OsStr::new("git"), Path::new("/"), &usual).is_none() {
        let what = "git was not found; the project of the demo is a repository";
        return Err(Failure::new(what, "install git, or put it on `PATH`"));
    }
    let scenario = scenario::parse(SCENARIO, Path::new("scenarios/demo.toml"))
        .map_err(|mistakes| simulate::failure(&mistakes))?;
    let cancel = Cancel::new().map(Arc::new);
    let cancel = cancel.map_err(|error| Failure::because("cannot wait for hooks", &error))?;
    // Before the first file is created, so that a signal leaves time to clean up.
    signals::wish_on_signals(&cancel)
        .and_then(|()| signals::outlive_readers())
        .map_err(|error| Failure::because("cannot listen for signals", &error))?;
    let root = scratch(env, "ralph-demo")?;
    let shown = show(args, &scenario, Place { root: &root, usual, cancel: &cancel });
    if !args.keep || cancel.is_wished() {
        fs::remove_made_dir(&root)?;
    }
    if cancel.is_wished() { Ok(simulate::INTERRUPTED) } else { shown }
}

/// The scratch directory and the environment of the demo.
struct Place<'a> {
    root: &'a Path,
    /// The person's `PATH`.
    usual: OsString,
    cancel: &'a Arc<Cancel>,
}

fn show(args: &Demo, scenario: &Scenario, place: Place<'_>) -> Result<u8, Failure> {
    let Place { root, usual, cancel } = place;
    let failed =
        |error: &dyn std::error::Error| Failure::because("the demo cannot be set up", error);
    let stage = stage::build(scenario, root).map_err(|error| failed(&error))?;
    let program = env::this_program();
    let search_path = search_path(&stage, &program, &usual)?;
    let tools = Tools { program: &program, search_path: &search_path, cancel };
    let mut screen = Screen { args, cancel, reader: Ok(Reader::There) };
    screen.lines(&tell::opening());
    stage::set_up(scenario, &stage, &tools).map_err(|error| failed(&error))?;
    let options = Options { program: &program, search_path, cancel: Arc::clone(cancel) };
    let watch = Stopwatch::start();
    let mut check = Check::new(&scenario.expect);
    let mut tale = Tale::default();
    let mut waits_ms = Vec::new();
    query::play(scenario, &stage, &options, &mut |entry| {
        check.watch(entry);
        waits_ms.extend(tell::wait_ms(entry));
        screen.entry(entry, &mut tale);
    })
    .map_err(|error| Failure::because("the demo cannot be played", &error))?;
    if cancel.is_wished() {
        return Ok(simulate::INTERRUPTED);
    }
    let ms = u64::try_from(watch.elapsed().as_millis()).unwrap_or(u64::MAX);
    let (counts, mismatches) = check.finish(&stage);
    let end = judged(&stage, End { history: None, status: "", counts, mismatches, waits_ms, ms })?;
    if args.keep {
        put_program(&stage, &program)?;
    }
    let code = screen.end(scenario, &stage, &end)?;
    screen.reader?;
    Ok(code)
}

/// Links this program as `ralph` and puts the link first on `PATH`, whatever its file name is.
fn search_path(stage: &Stage, program: &Path, usual: &OsStr) -> Result<OsString, Failure> {
    let here = Path::new("bin");
    let target = resolved(program)?;
    Inside::open(&stage.root)?.link(&here.join("ralph"), &target)?;
    let mut path = stage.root.join(here).into_os_string();
    path.push(":");
    path.push(usual);
    Ok(path)
}

fn resolved(program: &Path) -> Result<PathBuf, Failure> {
    let hint = "run it again; its file was just replaced or removed";
    fs::resolve(program).ok_or_else(|| Failure::new("ralph cannot find its own program", hint))
}

/// Writes a script `ralph` that uses the home of the demo, for a person to call.
fn put_program(stage: &Stage, program: &Path) -> Result<(), Failure> {
    let quoted = |path: &Path| gate::quoted(&path.to_string_lossy());
    let script = format!(
        "#!/bin/sh\nunset RALPH_HOME RALPH_OFF RALPH_REHEARSAL CLAUDE_CONFIG_DIR\nHOME={} exec {} \"$@\"\n",
        quoted(&stage.home),
        quoted(&resolved(program)?)
    );
    fs::put(&stage.root.join("ralph"), script.as_bytes(), fs::Mode::Program)?;
    Ok(())
}

/// Adds the history of the run, and a mismatch if it did not end as [`EXPECTED_STATUS`].
fn judged(stage: &Stage, mut end: End) -> Result<End, Failure> {
    let home = Home::new(stage.home.join(".ralph"));
    end.history = overview::history(&home, None)?;
    let entries = end.history.as_ref().map(|history| &*history.entries).unwrap_or_default();
    end.status = State::replay(entries)
        .map_or("without a run", |(_, state)| wording::standing(&state, state.phase));
    if end.status != HAPPY_END {
        end.mismatches.push(Mismatch {
            what: "status".to_owned(),
            expected: HAPPY_END.to_owned(),
            found: end.status.to_owned(),
        });
    }
    Ok(end)
}

/// Prints the demo as it happens.
struct Screen<'a> {
    args: &'a Demo,
    cancel: &'a Cancel,
    /// After a failed write, nothing more is printed.
    reader: Result<Reader, Failure>,
}

impl Screen<'_> {
    fn entry(&mut self, entry: &Entry, tale: &mut Tale) {
        if !self.args.json {
            self.lines(&tale.tell(entry));
        } else if self.is_read() {
            self.reader = print_json(entry);
        }
    }

    fn lines(&mut self, text: &str) {
        if self.args.json {
            return;
        }
        for line in text.lines() {
            if !self.is_read() {
                return;
            }
            let line = term::fit(line, term::columns());
            self.reader = term::out(&format!("{line}\n"));
            if self.args.slow {
                self.pause(&line);
            }
        }
    }

    fn is_read(&self) -> bool {
        matches!(self.reader, Ok(Reader::There)) && !self.cancel.is_wished()
    }

    fn pause(&self, line: &str) {
        let length = u32::try_from(tell::width(line)).unwrap_or_default();
        let deadline = clock::Deadline::after(PER_LINE + PER_CHARACTER * length);
        while !deadline.is_over() && !self.cancel.is_wished() {
            clock::pause(NAP.min(deadline.remaining()));
        }
    }

    fn end(&mut self, scenario: &Scenario, stage: &Stage, end: &End) -> Result<u8, Failure> {
        let kept = self.args.keep.then(|| stage.root.display().to_string());
        let run = end.history.as_ref().map(|history| &*history.name).unwrap_or_default();
        if self.args.json {
            if self.is_read() {
                self.reader = print_json(&SummaryJson {
                    kind: "summary",
                    v: 1,
                    scenario: &scenario.name,
                    status: end.status,
                    run,
                    counts: end.counts,
                    stops: stops(end),
                    mismatches: &end.mismatches,
                    ms: end.ms,
                    kept,
                });
            }
            return Ok(if end.mismatches.is_empty() { SUCCESS } else { FAILURE });
        }
        self.lines(&tell::counted(&end.counts, &end.waits_ms));
        self.lines(&end.history.as_ref().map(tell::decisions).unwrap_or_default());
        if let Some(root) = &kept {
            self.lines(&tell::kept(root, run));
        }
        match end.mismatches.first() {
            None => {
                self.lines(&tell::closing());
                Ok(SUCCESS)
            }
            Some(Mismatch { what, expected, found }) => {
                let part = |text: &str| text::line(&safe(text), LONGEST_PART);
                let what = format!(
                    "the demo ended {}, unexpectedly: `{}`: expected {}, found {}",
                    end.status,
                    part(what),
                    part(expected),
                    part(found)
                );
                let hint = "`ralph demo --keep` keeps the files";
                Err(Failure::new(&what, hint))
            }
        }
    }
}

fn stops(end: &End) -> Vec<StopJson<'_>> {
    let entries = end.history.iter().flat_map(|history| &history.entries);
    let decisions = entries.filter_map(why::decision);
    decisions
        .zip(&end.waits_ms)
        .map(|((entry, decided), ms)| StopJson {
            outcome: wording::outcome(decided),
            rule: decided.rule.name(),
            because: &decided.because,
            iteration: entry.iteration,
            ms: *ms,
        })
        .collect()
}
