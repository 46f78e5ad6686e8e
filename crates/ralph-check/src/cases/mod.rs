//! Finds the tests in a file as a test runner would collect them, and whether they would run.

mod go;
mod java;
mod javascript;
mod python;
mod rust;

use super::language::{Dialect, Language};
use super::source::Source;
use super::words;
use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

/// A file with more tests is generated.
const MOST_CASES: usize = 20_000;
const DEEPEST: usize = 16;
const LONGEST_NAME: usize = 200;

#[derive(Clone, Debug)]
pub(crate) struct Case {
    /// Including modules, classes and suites: `tests::nested`, `parser > quotes`, `TestParser.test_quotes`.
    pub(crate) name: String,
    pub(crate) at: usize,
    /// Without the name, so that renaming a test does not change it.
    pub(crate) body: Range<usize>,
    pub(crate) running: Running,
    /// The construct that excludes every other test.
    pub(crate) focused: Option<&'static str>,
    /// Assertions outside the body: `#[should_panic]`, `#[case(…)]`.
    pub(crate) assertions_above: usize,
}

/// Whether a test runs, with the construct that decides it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Running {
    Always,
    Sometimes(String),
    Never(String),
}

/// A function, which may assert on behalf of tests.
#[derive(Debug)]
pub(crate) struct Definition<'a> {
    pub(crate) name: &'a str,
    pub(crate) body: Range<usize>,
}

/// A Python class.
#[derive(Debug)]
pub(crate) struct Class<'a> {
    pub(crate) name: &'a str,
    /// The rest of the line after its name.
    pub(crate) bases: &'a str,
    pub(crate) at: usize,
    pub(crate) body: Range<usize>,
}

pub(crate) fn classes<'a>(source: &'a Source<'_>) -> Vec<Class<'a>> {
    python::classes(source)
}

/// Functions inside tests that are never called.
pub(crate) fn uncalled(source: &Source<'_>) -> Vec<Range<usize>> {
    const MOST: usize = 200;
    let code = &source.code;
    match source.language.dialect() {
        Some(Dialect::Python) => python::uncalled(source),
        Some(dialect @ (Dialect::Rust | Dialect::JavaScript)) => {
            let cases = cases(source);
            let is_nested = |one: &Definition<'_>| {
                // Tests are in the order of the text and rarely nested, so the enclosing one is among the last three.
                let next = cases.partition_point(|case| case.body.start < one.body.start);
                let before = cases.get(next.saturating_sub(3)..next).unwrap_or_default();
                before.iter().any(|case| one.body.end < case.body.end)
                    && (dialect == Dialect::Rust || is_function(code, one))
            };
            let is_once = |name: &str| words::find_all(code, name).nth(1).is_none();
            let nested = definitions(source).into_iter().filter(is_nested).take(MOST);
            nested.filter(|one| is_once(one.name)).map(|one| one.body).collect()
        }
        Some(Dialect::Go | Dialect::Java) | None => Vec::new(),
    }
}

/// `function name(…) {` or `const name = (…) => {`, but no other block that follows a name.
fn is_function(code: &str, one: &Definition<'_>) -> bool {
    let before = words::tail(code, one.body.start.saturating_sub(1), 2_000);
    let start = before.rfind([';', '{', '}', '\n']).map_or(0, |at| at + 1);
    let (before, statement) = before.split_at(start);
    let statement = statement.trim();
    let is_argument = before.trim_end().ends_with([',', '(', '=']);
    !is_argument
        && (statement.ends_with("=>") && statement.starts_with("const ")
            || statement.starts_with("function ")
            || statement.starts_with("async function "))
}

pub(crate) fn cases(source: &Source<'_>) -> Vec<Case> {
    let Some(dialect) = source.language.dialect() else {
        return Vec::new();
    };
    let mut found = match dialect {
        Dialect::Rust => rust::cases(source),
        Dialect::JavaScript => javascript::cases(source),
        Dialect::Python => python::cases(source),
        Dialect::Go => go::cases(source),
        Dialect::Java => java::cases(source),
    };
    found.truncate(MOST_CASES);
    found
}

pub(crate) fn definitions<'a>(source: &'a Source<'_>) -> Vec<Definition<'a>> {
    let Some(dialect) = source.language.dialect() else {
        return Vec::new();
    };
    let keywords: &[&str] = match dialect {
        Dialect::Rust => &["fn", "macro_rules!"],
        Dialect::JavaScript => &["function", "const"],
        Dialect::Go => &["func"],
        Dialect::Java if source.language == Language::Kotlin => &["fun"],
        Dialect::Java => return java::methods(source),
        Dialect::Python => return python::definitions(source),
    };
    let code = &source.code;
    let mut found = Vec::new();
    for keyword in keywords {
        for at in words::find_all(code, keyword).take(MOST_CASES) {
            let mut name_at = words::skip_space(code, at + keyword.len());
            if code.as_bytes().get(name_at) == Some(&b'(')
                && let Some(close) = source.brackets.close_of(name_at)
            {
                name_at = words::skip_space(code, close + 1);
            }
            let name = words::word_at(code, name_at);
            if let Some(body) = body_after(source, name_at + name.len())
                && !name.is_empty()
            {
                found.push(Definition { name, body });
            }
        }
    }
    found
}

/// The next block in braces, unless the statement ends before one. Parameters and return types are skipped.
fn body_after(source: &Source<'_>, from: usize) -> Option<Range<usize>> {
    const FARTHEST: usize = 2_000;
    let mut at = from;
    while at < from + FARTHEST {
        match source.code.as_bytes().get(at)? {
            b'(' | b'[' => at = source.brackets.close_of(at)? + 1,
            b'{' => return Some(at + 1..source.brackets.close_of(at)?),
            b';' | b'}' => return None,
            _ => at += 1,
        }
    }
    None
}

/// The modules, classes and suites around the current position, while tests are visited in the order of the text.
#[derive(Debug, Default)]
struct Suites {
    open: Vec<Suite>,
}

#[derive(Debug)]
struct Suite {
    name: String,
    end: usize,
    running: Running,
}

impl Suites {
    /// A suite inside one that never runs does not run either.
    fn enter(&mut self, suite: Suite) {
        let running = self.running(suite.running);
        self.open.push(Suite { running, ..suite });
    }

    fn leave(&mut self, at: usize) {
        while self.open.last().is_some_and(|suite| suite.end <= at) {
            self.open.pop();
        }
    }

    fn name(&self, own: &str, separator: &str) -> String {
        let mut name = String::new();
        for suite in self.open.iter().take(DEEPEST) {
            name.push_str(&suite.name);
            name.push_str(separator);
        }
        name.push_str(own);
        name
    }

    fn running(&self, own: Running) -> Running {
        let around = self.open.last().map_or(Running::Always, |suite| suite.running.clone());
        stricter(own, around)
    }
}

fn stricter(one: Running, other: Running) -> Running {
    match (one, other) {
        (never @ Running::Never(_), _) | (_, never @ Running::Never(_)) => never,
        (sometimes @ Running::Sometimes(_), _) | (_, sometimes @ Running::Sometimes(_)) => {
            sometimes
        }
        (Running::Always, Running::Always) => Running::Always,
    }
}

/// Calls that skip the enclosing test. Found once per file, because bodies may nest.
#[derive(Debug)]
struct Skips {
    calls: Vec<(usize, Running)>,
}

impl Skips {
    fn find(source: &Source<'_>, skips: &[&str]) -> Self {
        let mut calls = Vec::new();
        for skip in skips {
            calls.extend(words::find_all(&source.code, skip).take(MOST_CASES).map(|at| {
                let named = skip.trim_end_matches('(').to_owned();
                let own = if super::lines::is_conditional(source, at) {
                    Running::Sometimes(named)
                } else {
                    Running::Never(named)
                };
                (at, own)
            }));
        }
        calls.sort_by_key(|(at, _)| *at);
        Self { calls }
    }

    /// `Never` if a skip is unconditional.
    fn inside(&self, body: &Range<usize>) -> Running {
        let first = self.calls.partition_point(|(at, _)| *at < body.start);
        let calls = self.calls.get(first..).unwrap_or_default().iter();
        let inside = calls.take_while(|(at, _)| *at < body.end).take(20);
        inside.map(|(_, running)| running.clone()).fold(Running::Always, stricter)
    }
}

fn short(name: &str) -> String {
    ralph_core::text::line(name, LONGEST_NAME)
}
