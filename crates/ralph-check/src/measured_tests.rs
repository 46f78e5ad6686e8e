//! Measures the tests on one side of a change, so that they can be compared with the other side.

use super::assertions::AssertionIndex;
use super::language::TestLanguage;
use super::source_text::SourceText;
use super::test_cases::{self, FoundTest, TestExecution};
use super::word_search::{self, FnvHash};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;
use ralph_core::requirement::FindingLocation;

/// One test.
#[derive(Debug)]
pub(crate) struct MeasuredTest<'a> {
    pub(crate) path: &'a str,
    pub(crate) dialect: TestLanguage,
    pub(crate) name: String,
    pub(crate) place: FindingLocation,
    pub(crate) running: TestExecution,
    pub(crate) identity: TestIdentity,
    pub(crate) assertions: usize,
    pub(crate) swallowed_failures: usize,
    pub(crate) start: TestStart,
}

/// Hashes that identify a test when its name changes.
#[derive(Debug, Default)]
pub(crate) struct TestIdentity {
    /// Hash of the whole body; `None` if the body is too short.
    pub(crate) body: Option<u64>,
    /// Hashes of its lines, sorted.
    pub(crate) lines: Vec<u64>,
    /// Hashes of its assertions, sorted.
    pub(crate) assertions: Vec<u64>,
}

/// How a test begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TestStart {
    Proceeds,
    /// With an unconditional `return`.
    Returns,
}

/// A test or suite that excludes all others.
#[derive(Debug)]
pub(crate) struct FocusedTest<'a> {
    pub(crate) path: &'a str,
    pub(crate) name: String,
    pub(crate) place: FindingLocation,
    pub(crate) construct: &'static str,
}

/// All the tests on one side of a change.
#[derive(Debug, Default)]
pub(crate) struct ChangeSide<'a> {
    pub(crate) tests: Vec<MeasuredTest<'a>>,
    pub(crate) focused: Vec<FocusedTest<'a>>,
    /// How often each assertion occurs in all files.
    pub(crate) assertions: BTreeMap<u64, usize>,
}

/// A shorter body does not identify a test.
const MIN_BODY_BYTES: usize = 24;

impl<'a> ChangeSide<'a> {
    pub(crate) fn add(&mut self, source: &SourceText<'a>) {
        let cases = test_cases::find_test_cases(source);
        let Some(dialect) = source.language.test_language().filter(|_| !cases.is_empty()) else {
            return;
        };
        let assertions = AssertionIndex::find(source);
        for line in assertions.hashes() {
            *self.assertions.entry(*line).or_default() += 1;
        }
        let swallowed = find_swallowed_failures(source);
        // Bodies may nest, and hashing all of them must stay linear.
        let mut budget = source.text.len().saturating_mul(4);
        for case in cases {
            let place = source.place(case.at);
            if let Some(construct) = case.focused {
                let (path, name) = (source.path, case.name.clone());
                self.focused.push(FocusedTest { path, name, place: place.clone(), construct });
            }
            let is_suite = case.focused.is_some() && case.body.is_empty();
            if !is_suite {
                let is_affordable = case.body.len() <= budget;
                budget = budget.saturating_sub(case.body.len());
                let mut identity = if is_affordable {
                    test_identity(source, &case.body)
                } else {
                    TestIdentity::default()
                };
                if is_affordable {
                    identity.assertions.extend(assertions.hashes_within(&case.body));
                    identity.assertions.sort_unstable();
                }
                let within = swallowed.iter().filter(|at| case.body.contains(at)).count();
                self.tests.push(MeasuredTest {
                    path: source.path,
                    dialect,
                    place,
                    identity,
                    assertions: assertions.count_within(&case.body) + case.assertions_above,
                    swallowed_failures: within,
                    start: test_start(source, &case),
                    running: case.execution,
                    name: case.name,
                });
            }
        }
    }
}

impl MeasuredTest<'_> {
    /// The name without modules, classes and suites.
    pub(crate) fn own_name(&self) -> &str {
        let separator = match self.dialect {
            TestLanguage::Rust => "::",
            TestLanguage::JavaScript => " > ",
            TestLanguage::Python | TestLanguage::Go | TestLanguage::Java => ".",
        };
        self.name.rsplit(separator).next().unwrap_or(&self.name)
    }
}

/// Hashes the body, without white space and comments, and each of its lines.
fn test_identity(source: &SourceText<'_>, body: &Range<usize>) -> TestIdentity {
    let code = source.code.as_bytes().get(body.clone()).unwrap_or_default();
    let text = source.text.as_bytes().get(body.clone()).unwrap_or_default();
    let mut whole = FnvHash::EMPTY;
    let mut length = 0;
    let mut lines = Vec::new();
    for (code, text) in code.split(|byte| *byte == b'\n').zip(text.split(|byte| *byte == b'\n')) {
        let mut line = FnvHash::EMPTY;
        let mut of_line = 0;
        // White space in the code is white space or a comment in the text.
        for (_, byte) in code.iter().zip(text).filter(|(code, _)| !code.is_ascii_whitespace()) {
            line.add(&[*byte]);
            whole.add(&[*byte]);
            of_line += 1;
        }
        length += of_line;
        if of_line > 3 {
            lines.push(line.value());
        }
    }
    lines.sort_unstable();
    let body = (length >= MIN_BODY_BYTES).then(|| whole.value());
    TestIdentity { body, lines, assertions: Vec::new() }
}

fn test_start(source: &SourceText<'_>, case: &FoundTest) -> TestStart {
    let code = source.code.get(case.body.clone()).unwrap_or_default();
    let begins = match source.language.test_language() {
        Some(TestLanguage::Python) => {
            let mut lines = code.lines().skip(1).map(str::trim);
            // Skips the docstring and the rest of the parameters.
            lines.find(|line| !line.is_empty() && !line.starts_with(['"', ')'])).unwrap_or_default()
        }
        Some(TestLanguage::JavaScript) => code.split_once('{').map_or("", |(_, rest)| rest),
        Some(TestLanguage::Rust | TestLanguage::Go | TestLanguage::Java) | None => code,
    };
    let begins = begins.trim_start();
    let after = begins.strip_prefix("return").map(|rest| rest.trim_start_matches([' ', '\t']));
    match after {
        Some(rest) if rest.is_empty() || rest.starts_with([';', '\n', '\r', '}']) => {
            TestStart::Returns
        }
        _ => TestStart::Proceeds,
    }
}

/// The positions where failures are caught and ignored.
fn find_swallowed_failures(source: &SourceText<'_>) -> Vec<usize> {
    const MOST: usize = 200;
    let code = &source.code;
    match source.language.test_language() {
        None => Vec::new(),
        Some(TestLanguage::Python) => {
            let caught = word_search::find_word(code, "except").take(MOST * 4).filter(|at| {
                let line = source.line_of(*at);
                let clause = source.code.get(*at..source.line(line).end).unwrap_or_default();
                let what = clause.trim_start_matches("except").trim().trim_end_matches(':');
                let broad = ["", "Exception", "BaseException", "AssertionError"];
                let broad = broad.contains(&what.split(" as ").next().unwrap_or_default().trim());
                broad
                    && matches!(
                        source.code_of_line(line + 1).trim(),
                        "pass" | "..." | "return" | "continue"
                    )
            });
            let suppressed = ["suppress(AssertionError", "suppress(Exception"];
            let suppressed =
                suppressed.iter().flat_map(|needle| word_search::find_word(code, needle));
            caught.chain(suppressed).take(MOST).collect()
        }
        Some(TestLanguage::JavaScript | TestLanguage::Java) => {
            word_search::find_word(code, "catch")
                .filter(|at| ignores_caught_error(source, at + "catch".len()))
                .take(MOST)
                .collect()
        }
        Some(TestLanguage::Go) => word_search::find_word(code, "recover()").take(MOST).collect(),
        Some(TestLanguage::Rust) => {
            word_search::find_word(code, "catch_unwind(").take(MOST).collect()
        }
    }
}

/// `catch (e) {}`, `catch {}` or `.catch(() => {})`
fn ignores_caught_error(source: &SourceText<'_>, at: usize) -> bool {
    let code = source.code.as_bytes();
    let mut next = word_search::skip_space(&source.code, at);
    if code.get(next) == Some(&b'(')
        && let Some(close) = source.brackets.close_of(next)
    {
        let inside = source.code.get(next + 1..close.min(next + 60)).unwrap_or_default();
        let inside: String = inside.chars().filter(|char| !char.is_whitespace()).collect();
        if inside.ends_with("=>{}") {
            return true;
        }
        next = word_search::skip_space(&source.code, close + 1);
    }
    code.get(next) == Some(&b'{')
        && source.brackets.close_of(next) == Some(word_search::skip_space(&source.code, next + 1))
}
