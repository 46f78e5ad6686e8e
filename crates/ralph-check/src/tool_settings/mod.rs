//! Whether a change weakens the settings of tests and linters: commands that can no longer fail, fewer selected tests,
//! lower thresholds, relaxed rules.

mod commands;
mod ignore_lists;
mod lint_levels;
mod pytest_settings;
mod setting_values;
mod settings_files;
mod suppressions;

use super::FileChange;
use super::change_finding::MAX_CHANGE_FINDINGS;
use super::source_text::SourceText;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use ralph_core::requirement::Finding;
use ralph_core::text;

pub use settings_files::{is_ci_file, is_command_file, is_tool_settings};

const MAX_QUOTED_CHARS: usize = 120;

/// Compares every changed settings file with its state at the base.
pub fn check_settings(changes: &[FileChange<'_>]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for change in changes {
        if settings_files::defines_commands(change.path) {
            findings.extend(commands::find_weakened_commands(change));
        }
        if settings_files::is_settings_file(change.path) {
            findings.extend(ignore_lists::find_grown_lists(change));
            findings.extend(lint_levels::find_lowered_levels(change));
        }
        findings.extend(suppressions::find_added_suppressions(change));
    }
    findings.extend(setting_values::find_weakened_values(changes));
    findings.extend(pytest_settings::find_narrowed_pytest(changes));
    findings.sort_by_key(|finding| {
        finding.place.as_ref().map(|place| (place.file.clone(), place.line))
    });
    findings.truncate(MAX_CHANGE_FINDINGS);
    findings
}

fn quote_line(text: &str) -> String {
    format!("`{}`", text::clean_line(text.trim_end_matches(','), MAX_QUOTED_CHARS))
}

/// The non-empty lines of a file without comments and indentation, with their numbers from 1.
fn uncommented_lines<'a>(source: &SourceText<'a>) -> Vec<(usize, &'a str)> {
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
