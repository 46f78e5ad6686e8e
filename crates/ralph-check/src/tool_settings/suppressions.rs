//! Detects comments and attributes that silence a whole file or crate.

use crate::FileChange;
use crate::change_finding::new_finding;
use crate::language::{Language, TestLanguage};
use crate::source_text::SourceText;
use crate::word_search;
use alloc::borrow::ToOwned;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use ralph_core::requirement::{Finding, FindingSeverity};

const RULE: &str = "lint-relaxed";

pub(super) fn find_added_suppressions(change: &FileChange<'_>) -> Vec<Finding> {
    let Some(text) = change.after else {
        return Vec::new();
    };
    let needles: &[&str] = match Language::from_path(change.path).test_language() {
        Some(TestLanguage::JavaScript) => {
            &["@ts-nocheck", "eslint-disable", "biome-ignore-all", "istanbul ignore file"]
        }
        Some(TestLanguage::Python) => &[
            "type: ignore",
            "mypy: ignore-errors",
            "ruff: noqa",
            "flake8: noqa",
            "pylint: disable=",
        ],
        Some(TestLanguage::Rust) => &["#![allow("],
        Some(TestLanguage::Java) => &["@SuppressWarnings(\"all\")", "@file:Suppress("],
        Some(TestLanguage::Go | TestLanguage::C | TestLanguage::Bats) | None => return Vec::new(),
    };
    // Most files contain none of them and need no lexing.
    if !needles.iter().any(|needle| text.contains(needle)) {
        return Vec::new();
    }
    let before = SourceText::new(change.path, change.before.unwrap_or_default());
    let after = SourceText::new(change.path, text);
    let had: BTreeSet<String> =
        find_suppressions(&before, needles).into_iter().map(|(_, what)| what).collect();
    let new =
        find_suppressions(&after, needles).into_iter().filter(|(_, what)| !had.contains(what));
    let severity =
        if change.before.is_some() { FindingSeverity::Error } else { FindingSeverity::Warning };
    let findings = new.filter(|_| change.before.is_some() || after.language != Language::Rust).map(
        |(at, what)| {
            let message = format!("`{what}` is new: it silences the whole file");
            Finding { severity, ..new_finding(after.place(at), RULE, message) }
        },
    );
    findings.take(20).collect()
}

fn find_suppressions(source: &SourceText<'_>, needles: &[&str]) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for needle in needles {
        for at in word_search::find_word(source.text, needle).take(50) {
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
                    format!("{needle}{space}{}", ralph_core::text::clean_line(arguments, 60))
                }
                _ => (*needle).to_owned(),
            };
            found.push((at, what));
        }
    }
    found
}
