//! Whether a change weakens the settings of tests and linters: commands that can no longer fail, fewer selected tests,
//! lower thresholds, relaxed rules.

mod commands;
mod files;
mod levels;
mod lists;
mod suppressions;
mod values;

use super::FileChange;
use super::source::Source;
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use ralph_core::requirement::{Finding, Place, Severity, Since};
use ralph_core::text;

const MOST_FINDINGS: usize = 200;
const LONGEST_QUOTE: usize = 120;

/// Compares every changed settings file with its state at the base.
pub fn check(changes: &[FileChange<'_>]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for change in changes {
        if files::runs_commands(change.path) {
            findings.extend(commands::forgiving(change));
        }
        if files::sets_something(change.path) {
            findings.extend(lists::grown(change));
            findings.extend(levels::lowered(change));
        }
        findings.extend(suppressions::added(change));
    }
    findings.extend(values::weakened(changes));
    findings.sort_by_key(|finding| {
        finding.place.as_ref().map(|place| (place.file.clone(), place.line))
    });
    findings.truncate(MOST_FINDINGS);
    findings
}

fn finding(place: Place, rule: &str, message: String) -> Finding {
    Finding {
        place: Some(place),
        rule: Some(rule.to_owned()),
        message,
        severity: Severity::Error,
        since: Since::New,
    }
}

fn at_line(path: &str, line: usize) -> Place {
    Place { file: path.to_owned(), line: u32::try_from(line).ok(), column: None }
}

fn quoted(text: &str) -> String {
    format!("`{}`", text::line(text.trim_end_matches(','), LONGEST_QUOTE))
}

/// The non-empty lines of a file without comments and indentation, with their numbers from 1.
fn lines<'a>(source: &Source<'a>) -> Vec<(usize, &'a str)> {
    let lines = (1..=source.line_count()).map(|number| {
        let line = source.text.get(source.line(number)).unwrap_or_default();
        let comment = source.comment_of_line(number);
        let comment_at = comment.len() - comment.trim_start().len();
        let is_commented = comment_at < comment.trim_end().len();
        let kept = if is_commented { line.get(..comment_at).unwrap_or(line) } else { line };
        (number, kept.trim())
    });
    lines.filter(|(_, line)| !line.is_empty()).collect()
}
