//! Java and Kotlin: methods with `@Test` or a similar annotation.

use super::{
    FoundTest, FunctionDefinition, OpenSuite, SkipCalls, SuiteStack, TestExecution, body_after,
    shorten_name, stricter_execution,
};
use crate::source_text::SourceText;
use crate::word_search;
use alloc::format;
use alloc::vec::Vec;

const TEST_ANNOTATIONS: [&str; 7] = [
    "Test",
    "ParameterizedTest",
    "RepeatedTest",
    "TestFactory",
    "TestTemplate",
    "Property",
    "Theory",
];
const DISABLING_ANNOTATIONS: [&str; 2] = ["Disabled", "Ignore"];
const JAVA_SKIP_CALLS: [&str; 4] =
    ["assumeTrue(", "assumeFalse(", "Assumptions.abort(", "assumeThat("];
/// Words before a parenthesis that are not calls.
const KEYWORDS: [&str; 9] =
    ["if", "for", "while", "switch", "catch", "synchronized", "try", "return", "new"];

pub(super) fn find_java_tests(source: &SourceText<'_>) -> Vec<FoundTest> {
    let code = &source.code;
    let mut suites = SuiteStack::default();
    let skips = SkipCalls::find(source, &JAVA_SKIP_CALLS);
    let mut found = Vec::new();
    let mut annotations: Vec<&str> = Vec::new();
    let mut annotated_at = None;
    // Where the annotated item may begin.
    let mut item_at = 0;
    for (at, word) in word_search::split_words(code) {
        let before = at.checked_sub(1).and_then(|at| code.as_bytes().get(at));
        if at < item_at {
            continue;
        }
        // Annotations of a field do not apply to the method after it.
        if code.get(item_at..at).is_some_and(|between| between.contains([';', '{', '}'])) {
            annotations.clear();
            annotated_at = None;
        }
        item_at = at + word.len();
        if before == Some(&b'@') && word != "interface" {
            let (name, end) = last_part(code, at, word);
            annotations.push(name);
            annotated_at = annotated_at.or(Some(at - 1));
            item_at = after_arguments(source, end);
            continue;
        }
        if matches!(word, "class" | "object" | "record") {
            let name_at = word_search::skip_space(code, at + word.len());
            let name = word_search::word_at(code, name_at);
            if let Some(body) = body_after(source, name_at + name.len()) {
                suites.leave(at);
                let running = annotation_execution(&annotations);
                suites.enter(OpenSuite {
                    name: shorten_name(name),
                    end: body.end,
                    execution: running,
                });
            }
            annotations.clear();
        } else if code.as_bytes().get(word_search::skip_space(code, at + word.len())) == Some(&b'(')
        {
            let taken = core::mem::take(&mut annotations);
            let first = annotated_at.take();
            if taken.iter().any(|annotation| TEST_ANNOTATIONS.contains(annotation))
                && let Some(body) = method_body(source, at + word.len())
            {
                suites.leave(at);
                let inside = match skips.execution_within(&body) {
                    TestExecution::Never(named) | TestExecution::Sometimes(named) => {
                        TestExecution::Sometimes(named)
                    }
                    TestExecution::Always => TestExecution::Always,
                };
                found.push(FoundTest {
                    name: suites.qualified_name(word, "."),
                    at,
                    start: first.unwrap_or(at),
                    execution: stricter_execution(
                        suites.execution(annotation_execution(&taken)),
                        inside,
                    ),
                    body,
                    focused: None,
                    expects_panic: false,
                });
            }
        }
    }
    found
}

pub(super) fn find_java_methods<'a>(source: &'a SourceText<'_>) -> Vec<FunctionDefinition<'a>> {
    let code = &source.code;
    let called = word_search::split_words(code).filter(|(at, word)| {
        code.as_bytes().get(at + word.len()) == Some(&b'(') && !KEYWORDS.contains(word)
    });
    let defined = called.filter_map(|(at, name)| {
        let close = source.brackets.close_of(at + name.len())?;
        let rest = code.get(close + 1..)?.trim_start();
        let opens = rest.starts_with('{') || rest.starts_with("throws");
        opens.then(|| Some(FunctionDefinition { name, body: body_after(source, close + 1)? }))?
    });
    defined.collect()
}

/// The last part of a qualified name such as `org.junit.Ignore`, and where it ends. Positions as in a Kotlin use-site
/// target, `@get:Rule`, are not part of the name.
fn last_part<'a>(code: &'a str, at: usize, word: &'a str) -> (&'a str, usize) {
    const MOST: usize = 12;
    let (mut name, mut end) = (word, at + word.len());
    for _ in 0..MOST {
        let next = word_search::word_at(code, end + 1);
        if code.as_bytes().get(end) != Some(&b'.') || next.is_empty() {
            break;
        }
        (name, end) = (next, end + 1 + next.len());
    }
    (name, end)
}

fn annotation_execution(annotations: &[&str]) -> TestExecution {
    let never = annotations.iter().find(|annotation| DISABLING_ANNOTATIONS.contains(annotation));
    let sometimes = annotations.iter().find(|annotation| {
        annotation.starts_with("DisabledOn")
            || annotation.starts_with("DisabledIf")
            || annotation.starts_with("EnabledOn")
            || annotation.starts_with("EnabledIf")
    });
    match (never, sometimes) {
        (Some(never), _) => TestExecution::Never(format!("@{never}")),
        (None, Some(sometimes)) => TestExecution::Sometimes(format!("@{sometimes}")),
        (None, None) => TestExecution::Always,
    }
}

fn after_arguments(source: &SourceText<'_>, at: usize) -> usize {
    let open = word_search::skip_space(&source.code, at);
    let is_open = source.code.as_bytes().get(open) == Some(&b'(');
    is_open.then(|| source.brackets.close_of(open)).flatten().map_or(at, |close| close + 1)
}

const MAX_EXPRESSION_BYTES: usize = 1_000;

/// In Kotlin a method may be a single expression.
fn method_body(source: &SourceText<'_>, at: usize) -> Option<core::ops::Range<usize>> {
    body_after(source, at).or_else(|| {
        let open = word_search::skip_space(&source.code, at);
        let close = source.brackets.close_of(open)?;
        let line =
            word_search::text_from(&source.code, close, MAX_EXPRESSION_BYTES).lines().next()?;
        line.contains('=').then(|| close + 1..close + line.len())
    })
}
