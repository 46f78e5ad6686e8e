//! The prose of a Markdown message: code and block quotes are blanked, because an agent does not speak in them.

use crate::source::code_fence::CodeFence;
use alloc::string::String;
use alloc::vec::Vec;

/// A longer message is cut: agents end with their conclusion, so the end is kept.
const MAX_MESSAGE_BYTES: usize = 64 * 1024;

/// The end of a message, and the same text with code and block quotes replaced by blanks. Both have the same length, so
/// a position in one is a position in the other.
#[derive(Debug)]
pub(crate) struct PlainProse<'a> {
    pub(crate) message: &'a str,
    pub(crate) prose: String,
}

impl<'a> PlainProse<'a> {
    pub(crate) fn new(message: &'a str) -> Self {
        let mut from = message.len().saturating_sub(MAX_MESSAGE_BYTES);
        while !message.is_char_boundary(from) {
            from += 1;
        }
        let message = &message[from..];
        let mut prose = String::with_capacity(message.len());
        let mut fence = CodeFence::default();
        let mut is_in_quote = false;
        for line in message.split_inclusive('\n') {
            let is_blank = line.trim().is_empty();
            let is_code = fence.covers(line.trim_end_matches(['\r', '\n'])) || is_indented(line);
            let opens_quote = line.trim_start().starts_with(['>', '│']);
            // A block quote continues over lines that do not repeat its `>`.
            is_in_quote = !is_blank && (opens_quote || is_in_quote);
            if is_code || is_in_quote { push_blank(&mut prose, line) } else { prose.push_str(line) }
        }
        Self { message, prose: blank_code_spans(&prose) }
    }
}

/// Whether its indentation makes the line code.
pub(super) fn is_indented(line: &str) -> bool {
    let text = line.trim_start_matches([' ', '\t']);
    let indent = &line[..line.len() - text.len()];
    indent.contains('\t') || indent.len() >= 4
}

fn push_blank(out: &mut String, text: &str) {
    out.extend(text.bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }));
}

/// Blanks what stands between two runs of equally many backticks in one paragraph.
fn blank_code_spans(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut from = 0;
    for paragraph in paragraph_ends(text) {
        let mut rest = &text[from..paragraph];
        from = paragraph;
        while let Some((before, span, after)) = next_code_span(rest) {
            out.push_str(before);
            push_blank(&mut out, span);
            rest = after;
        }
        out.push_str(rest);
    }
    out
}

fn paragraph_ends(text: &str) -> Vec<usize> {
    let mut ends = Vec::new();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        at += line.len();
        if line.trim().is_empty() {
            ends.push(at);
        }
    }
    ends.push(text.len());
    ends
}

fn next_code_span(text: &str) -> Option<(&str, &str, &str)> {
    let mut at = 0;
    loop {
        let open = at + text.get(at..)?.find('`')?;
        let ticks = count_ticks(&text[open..]);
        let mut close = open + ticks;
        while let Some(next) = text[close..].find('`') {
            let run = count_ticks(&text[close + next..]);
            close += next + run;
            if run == ticks {
                return Some((&text[..open], &text[open..close], &text[close..]));
            }
        }
        at = open + ticks;
    }
}

fn count_ticks(text: &str) -> usize {
    text.len() - text.trim_start_matches('`').len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_and_quotes_are_blanked() {
        for (message, prose) in [
            ("a `b` c", "a     c"),
            ("a ``b`c`` d", "a         d"),
            ("a `b\n\nc` d", "a `b\n\nc` d"),
            ("a ` b", "a ` b"),
            ("> a\nb\n\nc", "   \n \n\nc"),
            ("│ a", "     "),
            ("```\na\n```\nb", "   \n \n   \nb"),
            ("    a\nb", "     \nb"),
            ("é `é` é", "é      é"),
            ("", ""),
        ] {
            let found = PlainProse::new(message);
            assert_eq!(found.prose, prose, "{message:?}");
            assert_eq!(found.prose.len(), found.message.len(), "{message:?}");
        }
        let long = "é".repeat(MAX_MESSAGE_BYTES);
        assert_eq!(PlainProse::new(&long).prose.len(), MAX_MESSAGE_BYTES);
    }
}
