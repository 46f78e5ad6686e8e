//! Detects lowered lint levels: `error` to `off`, `deny` to `allow`.

use super::quote_line;
use crate::FileChange;
use crate::change_finding::{line_place, new_finding};
use crate::language::file_name;
use crate::source_text::SourceText;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;
use ralph_core::requirement::Finding;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum LintLevel {
    Off,
    Warn,
    Error,
}

pub(super) fn find_lowered_levels(change: &FileChange<'_>) -> Vec<Finding> {
    let name = file_name(change.path);
    let separator = if name == "Cargo.toml" {
        '='
    } else if name.contains("eslint") || name.starts_with("biome") || name.starts_with(".oxlint") {
        ':'
    } else {
        return Vec::new();
    };
    let (Some(before), Some(after)) = (change.before, change.after) else {
        return Vec::new();
    };
    let before = SourceText::new(change.path, before);
    let was = read_lint_levels(&before, separator);
    let after = SourceText::new(change.path, after);
    let mut findings = Vec::new();
    for (rule, (line, is)) in read_lint_levels(&after, separator) {
        let message = match was.get(rule) {
            Some((_, was)) if is < *was => {
                format!("{} was {}, now {}", quote_line(rule), was.name(), is.name())
            }
            None if is == LintLevel::Off => format!("{} is turned off", quote_line(rule)),
            Some(_) | None => continue,
        };
        findings.push(new_finding(line_place(change.path, line), "lint-relaxed", message));
    }
    findings
}

/// Each rule with its line and level. The last occurrence counts.
fn read_lint_levels<'a>(
    source: &SourceText<'a>,
    separator: char,
) -> BTreeMap<&'a str, (usize, LintLevel)> {
    let mut found = BTreeMap::new();
    for (number, line) in super::uncommented_lines(source) {
        for part in line.split([',', '{']) {
            let Some((rule, value)) = part.split_once(separator) else {
                continue;
            };
            let rule = rule.trim().trim_matches(['"', '\'']);
            let value = value.trim().trim_start_matches(['[', '"', '\'', ' ']);
            let length = value.bytes().take_while(u8::is_ascii_alphanumeric).count();
            let (word, rest) = value.split_at(length);
            let is_number = word.starts_with(|char: char| char.is_ascii_digit());
            // A version begins with a number too.
            if is_number && (rest.starts_with('.') || separator == '=') {
                continue;
            }
            let level = match word {
                "off" | "allow" | "0" => LintLevel::Off,
                "warn" | "1" => LintLevel::Warn,
                "error" | "deny" | "forbid" | "2" => LintLevel::Error,
                _ => continue,
            };
            let is_name = |char: char| char.is_ascii_alphanumeric() || "-_/@".contains(char);
            if !rule.is_empty()
                && rule.chars().all(is_name)
                && !matches!(rule, "version" | "priority" | "level")
            {
                found.insert(rule, (number, level));
            }
        }
    }
    found
}

impl LintLevel {
    fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Warn => "a warning",
            Self::Error => "an error",
        }
    }
}
