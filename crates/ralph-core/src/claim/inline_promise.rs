//! A promise anywhere in a message, as the users of prompt loops write it: `All tests pass. <promise>DONE</promise>`.
//! Text that only mentions the tag is not a promise. In doubt it is not one either: the agent reads why, and can put
//! the tag on a line of its own.

use super::plain_prose::PlainProse;
use super::{CompletionMarker, IgnoredMarker, is_negation, is_quoted_or_denied};
use alloc::vec::Vec;

pub(super) const OPEN: &str = "<promise>";
pub(super) const CLOSE: &str = "</promise>";
const MAX_PROMISE_BYTES: usize = 200;
const QUOTES: [char; 9] = ['"', '\'', '`', '“', '”', '‘', '’', '«', '»'];

/// In the sentence of a tag they make it a plan, a condition or an instruction.
const MENTIONS: [&str; 25] = [
    "will", "would", "should", "shall", "must", "could", "may", "might", "when", "once", "if",
    "before", "after", "print", "output", "say", "write", "emit", "add", "include", "end", "line",
    "tag", "asked", "going",
];

/// After a tag they say that something is missing.
const DOUBTS: [&str; 15] = [
    "but",
    "however",
    "except",
    "though",
    "although",
    "yet",
    "still",
    "remain",
    "remains",
    "remaining",
    "left",
    "fail",
    "fails",
    "failing",
    "todo",
];

/// The promise of a message, or why the tag in it is not one. `None` without a tag.
pub(super) fn find_inline<'a>(text: &PlainProse<'a>) -> Option<Result<&'a str, IgnoredMarker<'a>>> {
    let ignored =
        |content, why| Some(Err(IgnoredMarker { marker: CompletionMarker::Promise(content), why }));
    let Some((start, end, content)) = next_tag(&text.prose, text.message, 0) else {
        let (.., content) = next_tag(text.message, text.message, 0)?;
        return ignored(content, "it is in code or a quotation");
    };
    if next_tag(&text.prose, text.message, end).is_some() {
        return ignored(content, "the message has more than one");
    }
    let (before, after) = (&text.prose[..start], &text.prose[end..]);
    if content.contains("promise>") {
        return ignored(content, "the tag is nested");
    }
    if is_next_to_quote(before, after) {
        return ignored(content, "it is in quotation marks");
    }
    if is_list_item(before) {
        return ignored(content, "it is in a list, a heading or a table");
    }
    if is_mentioned(before) {
        return ignored(content, "the sentence only mentions it");
    }
    if has_doubt(after) {
        return ignored(content, "the text after it says that something is open");
    }
    Some(Ok(content))
}

/// The next tag in `found_in`, with its start, its end and its content in `message`.
fn next_tag<'a>(found_in: &str, message: &'a str, from: usize) -> Option<(usize, usize, &'a str)> {
    let start = from + found_in.get(from..)?.find(OPEN)?;
    let inner = start + OPEN.len();
    let close = inner + found_in.get(inner..)?.find(CLOSE)?;
    let content = message.get(inner..close)?.trim();
    let is_promise = !content.is_empty()
        && content.len() <= MAX_PROMISE_BYTES
        && found_in.get(inner..close).is_some_and(|found| !found.trim().is_empty())
        && content.lines().all(|line| !line.trim().is_empty());
    is_promise.then_some((start, close + CLOSE.len(), content))
}

fn is_next_to_quote(before: &str, after: &str) -> bool {
    let is_bold = |char: char| matches!(char, '*' | '_');
    before.trim_end_matches(is_bold).ends_with(QUOTES)
        || after.trim_start_matches(is_bold).starts_with(QUOTES)
}

fn is_list_item(before: &str) -> bool {
    let line = before.rsplit('\n').next().unwrap_or(before).trim_start();
    let is_bullet = ["- ", "* ", "+ "].iter().any(|bullet| line.starts_with(bullet));
    let number = line.trim_start_matches(|it: char| it.is_ascii_digit());
    let is_numbered = number.len() < line.len() && number.starts_with(['.', ')']);
    is_bullet || is_numbered || line.starts_with(['#', '|'])
}

/// Whether the sentence that leads to the tag denies it, or speaks about it instead of giving it.
fn is_mentioned(before: &str) -> bool {
    let own = before.rfind('\n').map_or(0, |at| at + 1);
    let mut lead = &before[paragraph_start(before)..];
    if before[own..].trim_matches(['*', ' ']).is_empty() {
        let lines: Vec<&str> = before[..own].lines().collect();
        if is_quoted_or_denied(&lines) {
            return true;
        }
        let earlier = lines.iter().rev().find(|line| !line.trim().is_empty());
        // A colon at the end of a paragraph announces the next one.
        let announced = earlier.filter(|line| line.trim_end().ends_with(':'));
        if lead.trim_matches(['*', ' ', '\n']).is_empty() {
            lead = announced.copied().unwrap_or_default();
        }
    }
    let words = last_sentence(lead).split_whitespace();
    words.into_iter().any(|word| is_negation(word) || is_one_of(word, &MENTIONS))
}

/// Where the last paragraph begins.
fn paragraph_start(text: &str) -> usize {
    let (mut start, mut at) = (0, 0);
    for line in text.split_inclusive('\n') {
        at += line.len();
        if line.trim().is_empty() && line.ends_with('\n') {
            start = at;
        }
    }
    start
}

/// What follows the last full stop, exclamation mark, question mark or semicolon that ends a word.
fn last_sentence(text: &str) -> &str {
    let text = text.trim_end();
    let mut ends = text.char_indices().filter(|(at, char)| {
        matches!(char, '.' | '!' | '?' | ';')
            && text[at + 1..].chars().next().is_none_or(|next| next.is_whitespace() || next == '*')
    });
    ends.next_back().map_or(text, |(at, _)| &text[at + 1..])
}

fn has_doubt(after: &str) -> bool {
    after.contains('?')
        || after.split_whitespace().any(|word| is_negation(word) || is_one_of(word, &DOUBTS))
}

fn is_one_of(word: &str, known: &[&str]) -> bool {
    let word = word.trim_matches(|it: char| !it.is_alphanumeric() && it != '\'' && it != '’');
    known.iter().any(|known| word.eq_ignore_ascii_case(known))
        || ["'ll", "’ll"].iter().any(|end| word.ends_with(end))
}
