//! How it ended: one line that a person can forward, then what it rests on and what to do next.

use super::bar::{of_most, open};
use super::screen::line_of;
use crate::term::{self, paint};
use crate::wording::safe;
use ralph_core::limits::{duration, money};
use ralph_core::status::Status;
use ralph_core::text;
use ralph_drive::told::Report;

/// So many files, commits or requirements are named, the rest is counted.
const SHOWN: usize = 6;
const LONGEST_TITLE: usize = 200;
const LONGEST_REASON: usize = 400;

/// `gates` are those that the run began with.
pub(super) fn told(report: &Report, gates: &[String], columns: usize) -> String {
    let mut out = format!("{}\n", sentence(report, gates));
    let met: Vec<_> = report.met.iter().map(|name| safe(name)).collect();
    if !met.is_empty() {
        out.push_str(&line_of(&paint(term::GOOD, "✓"), "met", &listed(&met), columns));
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
    let files: Vec<_> = report.files.iter().map(|path| format!("`{}`", safe(path))).collect();
    let commits: Vec<_> = report.commits.iter().map(|commit| safe(commit)).collect();
    let checkpoint = report.checkpoint.as_ref().map(|name| safe(name));
    let lines = [
        ("files", (!files.is_empty()).then(|| listed(&files))),
        ("commits", (!commits.is_empty()).then(|| listed(&commits))),
        ("saved", checkpoint.map(|name| format!("as checkpoint {name}"))),
        ("tree", report.settled.as_ref().map(|how| safe(how))),
        ("next", report.next.as_ref().map(|next| command(next))),
    ];
    for (label, text) in lines {
        if let Some(text) = text {
            out.push_str(&line_of(" ", label, &text, columns));
        }
    }
    out
}

/// ``verified: upgrade to axum 0.8 — 6 gates on 3f1c2ab, 11 iterations over 3 sessions, 2 h 4 min, $4.10``
pub(super) fn sentence(report: &Report, gates: &[String]) -> String {
    let standing = &report.standing;
    let style = match report.status {
        Status::Verified => term::GOOD,
        Status::Claimed | Status::NeedsHuman | Status::NeedsReview | Status::Cancelled => term::ODD,
        Status::Exhausted
        | Status::Stuck
        | Status::GateBroken
        | Status::RateLimited
        | Status::Overridden
        | Status::Crashed => term::BAD,
    };
    let mut facts = vec![evidence(report, gates)];
    if report.status != Status::Verified {
        facts.extend(open(standing));
    }
    let iterations = counted(standing.iteration as usize, "iteration");
    facts.push(match standing.sessions {
        0 | 1 => iterations,
        sessions => format!("{iterations} over {sessions} sessions"),
    });
    facts.push(duration(standing.elapsed_ms));
    let most = standing.max_cost_micro_usd.filter(|_| report.status == Status::Exhausted);
    facts.push(of_most(&money(standing.spent_micro_usd), most.map(money)));
    let title = text::line(&report.title, LONGEST_TITLE);
    format!("{}: {title} — {}", paint(style, report.status.name()), facts.join(", "))
}

/// What a good end rests on; of any other, why it came.
fn evidence(report: &Report, gates: &[String]) -> String {
    let passed = report.met.iter().filter(|name| gates.contains(name)).count();
    if report.status != Status::Verified || passed == 0 {
        return text::line(&report.because, LONGEST_REASON);
    }
    let commit = report.commits.last().and_then(|commit| commit.split([',', ' ']).next());
    match commit {
        Some(commit) => format!("{} on {}", counted(passed, "gate"), safe(commit)),
        None => counted(passed, "gate"),
    }
}

fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

fn listed(names: &[String]) -> String {
    let shown = names.get(..SHOWN).unwrap_or(names).join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// As something to copy, unless it is a sentence with commands in it.
fn command(next: &str) -> String {
    let next = safe(next);
    if next.contains('`') { next } else { format!("`{next}`") }
}
