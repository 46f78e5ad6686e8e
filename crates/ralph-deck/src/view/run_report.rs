//! The report at the end of a driven run: one sentence that a person can forward, then the results and the next step.

use crate::wording::{FactMark, count_noun, safe_line};
use ralph_core::record::CostBasis;
use ralph_core::status::RunStatus;
use ralph_core::text;
use ralph_core::units::{format_duration, format_usd};
use ralph_drive::run_event::{DriveReport, RunProgress};

/// How many files or commits are named; the rest is counted.
const MAX_NAMED: usize = 6;
const LONGEST_TITLE: usize = 200;
const LONGEST_REASON: usize = 400;
const LONGEST_CLAUSE: usize = 120;
/// Long enough for paths, which must stay complete to be copied.
const LONGEST_ADVICE: usize = 2_000;

/// The results of the run, and the next step.
pub fn result_lines(report: &DriveReport) -> Vec<(&'static str, String)> {
    let files: Vec<_> = report.files.iter().map(|path| format!("`{}`", safe_line(path))).collect();
    let commits: Vec<_> = report.commits.iter().map(|commit| safe_line(commit)).collect();
    let checkpoint = report.checkpoint.as_ref().map(|name| safe_line(name));
    let foreign = |text: &String| text::clean_line(text, LONGEST_ADVICE);
    let has_details = is_for_review(report.status) && first_clause(report) != report.because;
    let old_failures = report.old_failures.as_ref();
    let lines = [
        ("why", has_details.then(|| reason_text(report))),
        ("note", old_failures.map(|note| safe_line(note))),
        ("files", (!files.is_empty()).then(|| join_names(&files, MAX_NAMED))),
        ("commits", (!commits.is_empty()).then(|| join_names(&commits, MAX_NAMED))),
        ("work", uncommitted_text(report)),
        ("saved", checkpoint.map(|name| format!("as checkpoint {name}"))),
        ("tree", report.settled.as_ref().or(report.unmerged.as_ref()).map(foreign)),
        ("next", report.next.as_ref().map(|next| as_command(&foreign(next)))),
    ];
    lines.into_iter().filter_map(|(label, text)| Some((label, text?))).collect()
}

/// Shown only for work in the person's own tree; for a separate work tree, its own line has it.
fn uncommitted_text(report: &DriveReport) -> Option<String> {
    let count = report.uncommitted.filter(|count| *count > 0 && report.unmerged.is_none())?;
    let differ = if count == 1 { "differs" } else { "differ" };
    let paths = count_noun(count, "path");
    Some(format!("{paths} {differ} from the last commit"))
}

pub fn status_mark(status: RunStatus) -> FactMark {
    match status {
        RunStatus::Verified => FactMark::Good,
        RunStatus::Green
        | RunStatus::Claimed
        | RunStatus::NeedsHuman
        | RunStatus::NeedsReview
        | RunStatus::Cancelled => FactMark::Unclear,
        RunStatus::Exhausted
        | RunStatus::Stuck
        | RunStatus::GateBroken
        | RunStatus::RateLimited
        | RunStatus::Overridden
        | RunStatus::Crashed => FactMark::Bad,
    }
}

/// ``verified: upgrade to axum 0.8 — 6 gates on 3f1c2ab, 11 iterations over 3 sessions, 2 h 4 min, $4.10``
pub fn summary_sentence(report: &DriveReport, gates: &[String]) -> String {
    let standing = &report.standing;
    let passed = report.met.iter().filter(|name| gates.contains(name)).count();
    let mut facts = Vec::new();
    match report.status {
        RunStatus::Green | RunStatus::NeedsReview => {
            facts.push(text::clean_line(first_clause(report), LONGEST_CLAUSE));
            facts.extend(effort_facts(report));
        }
        RunStatus::Verified if passed > 0 => {
            facts.push(evidence_text(report, passed));
            facts.extend(effort_facts(report));
        }
        // The reason already has the number of iterations and the time.
        RunStatus::Verified | RunStatus::Claimed => {
            facts.push(reason_text(report));
        }
        RunStatus::Exhausted
        | RunStatus::Stuck
        | RunStatus::NeedsHuman
        | RunStatus::GateBroken
        | RunStatus::RateLimited
        | RunStatus::Overridden
        | RunStatus::Crashed
        | RunStatus::Cancelled => {
            facts.extend(open_facts(report));
            facts.extend(effort_facts(report));
        }
    }
    let most = standing.limits.max_cost_micro_usd.filter(|_| report.status == RunStatus::Exhausted);
    let spent_micro_usd = standing.usage.micro_usd.unwrap_or(0);
    let basis = CostBasis::of_metered(spent_micro_usd, report.assumed_micro_usd);
    let spent = basis.describe_cost(spent_micro_usd).unwrap_or_default();
    facts.push(with_limit(&spent, most.map(format_usd)));
    let title = text::clean_line(&report.title, LONGEST_TITLE);
    format!("{}: {title} — {}", report.status.name(), facts.join(", "))
}

fn is_for_review(status: RunStatus) -> bool {
    matches!(status, RunStatus::Green | RunStatus::NeedsReview)
}

/// The part of the reason that fits on the first line; the rest follows below it.
fn first_clause(report: &DriveReport) -> &str {
    report.because.split("; ").next().unwrap_or_default()
}

/// The reason, and how many requirements are not met; in one if the reason has their number already.
fn open_facts(report: &DriveReport) -> Vec<String> {
    let reason = reason_text(report);
    let Some(tally) = report.standing.tally.filter(|_| report.standing.open != Some(0)) else {
        return vec![reason];
    };
    let count = format!(", {} not met", tally.unmet);
    if reason.contains(&count) {
        vec![reason.replacen(&count, &format!(", {}", tally.describe()), 1)]
    } else {
        vec![reason, tally.describe()]
    }
}

fn reason_text(report: &DriveReport) -> String {
    text::clean_line(&report.because, LONGEST_REASON)
}

fn effort_facts(report: &DriveReport) -> [String; 2] {
    let standing = &report.standing;
    let iterations = count_noun(standing.usage.iterations as usize, "iteration");
    let iterations = match standing.sessions {
        0 | 1 => iterations,
        sessions => format!("{iterations} over {sessions} sessions"),
    };
    [iterations, format_duration(standing.usage.elapsed_ms)]
}

/// The evidence for a verified end. Names a commit only if the gates passed on exactly that commit.
fn evidence_text(report: &DriveReport, passed: usize) -> String {
    let gates = count_noun(passed, "gate");
    match (&report.commit, report.uncommitted) {
        (Some(commit), _) => format!("{gates} on {}", safe_line(commit)),
        (None, Some(0)) => format!("{gates} on the work tree"),
        (None, Some(_)) => format!("{gates} on the work tree, not committed"),
        (None, None) => gates,
    }
}

/// Joins names. Never ends with "and 1 more", because the name would take no more room.
pub fn join_names(names: &[String], most: usize) -> String {
    let most = if names.len() == most + 1 { names.len() } else { most };
    let shown = names.get(..most).unwrap_or(names).join(", ");
    match names.len().saturating_sub(most) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Puts backticks around a command, unless it is a sentence that already has some.
fn as_command(next: &str) -> String {
    if next.contains('`') { next.to_string() } else { format!("`{next}`") }
}

/// `3 of 25`, or only `3`.
pub fn with_limit(what: &str, most: Option<String>) -> String {
    match most {
        Some(most) => format!("{what} of {most}"),
        None => what.to_string(),
    }
}

/// How many requirements are not met, in the words of the reason; once that is known.
pub fn open_text(standing: &RunProgress) -> Option<String> {
    standing.tally.map(|tally| tally.describe())
}
