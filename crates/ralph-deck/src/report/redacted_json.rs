//! JSON without secrets. They are removed from each string before it is escaped, because an escaped secret is not found.

use ralph_core::redact::Redactor;
use serde::Serialize;
use serde_json::ser::{CharEscape, CompactFormatter, Formatter, Serializer};
use std::io::{self, Write};

/// The value as one line.
pub(super) fn redacted_line(value: &impl Serialize, redactor: &Redactor) -> String {
    let mut line = Vec::new();
    let formatter = RedactingFormatter { redactor, text: String::new(), is_name: false };
    // Reports consist of strings, numbers and lists; writing them to memory cannot fail.
    let _written = value.serialize(&mut Serializer::with_formatter(&mut line, formatter));
    line.push(b'\n');
    String::from_utf8(line).unwrap_or_default()
}

struct RedactingFormatter<'a> {
    redactor: &'a Redactor,
    /// The string being written, not yet escaped.
    text: String,
    /// Whether it is the name of a field, which is ralph's own.
    is_name: bool,
}

impl Formatter for RedactingFormatter<'_> {
    fn begin_object_key<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        is_first: bool,
    ) -> io::Result<()> {
        self.is_name = true;
        CompactFormatter.begin_object_key(writer, is_first)
    }

    fn end_object_key<W: ?Sized + Write>(&mut self, _writer: &mut W) -> io::Result<()> {
        self.is_name = false;
        Ok(())
    }

    fn begin_string<W: ?Sized + Write>(&mut self, _writer: &mut W) -> io::Result<()> {
        self.text.clear();
        Ok(())
    }

    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        _writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        self.text.push_str(fragment);
        Ok(())
    }

    fn write_char_escape<W: ?Sized + Write>(
        &mut self,
        _writer: &mut W,
        escape: CharEscape,
    ) -> io::Result<()> {
        self.text.push(match escape {
            CharEscape::Quote => '"',
            CharEscape::ReverseSolidus => '\\',
            CharEscape::Solidus => '/',
            CharEscape::Backspace => '\u{8}',
            CharEscape::FormFeed => '\u{c}',
            CharEscape::LineFeed => '\n',
            CharEscape::CarriageReturn => '\r',
            CharEscape::Tab => '\t',
            CharEscape::AsciiControl(byte) => char::from(byte),
        });
        Ok(())
    }

    fn end_string<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        if self.is_name {
            return Ok(serde_json::to_writer(writer, &self.text)?);
        }
        Ok(serde_json::to_writer(writer, &self.redactor.redact(&self.text))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A secret with characters that JSON escapes is found, and what is not a secret is as serde writes it.
    #[test]
    fn secrets_are_removed_before_strings_are_escaped() {
        let redactor = Redactor::new(vec!["pass\"word\n\u{1}".to_string()]);
        let value = json!({
            "list": ["a pass\"word\n\u{1} here", "\\ / \u{8}\u{c}\r\t\u{1f} ü", "", null, 1.5, true],
            "token": "ghp_0123456789012345678901234567890123456789",
        });
        let cleaned = json!({
            "list": ["a [redacted] here", "\\ / \u{8}\u{c}\r\t\u{1f} ü", "", null, 1.5, true],
            "token": "[redacted]",
        });
        assert_eq!(redacted_line(&value, &redactor), format!("{cleaned}\n"));
    }
}
