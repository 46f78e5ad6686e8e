//! Looks ahead in a shell command: where a bracket closes and where a here-document ends.

use alloc::string::String;
use alloc::vec;
use memchr::memchr;

/// Limits the bytes examined in total, as a multiple of the text length. Unclosed brackets would otherwise cause
/// quadratic work.
const FUEL_FACTOR: usize = 8;

#[derive(Debug)]
pub(super) struct ShellLookahead<'a> {
    text: &'a str,
    fuel: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ShellBracket {
    Round,
    Brace,
    Quote,
}

#[derive(Debug)]
pub(super) struct HeredocSpan {
    /// Just past the delimiter word.
    pub(super) after: usize,
    pub(super) line_end: usize,
    pub(super) body: (usize, usize),
    pub(super) end: usize,
    pub(super) is_quoted: bool,
    is_closed: bool,
}

impl<'a> ShellLookahead<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, fuel: text.len().saturating_mul(FUEL_FACTOR).saturating_add(4096) }
    }

    fn use_fuel(&mut self, from: usize, to: usize) {
        self.fuel = self.fuel.saturating_sub(to.saturating_sub(from).max(1));
    }

    /// Where the bracket that opened before `from` closes, or the end of the text. Uses a stack instead of recursion,
    /// because the agent controls the nesting depth.
    pub(super) fn find_closing(&mut self, from: usize, bracket: ShellBracket) -> usize {
        let bytes = self.text.as_bytes();
        let mut stack = vec![bracket];
        let mut at = from;
        let mut bodies: Option<(usize, usize)> = None;
        while let (Some(top), Some(byte)) = (stack.last().copied(), bytes.get(at).copied()) {
            if self.fuel == 0 {
                break;
            }
            let before = at;
            at += 1;
            match (top, byte, bytes.get(at).copied()) {
                (_, b'\\', _) => at += 1,
                (ShellBracket::Quote, b'"', _)
                | (ShellBracket::Round, b')', _)
                | (ShellBracket::Brace, b'}', _) => {
                    stack.pop();
                    if stack.is_empty() {
                        return before;
                    }
                }
                (_, b'$', Some(b'(')) => {
                    stack.push(ShellBracket::Round);
                    at += 1;
                }
                (_, b'$', Some(b'{')) => {
                    stack.push(ShellBracket::Brace);
                    at += 1;
                }
                (_, b'`', _) => at = find_closing_backtick(self.text, at) + 1,
                (ShellBracket::Quote, _, _) => {}
                (_, b'"', _) => stack.push(ShellBracket::Quote),
                (_, b'\'', _) => at = find_byte(self.text, at, b'\'') + 1,
                (ShellBracket::Round, b'(', _) => stack.push(ShellBracket::Round),
                (ShellBracket::Round, b'<', Some(b'<')) => {
                    let found = self.parse_heredoc(before, bodies.map(|(_, end)| end));
                    at += 1;
                    // `$((1 << 2))` is not a here-document: no line ends it.
                    if let Some(found) = found.filter(|found| found.is_closed) {
                        let line_end = bodies.map_or(found.line_end, |(line_end, _)| line_end);
                        bodies = Some((line_end, found.end));
                        at = found.after;
                    }
                }
                (ShellBracket::Round, b'\n', _) => {
                    if let Some((_, end)) = bodies.take_if(|(line_end, _)| before <= *line_end) {
                        at = end;
                    }
                }
                (ShellBracket::Round | ShellBracket::Brace, _, _) => {}
            }
            self.use_fuel(before, at);
        }
        self.text.len()
    }

    /// Parses the here-document whose `<<` is at `at`. `from` is where the bodies of earlier ones on this line end.
    pub(super) fn parse_heredoc(&mut self, at: usize, from: Option<usize>) -> Option<HeredocSpan> {
        let text = self.text;
        let bytes = text.as_bytes();
        let mut after = at + 2;
        let is_indented = bytes.get(after) == Some(&b'-');
        after += usize::from(is_indented);
        while bytes.get(after).is_some_and(|byte| matches!(byte, b' ' | b'\t')) {
            after += 1;
        }
        let word_from = after;
        while bytes.get(after).is_some_and(|byte| !is_end_of_word(*byte)) {
            after += 1;
        }
        let word = text.get(word_from..after)?;
        let delimiter: String =
            word.chars().filter(|char| !matches!(char, '\'' | '"' | '\\')).collect();
        if delimiter.is_empty() || self.fuel == 0 {
            return None;
        }
        let is_quoted = delimiter.len() != word.len();
        let line_end = memchr(b'\n', bytes.get(after..)?)? + after;
        let first = from.unwrap_or(line_end + 1);
        let mut line_from = first;
        while line_from < text.len() {
            let line_to = find_byte(text, line_from, b'\n');
            let line = text.get(line_from..line_to)?;
            let line = if is_indented { line.trim_start_matches('\t') } else { line };
            if line.trim_end_matches('\r') == delimiter {
                self.use_fuel(at, line_to);
                let end = (line_to + 1).min(text.len());
                let body = (first, line_from);
                return Some(HeredocSpan {
                    after,
                    line_end,
                    body,
                    end,
                    is_quoted,
                    is_closed: true,
                });
            }
            line_from = line_to + 1;
        }
        self.use_fuel(at, text.len());
        let (body, end) = ((first, text.len()), text.len());
        Some(HeredocSpan { after, line_end, body, end, is_quoted, is_closed: false })
    }
}

pub(super) fn is_end_of_word(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b';' | b'&' | b'|' | b'<' | b'>' | b'(' | b')')
}

/// The position of the next such byte, or the end of the text.
pub(super) fn find_byte(text: &str, from: usize, byte: u8) -> usize {
    let rest = text.as_bytes().get(from..).unwrap_or_default();
    memchr(byte, rest).map_or(text.len(), |found| from + found)
}

pub(super) fn find_closing_backtick(text: &str, from: usize) -> usize {
    let mut at = from;
    loop {
        let found = find_byte(text, at, b'`');
        let before = text.as_bytes().get(at..found).unwrap_or_default();
        let escapes = before.iter().rev().take_while(|byte| **byte == b'\\').count();
        if found >= text.len() || escapes % 2 == 0 {
            return found;
        }
        at = found + 1;
    }
}
