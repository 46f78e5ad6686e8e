//! Detects commands that can no longer fail, and test commands that select fewer tests.

use super::{quote_line, settings_files, uncommented_lines};
use crate::FileChange;
use crate::change_finding::{line_place, new_finding};
use crate::source_text::SourceText;
use crate::word_search;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::vec::Vec;
use ralph_core::requirement::Finding;
use serde_json::Value;

/// A line with one of these words runs a check.
const CHECK_TOOLS: [&str; 40] = [
    "test",
    "tests",
    "jest",
    "vitest",
    "mocha",
    "ava",
    "karma",
    "cypress",
    "playwright",
    "pytest",
    "tox",
    "nox",
    "unittest",
    "nextest",
    "clippy",
    "eslint",
    "tsc",
    "mypy",
    "pyright",
    "ruff",
    "flake8",
    "pylint",
    "lint",
    "check",
    "typecheck",
    "golangci",
    "vet",
    "mvn",
    "gradle",
    "gradlew",
    "phpunit",
    "rspec",
    "ctest",
    "coverage",
    "tarpaulin",
    "biome",
    "prettier",
    "stylelint",
    "verify",
    "audit",
];
/// Programs that run tests.
const TEST_RUNNERS: [&str; 20] = [
    "jest",
    "vitest",
    "mocha",
    "ava",
    "tap",
    "karma",
    "cypress",
    "playwright",
    "pytest",
    "py.test",
    "tox",
    "nox",
    "unittest",
    "nextest",
    "phpunit",
    "rspec",
    "ctest",
    "bats",
    "--test",
    "uvu",
];
/// Programs that run tests with an argument `test`.
const TEST_LAUNCHERS: [&str; 16] = [
    "cargo", "npm", "pnpm", "yarn", "bun", "deno", "go", "make", "gmake", "mvn", "gradle",
    "gradlew", "run", "just", "dotnet", "swift",
];
/// Parts of a command that make it succeed regardless of failures.
const FAILURE_HIDING_PARTS: [&str; 16] = [
    "|| true",
    "||true",
    "|| :",
    "|| exit 0",
    "|| echo",
    "; true",
    "; exit 0",
    "--passWithNoTests",
    "--pass-with-no-tests",
    "--exit-zero",
    "-DskipTests",
    "-Dmaven.test.skip=true",
    "-DskipITs",
    "-Dmaven.test.failure.ignore",
    "-DtestFailureIgnore",
    "--no-verify",
];
/// Lines with the same effect, as a setting of a CI step or a shell.
const FAILURE_HIDING_LINES: [&str; 5] = [
    "continue-on-error: true",
    "continueOnError: true",
    "allow_failure: true",
    "set +e",
    "ignore_errors: true",
];
const SELECTION_FLAGS: [&str; 15] = [
    "-k",
    "-t",
    "-m",
    "-run",
    "-skip",
    "--testNamePattern",
    "--testPathIgnorePatterns",
    "--deselect",
    "--ignore",
    "--ignore-glob",
    "--skip",
    "--exclude",
    "--grep",
    "--filter",
    "--lib",
];

/// Flags whose value is a file that is not a test.
const VALUE_FLAGS: [&str; 12] = [
    "-r",
    "--require",
    "-c",
    "--config",
    "--import",
    "--loader",
    "--reporter",
    "-p",
    "-o",
    "--preload",
    "--setupFiles",
    "--file",
];

pub(super) fn find_weakened_commands(change: &FileChange<'_>) -> Vec<Finding> {
    let Some(after) = change.after else {
        return Vec::new();
    };
    let before = SourceText::new(change.path, change.before.unwrap_or_default());
    let after = SourceText::new(change.path, after);
    let (was, is) = (uncommented_lines(&before), uncommented_lines(&after));
    let had: BTreeSet<&str> = was.iter().map(|(_, line)| *line).collect();
    let has: BTreeSet<&str> = is.iter().map(|(_, line)| *line).collect();
    let gone: Vec<&str> =
        was.iter().map(|(_, line)| *line).filter(|line| !has.contains(line)).collect();
    let mut findings = Vec::new();
    for (number, line) in is.into_iter().filter(|(_, line)| !had.contains(line)) {
        let was = find_counterpart(&gone, line);
        let difference = match was {
            Some(was) => format!("was {}, now {}", quote_line(was), quote_line(line)),
            None => format!("{} is new", quote_line(line)),
        };
        let place = line_place(change.path, number);
        if let Some(by) = failure_hiding_part(change.path, line)
            .filter(|by| !was.is_some_and(|was| was.contains(by)))
        {
            let message = if line.trim_start_matches("- ") == by {
                format!("`{by}` is new and hides failures")
            } else {
                format!("`{by}` hides failures: {difference}")
            };
            findings.push(new_finding(place, "check-ignored", message));
        } else if let Some(by) = was.and_then(|was| narrowing_token(was, line)) {
            findings.push(new_finding(
                place,
                "selection-narrowed",
                format!("{} runs fewer tests: {difference}", quote_line(by)),
            ));
        }
    }
    if change.path.ends_with("package.json") {
        findings.extend(find_disabled_scripts(change, &after));
    }
    findings
}

fn runs_tool(line: &str, tools: &[&str]) -> bool {
    line.split(|char: char| !char.is_ascii_alphanumeric()).any(|word| tools.contains(&word))
}

fn failure_hiding_part(path: &str, line: &str) -> Option<&'static str> {
    let whole = line.trim_start_matches("- ");
    if let Some(found) = FAILURE_HIDING_LINES.into_iter().find(|forgiving| whole == *forgiving) {
        return Some(found);
    }
    if whole == "exit 0" && settings_files::is_ci_file(path) {
        return Some("exit 0");
    }
    let found = FAILURE_HIDING_PARTS.into_iter().find(|forgiving| {
        word_search::find_word(line, forgiving).any(|at| {
            let rest = line.get(at + forgiving.len()..).unwrap_or_default();
            // `; true` hides a failure only at the end.
            !forgiving.starts_with(';') || rest.trim_matches(['"', '\'', ',', ' ']).is_empty()
        })
    });
    found.filter(|_| runs_tool(line, &CHECK_TOOLS))
}

/// The removed line that is most similar to this one, with the same key or the same command.
fn find_counterpart<'a>(gone: &[&'a str], line: &str) -> Option<&'a str> {
    const MOST: usize = 500;
    let alike =
        |other: &str| other.bytes().zip(line.bytes()).take_while(|(one, two)| one == two).count();
    let (length, best) = gone.iter().take(MOST).map(|other| (alike(other), *other)).max()?;
    (length >= 6 || best.len() <= length + 1).then_some(best)
}

/// The new part of a test command that excludes tests: a flag, or a path where there was none.
fn narrowing_token<'a>(was: &str, is: &'a str) -> Option<&'a str> {
    let (was, is) = (test_arguments(was)?, test_arguments(is)?);
    // Another runner has other flags.
    if was.runner != is.runner {
        return None;
    }
    let had: BTreeSet<&str> = was.list.iter().map(|token| option_name(token)).collect();
    let had_path = was.list.iter().any(|token| is_test_path(token));
    let mut before = "";
    is.list.into_iter().find(|token| {
        let is_value = VALUE_FLAGS.contains(&before);
        before = *token;
        let is_new = !had.contains(option_name(token));
        is_new
            && (SELECTION_FLAGS.contains(&option_name(token))
                || !is_value && !had_path && is_test_path(token))
    })
}

struct TestArguments<'a> {
    runner: &'a str,
    list: Vec<&'a str>,
}

/// The words between the program that runs tests and the end of its command.
fn test_arguments(line: &str) -> Option<TestArguments<'_>> {
    let is_between = |char: char| char.is_whitespace() || "\"',[]".contains(char);
    let words: Vec<&str> = line.split(is_between).filter(|word| !word.is_empty()).collect();
    let base_name = |word: &'_ str| -> bool {
        let name = word.rsplit('/').next().unwrap_or(word);
        TEST_RUNNERS.contains(&name)
    };
    let is_launched = |index: usize| {
        let before = words.get(index.saturating_sub(2)..index).unwrap_or_default();
        before.iter().any(|word| {
            let name = word.rsplit('/').next().unwrap_or(word);
            TEST_LAUNCHERS.contains(&name)
        })
    };
    let start = words.iter().enumerate().position(|(index, word)| {
        base_name(word) || matches!(*word, "test" | "tests") && is_launched(index)
    })?;
    let runner = words.get(start).copied()?;
    let ends =
        |word: &&&str| !matches!(**word, "&&" | "||" | ";" | "|" | "&") && !word.ends_with(';');
    let list = words.get(start + 1..)?.iter().take_while(ends).copied().collect();
    Some(TestArguments { runner, list })
}

fn option_name(token: &str) -> &str {
    token.split('=').next().unwrap_or_default()
}

/// `tests/test_a.py`, `tests/test_a.py::test_b`, but not a pattern.
fn is_test_path(token: &str) -> bool {
    !token.starts_with('-')
        && !token.contains(['*', '$', '{'])
        && (token.contains("::") || [".py", ".ts", ".js"].iter().any(|end| token.ends_with(end)))
}

/// Finds scripts that ran a check and were removed or do nothing now.
fn find_disabled_scripts(change: &FileChange<'_>, after: &SourceText<'_>) -> Vec<Finding> {
    let read = |text: Option<&str>| serde_json::from_str::<Value>(text?).ok();
    // If the file is not valid JSON, no script runs, and gates that call one fail.
    let (Some(before), Some(now)) = (read(change.before), read(change.after)) else {
        return Vec::new();
    };
    // A missing key means that all scripts were removed.
    let (was, is) = (&before["scripts"], &now["scripts"]);
    let mut findings = Vec::new();
    for (name, command) in was.as_object().into_iter().flatten() {
        let Some(command) = command.as_str().filter(|command| runs_tool(command, &CHECK_TOOLS))
        else {
            continue;
        };
        let place = || {
            let key = format!("\"{name}\"");
            after.text.find(&key).map_or_else(
                || line_place(change.path, 1),
                |at| line_place(change.path, after.line_of(at)),
            )
        };
        match is.get(name.as_str()).and_then(Value::as_str) {
            Some(now) if now != command && does_nothing(now) => findings.push(new_finding(
                place(),
                "check-ignored",
                format!(
                    "script `{name}` checks nothing: was {}, now {}",
                    quote_line(command),
                    quote_line(now)
                ),
            )),
            None if name == "test" || name == "lint" || name == "typecheck" => {
                findings.push(new_finding(
                    place(),
                    "check-ignored",
                    format!("script `{name}` was removed: it was {}", quote_line(command)),
                ));
            }
            Some(_) | None => {}
        }
    }
    findings
}

fn does_nothing(command: &str) -> bool {
    let first = command.split([' ', ';', '&']).next().unwrap_or_default();
    let alone = !command.contains("&&") || command.ends_with("exit 0");
    matches!(first, "echo" | "true" | ":" | "exit" | "") && alone
}
