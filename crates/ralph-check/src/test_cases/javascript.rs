//! JavaScript: named calls of `it`, `test` and `describe` of Jest, Vitest, Mocha, Jasmine, Playwright and `node:test`.

use super::{
    FoundTest, OpenSuite, SkipCalls, SuiteStack, TestExecution, shorten_name, stricter_execution,
};
use crate::source_text::{STRING_FILLER, SourceText};
use crate::word_search;
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

const TEST_RUNNER_IMPORTS: [&str; 7] = [
    "vitest",
    "@jest/globals",
    "node:test",
    "bun:test",
    "@playwright/test",
    "import.meta.vitest",
    "from 'mocha'",
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum JsCallRole {
    Test,
    Suite,
}

struct JsTestCall {
    role: JsCallRole,
    name: String,
    body: Range<usize>,
    running: TestExecution,
    focused: Option<&'static str>,
}

pub(super) fn find_javascript_tests(source: &SourceText<'_>) -> Vec<FoundTest> {
    let is_test = source.is_test
        || TEST_RUNNER_IMPORTS.iter().any(|runner| {
            memchr::memmem::find(source.text.as_bytes(), runner.as_bytes()).is_some()
        });
    if !is_test {
        return Vec::new();
    }
    let code = &source.code;
    let mut suites = SuiteStack::default();
    let skips = SkipCalls::find(source, &["this.skip(", "ctx.skip(", "t.skip("]);
    let mut found = Vec::new();
    for (at, word) in word_search::split_words(code) {
        let before = at.checked_sub(1).and_then(|at| code.as_bytes().get(at));
        if matches!(before, Some(b'.' | b'$' | b'@')) {
            continue;
        }
        let Some(call) = parse_test_call(source, at, word) else {
            continue;
        };
        suites.leave(at);
        match call.role {
            JsCallRole::Suite => {
                suites.enter(OpenSuite {
                    name: call.name,
                    end: call.body.end,
                    execution: call.running,
                });
            }
            JsCallRole::Test => {
                let inside = skips.execution_within(&call.body);
                found.push(FoundTest {
                    name: suites.qualified_name(&call.name, " > "),
                    at,
                    execution: stricter_execution(inside, suites.execution(call.running)),
                    body: call.body,
                    focused: call.focused,
                    assertions_above: 0,
                });
                continue;
            }
        }
        if let Some(focused) = call.focused {
            // The suite itself excludes others; it has no assertions of its own.
            found.push(FoundTest {
                name: suites.qualified_name("", " > "),
                at,
                body: at..at,
                execution: TestExecution::Always,
                focused: Some(focused),
                assertions_above: 0,
            });
        }
    }
    found
}

fn parse_test_call(source: &SourceText<'_>, at: usize, word: &str) -> Option<JsTestCall> {
    let (role, mut running, mut focused) = match word {
        "it" | "test" | "specify" => (JsCallRole::Test, TestExecution::Always, None),
        "describe" | "context" | "suite" => (JsCallRole::Suite, TestExecution::Always, None),
        "xit" | "xtest" | "xspecify" => {
            (JsCallRole::Test, TestExecution::Never(word.to_owned()), None)
        }
        "xdescribe" | "xcontext" => {
            (JsCallRole::Suite, TestExecution::Never(word.to_owned()), None)
        }
        "fit" => (JsCallRole::Test, TestExecution::Always, Some("fit")),
        "fdescribe" => (JsCallRole::Suite, TestExecution::Always, Some("fdescribe")),
        _ => return None,
    };
    let mut role = role;
    let code = source.code.as_bytes();
    let mut next = at + word.len();
    for _ in 0..6 {
        match code.get(next)? {
            b'.' => {
                let modifier = word_search::word_at(&source.code, next + 1);
                let named = || format!("{word}.{modifier}");
                match modifier {
                    "skip" | "todo" | "fixme" | "failing" | "fails" | "fail" => {
                        running = stricter_execution(TestExecution::Never(named()), running);
                    }
                    "skipIf" | "runIf" => {
                        running = stricter_execution(running, TestExecution::Sometimes(named()));
                    }
                    "only" => focused = Some(".only"),
                    "describe" => role = JsCallRole::Suite,
                    "each" | "concurrent" | "sequential" | "serial" | "parallel" | "for"
                    | "extend" => {}
                    _ => return None,
                }
                next += 1 + modifier.len();
            }
            // A table of cases: `it.each([…])('…')` or it.each`…`('…').
            b'(' if !starts_with_string(source, next + 1) => {
                next = source.brackets.close_of(next)? + 1;
            }
            b'(' => {
                let close = source.brackets.close_of(next)?;
                let name = source.string_at(next + 1).map(shorten_name)?;
                let name_at = word_search::skip_space(&source.code, next + 1);
                let name_end = source.span_at(name_at).map_or(name_at, |span| span.end);
                return Some(JsTestCall {
                    role,
                    name,
                    body: name_end.min(close)..close,
                    running,
                    focused,
                });
            }
            b'"' => next = source.span_at(next)?.end,
            _ => return None,
        }
    }
    None
}

fn starts_with_string(source: &SourceText<'_>, at: usize) -> bool {
    let at = word_search::skip_space(&source.code, at);
    source.code.get(at..).is_some_and(|rest| rest.starts_with(STRING_FILLER))
}
