//! The signature of a finding, which recognises the same finding in a later run and on another line.

use ralph_core::digest64::Digest64;
use ralph_core::requirement::Finding;

/// Hashes the file, the rule and the message, without parts that vary between runs: line and column, other numbers,
/// addresses, ids, durations, temporary directories.
///
/// The hash is cryptographic because the judged agent could exploit collisions: with another message of the same
/// signature, a new failure would pass for an old one. For the same reason, a finding without file and rule is
/// identified by every character of its message.
pub fn finding_signature(finding: &Finding) -> Digest64 {
    let file = finding.place.as_ref().map_or("", |place| place.file.as_str());
    let rule = finding.rule.as_deref().unwrap_or_default();
    let message = if file.is_empty() && rule.is_empty() {
        finding.message.clone()
    } else {
        normalise_message(&finding.message)
    };
    let mut hash = blake3::Hasher::new();
    for part in [file, rule, &message] {
        hash.update(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_le_bytes());
        hash.update(part.as_bytes());
    }
    let mut first = [0; 8];
    hash.finalize_xof().fill(&mut first);
    Digest64(u64::from_le_bytes(first))
}

/// Replaces numbers, ids and temporary paths by `#`. A count at the start of the message is kept, because `3 errors`
/// differ from `700 errors`.
fn normalise_message(message: &str) -> String {
    let (count, mut rest) = message.split_at(leading_count(message));
    let mut out = String::with_capacity(message.len());
    out.push_str(count);
    while let Some(char) = rest.chars().next() {
        let word = rest.split(|char: char| !is_word_char(char)).next().unwrap_or_default();
        if let Some(after) = strip_temporary_directory(rest) {
            out.push_str("#/");
            rest = after;
        } else if word.is_empty() {
            out.push(char);
            rest = rest.get(char.len_utf8()..).unwrap_or_default();
        } else {
            push_word(&mut out, word);
            rest = rest.get(word.len()..).unwrap_or_default();
        }
    }
    out
}

/// The length of the number at the start of a message, if words follow it.
fn leading_count(message: &str) -> usize {
    let number = message.trim_start();
    let words =
        number.trim_start_matches(|char: char| char.is_ascii_digit() || "_,'".contains(char));
    let is_count = number.starts_with(|char: char| char.is_ascii_digit())
        && words.starts_with(char::is_whitespace)
        && words.trim_start().starts_with(char::is_alphabetic);
    if is_count { message.len() - words.len() } else { 0 }
}

fn is_word_char(char: char) -> bool {
    char.is_alphanumeric() || char == '_'
}

fn push_word(out: &mut String, word: &str) {
    let has_digit = word.bytes().any(|byte| byte.is_ascii_digit());
    let hex = word.strip_prefix("0x").unwrap_or(word);
    let is_hex = hex.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !has_digit {
        out.push_str(word);
    } else if is_hex && (hex.len() >= 7 || hex.len() < word.len()) || is_amount(word) {
        push_placeholder(out);
    } else {
        // `u32`, `x2`, `TS2322` are names.
        out.push_str(word);
    }
}

/// Pushes one `#` for `1.25` as for `3`, so that a duration does not change when it becomes a round number.
fn push_placeholder(out: &mut String) {
    if out.ends_with("#.") {
        out.pop();
    } else {
        out.push('#');
    }
}

/// `12`, `12ms`, `1_000`, `3px`: a number with or without a unit.
fn is_amount(word: &str) -> bool {
    const UNITS: [&str; 17] = [
        "", "ns", "us", "µs", "ms", "s", "sec", "secs", "m", "min", "h", "kb", "mb", "gb", "KB",
        "MB", "x",
    ];
    let unit = word.trim_start_matches(|char: char| char.is_ascii_digit() || char == '_');
    word.starts_with(|char: char| char.is_ascii_digit()) && UNITS.contains(&unit)
}

/// The rest of the text after a temporary directory and the random name in it.
fn strip_temporary_directory(text: &str) -> Option<&str> {
    let rest = ["/private/tmp/", "/tmp/", "/var/tmp/", "/var/folders/", "/dev/shm/"]
        .iter()
        .find_map(|directory| text.strip_prefix(directory))?;
    let end = rest.find(|char: char| char.is_whitespace() || "\"'`:,;)".contains(char));
    let (path, after) = rest.split_at(end.unwrap_or(rest.len()));
    // The last component is the file itself, and is kept unless it is the random name.
    let kept = path.rsplit_once('/').map_or(0, |(_, name)| name.len());
    rest.get(path.len() - kept..).or(Some(after))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use ralph_core::requirement::FindingLocation;

    #[test]
    fn parts_that_vary_between_runs_are_replaced() {
        for (message, expected) in [
            ("left: 3, right: 14", "left: #, right: #"),
            ("took 1.25ms", "took #"),
            ("took 13s", "took #"),
            ("13s is too long", "# is too long"),
            ("3 errors in 7 files", "3 errors in # files"),
            ("1,700 errors", "1,700 errors"),
            ("12: expected 3", "#: expected #"),
            ("1.5 is not 2", "# is not #"),
            ("at 0x7f929a3d0490>", "at #>"),
            ("commit 59807616e1fa2540", "commit #"),
            ("at src/a.rs:12:5", "at src/a.rs:#:#"),
            ("expected u32, found TS2322 x2", "expected u32, found TS2322 x2"),
            ("cannot open /tmp/.tmpAb3x/deep/in.json: gone", "cannot open #/in.json: gone"),
            ("cannot open '/tmp/tmp8cm0ux85'", "cannot open '#/'"),
            ("`deadbeef` is a word, facade too", "`deadbeef` is a word, facade too"),
            ("id 1b4e28ba-2fa1-11d2-883f-0016d3cca427", "id #-2fa1-11d2-883f-#"),
        ] {
            assert_eq!(normalise_message(message), expected, "{message}");
        }
    }

    /// R-L7d: a new finding is not taken for an old one that differs only in a number.
    #[test]
    fn counts_and_bare_messages_differ_by_every_character() {
        let place = || Some(FindingLocation { file: "a.py".into(), line: Some(1), column: None });
        let rule = || Some("E501".to_owned());
        for (place, rule, one, other, is_same) in [
            (None, None, "3 problems found", "3 problems found", true),
            (None, None, "3 problems found", "700 problems found", false),
            (None, None, "found 3 problems", "found 700 problems", false),
            (None, None, "exit 1: in /tmp/a1/x", "exit 1: in /tmp/b2/x", false),
            (place(), None, "3 errors", "700 errors", false),
            (None, rule(), "3 errors", "700 errors", false),
            (place(), None, "line has 90 characters", "line has 99 characters", true),
            (None, rule(), "line has 90 characters", "line has 99 characters", true),
        ] {
            let of = |message: &str| {
                let mut finding = Finding::new(message.to_owned());
                finding.place.clone_from(&place);
                finding.rule.clone_from(&rule);
                finding_signature(&finding)
            };
            assert_eq!(of(one) == of(other), is_same, "{place:?} {rule:?} {one} / {other}");
        }
    }

    fn any_finding() -> impl Strategy<Value = Finding> {
        ("[a-z/.]{0,12}", ".{0,60}", proptest::option::of("[a-z0-9]{0,8}")).prop_map(
            |(file, message, rule)| {
                let mut finding = Finding::new(message);
                finding.rule = rule;
                finding.place = Some(FindingLocation { file, line: None, column: None });
                finding
            },
        )
    }

    proptest! {
        /// R-L7d: a failure that only moved is the same failure.
        #[test]
        fn moving_a_finding_changes_nothing(
            finding in any_finding(),
            line in proptest::option::of(1_u32..),
            column in proptest::option::of(1_u32..),
        ) {
            let mut moved = finding.clone();
            if let Some(place) = &mut moved.place {
                place.line = line;
                place.column = column;
            }
            prop_assert_eq!(finding_signature(&finding), finding_signature(&moved));
        }

        #[test]
        fn another_file_or_rule_is_another_finding(finding in any_finding()) {
            let mut other = finding.clone();
            other.rule = Some(format!("{}!", finding.rule.clone().unwrap_or_default()));
            prop_assert_ne!(finding_signature(&finding), finding_signature(&other));
            let mut other = finding.clone();
            if let Some(place) = &mut other.place {
                place.file.push('!');
            }
            prop_assert_ne!(finding_signature(&finding), finding_signature(&other));
        }
    }
}
