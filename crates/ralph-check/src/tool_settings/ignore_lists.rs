//! Detects new entries in lists of ignored or excluded items.

use super::quote_line;
use crate::FileChange;
use crate::change_finding::{line_place, new_finding};
use crate::language::file_name;
use crate::source_text::SourceText;
use crate::word_search;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use ralph_core::requirement::Finding;

const SELECTION: &str = "selection-narrowed";
const LINT: &str = "lint-relaxed";

/// Keys of such lists, and the rule that a new entry violates.
const IGNORE_LIST_KEYS: [(&str, &str); 16] = [
    ("testPathIgnorePatterns", SELECTION),
    ("modulePathIgnorePatterns", SELECTION),
    ("coveragePathIgnorePatterns", SELECTION),
    ("testIgnore", SELECTION),
    ("exclude", SELECTION),
    ("omit", SELECTION),
    ("norecursedirs", SELECTION),
    ("exclude-files", SELECTION),
    ("ignore", LINT),
    ("extend-ignore", LINT),
    ("extend_ignore", LINT),
    ("extend-exclude", LINT),
    ("disable", LINT),
    ("disable_error_code", LINT),
    ("ignorePatterns", LINT),
    ("ignores", LINT),
];

/// Entries that tests and linters normally ignore.
const COMMONLY_IGNORED: [&str; 15] = [
    "node_modules",
    "dist",
    "build",
    "coverage",
    ".next",
    "target",
    "out",
    "vendor",
    "venv",
    "__pycache__",
    "generated",
    ".git",
    ".cache",
    ".turbo",
    ".nuxt",
];

pub(super) fn find_grown_lists(change: &FileChange<'_>) -> Vec<Finding> {
    const SHOWN: usize = 5;
    let (Some(before), Some(after)) = (change.before, change.after) else {
        return Vec::new();
    };
    let before = SourceText::new(change.path, before);
    let after = SourceText::new(change.path, after);
    let mut findings = Vec::new();
    for (key, rule) in IGNORE_LIST_KEYS {
        // In a package manifest, `exclude` and `ignore` concern publishing and dependencies.
        if matches!(file_name(change.path), "Cargo.toml" | "package.json")
            && !key.contains("Ignore")
        {
            continue;
        }
        let was: BTreeSet<&str> =
            list_entries(&before, key).into_iter().map(|(_, entry)| entry).collect();
        let now = list_entries(&after, key);
        let new: Vec<_> = now
            .iter()
            .filter(|(_, entry)| {
                !was.contains(entry) && !COMMONLY_IGNORED.iter().any(|word| entry.contains(word))
            })
            .collect();
        if let Some((line, _)) = new.first() {
            let names: Vec<_> =
                new.iter().take(SHOWN).map(|(_, entry)| quote_line(entry)).collect();
            let more = if new.len() > SHOWN {
                format!(" and {} more", new.len() - SHOWN)
            } else {
                String::new()
            };
            let message = format!(
                "`{key}` grew from {} to {} entries: {}{more}",
                was.len(),
                now.len(),
                names.join(", ")
            );
            findings.push(new_finding(line_place(change.path, *line), rule, message));
        }
    }
    findings
}

/// The quoted entries of `key = […]`, or the bare ones of `key = A, B` and of the indented lines below it.
fn list_entries<'a>(source: &SourceText<'a>, key: &str) -> Vec<(usize, &'a str)> {
    const MOST: usize = 1_000;
    const MOST_KEYS: usize = 50;
    const LONGEST: usize = 20_000;
    let text = source.text;
    let mut found = Vec::new();
    for at in word_search::find_word(text, key).take(MOST_KEYS) {
        let line = source.line(source.line_of(at));
        let before = text.get(line.start..at).unwrap_or_default();
        if !before.trim_matches([' ', '\t', '"', '\'', '{', ',']).is_empty() {
            continue;
        }
        let rest = word_search::text_from(text, at + key.len(), LONGEST);
        let value = rest.trim_start_matches(['"', '\'', ' ', '\t']);
        let Some(value) = value.strip_prefix([':', '=']) else {
            continue;
        };
        let start = at + key.len() + (rest.len() - value.len());
        let list = value.trim_start();
        let number = |entry: &str| source.line_of(start + value.find(entry).unwrap_or_default());
        if let Some(list) = list.strip_prefix('[') {
            let list = list.split(']').next().unwrap_or_default();
            let quoted = list.split(['"', '\'']).skip(1).step_by(2).take(MOST);
            found.extend(quoted.map(|entry| (number(entry), entry)));
        } else if !list.starts_with('{') && !text.trim_start().starts_with('{') {
            let own = value.lines().next().unwrap_or_default();
            let below = value.lines().skip(1).take_while(|line| line.starts_with([' ', '\t']));
            let bare = core::iter::once(own).chain(below).flat_map(|line| line.split(','));
            let bare =
                bare.map(|entry| entry.trim().trim_start_matches("- ").trim_matches(['"', '\'']));
            found.extend(
                bare.filter(|entry| !entry.is_empty())
                    .take(MOST)
                    .map(|entry| (number(entry), entry)),
            );
        }
    }
    found
}
