//! Completion markers: what agents print when they believe that the work is done. A marker proves nothing; it is a
//! claim that still has to be verified. It counts as the last line of the last message, alone on its line; a promise
//! counts also within a line. None counts if it is quoted, in a code block, or negated.

mod inline_promise;
pub(crate) mod plain_prose;
mod status_block;

use crate::source::code_fence::CodeFence;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use inline_promise::{CLOSE, OPEN};
use plain_prose::PlainProse;

/// Markers of other tools that stand on a line of their own.
pub const PLAIN_MARKERS: [&str; 6] = [
    "LOOP_COMPLETE",
    "VERIFIED_DONE",
    "ALL_TASKS_COMPLETE",
    "TASK_COMPLETE",
    "<<<RALPHEX:ALL_TASKS_DONE>>>",
    "CONTINUOUS_CLAUDE_PROJECT_COMPLETE",
];

/// Promises that mean the whole work is done. Other promises mean that one task is done, or that the agent is blocked.
const DONE_PROMISES: [&str; 9] = [
    "DONE",
    "ALL DONE",
    "COMPLETE",
    "VERIFIED",
    "VERIFIED_DONE",
    "LOOP_COMPLETE",
    "TASK_COMPLETE",
    "ALL_TASKS_COMPLETE",
    "ALL_TASKS_DONE",
];

/// Words that negate a sentence.
const NEGATIONS: [&str; 6] = ["not", "never", "cannot", "without", "unless", "until"];

/// A longer sentence before the marker is not searched for negations; the marker is then ignored.
const MAX_LEAD_BYTES: usize = 2_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompletionMarker<'a> {
    /// `<promise>…</promise>`, with its content.
    Promise(&'a str),
    /// `EXIT_SIGNAL: true`, alone or in a status block.
    ExitSignal,
    /// One of the fixed markers of other tools.
    Plain(&'static str),
}

impl CompletionMarker<'_> {
    /// Whether it means that the whole work is done.
    pub fn means_done(&self) -> bool {
        match self {
            Self::Promise(promise) => DONE_PROMISES
                .iter()
                .any(|known| promise.split_whitespace().eq(known.split_whitespace())),
            Self::ExitSignal | Self::Plain(_) => true,
        }
    }

    /// The marker as the agent wrote it.
    pub fn describe(&self) -> String {
        match self {
            Self::Promise(promise) => format!("{OPEN}{promise}{CLOSE}"),
            Self::ExitSignal => "EXIT_SIGNAL: true".into(),
            Self::Plain(marker) => (*marker).into(),
        }
    }
}

/// A marker that is in the message but does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IgnoredMarker<'a> {
    pub marker: CompletionMarker<'a>,
    /// Why it does not count, in one clause.
    pub why: &'static str,
}

/// The completion marker of a message, if it has one that counts.
pub fn find_marker(message: &str) -> Option<CompletionMarker<'_>> {
    inspect_marker(message)?.ok()
}

/// The completion marker of a message, or why it does not count; `None` if the message has none.
pub fn inspect_marker(message: &str) -> Option<Result<CompletionMarker<'_>, IgnoredMarker<'_>>> {
    if let Some(marker) = marker_at_end(message) {
        return Some(Ok(marker));
    }
    let text = PlainProse::new(message);
    if let Some(found) = inline_promise::find_inline(&text) {
        return Some(found.map(CompletionMarker::Promise));
    }
    let ignored = |marker, why| Some(Err(IgnoredMarker { marker, why }));
    if let Some(why) = status_block::why_ignored(&text) {
        return ignored(CompletionMarker::ExitSignal, why);
    }
    let decoration = [' ', '\t', '>', '`', '"', '\'', '“', '”', '*', '.', '!'];
    let mut lines = text.message.lines().map(|line| line.trim_matches(decoration));
    let quoted = lines.find_map(|line| PLAIN_MARKERS.into_iter().find(|word| *word == line))?;
    let why = "it must be the last line, alone on it, and neither quoted nor denied";
    ignored(CompletionMarker::Plain(quoted), why)
}

fn marker_at_end(message: &str) -> Option<CompletionMarker<'_>> {
    let lines = prose_lines(message)?;
    let (last, before) = lines.split_last()?;
    if let Some(exits) = status_block::parse_yaml(&lines) {
        return exits.then_some(CompletionMarker::ExitSignal);
    }
    let line = strip_bold(last)?;
    if line == status_block::END {
        return status_block::parse_dashed(before).then_some(CompletionMarker::ExitSignal);
    }
    if is_quoted_or_denied(before) || status_block::is_open(before) {
        return None;
    }
    if status_block::is_exit_signal(line) {
        return Some(CompletionMarker::ExitSignal);
    }
    if let Some(word) = PLAIN_MARKERS.into_iter().find(|word| *word == line) {
        return Some(CompletionMarker::Plain(word));
    }
    let inner = line.strip_prefix(OPEN)?.strip_suffix(CLOSE)?;
    (!inner.trim().is_empty() && !inner.contains("promise>"))
        .then(|| CompletionMarker::Promise(inner.trim()))
}

/// Whether a message gives the agreed promise.
pub fn is_promised(message: &str, promise: &str) -> bool {
    match find_marker(message) {
        Some(CompletionMarker::Promise(given)) => {
            given.split_whitespace().eq(promise.split_whitespace())
        }
        // Loops of other tools agree on a bare word.
        Some(CompletionMarker::Plain(word)) => word == promise.trim(),
        Some(CompletionMarker::ExitSignal) | None => false,
    }
}

/// The lines up to the last one that is not blank, with code replaced by blank lines; `None` if that last line is code.
/// Blank lines are kept, because they separate paragraphs.
fn prose_lines(message: &str) -> Option<Vec<&str>> {
    let mut fence = CodeFence::default();
    let mut lines = Vec::new();
    let mut end = 0;
    for line in message.lines() {
        let is_code = fence.covers(line);
        // A code block separates paragraphs, as a blank line does.
        lines.push(if is_code { "" } else { line });
        if !line.trim().is_empty() {
            end = if is_code { 0 } else { lines.len() };
        }
    }
    lines.truncate(end);
    (end > 0).then_some(lines)
}

/// The line without surrounding blanks and `**`; `None` if its indentation makes it code.
fn strip_bold(line: &str) -> Option<&str> {
    let text = line.trim_start();
    let indent = line.get(..line.len() - text.len()).unwrap_or_default();
    if indent.contains('\t') || indent.chars().count() >= 4 {
        return None;
    }
    let text = text.trim_end();
    let bold = text.strip_prefix("**").and_then(|text| text.strip_suffix("**"));
    Some(bold.unwrap_or(text))
}

/// Whether the text before the marker quotes or negates it.
fn is_quoted_or_denied(before: &[&str]) -> bool {
    let Some(last) = before.iter().rev().find(|line| !line.trim().is_empty()) else {
        return false;
    };
    let is_same_paragraph = before.last().is_some_and(|line| !line.trim().is_empty());
    let lead = last.trim();
    // A block quote continues over lines that do not repeat its `>`.
    if is_same_paragraph && lead.starts_with('>') {
        return true;
    }
    // A finished sentence, a list item or a heading in an earlier paragraph does not refer to the marker.
    let is_over = lead.ends_with(['.', '!', '?', ')', '`', '"', '|'])
        || lead.starts_with(['-', '*', '+', '#', '|'])
        || lead.starts_with(|it: char| it.is_ascii_digit());
    if !is_same_paragraph && !lead.ends_with(':') && is_over {
        return false;
    }
    let sentence = lead.rsplit(['.', '!', '?', ';']).next().unwrap_or(lead);
    sentence.len() > MAX_LEAD_BYTES || sentence.split_whitespace().any(is_negation)
}

fn is_negation(word: &str) -> bool {
    let word = word.trim_matches(|it: char| !it.is_alphanumeric() && it != '\'' && it != '’');
    NEGATIONS.iter().any(|known| word.eq_ignore_ascii_case(known))
        || ["n't", "n’t", "N'T", "N’T"].iter().any(|end| word.ends_with(end))
}

#[cfg(test)]
mod tests;
