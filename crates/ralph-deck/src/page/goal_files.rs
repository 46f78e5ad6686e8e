//! Which changed files the goal does not seem to be about. A guess from names, shown as a hint and never as a verdict.

use std::collections::BTreeSet;

const MAX_LISTED: usize = 20;
const SHORTEST_WORD: usize = 3;
const LONGEST_EXTENSION: usize = 5;
/// Parts of paths that say nothing about a file's subject.
const GENERIC_WORDS: [&str; 12] = [
    "src", "lib", "main", "mod", "index", "crates", "packages", "init", "test", "tests", "spec",
    "the",
];

/// The changed files of which no word occurs in the goal. Empty if the goal names no file: then it does not say which
/// files are meant.
pub(super) fn find_outside_goal<'a>(
    goal: &str,
    changed: impl Iterator<Item = &'a str>,
) -> Vec<String> {
    if !goal.split_whitespace().any(is_file_name) {
        return Vec::new();
    }
    let goal_words: BTreeSet<String> = words(goal).collect();
    let is_named = |path: &str| goal.contains(path.rsplit('/').next().unwrap_or(path));
    let is_outside =
        |path: &&str| !is_named(path) && !words(path).any(|word| goal_words.contains(&word));
    changed.filter(is_outside).take(MAX_LISTED).map(str::to_string).collect()
}

/// Whether a word of the goal is a path, or a name with an extension.
fn is_file_name(word: &str) -> bool {
    let word = word.trim_matches(|char: char| !char.is_alphanumeric() && char != '/');
    if word.contains("://") {
        return false;
    }
    let Some((stem, extension)) = word.rsplit_once('.') else { return word.contains('/') };
    let is_extension = (1..=LONGEST_EXTENSION).contains(&extension.len())
        && extension.chars().all(|char| char.is_ascii_alphanumeric())
        && extension.chars().any(|char| char.is_ascii_alphabetic());
    is_extension && stem.len() > 1 && stem.chars().any(char::is_alphabetic)
}

fn words(text: &str) -> impl Iterator<Item = String> {
    let words = text.split(|char: char| !char.is_alphanumeric()).map(str::to_lowercase);
    words.filter(|word| {
        word.chars().count() >= SHORTEST_WORD && !GENERIC_WORDS.contains(&word.as_str())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_goal_that_names_files_has_files_outside_it() {
        let changed = ["src/export/stream.rs", ".github/workflows/ci.yml", "main.sh"];
        let outside = |goal: &str| find_outside_goal(goal, changed.iter().copied()).join(", ");
        let cases = [
            ("Stream the CSV export.", ""),
            ("Version 1.2 of the export, e.g. faster. See https://a.example/x.html", ""),
            ("Stream the rows in src/export/mod.rs", ".github/workflows/ci.yml, main.sh"),
            ("Let `export.rs` stream for main.sh, and run it in CI: ci.yml", ""),
            ("Let main.sh say goodbye.", "src/export/stream.rs, .github/workflows/ci.yml"),
        ];
        for (goal, expected) in cases {
            assert_eq!(outside(goal), expected, "{goal}");
        }
    }
}
