//! Measures the tests on one side of a change, so that they can be compared with the other side.

use super::assertions::{self, AssertingStatement, AssertionIndex};
use super::language::TestLanguage;
use super::source_text::SourceText;
use super::test_cases::{self, FoundTest, TestExecution};
use super::test_tables;
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
    /// The statements that assert, in the order of the text.
    pub(crate) expectations: Vec<AssertingStatement>,
    /// How many rows of a table it runs with.
    pub(crate) cases: usize,
    pub(crate) expects_panic: bool,
    /// Whether it fails without an assertion, as `unwrap` does, or only names a function that may assert.
    pub(crate) fails_otherwise: bool,
    pub(crate) swallowed_failures: usize,
    pub(crate) start: TestStart,
}

/// Hashes that identify a test when its name changes.
#[derive(Debug, Default)]
pub(crate) struct TestIdentity {
    /// Hash of the whole body.
    pub(crate) body: u64,
    /// Whether the body is long enough to identify the test in another file.
    pub(crate) is_telling: bool,
    /// Hashes of the names and literals that it uses, with those of its decorators, sorted.
    pub(crate) words: Vec<u64>,
    /// Hashes of the functions that it calls, sorted.
    pub(crate) calls: Vec<u64>,
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
                    test_identity(source, &case)
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
                    assertions: assertions.count_within(&case.body),
                    expectations: assertions.statements_within(source, &case.body),
                    cases: test_tables::count_cases(source, &case),
                    expects_panic: case.expects_panic,
                    fails_otherwise: fails_without_assertion(source, &case),
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
            TestLanguage::Python | TestLanguage::Go | TestLanguage::Java | TestLanguage::C => ".",
            TestLanguage::Bats => return &self.name,
        };
        self.name.rsplit(separator).next().unwrap_or(&self.name)
    }
}

/// Hashes the body, without white space and comments, and its lines, words and calls.
fn test_identity(source: &SourceText<'_>, case: &FoundTest) -> TestIdentity {
    let body = &case.body;
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
    TestIdentity {
        body: whole.value(),
        is_telling: length >= MIN_BODY_BYTES,
        lines,
        words: telling_words(source, case.start.min(body.start)..body.end),
        calls: called_names(source, body),
        assertions: Vec::new(),
    }
}

/// Words that nearly every test contains.
const COMMON_WORDS: [&str; 44] = [
    "assert",
    "expect",
    "self",
    "this",
    "await",
    "async",
    "function",
    "return",
    "const",
    "let",
    "var",
    "with",
    "raises",
    "pytest",
    "test",
    "describe",
    "equal",
    "equals",
    "toBe",
    "toEqual",
    "assertEqual",
    "assertTrue",
    "assertEquals",
    "assertThat",
    "isEqualTo",
    "assert_eq",
    "unwrap",
    "new",
    "true",
    "false",
    "True",
    "False",
    "None",
    "null",
    "undefined",
    "for",
    "if",
    "else",
    "in",
    "not",
    "and",
    "import",
    "from",
    "def",
];

/// The words of the code and of its strings, without comments.
fn telling_words(source: &SourceText<'_>, range: Range<usize>) -> Vec<u64> {
    const MOST: usize = 2_000;
    let text = source.text.get(range.clone()).unwrap_or_default();
    let is_comment = |at: usize| {
        source.comments.as_bytes().get(range.start + at).is_some_and(|byte| *byte != b' ')
    };
    let words = word_search::split_words(text)
        .filter(|(at, word)| word.len() > 1 && !COMMON_WORDS.contains(word) && !is_comment(*at))
        .take(MOST);
    sorted_hashes(words.map(|(_, word)| word))
}

/// Functions that never assert.
const HARMLESS_CALLS: [&str; 30] = [
    "print",
    "println",
    "eprintln",
    "eprint",
    "printf",
    "log",
    "debug",
    "info",
    "warn",
    "drop",
    "str",
    "repr",
    "len",
    "list",
    "dict",
    "bool",
    "int",
    "format",
    "range",
    "Ok",
    "Some",
    "done",
    "resolve",
    "setTimeout",
    "sleep",
    "if",
    "for",
    "while",
    "switch",
    "return",
];

/// Objects whose methods are assertions that were counted already.
const ASSERTING_OWNERS: [&str; 6] = ["assert", "require", "expect", "should", "qt", "is"];

fn called_names(source: &SourceText<'_>, body: &Range<usize>) -> Vec<u64> {
    const MOST: usize = 2_000;
    let code = source.code.get(body.clone()).unwrap_or_default();
    let called = word_search::split_words(code).filter(|(at, word)| {
        let after = code.as_bytes().get(at + word.len());
        let before = word_search::text_before(code, *at, 20);
        let owner = word_search::last_word(before.trim_end_matches('.'));
        let is_defined = matches!(owner, "fn" | "def" | "func" | "fun" | "function");
        let is_of_library = before.ends_with('.') && ASSERTING_OWNERS.contains(&owner);
        matches!(after, Some(b'(' | b'!' | b'<'))
            && !is_defined
            && !is_of_library
            && !HARMLESS_CALLS.contains(word)
            && !assertions::is_assertion(source, body.start + at, word)
    });
    sorted_hashes(called.take(MOST).map(|(_, word)| word))
}

fn sorted_hashes<'a>(words: impl Iterator<Item = &'a str>) -> Vec<u64> {
    let mut hashes: Vec<u64> = words
        .map(|word| {
            let mut hash = FnvHash::EMPTY;
            hash.add(word.as_bytes());
            hash.value()
        })
        .collect();
    hashes.sort_unstable();
    hashes.dedup();
    hashes
}

/// Whether a test without assertions can still fail as its author intended.
fn fails_without_assertion(source: &SourceText<'_>, case: &FoundTest) -> bool {
    let code = source.code.get(case.body.clone()).unwrap_or_default();
    match source.language.test_language() {
        Some(TestLanguage::Rust) => {
            ["unwrap(", "expect(", "unwrap_err(", "expect_err("]
                .iter()
                .any(|call| word_search::contains_word(code, call))
                || code.contains("?;")
        }
        // `it('adds', addsNumbers)`
        Some(TestLanguage::JavaScript) => {
            let is_function = code.contains("=>") || code.contains("function");
            !is_function
                && word_search::split_words(code).any(|(_, word)| {
                    !word.starts_with(|first: char| first.is_ascii_digit()) && word != "todo"
                })
        }
        Some(
            TestLanguage::Python
            | TestLanguage::Go
            | TestLanguage::Java
            | TestLanguage::C
            | TestLanguage::Bats,
        )
        | None => false,
    }
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
        Some(
            TestLanguage::Rust
            | TestLanguage::Go
            | TestLanguage::Java
            | TestLanguage::C
            | TestLanguage::Bats,
        )
        | None => code,
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
        None | Some(TestLanguage::C | TestLanguage::Bats) => Vec::new(),
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
