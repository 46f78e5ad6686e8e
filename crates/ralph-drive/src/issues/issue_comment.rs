//! The end of a run as a comment on its issue.

use ralph_core::redact::Redactor;

use crate::forge::{MOST_CHARACTERS, code_span};
use crate::run_event::DriveReport;

const LISTED: usize = 50;

/// The content of a comment.
#[derive(Clone, Copy, Debug)]
pub struct IssueComment<'a> {
    pub report: &'a DriveReport,
    /// The result in one sentence.
    pub summary: &'a str,
    pub redactor: &'a Redactor,
}

/// Markdown. Foreign text is in code spans that it cannot close, and cannot mention a user.
pub fn render_comment(comment: &IssueComment<'_>) -> String {
    let IssueComment { report, summary, redactor } = *comment;
    let span = |text: &str| code_span(text, redactor);
    let mut out = format!("{}\n", span(summary));
    if report.because != summary && !report.because.is_empty() {
        out.push_str(&format!("\nBecause: {}\n", span(&report.because)));
    }
    let mut list = |title: &str, rows: Vec<String>| {
        if rows.is_empty() {
            return;
        }
        out.push_str(&format!("\n{title}:\n\n"));
        for row in rows.iter().take(LISTED) {
            out.push_str(&format!("- {row}\n"));
        }
        if rows.len() > LISTED {
            out.push_str(&format!("- and {} more\n", rows.len() - LISTED));
        }
    };
    list("Met", report.met.iter().map(|name| span(name)).collect());
    let open = report.open.iter().map(|one| match one.note.trim() {
        "" => span(&one.name),
        note => format!("{} {}", span(&one.name), span(note)),
    });
    list("Open", open.collect());
    list("Commits", report.commits.iter().map(|commit| span(commit)).collect());
    let settled = [&report.old_failures, &report.settled, &report.unmerged];
    list("Notes", settled.into_iter().flatten().map(|note| span(note)).collect());
    let out: String = out.chars().take(MOST_CHARACTERS).collect();
    format!("{out}\nRun `{}` of ralph.\n", report.run)
}
