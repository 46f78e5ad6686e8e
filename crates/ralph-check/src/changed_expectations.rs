//! Changed expectations of tests that still exist: another value, a looser comparison, a wider error, fewer cases. Such a
//! change may be right, so it is only listed for a person.

use super::assertions::AssertingStatement;
use super::change_finding::{line_place, new_finding};
use super::measured_tests::MeasuredTest;
use super::word_search;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use ralph_core::requirement::{Finding, FindingSeverity};
use ralph_core::text;

/// How many changed expectations of one test to list.
const MAX_LISTED: usize = 3;
const MAX_QUOTED_CHARS: usize = 100;
/// How many statements of one test to compare with each other.
const MAX_COMPARED: usize = 60;

/// Words that compare with an exact value.
const STRICT_WORDS: [&str; 14] = [
    "toBe",
    "toEqual",
    "toStrictEqual",
    "assertEqual",
    "assertEquals",
    "assert_eq",
    "equal",
    "deepEqual",
    "strictEqual",
    "deepStrictEqual",
    "isEqualTo",
    "Equal",
    "ASSERT_EQ",
    "EXPECT_EQ",
];
/// Words that accept many values.
const LOOSE_WORDS: [&str; 26] = [
    "toBeTruthy",
    "toBeDefined",
    "toContain",
    "toMatchObject",
    "toBeGreaterThan",
    "toBeLessThan",
    "toBeCloseTo",
    "toMatch",
    "any",
    "anything",
    "objectContaining",
    "stringContaining",
    "assertTrue",
    "assertIn",
    "assertIsNotNone",
    "assertNotEqual",
    "assertAlmostEqual",
    "assertGreater",
    "assert_ne",
    "ok",
    "notEqual",
    "isNotNull",
    "contains",
    "True",
    "NotNil",
    "ASSERT_TRUE",
];
/// Errors that nearly everything raises.
const WIDE_ERRORS: [&str; 5] =
    ["Exception", "BaseException", "Throwable", "Error", "RuntimeException"];

pub(crate) fn find_changed_expectations(
    was: &MeasuredTest<'_>,
    is: &MeasuredTest<'_>,
    name: &str,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    if is.cases < was.cases {
        let cases = text::count_noun(is.cases, "case");
        let message = format!("{name} has {cases}, down from {}", was.cases);
        findings.push(new_finding(is.place.clone(), "cases-dropped", message));
    }
    if was.expects_panic && !is.expects_panic {
        let message = format!("{name} no longer expects a panic");
        findings.push(new_finding(is.place.clone(), "expectation-changed", message));
    }
    let (gone, new) = different_expectations(&was.expectations, &is.expectations);
    let mut left = gone;
    for one in new {
        let Some(index) = closest(&left, one) else { continue };
        let old = left.swap_remove(index);
        if findings.len() < MAX_LISTED && old.is_direct && one.is_direct {
            let how = describe_difference(&old.text, &one.text);
            let (old, now) = (quote(&old.text), quote(&one.text));
            let message = format!("{name} {how}: was {old}, now {now}");
            let place = line_place(is.path, one.line);
            findings.push(new_finding(place, "expectation-changed", message));
        }
    }
    for finding in &mut findings {
        finding.severity = FindingSeverity::Warning;
    }
    findings
}

/// The statements that only one side has.
fn different_expectations<'e>(
    was: &'e [AssertingStatement],
    is: &'e [AssertingStatement],
) -> (Vec<&'e AssertingStatement>, Vec<&'e AssertingStatement>) {
    let count = |all: &'e [AssertingStatement]| {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for one in all {
            *counts.entry(without_format(&one.text)).or_default() += 1;
        }
        counts
    };
    let without = |all: &'e [AssertingStatement], mut known: BTreeMap<String, usize>| {
        let is_new = |one: &&AssertingStatement| match known.get_mut(&without_format(&one.text)) {
            Some(count) if *count > 0 => {
                *count -= 1;
                false
            }
            _ => true,
        };
        all.iter().filter(is_new).take(MAX_COMPARED).collect::<Vec<_>>()
    };
    (without(was, count(is)), without(is, count(was)))
}

/// The text without white space and trailing commas, which formatters change.
fn without_format(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars().filter(|char| !char.is_whitespace()) {
        if matches!(char, ')' | ']' | '}') && out.ends_with(',') {
            out.pop();
        }
        out.push(char);
    }
    out
}

/// The statement that shares the most words with this one, at least half of them.
fn closest(all: &[&AssertingStatement], one: &AssertingStatement) -> Option<usize> {
    let words: Vec<&str> = word_search::split_words(&one.text).map(|(_, word)| word).collect();
    let shared = |other: &AssertingStatement| {
        word_search::split_words(&other.text).filter(|(_, word)| words.contains(word)).count()
    };
    let best = all.iter().enumerate().map(|(index, other)| (shared(other), index));
    let (count, index) = best.max_by_key(|(count, index)| (*count, usize::MAX - index))?;
    (count * 2 >= words.len() && count > 0).then_some(index)
}

fn describe_difference(was: &str, is: &str) -> &'static str {
    let has = |text: &str, words: &[&str]| {
        word_search::split_words(text).any(|(_, word)| words.contains(&word))
    };
    let is_strict = |text: &str| has(text, &STRICT_WORDS) || text.contains("==");
    if without_literals(was) == without_literals(is) {
        "expects another value"
    } else if has(is, &WIDE_ERRORS) && !has(was, &WIDE_ERRORS) {
        "accepts more errors"
    } else if is_strict(was) && !is_strict(is) && has(is, &["assert", "expect"])
        || has(is, &LOOSE_WORDS) && !has(was, &LOOSE_WORDS)
    {
        "is looser"
    } else {
        "is different"
    }
}

/// The text with every number and every string replaced.
fn without_literals(text: &str) -> String {
    let mut out = String::new();
    let mut quote = None;
    let mut is_number = false;
    for char in text.chars() {
        if let Some(open) = quote {
            if char == open {
                quote = None;
            }
            continue;
        }
        let starts_number = char.is_ascii_digit()
            && !out.ends_with(|before: char| before.is_alphanumeric() || before == '_');
        is_number =
            starts_number || is_number && (char.is_ascii_alphanumeric() || ".-_".contains(char));
        match char {
            '"' | '\'' | '`' => {
                quote = Some(char);
                out.push('"');
            }
            _ if is_number => {
                if starts_number && !out.ends_with('#') {
                    out.push('#');
                }
            }
            _ => out.push(char),
        }
    }
    out
}

fn quote(statement: &str) -> String {
    format!("`{}`", text::clean_line(statement, MAX_QUOTED_CHARS))
}
