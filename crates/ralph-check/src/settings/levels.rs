//! Detects lowered lint levels: `error` to `off`, `deny` to `allow`.

use super::{at_line, finding, quoted};
use crate::FileChange;
use crate::language::file_name;
use crate::source::Source;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;
use ralph_core::requirement::Finding;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Off,
    Warn,
    Error,
}

pub(super) fn lowered(change: &FileChange<'_>) -> Vec<Finding> {
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
    let before = Source::new(change.path, before);
    let was = levels(&before, separator);
    let after = Source::new(change.path, after);
    let mut findings = Vec::new();
    for (rule, (line, is)) in levels(&after, separator) {
        let message = match was.get(rule) {
            Some((_, was)) if is < *was => {
                format!("{} was {}, now {}", quoted(rule), was.name(), is.name())
            }
            None if is == Level::Off => format!("{} is turned off", quoted(rule)),
            Some(_) | None => continue,
        };
        findings.push(finding(at_line(change.path, line), "lint-relaxed", message));
    }
    findings
}

/// Each rule with its line and level. The last occurrence counts.
fn levels<'a>(source: &Source<'a>, separator: char) -> BTreeMap<&'a str, (usize, Level)> {
    let mut found = BTreeMap::new();
    for (number, line) in super::lines(source) {
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
                "off" | "allow" | "0" => Level::Off,
                "warn" | "1" => Level::Warn,
                "error" | "deny" | "forbid" | "2" => Level::Error,
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

impl Level {
    fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Warn => "a warning",
            Self::Error => "an error",
        }
    }
}
