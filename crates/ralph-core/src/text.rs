//! Makes foreign text safe to show to a model, on a terminal or in a page. Removing secrets is up to [`crate::redact`].

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Display;

/// Removes what could control a terminal or hide from a reader: ANSI sequences, control, bidirectional and zero-width
/// characters. Line breaks are kept; tabs and the spaces of other scripts become plain spaces.
pub fn clean(text: &str) -> String {
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\n')) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '\n' => out.push('\n'),
            '\t' => out.push_str("    "),
            '\u{1b}' => match chars.peek() {
                Some('[') => {
                    chars.next();
                    // A control sequence ends at its first byte in `@`..=`~`.
                    while let Some(next) = chars.peek() {
                        let last = ('@'..='~').contains(next);
                        if *next == '\n' {
                            break;
                        }
                        chars.next();
                        if last {
                            break;
                        }
                    }
                }
                Some(']' | 'P' | '_' | '^' | 'X') => {
                    chars.next();
                    // A string sequence ends at BEL or ESC `\`. An unterminated one must not swallow the next lines.
                    while let Some(next) = chars.peek() {
                        if *next == '\n' {
                            break;
                        }
                        let next = chars.next();
                        if next == Some('\u{7}') {
                            break;
                        }
                        if next == Some('\u{1b}') {
                            chars.next_if_eq(&'\\');
                            break;
                        }
                    }
                }
                // `ESC ( B` selects a character set, as terminals' own "reset" sequence does: intermediates, then one byte.
                Some(' '..='/') => {
                    while chars.next_if(|next| (' '..='/').contains(next)).is_some() {}
                    chars.next_if(|next| ('0'..='~').contains(next));
                }
                Some(_) | None => {}
            },
            _ if is_foreign_space(char) => out.push(' '),
            _ if is_hidden(char) => {}
            _ => out.push(char),
        }
    }
    out
}

/// Replaces what [`clean`] would remove or replace with an escape such as `\u{202e}`. For commands, where such
/// characters matter.
pub fn reveal(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '\n' => out.push('\n'),
            '\t' => out.push_str("    "),
            _ if is_hidden(char) => out.extend(char.escape_unicode()),
            _ => out.push(char),
        }
    }
    out
}

/// Like [`reveal`], for the lines of files, whose tabs and line ends matter too.
pub fn reveal_source(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        let is_line_end = char == '\n' || char == '\r' && chars.peek() == Some(&'\n');
        if is_line_end || char == '\t' || !is_hidden(char) {
            out.push(char);
        } else {
            out.extend(char.escape_unicode());
        }
    }
    out
}

/// The name of a file on one line. Hidden characters and bytes that are no text are escapes, so two names never look the
/// same.
pub fn reveal_name(name: &[u8]) -> String {
    let is_plain = |name: &str| {
        !name.chars().any(is_hidden) && !name.contains("\\u{") && !name.contains("\\x")
    };
    if let Ok(name) = str::from_utf8(name)
        && is_plain(name)
    {
        return name.into();
    }
    let mut out = String::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        for char in chunk.valid().chars() {
            match char {
                '\\' => out.push_str("\\\\"),
                _ if is_hidden(char) => out.extend(char.escape_unicode()),
                _ => out.push(char),
            }
        }
        out.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
    }
    out
}

/// Replaces spaces other than U+0020 with it. For prose, where a no-break or an ideographic space is typography.
pub fn with_plain_spaces(text: &str) -> String {
    text.chars().map(|char| if is_foreign_space(char) { ' ' } else { char }).collect()
}

/// Whether a character looks like a space and is none for a shell: `main.sh\u{a0}#` is one word, not a word and a
/// comment. The blank of Braille is one, too.
fn is_foreign_space(char: char) -> bool {
    matches!(
        char,
        '\u{a0}' | '\u{1680}' | '\u{2000}'
            ..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{2800}' | '\u{3000}'
    )
}

/// Whether a character is invisible to a reader, looks like a plain space, or controls a terminal.
pub fn is_hidden(char: char) -> bool {
    char.is_control()
        || is_foreign_space(char)
        || matches!(char,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// One space between words, none around them.
pub fn collapse_whitespace(text: &str) -> String {
    let mut out = String::new();
    for word in text.split_whitespace() {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
    }
    out
}

/// Cleans text and joins it to one line of at most `most` characters.
pub fn clean_line(text: &str, most: usize) -> String {
    // Truncate first: cleaning megabytes to keep a hundred characters would be slow.
    let enough = byte_offset_of(text, most.saturating_mul(8).saturating_add(256));
    let mut out = collapse_whitespace(&clean(&text[..enough]));
    if enough < text.len() && out.chars().count() <= most {
        out.push('…');
    }
    truncate(&out, most)
}

/// `1 path`, `3 paths`.
pub fn count_noun<Count: Copy + PartialEq + From<u8> + Display>(
    count: Count,
    noun: &str,
) -> String {
    if count == Count::from(1) { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// The beginning of the id of a commit or tree: long enough to be unique, short enough to read.
pub fn short_id(id: &str) -> String {
    const SHORT_ID_CHARS: usize = 10;
    id.chars().take(SHORT_ID_CHARS).collect()
}

/// `1st`, `2nd`, `3rd`, `11th`.
pub fn ordinal(number: u32) -> String {
    let suffix = match (number % 100, number % 10) {
        (11..=13, _) => "th",
        (_, 1) => "st",
        (_, 2) => "nd",
        (_, 3) => "rd",
        _ => "th",
    };
    format!("{number}{suffix}")
}

/// Truncates to at most `most` characters. If something is left out, the last one is `…`.
pub fn truncate(text: &str, most: usize) -> String {
    if byte_offset_of(text, most) == text.len() {
        return text.into();
    }
    let mut out = String::from(&text[..byte_offset_of(text, most.saturating_sub(1))]);
    out.push('…');
    out
}

/// The candidate that starts with `word`, or else the one with the smallest edit distance, if that is at most 2.
pub fn nearest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // No candidate is longer, and the comparison takes time proportional to the product of both lengths.
    let word = clean_line(word, 40).to_lowercase();
    let is_beginning = |candidate: &str| word.len() >= 3 && candidate.starts_with(&word);
    candidates
        .map(|candidate| (!is_beginning(candidate), edit_distance(&word, candidate), candidate))
        .filter(|(is_other, distance, candidate)| {
            !is_other || *distance <= 2 && *distance < candidate.len().min(word.len())
        })
        .min()
        .map(|(_, _, candidate)| candidate)
}

fn edit_distance(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.chars().count()).collect();
    for (at, char) in from.chars().enumerate() {
        let mut diagonal = at;
        let mut left = at + 1;
        for (cell, other) in row.iter_mut().zip(core::iter::once(None).chain(to.chars().map(Some)))
        {
            let here = match other {
                None => left,
                Some(other) => {
                    let changed = diagonal + usize::from(char != other);
                    changed.min(left + 1).min(*cell + 1)
                }
            };
            diagonal = core::mem::replace(cell, here);
            left = here;
        }
    }
    row.last().copied().unwrap_or_default()
}

/// The byte position after `most` characters, or the end of a shorter text.
fn byte_offset_of(text: &str, most: usize) -> usize {
    text.char_indices().nth(most).map_or(text.len(), |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-S6a: hidden and control characters are removed, readable text is kept.
    #[test]
    fn hidden_and_control_characters_are_removed() {
        for (foreign, shown) in [
            ("plain äöü 漢字 🎉", "plain äöü 漢字 🎉"),
            ("\u{1b}[31mred\u{1b}[0m", "red"),
            ("\u{1b}]0;title\u{7}after", "after"),
            ("\u{1b}]8;;http://x\u{1b}\\link", "link"),
            ("\u{1b}]unterminated\nnext", "\nnext"),
            ("\u{1b}[999", ""),
            ("\u{1b}[1m\"use\"\u{1b}(B\u{1b}[m (B)", "\"use\" (B)"),
            ("\u{1b}(\nnext", "\nnext"),
            ("a\u{8}\u{8}b\r\nc", "ab\nc"),
            ("abc\u{202e}cba\u{202c}", "abccba"),
            ("a\u{200b}b\u{feff}c\u{2066}d\u{e0041}", "abcd"),
            ("\u{9b}31mC1", "31mC1"),
            ("tab\there", "tab    here"),
            ("10\u{a0}km, 1\u{202f}000 €\u{205f}, 漢字\u{3000}漢字", "10 km, 1 000 € , 漢字 漢字"),
            ("a\u{fff0}b\u{1bca0}c\u{1d173}d", "abcd"),
        ] {
            assert_eq!(clean(foreign), shown, "{foreign:?}");
        }
    }

    #[test]
    fn a_line_is_one_line_and_truncated_at_a_character() {
        assert_eq!(clean_line("a\n  b\t c\u{1b}[2J", 10), "a b c");
        assert_eq!(clean_line("äöüäöü", 4), "äöü…");
        assert_eq!(clean_line("äöü", 3), "äöü");
        assert_eq!(truncate("äöü", 0), "…");
        let long = "x".repeat(10_000_000);
        assert_eq!(clean_line(&long, 3), "xx…");
    }

    /// R-S3a: a command shown for approval hides nothing.
    #[test]
    fn hidden_characters_are_revealed() {
        assert_eq!(
            reveal("a\u{202e}b\u{200b}\u{1b}[2K\r\n\tc"),
            "a\\u{202e}b\\u{200b}\\u{1b}[2K\\u{d}\n    c"
        );
    }

    /// A blank that a shell takes as part of a word must not look like the space before a comment. Every whitespace
    /// character of Unicode counts, apart from the three that a shell knows.
    #[test]
    fn blanks_that_are_no_spaces_for_a_shell_are_revealed() {
        assert_eq!(
            reveal_source("a\u{202e}\tb\r\n\u{1b}]c\rd\n"),
            "a\\u{202e}\tb\r\n\\u{1b}]c\\u{d}d\n"
        );
        let names: [&[u8]; 6] =
            [b"a b", "a\u{200b}".as_bytes(), b"a\\u{200b}", b"a\xff", b"a\\xff", b"a\n"];
        assert_eq!(
            names.map(reveal_name),
            ["a b", r"a\u{200b}", r"a\\u{200b}", r"a\xff", r"a\\xff", r"a\u{a}"]
        );
        assert_eq!(reveal("sh main.sh\u{a0}# a test"), "sh main.sh\\u{a0}# a test");
        let plain = [' ', '\t', '\n'];
        let blanks =
            (char::MIN..=char::MAX).filter(|char| char.is_whitespace() && !plain.contains(char));
        let others = "\u{2800}\u{1bca0}\u{1bca3}\u{1d173}\u{1d17a}\u{fff0}\u{fff8}";
        for char in blanks.chain(others.chars()) {
            assert!(is_hidden(char), "{char:?}");
            assert!(reveal(&format!("a{char}#")).starts_with("a\\u{"), "{char:?}");
        }
        assert_eq!(with_plain_spaces("10\u{a0}km\u{3000}\u{200b}"), "10 km \u{200b}");
    }

    #[test]
    fn the_nearest_word_is_found() {
        let words = ["timeout", "stage", "run", "on"];
        for (word, expected) in [
            ("timout", Some("timeout")),
            ("Timeout", Some("timeout")),
            ("stages", Some("stage")),
            ("rnu", Some("run")),
            ("in", Some("on")),
            ("nothing", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, words.into_iter()), expected, "{word:?}");
        }
    }
}
