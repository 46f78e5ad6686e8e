//! Finds assertions, by language. Assertions that always hold are not counted.

use super::constant_condition::constant_truth;
use super::dead_code::DeadCode;
use super::language::{Language, TestLanguage};
use super::source_text::SourceText;
use super::test_cases::{self, FunctionDefinition};
use super::word_search::{self, FnvHash};
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;
use ralph_core::text::collapse_whitespace;

/// How many levels of helper functions to follow. Real tests do not nest them deeper.
const MAX_HELPER_DEPTH: usize = 3;

/// The assertions of a file, in ascending order.
#[derive(Debug)]
pub(crate) struct AssertionIndex {
    positions: Vec<usize>,
    /// A hash of each assertion's line, to recognise the assertion elsewhere.
    hashes: Vec<u64>,
}

/// A statement that asserts, by itself or by the function that it calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AssertingStatement {
    pub(crate) line: usize,
    /// Otherwise it calls a function that asserts.
    pub(crate) is_direct: bool,
    /// Shortened, with single spaces.
    pub(crate) text: String,
}

impl AssertionIndex {
    /// A call of an asserting function in the same file counts as an assertion too, so that moving assertions into a
    /// helper is not a loss.
    pub(crate) fn find(source: &SourceText<'_>) -> Self {
        let dead = DeadCode::find(source);
        let mut positions: Vec<usize> = if source.language == Language::Bats {
            command_positions(source)
        } else {
            let words = word_search::split_words(&source.code);
            words
                .filter(|(at, word)| {
                    is_assertion(source, *at, word) && !is_trivial(source, *at, word)
                })
                .filter(|(at, _)| !dead.contains(*at))
                .map(|(at, _)| at)
                .collect()
        };
        let definitions = test_cases::find_definitions(source);
        let mut asserting: BTreeSet<&str> = BTreeSet::new();
        for _ in 0..MAX_HELPER_DEPTH {
            let direct = Self { positions: positions.clone(), hashes: Vec::new() };
            let is_new = |one: &&FunctionDefinition<'_>| {
                !asserting.contains(one.name)
                    && one.name.len() > 1
                    && !one.name.to_ascii_lowercase().starts_with("test")
                    && direct.count_within(&one.body) > 0
            };
            let more: BTreeSet<&str> =
                definitions.iter().filter(is_new).map(|one| one.name).collect();
            if more.is_empty() {
                break;
            }
            let calls = word_search::split_words(&source.code).filter(|(at, word)| {
                more.contains(word)
                    && is_called_at(source, at + word.len())
                    && !is_definition(source, *at)
                    && !dead.contains(*at)
            });
            positions.extend(calls.map(|(at, _)| at));
            positions.sort_unstable();
            positions.dedup();
            asserting.extend(more);
        }
        let lines = positions.iter().map(|at| {
            let line = source.line(source.line_of(*at));
            // A minified line may contain a whole program.
            let end = line.end.min(at + 200);
            let mut hash = FnvHash::EMPTY;
            hash.add(source.text.as_bytes().get(*at..end).unwrap_or_default().trim_ascii());
            hash.value()
        });
        let lines = lines.collect();
        Self { positions, hashes: lines }
    }

    pub(crate) fn count_within(&self, range: &Range<usize>) -> usize {
        let indices = self.indices(range);
        indices.end - indices.start
    }

    /// The hashes of the assertions in a range.
    pub(crate) fn hashes_within(&self, range: &Range<usize>) -> &[u64] {
        self.hashes.get(self.indices(range)).unwrap_or_default()
    }

    pub(crate) fn hashes(&self) -> &[u64] {
        &self.hashes
    }

    /// The asserting statements in a range.
    pub(crate) fn statements_within(
        &self,
        source: &SourceText<'_>,
        range: &Range<usize>,
    ) -> Vec<AssertingStatement> {
        const MOST: usize = 500;
        let positions = self.positions.get(self.indices(range)).unwrap_or_default();
        let statements = positions.iter().take(MOST).map(|at| AssertingStatement {
            line: source.line_of(*at),
            is_direct: is_assertion(source, *at, word_search::word_at(&source.code, *at)),
            text: statement_text(source, *at),
        });
        statements.collect()
    }

    fn indices(&self, range: &Range<usize>) -> Range<usize> {
        let before = |end: usize| self.positions.partition_point(|at| *at < end);
        let start = before(range.start);
        start..before(range.end).max(start)
    }
}

/// The statement that begins here, in one line: to the end of its line, or of its last bracket.
fn statement_text(source: &SourceText<'_>, at: usize) -> String {
    const LONGEST: usize = 300;
    let code = word_search::text_from(&source.code, at, LONGEST);
    let (mut depth, mut end) = (0_i32, code.len());
    for (offset, byte) in code.bytes().enumerate() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth -= 1,
            _ => {}
        }
        let is_chained =
            || code.get(offset..).is_some_and(|rest| rest.trim_start().starts_with('.'));
        if depth < 0 || depth == 0 && (byte == b';' || byte == b'\n' && !is_chained()) {
            end = offset;
            break;
        }
    }
    let text = source.text.get(at..at + end).unwrap_or_default();
    collapse_whitespace(text)
}

fn is_called_at(source: &SourceText<'_>, at: usize) -> bool {
    // In TypeScript, `name!` is a value that is not null.
    match source.code.as_bytes().get(at) {
        Some(b'(') => true,
        Some(b'!') => source.language == Language::Rust,
        _ => false,
    }
}

fn is_definition(source: &SourceText<'_>, at: usize) -> bool {
    let before = word_search::text_before(&source.code, at, 40);
    matches!(
        word_search::last_word(before),
        "fn" | "def" | "func" | "fun" | "function" | "void" | "const"
    )
}

/// A word of code and the bytes around it.
struct WordInContext<'a> {
    text: &'a str,
    /// Up to 40 bytes of code before it.
    lead: &'a str,
    before: u8,
    after: u8,
}

impl WordInContext<'_> {
    fn is_call(&self) -> bool {
        self.after == b'('
    }

    fn is_method(&self) -> bool {
        self.before == b'.'
    }

    fn starts_with_any(&self, starts: &[&str]) -> bool {
        starts.iter().any(|start| self.text.starts_with(start))
    }
}

/// Whether the word at this position asserts by itself.
pub(crate) fn is_assertion(source: &SourceText<'_>, at: usize, word: &str) -> bool {
    let code = source.code.as_bytes();
    let word = WordInContext {
        text: word,
        lead: word_search::text_before(&source.code, at, 40),
        before: at.checked_sub(1).and_then(|at| code.get(at)).copied().unwrap_or(b' '),
        after: code.get(at + word.len()).copied().unwrap_or(b' '),
    };
    let asserts = match source.language.test_language() {
        None => false,
        Some(TestLanguage::Rust) => is_rust_assertion(&word),
        Some(TestLanguage::JavaScript) => is_javascript_assertion(&word),
        Some(TestLanguage::Python) => is_python_assertion(&word),
        Some(TestLanguage::Go) => is_go_assertion(&word),
        Some(TestLanguage::Java) => is_java_assertion(&word),
        Some(TestLanguage::C) => is_c_assertion(&word),
        Some(TestLanguage::Bats) => true,
    };
    asserts && !is_definition(source, at)
}

fn is_rust_assertion(word: &WordInContext<'_>) -> bool {
    let by_name = matches!(word.text, "panic" | "check" | "expect_that" | "verify_that");
    (word.after == b'!' && (by_name || word.text.contains("assert")))
        || (word.is_call() && word.starts_with_any(&["assert", "check_", "expect_", "verify_"]))
}

fn is_python_assertion(word: &WordInContext<'_>) -> bool {
    let by_name = matches!(word.text, "raises" | "warns" | "deprecated_call" | "fail");
    (word.text == "assert" && !word.is_method())
        || (word.is_call() && word.starts_with_any(&["assert", "check_", "verify_", "expect"]))
        || (word.is_call() && word.is_method() && by_name)
}

fn is_javascript_assertion(word: &WordInContext<'_>) -> bool {
    // `t.is(…)` of AVA and tap.
    let is_on_t = word.is_method()
        && word.lead.ends_with("t.")
        && word_search::last_word(word.lead.trim_end_matches('.')) == "t";
    let by_name = matches!(
        word.text,
        "is" | "not"
            | "deepEqual"
            | "true"
            | "false"
            | "truthy"
            | "falsy"
            | "throws"
            | "equal"
            | "ok"
            | "same"
            | "match"
            | "snapshot"
            | "like"
            | "regex"
    );
    match word.text {
        "expect" => word.is_call(),
        // `expect.poll(…)` and `expect.soft(…)`, but not `expect.any(…)`.
        "poll" | "soft" => {
            let owner = word.lead.trim_end_matches('.').trim_end();
            word.is_call() && word.is_method() && word_search::last_word(owner) == "expect"
        }
        "assert" => matches!(word.after, b'(' | b'.') && !word.is_method(),
        "should" => word.is_method(),
        _ => {
            word.is_call() && (word.starts_with_any(&["assert", "expect"]) || (is_on_t && by_name))
        }
    }
}

fn is_go_assertion(word: &WordInContext<'_>) -> bool {
    let receiver = word_search::last_word(word.lead.trim_end_matches('.'));
    let is_on_test =
        matches!(receiver, "t" | "b" | "f" | "tb" | "T" | "tt") || word.lead.ends_with("T().");
    let fails = matches!(word.text, "Error" | "Errorf" | "Fatal" | "Fatalf" | "Fail" | "FailNow");
    let is_library = matches!(word.text, "require" | "assert" | "is" | "qt");
    (fails && word.is_method() && word.is_call() && is_on_test)
        || (is_library && word.after == b'.' && !word.is_method())
        || (word.is_call()
            && !word.is_method()
            && word.starts_with_any(&["assert", "check", "must", "require", "verify", "expect"]))
}

/// `ASSERT_EQ(…)`, `TEST_ASSERT_NULL(…)`, `REQUIRE(…)`, `ck_assert(…)`
fn is_c_assertion(word: &WordInContext<'_>) -> bool {
    let lower = word.text.to_ascii_lowercase();
    let by_name = matches!(word.text, "REQUIRE" | "CHECK" | "FAIL" | "SUCCEED" | "abort");
    let starts = ["expect_", "require_", "check_", "boost_", "verify"];
    word.is_call()
        && (by_name
            || lower.contains("assert")
            || starts.iter().any(|start| lower.starts_with(start)))
}

/// Every command of a Bats test can fail it, apart from those that cannot fail.
fn command_positions(source: &SourceText<'_>) -> Vec<usize> {
    const HARMLESS: [&str; 12] = [
        "local", "export", "skip", "return", "true", "echo", "fi", "done", "then", "else", ":", "}",
    ];
    let lines = 1..=source.line_count();
    let commands = lines.filter(|line| {
        let code = source.code_of_line(*line).trim();
        let first = code.split([' ', ';']).next().unwrap_or_default();
        !code.is_empty() && !code.starts_with('@') && !HARMLESS.contains(&first)
    });
    let position = |line: usize| {
        let code = source.code_of_line(line);
        source.line(line).start + (code.len() - code.trim_start().len())
    };
    commands.map(position).collect()
}

fn is_java_assertion(word: &WordInContext<'_>) -> bool {
    // Kotlin passes blocks without parentheses: `assertFailsWith<E> { … }`
    let calls = matches!(word.after, b'(' | b'<' | b' ' | b'{')
        && word.starts_with_any(&["assert", "verify", "expect", "andExpect", "fail"]);
    let is_called = word.after != b' ' || word.starts_with_any(&["assert", "verify"]);
    word.before != b'@' && (calls && is_called || word.text.starts_with("should"))
}

/// Whether the assertion always holds: `assert!(true)`, `expect(1).toBe(1)`, `assert x or True`.
fn is_trivial(source: &SourceText<'_>, at: usize, word: &str) -> bool {
    let Some((argument, method)) = asserted_argument(source, at, word) else {
        return false;
    };
    let mut squeezed: String = argument.chars().filter(|char| !char.is_whitespace()).collect();
    while let Some(inner) = squeezed.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
        squeezed = String::from(inner);
    }
    let (first, second) = squeezed.split_once(',').unwrap_or((&squeezed, ""));
    let second = second.split(',').next().unwrap_or_default();
    let takes_condition = matches!(
        method,
        "assert" | "assertTrue" | "debug_assert" | "prop_assert" | "ok" | "isTrue" | "True"
    );
    if takes_condition
        && (constant_truth(argument.split(',').next().unwrap_or_default()) == Some(true)
            || is_true(first)
            || is_true(second) && method == "True"
            || first.ends_with("orTrue")
            || first.ends_with("||true"))
    {
        return true;
    }
    let same = is_literal(first) && first == second;
    let compared =
        first.split_once("==").is_some_and(|(one, other)| is_literal(one) && one == other);
    // A builder compares what it has fetched with the argument: `request(app).get("/").expect(200)`
    let is_method = source.code.get(..at).is_some_and(|before| before.ends_with('.'));
    let states_literal = word == "expect" && !is_method && is_literal(&squeezed);
    same || compared || states_literal && is_compared_with_literal(source, at)
}

/// Whether everything that is called on `expect(…)` takes literals only: `.toBe(1)`, `.to.be.true`, but not
/// `.to.equal(result)`.
fn is_compared_with_literal(source: &SourceText<'_>, at: usize) -> bool {
    const MOST: usize = 8;
    let mut close = source.brackets.close_of(at + "expect".len());
    for _ in 0..MOST {
        let Some(end) = close else { return true };
        let rest = word_search::text_from(&source.code, end + 1, 200);
        let chained = rest.bytes().take_while(|byte| {
            word_search::is_word_byte(*byte) || matches!(byte, b'.' | b' ' | b'\n')
        });
        let open = end + 1 + chained.count();
        if source.code.as_bytes().get(open) != Some(&b'(') {
            return true;
        }
        close = source.brackets.close_of(open);
        let argument = close.and_then(|close| source.text.get(open + 1..close));
        let argument = argument.unwrap_or_default().trim();
        if !argument.is_empty() && !is_literal(argument) {
            return false;
        }
    }
    true
}

/// The asserted expression and the asserting method: `x` and `ok` for `assert.ok(x)`.
fn asserted_argument<'a>(
    source: &SourceText<'a>,
    at: usize,
    word: &'a str,
) -> Option<(&'a str, &'a str)> {
    const LONGEST: usize = 400;
    let from = at + word.len();
    if source.language == Language::Python && word == "assert" {
        let line_end = source.line(source.line_of(at)).end.min(from + LONGEST);
        let code = source.code.get(from..line_end)?.trim_end();
        return Some((source.text.get(from..from + code.len())?, word));
    }
    let rest = source.code.get(from..)?;
    let (method, open) = match rest.as_bytes() {
        [b'!', b'(' | b'[', ..] => (word, from + 1),
        [b'(', ..] => (word, from),
        [b'.', ..] => {
            let length = word_search::word_at(&source.code, from + 1).len();
            (source.text.get(from + 1..from + 1 + length)?, from + 1 + length)
        }
        _ => return None,
    };
    let close = source.brackets.close_of(open)?;
    (close - open <= LONGEST).then(|| Some((source.text.get(open + 1..close)?, method)))?
}

fn is_true(text: &str) -> bool {
    matches!(text, "true" | "True" | "1" | "!false" | "notFalse" | "!0")
}

fn is_literal(text: &str) -> bool {
    let is_number =
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let quoted = text.len() >= 2 && text.starts_with(['"', '\'']) && text.ends_with(['"', '\'']);
    is_number
        || quoted
        || matches!(text, "true" | "false" | "True" | "False" | "None" | "null" | "undefined")
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    /// The 40 bytes before a name may begin inside a character.
    #[test]
    fn a_definition_after_non_ascii_code_is_recognised() {
        for shift in ["", "x"] {
            let text = format!("{shift}{} = 1\ndef assert_near(x): pass\n", "é".repeat(40));
            let source = SourceText::new("test_a.py", &text);
            let at = text.find("assert_near").unwrap();
            assert!(is_definition(&source, at), "{text}");
        }
    }
}
