//! Recognizes a finding that occurs again. Line numbers, durations, addresses and temporary paths differ each time, so
//! they do not count.

use crate::digest64::Digest64;
use alloc::string::String;

/// A longer word of hexadecimal digits, or of digits and letters with at least one digit, is an id or an address.
const MIN_ID_CHARS: usize = 8;

/// Identifies a finding of a requirement within a project.
pub fn lesson_signature(requirement: &str, finding: &str) -> Digest64 {
    Digest64::of_parts(&[requirement.as_bytes(), normalize_finding(finding).as_bytes()])
}

/// The finding in lower case, with `#` for numbers and ids, without the directories of absolute paths.
pub fn normalize_finding(finding: &str) -> String {
    let mut out = String::new();
    for word in finding.split_whitespace() {
        if !out.is_empty() {
            out.push(' ');
        }
        push_normalized(&mut out, word);
    }
    out
}

fn push_normalized(out: &mut String, word: &str) {
    // The directory of an absolute path is that of a checkout or a scratch directory.
    let start = word
        .find('/')
        .filter(|at| word[..*at].chars().all(|char| !char.is_alphanumeric() && char != '.'));
    let word = match start {
        Some(_) => word.rsplit_once('/').map_or(word, |(_, name)| name),
        None => word,
    };
    let mut rest = word;
    while !rest.is_empty() {
        let end = rest.find(|char: char| !char.is_alphanumeric()).unwrap_or(rest.len());
        let (run, others) = rest.split_at(end);
        push_run(out, run);
        let mut others = others.chars();
        if let Some(char) = others.next() {
            out.push(char);
        }
        rest = others.as_str();
    }
}

/// A run of letters and digits.
fn push_run(out: &mut String, run: &str) {
    let has_digit = run.chars().any(|char| char.is_ascii_digit());
    let is_hex = run.chars().all(|char| char.is_ascii_hexdigit());
    if has_digit && is_hex && run.chars().count() >= MIN_ID_CHARS {
        out.push('#');
        return;
    }
    let mut was_digit = false;
    for char in run.chars() {
        let is_digit = char.is_ascii_digit();
        if is_digit && !was_digit {
            out.push('#');
        } else if !is_digit {
            out.extend(char.to_lowercase());
        }
        was_digit = is_digit;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn details_that_differ_each_time_do_not_count() {
        for (finding, normal) in [
            ("src/parser.rs:88: nested_quotes: left 1", "src/parser.rs:#: nested_quotes: left #"),
            (
                "src/parser.rs:131:7:  nested_quotes:  left 27",
                "src/parser.rs:#:#: nested_quotes: left #",
            ),
            ("/tmp/x1/checkout/src/a.py:3: E501", "a.py:#: e#"),
            ("(/home/me/p/src/a.py:3) failed", "a.py:#) failed"),
            ("took 1.25 s", "took #.# s"),
            ("at 0xDEADBEEF01 in f", "at #xdeadbeef# in f"),
            ("commit 3f1c2ab0deadbeef is bad", "commit # is bad"),
            ("decade", "decade"),
            ("facade12", "#"),
            ("sha256 of v2", "sha# of v#"),
            ("", ""),
            ("Größe 3 ≠ 4", "größe # ≠ #"),
        ] {
            assert_eq!(normalize_finding(finding), normal, "{finding}");
        }
    }

    #[test]
    fn another_requirement_or_text_is_another_finding() {
        let one = lesson_signature("tests", "a.rs:1: broken");
        assert_eq!(one, lesson_signature("tests", "a.rs:2: broken"));
        assert_ne!(one, lesson_signature("lint", "a.rs:1: broken"));
        assert_ne!(one, lesson_signature("tests", "b.rs:1: broken"));
    }
}
