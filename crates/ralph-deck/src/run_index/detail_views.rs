//! The tables of `ralph sql` that are not stored: every stop, gate result, open requirement and event.
//!
//! Each is a view over a function that reads one journal and returns its rows as JSON. Virtual tables could do the same,
//! but only with unsafe code. A condition on `run` reaches the table of runs below the view, so that only the
//! journals of those runs are read.

use crate::view::journal_log;
use ralph_core::id::RunId;
use ralph_core::record::{
    JournalEntry, MeasuredSite, ReportedStatus, RunChange, StopOutcome, StopRecord,
};
use ralph_core::text;
use ralph_home::journal::MAX_JOURNAL_BYTES;
use ralph_home::paths::RalphHome;
use ralph_sys::clock::Deadline;
use ralph_sys::fs;
use rusqlite::Connection;
use rusqlite::functions::FunctionFlags;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

const MAX_TEXT_CHARS: usize = 1000;

/// A view, the function below it and what its columns are.
pub(super) struct DetailView {
    pub name: &'static str,
    function: &'static str,
    /// Name and meaning.
    pub columns: &'static [(&'static str, &'static str)],
    rows: fn(&[JournalEntry]) -> Vec<Value>,
}

pub(super) const DETAIL_VIEWS: [DetailView; 4] = [
    DetailView {
        name: "stop",
        function: "journal_stops",
        columns: &[
            ("seq", "the number of the entry in the journal"),
            ("at_ms", ""),
            ("iteration", ""),
            ("rule", "the rule that decided, as `ralph why` names it"),
            (
                "outcome",
                "`allowed`, `blocked`, `awaited`, `handed_over`, `repeated`, `orphaned` or `ended`",
            ),
            ("status", "the final status, if it ended the run"),
            ("because", ""),
            ("requirements", "NULL if none was evaluated, as the next two"),
            ("unmet", ""),
            ("unknown", ""),
            ("took_ms", "how long the decision took"),
            ("context_tokens", "NULL if unknown, as the next one"),
            ("context_window", ""),
            ("checkpoint", "NULL if nothing was judged, as the next two"),
            ("commit_id", ""),
            ("tree", ""),
        ],
        rows: stop_rows,
    },
    DetailView {
        name: "gate_result",
        function: "journal_gate_results",
        columns: &[
            ("seq", "of the stop that used the result"),
            ("at_ms", ""),
            ("name", ""),
            ("site", "`tree`, `clean` or `base`"),
            ("outcome", "`passed`, `failed`, or why there is no result"),
            ("took_ms", ""),
            ("cached", "1 if the result was known already"),
            ("steadiness", "`once`, `confirmed` or `flaky`"),
            ("findings", ""),
            ("tests_run", "NULL if no tests were counted, as the next two"),
            ("tests_failed", ""),
            ("tests_skipped", ""),
            ("key", "the same for results on the same content"),
        ],
        rows: gate_rows,
    },
    DetailView {
        name: "open_requirement",
        function: "journal_open_requirements",
        columns: &[
            ("seq", "of the stop"),
            ("at_ms", ""),
            ("name", ""),
            ("stage", ""),
            ("standing", "`unmet`, `unknown`, `pending` or `advisory`"),
            ("findings", ""),
            ("note", ""),
        ],
        rows: requirement_rows,
    },
    DetailView {
        name: "event",
        function: "journal_events",
        columns: &[
            ("seq", ""),
            ("at_ms", ""),
            ("kind", "`started`, `decided`, `drove`, …"),
            ("text", "as `ralph log` shows it"),
        ],
        rows: event_rows,
    },
];

/// The deadline of the query that runs now.
pub(super) type QueryDeadline = Arc<Mutex<Option<Deadline>>>;

/// Creates the views and their functions.
pub(super) fn create_views(
    connection: &Connection,
    home: &RalphHome,
    deadline: &QueryDeadline,
) -> rusqlite::Result<()> {
    for DetailView { name, function, columns, rows } in DETAIL_VIEWS {
        let (home, deadline) = (home.clone(), Arc::clone(deadline));
        let flags = FunctionFlags::SQLITE_UTF8
            | FunctionFlags::SQLITE_DETERMINISTIC
            | FunctionFlags::SQLITE_INNOCUOUS;
        connection.create_scalar_function(function, 1, flags, move |context| {
            if is_late(&deadline) {
                return Err(rusqlite::Error::SqliteFailure(
                    rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_INTERRUPT),
                    None,
                ));
            }
            let run = context.get_raw(0).as_str_or_null().ok().flatten().and_then(RunId::parse);
            let entries = run.map(|run| read_entries(&home, &run)).unwrap_or_default();
            Ok(Value::Array(rows(&entries)).to_string())
        })?;
        let column = |(at, (column, _)): (usize, &(&str, &str))| {
            format!("journal_row.value ->> {at} AS \"{column}\"")
        };
        let columns: Vec<_> = columns.iter().enumerate().map(column).collect();
        connection.execute_batch(&format!(
            "CREATE TEMP VIEW {name} AS SELECT run.id AS run, {}
             FROM main.run, json_each({function}(run.id)) AS journal_row",
            columns.join(", ")
        ))?;
    }
    Ok(())
}

pub(super) fn is_late(deadline: &QueryDeadline) -> bool {
    let deadline = deadline.lock();
    deadline.is_ok_and(|deadline| deadline.as_ref().is_some_and(Deadline::has_passed))
}

/// The entries that parse. A journal that cannot be read has none; `ralph status` reports it.
fn read_entries(home: &RalphHome, run: &RunId) -> Vec<JournalEntry> {
    let bytes = fs::read(&home.run(run).journal(), MAX_JOURNAL_BYTES).unwrap_or_default();
    let lines = bytes.split(|byte| *byte == b'\n');
    lines.filter_map(|line| serde_json::from_slice(line).ok()).collect()
}

fn stops(entries: &[JournalEntry]) -> impl Iterator<Item = (&JournalEntry, &StopRecord)> {
    entries.iter().filter_map(|entry| {
        if let RunChange::Decided(stop) = &entry.change { Some((entry, &**stop)) } else { None }
    })
}

fn stop_rows(entries: &[JournalEntry]) -> Vec<Value> {
    let row = |(entry, stop): (&JournalEntry, &StopRecord)| {
        let (outcome, status) = match &stop.outcome {
            StopOutcome::Allowed => ("allowed", None),
            StopOutcome::Blocked { .. } => ("blocked", None),
            StopOutcome::Awaited { .. } => ("awaited", None),
            StopOutcome::HandedOver => ("handed_over", None),
            StopOutcome::Repeated => ("repeated", None),
            StopOutcome::Orphaned => ("orphaned", None),
            StopOutcome::Ended(status) => ("ended", Some(status.name())),
        };
        let report = stop.report.as_ref();
        let observed = stop.observed.as_ref();
        let judged = stop.judged.as_ref();
        json!([
            entry.seq,
            entry.at_ms,
            entry.iteration,
            stop.rule.name(),
            outcome,
            status,
            clean(&stop.because),
            report.map(|report| report.total),
            report.map(|report| report.unmet),
            report.map(|report| report.unknown),
            stop.took_ms,
            observed.and_then(|observed| observed.context_tokens),
            observed.and_then(|observed| observed.context_window),
            judged.map(|judged| judged.checkpoint),
            judged.map(|judged| clean(&judged.commit)),
            judged.map(|judged| clean(&judged.tree)),
        ])
    };
    stops(entries).map(row).collect()
}

fn gate_rows(entries: &[JournalEntry]) -> Vec<Value> {
    let of_stop = |(entry, stop): (&JournalEntry, &StopRecord)| {
        let row = |gate: &ralph_core::record::GateRecord| {
            let site = match gate.site {
                MeasuredSite::Tree => "tree",
                MeasuredSite::Clean => "clean",
                MeasuredSite::Base => "base",
            };
            json!([
                entry.seq,
                entry.at_ms,
                clean(&gate.name),
                site,
                clean(&gate.outcome),
                gate.took_ms,
                u8::from(gate.cached),
                gate.steadiness,
                gate.findings,
                gate.tests.map(|tests| tests.run),
                gate.tests.map(|tests| tests.failed),
                gate.tests.map(|tests| tests.skipped),
                clean(&gate.key),
            ])
        };
        stop.gates.iter().map(row).collect::<Vec<_>>()
    };
    stops(entries).flat_map(of_stop).collect()
}

fn requirement_rows(entries: &[JournalEntry]) -> Vec<Value> {
    let of_stop = |(entry, stop): (&JournalEntry, &StopRecord)| {
        let lines = stop.report.iter().flat_map(|report| &report.lines);
        let row = |line: &ralph_core::record::ReportLine| {
            let standing = match line.standing {
                ReportedStatus::Unmet => "unmet",
                ReportedStatus::Unknown => "unknown",
                ReportedStatus::Pending => "pending",
                ReportedStatus::Advisory => "advisory",
            };
            let (name, stage) = (clean(&line.name), clean(&line.stage));
            json!([entry.seq, entry.at_ms, name, stage, standing, line.findings, clean(&line.note)])
        };
        lines.map(row).collect::<Vec<_>>()
    };
    stops(entries).flat_map(of_stop).collect()
}

fn event_rows(entries: &[JournalEntry]) -> Vec<Value> {
    let row = |(at, entry): (usize, &JournalEntry)| {
        let words = journal_log::journal_change_text(entry, &entries[..at]);
        let words: Vec<_> = words.split_whitespace().collect();
        json!([entry.seq, entry.at_ms, change_kind(&entry.change), clean(&words.join(" "))])
    };
    entries.iter().enumerate().map(row).collect()
}

fn change_kind(change: &RunChange) -> &'static str {
    match change {
        RunChange::Started(_) => "started",
        RunChange::Restored(_) => "restored",
        RunChange::Decided(_) => "decided",
        RunChange::Trouble { .. } => "trouble",
        RunChange::Paused => "paused",
        RunChange::Interrupted { .. } => "interrupted",
        RunChange::Resumed => "resumed",
        RunChange::Cancelled => "cancelled",
        RunChange::Asked { .. } => "asked",
        RunChange::Waits { .. } => "waits",
        RunChange::Moved { .. } => "moved",
        RunChange::Compacted => "compacted",
        RunChange::Anchored => "anchored",
        RunChange::Denied { .. } => "denied",
        RunChange::Overridden { .. } => "overridden",
        RunChange::Part(_) => "part",
        RunChange::HintGiven { .. } => "hint_given",
        RunChange::Waived(_) => "waived",
        RunChange::WaiverRevoked { .. } => "waiver_revoked",
        RunChange::Disputed(_) => "disputed",
        RunChange::Approved(_) => "approved",
        RunChange::Limited(_) => "limited",
        RunChange::Stepped(_) => "stepped",
        RunChange::Recalled { .. } => "recalled",
        RunChange::Learned { .. } => "learned",
        RunChange::Drove(_) => "drove",
        RunChange::Accepted(_) => "accepted",
    }
}

fn clean(text: &str) -> String {
    text::clean_line(text, MAX_TEXT_CHARS)
}
