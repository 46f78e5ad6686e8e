//! Bats: `@test "name" {` blocks of shell commands, each of which fails the test if it fails.

use super::{FoundTest, TestExecution, shorten_name};
use crate::source_text::SourceText;
use alloc::borrow::ToOwned;
use alloc::vec::Vec;

pub(super) fn find_bats_tests(source: &SourceText<'_>) -> Vec<FoundTest> {
    let mut found: Vec<FoundTest> = Vec::new();
    let mut number = 1;
    while number <= source.line_count() {
        let line = source.line(number);
        let text = source.text.get(line.clone()).unwrap_or_default();
        let header = text.trim_start().strip_prefix("@test ").map(str::trim_end);
        let name = header.and_then(|header| header.strip_suffix('{'));
        if let Some(name) = name.filter(|_| !source.starts_inside_literal(number)) {
            let last = last_line_of_block(source, number);
            let body = line.end..source.line(last).start.max(line.end);
            found.push(FoundTest {
                name: shorten_name(name.trim().trim_matches(['"', '\''])),
                at: line.start,
                start: line.start,
                execution: execution_of(source, number + 1..last),
                body,
                focused: has_focus_tag(source, number).then_some("# bats test_tags=bats:focus"),
                expects_panic: false,
            });
            number = last;
        }
        number += 1;
    }
    found
}

/// A line with a closing brace at the margin of the header, or the last one of the file.
fn last_line_of_block(source: &SourceText<'_>, number: usize) -> usize {
    let ends = |line: &usize| {
        source.code_of_line(*line).trim_end() == "}" && !source.starts_inside_literal(*line)
    };
    (number + 1..=source.line_count()).find(ends).unwrap_or(source.line_count())
}

/// `skip` as the first command never runs the rest; later it may depend on a condition.
fn execution_of(source: &SourceText<'_>, lines: core::ops::Range<usize>) -> TestExecution {
    let mut commands = lines.map(|line| source.code_of_line(line).trim());
    let is_skip = |command: &str| command == "skip" || command.starts_with("skip ");
    let first = commands.by_ref().find(|command| !command.is_empty());
    if first.is_some_and(is_skip) {
        TestExecution::Never("skip".to_owned())
    } else if commands.any(is_skip) {
        TestExecution::Sometimes("skip".to_owned())
    } else {
        TestExecution::Always
    }
}

fn has_focus_tag(source: &SourceText<'_>, number: usize) -> bool {
    let above = source.comment_of_line(number.saturating_sub(1));
    above.contains("bats test_tags=") && above.contains("bats:focus")
}
