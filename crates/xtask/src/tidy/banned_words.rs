//! Rejects words that narrate a plan or mark unfinished work, markers of unresolved conflicts, and markup that no template
//! escapes.

use super::{TidyException, TidyFile};

const BANNED: [&str; 8] =
    ["Step #", "per spec", "as requested", "for now", "TODO", "FIXME", "XXX", "PreEscaped"];

/// Words for people. In a comment they usually stand for a process, a file or a session, which has a name.
const BANNED_IN_COMMENTS: [&str; 4] = ["nobody", "somebody", "whoever", "whom"];

const REASON: &str = "it searches the user's code for these words";

const FOREIGN: &str = "files of other tools, unchanged";
const FILE_NAME: &str = "the name of a file";

const EXCEPTIONS: &[TidyException] = &[
    TidyException { path: "fixtures/imports/", what: "Step #", reason: FOREIGN },
    TidyException { path: "fixtures/imports/", what: "for now", reason: FOREIGN },
    TidyException { path: "fixtures/imports/", what: "TODO", reason: FOREIGN },
    TidyException {
        path: "crates/ralph-lists/src/import/file_families.rs",
        what: "TODO",
        reason: FILE_NAME,
    },
    TidyException { path: "crates/ralph/src/cmd/import/mod.rs", what: "TODO", reason: FILE_NAME },
    TidyException { path: "docs/import.md", what: "TODO", reason: FILE_NAME },
    TidyException { path: "docs/cli.md", what: "TODO", reason: FILE_NAME },
    TidyException { path: "crates/ralph-check/src/", what: "TODO", reason: REASON },
    TidyException { path: "crates/ralph-check/src/", what: "FIXME", reason: REASON },
    TidyException { path: "crates/ralph-check/src/", what: "XXX", reason: REASON },
    TidyException { path: "crates/ralph-check/src/", what: "for now", reason: REASON },
    TidyException {
        path: "crates/ralph-check/tests/check/added_lines.rs",
        what: "TODO",
        reason: REASON,
    },
    TidyException {
        path: "crates/ralph-check/tests/check/added_lines.rs",
        what: "FIXME",
        reason: REASON,
    },
    TidyException {
        path: "crates/ralph-check/tests/check/added_lines.rs",
        what: "XXX",
        reason: REASON,
    },
    TidyException {
        path: "crates/ralph-serve/src/template/marks.rs",
        what: "PreEscaped",
        reason: "the drawings of marks, which have no text from elsewhere",
    },
    TidyException {
        path: "crates/ralph-deck/src/report/html.rs",
        what: "PreEscaped",
        reason: "the style, which has no text from elsewhere",
    },
    TidyException { path: "clippy.toml", what: "PreEscaped", reason: "it is banned there too" },
    TidyException { path: "crates/ralph/tests/it/tamper.rs", what: "TODO", reason: REASON },
    TidyException { path: "crates/ralph-gates/src/findings/", what: "TODO", reason: REASON },
];

pub(crate) fn check_words(source: &TidyFile) -> Vec<String> {
    if source.path == "crates/xtask/src/tidy/banned_words.rs" {
        return Vec::new();
    }
    let mut complaints = Vec::new();
    for (number, line) in source.text.lines().enumerate() {
        if ["<<<<<<< ", ">>>>>>> "].iter().any(|marker| line.starts_with(marker)) {
            complaints.push(format!("{}:{}: a conflict marker", source.path, number + 1));
        }
        let is_comment = source.path.starts_with("crates/")
            && source.is_rust()
            && line.trim_start().starts_with("//");
        let of_comments = BANNED_IN_COMMENTS.into_iter().filter(|_| is_comment);
        for word in BANNED.into_iter().chain(of_comments).filter(|word| contains_word(line, word)) {
            if !EXCEPTIONS.iter().any(|except| except.covers(source, word)) {
                complaints.push(format!(
                    "{}:{}: `{word}`: {}",
                    source.path,
                    number + 1,
                    line.trim()
                ));
            }
        }
    }
    complaints
}

/// Whether a line contains a whole word; `#` stands for a digit. Lower-case phrases match case-insensitively.
fn contains_word(line: &str, word: &str) -> bool {
    let is_phrase = !word.starts_with(char::is_uppercase);
    let line = if is_phrase { line.to_lowercase() } else { line.to_owned() };
    let (start, digit) = word.split_once('#').map_or((word, false), |(start, _)| (start, true));
    line.match_indices(start).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + start.len()..].chars().next();
        let is_part = |char: char| char.is_alphanumeric() || char == '_';
        let ends = if digit {
            after.is_some_and(|char| char.is_ascii_digit())
        } else {
            !after.is_some_and(is_part)
        };
        ends && !before.is_some_and(is_part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_words_match() {
        for (line, word, expected) in [
            ("// Step 3: write it", "Step #", true),
            ("enum Step { Write }", "Step #", false),
            ("good enough For Now.", "for now", true),
            ("what to wait for nowadays", "for now", false),
            ("// TODO: all of it", "TODO", true),
            ("the TodoWrite tool", "TODO", false),
            ("ENABLE_TODO_TOOLS=1", "TODO", false),
            ("mktemp XXXXXX", "XXX", false),
            ("as specified per special rule", "per spec", false),
        ] {
            assert_eq!(contains_word(line, word), expected, "{line}");
        }
    }
}
