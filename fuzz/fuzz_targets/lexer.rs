//! The lexer and the checks on it: spans cover any text without gaps in every language, and the checks report nothing
//! outside of the given lines and nothing for an unchanged file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ralph_check::MovedLines;
use ralph_check::added_lines::{NoUserPatterns, check_added_lines};
use ralph_check::test_integrity::check_tests;
use ralph_check::tool_settings::check_settings;
use ralph_check::{FileChange, Language, split_into_spans};
use ralph_core::policy::{LineCheck, LinePolicy};
use ralph_core::requirement::Finding;

const PATHS: [&str; 24] = [
    "src/a.rs",
    "tests/a.rs",
    "a.test.tsx",
    "a.vue",
    "test_a.py",
    "conftest.py",
    "a_test.go",
    "ATest.java",
    "ATest.kt",
    "a.cs",
    "a.cpp",
    "a.swift",
    "a.scala",
    "a.php",
    "a.rb",
    "ci/test.sh",
    "Makefile",
    "pyproject.toml",
    "package.json",
    ".eslintrc.json",
    "jest.config.js",
    "a.sql",
    "a.html",
    "a.lua",
];

fuzz_target!(|data: &[u8]| {
    let Some((choice, bytes)) = data.split_first() else {
        return;
    };
    let path = PATHS[usize::from(*choice) % PATHS.len()];
    let text = &*String::from_utf8_lossy(bytes);
    for language in Language::ALL {
        covers(text, language);
    }
    let middle = (text.len() / 2..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let (before, after) = text.split_at(middle);
    on_lines(path, text);
    compared(path, before, after);
    let same = FileChange { path, before: Some(text), after: Some(text), added: &[] };
    assert_eq!(check_tests(&[same], &|_| true), []);
    assert_eq!(check_settings(&[same]), []);
});

fn covers(text: &str, language: Language) {
    let mut end = 0;
    for span in split_into_spans(text, language) {
        assert_eq!(span.start, end, "{language:?}");
        assert!(span.end > span.start && text.get(span.start..span.end).is_some(), "{language:?}");
        end = span.end;
    }
    assert_eq!(end, text.len(), "{language:?}");
}

fn on_lines(path: &str, text: &str) {
    let count = u32::try_from(text.split('\n').count()).unwrap();
    let added: Vec<u32> = (1..=count).step_by(2).collect();
    let policy = LinePolicy { forbid: LineCheck::ALL.to_vec(), ..LinePolicy::default() };
    let change = FileChange { path, before: None, after: Some(text), added: &added };
    let checked = check_added_lines(&policy, &change, &MovedLines::default(), &NoUserPatterns);
    let allowed = checked.allowed.iter().map(|allowed| &allowed.finding);
    for finding in checked.findings.iter().chain(allowed) {
        let line = finding.place.as_ref().and_then(|place| place.line).unwrap();
        assert!(added.contains(&line), "{finding:?}");
        is_bounded(finding);
    }
}

fn compared(path: &str, before: &str, after: &str) {
    for (before, after) in [(Some(before), Some(after)), (Some(after), None), (None, Some(before))]
    {
        let change = FileChange { path, before, after, added: &[] };
        check_tests(&[change], &|_| true).iter().for_each(is_bounded);
        check_settings(&[change]).iter().for_each(is_bounded);
    }
}

fn is_bounded(finding: &Finding) {
    assert!(!finding.message.is_empty() && finding.message.chars().count() <= 1_200, "{finding:?}");
}
