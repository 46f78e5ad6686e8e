//! Finds the tests in a file as a test runner would collect them, and whether they would run.

mod bats;
mod c;
mod go;
mod java;
mod javascript;
mod python;
pub(crate) mod rust;

use super::language::{Language, TestLanguage};
use super::source_text::SourceText;
use super::word_search;
use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

/// A file with more tests is generated.
const MAX_CASES: usize = 20_000;
const MAX_SUITE_DEPTH: usize = 16;
const MAX_NAME_CHARS: usize = 200;

#[derive(Clone, Debug)]
pub(crate) struct FoundTest {
    /// Including modules, classes and suites: `tests::nested`, `parser > quotes`, `TestParser.test_quotes`.
    pub(crate) name: String,
    pub(crate) at: usize,
    /// Where its decorators, attributes or table begin.
    pub(crate) start: usize,
    /// Without the name, so that renaming a test does not change it.
    pub(crate) body: Range<usize>,
    pub(crate) execution: TestExecution,
    /// The construct that excludes every other test.
    pub(crate) focused: Option<&'static str>,
    /// Whether it passes only if it panics: `#[should_panic]`.
    pub(crate) expects_panic: bool,
}

/// Whether a test runs, with the construct that decides it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TestExecution {
    Always,
    Sometimes(String),
    Never(String),
}

/// A function, which may assert on behalf of tests.
#[derive(Debug)]
pub(crate) struct FunctionDefinition<'a> {
    pub(crate) name: &'a str,
    pub(crate) body: Range<usize>,
}

/// A Python class.
#[derive(Debug)]
pub(crate) struct PythonClass<'a> {
    pub(crate) name: &'a str,
    /// The rest of the line after its name.
    pub(crate) bases: &'a str,
    pub(crate) at: usize,
    pub(crate) body: Range<usize>,
}

pub(crate) fn find_classes<'a>(source: &'a SourceText<'_>) -> Vec<PythonClass<'a>> {
    python::find_python_classes(source)
}

/// Functions inside tests that are never called.
pub(crate) fn find_uncalled_functions(source: &SourceText<'_>) -> Vec<Range<usize>> {
    const MOST: usize = 200;
    let code = &source.code;
    match source.language.test_language() {
        Some(TestLanguage::Python) => python::find_uncalled_python_functions(source),
        Some(dialect @ (TestLanguage::Rust | TestLanguage::JavaScript)) => {
            let cases = find_test_cases(source);
            let is_nested = |one: &FunctionDefinition<'_>| {
                // Tests are in the order of the text and rarely nested, so the enclosing one is among the last three.
                let next = cases.partition_point(|case| case.body.start < one.body.start);
                let before = cases.get(next.saturating_sub(3)..next).unwrap_or_default();
                before.iter().any(|case| one.body.end < case.body.end)
                    && (dialect == TestLanguage::Rust || is_function_definition(code, one))
            };
            let is_once = |name: &str| word_search::find_word(code, name).nth(1).is_none();
            let nested = find_definitions(source).into_iter().filter(is_nested).take(MOST);
            nested.filter(|one| is_once(one.name)).map(|one| one.body).collect()
        }
        Some(TestLanguage::Go | TestLanguage::Java | TestLanguage::C | TestLanguage::Bats)
        | None => Vec::new(),
    }
}

/// `function name(…) {` or `const name = (…) => {`, but no other block that follows a name.
fn is_function_definition(code: &str, one: &FunctionDefinition<'_>) -> bool {
    let before = word_search::text_before(code, one.body.start.saturating_sub(1), 2_000);
    let start = before.rfind([';', '{', '}', '\n']).map_or(0, |at| at + 1);
    let (before, statement) = before.split_at(start);
    let statement = statement.trim();
    let is_argument = before.trim_end().ends_with([',', '(', '=']);
    !is_argument
        && (statement.ends_with("=>") && statement.starts_with("const ")
            || statement.starts_with("function ")
            || statement.starts_with("async function "))
}

pub(crate) fn find_test_cases(source: &SourceText<'_>) -> Vec<FoundTest> {
    let Some(dialect) = source.language.test_language() else {
        return Vec::new();
    };
    let mut found = match dialect {
        TestLanguage::Rust => rust::find_rust_tests(source),
        TestLanguage::JavaScript => javascript::find_javascript_tests(source),
        TestLanguage::Python => python::find_python_tests(source),
        TestLanguage::Go => go::find_go_tests(source),
        TestLanguage::Java => java::find_java_tests(source),
        TestLanguage::C => c::find_c_tests(source),
        TestLanguage::Bats => bats::find_bats_tests(source),
    };
    found.truncate(MAX_CASES);
    found
}

pub(crate) fn find_definitions<'a>(source: &'a SourceText<'_>) -> Vec<FunctionDefinition<'a>> {
    let Some(dialect) = source.language.test_language() else {
        return Vec::new();
    };
    let keywords: &[&str] = match dialect {
        TestLanguage::Rust => &["fn", "macro_rules!"],
        TestLanguage::JavaScript => &["function", "const"],
        TestLanguage::Go => &["func"],
        TestLanguage::Java if source.language == Language::Kotlin => &["fun"],
        TestLanguage::Java | TestLanguage::C => return java::find_java_methods(source),
        TestLanguage::Python => return python::find_python_functions(source),
        TestLanguage::Bats => return Vec::new(),
    };
    let code = &source.code;
    let mut found = Vec::new();
    for keyword in keywords {
        for at in word_search::find_word(code, keyword).take(MAX_CASES) {
            let mut name_at = word_search::skip_space(code, at + keyword.len());
            if code.as_bytes().get(name_at) == Some(&b'(')
                && let Some(close) = source.brackets.close_of(name_at)
            {
                name_at = word_search::skip_space(code, close + 1);
            }
            let name = word_search::word_at(code, name_at);
            if let Some(body) = body_after(source, name_at + name.len())
                && !name.is_empty()
            {
                found.push(FunctionDefinition { name, body });
            }
        }
    }
    found
}

/// The next block in braces, unless the statement ends before one. Parameters and return types are skipped.
fn body_after(source: &SourceText<'_>, from: usize) -> Option<Range<usize>> {
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
struct SuiteStack {
    open: Vec<OpenSuite>,
}

#[derive(Debug)]
struct OpenSuite {
    name: String,
    end: usize,
    execution: TestExecution,
}

impl SuiteStack {
    /// A suite inside one that never runs does not run either.
    fn enter(&mut self, suite: OpenSuite) {
        let running = self.execution(suite.execution);
        self.open.push(OpenSuite { execution: running, ..suite });
    }

    fn leave(&mut self, at: usize) {
        while self.open.last().is_some_and(|suite| suite.end <= at) {
            self.open.pop();
        }
    }

    fn qualified_name(&self, own: &str, separator: &str) -> String {
        let mut name = String::new();
        for suite in self.open.iter().take(MAX_SUITE_DEPTH) {
            name.push_str(&suite.name);
            name.push_str(separator);
        }
        name.push_str(own);
        name
    }

    fn execution(&self, own: TestExecution) -> TestExecution {
        let around =
            self.open.last().map_or(TestExecution::Always, |suite| suite.execution.clone());
        stricter_execution(own, around)
    }
}

fn stricter_execution(one: TestExecution, other: TestExecution) -> TestExecution {
    match (one, other) {
        (never @ TestExecution::Never(_), _) | (_, never @ TestExecution::Never(_)) => never,
        (sometimes @ TestExecution::Sometimes(_), _)
        | (_, sometimes @ TestExecution::Sometimes(_)) => sometimes,
        (TestExecution::Always, TestExecution::Always) => TestExecution::Always,
    }
}

/// Calls that skip the enclosing test. Found once per file, because bodies may nest.
#[derive(Debug)]
struct SkipCalls {
    calls: Vec<(usize, TestExecution)>,
}

impl SkipCalls {
    fn find(source: &SourceText<'_>, skips: &[&str]) -> Self {
        let mut calls = Vec::new();
        for skip in skips {
            calls.extend(word_search::find_word(&source.code, skip).take(MAX_CASES).map(|at| {
                let named = skip.trim_end_matches('(').to_owned();
                let own = if super::added_lines::is_conditional(source, at) {
                    TestExecution::Sometimes(named)
                } else {
                    TestExecution::Never(named)
                };
                (at, own)
            }));
        }
        calls.sort_by_key(|(at, _)| *at);
        Self { calls }
    }

    /// `Never` if a skip is unconditional.
    fn execution_within(&self, body: &Range<usize>) -> TestExecution {
        let first = self.calls.partition_point(|(at, _)| *at < body.start);
        let calls = self.calls.get(first..).unwrap_or_default().iter();
        let inside = calls.take_while(|(at, _)| *at < body.end).take(20);
        inside.map(|(_, running)| running.clone()).fold(TestExecution::Always, stricter_execution)
    }
}

fn shorten_name(name: &str) -> String {
    ralph_core::text::clean_line(name, MAX_NAME_CHARS)
}
