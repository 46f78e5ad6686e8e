//! JavaScript: named calls of `it`, `test` and `describe` of Jest, Vitest, Mocha, Jasmine, Playwright and `node:test`.

use super::{Case, Running, Skips, Suite, Suites, short, stricter};
use crate::source::{STRING, Source};
use crate::words;
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

const RUNNERS: [&str; 7] = [
    "vitest",
    "@jest/globals",
    "node:test",
    "bun:test",
    "@playwright/test",
    "import.meta.vitest",
    "from 'mocha'",
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Test,
    Suite,
}

struct Call {
    role: Role,
    name: String,
    body: Range<usize>,
    running: Running,
    focused: Option<&'static str>,
}

pub(super) fn cases(source: &Source<'_>) -> Vec<Case> {
    let is_test = source.is_test
        || RUNNERS.iter().any(|runner| {
            memchr::memmem::find(source.text.as_bytes(), runner.as_bytes()).is_some()
        });
    if !is_test {
        return Vec::new();
    }
    let code = &source.code;
    let mut suites = Suites::default();
    let skips = Skips::find(source, &["this.skip(", "ctx.skip(", "t.skip("]);
    let mut found = Vec::new();
    for (at, word) in words::words(code) {
        let before = at.checked_sub(1).and_then(|at| code.as_bytes().get(at));
        if matches!(before, Some(b'.' | b'$' | b'@')) {
            continue;
        }
        let Some(call) = call(source, at, word) else {
            continue;
        };
        suites.leave(at);
        match call.role {
            Role::Suite => {
                suites.enter(Suite { name: call.name, end: call.body.end, running: call.running });
            }
            Role::Test => {
                let inside = skips.inside(&call.body);
                found.push(Case {
                    name: suites.name(&call.name, " > "),
                    at,
                    running: stricter(inside, suites.running(call.running)),
                    body: call.body,
                    focused: call.focused,
                    assertions_above: 0,
                });
                continue;
            }
        }
        if let Some(focused) = call.focused {
            // The suite itself excludes others; it has no assertions of its own.
            found.push(Case {
                name: suites.name("", " > "),
                at,
                body: at..at,
                running: Running::Always,
                focused: Some(focused),
                assertions_above: 0,
            });
        }
    }
    found
}

fn call(source: &Source<'_>, at: usize, word: &str) -> Option<Call> {
    let (role, mut running, mut focused) = match word {
        "it" | "test" | "specify" => (Role::Test, Running::Always, None),
        "describe" | "context" | "suite" => (Role::Suite, Running::Always, None),
        "xit" | "xtest" | "xspecify" => (Role::Test, Running::Never(word.to_owned()), None),
        "xdescribe" | "xcontext" => (Role::Suite, Running::Never(word.to_owned()), None),
        "fit" => (Role::Test, Running::Always, Some("fit")),
        "fdescribe" => (Role::Suite, Running::Always, Some("fdescribe")),
        _ => return None,
    };
    let mut role = role;
    let code = source.code.as_bytes();
    let mut next = at + word.len();
    for _ in 0..6 {
        match code.get(next)? {
            b'.' => {
                let modifier = words::word_at(&source.code, next + 1);
                let named = || format!("{word}.{modifier}");
                match modifier {
                    "skip" | "todo" | "fixme" | "failing" | "fails" | "fail" => {
                        running = stricter(Running::Never(named()), running);
                    }
                    "skipIf" | "runIf" => {
                        running = stricter(running, Running::Sometimes(named()));
                    }
                    "only" => focused = Some(".only"),
                    "describe" => role = Role::Suite,
                    "each" | "concurrent" | "sequential" | "serial" | "parallel" | "for"
                    | "extend" => {}
                    _ => return None,
                }
                next += 1 + modifier.len();
            }
            // A table of cases: `it.each([…])('…')` or it.each`…`('…').
            b'(' if !names(source, next + 1) => next = source.brackets.close_of(next)? + 1,
            b'(' => {
                let close = source.brackets.close_of(next)?;
                let name = source.string_at(next + 1).map(short)?;
                let name_at = words::skip_space(&source.code, next + 1);
                let name_end = source.span_at(name_at).map_or(name_at, |span| span.end);
                return Some(Call {
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

fn names(source: &Source<'_>, at: usize) -> bool {
    let at = words::skip_space(&source.code, at);
    source.code.get(at..).is_some_and(|rest| rest.starts_with(STRING))
}
