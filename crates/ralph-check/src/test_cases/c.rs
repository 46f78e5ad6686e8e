//! C and C++: the macros of `GoogleTest`, Catch2, doctest, Boost, Check and Criterion, and functions that a runner of Unity
//! or cmocka registers.

use super::{FoundTest, SkipCalls, TestExecution, body_after, shorten_name, stricter_execution};
use crate::source_text::SourceText;
use crate::word_search;
use alloc::borrow::ToOwned;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::vec::Vec;

/// Macros whose arguments name a test.
const TEST_MACROS: [&str; 13] = [
    "TEST",
    "TEST_F",
    "TEST_P",
    "TYPED_TEST",
    "TEST_CASE",
    "TEST_CASE_METHOD",
    "SCENARIO",
    "BOOST_AUTO_TEST_CASE",
    "START_TEST",
    "Test",
    "ParameterizedTest",
    "TEST_METHOD",
    "UTEST",
];
/// Calls that register a function as a test.
const REGISTRATIONS: [&str; 5] =
    ["RUN_TEST", "cmocka_unit_test", "tcase_add_test", "CU_ADD_TEST", "mu_run_test"];
const C_SKIP_CALLS: [&str; 5] =
    ["GTEST_SKIP(", "TEST_IGNORE(", "TEST_IGNORE_MESSAGE(", "skip(", "cr_skip_test("];

pub(super) fn find_c_tests(source: &SourceText<'_>) -> Vec<FoundTest> {
    if !source.is_test {
        return Vec::new();
    }
    let code = &source.code;
    let registered = registered_names(source);
    let skips = SkipCalls::find(source, &C_SKIP_CALLS);
    let mut found = Vec::new();
    for (at, word) in word_search::split_words(code) {
        let open = at + word.len();
        if code.as_bytes().get(open) != Some(&b'(') {
            continue;
        }
        let Some(close) = source.brackets.close_of(open) else {
            continue;
        };
        let is_macro = TEST_MACROS.contains(&word);
        if !is_macro && !registered.contains(word) {
            continue;
        }
        let Some(body) = body_after(source, close + 1) else {
            continue;
        };
        // A body that is far away belongs to something else: `RUN_TEST(adds);` ends with its semicolon.
        let between = code.get(close + 1..body.start).unwrap_or_default();
        if between.len() > 80 {
            continue;
        }
        let name = if is_macro {
            let arguments = source.text.get(open + 1..close).unwrap_or_default();
            let parts = arguments.split(',').map(|part| part.trim().trim_matches('"'));
            parts.collect::<Vec<_>>().join(".")
        } else {
            word.to_owned()
        };
        let own = if name.contains("DISABLED_") {
            TestExecution::Never("DISABLED_".to_owned())
        } else {
            conditional_compilation(source, at)
        };
        found.push(FoundTest {
            name: shorten_name(&name),
            at,
            start: at,
            execution: stricter_execution(own, skips.execution_within(&body)),
            body,
            focused: None,
            expects_panic: false,
        });
    }
    found
}

/// The functions that the file registers as tests.
fn registered_names<'a>(source: &'a SourceText<'_>) -> BTreeSet<&'a str> {
    const MOST: usize = 5_000;
    let code = &source.code;
    let calls = REGISTRATIONS.iter().flat_map(|call| {
        word_search::find_word(code, call).take(MOST).filter_map(move |at| {
            let open = at + call.len();
            let close = source.brackets.close_of(open)?;
            let arguments = code.get(open + 1..close.min(open + 200))?;
            arguments
                .split(',')
                .map(str::trim)
                .rfind(|name| !name.is_empty() && name.bytes().all(word_search::is_word_byte))
        })
    });
    calls.collect()
}

/// `#if 0` above, without an `#endif` in between.
fn conditional_compilation(source: &SourceText<'_>, at: usize) -> TestExecution {
    const FARTHEST: usize = 400;
    let number = source.line_of(at);
    let directives = (number.saturating_sub(FARTHEST).max(1)..number)
        .rev()
        .map(|line| source.code_of_line(line).trim())
        .filter(|line| line.starts_with('#'));
    for directive in directives {
        let plain = directive.trim_start_matches('#').trim_start();
        if plain.starts_with("endif") || plain.starts_with("else") || plain.starts_with("elif") {
            return TestExecution::Always;
        }
        if plain == "if 0" {
            return TestExecution::Never(format!("#{plain}"));
        }
    }
    TestExecution::Always
}
