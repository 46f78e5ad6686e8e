//! Finds assertions, by language. Assertions that always hold are not counted.

use super::dead_code::DeadCode;
use super::language::{Language, TestLanguage};
use super::source_text::SourceText;
use super::test_cases::{self, FunctionDefinition};
use super::word_search::{self, FnvHash};
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

/// How many levels of helper functions to follow. Real tests do not nest them deeper.
const MAX_HELPER_DEPTH: usize = 3;

/// The assertions of a file, in ascending order.
#[derive(Debug)]
pub(crate) struct AssertionIndex {
    positions: Vec<usize>,
    /// A hash of each assertion's line, to recognise the assertion elsewhere.
    hashes: Vec<u64>,
}

impl AssertionIndex {
    /// A call of an asserting function in the same file counts as an assertion too, so that moving assertions into a
    /// helper is not a loss.
    pub(crate) fn find(source: &SourceText<'_>) -> Self {
        let dead = DeadCode::find(source);
        let mut positions: Vec<usize> = word_search::split_words(&source.code)
            .filter(|(at, word)| is_assertion(source, *at, word) && !is_trivial(source, *at, word))
            .filter(|(at, _)| !dead.contains(*at))
            .map(|(at, _)| at)
            .collect();
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

    fn indices(&self, range: &Range<usize>) -> Range<usize> {
        let before = |end: usize| self.positions.partition_point(|at| *at < end);
        let start = before(range.start);
        start..before(range.end).max(start)
    }
}

fn is_called_at(source: &SourceText<'_>, at: usize) -> bool {
    matches!(source.code.as_bytes().get(at), Some(b'(' | b'!'))
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

fn is_assertion(source: &SourceText<'_>, at: usize, word: &str) -> bool {
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

fn is_java_assertion(word: &WordInContext<'_>) -> bool {
    let calls = word.is_call()
        && word.starts_with_any(&["assert", "verify", "expect", "andExpect", "fail"]);
    word.before != b'@' && (calls || word.text.starts_with("should"))
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
        && (is_true(first)
            || is_true(second) && method == "True"
            || first.ends_with("orTrue")
            || first.ends_with("||true"))
    {
        return true;
    }
    let same = is_literal(first) && first == second;
    let compared =
        first.split_once("==").is_some_and(|(one, other)| is_literal(one) && one == other);
    same || compared || (word == "expect" && is_literal(&squeezed))
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
