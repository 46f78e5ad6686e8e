//! The characters of a frame, for terminals with and without UTF-8, and the columns that a text takes.

use std::borrow::Cow;
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// Which characters the terminal can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GlyphSet {
    Unicode,
    Ascii,
}

impl GlyphSet {
    pub(crate) fn ellipsis(self) -> &'static str {
        if self == Self::Unicode { "…" } else { "..." }
    }

    /// Marks the selected line in the first column.
    pub(crate) fn selection(self) -> &'static str {
        if self == Self::Unicode { "▌" } else { ">" }
    }

    pub(crate) fn separator(self) -> &'static str {
        if self == Self::Unicode { " · " } else { ", " }
    }

    pub(crate) fn cursor(self) -> &'static str {
        if self == Self::Unicode { "█" } else { "_" }
    }

    /// A bar of `columns` columns that is filled to `permille`.
    pub(crate) fn bar(self, columns: usize, permille: u64) -> String {
        let [full, empty] = if self == Self::Unicode { ["█", "░"] } else { ["#", "-"] };
        let filled = usize::try_from(permille.min(1000)).unwrap_or(0) * columns / 1000;
        format!("{}{}", full.repeat(filled), empty.repeat(columns - filled))
    }

    /// Corners, horizontal and vertical line of a box.
    pub(crate) fn frame(self) -> [&'static str; 6] {
        if self == Self::Unicode {
            ["┌", "┐", "└", "┘", "─", "│"]
        } else {
            ["+", "+", "+", "+", "-", "|"]
        }
    }

    /// The text with every character that this set cannot show, or that a reader cannot see, replaced by a visible one.
    pub(crate) fn visible(self, text: &str) -> Cow<'_, str> {
        let is_shown = |char: char| match self {
            Self::Unicode => char == ' ' || !ralph_core::text::is_hidden(char),
            Self::Ascii => matches!(char, ' '..='~'),
        };
        if text.chars().all(is_shown) {
            return Cow::Borrowed(text);
        }
        Cow::Owned(text.chars().fold(String::with_capacity(text.len()), |mut out, char| {
            if is_shown(char) {
                out.push(char);
            } else {
                self.push_replacement(&mut out, char);
            }
            out
        }))
    }

    fn push_replacement(self, out: &mut String, char: char) {
        match (self, char) {
            (_, '\t' | '\u{a0}') => out.push(' '),
            // The pictures of control characters.
            (Self::Unicode, '\0'..='\u{1f}') => {
                out.extend(char::from_u32(0x2400 + u32::from(char)));
            }
            (Self::Unicode, _) => out.push_str(&format!("⟨U+{:04X}⟩", u32::from(char))),
            (Self::Ascii, '…') => out.push_str("..."),
            (Self::Ascii, '→') => out.push_str("->"),
            (Self::Ascii, '←') => out.push_str("<-"),
            (Self::Ascii, '·') => out.push(','),
            (Self::Ascii, '␣') => out.push('_'),
            (Self::Ascii, '✓') => out.push('V'),
            (Self::Ascii, '✗') => out.push('X'),
            (Self::Ascii, '≈') => out.push('~'),
            (Self::Ascii, '‘' | '’') => out.push('\''),
            (Self::Ascii, '“' | '”') => out.push('"'),
            (Self::Ascii, _) if ralph_core::text::is_hidden(char) => {
                out.push_str(&format!("<U+{:04X}>", u32::from(char)));
            }
            (Self::Ascii, _) => out.push('?'),
        }
    }

    /// At most `columns` columns of the text; the ellipsis shows that some is left out.
    pub(crate) fn fit(self, text: &str, columns: usize) -> String {
        let text = self.visible(text);
        if text_columns(&text) <= columns {
            return text.into_owned();
        }
        let ellipsis = self.ellipsis();
        let room = columns.saturating_sub(text_columns(ellipsis));
        let mut out = prefix(&text, room).trim_end().to_string();
        if text_columns(ellipsis) <= columns {
            out.push_str(ellipsis);
        }
        out
    }

    /// Breaks a text of several lines at spaces; a word that is wider than a line is broken anywhere. At most `most`
    /// lines; the ellipsis shows that some are left out.
    pub(crate) fn wrap(self, text: &str, columns: usize, most: usize) -> Vec<String> {
        let columns = columns.max(1);
        let mut lines: Vec<String> = Vec::new();
        for paragraph in text.lines() {
            let paragraph = self.visible(paragraph);
            wrap_paragraph(&paragraph, columns, most.saturating_add(1), &mut lines);
            if lines.len() > most {
                break;
            }
        }
        if lines.len() > most {
            lines.truncate(most);
            if let Some(last) = lines.last_mut() {
                let room = columns.saturating_sub(text_columns(self.ellipsis()));
                *last = format!("{}{}", prefix(last, room).trim_end(), self.ellipsis());
            }
        }
        lines
    }
}

fn wrap_paragraph(paragraph: &str, columns: usize, most: usize, lines: &mut Vec<String>) {
    // A line of code or a list item keeps its indent.
    let indent = paragraph.len() - paragraph.trim_start_matches(' ').len();
    let indent = " ".repeat(indent.min(columns / 2));
    let mut line = indent.clone();
    let mut is_empty = true;
    // Spaces between two words of a line are kept, so that columns stay columns.
    let mut gap = 0;
    for word in paragraph.trim_start_matches(' ').split(' ') {
        if word.is_empty() {
            gap += 1;
            continue;
        }
        let space = if is_empty { 0 } else { gap + 1 };
        gap = 0;
        if text_columns(&line) + space + text_columns(word) <= columns {
            line.push_str(&" ".repeat(space));
            line.push_str(word);
            is_empty = false;
            continue;
        }
        if !is_empty {
            lines.push(std::mem::replace(&mut line, indent.clone()));
        }
        let mut rest = word;
        while text_columns(&line) + text_columns(rest) > columns && lines.len() < most {
            let start = prefix(rest, columns.saturating_sub(text_columns(&line)).max(1));
            // A character that is wider than the line has the line to itself.
            let start = if start.is_empty() { first_grapheme(rest) } else { start };
            line.push_str(start);
            rest = rest.get(start.len()..).unwrap_or_default();
            lines.push(std::mem::replace(&mut line, indent.clone()));
        }
        line.push_str(rest);
        is_empty = rest.is_empty();
        if lines.len() >= most {
            return;
        }
    }
    lines.push(line);
}

fn first_grapheme(text: &str) -> &str {
    text.graphemes(true).next().unwrap_or_default()
}

/// The columns of a text, counted by what a reader takes for one character.
pub(crate) fn text_columns(text: &str) -> usize {
    if text.is_ascii() {
        text.len()
    } else {
        text.graphemes(true).map(UnicodeWidthStr::width).sum()
    }
}

/// The longest beginning that takes at most `columns` columns.
pub(crate) fn prefix(text: &str, columns: usize) -> &str {
    let mut taken = 0;
    for (start, grapheme) in text.grapheme_indices(true) {
        taken += grapheme.width();
        if taken > columns {
            return text.get(..start).unwrap_or_default();
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_is_visible_and_takes_the_columns_that_it_is_given() {
        for (text, columns, unicode, ascii) in [
            ("plain", 10, "plain", "plain"),
            ("too long for it", 8, "too lon…", "too l..."),
            ("esc \u{1b}[31m", 20, "esc ␛[31m", "esc <U+001B>[31m"),
            ("a\u{202e}b", 20, "a⟨U+202E⟩b", "a<U+202E>b"),
            ("zero\u{200b}width", 20, "zero⟨U+200B⟩width", "zero<U+200B>width"),
            ("日本語テキスト", 7, "日本語…", "???????"),
            ("e\u{301}e\u{301}e\u{301}", 2, "e\u{301}…", "..."),
            ("a → b · c", 20, "a → b · c", "a -> b , c"),
            ("line\nbreak", 20, "line␊break", "line<U+000A>break"),
            ("x", 0, "", ""),
        ] {
            let ascii_columns = if ascii == "..." { 3 } else { columns };
            assert_eq!(GlyphSet::Unicode.fit(text, columns), unicode);
            assert_eq!(GlyphSet::Ascii.fit(text, ascii_columns), ascii);
        }
    }

    #[test]
    fn text_is_broken_at_spaces_and_long_words_anywhere() {
        let wrap = |text: &str, columns, most| GlyphSet::Unicode.wrap(text, columns, most);
        assert_eq!(wrap("one two three", 7, 9), ["one two", "three"]);
        assert_eq!(wrap("  indented by two", 10, 9), ["  indented", "  by two"]);
        assert_eq!(wrap("abcdefghij k", 4, 9), ["abcd", "efgh", "ij k"]);
        assert_eq!(wrap("one two three four", 7, 2), ["one two", "three…"]);
        assert_eq!(wrap("a\n\nb", 7, 9), ["a", "", "b"]);
        assert_eq!(wrap("a  b   c d", 6, 9), ["a  b", "c d"]);
        assert_eq!(wrap("日本", 1, 9), ["日", "本", ""]);
        assert_eq!(wrap("", 7, 9), Vec::<String>::new());
    }
}
