//! The texts of a report that every format shows. Ralph's own words and foreign text are kept apart, so that a format
//! can escape the latter.

use super::RunReport;
use crate::page::{
    Attention, ChangedFileRow, CostRow, CostRowSource, GateHistoryRow, LookFirst, LookFirstKind,
    RunPage, RunStanding, TimelineKind, TimelineRow,
};
use crate::page::{MetCount, proof_text};
use crate::wording::precise_duration;
use ralph_core::cost_reading::CostBasis;
use ralph_core::record::MeasuredSite;
use ralph_core::status::RunStatus;
use ralph_core::text::{self, count_noun, short_id};
use ralph_core::units::{format_duration, format_tokens};
use ralph_sys::clock;
use std::collections::BTreeSet;

/// Fewer digits would not name a commit.
const MIN_ID_CHARS: usize = 7;
/// Of SHA-256.
const MAX_ID_CHARS: usize = 64;
const SHORT_HASH_CHARS: usize = 12;
/// A comment between the commands: without a commit of the judged files there is nothing to check a statement against.
const COMMIT_FIRST: &str = "# commit the work first: `verify-report` compares with HEAD";
const MAX_LOOK_FIRST: usize = 5;
/// Of a longer timeline, the beginning and the end are shown.
const FIRST_EVENTS: usize = 12;
const LAST_EVENTS: usize = 24;
/// In a long timeline.
const MAX_HOLDS_IN_A_ROW: usize = 5;
const MAX_FILES: usize = 30;

/// A part of a line.
pub(super) enum ReportPart {
    Own(String),
    Foreign(String),
    /// Words of the runner, with names and commands between backticks. They can quote foreign text.
    Sentence(String),
    /// Foreign too: an id, a name or a path.
    Code(String),
}

pub(super) type ReportText = Vec<ReportPart>;

pub(super) fn own(text: &str) -> ReportPart {
    ReportPart::Own(text.to_string())
}

pub(super) fn foreign(text: &str) -> ReportPart {
    ReportPart::Foreign(text.to_string())
}

pub(super) fn code(text: &str) -> ReportPart {
    ReportPart::Code(text.to_string())
}

/// The beginning of the id of a commit, for texts of ralph's own; `None` if it cannot be one.
fn plain_id(id: &str) -> Option<String> {
    let is_id = (MIN_ID_CHARS..=MAX_ID_CHARS).contains(&id.len())
        && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id.then(|| short_id(id))
}

/// From when to when a run was recorded, with the time zone of all times of the report.
pub(super) fn time_range(page: &RunPage) -> String {
    let (started, last) = (page.row.started_ms, page.row.last_ms);
    format!("{} to {} {}", date_and_time(started), date_and_time(last), clock::local_zone(last))
}

/// `16:58`, preceded by the date.
fn date_and_time(ms: u64) -> String {
    format!("{} {}", clock::local_date(ms), time_of_day(ms))
}

pub(super) fn time_of_day(ms: u64) -> String {
    clock::local_time(ms).chars().take(5).collect()
}

/// `5 gates, 41 iterations over 4 sessions, 6 h 52 min, $14.36`
pub(super) fn summary(page: &RunPage) -> String {
    let row = &page.row;
    let gates: BTreeSet<_> = page.gates.iter().map(|gate| gate.name.as_str()).collect();
    let accepted = row.accepted_by.as_ref().map(|by| format!("accepted by {by} without proof"));
    let mut facts: Vec<_> = accepted.into_iter().collect();
    if !gates.is_empty() {
        facts.push(count_noun(gates.len() as u64, "gate"));
    }
    if !page.judges.is_empty() {
        facts.push(count_noun(page.judges.len() as u64, "judge"));
    }
    if let (Some(met), Some(all)) = (row.met, row.requirements) {
        // Without its journal, nothing shows that they were measured.
        if page.journal_edit.is_none() {
            let (claimed, judged) = (page.claimed, page.judged);
            facts.push(MetCount { met, all, claimed, judged }.describe());
            facts.extend(page.proof.as_ref().and_then(|proof| proof_text(&proof.verdict)));
        }
    }
    let iterations = count_noun(u64::from(row.iteration), "iteration");
    facts.push(match page.sessions.len() {
        0 | 1 => iterations,
        sessions => format!("{iterations} over {sessions} sessions"),
    });
    facts.push(format_duration(row.elapsed_ms));
    facts.extend(row.spent_micro_usd.and_then(|spent| row.cost_basis.describe_cost(spent)));
    facts.join(", ")
}

/// What a person can do next. A report has a next step for a working run too: it has no actions beside it.
pub(super) fn next_step(page: &RunPage) -> String {
    let watch = || format!("nothing; `ralph watch {}` shows it while it works", page.row.run);
    page.next.clone().unwrap_or_else(watch)
}

/// The parts of a sentence and whether each one is between backticks. A backtick without a partner delimits nothing.
pub(super) fn split_code(sentence: &str) -> Vec<(&str, bool)> {
    let parts: Vec<_> = sentence.split('`').collect();
    if parts.len().is_multiple_of(2) {
        return vec![(sentence, false)];
    }
    let parts = parts.into_iter().enumerate().filter(|(_, part)| !part.is_empty());
    parts.map(|(at, part)| (part, at % 2 == 1)).collect()
}

/// Words of ralph whose parts between backticks are commands or names.
fn sentence_parts(sentence: &str) -> ReportText {
    let parts = split_code(sentence).into_iter();
    parts.map(|(part, is_code)| if is_code { code(part) } else { own(part) }).collect()
}

pub(super) fn attention_class(attention: Attention) -> &'static str {
    match attention {
        Attention::InProgress => "in-progress",
        Attention::Done => "done",
        Attention::Unproven => "unproven",
        Attention::NeedsPerson => "needs-person",
        Attention::NotDone => "not-done",
        Attention::Broken => "broken",
        Attention::Closed => "closed",
    }
}

/// What the result rests on, by label.
pub(super) fn rests_on(report: &RunReport) -> Vec<(&'static str, ReportText)> {
    let page = &report.page;
    let mut rows = Vec::new();
    // An acceptance comes first, and is no measurement.
    let is_accepted = page.row.accepted_by.is_some() && page.journal_edit.is_none();
    let labels: &[&str] = if is_accepted { &["Result", "Measured"] } else { &["Measured"] };
    for (index, sentence) in page.rests_on.iter().enumerate() {
        rows.push((labels.get(index).copied().unwrap_or_default(), vec![foreign(sentence)]));
    }
    if let (Some(commit), Some(tree)) = (&page.judged_commit, &page.judged_tree) {
        let mut line = match &report.landed_commit {
            Some(landed) => vec![own("commit "), code(&short_id(landed))],
            None => vec![own("the work tree, not committed")],
        };
        let number = page.checkpoint.map(|number| format!("checkpoint {number}, "));
        line.push(own(&format!(" ({}", number.unwrap_or_default())));
        line.extend([code(&short_id(commit)), own(", tree "), code(&short_id(tree)), own(")")]);
        rows.push(("On", line));
    }
    rows.push(("Policy", policy_line(report.policy_hash.as_deref())));
    for waived in &report.not_covered {
        rows.push(("Not covered", vec![foreign(waived)]));
    }
    let journal = if let Some(damage) = &page.damage {
        vec![own("not to be trusted: "), foreign(damage)]
    } else {
        let lines = count_noun(report.journal_lines, "line");
        let head = short_hash(&report.journal_head);
        vec![own(&format!("{lines}, unbroken, last hash ")), code(&head)]
    };
    rows.push(("Journal", journal));
    rows.push(("Next", sentence_parts(&report.next)));
    rows
}

fn policy_line(hash: Option<&str>) -> ReportText {
    match hash {
        None => vec![own("none")],
        Some("") => vec![own("not from the repository")],
        Some(hash) => vec![code(&short_hash(hash)), own(", approved before the start")],
    }
}

fn short_hash(hash: &str) -> String {
    hash.chars().take(SHORT_HASH_CHARS).collect()
}

/// In the place of an empty list. It claims nothing about files that could not be compared.
pub(super) fn nothing_stands_out(page: &RunPage) -> &'static str {
    if page.are_changes_known {
        "Nothing stands out: no changed or removed test, no waiver, no dispute."
    } else {
        "Nothing on record stands out. Which files changed is not known."
    }
}

/// The lines of "Look at this first", and how many were left out. The guess comes last and is never left out.
pub(super) fn look_first(page: &RunPage) -> (Vec<ReportText>, usize) {
    let (guess, known): (Vec<_>, Vec<_>) =
        page.look_first.iter().partition(|one| one.kind == LookFirstKind::OutsideGoal);
    let more = known.len().saturating_sub(MAX_LOOK_FIRST);
    let shown = known.into_iter().take(MAX_LOOK_FIRST).chain(guess);
    (shown.map(look_first_line).collect(), more)
}

fn look_first_line(look: &LookFirst) -> ReportText {
    let kind = look.kind.label();
    let stop = look.stop.map(|stop| format!(" (stop {stop})")).unwrap_or_default();
    vec![own(&format!("{kind}{stop}: ")), foreign(&look.text)]
}

/// A row of the table of evidence.
pub(super) struct EvidenceRow<'a> {
    pub(super) gate: &'a GateHistoryRow,
    pub(super) passed: bool,
    pub(super) tests: String,
    pub(super) site: &'static str,
    /// The checkpoint that it was measured on.
    pub(super) content: String,
    pub(super) took: String,
}

pub(super) fn evidence(page: &RunPage) -> Vec<EvidenceRow<'_>> {
    let row = |gate| {
        let gate: &GateHistoryRow = gate;
        let last = gate.measurements.last();
        let stop = last.and_then(|last| page.timeline.iter().find(|row| row.seq == last.seq));
        let number = stop.and_then(|stop| stop.checkpoint);
        let commit = page.judged_commit.as_ref().filter(|_| number == page.checkpoint);
        let content = match (number, commit.and_then(|commit| plain_id(commit))) {
            (Some(number), Some(commit)) => format!("{number} ({commit})"),
            (Some(number), None) => number.to_string(),
            (None, _) => String::new(),
        };
        EvidenceRow {
            gate,
            passed: gate.outcome == "passed",
            tests: gate.tests.map(test_counts).unwrap_or_default(),
            site: match gate.site {
                MeasuredSite::Tree => "work tree",
                MeasuredSite::Clean => "clean checkout",
                MeasuredSite::Base => "base, with the new tests",
            },
            content,
            took: last.map(|last| precise_duration(last.took_ms)).unwrap_or_default(),
        }
    };
    page.gates.iter().map(row).collect()
}

fn test_counts(tests: ralph_core::gate::TestCounts) -> String {
    let passed = tests.run.saturating_sub(tests.failed);
    let skipped =
        if tests.skipped > 0 { format!(", {} skipped", tests.skipped) } else { String::new() };
    format!("{passed} of {}{skipped}", tests.run)
}

/// A line of "What happened".
pub(super) enum ReportEvent<'a> {
    Row(&'a TimelineRow),
    /// Holds between two others, of which only the first and the last are named.
    Held {
        first: &'a TimelineRow,
        last: &'a TimelineRow,
    },
}

impl ReportEvent<'_> {
    pub(super) fn at_ms(&self) -> u64 {
        match self {
            Self::Row(row) | Self::Held { first: row, .. } => row.at_ms,
        }
    }
}

/// The events to show, and how many are left out after the first of them.
pub(super) fn events(page: &RunPage) -> (Vec<ReportEvent<'_>>, usize) {
    let most = FIRST_EVENTS + LAST_EVENTS;
    let mut events: Vec<_> = if page.timeline.len() > most {
        page.timeline.chunk_by(|one, next| is_hold(one) && is_hold(next)).flat_map(fold).collect()
    } else {
        page.timeline.iter().map(ReportEvent::Row).collect()
    };
    let left_out = events.len().saturating_sub(most);
    events.drain(FIRST_EVENTS.min(events.len())..(FIRST_EVENTS + left_out).min(events.len()));
    (events, left_out)
}

fn is_hold(row: &TimelineRow) -> bool {
    row.kind == TimelineKind::Held && row.stop.is_some()
}

/// Joins all but the first and the last of many holds in a row: what happened between holds says more.
fn fold(rows: &[TimelineRow]) -> Vec<ReportEvent<'_>> {
    match rows {
        [first, from, .., to, last] if rows.len() > MAX_HOLDS_IN_A_ROW => {
            let held = ReportEvent::Held { first: from, last: to };
            vec![ReportEvent::Row(first), held, ReportEvent::Row(last)]
        }
        rows => rows.iter().map(ReportEvent::Row).collect(),
    }
}

/// After how many events those that are left out are named.
pub(super) const LEFT_OUT_AFTER: usize = FIRST_EVENTS;

pub(super) fn event_line(event: &ReportEvent<'_>) -> ReportText {
    let row = match event {
        ReportEvent::Row(row) => row,
        ReportEvent::Held { first, last } => {
            let stop = |row: &TimelineRow| row.stop.unwrap_or_default();
            return vec![own(&format!("stops {} to {}, held", stop(first), stop(last)))];
        }
    };
    let head = match (row.stop, row.kind) {
        (Some(stop), kind) => format!("stop {stop}, {}: ", kind.label()),
        (None, TimelineKind::Started) => "started: ".to_string(),
        (None, kind) => format!("{}: ", kind.label()),
    };
    let is_own = row.kind == TimelineKind::Runner;
    let text = row.text.clone();
    vec![own(&head), if is_own { ReportPart::Sentence(text) } else { ReportPart::Foreign(text) }]
}

/// Number, beginning, model, turns, tokens and cost of a session, or of the judges.
pub(super) fn cost_fields(row: &CostRow) -> [String; 6] {
    let unknown = || "–".to_string();
    let model = match row.source {
        CostRowSource::Session => "default".to_string(),
        CostRowSource::Owner | CostRowSource::Judges => unknown(),
    };
    [
        row.label(),
        time_of_day(row.started_ms),
        row.model.clone().unwrap_or(model),
        row.turns.map_or_else(unknown, |turns| turns.to_string()),
        row.tokens.map_or_else(unknown, |tokens| format_tokens(tokens).replace(" tokens", "")),
        row.cost_text(),
    ]
}

/// What the figures of the sessions are.
pub(super) fn cost_note(page: &RunPage) -> &'static str {
    let has = |wanted: &[CostBasis]| {
        let mut sessions = page.costs.iter().filter(|row| row.source != CostRowSource::Judges);
        sessions.any(|row| wanted.contains(&row.basis))
    };
    if has(&[CostBasis::Assumed, CostBasis::PartlyAssumed]) {
        "A cost with ~ is assumed at least in part, because the client never reported it."
    } else if has(&[CostBasis::Estimated, CostBasis::Incomplete]) {
        "A cost with ≈ is estimated from the transcript and list prices."
    } else if has(&[CostBasis::Unknown]) {
        "No price is known for the models that were used."
    } else if has(&[CostBasis::Reported]) {
        "The figures are the client's own."
    } else {
        "The session's own cost is not known."
    }
}

/// The files with the most changed lines, and how many are left out.
pub(super) fn changed_files(report: &RunReport) -> Option<(Vec<&ChangedFileRow>, usize)> {
    let changes = report.changes.as_ref()?;
    let mut files: Vec<_> = changes.files.iter().collect();
    files.sort_by_key(|file| std::cmp::Reverse(changed_lines(file)));
    let left_out = files.len().saturating_sub(MAX_FILES) + changes.left_out;
    files.truncate(MAX_FILES);
    Some((files, left_out))
}

pub(super) fn changed_lines(file: &ChangedFileRow) -> u64 {
    file.added.unwrap_or(0).saturating_add(file.removed.unwrap_or(0))
}

/// `9 files, +577 −268`
pub(super) fn change_summary(report: &RunReport) -> String {
    let Some(changes) = &report.changes else { return String::new() };
    let count = changes.files.len() + changes.left_out;
    format!("{}, +{} −{}", count_noun(count as u64, "file"), changes.added, changes.removed)
}

pub(super) fn line_count(count: Option<u64>, sign: char) -> String {
    count.map_or_else(|| "binary".to_string(), |count| format!("{sign}{count}"))
}

/// Commands with which the reader can check the report.
pub(super) fn check_commands(report: &RunReport) -> Vec<String> {
    let run = &report.page.row.run;
    let mut commands = vec![format!("ralph why {run}")];
    let [base, commit] = [&report.base_commit, &report.page.judged_commit]
        .map(|id| id.as_deref().and_then(plain_id));
    if let (Some(base), Some(commit)) = (base, commit)
        && base != commit
    {
        commands.push(format!("git diff {base} {commit}"));
    }
    let is_attestable = report.page.journal_edit.is_none()
        && matches!(
            report.page.row.standing,
            RunStanding::Ended(RunStatus::Verified | RunStatus::Green | RunStatus::Claimed)
                | RunStanding::Accepted
        );
    if is_attestable {
        if report.landed_commit.is_none() {
            commands.push(COMMIT_FIRST.to_string());
        }
        commands.push(format!("ralph report {run} --attest --out {run}.intoto.json"));
        commands.push(format!("ralph verify-report {run}.intoto.json"));
    }
    commands.into_iter().map(|command| text::clean_line(&command, 200)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_id_of_a_commit_is_ralphs_own_text() {
        for (id, expected) in [
            ("18008aef87a1", Some("18008aef87")),
            ("18008AE", Some("18008AE")),
            (&"0".repeat(64), Some("0000000000")),
            (&"0".repeat(65), None),
            ("18008a", None),
            ("--output=x", None),
            ("18008ae|x", None),
            ("18008ae\nrm", None),
            ("１８００８０８", None),
            ("", None),
        ] {
            assert_eq!(plain_id(id).as_deref(), expected, "{id}");
        }
    }
}
