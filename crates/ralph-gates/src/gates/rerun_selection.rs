//! Runs failed tests alone, to confirm their failure without another run of the whole suite.
//!
//! The selection may run other tests too, or none: only a failure of a test that failed before confirms anything.

use std::path::Path;

use ralph_core::gate::{Gate, GateInvocation, MinTests};
use ralph_core::test_cases::TestCases;
use ralph_sys::fs;

use crate::script_call::{find_script_call, package_script};
use crate::test_runner::{TestRunner, find_runner, is_plain_option, runner_position};

/// A suite with more failures than this runs whole.
const MAX_FAILED: usize = 40;
const MAX_PATTERN_BYTES: usize = 16 * 1024;
const MAX_MANIFEST_BYTES: usize = 4 * 1024 * 1024;
/// Between the parts of a name.
const PART_SEPARATOR: &str = " > ";

/// The gate with only these tests; `None` if it is not clear how to select them. `directory` is where the gate runs.
pub(super) fn select_failed(gate: &Gate, cases: &TestCases, directory: &Path) -> Option<Gate> {
    let GateInvocation::Argv(words) = &gate.command else { return None };
    let failed = &cases.failed;
    if failed.is_empty() || failed.len() > MAX_FAILED {
        return None;
    }
    let titles: Vec<&str> = failed.iter().map(|name| last_part(name)).collect();
    // A runner would take it for an option.
    if failed.iter().map(String::as_str).chain(titles.iter().copied()).any(|it| it.starts_with('-'))
    {
        return None;
    }
    let script = |name: &str| {
        let manifest = fs::read(&directory.join("package.json"), MAX_MANIFEST_BYTES).ok()?;
        package_script(std::str::from_utf8(&manifest).ok()?, name)
    };
    // A script may have the name of a runner.
    let command = if let Some(script) = find_script_call(words, &script) {
        [script.call, select_in_script(&script.last_command, &titles)?].concat()
    } else {
        let runner = find_runner(gate, &|_| None)?;
        select_directly(runner, words, failed, &titles, directory)?
    };
    // A selection has fewer tests than the gate must have.
    let min_tests = MinTests::Some;
    Some(Gate { command: GateInvocation::Argv(command), min_tests, ..gate.clone() })
}

/// The command of a gate that calls the runner itself.
fn select_directly(
    runner: TestRunner,
    words: &[String],
    failed: &[String],
    titles: &[&str],
    directory: &Path,
) -> Option<Vec<String>> {
    let has_word = |known: &[&str]| words.iter().any(|word| known.contains(&word.as_str()));
    let pattern = || alternatives(titles, escape_letter);
    let at_end = |added: Vec<String>| Some([words, &added].concat());
    let after_runner = |added: Vec<String>| {
        let (before, arguments) = words.split_at(runner_position(runner, words)? + 1);
        Some([before, &added, arguments].concat())
    };
    match runner {
        TestRunner::Pytest => {
            let is_file = |path: &str| fs::exists(&directory.join(path));
            let nodes = failed.iter().map(|name| pytest_node(name, &is_file));
            let nodes = nodes.collect::<Option<Vec<_>>>()?;
            let (before, arguments) = words.split_at(runner_position(runner, words)? + 1);
            let (options, operands): (Vec<String>, Vec<String>) =
                arguments.iter().cloned().partition(|word| word.starts_with('-'));
            // The value of an option could not be distinguished from an operand.
            if !operands.is_empty() && !options.iter().all(|word| is_plain_option(word)) {
                return None;
            }
            Some([before, &options, &nodes].concat())
        }
        TestRunner::Unittest => {
            // Works with and without `discover`, in contrast to the names of tests as operands.
            let are_ids = failed.iter().all(|name| is_identifier(name, '.'));
            let options = failed.iter().flat_map(|name| ["-k".to_string(), name.clone()]);
            are_ids.then(|| at_end(options.collect())).flatten()
        }
        TestRunner::Cargo if !has_word(&["--"]) => {
            let names = titles.iter().map(ToString::to_string);
            at_end(["--", "--exact"].map(str::to_string).into_iter().chain(names).collect())
        }
        TestRunner::Nextest if !has_word(&["--", "-E", "--filter-expr", "--filterset"]) => {
            let exact = |title: &&str| is_identifier(title, ':').then(|| format!("test(={title})"));
            let names = titles.iter().map(exact).collect::<Option<Vec<_>>>()?;
            at_end(vec!["-E".to_string(), names.join(" + ")])
        }
        TestRunner::Go if !words.iter().any(|word| is_go_filter(word)) => {
            let tops: Vec<&str> =
                titles.iter().map(|title| title.split('/').next().unwrap_or(title)).collect();
            after_runner(vec![format!("-run=^({})$", alternatives(&tops, escape_letter)?)])
        }
        TestRunner::Jest | TestRunner::Vitest | TestRunner::Mocha | TestRunner::Ava => {
            at_end(title_options(runner, titles, escape_letter)?)
        }
        TestRunner::NodeTest => after_runner(title_options(runner, titles, escape_letter)?),
        TestRunner::Bats => {
            after_runner(vec!["--filter".to_string(), format!("^({})$", pattern()?)])
        }
        TestRunner::Cargo | TestRunner::Go | TestRunner::Nextest => None,
    }
}

/// The arguments for the last command of a script, which reach it through a shell.
fn select_in_script(command: &[String], titles: &[&str]) -> Option<Vec<String>> {
    let gate = Gate::new("", GateInvocation::Argv(command.to_vec()));
    let runner = find_runner(&gate, &|_| None)?;
    // After a file, node passes options on to the tests.
    let arguments = &command[runner_position(runner, command)? + 1..];
    if runner == TestRunner::NodeTest && !arguments.iter().all(|word| word.starts_with('-')) {
        return None;
    }
    title_options(runner, titles, loosen_letter)
}

/// Options of JavaScript runners that select tests by their titles.
fn title_options(
    runner: TestRunner,
    titles: &[&str],
    letter: fn(char) -> String,
) -> Option<Vec<String>> {
    let pattern = alternatives(titles, letter)?;
    match runner {
        TestRunner::Jest | TestRunner::Vitest => {
            Some(vec!["-t".to_string(), format!("({pattern})$")])
        }
        TestRunner::Mocha => Some(vec!["--grep".to_string(), format!("({pattern})$")]),
        TestRunner::NodeTest => Some(vec![format!("--test-name-pattern=^({pattern})$")]),
        TestRunner::Ava => {
            // Wildcards in place of a regular expression, and `!` in front excludes.
            let wildcards = |title: &&str| {
                let is_plain =
                    |letter: char| letter.is_ascii_alphanumeric() || " _-".contains(letter);
                let title = title.replace(|letter| !is_plain(letter), "*");
                format!("--match={title}")
            };
            Some(titles.iter().map(wildcards).collect())
        }
        TestRunner::Pytest
        | TestRunner::Unittest
        | TestRunner::Cargo
        | TestRunner::Nextest
        | TestRunner::Go
        | TestRunner::Bats => None,
    }
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

/// Whether a name consists of identifiers with separators between them.
fn is_identifier(name: &str, separator: char) -> bool {
    name.chars().all(|letter| letter.is_alphanumeric() || letter == '_' || letter == separator)
}

/// A regular expression that matches these texts, letter by letter.
fn alternatives(texts: &[&str], letter: fn(char) -> String) -> Option<String> {
    let mut texts: Vec<String> =
        texts.iter().map(|text| text.chars().map(letter).collect()).collect();
    texts.sort();
    texts.dedup();
    let pattern = texts.join("|");
    (pattern.len() <= MAX_PATTERN_BYTES && !texts.iter().any(String::is_empty)).then_some(pattern)
}

fn escape_letter(letter: char) -> String {
    let escape = if "\\^$.|?*+()[]{}".contains(letter) { "\\" } else { "" };
    format!("{escape}{letter}")
}

/// Any character in place of one that a shell or a package manager could interpret: the names come from tests, and not
/// all package managers quote arguments. JavaScript counts some characters as two.
fn loosen_letter(letter: char) -> String {
    match letter {
        'a'..='z' | 'A'..='Z' | '0'..='9' | ' ' | '_' | '-' => letter.to_string(),
        _ => ".".repeat(letter.len_utf16()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKAGE: &str = r#"{"scripts": {"test": "node --test", "unit": "eslint . && vitest run", "one": "node --test a.js", "py": "pytest", "ava": "ava"}}"#;

    fn selected(line: &str, failed: &[&str]) -> String {
        let argv = line.split(' ').map(ToString::to_string).collect();
        let gate = Gate::new("tests", GateInvocation::Argv(argv));
        let failed = failed.iter().map(ToString::to_string).collect();
        let cases = TestCases { failed, ..TestCases::default() };
        let directory = tempfile::tempdir().unwrap();
        fs::create_private_dir(&directory.path().join("tests")).unwrap();
        fs::overwrite(&directory.path().join("tests/test_a.py"), b"").unwrap();
        fs::overwrite(&directory.path().join("package.json"), PACKAGE.as_bytes()).unwrap();
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
            (
                "node --test --test-reporter=junit a.js",
                &["sum > adds (1 + 2)"],
                "node '--test-name-pattern=^(adds \\(1 \\+ 2\\))$' --test --test-reporter=junit a.js",
            ),
            (
                "python3 -m unittest discover -s tests -v",
                &["test_a.SumCase.test_x"],
                "python3 -m unittest discover -s tests -v -k test_a.SumCase.test_x",
            ),
            ("python3 -m unittest", &["setUpClass (test_a.SumCase)"], "whole"),
            (
                "cargo nextest run --workspace",
                &["shop > tests::adds", "shop::cart > adds"],
                "cargo nextest run --workspace -E 'test(=tests::adds) + test(=adds)'",
            ),
            ("cargo nextest run", &["shop > adds) + all("], "whole"),
            ("cargo nextest run -E x", &["shop > adds"], "whole"),
            ("npx ava", &["cart > !adds *it"], "npx ava '--match=*adds *it'"),
            ("bats -r tests", &["adds [one]"], "bats --filter '^(adds \\[one\\])$' -r tests"),
            ("npm test", &["sum > adds"], "npm test -- '--test-name-pattern=^(adds)$'"),
            (
                "pnpm run unit",
                &["sum > it's \"$(touch x)\" \\ `y`"],
                "pnpm run unit -t '(it.s ...touch x.. . .y.)$'",
            ),
            ("npm run ava", &["adds $x"], "npm run ava -- '--match=adds *x'"),
            ("npm run one", &["sum adds"], "whole"),
            ("npm run py", &["tests/test_a.py::test_x"], "whole"),
            ("npm run none", &["sum adds"], "whole"),
            ("cargo test", &["shop (src/lib.rs) > --list"], "whole"),
            ("pytest", &[], "whole"),
        ] {
            assert_eq!(selected(line, failed), expected, "{line} {failed:?}");
        }
    }
}
