//! Detects settings of pytest that select fewer tests: options in `addopts`, patterns of names, and a file that hides the
//! settings of another.

use super::quote_line;
use crate::FileChange;
use crate::change_finding::{line_place, new_finding};
use crate::language::file_name;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use ralph_core::requirement::{Finding, FindingSeverity};

const SELECTION: &str = "selection-narrowed";

/// Where pytest reads its settings, the first one wins.
const SETTINGS_FILES: [&str; 7] = [
    "pytest.toml",
    ".pytest.toml",
    "pytest.ini",
    ".pytest.ini",
    "pyproject.toml",
    "tox.ini",
    "setup.cfg",
];
const SECTIONS: [&str; 4] = ["pytest", "tool:pytest", "tool.pytest.ini_options", "tool.pytest"];
/// Options that leave tests out.
const NARROWING_OPTIONS: [&str; 9] = [
    "-k",
    "-m",
    "--ignore",
    "--ignore-glob",
    "--deselect",
    "--collect-only",
    "--co",
    "--lf",
    "--last-failed",
];
/// Patterns of names, with their defaults.
const NAME_PATTERNS: [(&str, &[&str]); 3] = [
    ("python_files", &["test_*.py", "*_test.py"]),
    ("python_classes", &["Test"]),
    ("python_functions", &["test"]),
];

#[derive(Default)]
struct PytestSettings {
    has_section: bool,
    values: Vec<SettingLines>,
}

struct SettingLines {
    key: String,
    line: usize,
    words: Vec<String>,
}

pub(super) fn find_narrowed_pytest(changes: &[FileChange<'_>]) -> Vec<Finding> {
    let settings = changes.iter().filter(|change| is_pytest_file(change.path));
    let mut findings = Vec::new();
    for change in settings {
        let Some(after) = change.after else { continue };
        let is = read_settings(change.path, after);
        let was = read_settings(change.path, change.before.unwrap_or_default());
        if !is.has_section {
            continue;
        }
        findings.extend(find_new_options(change.path, &was, &is));
        findings.extend(find_other_patterns(change.path, &was, &is));
        if change.before.is_none() && file_name(change.path).contains("pytest.") {
            let message = String::from(
                "is new: pytest no longer reads its settings from pyproject.toml, tox.ini or setup.cfg",
            );
            let found = new_finding(line_place(change.path, 1), SELECTION, message);
            findings.push(Finding { severity: FindingSeverity::Warning, ..found });
        }
    }
    findings
}

fn is_pytest_file(path: &str) -> bool {
    SETTINGS_FILES.contains(&file_name(path))
}

fn find_new_options(path: &str, was: &PytestSettings, is: &PytestSettings) -> Vec<Finding> {
    let known: BTreeSet<&str> = was.words("addopts").collect();
    let Some(options) = is.values.iter().find(|one| one.key == "addopts") else {
        return Vec::new();
    };
    let is_new = |word: &&String| {
        let name = option_name(word);
        NARROWING_OPTIONS.contains(&name)
            && !known.iter().any(|old| *old == word.as_str())
            && !known.iter().any(|old| option_name(old) == name && is_short_option(name))
    };
    let new: Vec<&str> = options.words.iter().filter(is_new).map(String::as_str).collect();
    if new.is_empty() {
        return Vec::new();
    }
    let message =
        format!("`addopts` has {} now, which leaves tests out", quote_line(&new.join(" ")));
    Vec::from([new_finding(line_place(path, options.line), SELECTION, message)])
}

/// `-k` and `-m` take the next word, so an old one has the same name and another value.
fn is_short_option(name: &str) -> bool {
    !name.starts_with("--")
}

fn option_name(word: &str) -> &str {
    let name = word.split('=').next().unwrap_or_default();
    match name.get(..2) {
        Some(short @ ("-k" | "-m")) => short,
        _ => name,
    }
}

fn find_other_patterns(path: &str, was: &PytestSettings, is: &PytestSettings) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (key, defaults) in NAME_PATTERNS {
        let Some(now) = is.values.iter().find(|one| one.key == key) else { continue };
        let old: Vec<&str> = was.words(key).collect();
        let old = if old.is_empty() { defaults.to_vec() } else { old };
        let covers = |pattern: &str| {
            let stem = pattern.trim_matches('*');
            now.words.iter().any(|word| word == pattern || stem.starts_with(word.trim_matches('*')))
        };
        let gone: Vec<&str> = old.iter().copied().filter(|pattern| !covers(pattern)).collect();
        // The second default is rarely used, so a project that names its files by the first loses nothing.
        let is_lost = gone.iter().any(|pattern| *pattern != "*_test.py") || was.has(key);
        if !gone.is_empty() && is_lost {
            let message = format!(
                "`{key}` is {} now, without {}",
                quote_line(&now.words.join(" ")),
                quote_line(&gone.join(" "))
            );
            findings.push(new_finding(line_place(path, now.line), SELECTION, message));
        }
    }
    findings
}

impl PytestSettings {
    fn has(&self, key: &str) -> bool {
        self.values.iter().any(|one| one.key == key)
    }

    fn words<'s>(&'s self, key: &'s str) -> impl Iterator<Item = &'s str> {
        let values = self.values.iter().filter(move |one| one.key == key);
        values.flat_map(|one| one.words.iter().map(String::as_str))
    }
}

/// Reads the section of pytest in an INI or TOML file.
fn read_settings(path: &str, text: &str) -> PytestSettings {
    const MOST_LINES: usize = 20_000;
    let mut settings = PytestSettings::default();
    // `pytest.toml` may do without a section of its own.
    let mut is_inside = false;
    let is_toml = path.rsplit_once('.').is_some_and(|(_, end)| end == "toml");
    let mut open_list = false;
    for (index, line) in text.lines().take(MOST_LINES).enumerate() {
        let code = line.trim();
        if code.starts_with(['#', ';']) || code.is_empty() {
            continue;
        }
        if !open_list
            && code.starts_with('[')
            && code.ends_with(']')
            && !line.starts_with([' ', '\t'])
        {
            is_inside = SECTIONS.contains(&code.trim_matches(['[', ']', ' ']));
            settings.has_section |= is_inside;
            continue;
        }
        if !is_inside {
            continue;
        }
        let continues = open_list || (!is_toml && line.starts_with([' ', '\t']));
        let (key, value) = match code.split_once('=') {
            Some((key, value)) if !continues => (Some(key.trim()), value),
            _ => (None, code),
        };
        if let Some(key) = key {
            let (key, line) = (key.to_string(), index + 1);
            settings.values.push(SettingLines { key, line, words: Vec::new() });
        }
        if let Some(last) = settings.values.last_mut() {
            last.words.extend(split_value(value));
        }
        open_list = is_toml
            && if open_list {
                !code.contains(']')
            } else {
                value.contains('[') && !value.contains(']')
            };
    }
    settings
}

fn split_value(value: &str) -> impl Iterator<Item = String> {
    let is_between = |char: char| char.is_whitespace() || "\"',[]".contains(char);
    value.split(is_between).filter(|word| !word.is_empty()).map(ToString::to_string)
}
