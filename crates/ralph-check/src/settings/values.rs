//! Detects weaker numbers and switches: lower thresholds, higher timeouts and retries, disabled strictness.

use super::{at_line, files, finding};
use crate::FileChange;
use crate::language::file_name;
use crate::source::Source;
use crate::words;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use ralph_core::requirement::Finding;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Weaker {
    Lower,
    Higher,
}

struct Number {
    name: &'static str,
    weaker: Weaker,
    rule: &'static str,
    /// Whether the name has this meaning in the given file.
    applies: fn(path: &str, text: &str) -> bool,
}

fn anywhere(_: &str, _: &str) -> bool {
    true
}

fn with_coverage(path: &str, text: &str) -> bool {
    file_name(path).starts_with(".nycrc")
        || ["coverageThreshold", "thresholds", "check-coverage"]
            .iter()
            .any(|word| text.contains(word))
}

fn of_codecov(path: &str, _: &str) -> bool {
    file_name(path).contains("codecov")
}

fn of_runner(path: &str, _: &str) -> bool {
    let name = file_name(path);
    ["pytest.ini", "pyproject.toml", "setup.cfg", "tox.ini"].contains(&name)
        || [".mocharc", "playwright.config.", "cypress.config.", "vitest.config.", "jest.config."]
            .iter()
            .any(|stem| name.starts_with(stem))
}

const THRESHOLD: &str = "threshold-lowered";
const TIMEOUT: &str = "timeout-raised";
const LINT: &str = "lint-relaxed";

const fn number(
    name: &'static str,
    weaker: Weaker,
    rule: &'static str,
    applies: fn(&str, &str) -> bool,
) -> Number {
    Number { name, weaker, rule, applies }
}

static NUMBERS: [Number; 18] = [
    number("fail_under", Weaker::Lower, THRESHOLD, anywhere),
    number("fail-under", Weaker::Lower, THRESHOLD, anywhere),
    number("--cov-fail-under", Weaker::Lower, THRESHOLD, anywhere),
    number("--fail-under", Weaker::Lower, THRESHOLD, anywhere),
    number("--fail-under-lines", Weaker::Lower, THRESHOLD, anywhere),
    number("branches", Weaker::Lower, THRESHOLD, with_coverage),
    number("functions", Weaker::Lower, THRESHOLD, with_coverage),
    number("lines", Weaker::Lower, THRESHOLD, with_coverage),
    number("statements", Weaker::Lower, THRESHOLD, with_coverage),
    number("target", Weaker::Lower, THRESHOLD, of_codecov),
    number("min_tests", Weaker::Lower, THRESHOLD, anywhere),
    number("--max-warnings", Weaker::Higher, LINT, anywhere),
    number("testTimeout", Weaker::Higher, TIMEOUT, anywhere),
    number("hookTimeout", Weaker::Higher, TIMEOUT, anywhere),
    number("timeout", Weaker::Higher, TIMEOUT, of_runner),
    number("--timeout", Weaker::Higher, TIMEOUT, anywhere),
    number("retries", Weaker::Higher, TIMEOUT, of_runner),
    number("--reruns", Weaker::Higher, TIMEOUT, anywhere),
];

/// Searched for in test files instead: `jest.setTimeout(60000)`.
static IN_TESTS: [Number; 2] = [
    number("jest.setTimeout", Weaker::Higher, TIMEOUT, anywhere),
    number("jest.retryTimes", Weaker::Higher, TIMEOUT, anywhere),
];

struct Switch {
    name: &'static str,
    /// The stricter value.
    strict: bool,
    /// Whether leaving it out is weak or strict.
    absent: Absent,
    rule: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Absent {
    IsWeak,
    IsStrict,
}

const fn on(name: &'static str) -> Switch {
    Switch { name, strict: true, absent: Absent::IsWeak, rule: LINT }
}

const fn off(name: &'static str, rule: &'static str) -> Switch {
    Switch { name, strict: false, absent: Absent::IsStrict, rule }
}

const IGNORED: &str = "check-ignored";

static SWITCHES: [Switch; 19] = [
    on("strict"),
    on("noImplicitAny"),
    on("strictNullChecks"),
    on("noUncheckedIndexedAccess"),
    on("noImplicitReturns"),
    on("noUnusedLocals"),
    on("noUnusedParameters"),
    on("disallow_untyped_defs"),
    on("check_untyped_defs"),
    on("warn_return_any"),
    on("check-coverage"),
    on("forbidOnly"),
    off("passWithNoTests", IGNORED),
    off("ignoreBuildErrors", IGNORED),
    off("ignoreDuringBuilds", IGNORED),
    off("ignore_errors", IGNORED),
    off("ignore_missing_imports", LINT),
    off("skipTests", IGNORED),
    off("allowOnly", IGNORED),
];

/// Keys of `Cargo.toml` that disable tests.
static OF_CARGO: [Switch; 3] = [of_cargo("test"), of_cargo("autotests"), of_cargo("doctest")];

const fn of_cargo(name: &'static str) -> Switch {
    Switch { name, strict: true, absent: Absent::IsStrict, rule: "selection-narrowed" }
}

pub(super) fn weakened(changes: &[FileChange<'_>]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for change in changes {
        let sets = files::sets_something(change.path);
        let numbers: &[Number] = if sets { &NUMBERS } else { &IN_TESTS };
        if !sets && !crate::is_test_file(change.path) {
            continue;
        }
        let (was, is) = (change.before.unwrap_or_default(), change.after.unwrap_or_default());
        if !sets && !numbers.iter().any(|number| was.contains(number.name)) {
            continue;
        }
        let before = Source::new(change.path, was);
        let after = Source::new(change.path, is);
        for number in numbers.iter().filter(|one| (one.applies)(change.path, before.text)) {
            findings.extend(moved(changes, number, &before, &after));
        }
        if sets && change.after.is_some() {
            // A new package may be without tests; an existing one that disables them is weaker.
            let is_known = file_name(change.path) == "Cargo.toml" && change.before.is_some();
            let of_cargo = if is_known { OF_CARGO.as_slice() } else { &[] };
            for switch in SWITCHES.iter().chain(of_cargo) {
                findings.extend(switched(switch, &before, &after));
            }
        }
    }
    findings
}

fn moved(
    changes: &[FileChange<'_>],
    number: &Number,
    before: &Source<'_>,
    after: &Source<'_>,
) -> Vec<Finding> {
    let (was, is) = (numbers(before, number.name), numbers(after, number.name));
    let mut findings = Vec::new();
    for (index, (_, was)) in was.iter().enumerate() {
        let Some((line, is)) = is.get(index) else {
            // It may have moved to another file, where it must be at least as strict.
            let is_elsewhere =
                changes.iter().filter(|other| other.path != before.path).any(|other| {
                    let text = other.after.unwrap_or_default();
                    let source = Source::new(other.path, text);
                    let kept = |(_, is): &(usize, f64)| !is_weaker(number.weaker, *was, *is);
                    text.contains(number.name) && numbers(&source, number.name).iter().any(kept)
                });
            let says_limit = number.weaker == Weaker::Lower || number.name == "--max-warnings";
            if says_limit && !is_elsewhere {
                let message = format!("`{}` was removed (was {was})", number.name);
                findings.push(finding(at_line(before.path, 1), number.rule, message));
            }
            continue;
        };
        if is_weaker(number.weaker, *was, *is) {
            let message = format!("`{}` was {was}, now {is}", number.name);
            findings.push(finding(at_line(after.path, *line), number.rule, message));
        }
    }
    findings
}

fn is_weaker(weaker: Weaker, was: f64, is: f64) -> bool {
    match weaker {
        Weaker::Lower => is < was,
        Weaker::Higher => is > was,
    }
}

/// Every number right after the name, with its line.
fn numbers(source: &Source<'_>, name: &str) -> Vec<(usize, f64)> {
    const MOST: usize = 100;
    let found = positions(source, name).filter_map(|at| {
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
fn positions<'a>(source: &'a Source<'_>, name: &'a str) -> impl Iterator<Item = usize> + 'a {
    words::find_all(source.text, name).filter(move |at| {
        let bytes = source.text.as_bytes();
        let before = at.checked_sub(1).and_then(|at| bytes.get(at));
        let after = bytes.get(at + name.len());
        let is_commented = source.comments.as_bytes().get(*at).is_some_and(|byte| *byte != b' ');
        !is_commented && before != Some(&b'-') && before != Some(&b'.') && after != Some(&b'-')
    })
}

/// The value after a key, as in `": 80`, `=80`, ` = "80"`, `(80`, ` 80` or `>80`.
fn value_after(text: &str, at: usize) -> Option<&str> {
    let line = words::head(text, at, 100).lines().next()?;
    let value = line.trim_start_matches(['"', '\'', ' ', '\t']);
    let value = value.strip_prefix([':', '=', '(', '>']).unwrap_or(value);
    Some(value.trim_start_matches(['"', '\'', ' ', '\t']))
}

fn switched(switch: &Switch, before: &Source<'_>, after: &Source<'_>) -> Option<Finding> {
    let value = |source: &Source<'_>| {
        let mut values = positions(source, switch.name).filter_map(|at| {
            let value = value_after(source.text, at + switch.name.len())?;
            match words::word_at(value, 0) {
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
        (Some(was), Some((line, is))) if was != is && is != switch.strict => {
            Some(finding(at_line(after.path, line), rule, format!("`{name}` was {was}, now {is}")))
        }
        (None, Some((line, is))) if is != switch.strict && switch.absent == Absent::IsStrict => {
            Some(finding(
                at_line(after.path, line),
                rule,
                format!("`{name}` is now {is} (was not set)"),
            ))
        }
        (Some(was), None) if was == switch.strict && switch.absent == Absent::IsWeak => {
            Some(finding(at_line(after.path, 1), rule, format!("`{name}` was removed (was {was})")))
        }
        _ => None,
    }
}
