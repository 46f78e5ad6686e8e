//! Runs failed tests alone, to confirm their failure without another run of the whole suite.
//!
//! The selection may run other tests too, or none: only a failure of a test that failed before confirms anything.

use std::path::Path;

use ralph_core::gate::{Gate, GateInvocation, MinTests};
use ralph_core::test_cases::TestCases;
use ralph_sys::fs;

use crate::test_runner::{TestRunner, find_runner, is_plain_option, runner_position};

/// A suite with more failures than this runs whole.
const MAX_FAILED: usize = 40;
const MAX_PATTERN_BYTES: usize = 16 * 1024;
/// Between the parts of a name.
const PART_SEPARATOR: &str = " > ";

/// The gate with only these tests; `None` if it is not clear how to select them. `directory` is where the gate runs.
pub(super) fn select_failed(gate: &Gate, cases: &TestCases, directory: &Path) -> Option<Gate> {
    let GateInvocation::Argv(words) = &gate.command else { return None };
    let failed = &cases.failed;
    if failed.is_empty() || failed.len() > MAX_FAILED {
        return None;
    }
    let runner = find_runner(gate, &|_| None)?;
    let at = runner_position(runner, words)?;
    let (before, arguments) = words.split_at(at + 1);
    let titles: Vec<&str> = failed.iter().map(|name| last_part(name)).collect();
    // A runner would take it for an option.
    if failed.iter().map(String::as_str).chain(titles.iter().copied()).any(|it| it.starts_with('-'))
    {
        return None;
    }
    let added = match runner {
        TestRunner::Pytest => {
            let is_file = |path: &str| fs::exists(&directory.join(path));
            failed.iter().map(|name| pytest_node(name, &is_file)).collect::<Option<Vec<_>>>()?
        }
        TestRunner::Cargo if !words.iter().any(|word| word == "--") => {
            let names = titles.into_iter().map(str::to_string);
            ["--", "--exact"].map(str::to_string).into_iter().chain(names).collect()
        }
        TestRunner::Go if !words.iter().any(|word| is_go_filter(word)) => {
            let tops = titles.iter().map(|title| title.split('/').next().unwrap_or(title));
            vec![format!("-run=^({})$", alternatives(tops)?)]
        }
        TestRunner::Jest | TestRunner::Vitest => {
            vec!["-t".to_string(), format!("({})$", alternatives(titles.into_iter())?)]
        }
        TestRunner::Mocha => {
            vec!["--grep".to_string(), format!("({})$", alternatives(titles.into_iter())?)]
        }
        TestRunner::Cargo
        | TestRunner::Go
        | TestRunner::Unittest
        | TestRunner::Nextest
        | TestRunner::Ava
        | TestRunner::NodeTest
        | TestRunner::Bats => return None,
    };
    let command = if runner == TestRunner::Go {
        [before, &added, arguments].concat()
    } else if runner == TestRunner::Pytest {
        let (options, operands): (Vec<String>, Vec<String>) =
            arguments.iter().cloned().partition(|word| word.starts_with('-'));
        // The value of an option could not be distinguished from an operand.
        if !operands.is_empty() && !options.iter().all(|word| is_plain_option(word)) {
            return None;
        }
        [before, &options, &added].concat()
    } else {
        [before, arguments, &added].concat()
    };
    // A selection has fewer tests than the gate must have.
    let min_tests = MinTests::Some;
    Some(Gate { command: GateInvocation::Argv(command), min_tests, ..gate.clone() })
}

fn last_part(name: &str) -> &str {
    name.rsplit(PART_SEPARATOR).next().unwrap_or(name)
}

fn is_go_filter(word: &str) -> bool {
    let option = word.trim_start_matches('-');
    option == "run" || option == "args" || option.starts_with("run=")
}

/// `tests/test_a.py::test_x`, as in pytest's own output, or `tests.test_a.TestY > test_x`, as in its XML report.
fn pytest_node(name: &str, is_file: &dyn Fn(&str) -> bool) -> Option<String> {
    if name.contains(".py::") {
        return Some(name.to_string());
    }
    let parts: Vec<&str> = name.split(PART_SEPARATOR).collect();
    let [.., module, test] = parts.as_slice() else { return None };
    let words: Vec<&str> = module.split('.').collect();
    let (file, classes) = (1..=words.len()).rev().find_map(|count| {
        let file = format!("{}.py", words[..count].join("/"));
        is_file(&file).then(|| (file, &words[count..]))
    })?;
    let parts = [file.as_str()].into_iter().chain(classes.iter().copied()).chain([*test]);
    Some(parts.collect::<Vec<_>>().join("::"))
}

/// A regular expression that matches exactly these texts.
fn alternatives<'a>(texts: impl Iterator<Item = &'a str>) -> Option<String> {
    let escape = |text: &str| {
        let is_special = |letter: &char| "\\^$.|?*+()[]{}/".contains(*letter);
        let mut escaped = String::new();
        for letter in text.chars() {
            if is_special(&letter) {
                escaped.push('\\');
            }
            escaped.push(letter);
        }
        escaped
    };
    let mut texts: Vec<String> = texts.map(escape).collect();
    texts.sort();
    texts.dedup();
    let pattern = texts.join("|");
    (pattern.len() <= MAX_PATTERN_BYTES && !texts.iter().any(String::is_empty)).then_some(pattern)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selected(line: &str, failed: &[&str]) -> String {
        let argv = line.split(' ').map(ToString::to_string).collect();
        let gate = Gate::new("tests", GateInvocation::Argv(argv));
        let failed = failed.iter().map(ToString::to_string).collect();
        let cases = TestCases { failed, ..TestCases::default() };
        let directory = tempfile::tempdir().unwrap();
        fs::create_private_dir(&directory.path().join("tests")).unwrap();
        fs::overwrite(&directory.path().join("tests/test_a.py"), b"").unwrap();
        select_failed(&gate, &cases, directory.path())
            .map_or_else(|| "whole".to_string(), |gate| gate.command_line())
    }

    /// The names are those that the default reports of each runner give.
    #[test]
    fn failed_tests_run_alone() {
        for (line, failed, expected) in [
            (
                "pytest -q --junitxml={report}",
                &["tests.test_a > test_x[1-2]", "tests.test_a.TestY > test_z"][..],
                "pytest -q --junitxml={report} 'tests/test_a.py::test_x[1-2]' tests/test_a.py::TestY::test_z",
            ),
            ("pytest -v tests", &["tests/test_a.py::test_x"], "pytest -v tests/test_a.py::test_x"),
            ("pytest -n 4", &["tests/test_a.py::test_x"], "whole"),
            ("pytest", &["other.module > test_x"], "whole"),
            (
                "cargo test --workspace",
                &["shop (src/lib.rs) > tests::adds", "cart (tests/cart.rs) > adds"],
                "cargo test --workspace -- --exact tests::adds adds",
            ),
            ("cargo test -- --test-threads=1", &["shop (src/lib.rs) > tests::adds"], "whole"),
            (
                "go test -json ./...",
                &["example.com/cart > TestAdd", "example.com/cart > TestAdd/big_ones"],
                "go test '-run=^(TestAdd)$' -json ./...",
            ),
            ("go test -run Add ./...", &["example.com/cart > TestAdd"], "whole"),
            (
                "npx vitest run",
                &["tests/a.test.ts > sum > adds (1 + 2)"],
                "npx vitest run -t '(adds \\(1 \\+ 2\\))$'",
            ),
            ("npx jest --ci", &["sum > sum adds"], "npx jest --ci -t '(sum adds)$'"),
            ("mocha --reporter=tap", &["sum adds"], "mocha --reporter=tap --grep '(sum adds)$'"),
            ("npm test", &["sum adds"], "whole"),
            ("cargo test", &["shop (src/lib.rs) > --list"], "whole"),
            ("pytest", &[], "whole"),
        ] {
            assert_eq!(selected(line, failed), expected, "{line} {failed:?}");
        }
    }
}
