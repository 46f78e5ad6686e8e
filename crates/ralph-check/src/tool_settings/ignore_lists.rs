//! Detects new entries in lists of ignored or excluded items, and removed entries in lists of selected tests.

use super::quote_line;
use super::settings_files;
use crate::FileChange;
use crate::change_finding::{line_place, new_finding};
use crate::language::file_name;
use crate::source_text::SourceText;
use crate::word_search;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use ralph_core::requirement::{Finding, FindingSeverity};

const SELECTION: &str = "selection-narrowed";
const LINT: &str = "lint-relaxed";

/// Keys of lists of ignored items, and the rule that a new entry violates.
const IGNORE_LIST_KEYS: [(&str, &str); 17] = [
    ("testPathIgnorePatterns", SELECTION),
    ("modulePathIgnorePatterns", SELECTION),
    ("testIgnore", SELECTION),
    ("norecursedirs", SELECTION),
    ("coveragePathIgnorePatterns", LINT),
    ("exclude", LINT),
    ("omit", LINT),
    ("exclude-files", LINT),
    ("exclude_lines", LINT),
    ("ignore", LINT),
    ("extend-ignore", LINT),
    ("extend_ignore", LINT),
    ("extend-exclude", LINT),
    ("disable", LINT),
    ("disable_error_code", LINT),
    ("ignorePatterns", LINT),
    ("ignores", LINT),
];

/// Keys of lists of the tests to run, in the settings of JavaScript runners.
const SELECTING_KEYS: [&str; 6] =
    ["roots", "projects", "testMatch", "testRegex", "include", "workspace"];

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
    // The lists of a workflow exclude combinations of a matrix.
    if settings_files::is_ci_file(change.path) {
        return Vec::new();
    }
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
            list_entries(&before, key).into_iter().map(|entry| entry.text).collect();
        let now = list_entries(&after, key);
        let new: Vec<_> = now
            .iter()
            .filter(|entry| {
                // A negated entry includes something again.
                !was.contains(entry.text)
                    && !entry.text.starts_with('!')
                    && !COMMONLY_IGNORED.iter().any(|word| entry.text.contains(word))
            })
            .collect();
        if let Some(first) = new.first() {
            let is_of_tests = new.iter().any(|entry| selects_tests(&after, key, entry));
            let rule = if is_of_tests { SELECTION } else { rule };
            let names: Vec<_> =
                new.iter().take(SHOWN).map(|entry| quote_line(entry.text)).collect();
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
            findings.push(new_finding(line_place(change.path, first.line), rule, message));
        }
    }
    if is_javascript_runner(change.path) {
        findings.extend(find_shrunk_selection(&before, &after));
    }
    findings
}

/// Whether an `exclude` belongs to the tests of Vitest rather than to its coverage, to Vite or to a compiler.
fn selects_tests(source: &SourceText<'_>, key: &str, entry: &ListEntry<'_>) -> bool {
    if !matches!(key, "exclude" | "ignore") {
        return false;
    }
    let name = file_name(source.path);
    if name.starts_with(".mocharc") {
        return true;
    }
    is_javascript_runner(source.path) && enclosing_key(source, entry.key_at) == Some("test")
}

fn is_javascript_runner(path: &str) -> bool {
    let name = file_name(path);
    ["vitest.config.", "vite.config.", "vitest.workspace.", "jest.config.", "playwright.config."]
        .iter()
        .any(|stem| name.starts_with(stem))
}

/// The key of the object around a position: `test` for `test: { exclude: […] }`.
fn enclosing_key<'a>(source: &'a SourceText<'_>, at: usize) -> Option<&'a str> {
    const FARTHEST: usize = 4_000;
    let mut depth = 0_i32;
    let code = word_search::text_before(&source.code, at, FARTHEST);
    for (offset, byte) in code.bytes().enumerate().rev() {
        match byte {
            b'}' => depth += 1,
            b'{' if depth > 0 => depth -= 1,
            b'{' => {
                let before = code.get(..offset)?.trim_end().trim_end_matches([':', '=']);
                return Some(word_search::last_word(before));
            }
            _ => {}
        }
    }
    None
}

/// Entries that were removed from the lists of tests to run.
fn find_shrunk_selection(before: &SourceText<'_>, after: &SourceText<'_>) -> Vec<Finding> {
    let of_tests = |source: &SourceText<'_>, key: &str, entry: &ListEntry<'_>| match key {
        // Vite and compilers have lists of the same names.
        "include" | "projects" | "workspace" if !file_name(source.path).starts_with("jest") => {
            enclosing_key(source, entry.key_at) == Some("test")
        }
        _ => true,
    };
    let mut findings = Vec::new();
    for key in SELECTING_KEYS {
        let mut was = list_entries(before, key);
        was.retain(|entry| of_tests(before, key, entry));
        let now = list_entries(after, key);
        let kept: BTreeSet<&str> = now.iter().map(|entry| entry.text).collect();
        let gone: Vec<_> = was.iter().filter(|entry| !kept.contains(entry.text)).collect();
        if gone.is_empty() || now.is_empty() {
            continue;
        }
        let names: Vec<_> = gone.iter().take(5).map(|entry| quote_line(entry.text)).collect();
        let message = format!(
            "`{key}` selects {} instead of {}: {} is gone",
            ralph_core::text::count_noun(now.len(), "entry"),
            was.len(),
            names.join(", ")
        );
        let line = now.first().map_or(1, |entry| entry.line);
        let found = new_finding(line_place(after.path, line), SELECTION, message);
        // With other entries in their place, the tests may only have moved.
        let is_sure = now.len() < was.len();
        let severity = if is_sure { found.severity } else { FindingSeverity::Warning };
        findings.push(Finding { severity, ..found });
    }
    findings
}

struct ListEntry<'a> {
    line: usize,
    key_at: usize,
    text: &'a str,
}

/// The entries of a list: quoted ones of `key = […]`, lines with a dash below `key:`, or in INI files the bare ones of
/// `key = A, B` and of the indented lines below it. A single value is a list of one.
fn list_entries<'a>(source: &SourceText<'a>, key: &str) -> Vec<ListEntry<'a>> {
    const MOST: usize = 1_000;
    const MOST_KEYS: usize = 50;
    const LONGEST: usize = 20_000;
    let text = source.text;
    let mut found = Vec::new();
    for key_at in word_search::find_word(text, key).take(MOST_KEYS) {
        let line = source.line(source.line_of(key_at));
        let before = text.get(line.start..key_at).unwrap_or_default();
        let before_key = before.trim_end_matches(['"', '\'', ' ', '\t']);
        if !before_key.trim_start().is_empty() && !before_key.ends_with(['{', ',']) {
            continue;
        }
        let rest = word_search::text_from(text, key_at + key.len(), LONGEST);
        let value = rest.trim_start_matches(['"', '\'', ' ', '\t']);
        let Some(value) = value.strip_prefix([':', '=']) else {
            continue;
        };
        let start = key_at + key.len() + (rest.len() - value.len());
        let entries = split_entries(source.path, value, before.len());
        found.extend(entries.into_iter().take(MOST).map(|entry| ListEntry {
            line: source.line_of(start + value.find(entry).unwrap_or_default()),
            key_at,
            text: entry,
        }));
    }
    found
}

/// The entries of the list that begins here, below a key with this indentation.
fn split_entries<'a>(path: &str, value: &'a str, margin: usize) -> Vec<&'a str> {
    let extension = path.rsplit('.').next().unwrap_or_default();
    let list = value.trim_start_matches([' ', '\t']);
    if let Some(list) = list.trim_start().strip_prefix('[') {
        let list = list.split(']').next().unwrap_or_default();
        if list.contains(['"', '\'']) {
            return list.split(['"', '\'']).skip(1).step_by(2).collect();
        }
        // Outside of YAML, an entry without quotes is an expression.
        let is_yaml = matches!(extension, "yml" | "yaml");
        let bare = list.split(',').map(str::trim).filter(|entry| is_yaml && !entry.is_empty());
        return bare.collect();
    }
    let own = list.lines().next().unwrap_or_default().trim();
    match extension {
        "yml" | "yaml" if own.is_empty() => {
            let below = value.lines().skip(1).take_while(|line| {
                let indent = line.len() - line.trim_start().len();
                line.trim().is_empty()
                    || indent > margin
                    || indent == margin && line.trim_start().starts_with("- ")
            });
            let items = below.filter_map(|line| line.trim_start().strip_prefix("- "));
            items.map(|item| item.trim().trim_matches(['"', '\''])).collect()
        }
        "ini" | "cfg" | "coveragerc" | "flake8" | "pylintrc" => {
            let below = value.lines().skip(1).take_while(|line| line.starts_with([' ', '\t']));
            let bare = core::iter::once(own).chain(below).flat_map(|line| line.split(','));
            let bare = bare.map(|entry| entry.split(" #").next().unwrap_or_default().trim());
            bare.filter(|entry| !entry.is_empty() && !entry.starts_with(['#', ';'])).collect()
        }
        "yml" | "yaml" | "toml" | "js" | "mjs" | "cjs" | "ts" | "mts" => {
            let one = own.trim_end_matches(',').trim_matches(['"', '\'']);
            let is_value = !one.is_empty() && !one.starts_with(['{', '|', '>', '(']);
            is_value.then_some(one).into_iter().collect()
        }
        _ => Vec::new(),
    }
}
