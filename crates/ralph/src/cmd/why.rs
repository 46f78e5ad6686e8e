//! `ralph why`: for every decision, the rule that matched and the evidence.

use super::home;
use crate::cli::Why;
use crate::driven;
use crate::report::Failure;
use crate::term::{self, Reader, paint};
use crate::wording::{self, safe};
use ralph_core::limits;
use ralph_core::record::{Change, Decided, Entry, Line, Outcome, Part, Report, Who};
use ralph_core::run::{Phase, State};
use ralph_home::journal::Break;
use ralph_hook::overview::{self, History, Of};
use ralph_sys::clock;
use ralph_sys::env::Env;
use serde::Serialize;

/// How many met requirements are named.
const SHOWN_MET: usize = 16;

#[derive(Serialize)]
pub(super) struct DecisionJson<'a> {
    v: u8,
    name: &'a str,
    at: String,
    outcome: &'static str,
    pub(super) rule: &'static str,
    pub(super) because: &'a str,
    charged: bool,
    iteration_before: u32,
    iteration_after: u32,
    requirements: u32,
    unmet: u32,
    unknown: u32,
    pending: u32,
    open: &'a [Line],
    met: &'a [String],
    state: Option<String>,
    tampering: Option<&'a str>,
    reason: Option<&'a str>,
    took_ms: u64,
}

pub(crate) fn run(env: &Env, args: &Why) -> Result<(), Failure> {
    let home = home(env)?;
    let history = overview::history(&home, args.name.as_deref());
    let Some(history) = history.map_err(|error| super::unknown(&home, error))? else {
        let hint = "`ralph start --help` shows how to start a run";
        return Err(Failure::new("no decisions yet", hint));
    };
    let last = usize::try_from(args.last).unwrap_or(usize::MAX);
    if args.json {
        for (entry, subject) in history.entries.iter().filter_map(either).rev().take(last) {
            let reader = match subject {
                Told::Run(decided) => super::print_json(&json(&history, entry, decided))?,
                Told::Part(part) => super::print_json(&part_json(&history, entry, part))?,
            };
            if reader == Reader::Gone {
                break;
            }
        }
        return Ok(());
    }
    term::out(&shown(&history, last))?;
    Ok(())
}

/// The last decisions, newest first, after a damaged journal, the status lines and open remarks.
pub(crate) fn shown(history: &History, last: usize) -> String {
    let decisions: Vec<_> = history.entries.iter().filter_map(either).rev().take(last).collect();
    let mut out = String::new();
    if let Some(broken) = &history.broken {
        out.push_str(&broken_line(broken));
    }
    let replayed = State::replay(&history.entries);
    if let Some((run, state)) = &replayed {
        let settled = driven::settled(&history.entries);
        let driven = driven::lines(run, state, state.phase, settled.as_deref());
        for line in driven.into_iter().chain(wording::said(state, clock::now_ms())) {
            out.push_str(&format!("{line}\n"));
        }
    }
    if decisions.is_empty() {
        let name = &history.name;
        out.push_str(&match replayed.map(|(_, state)| state.phase) {
            Some(Phase::Ended(status)) => {
                format!("`{name}` was {} before its first stop\n", status.name())
            }
            _ => format!("no decisions about `{name}` yet: its session has not stopped\n"),
        });
    }
    if let Some(class) = history.entries.last().and_then(trouble) {
        out.push_str(&format!("the last turn ended by {}: no decision was needed\n", safe(class)));
    }
    for (entry, subject) in decisions {
        out.push_str(&match subject {
            Told::Run(decided) => paragraph(history, entry, decided),
            Told::Part(part) => part_paragraph(entry, part),
        });
    }
    out
}

/// A decision about the run, or about a part of its work.
#[derive(Clone, Copy)]
enum Told<'a> {
    Run(&'a Decided),
    Part(&'a Part),
}

fn either(entry: &Entry) -> Option<(&Entry, Told<'_>)> {
    if let Change::Part(part) = &entry.change {
        return Some((entry, Told::Part(part)));
    }
    decision(entry).map(|(entry, decided)| (entry, Told::Run(decided)))
}

/// Renders every decision about the run, newest first.
pub(super) fn told(history: &History) -> String {
    let decisions = history.entries.iter().rev().filter_map(decision);
    decisions.map(|(entry, decided)| paragraph(history, entry, decided)).collect()
}

pub(super) fn newest(history: &History) -> Option<DecisionJson<'_>> {
    let (entry, decided) = history.entries.iter().rev().find_map(decision)?;
    Some(json(history, entry, decided))
}

fn trouble(entry: &Entry) -> Option<&str> {
    if let Change::Trouble { class } = &entry.change { Some(class) } else { None }
}

pub(super) fn decision(entry: &Entry) -> Option<(&Entry, &Decided)> {
    if let Change::Decided(decided) = &entry.change { Some((entry, decided)) } else { None }
}

pub(crate) fn broken_line(broken: &Break) -> String {
    let what = match broken {
        Break::Torn => {
            "the last line is incomplete, because a process died while writing it; it is ignored"
                .to_string()
        }
        Break::Chain { line } => {
            format!("the journal was edited: line {line} does not continue the one before it")
        }
    };
    format!("{} {what}\n", paint(term::ODD, "?"))
}

/// The first line of a decision: time, outcome, rule and reason.
pub(super) fn head(history: &History, entry: &Entry, decided: &Decided) -> String {
    let charged = match decided.outcome {
        Outcome::Blocked { .. } | Outcome::HandedOver if history.of == Of::Run => {
            format!("iteration {}", entry.iteration)
        }
        Outcome::Blocked { .. }
        | Outcome::Awaited { .. }
        | Outcome::HandedOver
        | Outcome::Allowed
        | Outcome::Repeated
        | Outcome::Orphaned
        | Outcome::Ended(_) => "not charged".to_string(),
    };
    format!(
        "{}  {:<9} rule {:<14} {}   {}\n",
        wording::when(entry.at_ms),
        wording::outcome(decided),
        format!("`{}`", decided.rule.name()),
        safe(&decided.because),
        paint(term::DIM, &format!("{charged} · {}", limits::duration(decided.took_ms))),
    )
}

fn paragraph(history: &History, entry: &Entry, decided: &Decided) -> String {
    let mut out = head(history, entry, decided);
    if let Some(what) = &decided.tampering {
        out.push_str(&format!("          {} {}\n", paint(term::BAD, "✗"), safe(what)));
    }
    if let Some(report) = &decided.report {
        out.push_str(&evidence(report));
    }
    out
}

fn part_paragraph(entry: &Entry, part: &Part) -> String {
    let counted = format!("hold {} of {}", part.holds, part.max_holds);
    let mut out = format!(
        "{}  {:<9} rule {:<14} {}: {}   {}\n",
        wording::when(entry.at_ms),
        part.rule.outcome(),
        format!("`{}`", part.rule.name()),
        wording::part(part),
        safe(&part.because),
        paint(term::DIM, &format!("{counted} · {}", limits::duration(part.took_ms))),
    );
    if let Some(report) = &part.report {
        out.push_str(&evidence(report));
    }
    out
}

fn evidence(report: &Report) -> String {
    let mut out = String::new();
    for line in report.lines.iter().take(12) {
        out.push_str(&format!(
            "          {} {:<20} {}\n",
            wording::mark(line.standing),
            safe(&line.name),
            safe(&line.note)
        ));
        if let Some(first) = &line.first {
            out.push_str(&format!("            {}\n", paint(term::DIM, &safe(first))));
        }
    }
    let open = report.open();
    if open > 12 {
        out.push_str(&format!("          {} and {} more\n", paint(term::BAD, "✗"), open - 12));
    }
    let met = report.total.saturating_sub(open);
    if met > 0 {
        let names: Vec<_> = report.met.iter().take(SHOWN_MET).map(|name| safe(name)).collect();
        let more = met.saturating_sub(u32::try_from(names.len()).unwrap_or(u32::MAX));
        let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
        let names = names.join(", ");
        out.push_str(&format!("          {} {names}{rest}\n", paint(term::GOOD, "✓")));
    }
    out
}

/// A decision about a subagent, teammate or task. `charged` is always false: it does not count as an iteration.
#[derive(Serialize)]
struct PartJson<'a> {
    v: u8,
    name: &'a str,
    at: String,
    outcome: &'static str,
    rule: &'static str,
    because: &'a str,
    part: &'a Who,
    chunk: Option<&'a str>,
    holds: u32,
    max_holds: u32,
    charged: bool,
    iteration_before: u32,
    iteration_after: u32,
    requirements: u32,
    unmet: u32,
    unknown: u32,
    pending: u32,
    open: &'a [Line],
    met: &'a [String],
    reason: Option<&'a str>,
    took_ms: u64,
}

fn part_json<'a>(history: &'a History, entry: &Entry, part: &'a Part) -> PartJson<'a> {
    let report = part.report.as_ref();
    PartJson {
        v: 1,
        name: &history.name,
        at: clock::rfc3339(entry.at_ms),
        outcome: part.rule.outcome(),
        rule: part.rule.name(),
        because: &part.because,
        part: &part.who,
        chunk: part.chunk.as_deref(),
        holds: part.holds,
        max_holds: part.max_holds,
        charged: false,
        iteration_before: entry.iteration,
        iteration_after: entry.iteration,
        requirements: report.map_or(0, |report| report.total),
        unmet: report.map_or(0, |report| report.unmet),
        unknown: report.map_or(0, |report| report.unknown),
        pending: report.map_or(0, |report| report.pending),
        open: report.map_or(&[], |report| &report.lines),
        met: report.map_or(&[], |report| &report.met),
        reason: part.reason.as_deref(),
        took_ms: part.took_ms,
    }
}

fn json<'a>(history: &'a History, entry: &Entry, decided: &'a Decided) -> DecisionJson<'a> {
    let report = decided.report.as_ref();
    let reason = match &decided.outcome {
        Outcome::Blocked { reason } | Outcome::Awaited { reason } => Some(reason.as_str()),
        Outcome::Allowed
        | Outcome::HandedOver
        | Outcome::Repeated
        | Outcome::Orphaned
        | Outcome::Ended(_) => None,
    };
    let is_charged = matches!(decided.outcome, Outcome::Blocked { .. } | Outcome::HandedOver);
    let charged = is_charged && history.of == Of::Run;
    DecisionJson {
        v: 1,
        name: &history.name,
        at: clock::rfc3339(entry.at_ms),
        outcome: wording::outcome(decided),
        rule: decided.rule.name(),
        because: &decided.because,
        charged,
        iteration_before: entry.iteration.saturating_sub(u32::from(charged)),
        iteration_after: entry.iteration,
        requirements: report.map_or(0, |report| report.total),
        unmet: report.map_or(0, |report| report.unmet),
        unknown: report.map_or(0, |report| report.unknown),
        pending: report.map_or(0, |report| report.pending),
        open: report.map_or(&[], |report| &report.lines),
        met: report.map_or(&[], |report| &report.met),
        state: decided.mark.map(|mark| format!("{:016x}", mark.0)),
        tampering: decided.tampering.as_deref(),
        reason,
        took_ms: decided.took_ms,
    }
}
