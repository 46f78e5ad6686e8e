//! Go: `func TestX(t *testing.T)` and similar functions in `_test.go` files, including suite methods.

use super::{FoundTest, SkipCalls, TestExecution, body_after, shorten_name, stricter_execution};
use crate::source_text::SourceText;
use crate::word_search;
use alloc::vec::Vec;
use core::ops::Range;

const GO_SKIP_CALLS: [&str; 6] =
    ["t.Skip(", "t.Skipf(", "t.SkipNow(", "b.Skip(", "f.Skip(", "s.T().Skip("];

pub(super) fn find_go_tests(source: &SourceText<'_>) -> Vec<FoundTest> {
    if !source.is_test {
        return Vec::new();
    }
    let whole_file = build_constraint_execution(source.text);
    let code = &source.code;
    let skips = SkipCalls::find(source, &GO_SKIP_CALLS);
    let mut found = Vec::new();
    for at in word_search::find_word(code, "func") {
        let mut name_at = word_search::skip_space(code, at + "func".len());
        if code.as_bytes().get(name_at) == Some(&b'(')
            && let Some(close) = source.brackets.close_of(name_at)
        {
            name_at = word_search::skip_space(code, close + 1);
        }
        let name = word_search::word_at(code, name_at);
        if !is_go_test_name(name) {
            continue;
        }
        if let Some(body) = body_after(source, name_at + name.len())
            && (!name.starts_with("Example") || has_expected_output(source, &body))
        {
            let inside = skips.execution_within(&body);
            found.push(FoundTest {
                name: shorten_name(name),
                at: name_at,
                start: at,
                body,
                execution: stricter_execution(whole_file.clone(), inside),
                focused: None,
                expects_panic: false,
            });
        }
    }
    found
}

/// An example without a comment about its output is compiled, but not run.
fn has_expected_output(source: &SourceText<'_>, body: &Range<usize>) -> bool {
    let comments = source.comments.get(body.clone()).unwrap_or_default().to_ascii_lowercase();
    comments.contains("output:")
}

/// `TestX` and `Test_x`, not `Testing`.
fn is_go_test_name(name: &str) -> bool {
    let rest =
        ["Test", "Benchmark", "Fuzz", "Example"].iter().find_map(|kind| name.strip_prefix(kind));
    rest.is_some_and(|rest| {
        !rest.starts_with(|char: char| char.is_lowercase()) && name != "TestMain"
    })
}

fn build_constraint_execution(text: &str) -> TestExecution {
    let head =
        text.lines().take(40).map(str::trim).take_while(|line| !line.starts_with("package "));
    let constraints = head.filter_map(|line| {
        line.strip_prefix("//go:build ").or_else(|| line.strip_prefix("// +build "))
    });
    constraints.fold(TestExecution::Always, |running, constraint| {
        let named = shorten_name(&alloc::format!("//go:build {constraint}"));
        let never = matches!(constraint.trim(), "ignore" | "never" | "disabled" | "skip");
        let own = if never { TestExecution::Never(named) } else { TestExecution::Sometimes(named) };
        stricter_execution(own, running)
    })
}
