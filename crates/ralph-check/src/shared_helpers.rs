//! Functions that assert on behalf of tests, in any file of the tests. A helper that asserts less makes every test that
//! calls it weaker, and no test changes by it.

use super::FileChange;
use super::assertions::AssertionIndex;
use super::change_finding::new_finding;
use super::disarmed_tests;
use super::language;
use super::source_text::SourceText;
use super::test_cases;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use ralph_core::requirement::{Finding, FindingSeverity};
use ralph_core::text;

const TEST_DIRECTORIES: [&str; 8] =
    ["test", "tests", "testing", "spec", "specs", "__tests__", "e2e", "test-utils"];

struct AssertingFunction {
    at: usize,
    assertions: usize,
}

pub(super) fn find_weakened_helpers(
    changes: &[FileChange<'_>],
    is_also_test: &dyn Fn(&str) -> bool,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for change in changes {
        let (Some(before), Some(after)) = (change.before, change.after) else {
            continue;
        };
        if before == after || !is_of_tests(change.path) && !is_also_test(change.path) {
            continue;
        }
        let before = SourceText::new(change.path, before);
        let after = SourceText::new(change.path, after);
        let now = find_helpers(&after);
        for (name, was) in find_helpers(&before) {
            let Some(is) = now.get(&name).filter(|is| is.assertions < was.assertions) else {
                continue;
            };
            let message = format!(
                "`{}` makes {}, down from {}, on behalf of the tests that call it",
                text::clean_line(&name, 100),
                text::count_noun(is.assertions, "assertion"),
                was.assertions
            );
            let found = new_finding(after.place(is.at), "helper-weakened", message);
            findings.push(Finding { severity: FindingSeverity::Warning, ..found });
        }
    }
    findings
}

fn is_of_tests(path: &str) -> bool {
    let is_named = language::Language::from_path(path) != language::Language::Rust
        && language::is_test_file(path);
    is_named
        || disarmed_tests::is_test_setup(path)
        || language::is_below_dir(path, &TEST_DIRECTORIES)
}

/// The functions of a file that are no tests, by name. Of functions with the same name only the first counts.
fn find_helpers(source: &SourceText<'_>) -> BTreeMap<String, AssertingFunction> {
    let assertions = AssertionIndex::find(source);
    let tests = test_cases::find_test_cases(source);
    let mut helpers = BTreeMap::new();
    for one in test_cases::find_definitions(source) {
        // Tests are in the order of the text and rarely nested.
        let next = tests.partition_point(|test| test.body.start <= one.body.start);
        let before = tests.get(next.saturating_sub(3)..next).unwrap_or_default();
        let is_test = before.iter().any(|test| test.body.contains(&one.body.start));
        if !is_test && !one.name.to_ascii_lowercase().starts_with("test") {
            let helper = AssertingFunction {
                at: one.body.start,
                assertions: assertions.count_within(&one.body),
            };
            helpers.entry(String::from(one.name)).or_insert(helper);
        }
    }
    helpers
}
