//! Selects the tests of changed files, so that a long suite does not have to run as a whole in every step.
//!
//! Only commands that are understood word by word are changed; all others run whole. A runner that runs more than the
//! selected files does no harm, because results are compared by the names of the tests.

use std::collections::BTreeSet;

use ralph_core::gate::{Gate, GateInvocation, GateOutcome, GateReport, MinTests};

use ralph_gates::test_runner::{TestRunner, find_runner, is_plain_option, runner_position};

/// Suites up to this duration always run whole.
pub(crate) const MIN_SELECTED_MS: u64 = 10_000;
const MAX_FILES: usize = 200;

/// The gate with only the tests in `files`, which are relative to the project. `None` if it is not certain that the
/// runner would run these.
pub(crate) fn select_files(gate: &Gate, files: &[String]) -> Option<Gate> {
    let GateInvocation::Argv(words) = &gate.command else { return None };
    let runner = find_runner(gate, &|_| None)?;
    let at = runner_position(runner, words)?;
    let inside: Vec<&str> =
        files.iter().map(|file| inside_directory(&gate.cwd, file)).collect::<Option<_>>()?;
    if inside.is_empty()
        || inside.len() > MAX_FILES
        || !inside.iter().all(|file| is_plain_path(file))
    {
        return None;
    }
    let (mut command, arguments) = (words[..=at].to_vec(), &words[at + 1..]);
    for word in arguments {
        let covers = |file: &&str| {
            let directory = word.trim_start_matches("./").trim_end_matches('/');
            let is_all = matches!(directory, "" | "." | "...");
            is_all || file.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/'))
        };
        let is_mode = match runner {
            TestRunner::Vitest => word == "run",
            TestRunner::NodeTest => word == "--test",
            TestRunner::Pytest
            | TestRunner::Unittest
            | TestRunner::Cargo
            | TestRunner::Nextest
            | TestRunner::Go
            | TestRunner::Jest
            | TestRunner::Mocha
            | TestRunner::Ava
            | TestRunner::Bats => false,
        };
        if is_mode || is_plain_option(word) {
            command.push(word.clone());
        } else if word.starts_with('-') || !inside.iter().all(covers) {
            return None;
        }
    }
    for argument in
        inside.iter().map(|file| file_arguments(runner, file)).collect::<Option<BTreeSet<_>>>()?
    {
        command.extend(argument);
    }
    // A selection has fewer tests than the gate must have.
    let min_tests = MinTests::Some;
    Some(Gate { command: GateInvocation::Argv(command), min_tests, ..gate.clone() })
}

fn inside_directory<'a>(directory: &str, file: &'a str) -> Option<&'a str> {
    if directory.is_empty() { Some(file) } else { file.strip_prefix(directory)?.strip_prefix('/') }
}

/// Neither an option nor a pattern to any runner, and in no hidden directory.
pub(crate) fn is_plain_path(file: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./".contains(&byte);
    file.bytes().all(is_plain)
        && file.split('/').all(|part| !part.starts_with(['-', '.']) && !part.is_empty())
}

fn file_arguments(runner: TestRunner, file: &str) -> Option<Vec<String>> {
    let (directory, name) = file.rsplit_once('/').unwrap_or(("", file));
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    let is_script =
        matches!(extension, "js" | "jsx" | "mjs" | "cjs" | "ts" | "tsx" | "mts" | "cts");
    let is_test = match runner {
        // Helpers that other files import contain no tests of their own.
        TestRunner::Pytest => {
            extension == "py" && (name.starts_with("test_") || name.ends_with("_test.py"))
        }
        TestRunner::Bats => extension == "bats",
        TestRunner::Go => {
            let package =
                if directory.is_empty() { ".".to_string() } else { format!("./{directory}") };
            return name.ends_with("_test.go").then(|| vec![package]);
        }
        TestRunner::Cargo => {
            let target = name.strip_suffix(".rs").filter(|_| directory == "tests")?;
            return Some(vec!["--test".to_string(), target.to_string()]);
        }
        TestRunner::Jest
        | TestRunner::Vitest
        | TestRunner::Mocha
        | TestRunner::Ava
        | TestRunner::NodeTest => {
            let stem = name.rsplit_once('.').map_or("", |(stem, _)| stem);
            is_script && [".test", ".spec", "-test", "_test"].iter().any(|end| stem.ends_with(end))
        }
        TestRunner::Unittest | TestRunner::Nextest => false,
    };
    is_test.then(|| vec![file.to_string()])
}

/// Adds the results of tests that were not selected. `rest` has them, because these tests are the same files in both
/// runs. Tests that `selected` or one of `others` reports belong to selected files.
pub(crate) fn complete_report(
    selected: &GateReport,
    rest: &GateReport,
    others: &[&GateReport],
) -> GateReport {
    let mut report = selected.clone();
    let (Some(cases), Some(rest)) = (&mut report.cases, &rest.cases) else { return report };
    let known: BTreeSet<String> = others
        .iter()
        .filter_map(|other| other.cases.as_ref())
        .chain([&*cases])
        .flat_map(|cases| cases.passed.iter().chain(&cases.failed).chain(&cases.skipped))
        .cloned()
        .collect();
    for (names, more) in [
        (&mut cases.passed, &rest.passed),
        (&mut cases.failed, &rest.failed),
        (&mut cases.skipped, &rest.skipped),
    ] {
        names.extend(more.iter().filter(|name| !known.contains(*name)).cloned());
        names.sort();
    }
    cases.is_complete &= rest.is_complete;
    // The count is that of the selection.
    report.tests = None;
    if !cases.failed.is_empty() && report.outcome == GateOutcome::Passed {
        report.outcome = GateOutcome::Failed;
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selected(line: &str, cwd: &str, files: &[&str]) -> String {
        let argv = line.split(' ').map(ToString::to_string).collect();
        let mut gate = Gate::new("tests", GateInvocation::Argv(argv));
        gate.cwd = cwd.to_string();
        let files: Vec<String> = files.iter().map(ToString::to_string).collect();
        select_files(&gate, &files).map_or_else(|| "whole".to_string(), |gate| gate.command_line())
    }

    /// What is not understood runs whole.
    #[test]
    fn commands_run_the_selected_files() {
        for (line, files, expected) in [
            ("pytest -q", &["tests/test_a.py"][..], "pytest -q tests/test_a.py"),
            (
                "pytest tests --junitxml={report}",
                &["tests/test_a.py"],
                "pytest --junitxml={report} tests/test_a.py",
            ),
            (
                "uv run python -m pytest .",
                &["test_a.py", "b/test_b.py"],
                "uv run python -m pytest b/test_b.py test_a.py",
            ),
            ("pytest unit", &["tests/test_a.py"], "whole"),
            ("pytest -k fast", &["tests/test_a.py"], "whole"),
            ("pytest --cov=src", &["tests/test_a.py"], "whole"),
            ("pytest -q", &["tests/data.json"], "whole"),
            ("pytest -q", &["tests/conftest.py"], "whole"),
            ("pytest -q", &["-x.py"], "whole"),
            ("pytest -q", &["tests/a b.py"], "whole"),
            ("pytest -q", &[], "whole"),
            ("python -m unittest", &["tests/test_a.py"], "whole"),
            (
                "go test -json ./...",
                &["api/a_test.go", "api/b_test.go", "c_test.go"],
                "go test -json . ./api",
            ),
            ("go test -run A ./...", &["api/a_test.go"], "whole"),
            ("cargo test --locked", &["tests/cli.rs"], "cargo test --locked --test cli"),
            ("cargo test", &["crates/a/tests/cli.rs"], "whole"),
            ("cargo test -- --quiet", &["tests/cli.rs"], "whole"),
            ("npx jest --ci", &["src/a.test.tsx"], "npx jest --ci src/a.test.tsx"),
            ("npx vitest run", &["a.spec.ts"], "npx vitest run a.spec.ts"),
            ("npx mocha", &["test/helpers.js"], "whole"),
            (
                "node --test --test-concurrency=1",
                &["a.test.mjs"],
                "node --test --test-concurrency=1 a.test.mjs",
            ),
            ("bats tests", &["tests/a.bats"], "bats tests/a.bats"),
            ("npm test", &["a.test.js"], "whole"),
            ("make test", &["a.test.js"], "whole"),
        ] {
            assert_eq!(selected(line, "", files), expected, "{line} {files:?}");
        }
        assert_eq!(selected("pytest", "web", &["web/test_a.py"]), "pytest test_a.py");
        assert_eq!(selected("pytest", "web", &["api/test_a.py"]), "whole");
    }
}
