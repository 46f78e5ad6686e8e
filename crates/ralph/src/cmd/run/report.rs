//! The report at the end of a run: one line that a person can forward, then the evidence and the next step.

use super::bar::{of_most, open};
use super::grants;
use super::screen::{line_of, wrapped};
use crate::term::{self, paint};
use crate::wording::safe;
use ralph_core::limits::{duration, money};
use ralph_core::status::Status;
use ralph_core::text;
use ralph_drive::told::Report;

/// How many files, commits or open requirements are named; the rest is counted.
const SHOWN: usize = 6;
/// How many met requirements are named.
const SHOWN_MET: usize = 16;
/// Indents the continuation of the first line.
const INDENT: &str = "  ";
const LONGEST_TITLE: usize = 200;
const LONGEST_REASON: usize = 400;
/// Long enough for paths, which must stay complete to be copied.
const LONGEST_ADVICE: usize = 2_000;

/// How the first line is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum First {
    /// Wrapped at words, for a terminal.
    Wrapped,
    /// On one line, for pipes and files.
    Whole,
}

/// Renders the report. `gates` are the names of the run's gates.
pub(super) fn told(report: &Report, gates: &[String], (columns, first): (usize, First)) -> String {
    let mut out = head(report, gates, (columns, first));
    let met: Vec<_> = report.met.iter().map(|name| safe(name)).collect();
    if !met.is_empty() {
        out.push_str(&line_of(&paint(term::GOOD, "✓"), "met", &listed(&met, SHOWN_MET), columns));
    }
    for one in report.open.iter().take(SHOWN) {
        let text = format!("{}: {}", safe(&one.name), safe(&one.note));
        out.push_str(&line_of(
            &paint(term::BAD, "✗"),
            "open",
            text.trim_end_matches(": "),
            columns,
        ));
    }
    if report.open.len() > SHOWN {
        let more = format!("and {} more", report.open.len() - SHOWN);
        out.push_str(&line_of(" ", "", &more, columns));
    }
    if let Some(refused) = grants::refused(&report.denied) {
        out.push_str(&line_of(&paint(term::BAD, "✗"), "denied", &refused, columns));
    }
    for (label, text) in lines(report) {
        out.push_str(&line_of(" ", label, &text, columns));
    }
    out
}

/// The results of the run, and the next step.
fn lines(report: &Report) -> Vec<(&'static str, String)> {
    let files: Vec<_> = report.files.iter().map(|path| format!("`{}`", safe(path))).collect();
    let commits: Vec<_> = report.commits.iter().map(|commit| safe(commit)).collect();
    let checkpoint = report.checkpoint.as_ref().map(|name| safe(name));
    let foreign = |text: &String| text::line(text, LONGEST_ADVICE);
    let lines = [
        ("files", (!files.is_empty()).then(|| listed(&files, SHOWN))),
        ("commits", (!commits.is_empty()).then(|| listed(&commits, SHOWN))),
        ("work", uncommitted(report)),
        ("saved", checkpoint.map(|name| format!("as checkpoint {name}"))),
        ("tree", report.settled.as_ref().or(report.unmerged.as_ref()).map(foreign)),
        ("next", report.next.as_ref().map(|next| command(&foreign(next)))),
    ];
    lines.into_iter().filter_map(|(label, text)| Some((label, text?))).collect()
}

/// Shown only for work in the person's own tree; for a separate work tree, its own line has it.
fn uncommitted(report: &Report) -> Option<String> {
    let count = report.uncommitted.filter(|count| *count > 0 && report.unmerged.is_none())?;
    let differ = if count == 1 { "differs" } else { "differ" };
    let paths = counted(count, "path");
    Some(format!("{paths} {differ} from the last commit"))
}

/// The first line, wrapped for a terminal.
fn head(report: &Report, gates: &[String], (columns, first): (usize, First)) -> String {
    let sentence = sentence(report, gates);
    let name = report.status.name();
    let text = match first {
        First::Whole => format!("{sentence}\n"),
        First::Wrapped => {
            let lines = wrapped(INDENT, &sentence, columns);
            lines.get(INDENT.len()..).unwrap_or_default().to_string()
        }
    };
    format!("{}{}", paint(style(report.status), name), text.get(name.len()..).unwrap_or_default())
}

fn style(status: Status) -> anstyle::Style {
    match status {
        Status::Verified => term::GOOD,
        Status::Claimed | Status::NeedsHuman | Status::NeedsReview | Status::Cancelled => term::ODD,
        Status::Exhausted
        | Status::Stuck
        | Status::GateBroken
        | Status::RateLimited
        | Status::Overridden
        | Status::Crashed => term::BAD,
    }
}

/// ``verified: upgrade to axum 0.8 — 6 gates on 3f1c2ab, 11 iterations over 3 sessions, 2 h 4 min, $4.10``
fn sentence(report: &Report, gates: &[String]) -> String {
    let standing = &report.standing;
    let passed = report.met.iter().filter(|name| gates.contains(name)).count();
    let mut facts = Vec::new();
    match report.status {
        Status::Verified if passed > 0 => {
            facts.push(evidence(report, passed));
            facts.extend(effort(report));
        }
        // The reason already has the number of iterations and the time.
        Status::Verified | Status::Claimed => facts.push(because(report)),
        Status::Exhausted
        | Status::Stuck
        | Status::NeedsHuman
        | Status::NeedsReview
        | Status::GateBroken
        | Status::RateLimited
        | Status::Overridden
        | Status::Crashed
        | Status::Cancelled => {
            facts.push(because(report));
            facts.extend(open(standing).filter(|_| standing.open != Some(0)));
            facts.extend(effort(report));
        }
    }
    let most = standing.max_cost_micro_usd.filter(|_| report.status == Status::Exhausted);
    let spent = of_most(&money(standing.spent_micro_usd), most.map(money));
    facts.push(match report.assumed_micro_usd {
        0 => spent,
        assumed if assumed >= standing.spent_micro_usd => format!("{spent}, all of it assumed"),
        assumed => format!("{spent}, {} of it assumed", money(assumed)),
    });
    let title = text::line(&report.title, LONGEST_TITLE);
    format!("{}: {title} — {}", report.status.name(), facts.join(", "))
}

fn because(report: &Report) -> String {
    text::line(&report.because, LONGEST_REASON)
}

fn effort(report: &Report) -> [String; 2] {
    let standing = &report.standing;
    let iterations = counted(standing.iteration as usize, "iteration");
    let iterations = match standing.sessions {
        0 | 1 => iterations,
        sessions => format!("{iterations} over {sessions} sessions"),
    };
    [iterations, duration(standing.elapsed_ms)]
}

/// The evidence for a verified end. Names a commit only if the gates passed on exactly that commit.
fn evidence(report: &Report, passed: usize) -> String {
    let gates = counted(passed, "gate");
    match (&report.commit, report.uncommitted) {
        (Some(commit), _) => format!("{gates} on {}", safe(commit)),
        (None, Some(0)) => format!("{gates} on the work tree"),
        (None, Some(_)) => format!("{gates} on the work tree, not committed"),
        (None, None) => gates,
    }
}

fn counted(count: usize, noun: &str) -> String {
    text::counted(u64::try_from(count).unwrap_or(u64::MAX), noun)
}

/// Joins names. Never ends with "and 1 more", because the name would take no more room.
fn listed(names: &[String], most: usize) -> String {
    let most = if names.len() == most + 1 { names.len() } else { most };
    let shown = names.get(..most).unwrap_or(names).join(", ");
    match names.len().saturating_sub(most) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Puts backticks around a command, unless it is a sentence that already has some.
fn command(next: &str) -> String {
    if next.contains('`') { next.to_string() } else { format!("`{next}`") }
}
