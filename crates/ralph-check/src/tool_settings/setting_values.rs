//! Detects weaker numbers and switches: lower thresholds, higher timeouts and retries, disabled strictness.

use super::settings_files;
use crate::FileChange;
use crate::change_finding::{line_place, new_finding};
use crate::language::file_name;
use crate::source_text::SourceText;
use crate::word_search;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use ralph_core::requirement::Finding;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WeakerDirection {
    Lower,
    Higher,
}

struct NumericSetting {
    name: &'static str,
    weaker: WeakerDirection,
    rule: &'static str,
    /// Whether the name has this meaning in the given file.
    applies: fn(path: &str, text: &str) -> bool,
}

fn applies_anywhere(_: &str, _: &str) -> bool {
    true
}

fn has_coverage_settings(path: &str, text: &str) -> bool {
    file_name(path).starts_with(".nycrc")
        || ["coverageThreshold", "thresholds", "check-coverage"]
            .iter()
            .any(|word| text.contains(word))
}

fn is_codecov_file(path: &str, _: &str) -> bool {
    file_name(path).contains("codecov")
}

fn is_test_runner_file(path: &str, text: &str) -> bool {
    let name = file_name(path);
    name == ".taprc"
        || name == "package.json" && text.contains("\"tap\"")
        || ["pytest.ini", "pyproject.toml", "setup.cfg", "tox.ini"].contains(&name)
        || [".mocharc", "playwright.config.", "cypress.config.", "vitest.config.", "jest.config."]
            .iter()
            .any(|stem| name.starts_with(stem))
}

const THRESHOLD: &str = "threshold-lowered";
const TIMEOUT: &str = "timeout-raised";
const LINT: &str = "lint-relaxed";

const fn numeric_setting(
    name: &'static str,
    weaker: WeakerDirection,
    rule: &'static str,
    applies: fn(&str, &str) -> bool,
) -> NumericSetting {
    NumericSetting { name, weaker, rule, applies }
}

static NUMBERS: [NumericSetting; 18] = [
    numeric_setting("fail_under", WeakerDirection::Lower, THRESHOLD, applies_anywhere),
    numeric_setting("fail-under", WeakerDirection::Lower, THRESHOLD, applies_anywhere),
    numeric_setting("--cov-fail-under", WeakerDirection::Lower, THRESHOLD, applies_anywhere),
    numeric_setting("--fail-under", WeakerDirection::Lower, THRESHOLD, applies_anywhere),
    numeric_setting("--fail-under-lines", WeakerDirection::Lower, THRESHOLD, applies_anywhere),
    numeric_setting("branches", WeakerDirection::Lower, THRESHOLD, has_coverage_settings),
    numeric_setting("functions", WeakerDirection::Lower, THRESHOLD, has_coverage_settings),
    numeric_setting("lines", WeakerDirection::Lower, THRESHOLD, has_coverage_settings),
    numeric_setting("statements", WeakerDirection::Lower, THRESHOLD, has_coverage_settings),
    numeric_setting("target", WeakerDirection::Lower, THRESHOLD, is_codecov_file),
    numeric_setting("min_tests", WeakerDirection::Lower, THRESHOLD, applies_anywhere),
    numeric_setting("--max-warnings", WeakerDirection::Higher, LINT, applies_anywhere),
    numeric_setting("testTimeout", WeakerDirection::Higher, TIMEOUT, applies_anywhere),
    numeric_setting("hookTimeout", WeakerDirection::Higher, TIMEOUT, applies_anywhere),
    numeric_setting("timeout", WeakerDirection::Higher, TIMEOUT, is_test_runner_file),
    numeric_setting("--timeout", WeakerDirection::Higher, TIMEOUT, applies_anywhere),
    numeric_setting("retries", WeakerDirection::Higher, TIMEOUT, is_test_runner_file),
    numeric_setting("--reruns", WeakerDirection::Higher, TIMEOUT, applies_anywhere),
];

/// Searched for in test files instead: `jest.setTimeout(60000)`.
static TEST_FILE_NUMBERS: [NumericSetting; 2] = [
    numeric_setting("jest.setTimeout", WeakerDirection::Higher, TIMEOUT, applies_anywhere),
    numeric_setting("jest.retryTimes", WeakerDirection::Higher, TIMEOUT, applies_anywhere),
];

struct SwitchSetting {
    name: &'static str,
    /// The stricter value.
    strict: bool,
    /// Whether leaving it out is weak or strict.
    absent: AbsentMeaning,
    rule: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AbsentMeaning {
    IsWeak,
    IsStrict,
}

const fn strict_when_on(name: &'static str) -> SwitchSetting {
    SwitchSetting { name, strict: true, absent: AbsentMeaning::IsWeak, rule: LINT }
}

const fn strict_when_off(name: &'static str, rule: &'static str) -> SwitchSetting {
    SwitchSetting { name, strict: false, absent: AbsentMeaning::IsStrict, rule }
}

const IGNORED: &str = "check-ignored";

static SWITCHES: [SwitchSetting; 22] = [
    strict_when_on("strict"),
    strict_when_on("noImplicitAny"),
    strict_when_on("strictNullChecks"),
    strict_when_on("noUncheckedIndexedAccess"),
    strict_when_on("noImplicitReturns"),
    strict_when_on("noUnusedLocals"),
    strict_when_on("noUnusedParameters"),
    strict_when_on("disallow_untyped_defs"),
    strict_when_on("check_untyped_defs"),
    strict_when_on("warn_return_any"),
    strict_when_on("check-coverage"),
    strict_when_on("forbidOnly"),
    strict_when_off("passWithNoTests", IGNORED),
    strict_when_off("ignoreBuildErrors", IGNORED),
    strict_when_off("ignoreDuringBuilds", IGNORED),
    strict_when_off("ignore_errors", IGNORED),
    strict_when_off("ignore_missing_imports", LINT),
    strict_when_off("skipTests", IGNORED),
    strict_when_off("maven.test.failure.ignore", IGNORED),
    strict_when_off("testFailureIgnore", IGNORED),
    strict_when_off("maven.test.skip", IGNORED),
    strict_when_off("allowOnly", IGNORED),
];

/// Keys of `Cargo.toml` that disable tests.
static CARGO_SWITCHES: [SwitchSetting; 3] =
    [cargo_test_switch("test"), cargo_test_switch("autotests"), cargo_test_switch("doctest")];

const fn cargo_test_switch(name: &'static str) -> SwitchSetting {
    SwitchSetting {
        name,
        strict: true,
        absent: AbsentMeaning::IsStrict,
        rule: "selection-narrowed",
    }
}

pub(super) fn find_weakened_values(changes: &[FileChange<'_>]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for change in changes {
        let sets = settings_files::is_settings_file(change.path);
        let numbers: &[NumericSetting] = if sets { &NUMBERS } else { &TEST_FILE_NUMBERS };
        if !sets && !crate::is_test_file(change.path) {
            continue;
        }
        let (was, is) = (change.before.unwrap_or_default(), change.after.unwrap_or_default());
        if !sets && !numbers.iter().any(|number| was.contains(number.name)) {
            continue;
        }
        let before = SourceText::new(change.path, was);
        let after = SourceText::new(change.path, is);
        for number in numbers.iter().filter(|one| (one.applies)(change.path, before.text)) {
            findings.extend(compare_numbers(changes, number, &before, &after));
        }
        if sets && change.after.is_some() {
            // A new package may be without tests; an existing one that disables them is weaker.
            let is_known = file_name(change.path) == "Cargo.toml" && change.before.is_some();
            let of_cargo = if is_known { CARGO_SWITCHES.as_slice() } else { &[] };
            for switch in SWITCHES.iter().chain(of_cargo) {
                findings.extend(compare_switch(switch, &before, &after));
            }
        }
    }
    findings
}

fn compare_numbers(
    changes: &[FileChange<'_>],
    number: &NumericSetting,
    before: &SourceText<'_>,
    after: &SourceText<'_>,
) -> Vec<Finding> {
    let (was, is) = (find_numbers(before, number.name), find_numbers(after, number.name));
    let mut findings = Vec::new();
    for (index, (_, was)) in was.iter().enumerate() {
        let Some((line, is)) = is.get(index) else {
            // It may have moved to another file, where it must be at least as strict.
            let is_elsewhere =
                changes.iter().filter(|other| other.path != before.path).any(|other| {
                    let text = other.after.unwrap_or_default();
                    let kept = |(_, is): &(usize, f64)| !is_weaker(number.weaker, *was, *is);
                    // Most files do not contain it and need no lexing.
                    text.contains(number.name)
                        && find_numbers(&SourceText::new(other.path, text), number.name)
                            .iter()
                            .any(kept)
                });
            let says_limit =
                number.weaker == WeakerDirection::Lower || number.name == "--max-warnings";
            if says_limit && !is_elsewhere {
                let message = format!("`{}` was removed (was {was})", number.name);
                findings.push(new_finding(line_place(before.path, 1), number.rule, message));
            }
            continue;
        };
        if is_weaker(number.weaker, *was, *is) {
            let message = format!("`{}` was {was}, now {is}", number.name);
            findings.push(new_finding(line_place(after.path, *line), number.rule, message));
        }
    }
    findings
}

fn is_weaker(weaker: WeakerDirection, was: f64, is: f64) -> bool {
    match weaker {
        WeakerDirection::Lower => is < was,
        WeakerDirection::Higher => is > was,
    }
}

/// Every number right after the name, with its line.
fn find_numbers(source: &SourceText<'_>, name: &str) -> Vec<(usize, f64)> {
    const MOST: usize = 100;
    let found = find_name(source, name).filter_map(|at| {
        let value = value_after(source.text, at + name.len())?;
        let length = value
            .bytes()
            .take_while(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'_'))
            .count();
        let digits: String = value.get(..length)?.chars().filter(|char| *char != '_').collect();
        Some((source.line_of(at), digits.parse().ok()?))
    });
    found.take(MOST).collect()
}

/// The positions of the name outside comments.
fn find_name<'a>(source: &'a SourceText<'_>, name: &'a str) -> impl Iterator<Item = usize> + 'a {
    word_search::find_word(source.text, name).filter(move |at| {
        let bytes = source.text.as_bytes();
        let before = at.checked_sub(1).and_then(|at| bytes.get(at));
        let after = bytes.get(at + name.len());
        let is_commented = source.comments.as_bytes().get(*at).is_some_and(|byte| *byte != b' ');
        !is_commented && before != Some(&b'-') && before != Some(&b'.') && after != Some(&b'-')
    })
}

/// The value after a key, as in `": 80`, `=80`, ` = "80"`, `(80`, ` 80` or `>80`.
fn value_after(text: &str, at: usize) -> Option<&str> {
    let line = word_search::text_from(text, at, 100).lines().next()?;
    let value = line.trim_start_matches(['"', '\'', ' ', '\t']);
    let value = value.strip_prefix([':', '=', '(', '>']).unwrap_or(value);
    Some(value.trim_start_matches(['"', '\'', ' ', '\t']))
}

fn compare_switch(
    switch: &SwitchSetting,
    before: &SourceText<'_>,
    after: &SourceText<'_>,
) -> Option<Finding> {
    let value = |source: &SourceText<'_>| {
        let mut values = find_name(source, switch.name).filter_map(|at| {
            let value = value_after(source.text, at + switch.name.len())?;
            match word_search::word_at(value, 0) {
                "true" | "True" => Some((source.line_of(at), true)),
                "false" | "False" => Some((source.line_of(at), false)),
                _ => None,
            }
        });
        values.next()
    };
    let was = value(before).map(|(_, value)| value);
    let (name, rule) = (switch.name, switch.rule);
    match (was, value(after)) {
        (Some(was), Some((line, is))) if was != is && is != switch.strict => Some(new_finding(
            line_place(after.path, line),
            rule,
            format!("`{name}` was {was}, now {is}"),
        )),
        (None, Some((line, is)))
            if is != switch.strict && switch.absent == AbsentMeaning::IsStrict =>
        {
            Some(new_finding(
                line_place(after.path, line),
                rule,
                format!("`{name}` is now {is} (was not set)"),
            ))
        }
        (Some(was), None) if was == switch.strict && switch.absent == AbsentMeaning::IsWeak => {
            Some(new_finding(
                line_place(after.path, 1),
                rule,
                format!("`{name}` was removed (was {was})"),
            ))
        }
        _ => None,
    }
}
