//! The status that ralph-claude-code asks an agent for, between two dashed lines or as YAML:
//!
//! ```text
//! ---RALPH_STATUS---            RALPH_STATUS:
//! STATUS: COMPLETE                STATUS: COMPLETE
//! EXIT_SIGNAL: true               EXIT_SIGNAL: true
//! ---END_RALPH_STATUS---
//! ```
//!
//! It is a claim only if it signals an exit, reports nothing unfinished, and ends the message.

use super::plain_prose::PlainProse;
use super::{is_quoted_or_denied, strip_bold};

const EXIT_SIGNAL: &str = "EXIT_SIGNAL";
const BEGIN: &str = "---RALPH_STATUS---";
pub(super) const END: &str = "---END_RALPH_STATUS---";
const YAML_KEY: &str = "RALPH_STATUS:";
/// A status block usually has a dozen lines.
const MAX_STATUS_LINES: usize = 64;

/// Whether a status block was opened and not closed.
pub(super) fn is_open(before: &[&str]) -> bool {
    let marks = |line: &&&str| matches!(line.trim(), BEGIN | END);
    let last = before.iter().rev().take(MAX_STATUS_LINES).find(marks);
    last.is_some_and(|line| line.trim() == BEGIN)
}

/// Whether the lines before the end of a block claim that the work is done.
pub(super) fn parse_dashed(before: &[&str]) -> bool {
    let Some((ahead, block)) = split_at_begin(before, |line| matches!(line, BEGIN | END)) else {
        return false;
    };
    let Some((first, block)) = block.split_first() else { return false };
    strip_bold(first) == Some(BEGIN)
        && !is_quoted_or_denied(ahead)
        && claims_exit(block.iter().copied(), |value| value == "true") == Some(true)
}

/// Whether a YAML block at the end of the message claims that the work is done; `None` if it does not end with one.
pub(super) fn parse_yaml(lines: &[&str]) -> Option<bool> {
    let lines = match lines.split_last() {
        Some((last, rest)) if matches!(last.trim_end(), "---" | "...") => rest,
        Some(_) | None => lines,
    };
    let (ahead, block) = split_at_begin(lines, |line| line == YAML_KEY)?;
    let (first, block) = block.split_first()?;
    let is_nested = |line: &&str| line.starts_with([' ', '\t']) && !line.trim().is_empty();
    if first.trim_end() != YAML_KEY || block.is_empty() || !block.iter().all(is_nested) {
        return None;
    }
    // A sequence belongs to the key before it.
    let pairs = block.iter().copied().filter(|line| !line.trim_start().starts_with("- "));
    let exits = claims_exit(pairs, |value| matches!(value, "true" | "True" | "TRUE"));
    Some(!is_quoted_or_denied(ahead) && exits == Some(true))
}

/// Why an exit signal in the message does not count; `None` if the message has none.
pub(super) fn why_ignored(text: &PlainProse<'_>) -> Option<&'static str> {
    let has_signal = |text: &str| text.lines().any(|line| is_exit_signal(line.trim()));
    if has_signal(&text.prose) {
        return Some(
            "it is not the end of the message, or its status block reports unfinished work",
        );
    }
    // A YAML block may be indented like code.
    has_signal(text.message).then_some("it is in code, a quotation or an unfinished status block")
}

pub(super) fn is_exit_signal(line: &str) -> bool {
    let pair = line.split_once(':');
    pair.is_some_and(|(key, value)| key == EXIT_SIGNAL && value.trim() == "true")
}

fn split_at_begin<'a, 'b>(
    lines: &'b [&'a str],
    is_begin: impl Fn(&str) -> bool,
) -> Option<(&'b [&'a str], &'b [&'a str])> {
    let begin = lines.iter().rev().take(MAX_STATUS_LINES).position(|line| is_begin(line.trim()))?;
    lines.split_at_checked(lines.len().checked_sub(begin + 1)?)
}

/// `None` if a line is no pair, or reports unfinished work.
fn claims_exit<'a>(
    mut block: impl Iterator<Item = &'a str>,
    is_true: impl Fn(&str) -> bool,
) -> Option<bool> {
    block.try_fold(false, |exits, line| {
        let (key, value) = line.split_once(':')?;
        let value = value.trim().trim_matches(['"', '\'']);
        match key.trim() {
            EXIT_SIGNAL if is_true(value) => Some(true),
            "STATUS" if value == "COMPLETE" => Some(exits),
            "TESTS_STATUS" if value != "FAILING" => Some(exits),
            EXIT_SIGNAL | "STATUS" | "TESTS_STATUS" => None,
            _ => Some(exits),
        }
    })
}
