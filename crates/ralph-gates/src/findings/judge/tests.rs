use super::*;
use ralph_core::gate::TestCounts;
use ralph_core::requirement::FindingLocation;

fn gate(command: &str, report: ReportFormat, min_tests: MinTests) -> Gate {
    Gate { report, min_tests, ..Gate::new("tests", GateInvocation::Shell(command.into())) }
}

fn empty_report() -> ParsedReport {
    ParsedReport::default()
}

fn report_with_tests(run: u32, failed: u32) -> ParsedReport {
    ParsedReport { tests: Some(TestCounts { run, failed, skipped: 0 }), ..ParsedReport::default() }
}

fn report_with_doubt(why: &str) -> ParsedReport {
    ParsedReport { doubt: Some(why.into()), ..ParsedReport::default() }
}

fn report_with_finding(severity: FindingSeverity) -> ParsedReport {
    let mut finding = Finding::new("it is wrong".into());
    finding.severity = severity;
    finding.place = Some(FindingLocation { file: "src/a.rs".into(), line: Some(1), column: None });
    ParsedReport { findings: vec![finding], finding_count: 1, ..ParsedReport::default() }
}

fn report_with_failure() -> ParsedReport {
    ParsedReport {
        tests: report_with_tests(3, 1).tests,
        ..report_with_finding(FindingSeverity::Error)
    }
}

fn format_judgement(judged: &GateJudgement) -> String {
    let mut out = match &judged.outcome {
        GateOutcome::Passed => "passed".to_owned(),
        GateOutcome::Failed => "failed".to_owned(),
        GateOutcome::Unknown(unknown) => match unknown {
            UnknownReason::Error(why)
            | UnknownReason::Inconclusive(why)
            | UnknownReason::Unpublished(why)
            | UnknownReason::Skipped(why) => {
                format!("{}: {why}", unknown.name())
            }
            UnknownReason::NoTests(why) => format!("no tests: {why}"),
            UnknownReason::Timeout { after_ms, .. } => format!("timeout: {after_ms}"),
            UnknownReason::Untrusted => "untrusted".to_owned(),
        },
    };
    for finding in &judged.report.findings {
        out.push_str(" | ");
        out.push_str(&finding.message);
    }
    assert_eq!(judged.report.finding_count as usize, judged.report.findings.len());
    out
}

/// R-L7a: every way a gate can end maps to exactly one outcome, and only a failure is work for the agent.
#[test]
#[expect(clippy::too_many_lines, reason = "a row for every way a gate can end")]
fn every_end_has_one_outcome() {
    let exited = GateProcessEnd::Exited;
    for (how, format, reading, expected) in [
        (exited(0), ReportFormat::Text, empty_report(), "passed"),
        (exited(0), ReportFormat::Text, report_with_tests(3, 0), "passed"),
        (
            exited(0),
            ReportFormat::Junit,
            report_with_tests(3, 1),
            "failed | it exited with 0, but reports that 1 test failed",
        ),
        (
            exited(0),
            ReportFormat::Text,
            report_with_tests(3, 1),
            "inconclusive: it exited with 0, but its output reports that 1 test failed",
        ),
        (exited(0), ReportFormat::Text, report_with_failure(), "failed | it is wrong"),
        // Output for people may quote errors; a report contains only real ones.
        (
            exited(0),
            ReportFormat::Text,
            report_with_finding(FindingSeverity::Error),
            "passed | it is wrong",
        ),
        (
            exited(0),
            ReportFormat::Sarif,
            report_with_finding(FindingSeverity::Error),
            "failed | it is wrong",
        ),
        (
            exited(0),
            ReportFormat::Sarif,
            report_with_finding(FindingSeverity::Warning),
            "passed | it is wrong",
        ),
        (
            exited(0),
            ReportFormat::Junit,
            report_with_doubt("no tests ran"),
            "no tests: no tests ran",
        ),
        (
            exited(1),
            ReportFormat::Text,
            report_with_doubt("no tests were found"),
            "no tests: exit 1: no tests were found: first / second",
        ),
        (
            exited(0),
            ReportFormat::Junit,
            report_with_doubt("the report was not written"),
            "inconclusive: the report was not written",
        ),
        (
            exited(0),
            ReportFormat::Text,
            report_with_doubt(super::super::UNFINISHED_TESTS),
            "inconclusive: tests started, but no result was reported",
        ),
        (
            exited(1),
            ReportFormat::Text,
            report_with_doubt(super::super::UNFINISHED_TESTS),
            "failed | exit 1: first / second",
        ),
        (
            exited(1),
            ReportFormat::Text,
            report_with_finding(FindingSeverity::Error),
            "failed | it is wrong",
        ),
        (
            exited(1),
            ReportFormat::EslintJson,
            report_with_finding(FindingSeverity::Warning),
            "failed | it is wrong",
        ),
        (exited(1), ReportFormat::Junit, report_with_tests(3, 1), "failed"),
        (exited(1), ReportFormat::None, empty_report(), "failed | exit 1: first / second"),
        (
            exited(1),
            ReportFormat::Junit,
            report_with_doubt("the report is empty"),
            "inconclusive: exit 1: the report is empty: first / second",
        ),
        (
            exited(137),
            ReportFormat::Text,
            empty_report(),
            "error: it was killed by signal 9 (SIGKILL, often because memory ran out)",
        ),
        (exited(139), ReportFormat::Text, report_with_tests(3, 1), "failed"),
        (
            exited(139),
            ReportFormat::Text,
            report_with_finding(FindingSeverity::Error),
            "failed | it is wrong",
        ),
        (exited(200), ReportFormat::Text, empty_report(), "failed | exit 200: first / second"),
        (
            GateProcessEnd::Signalled(11),
            ReportFormat::Text,
            empty_report(),
            "error: it was killed by signal 11 (SIGSEGV)",
        ),
        (
            GateProcessEnd::Signalled(64),
            ReportFormat::Text,
            empty_report(),
            "error: it was killed by signal 64",
        ),
        (
            GateProcessEnd::TimedOut { after_ms: 5 },
            ReportFormat::Text,
            report_with_tests(3, 0),
            "timeout: 5",
        ),
        (
            GateProcessEnd::Cancelled,
            ReportFormat::Text,
            report_with_tests(3, 0),
            "skipped: it was cancelled",
        ),
        (
            GateProcessEnd::CouldNotStart("no such file".into()),
            ReportFormat::Text,
            empty_report(),
            "error: it could not be started: no such file",
        ),
    ] {
        let gate = gate("make test", format, MinTests::Some);
        let judged = judge_gate(&gate, &how, reading.clone(), "first\n\n---\nsecond\n");
        assert_eq!(format_judgement(&judged), expected, "{how:?} {format:?} {reading:?}");
    }
}

/// Launchers that create environments report a missing program in their own words.
#[test]
fn a_missing_command_of_a_launcher_is_an_error() {
    for (code, tail) in [
        (
            2,
            "Using CPython 3.11.7 interpreter at: /usr/bin/python3\nCreating virtual environment at: .venv\nerror: Failed to spawn: pytest\n  cause: No such file or directory (os error 2)",
        ),
        (
            2,
            "error: Failed to spawn: `pytest`\n  Caused by: No such file or directory (os error 2)",
        ),
        (
            1,
            "error: No solution found when resolving `--with` dependencies\n  cause: Because nonexist-x was not found in the cache and you require nonexist-x, we can conclude that your requirements are unsatisfiable.\n\nhint: Packages were unavailable because the network was disabled. When the network is disabled, registry packages may only be read from the cache.",
        ),
        (
            1,
            "nox > Running session t\nnox > Program nosuchprog not found.\nnox > Session t failed.",
        ),
        (
            2,
            "py: commands[0]> nosuchprog\npy: Exception running subprocess [Errno 2] No such file or directory: 'nosuchprog'\npy: exit 2 (0.01 seconds) /project> nosuchprog\n  py: FAIL code 2 (1.28=setup[1.27]+cmd[0.01] seconds)\n  evaluation failed :( (1.44 seconds)",
        ),
        (1, "[PdmUsageError]: Command 'pytest' is not found in your PATH."),
        (1, "error: Justfile does not contain recipe `test`."),
        (1, "mise ERROR No version is set for shim: pytest\nSet a global default version"),
        (1, "CMake Error: The source directory \"/project/x\" does not exist."),
        (
            1,
            "CMake Error at CMakeLists.txt:1 (project):\n  No CMAKE_C_COMPILER could be found.\n\n  Tell CMake where to find the compiler",
        ),
        (1, "tox: error: could not find python interpreter matching any of the specs py312"),
        (1, "py312: failed with could not find python interpreter with spec(s): py312"),
    ] {
        let gate = gate("make lint", ReportFormat::Text, MinTests::Some);
        let judged = judge_gate(&gate, &GateProcessEnd::Exited(code), empty_report(), tail);
        assert_eq!(judged.outcome.name(), "error", "{tail}: {:?}", judged.outcome);
    }
}

/// Only the file that the gate names is the program; others are imports of the work.
#[test]
fn a_missing_entry_point_is_an_error() {
    let missing = |path: &str, after: &str| {
        format!(
            "node:internal/modules/cjs/loader:1228\n  throw err;\n  ^\n\nError: Cannot find module '{path}'\n{after}    at Module._load\n  code: 'MODULE_NOT_FOUND'"
        )
    };
    let program = "/project/node_modules/mocha/bin/mocha";
    for (command, tail, expected) in [
        ("node node_modules/mocha/bin/mocha", missing(program, ""), "error"),
        ("npm test", missing(program, ""), "error"),
        ("npm test", missing(program, "Require stack:\n- /project/app.js\n"), "failed"),
        ("node ./app.js", missing("/project/app.js", ""), "error"),
        ("node app.js", missing("./cart", "Require stack:\n- /project/app.js\n"), "failed"),
        ("node app.js", missing("/project/cart.js", ""), "failed"),
        (
            "node app.js",
            missing("/project/app.js", "Require stack:\n- /project/tests/app.test.js\n"),
            "failed",
        ),
        ("deno run test.ts", "error: Module not found \"file:///x/test.ts\".".into(), "error"),
        (
            "deno run test.ts",
            "error: Module not found \"file:///x/test.ts\".\n    at file:///x/main.ts:1:8".into(),
            "failed",
        ),
        ("deno test", "error: Module not found \"file:///x/test\".".into(), "failed"),
    ] {
        let gate = gate(command, ReportFormat::Text, MinTests::Some);
        let judged = judge_gate(&gate, &GateProcessEnd::Exited(1), empty_report(), &tail);
        assert_eq!(judged.outcome.name(), expected, "{command} {tail}: {:?}", judged.outcome);
    }
}

/// R-L7c: a command that cannot be started is an error of the gate, whatever the exit code.
#[test]
fn a_missing_command_is_an_error_and_not_a_failure() {
    for (code, tail) in [
        (127, "sh: 1: eslint: not found"),
        (127, ""),
        (126, "sh: 1: ./check: Permission denied"),
        (1, "bash: line 1: eslint: command not found"),
        (127, "/usr/bin/env: ‘node’: No such file or directory"),
        (2, "make: eslint: No such file or directory\nmake: *** [Makefile:2: lint] Error 127"),
        (1, "bash: ./s: /nosuch/python: bad interpreter: No such file or directory"),
        (1, "/usr/bin/python3: No module named pytest"),
        (2, "python3: can't open file '/project/check.py': [Errno 2] No such file or directory"),
        (
            1,
            "\u{1b}[31mnpm error\u{1b}[0m Missing script: \"lint\"\nnpm error\nnpm error To see a list of scripts, run:",
        ),
        (1, "npm error could not determine executable to run"),
        (
            1,
            "npm error npx canceled due to missing packages and no YES option: [\"tsc@2.0.4\"]\nnpm error A complete log of this run can be found in: /home/u/.npm/_logs/a.log",
        ),
        (
            1,
            "npm error code ENOTCACHED\nnpm error request to https://registry.npmjs.org/tsc failed",
        ),
        (1, "npm ERR! code EAI_AGAIN\nnpm ERR! syscall getaddrinfo"),
        (1, "npm error code E404\nnpm error 404 Not Found - GET https://registry.npmjs.org/nosuch"),
        (
            101,
            "error: no such command: `nextest`\n\nhelp: view all installed commands with `cargo --list`",
        ),
        (1, "error: 'cargo-clippy' is not installed for the toolchain '1.95.0'"),
        (1, "error: toolchain 'nightly' is not installed"),
        (
            1,
            "error: rustup could not choose a version of cargo-clippy to run, because one wasn't specified explicitly, and no default is configured.\nhelp: run 'rustup default stable'",
        ),
        (
            1,
            "\nERROR: JAVA_HOME is not set and no 'java' command could be found in your PATH.\n\nPlease set the JAVA_HOME variable",
        ),
        (
            1,
            "The JAVA_HOME environment variable is not defined correctly,\nthis environment variable is needed to run this program.",
        ),
        (1, "error Command \"lint\" not found."),
        (2, "make: *** [Makefile:2: lint] Error 127"),
        (1, "exec: \"golangci-lint\": executable file not found in $PATH"),
        (2, "make: *** No rule to make target 'lint'.  Stop."),
    ] {
        let gate = gate("make lint", ReportFormat::Text, MinTests::Some);
        let judged = judge_gate(&gate, &GateProcessEnd::Exited(code), empty_report(), tail);
        assert_eq!(judged.outcome.name(), "error", "{tail}: {:?}", judged.outcome);
    }
    // The project's own tests may print the same.
    for (reading, tail) in [
        (report_with_tests(5, 1), "sh: 1: eslint: not found"),
        (
            report_with_finding(FindingSeverity::Error),
            "sh: 1: husky: not found\nsrc/a.rs:1: it is wrong",
        ),
        (empty_report(), "ModuleNotFoundError: No module named 'shop.cart'"),
        (empty_report(), "Error: ENOENT: no such file or directory, open 'x'"),
        (empty_report(), "npm error code 1\nnpm error path /project"),
    ] {
        let gate = gate("npm test", ReportFormat::Text, MinTests::Some);
        let judged = judge_gate(&gate, &GateProcessEnd::Exited(1), reading, tail);
        assert_eq!(judged.outcome, GateOutcome::Failed, "{tail}");
    }
}

/// R-L3f: too few tests are a failure; no tests at all are no result.
#[test]
fn the_number_of_tests_counts() {
    for (least, reading, expected) in [
        (10, report_with_tests(10, 0), "passed"),
        (10, report_with_tests(3, 0), "failed | only 3 tests ran, 10 are required"),
        (2, report_with_tests(1, 0), "failed | only 1 test ran, 2 are required"),
        (
            10,
            empty_report(),
            "inconclusive: a minimum number of tests is required, but none were counted",
        ),
        (10, report_with_doubt("no tests ran"), "no tests: no tests ran"),
    ] {
        let gate = gate("npm test", ReportFormat::Text, MinTests::AtLeast(least));
        let judged = judge_gate(&gate, &GateProcessEnd::Exited(0), reading, "");
        assert_eq!(format_judgement(&judged), expected);
    }
}

#[test]
fn the_exit_code_of_pytest_distinguishes_failures_from_errors() {
    for (code, reading, expected) in [
        (1, report_with_tests(3, 1), "failed"),
        (2, empty_report(), "error: exit 2: pytest was interrupted: last line"),
        (2, report_with_finding(FindingSeverity::Error), "failed | it is wrong"),
        (3, empty_report(), "error: exit 3: pytest had an internal error: last line"),
        (
            4,
            report_with_doubt("no tests ran"),
            "error: exit 4: pytest was called with invalid arguments: last line",
        ),
        (4, report_with_finding(FindingSeverity::Error), "failed | it is wrong"),
        (5, empty_report(), "no tests: pytest collected no tests"),
    ] {
        let gate = gate("python -m pytest -q", ReportFormat::Text, MinTests::Some);
        let judged = judge_gate(&gate, &GateProcessEnd::Exited(code), reading, "last line");
        assert_eq!(format_judgement(&judged), expected, "{code}");
    }
}
