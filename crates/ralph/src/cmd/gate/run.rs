//! `ralph gate run`: runs gates and prints their results in several formats. `ralph feature verify` uses it too.

use super::args::{GateFormat, GateRun};
use super::{approved, named, policy};
use crate::cmd::home;
use crate::live::{self, Board};
use crate::report::Failure;
use crate::term::{self, paint};
use crate::{FAILURE, SUCCESS, wording};
use ralph_core::gate::{Gate, Moment, Outcome, Unknown};
use ralph_core::requirement::{Finding, Stage, Weight};
use ralph_core::text;
use ralph_gates::findings::write;
use ralph_gates::gates::history::History;
use ralph_gates::gates::{self, Content, Course, Order, Place, Ran, Reuse, Seen, Source};
use ralph_git::git;
use ralph_hook::control::Caller;
use ralph_policy::config::Config;
use ralph_policy::trust;
use ralph_sys::clock::Deadline;
use ralph_sys::env::Env;
use ralph_sys::proc::cancel::Cancel;
use ralph_sys::proc::signals;
use std::sync::Arc;
use std::time::Duration;

/// The exit code if a required gate gave no result.
const UNKNOWN: u8 = 4;
pub(crate) const INTERRUPTED: u8 = 130;
const SHOWN_FINDINGS: usize = 5;
const PATIENCE: Duration = Duration::from_mins(1);

pub(crate) fn run(env: &Env, args: &GateRun) -> Result<u8, Failure> {
    let home = home(env)?;
    let config = policy(env, &home, args.project.as_deref())?;
    if args.trust_hash.is_some() && crate::cmd::caller(env) == Caller::Agent {
        let hint = "ask a person to do this in their own terminal";
        return Err(Failure::new("an agent may not approve its own gates", hint));
    }
    let subject = approved(&home, &config, args.trust_hash.as_deref())?;
    let chosen = chosen(&config, args)?;
    let path = trust::recorded_path(&home, &subject);
    let cancel = cancel()?;
    let course = Course {
        place: Place {
            home: &home,
            env,
            project: &config.project,
            content: Content::Tree { exclude: &[home.root().to_path_buf()] },
            environment: &config.policy.environment,
            path: path.as_deref(),
            deadline: Deadline::after(super::LISTING),
        },
        gates: &chosen,
        order: if args.all { Order::All } else { Order::Staged },
        reuse: if args.no_cache { Reuse::Nothing } else { Reuse::Known },
        cancel: &cancel,
        accepts: &Ran::passed,
        watch: &|_| {},
    };
    let format = match args.format {
        None if args.json => GateFormat::Json,
        format => format.unwrap_or(GateFormat::Human),
    };
    let ran = match (term::is_watched(env), format) {
        (true, _) => {
            let board = Board::new(&chosen, &History::read(&home, &config.project));
            live::watch(board, |watch| gates::run(&Course { watch, ..course }))
        }
        (false, GateFormat::Human) => gates::run(&Course { watch: &plain_line, ..course }),
        (false, _) => gates::run(&course),
    };
    show(env, format, &ran)?;
    Ok(if cancel.is_wished() { INTERRUPTED } else { verdict(&ran) })
}

/// A cancellation that Ctrl-C triggers.
pub(crate) fn cancel() -> Result<Arc<Cancel>, Failure> {
    let cancel = Cancel::new()
        .map(Arc::new)
        .map_err(|error| Failure::because("cannot prepare for Ctrl-C", &error))?;
    signals::wish_on_signals(&cancel)
        .map_err(|error| Failure::because("cannot watch for Ctrl-C", &error))?;
    Ok(cancel)
}

/// The exit code: 0 if every required gate passed, 1 if one failed, 4 if one gave no result.
pub(crate) fn verdict(ran: &[Ran]) -> u8 {
    let required = || ran.iter().filter(|ran| ran.gate.weight == Weight::Required);
    if required().any(|ran| ran.report.outcome == Outcome::Failed) {
        FAILURE
    } else if required().any(|ran| !ran.passed()) {
        UNKNOWN
    } else {
        SUCCESS
    }
}

fn chosen<'a>(config: &'a Config, args: &GateRun) -> Result<Vec<&'a Gate>, Failure> {
    let gates = &config.policy.gates;
    if gates.is_empty() {
        let what = format!("no gates are set up for `{}`", config.project.display());
        return Err(Failure::new(
            &what,
            "`ralph gate detect` proposes some and lists missing tools",
        ));
    }
    if !args.names.is_empty() {
        return args.names.iter().map(|name| named(config, name)).collect();
    }
    let on = args.on.unwrap_or(Moment::Stop);
    let mut chosen: Vec<&Gate> = gates
        .iter()
        .filter(|gate| gate.on.contains(&on))
        .filter(|gate| args.stage.is_none_or(|stage| stage == gate.stage))
        .collect();
    if args.changed {
        let changed =
            git::changed_paths(&config.project, &Deadline::after(PATIENCE)).map_err(|why| {
                Failure::new(&format!("cannot determine what changed: {why}"), "omit `--changed`")
            })?;
        chosen.retain(|gate| {
            let globs = [&gate.paths, &gate.when].map(|globs| gates::key::globs_of(globs));
            let reads = |path: &String| globs.iter().any(|globs| globs.is_match(path));
            gate.paths.is_empty() && gate.when.is_empty() || changed.iter().any(reads)
        });
    }
    Ok(chosen)
}

/// Prints one line when a gate ends, for logs and pipes.
pub(crate) fn plain_line(seen: Seen<'_>) {
    if let Seen::Ended(ran) = seen {
        let took = match ran.source {
            Source::Fresh => wording::short_duration(ran.report.took_ms),
            Source::Cached => "cached".to_string(),
            Source::NotRun => "not run".to_string(),
        };
        term::err(&format!(
            "{} {}  {took}\n",
            wording::gate_mark(&ran.report.outcome),
            text::line(&ran.gate.name, 60)
        ));
    }
}

fn show(env: &Env, format: GateFormat, ran: &[Ran]) -> Result<(), Failure> {
    let results: Vec<write::Ran<'_>> = ran.iter().map(told).collect();
    let out = match format {
        GateFormat::Human if env.is_github() => {
            format!("{}{}", human(ran, "gate"), write::github(&results))
        }
        GateFormat::Human => human(ran, "gate"),
        GateFormat::Json => write::json(&results),
        GateFormat::Junit => write::junit(&results),
        GateFormat::Sarif => write::sarif(&results),
        GateFormat::Github => write::github(&results),
        GateFormat::Markdown => write::markdown(&results),
    };
    term::out(&out)?;
    Ok(())
}

pub(crate) fn told(ran: &Ran) -> write::Ran<'_> {
    let cached = match ran.source {
        Source::Cached => write::Cached::Yes,
        Source::Fresh | Source::NotRun => write::Cached::No,
    };
    write::Ran { gate: &ran.gate, report: &ran.report, cached }
}

pub(crate) fn human(ran: &[Ran], noun: &str) -> String {
    let width = ran.iter().map(|ran| ran.gate.name.chars().count()).max().unwrap_or(0);
    let mut out = String::new();
    for stage in Stage::OF_GATES {
        let members: Vec<_> = ran.iter().filter(|ran| ran.gate.stage == stage).collect();
        if members.is_empty() {
            continue;
        }
        out.push_str(&format!("{}\n", paint(term::BOLD, stage.name())));
        for ran in members {
            out.push_str(&one(ran, width));
        }
    }
    out.push_str(&format!("\n{}\n", tally(ran, noun)));
    out
}

fn one(ran: &Ran, width: usize) -> String {
    let report = &ran.report;
    let took = match ran.source {
        Source::Fresh => wording::short_duration(report.took_ms),
        Source::Cached => "cached".to_string(),
        Source::NotRun => String::new(),
    };
    let mut notes = vec![wording::gate_note(report), wording::steadiness(report).to_string()];
    if ran.gate.weight == Weight::Advisory && !ran.passed() {
        notes.push("advisory".to_string());
    }
    notes.retain(|note| !note.is_empty());
    let name = text::line(&ran.gate.name, 60);
    let line = format!(
        "  {} {name:<width$}  {took:>7}  {}",
        wording::gate_mark(&report.outcome),
        notes.join(", ")
    );
    let mut out = format!("{}\n", line.trim_end());
    if report.outcome == Outcome::Failed {
        for finding in report.findings.iter().take(SHOWN_FINDINGS) {
            out.push_str(&format!("      {}\n", place_and_message(finding)));
        }
        let count = usize::try_from(report.finding_count).unwrap_or(usize::MAX);
        let shown = report.findings.len().min(SHOWN_FINDINGS);
        if count > shown {
            out.push_str(&format!("      and {} more\n", count - shown));
        }
    }
    let worth_a_look =
        !matches!(report.outcome, Outcome::Passed | Outcome::Unknown(Unknown::Skipped(_)));
    if let Some(log) = report.log.as_ref().filter(|_| worth_a_look) {
        out.push_str(&format!(
            "      {} `{}`\n",
            paint(term::DIM, "all of it:"),
            text::line(log, 400)
        ));
    }
    out
}

pub(super) fn place_and_message(finding: &Finding) -> String {
    let mut out = String::new();
    if let Some(place) = &finding.place {
        out.push_str(&text::line(&place.file, 120));
        for number in [place.line, place.column].into_iter().map_while(|number| number) {
            out.push_str(&format!(":{number}"));
        }
        out.push_str(": ");
    }
    out.push_str(&text::line(&finding.message, 200));
    if let Some(rule) = &finding.rule {
        out.push_str(&format!(" {}", paint(term::DIM, &format!("[{}]", text::line(rule, 80)))));
    }
    out
}

fn tally(ran: &[Ran], noun: &str) -> String {
    let count = |wanted: &dyn Fn(&Outcome) -> bool| {
        ran.iter().filter(|ran| wanted(&ran.report.outcome)).count()
    };
    let passed = count(&|outcome| *outcome == Outcome::Passed);
    let ending = if ran.len() == 1 { "" } else { "s" };
    let mut parts = vec![format!("{passed} of {} {noun}{ending} passed", ran.len())];
    let failed = count(&|outcome| *outcome == Outcome::Failed);
    let skipped = count(&|outcome| matches!(outcome, Outcome::Unknown(Unknown::Skipped(_))));
    let unknown = ran.len() - passed - failed - skipped;
    for (count, word) in
        [(failed, "failed"), (unknown, "without a result"), (skipped, "not reached")]
    {
        if count > 0 {
            parts.push(format!("{count} {word}"));
        }
    }
    parts.join(", ")
}
