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
    let own = names_defined_here(source);
    let mut found = Vec::new();
    for (at, word) in word_search::split_words(code).filter(|(_, word)| !own.contains(word)) {
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
                    start: at,
                    execution: stricter_execution(inside, suites.execution(call.running)),
                    body: call.body,
                    focused: call.focused,
                    expects_panic: false,
                });
                continue;
            }
        }
        if let Some(focused) = call.focused {
            // The suite itself excludes others; it has no assertions of its own.
            found.push(FoundTest {
                name: suites.qualified_name("", " > "),
                at,
                start: at,
                body: at..at,
                execution: TestExecution::Always,
                focused: Some(focused),
                expects_panic: false,
            });
        }
    }
    found
}

/// Names of test functions that the file defines itself, for something else or to replace them.
fn names_defined_here(source: &SourceText<'_>) -> Vec<&'static str> {
    const NAMES: [&str; 6] = ["it", "test", "specify", "describe", "context", "suite"];
    let code = &source.code;
    let is_defined = |name: &&'static str| {
        word_search::find_word(code, name).take(2_000).any(|at| {
            let before = word_search::text_before(code, at, 12);
            let rest = word_search::text_from(code, at + name.len(), 60).trim_start();
            match word_search::last_word(before) {
                "function" => rest.starts_with('('),
                "const" | "let" | "var" => rest.strip_prefix('=').is_some_and(|value| {
                    let value = value.trim_start();
                    let made = ["(", "async", "function"];
                    made.iter().any(|start| value.starts_with(start)) || value.contains("=>")
                }),
                _ => false,
            }
        })
    };
    NAMES.into_iter().filter(is_defined).collect()
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
        let after = word_search::skip_space(&source.code, next);
        // A chained call may begin on the next line.
        if matches!(code.get(after), Some(b'.' | b'(')) {
            next = after;
        }
        match code.get(next)? {
            b'<' => next = end_of_type_arguments(&source.code, next)?,
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
            b'(' if is_table(source, next) => next = source.brackets.close_of(next)? + 1,
            b'(' => {
                let close = source.brackets.close_of(next)?;
                let (name, name_end) = read_title(source, next, close)?;
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

/// `<[string, number]>` between a name and its parenthesis.
fn end_of_type_arguments(code: &str, open: usize) -> Option<usize> {
    const LONGEST: usize = 400;
    let mut depth = 0_i32;
    let mut before = b' ';
    for (offset, byte) in word_search::text_from(code, open, LONGEST).bytes().enumerate() {
        match byte {
            b'<' => depth += 1,
            b'>' if before != b'=' => depth -= 1,
            b';' => return None,
            _ => {}
        }
        before = byte;
        if depth == 0 {
            return Some(open + offset + 1);
        }
    }
    None
}

/// Whether another call follows, so that this one only passes the cases or a condition.
fn is_table(source: &SourceText<'_>, open: usize) -> bool {
    !starts_with_string(source, open + 1)
        && source.brackets.close_of(open).is_some_and(|close| {
            let next = word_search::skip_space(&source.code, close + 1);
            matches!(source.code.as_bytes().get(next), Some(b'(' | b'.'))
        })
}

/// The title and where it ends: a string, or an expression before a function.
fn read_title(source: &SourceText<'_>, open: usize, close: usize) -> Option<(String, usize)> {
    const LONGEST: usize = 300;
    let at = word_search::skip_space(&source.code, open + 1);
    if starts_with_string(source, open + 1) {
        let end = source.span_at(at).map_or(at, |span| span.end);
        return Some((source.string_at(open + 1).map(shorten_name)?, end.min(close)));
    }
    let code = source.code.get(at..close)?;
    let head = word_search::text_from(code, 0, LONGEST);
    let (title, rest) = head.split_once(',')?;
    let is_test = ["(", "async", "function", "t ", "t="]
        .iter()
        .any(|start| rest.trim_start().starts_with(start))
        && (head.contains("=>") || head.contains("function"));
    let is_plain =
        title.bytes().all(|byte| word_search::is_word_byte(byte) || b".()[]".contains(&byte));
    (is_test && is_plain && !title.is_empty()).then(|| (shorten_name(title), at + title.len()))
}

fn starts_with_string(source: &SourceText<'_>, at: usize) -> bool {
    let at = word_search::skip_space(&source.code, at);
    source.code.get(at..).is_some_and(|rest| rest.starts_with(STRING_FILLER))
}
