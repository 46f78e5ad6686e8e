//! Detects tests that still exist but are no longer collected, and recorded expectations that were replaced.

use super::FileChange;
use super::change_finding::{file_place, new_finding};
use super::language::{self, Language, TestLanguage, is_test_file};
use super::source_text::SourceText;
use super::word_search::{self, FnvHash};
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use ralph_core::requirement::{Finding, FindingSeverity};

/// Names that keep pytest and unittest from collecting tests.
const UNCOLLECTING_NAMES: [&str; 5] = [
    "collect_ignore",
    "collect_ignore_glob",
    "pytest_collection_modifyitems",
    "pytest_ignore_collect",
    "load_tests",
];

pub(super) fn find_narrowed_collection(changes: &[FileChange<'_>]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for change in changes {
        match Language::from_path(change.path).test_language() {
            Some(TestLanguage::Python) => findings.extend(find_uncollecting_names(change)),
            Some(TestLanguage::Rust) => findings.extend(find_removed_modules(changes, change)),
            Some(
                TestLanguage::JavaScript
                | TestLanguage::Go
                | TestLanguage::Java
                | TestLanguage::C
                | TestLanguage::Bats,
            )
            | None => {}
        }
        if is_snapshot_file(change.path) {
            findings.extend(check_snapshot(change));
        }
    }
    findings
}

fn find_uncollecting_names(change: &FileChange<'_>) -> Vec<Finding> {
    let Some(after) = change.after else {
        return Vec::new();
    };
    if !UNCOLLECTING_NAMES.iter().any(|word| after.contains(word)) {
        return Vec::new();
    }
    let before = SourceText::new(change.path, change.before.unwrap_or_default());
    let after = SourceText::new(change.path, after);
    let newly = UNCOLLECTING_NAMES
        .iter()
        .filter(|word| !word_search::contains_word(&before.code, word))
        .filter_map(|word| {
            let at = word_search::find_word(&after.code, word).next()?;
            let message = format!("`{word}` is new: it can keep tests from being collected");
            let found = new_finding(after.place(at), "collection-narrowed", message);
            // A hook that only sorts or marks tests runs all of them.
            let is_sure = *word != "pytest_collection_modifyitems" || drops_items(&after, at);
            let severity = if is_sure { found.severity } else { FindingSeverity::Warning };
            Some(Finding { severity, ..found })
        });
    newly.collect()
}

/// Whether the hook deselects, skips or removes tests.
fn drops_items(source: &SourceText<'_>, at: usize) -> bool {
    const FARTHEST: usize = 2_000;
    let hook = word_search::text_from(&source.code, at, FARTHEST);
    let hook = hook.split("\ndef ").next().unwrap_or_default();
    let words =
        ["deselect", "deselected", "skip", "skipif", "xfail", "clear", "remove", "pop", "del"];
    hook.contains("items[:]") || words.iter().any(|word| word_search::contains_word(hook, word))
}

/// Finds test modules whose `mod x;` was removed while their file still exists.
fn find_removed_modules(changes: &[FileChange<'_>], change: &FileChange<'_>) -> Vec<Finding> {
    let (Some(before), Some(after)) = (change.before, change.after) else {
        return Vec::new();
    };
    let in_tests = language::is_below_dir(change.path, &["tests"]);
    if !in_tests && !before.contains("#[cfg(test)]") {
        return Vec::new();
    }
    let before = SourceText::new(change.path, before);
    let now = declared_modules(&SourceText::new(change.path, after), true);
    let gone = declared_modules(&before, in_tests).into_iter().filter(|name| !now.contains(name));
    let was_deleted = |name: &str| {
        changes.iter().any(|other| {
            let stem = other.path.trim_end_matches(".rs").trim_end_matches("/mod");
            other.after.is_none() && language::file_name(stem) == name
        })
    };
    gone.filter(|name| !was_deleted(name))
        .map(|name| {
            let message = format!("`mod {name};` was removed: its tests are no longer compiled");
            new_finding(file_place(change.path), "collection-narrowed", message)
        })
        .collect()
}

/// The modules that a file declares: all of them, or only those under `#[cfg(test)]`.
fn declared_modules(source: &SourceText<'_>, all: bool) -> BTreeSet<String> {
    let code = &source.code;
    let found = word_search::find_word(code, "mod").filter_map(|at| {
        let name = word_search::word_at(code, word_search::skip_space(code, at + 3));
        let before = code.get(..at)?.trim_end().trim_end_matches("pub").trim_end();
        let is_for_tests = before.ends_with("#[cfg(test)]");
        (!name.is_empty() && (all || is_for_tests)).then(|| String::from(name))
    });
    found.collect()
}

fn is_snapshot_file(path: &str) -> bool {
    [".snap", ".ambr", ".approved.txt"].iter().any(|end| path.ends_with(end))
}

/// A changed snapshot deserves attention but is often right, so it is only a warning and never blocks a stop.
fn check_snapshot(change: &FileChange<'_>) -> Option<Finding> {
    const FEW: usize = 10;
    let before = change.before?;
    let message = match change.after {
        None => String::from("the recorded expectations were deleted"),
        Some(after) => {
            let (was, is) = (line_hashes(before), line_hashes(after));
            let kept = was.iter().filter(|line| is.contains(line)).count();
            let entries = |text: &str| text.matches("exports[`").count();
            let (had, has) = (entries(before), entries(after));
            if has < had {
                format!("recorded expectations fell from {had} to {has}")
            } else if was.len() >= FEW && kept * 2 < was.len() {
                format!("re-recorded: only {kept} of {} lines are unchanged", was.len())
            } else {
                return None;
            }
        }
    };
    let found = new_finding(file_place(change.path), "snapshot-changed", message);
    Some(Finding { severity: FindingSeverity::Warning, ..found })
}

/// The new path of a deleted test file, if no test runner collects it there.
pub(super) fn find_renamed_file<'a>(
    changes: &[FileChange<'a>],
    gone: &FileChange<'_>,
) -> Option<&'a str> {
    const MOST: usize = 200;
    let before = gone.before?;
    let was = line_hashes(before);
    let could_be = |path: &str, after: &str| {
        !is_test_file(path) && after.len() / 2 <= before.len() && before.len() / 2 <= after.len()
    };
    let new = changes.iter().filter(|change| change.before.is_none());
    let new = new.filter_map(|change| Some((change.path, change.after?)));
    new.filter(|(path, after)| could_be(path, after)).take(MOST).find_map(|(path, after)| {
        let is = line_hashes(after);
        let kept = was.iter().filter(|line| is.contains(line)).count();
        (!was.is_empty() && kept * 10 >= was.len() * 6).then_some(path)
    })
}

fn line_hashes(text: &str) -> BTreeSet<u64> {
    let lines = text.lines().map(str::trim).filter(|line| line.len() > 3);
    lines
        .map(|line| {
            let mut hash = FnvHash::EMPTY;
            hash.add(line.as_bytes());
            hash.value()
        })
        .collect()
}
