//! Makes the changes of one file fit to be shown to a judge: secrets are removed, and nothing else.
//!
//! The text is hostile. Control sequences are shown as escapes, because cleaning would remove whatever stands between
//! two of them. A secret is removed whatever it looks like, but the places are counted, and lines between the marks of a
//! private key must be a key: otherwise code could hide there.

use ralph_core::redact::{PRIVATE_KEY_END, PRIVATE_KEY_MARKS, Redactor};
use ralph_core::text;

/// A line of a key has at least this many characters, except for the last one.
const MIN_KEY_LINE: usize = 40;
/// Lines above the content of an encrypted key.
const KEY_HEADERS: [&str; 4] = ["Proc-Type:", "DEK-Info:", "Comment:", "Version:"];

/// The changes of one file as a judge sees them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ShownSection {
    pub text: String,
    /// Changed places that were removed as secrets.
    pub hidden_places: u32,
    /// Whether lines were removed as a private key that are none.
    pub hides_other_lines: bool,
}

pub(super) fn show_section(section: &str, redactor: &Redactor) -> ShownSection {
    let revealed = text::reveal(&section.replace("\r\n", "\n"));
    let mut shown =
        ShownSection { text: String::new(), hidden_places: 0, hides_other_lines: false };
    for range in redactor.secret_ranges(&revealed) {
        if !touches_change(&revealed, range.start, range.end) {
            continue;
        }
        shown.hidden_places = shown.hidden_places.saturating_add(1);
        let hidden = revealed.get(range).unwrap_or_default();
        shown.hides_other_lines |= hidden.contains('\n') && !is_private_key(hidden);
    }
    shown.text = redactor.redact(&revealed);
    shown
}

/// Whether a line of this part is added or removed. A header has nothing that the agent wrote but the path.
fn touches_change(text: &str, start: usize, end: usize) -> bool {
    let line_start = text.get(..start).and_then(|before| before.rfind('\n')).map_or(0, |at| at + 1);
    let lines = text.get(line_start..end).unwrap_or_default();
    lines.lines().any(|line| line.starts_with(['+', '-']))
}

/// Whether several lines that were removed together are a private key and nothing else.
fn is_private_key(hidden: &str) -> bool {
    let mut lines: Vec<&str> = hidden.lines().collect();
    let first = lines.remove(0);
    let Some((_, rest)) = split_at_mark(first) else { return false };
    let is_ended = lines.last().is_some_and(|last| last.contains(PRIVATE_KEY_END));
    if is_ended && !lines.pop().is_some_and(is_key_end) {
        return false;
    }
    let last = lines.len().saturating_sub(1);
    key_text(rest).is_empty()
        && lines.iter().enumerate().all(|(at, line)| is_key_line(line, is_ended && at == last))
}

/// The kind of a key, and what follows its mark.
fn split_at_mark(line: &str) -> Option<(&str, &str)> {
    PRIVATE_KEY_MARKS.iter().find_map(|mark| line.split_once(mark))
}

/// `-----END RSA PRIVATE KEY-----`
fn is_key_end(line: &str) -> bool {
    let Some((before, after)) = line.split_once(PRIVATE_KEY_END) else { return false };
    let Some((kind, rest)) = split_at_mark(after) else { return false };
    let is_kind = |byte: u8| byte.is_ascii_uppercase() || byte == b' ';
    kind.bytes().all(is_kind) && key_text(before).is_empty() && key_text(rest).is_empty()
}

fn is_key_line(line: &str, is_last: bool) -> bool {
    let text = key_text(line);
    let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=');
    let is_content = text.bytes().all(is_base64);
    text.is_empty()
        || is_content && (is_last || text.len() >= MIN_KEY_LINE)
        || KEY_HEADERS.iter().any(|header| text.starts_with(header))
}

/// The line without the sign of the diff, and without what surrounds a line of a key in a string or a comment.
fn key_text(line: &str) -> String {
    let line = line.strip_prefix(['+', '-', ' ']).unwrap_or(line).replace("\\n", "");
    let is_around = |char: char| {
        char.is_whitespace() || matches!(char, '"' | '\'' | '`' | ',' | ';' | '+' | '#' | '*')
    };
    line.trim_matches(is_around).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY_LINE: &str = "MIIEowIBAAKCAQEA0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJ/+";

    fn show(lines: &str) -> (String, u32, bool) {
        let section = format!("diff --git a/x b/x\n@@ -1 +1 @@\n{lines}");
        let shown = show_section(&section, &Redactor::default());
        let text = shown.text.strip_prefix("diff --git a/x b/x\n@@ -1 +1 @@\n").unwrap();
        (text.to_string(), shown.hidden_places, shown.hides_other_lines)
    }

    #[test]
    fn only_a_key_is_hidden_between_its_marks() {
        let begin = "-----BEGIN RSA PRIVATE KEY-----";
        let end = "-----END RSA PRIVATE KEY-----";
        for (lines, hides) in [
            (format!("+{begin}\n+{KEY_LINE}\n+{KEY_LINE}\n+ab==\n+{end}\n"), false),
            (format!("+K = \"{begin}\\n\" +\n+  \"{KEY_LINE}\\n\" +\n+  \"{end}\"\n"), false),
            (format!("+{begin}\n+Proc-Type: 4,ENCRYPTED\n+\n+{KEY_LINE}\n+{end}\n"), false),
            (format!("+{begin}\n+{KEY_LINE}\n"), false),
            (format!("+# {begin}\n+exit 0\n+# {end}\n"), true),
            (format!("+# {begin}\n+exit\n+{KEY_LINE}\n+# {end}\n"), true),
            (format!("+# {begin}; exit\n+{KEY_LINE}\n+# {end}\n"), true),
            (format!("+# {begin}\n+{KEY_LINE}\n+# {end}; exit\n"), true),
            (format!("+# {begin}\n+{KEY_LINE}\n+: ;-----END exit\n"), true),
            (format!("+# {begin}\n+exit 0\n"), true),
        ] {
            let (text, places, hides_other_lines) = show(&lines);
            assert_eq!((places, hides_other_lines), (1, hides), "{lines}\n{text}");
        }
    }

    #[test]
    fn hidden_places_are_counted_and_control_characters_are_shown() {
        let token = "ghp_0123456789abcdefghijklmnop";
        assert_eq!(
            show(&format!("+a={token} b={token}\n+c\n")),
            ("+a=[redacted] b=[redacted]\n+c\n".to_string(), 2, false)
        );
        assert_eq!(
            show(&format!(" a={token}\n+c\n")),
            (" a=[redacted]\n+c\n".to_string(), 0, false)
        );
        assert_eq!(
            show("+printf '\u{1b}]'; exit 0\r\n+a\u{202e}b\r!\n"),
            ("+printf '\\u{1b}]'; exit 0\n+a\\u{202e}b\\u{d}!\n".to_string(), 0, false)
        );
    }
}
