//! A file prepared for the checks: its code and its comments in separate texts, at the same positions.

use super::language::{self, Language};
use super::source_lexer::{self, SourceSpan, SourceSpanKind};
use super::word_search::BracketPairs;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;
use ralph_core::requirement::FindingLocation;

/// Replaces each byte of a string in [`SourceText::code`].
pub(crate) const STRING_FILLER: char = '"';

#[derive(Debug)]
pub(crate) struct SourceText<'a> {
    pub(crate) path: &'a str,
    pub(crate) text: &'a str,
    pub(crate) language: Language,
    /// Whether a test runner looks for tests in it.
    pub(crate) is_test: bool,
    /// The text with comments blanked and strings filled with [`STRING_FILLER`]. Positions are those of the text.
    pub(crate) code: String,
    /// The text with everything but comments blanked.
    pub(crate) comments: String,
    pub(crate) brackets: BracketPairs,
    spans: Vec<SourceSpan>,
    line_starts: Vec<usize>,
}

impl<'a> SourceText<'a> {
    pub(crate) fn new(path: &'a str, text: &'a str) -> Self {
        Self::of_language(path, text, Language::from_path(path))
    }

    pub(crate) fn of_language(path: &'a str, text: &'a str, language: Language) -> Self {
        let spans = source_lexer::split_into_spans(text, language);
        let mut code = String::with_capacity(text.len());
        let mut comments = String::with_capacity(text.len());
        for span in &spans {
            let part = text.get(span.start..span.end).unwrap_or_default();
            match span.kind {
                SourceSpanKind::Code => {
                    code.push_str(part);
                    push_filler(&mut comments, part, ' ');
                }
                SourceSpanKind::Comment => {
                    push_filler(&mut code, part, ' ');
                    comments.push_str(part);
                }
                SourceSpanKind::String => {
                    push_filler(&mut code, part, STRING_FILLER);
                    push_filler(&mut comments, part, ' ');
                }
            }
        }
        let line_starts = core::iter::once(0)
            .chain(memchr::memchr_iter(b'\n', text.as_bytes()).map(|at| at + 1))
            .collect();
        let brackets = BracketPairs::find(&code);
        let is_test = language::is_test_file(path);
        Self { path, text, language, is_test, code, comments, brackets, spans, line_starts }
    }

    /// The number of the line at this position, counted from 1.
    pub(crate) fn line_of(&self, at: usize) -> usize {
        self.line_starts.partition_point(|start| *start <= at)
    }

    /// The range of a line without its line break; empty if the line does not exist.
    pub(crate) fn line(&self, number: usize) -> Range<usize> {
        let last = self.text.len();
        let start = number.checked_sub(1).and_then(|index| self.line_starts.get(index));
        let start = start.copied().unwrap_or(last);
        let next = self.line_starts.get(number).filter(|next| **next > start);
        start..next.map_or(last, |next| next - 1)
    }

    pub(crate) fn line_count(&self) -> usize {
        self.line_starts.len()
    }

    pub(crate) fn code_of_line(&self, number: usize) -> &str {
        self.code.get(self.line(number)).unwrap_or_default()
    }

    pub(crate) fn comment_of_line(&self, number: usize) -> &str {
        self.comments.get(self.line(number)).unwrap_or_default()
    }

    pub(crate) fn place(&self, at: usize) -> FindingLocation {
        let line = self.line_of(at);
        let start = self.line(line).start;
        let column = self.text.get(start..at).map_or(0, |before| before.chars().count()) + 1;
        FindingLocation {
            file: self.path.into(),
            line: u32::try_from(line).ok(),
            column: u32::try_from(column).ok(),
        }
    }

    /// Whether a line begins inside a string or comment that started on an earlier line.
    pub(crate) fn starts_inside_literal(&self, number: usize) -> bool {
        let start = self.line(number).start;
        self.span_at(start)
            .is_some_and(|span| span.start < start && span.kind != SourceSpanKind::Code)
    }

    pub(crate) fn span_at(&self, at: usize) -> Option<&SourceSpan> {
        let index = self.spans.partition_point(|span| span.end <= at);
        self.spans.get(index).filter(|span| span.start <= at)
    }

    /// The content of the string literal that starts here, without quotes and prefix.
    pub(crate) fn string_at(&self, at: usize) -> Option<&'a str> {
        let at = super::word_search::skip_space(&self.code, at);
        let prefix = self.code.as_bytes().get(at..)?.iter().take(3);
        let prefix = prefix.take_while(|byte| matches!(byte, b'a'..=b'z' | b'$' | b'@')).count();
        let span = self.span_at(at + prefix).filter(|span| span.kind == SourceSpanKind::String)?;
        let literal = self.text.get(span.start..span.end)?;
        let quotes: &[char] = &['"', '\'', '`'];
        let inner = literal.trim_start_matches(['r', 'b', 'c', 'R', '#', '@']);
        Some(inner.trim_end_matches('#').trim_start_matches(quotes).trim_end_matches(quotes))
    }
}

fn push_filler(out: &mut String, part: &str, filler: char) {
    for (index, line) in part.split('\n').enumerate() {
        if index > 0 {
            out.push('\n');
        }
        out.extend(core::iter::repeat_n(filler, line.len()));
    }
}
