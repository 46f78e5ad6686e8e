//! A failing test that is added beside the project's own. A harness that does not report it as failed cannot fail, so
//! nothing that it reports counts.

use ralph_core::gate::{Gate, GateInvocation, GateOutcome, GateReport, RerunPolicy};
use ralph_core::proof::CanaryResult;
use ralph_gates::test_runner::TestRunner;
use std::path::Path;

/// A test file that must fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Canary {
    pub runner: TestRunner,
    /// Part of the test's name, and of no other.
    pub mark: String,
    pub path: String,
    pub content: String,
    /// The word of the command after which it is named, if the command names files with tests.
    pub after_word: Option<usize>,
}

/// A test file of the project, as an example of where the runner finds tests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExampleTest<'a> {
    pub path: &'a str,
    pub text: &'a str,
}

/// Options of `cargo test` and `go test` that select tests, so that an added test would not run.
const SELECTING_OPTIONS: [&str; 13] = [
    "--lib",
    "--bin",
    "--bins",
    "--test",
    "--doc",
    "--example",
    "--examples",
    "-p",
    "--package",
    "--manifest-path",
    "-run",
    "--run",
    "-E",
];

/// Whether `path` is a file in which the runner looks for tests by default.
pub(crate) fn is_example(runner: TestRunner, path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let extension = name.rsplit_once('.').map(|(_, extension)| extension);
    match runner {
        TestRunner::Pytest | TestRunner::Unittest => {
            extension == Some("py") && name.starts_with("test")
        }
        TestRunner::Go => name.ends_with("_test.go"),
        TestRunner::Bats => extension == Some("bats"),
        TestRunner::Cargo | TestRunner::Nextest => name == "Cargo.toml",
        TestRunner::Jest
        | TestRunner::Vitest
        | TestRunner::Mocha
        | TestRunner::Ava
        | TestRunner::NodeTest => script_name(runner, path, "").is_some(),
    }
}

/// The name of a script with this mark that the runner collects, as it collects the one at `path`.
fn script_name(runner: TestRunner, path: &str, mark: &str) -> Option<String> {
    let (stem, extension) = path.rsplit('/').next()?.rsplit_once('.')?;
    let is_node_name =
        runner == TestRunner::NodeTest && (stem == "test" || stem.starts_with("test-"));
    match script_suffix(path) {
        Some(suffix) => Some(format!("{mark}{suffix}")),
        None if is_node_name => Some(format!("test-{mark}.{extension}")),
        None => None,
    }
}

/// The end of a script's name that makes runners collect it: `.test.js`, or `.js` in a directory for tests.
fn script_suffix(path: &str) -> Option<&str> {
    let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
    let (stem, extension) = name.rsplit_once('.')?;
    if !matches!(extension, "js" | "jsx" | "mjs" | "cjs" | "ts" | "tsx" | "mts" | "cts") {
        return None;
    }
    for word in [".test", ".spec", "-test", "_test"] {
        if stem.ends_with(word) {
            return name.get(stem.len() - word.len()..);
        }
    }
    let is_test_directory =
        directory.split('/').any(|part| matches!(part, "test" | "tests" | "__tests__" | "spec"));
    let is_support = stem.starts_with('.') || matches!(stem, "index" | "setup" | "helpers");
    (is_test_directory && !is_support).then(|| name.get(stem.len()..)).flatten()
}

/// The canary for a gate; `None` if it is not known where the runner would find one. `nonce` makes its name
/// unpredictable.
pub(crate) fn plan_canary(
    gate: &Gate,
    runner: TestRunner,
    example: ExampleTest<'_>,
    nonce: u64,
) -> Option<Canary> {
    let mark = match runner {
        // Go runs functions whose names continue with a capital letter.
        TestRunner::Go => format!("ZZ{nonce:016X}"),
        TestRunner::Pytest
        | TestRunner::Unittest
        | TestRunner::Cargo
        | TestRunner::Nextest
        | TestRunner::Jest
        | TestRunner::Vitest
        | TestRunner::Mocha
        | TestRunner::Ava
        | TestRunner::NodeTest
        | TestRunner::Bats => format!("zz{nonce:016x}"),
    };
    if runs_selected_tests(gate, runner) {
        return None;
    }
    let (file, content) = match runner {
        TestRunner::Pytest => pytest_canary(&mark),
        TestRunner::Unittest => unittest_canary(&mark),
        TestRunner::Cargo | TestRunner::Nextest => cargo_canary(gate, example.text, &mark)?,
        TestRunner::Go => go_canary(gate, example.text, &mark)?,
        TestRunner::Bats => (format!("{mark}.bats"), format!("@test \"{mark}\" {{\n  false\n}}\n")),
        TestRunner::Jest => script_canary("", "test", example, &mark, runner)?,
        TestRunner::Mocha => script_canary("", "it", example, &mark, runner)?,
        TestRunner::Vitest => {
            script_canary("import { test } from \"vitest\";\n\n", "test", example, &mark, runner)?
        }
        TestRunner::Ava => {
            script_canary(&load_test("ava", example.text), "test", example, &mark, runner)?
        }
        TestRunner::NodeTest => {
            script_canary(&load_test("node:test", example.text), "test", example, &mark, runner)?
        }
    };
    let directory = example.path.rsplit_once('/').map_or("", |(directory, _)| directory);
    let path = if directory.is_empty() { file } else { format!("{directory}/{file}") };
    Some(Canary { runner, mark, path, content, after_word: None })
}

/// A function and a method of a `TestCase`, because pytest runs them by different code.
fn pytest_canary(mark: &str) -> (String, String) {
    let (name, content) = unittest_canary(mark);
    let function = format!("\n\ndef test_{mark}():\n    assert \"{mark}\" == \"\"\n");
    (name, content + &function)
}

fn unittest_canary(mark: &str) -> (String, String) {
    let content = format!(
        "import unittest\n\n\nclass Test{mark}(unittest.TestCase):\n    def test_{mark}(self):\n        self.fail(\"{mark}\")\n"
    );
    (format!("test_{mark}.py"), content)
}

fn cargo_canary(gate: &Gate, manifest: &str, mark: &str) -> Option<(String, String)> {
    let finds_tests = manifest.contains("[package]") && !manifest.contains("autotests");
    let content = format!("#[test]\nfn {mark}() {{\n    panic!(\"{mark}\");\n}}\n");
    (finds_tests && !selects_tests(gate)).then(|| (format!("tests/{mark}.rs"), content))
}

fn go_canary(gate: &Gate, example: &str, mark: &str) -> Option<(String, String)> {
    let clause = example.lines().find_map(|line| line.trim().strip_prefix("package "))?;
    let is_part = |c: &char| c.is_alphanumeric() || *c == '_';
    let package: String = clause.chars().take_while(is_part).collect();
    let content = format!(
        "package {package}\n\nimport \"testing\"\n\nfunc Test{mark}(t *testing.T) {{\n\tt.Fatal(\"{mark}\")\n}}\n"
    );
    (!selects_tests(gate)).then(|| (format!("{}_test.go", mark.to_lowercase()), content))
}

fn script_canary(
    header: &str,
    function: &str,
    example: ExampleTest<'_>,
    mark: &str,
    runner: TestRunner,
) -> Option<(String, String)> {
    let name = script_name(runner, example.path, mark)?;
    let body = format!("{function}(\"{mark}\", () => {{\n  throw new Error(\"{mark}\");\n}});\n");
    Some((name, format!("{header}{body}")))
}

/// Loads `test` from a module in the way the example loads its modules.
fn load_test(module: &str, example: &str) -> String {
    if example.contains("require(") {
        format!("const test = require(\"{module}\");\n\n")
    } else {
        format!("import test from \"{module}\";\n\n")
    }
}

fn selects_tests(gate: &Gate) -> bool {
    matches!(gate.command, GateInvocation::Shell(_))
        || has_option_after(gate, 0, &SELECTING_OPTIONS)
}

/// Whether the command runs only some tests: by name, by path, or by what failed or changed.
fn runs_selected_tests(gate: &Gate, runner: TestRunner) -> bool {
    let options: &[&str] = match runner {
        TestRunner::Pytest => &["-k", "-m", "--last-failed", "--lf"],
        TestRunner::Unittest => &["-k", "-p", "--pattern"],
        TestRunner::Jest => &[
            "-t",
            "--testNamePattern",
            "--testPathPattern",
            "--testPathPatterns",
            "-o",
            "--onlyChanged",
            "--changedSince",
        ],
        TestRunner::Vitest => &["-t", "--testNamePattern", "--changed"],
        TestRunner::Mocha => &["-g", "--grep", "-f", "--fgrep"],
        TestRunner::Ava => &["-m", "--match"],
        TestRunner::NodeTest => &["--test-name-pattern", "--test-skip-pattern", "--test-only"],
        TestRunner::Bats => &["-f", "--filter", "--filter-tags", "--filter-status"],
        TestRunner::Cargo | TestRunner::Nextest | TestRunner::Go => &[],
    };
    // `python -m pytest` is no selection.
    let skipped = match &gate.command {
        GateInvocation::Argv(words) => words
            .iter()
            .position(|word| matches!(word.as_str(), "pytest" | "unittest"))
            .map_or(0, |at| at + 1),
        GateInvocation::Shell(_) => 0,
    };
    has_option_after(gate, skipped, options)
}

fn has_option_after(gate: &Gate, skipped: usize, options: &[&str]) -> bool {
    let GateInvocation::Argv(words) = &gate.command else { return false };
    words.iter().skip(skipped).any(|word| {
        let option = word.split_once('=').map_or(word.as_str(), |(option, _)| option);
        options.contains(&option)
    })
}

/// The gate with which the canary runs: one failure must not keep the other tests from running, and a failure is
/// expected, so it is not confirmed by a second run.
pub(crate) fn gate_with_canary(gate: &Gate, canary: &Canary) -> Gate {
    let (mut gate, runner) = (gate.clone(), canary.runner);
    gate.rerun = RerunPolicy::Never;
    if let (Some(at), GateInvocation::Argv(words)) = (canary.after_word, &mut gate.command)
        && at < words.len()
    {
        let below = Path::new(&canary.path).strip_prefix(&gate.cwd);
        let below = below.ok().and_then(Path::to_str).unwrap_or(&canary.path);
        words.insert(at + 1, below.to_string());
    }
    if let (TestRunner::Cargo | TestRunner::Nextest, GateInvocation::Argv(words)) =
        (runner, &mut gate.command)
        && !words.iter().any(|word| word == "--no-fail-fast")
    {
        let at = words.iter().position(|word| word == "--").unwrap_or(words.len());
        words.insert(at, "--no-fail-fast".to_string());
    }
    gate
}

/// Removes the canary from a report, and returns what became of it. All of its tests must fail.
pub(crate) fn take_canary(report: &mut GateReport, canary: &Canary) -> CanaryResult {
    let is_canary = |name: &String| name.contains(&canary.mark);
    let mut removed = 0;
    for findings in [&mut report.findings, &mut report.more_findings] {
        let found = findings.len();
        findings.retain(|finding| {
            let place = finding.place.as_ref().map(|place| &place.file);
            let texts = [Some(&finding.message), finding.rule.as_ref(), place];
            !texts.into_iter().flatten().any(is_canary)
        });
        removed += found - findings.len();
    }
    let mut has_failed = removed > 0;
    report.finding_count =
        report.finding_count.saturating_sub(u32::try_from(removed).unwrap_or(u32::MAX));
    if let Some(cases) = &mut report.cases {
        has_failed |= cases.failed.iter().any(is_canary);
        has_failed &= !cases.passed.iter().any(is_canary);
        let mut removed = 0;
        for names in [&mut cases.passed, &mut cases.failed, &mut cases.skipped] {
            let before = names.len();
            names.retain(|name| !is_canary(name));
            removed += u32::try_from(before - names.len()).unwrap_or(u32::MAX);
        }
        if let Some(tests) = &mut report.tests {
            tests.run = tests.run.saturating_sub(removed);
        }
    }
    if has_failed { CanaryResult::Failed } else { CanaryResult::Silent }
}

/// What became of the canary of a gate that names no tests, and passes without it: it can show only in the outcome.
pub(crate) fn unnamed_canary(canary: CanaryResult, report: &GateReport) -> CanaryResult {
    match (canary, &report.outcome) {
        (CanaryResult::Silent, GateOutcome::Failed) => CanaryResult::Failed,
        (canary, _) => canary,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ralph_core::gate::GateInvocation;

    fn gate(line: &str) -> Gate {
        Gate::new("tests", GateInvocation::Argv(line.split(' ').map(ToString::to_string).collect()))
    }

    fn planned(line: &str, runner: TestRunner, path: &str, text: &str) -> String {
        let canary = plan_canary(&gate(line), runner, ExampleTest { path, text }, 0xabc);
        canary.map_or_else(|| "none".to_string(), |one| format!("{}\n{}", one.path, one.content))
    }

    #[test]
    fn a_canary_lies_beside_an_example_and_looks_like_it() {
        let rows = [
            planned("pytest", TestRunner::Pytest, "tests/unit/test_a.py", ""),
            planned("cargo test", TestRunner::Cargo, "crates/a/Cargo.toml", "[package]\n"),
            planned(
                "go test ./...",
                TestRunner::Go,
                "api/a_test.go",
                "// x\npackage api_test // y\n",
            ),
            planned("jest", TestRunner::Jest, "src/a.test.tsx", ""),
            planned("mocha", TestRunner::Mocha, "test/a.js", ""),
            planned("vitest run", TestRunner::Vitest, "a.spec.ts", ""),
            planned("node --test", TestRunner::NodeTest, "a-test.cjs", "require('node:test')"),
            planned("bats t", TestRunner::Bats, "t/a.bats", ""),
            planned("cargo test --lib", TestRunner::Cargo, "Cargo.toml", "[package]\n"),
            planned("cargo test", TestRunner::Cargo, "Cargo.toml", "[workspace]\n"),
            planned("go test -run=A ./...", TestRunner::Go, "a_test.go", "package a\n"),
            planned("jest", TestRunner::Jest, "src/a.js", ""),
        ];
        insta::assert_snapshot!(rows.join("\n"), @r#"
        tests/unit/test_zz0000000000000abc.py
        import unittest


        class Testzz0000000000000abc(unittest.TestCase):
            def test_zz0000000000000abc(self):
                self.fail("zz0000000000000abc")


        def test_zz0000000000000abc():
            assert "zz0000000000000abc" == ""

        crates/a/tests/zz0000000000000abc.rs
        #[test]
        fn zz0000000000000abc() {
            panic!("zz0000000000000abc");
        }

        api/zz0000000000000abc_test.go
        package api_test

        import "testing"

        func TestZZ0000000000000ABC(t *testing.T) {
        	t.Fatal("ZZ0000000000000ABC")
        }

        src/zz0000000000000abc.test.tsx
        test("zz0000000000000abc", () => {
          throw new Error("zz0000000000000abc");
        });

        test/zz0000000000000abc.js
        it("zz0000000000000abc", () => {
          throw new Error("zz0000000000000abc");
        });

        zz0000000000000abc.spec.ts
        import { test } from "vitest";

        test("zz0000000000000abc", () => {
          throw new Error("zz0000000000000abc");
        });

        zz0000000000000abc-test.cjs
        const test = require("node:test");

        test("zz0000000000000abc", () => {
          throw new Error("zz0000000000000abc");
        });

        t/zz0000000000000abc.bats
        @test "zz0000000000000abc" {
          false
        }

        none
        none
        none
        none
        "#);
    }

    #[test]
    fn only_files_with_tests_are_examples() {
        for (runner, path, expected) in [
            (TestRunner::Pytest, "tests/test_a.py", true),
            (TestRunner::Pytest, "tests/conftest.py", false),
            (TestRunner::Go, "a_test.go", true),
            (TestRunner::Go, "a.go", false),
            (TestRunner::Mocha, "test/index.js", false),
            (TestRunner::Mocha, "test/app.use.js", true),
            (TestRunner::Jest, "src/a.js", false),
            (TestRunner::Cargo, "Cargo.toml", true),
        ] {
            assert_eq!(is_example(runner, path), expected, "{path}");
        }
    }

    /// One failure must not hide the others, and a failure that is expected needs no second run.
    #[test]
    fn cargo_goes_on_after_the_canary() {
        for (line, expected) in [
            (
                "cargo test --workspace -- --quiet",
                "cargo test --workspace --no-fail-fast -- --quiet",
            ),
            ("cargo test --no-fail-fast", "cargo test --no-fail-fast"),
        ] {
            let example = ExampleTest { path: "Cargo.toml", text: "[package]\n" };
            let canary = plan_canary(&gate(line), TestRunner::Cargo, example, 0xabc).unwrap();
            let changed = gate_with_canary(&gate(line), &canary);
            assert_eq!(
                (changed.command_line().as_str(), changed.rerun),
                (expected, RerunPolicy::Never)
            );
        }
    }

    /// A command that names files with tests gets the canary as one more; one that selects tests by name gets none.
    #[test]
    fn the_canary_is_among_the_selected_tests() {
        let example = ExampleTest { path: "web/tests/test_a.py", text: "" };
        let line = "python -m pytest -q tests/test_a.py --strict";
        let in_web = Gate { cwd: "web".to_string(), ..gate(line) };
        let canary = plan_canary(&in_web, TestRunner::Pytest, example, 0xabc).unwrap();
        let canary = Canary { after_word: Some(4), ..canary };
        assert_eq!(
            gate_with_canary(&in_web, &canary).command_line(),
            "python -m pytest -q tests/test_a.py tests/test_zz0000000000000abc.py --strict"
        );
        for line in ["pytest -k slow", "python -m pytest -m slow"] {
            assert_eq!(plan_canary(&gate(line), TestRunner::Pytest, example, 0), None, "{line}");
        }
    }

    /// R-V1c: a harness that reports one of the canary's tests as passed cannot fail for tests of that kind.
    #[test]
    fn every_test_of_the_canary_must_fail() {
        use ralph_core::gate::GateOutcome;
        use ralph_core::test_cases::TestCases;

        let example = ExampleTest { path: "tests/test_a.py", text: "" };
        let canary = plan_canary(&gate("pytest"), TestRunner::Pytest, example, 0xabc).unwrap();
        let named = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let (method, function) =
            ("Testzz0000000000000abc > test_zz0000000000000abc", "test_zz0000000000000abc");
        for (passed, failed, expected) in [
            (&["test_a"][..], &[method, function][..], CanaryResult::Failed),
            (&["test_a", function], &[method], CanaryResult::Silent),
            (&["test_a", method], &[function], CanaryResult::Silent),
            (&["test_a"], &[], CanaryResult::Silent),
        ] {
            let mut report = GateReport::new("tests", GateOutcome::Failed, 0);
            let cases =
                TestCases { passed: named(passed), failed: named(failed), ..TestCases::default() };
            report.cases = Some(cases);
            assert_eq!(take_canary(&mut report, &canary), expected, "{passed:?} {failed:?}");
            assert_eq!(report.cases.unwrap().passed, ["test_a"]);
        }
    }

    /// R-V1c: without names, a canary is reported if the gate fails with it.
    #[test]
    fn a_gate_without_names_must_fail_with_a_canary() {
        use CanaryResult::{Failed, NotPossible, Silent};
        for (canary, outcome, expected) in [
            (Silent, GateOutcome::Failed, Failed),
            (Silent, GateOutcome::Passed, Silent),
            (Failed, GateOutcome::Failed, Failed),
            (NotPossible, GateOutcome::Passed, NotPossible),
        ] {
            let report = GateReport::new("tests", outcome, 0);
            assert_eq!(unnamed_canary(canary, &report), expected, "{canary:?}");
        }
    }
}
