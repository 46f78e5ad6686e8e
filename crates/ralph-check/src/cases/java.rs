//! Java and Kotlin: methods with `@Test` or a similar annotation.

use super::{Case, Definition, Running, Skips, Suite, Suites, body_after, short, stricter};
use crate::source::Source;
use crate::words;
use alloc::format;
use alloc::vec::Vec;

const TESTS: [&str; 7] = [
    "Test",
    "ParameterizedTest",
    "RepeatedTest",
    "TestFactory",
    "TestTemplate",
    "Property",
    "Theory",
];
const NEVER: [&str; 2] = ["Disabled", "Ignore"];
const SKIPS: [&str; 4] = ["assumeTrue(", "assumeFalse(", "Assumptions.abort(", "assumeThat("];
/// Words before a parenthesis that are not calls.
const KEYWORDS: [&str; 9] =
    ["if", "for", "while", "switch", "catch", "synchronized", "try", "return", "new"];

pub(super) fn cases(source: &Source<'_>) -> Vec<Case> {
    let code = &source.code;
    let mut suites = Suites::default();
    let skips = Skips::find(source, &SKIPS);
    let mut found = Vec::new();
    let mut annotations: Vec<&str> = Vec::new();
    // Where the annotated item may begin.
    let mut item_at = 0;
    for (at, word) in words::words(code) {
        let before = at.checked_sub(1).and_then(|at| code.as_bytes().get(at));
        if at < item_at {
            continue;
        }
        // Annotations of a field do not apply to the method after it.
        if code.get(item_at..at).is_some_and(|between| between.contains([';', '{', '}'])) {
            annotations.clear();
        }
        item_at = at + word.len();
        if before == Some(&b'@') && word != "interface" {
            annotations.push(word);
            item_at = after_arguments(source, at + word.len());
            continue;
        }
        if matches!(word, "class" | "object" | "record") {
            let name_at = words::skip_space(code, at + word.len());
            let name = words::word_at(code, name_at);
            if let Some(body) = body_after(source, name_at + name.len()) {
                suites.leave(at);
                let running = disabled(&annotations);
                suites.enter(Suite { name: short(name), end: body.end, running });
            }
            annotations.clear();
        } else if code.as_bytes().get(words::skip_space(code, at + word.len())) == Some(&b'(') {
            let taken = core::mem::take(&mut annotations);
            if taken.iter().any(|annotation| TESTS.contains(annotation))
                && let Some(body) = method_body(source, at + word.len())
            {
                suites.leave(at);
                let inside = match skips.inside(&body) {
                    Running::Never(named) | Running::Sometimes(named) => Running::Sometimes(named),
                    Running::Always => Running::Always,
                };
                found.push(Case {
                    name: suites.name(word, "."),
                    at,
                    running: stricter(suites.running(disabled(&taken)), inside),
                    body,
                    focused: None,
                    assertions_above: 0,
                });
            }
        }
    }
    found
}

pub(super) fn methods<'a>(source: &'a Source<'_>) -> Vec<Definition<'a>> {
    let code = &source.code;
    let called = words::words(code).filter(|(at, word)| {
        code.as_bytes().get(at + word.len()) == Some(&b'(') && !KEYWORDS.contains(word)
    });
    let defined = called.filter_map(|(at, name)| {
        let close = source.brackets.close_of(at + name.len())?;
        let rest = code.get(close + 1..)?.trim_start();
        let opens = rest.starts_with('{') || rest.starts_with("throws");
        opens.then(|| Some(Definition { name, body: body_after(source, close + 1)? }))?
    });
    defined.collect()
}

fn disabled(annotations: &[&str]) -> Running {
    let never = annotations.iter().find(|annotation| NEVER.contains(annotation));
    let sometimes = annotations.iter().find(|annotation| {
        annotation.starts_with("DisabledOn")
            || annotation.starts_with("DisabledIf")
            || annotation.starts_with("EnabledOn")
            || annotation.starts_with("EnabledIf")
    });
    match (never, sometimes) {
        (Some(never), _) => Running::Never(format!("@{never}")),
        (None, Some(sometimes)) => Running::Sometimes(format!("@{sometimes}")),
        (None, None) => Running::Always,
    }
}

fn after_arguments(source: &Source<'_>, at: usize) -> usize {
    let open = words::skip_space(&source.code, at);
    let is_open = source.code.as_bytes().get(open) == Some(&b'(');
    is_open.then(|| source.brackets.close_of(open)).flatten().map_or(at, |close| close + 1)
}

const LONGEST_EXPRESSION: usize = 1_000;

/// In Kotlin a method may be a single expression.
fn method_body(source: &Source<'_>, at: usize) -> Option<core::ops::Range<usize>> {
    body_after(source, at).or_else(|| {
        let open = words::skip_space(&source.code, at);
        let close = source.brackets.close_of(open)?;
        let line = words::head(&source.code, close, LONGEST_EXPRESSION).lines().next()?;
        line.contains('=').then(|| close + 1..close + line.len())
    })
}
