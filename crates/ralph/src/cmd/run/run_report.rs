//! The report at the end of a run: one line that a person can forward, then the evidence and the next step.

use super::permission_notes;
use super::text_lines::{labelled_line, wrap_line};
use crate::describe::mark_style;
use crate::term::{self, TextWidth, paint};
use ralph_deck::view::run_report::{join_names, result_lines, status_mark, summary_sentence};
use ralph_deck::wording::safe_line;
use ralph_drive::run_event::DriveReport;
use std::path::Path;

/// How many open requirements are named; the rest is counted.
const MAX_NAMED: usize = 6;
/// How many met requirements are named.
const MAX_NAMED_MET: usize = 16;
/// Indents the continuation of the first line.
const INDENT: &str = "  ";

/// Renders the report. `gates` are the names of the run's gates.
pub(super) fn render_report(report: &DriveReport, gates: &[String], width: TextWidth) -> String {
    let mut out = first_line(report, gates, width);
    let met: Vec<_> = report.met.iter().map(|name| safe_line(name)).collect();
    if !met.is_empty() {
        out.push_str(&labelled_line(
            &paint(term::GOOD, "✓"),
            "met",
            &join_names(&met, MAX_NAMED_MET),
            width,
        ));
    }
    for one in report.open.iter().take(MAX_NAMED) {
        let text = format!("{}: {}", safe_line(&one.name), safe_line(&one.note));
        out.push_str(&labelled_line(
            &paint(term::BAD, "✗"),
            "open",
            text.trim_end_matches(": "),
            width,
        ));
    }
    if report.open.len() > MAX_NAMED {
        let more = format!("and {} more", report.open.len() - MAX_NAMED);
        out.push_str(&labelled_line(" ", "", &more, width));
    }
    let host = ralph_host::recorded_host(&report.agent);
    if let Some(refused) = permission_notes::denied_text(host, &report.denied) {
        out.push_str(&labelled_line(&paint(term::BAD, "✗"), "denied", &refused, width));
    }
    for (label, text) in result_lines(report) {
        out.push_str(&labelled_line(" ", label, &text, width));
    }
    out
}

/// Names the page with the whole report.
pub(super) fn report_line(path: &Path, width: TextWidth) -> String {
    labelled_line(" ", "report", &format!("`{}`", path.display()), width)
}

fn first_line(report: &DriveReport, gates: &[String], width: TextWidth) -> String {
    let sentence = summary_sentence(report, gates);
    let name = report.status.name();
    let lines = wrap_line(INDENT, &sentence, width);
    let text = lines.get(INDENT.len()..).unwrap_or_default();
    format!(
        "{}{}",
        paint(mark_style(status_mark(report.status)), name),
        text.get(name.len()..).unwrap_or_default()
    )
}
