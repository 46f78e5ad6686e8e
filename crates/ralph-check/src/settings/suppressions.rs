//! Detects comments and attributes that silence a whole file or crate.

use super::finding;
use crate::FileChange;
use crate::language::{Dialect, Language};
use crate::source::Source;
use crate::words;
use alloc::borrow::ToOwned;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use ralph_core::requirement::{Finding, Severity};

const RULE: &str = "lint-relaxed";

pub(super) fn added(change: &FileChange<'_>) -> Vec<Finding> {
    let Some(text) = change.after else {
        return Vec::new();
    };
    let needles: &[&str] = match Language::of(change.path).dialect() {
        Some(Dialect::JavaScript) => {
            &["@ts-nocheck", "eslint-disable", "biome-ignore-all", "istanbul ignore file"]
        }
        Some(Dialect::Python) => &[
            "type: ignore",
            "mypy: ignore-errors",
            "ruff: noqa",
            "flake8: noqa",
            "pylint: disable=",
        ],
        Some(Dialect::Rust) => &["#![allow("],
        Some(Dialect::Java) => &["@SuppressWarnings(\"all\")", "@file:Suppress("],
        Some(Dialect::Go) | None => return Vec::new(),
    };
    // Most files contain none of them and need no lexing.
    if !needles.iter().any(|needle| text.contains(needle)) {
        return Vec::new();
    }
    let before = Source::new(change.path, change.before.unwrap_or_default());
    let after = Source::new(change.path, text);
    let had: BTreeSet<String> =
        silenced(&before, needles).into_iter().map(|(_, what)| what).collect();
    let new = silenced(&after, needles).into_iter().filter(|(_, what)| !had.contains(what));
    let severity = if change.before.is_some() { Severity::Error } else { Severity::Warning };
    let findings = new.filter(|_| change.before.is_some() || after.language != Language::Rust).map(
        |(at, what)| {
            let message = format!("`{what}` is new: it silences the whole file");
            Finding { severity, ..finding(after.place(at), RULE, message) }
        },
    );
    findings.take(20).collect()
}

fn silenced(source: &Source<'_>, needles: &[&str]) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for needle in needles {
        for at in words::find_all(source.text, needle).take(50) {
            let is_comment = source.comments.as_bytes().get(at).is_some_and(|byte| *byte != b' ');
            let is_attribute =
                needle.starts_with(['#', '@']) && !is_comment && *needle != "@ts-nocheck";
            let line = source.line(source.line_of(at));
            let rest = source.text.get(at + needle.len()..line.end).unwrap_or_default();
            let before = source.text.get(line.start..at).unwrap_or_default();
            let of_file = match *needle {
                // `eslint-disable-next-line` concerns one line, and a matching `eslint-enable` limits the effect.
                "eslint-disable" => {
                    is_comment
                        && !rest.starts_with('-')
                        && !source.comments.contains("eslint-enable")
                }
                // Only on a line of its own, not after a statement.
                "type: ignore" | "pylint: disable=" => is_comment && before.trim_end() == "#",
                _ => is_comment || is_attribute,
            };
            if !of_file {
                continue;
            }
            let arguments = rest.split([')', '*']).next().unwrap_or_default().trim();
            let what = match *needle {
                "#![allow(" => format!("#![allow({arguments})]"),
                "@file:Suppress(" => format!("@file:Suppress({arguments})"),
                "eslint-disable" | "pylint: disable=" if !arguments.is_empty() => {
                    let space = if needle.ends_with('=') { "" } else { " " };
                    format!("{needle}{space}{}", ralph_core::text::line(arguments, 60))
                }
                _ => (*needle).to_owned(),
            };
            found.push((at, what));
        }
    }
    found
}
