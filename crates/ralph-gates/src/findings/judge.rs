//! Turns the end of a gate's process and its parsed report into an outcome. A failure is work for the agent, so a gate
//! that fails for any reason other than the work is `unknown`, and only an undoubted success is a pass.

use ralph_core::coverage::LOW_COVERAGE_RULE;
use ralph_core::gate::{
    Gate, GateInvocation, GateOutcome, MinTests, ParsedReport, ReportFormat, TOO_MANY_RULE,
    UnknownReason,
};
use ralph_core::requirement::{Finding, FindingSeverity};
use ralph_core::text;

const MAX_REASON_CHARS: usize = 200;
/// Lines quoted from the end of an output without findings.
const QUOTED_LINES: usize = 4;
const MAX_TAIL_CHARS: usize = 16 * 1024;

/// How the gate's process ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GateProcessEnd {
    Exited(i32),
    Signalled(i32),
    TimedOut {
        after_ms: u64,
    },
    /// Ralph cancelled it.
    Cancelled,
    CouldNotStart(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateJudgement {
    pub outcome: GateOutcome,
    /// The parsed report, with a finding added if the tool reported none.
    pub report: ParsedReport,
}

/// Judges a gate. `tail` is the end of its output, in which missing commands are found.
pub fn judge_gate(
    gate: &Gate,
    how: &GateProcessEnd,
    reading: ParsedReport,
    tail: &str,
) -> GateJudgement {
    let code = match how {
        GateProcessEnd::Exited(code) => *code,
        GateProcessEnd::Signalled(signal) => {
            return error_outcome(&describe_signal(*signal), reading);
        }
        GateProcessEnd::TimedOut { after_ms } => {
            let outcome = GateOutcome::Unknown(UnknownReason::timeout(*after_ms));
            return GateJudgement { outcome, report: reading };
        }
        GateProcessEnd::Cancelled => {
            let outcome = GateOutcome::Unknown(UnknownReason::Skipped("it was cancelled".into()));
            return GateJudgement { outcome, report: reading };
        }
        GateProcessEnd::CouldNotStart(why) => {
            return error_outcome(&format!("it could not be started: {why}"), reading);
        }
    };
    if code == 0 { judge_success(gate, reading) } else { judge_failure(gate, code, reading, tail) }
}

fn judge_success(gate: &Gate, mut reading: ParsedReport) -> GateJudgement {
    let failed_tests = reading.tests.map_or(0, |tests| tests.failed);
    // Output for people may quote errors; a report contains only real ones.
    let is_report = !matches!(gate.report, ReportFormat::Text | ReportFormat::None)
        && !gate.report.measures_coverage();
    if !gate.limits.is_empty() {
        return judge_by_limits(gate, reading);
    }
    let has_errors =
        reading.findings.iter().any(|finding| finding.severity == FindingSeverity::Error);
    if is_report && failed_tests > 0 || has_errors && (is_report || failed_tests > 0) {
        if !has_errors {
            let failed = format_test_count(failed_tests, "failed");
            prepend_finding(&mut reading, format!("it exited with 0, but reports that {failed}"));
        }
        return GateJudgement { outcome: GateOutcome::Failed, report: reading };
    }
    if failed_tests > 0 {
        let why = format!(
            "it exited with 0, but its output reports that {}",
            format_test_count(failed_tests, "failed")
        );
        return inconclusive_outcome(&why, reading);
    }
    if let Some(doubt) = reading.doubt.clone() {
        return doubtful_outcome(&doubt, &doubt, reading);
    }
    match (gate.min_tests, reading.tests) {
        (MinTests::AtLeast(_), None) => inconclusive_outcome(
            "a minimum number of tests is required, but none were counted",
            reading,
        ),
        (MinTests::AtLeast(least), Some(counted)) if counted.run < least => {
            let verb = if least == 1 { "is" } else { "are" };
            prepend_finding(
                &mut reading,
                format!("only {}, {least} {verb} required", format_test_count(counted.run, "ran")),
            );
            GateJudgement { outcome: GateOutcome::Failed, report: reading }
        }
        (MinTests::AtLeast(_) | MinTests::Some | MinTests::Baseline, _) => {
            judge_coverage(gate, reading)
        }
    }
}

/// A report may have as many findings of each severity as the policy allows.
fn judge_by_limits(gate: &Gate, mut reading: ParsedReport) -> GateJudgement {
    if !gate.report.has_severities() {
        let why = "its report has no severities, so its findings cannot be limited";
        return inconclusive_outcome(why, reading);
    }
    let exceeded = gate.limits.exceeded(&reading.severities);
    if !exceeded.is_empty() {
        for what in exceeded.into_iter().rev() {
            prepend_condition(&mut reading, TOO_MANY_RULE, what);
        }
        return GateJudgement { outcome: GateOutcome::Failed, report: reading };
    }
    if let Some(doubt) = reading.doubt.clone() {
        return doubtful_outcome(&doubt, &doubt, reading);
    }
    if reading.has_gaps {
        let why = "the output is truncated, and the findings in the rest of it are not known";
        return inconclusive_outcome(why, reading);
    }
    GateJudgement { outcome: GateOutcome::Passed, report: reading }
}

/// Compares the coverage with the least that the policy asks for. The comparisons with the base are made elsewhere.
fn judge_coverage(gate: &Gate, mut reading: ParsedReport) -> GateJudgement {
    let measured = reading.coverage.as_ref().map(|coverage| coverage.count());
    match (measured, gate.coverage.min) {
        (None, _) if !gate.coverage.is_empty() => {
            inconclusive_outcome("its report does not measure coverage", reading)
        }
        (Some(count), Some(least)) if !count.reaches(least) => {
            let what =
                format!("coverage is {}, {} is required", count.describe(), least.describe());
            let missed = reading.coverage.as_ref().map(|coverage| coverage.least_covered());
            for finding in missed.into_iter().flatten() {
                reading.findings.push(finding);
                reading.finding_count = reading.finding_count.saturating_add(1);
            }
            prepend_condition(&mut reading, LOW_COVERAGE_RULE, what);
            GateJudgement { outcome: GateOutcome::Failed, report: reading }
        }
        (Some(_) | None, _) => GateJudgement { outcome: GateOutcome::Passed, report: reading },
    }
}

fn judge_failure(gate: &Gate, code: i32, mut reading: ParsedReport, tail: &str) -> GateJudgement {
    // Analysers exit with 1 if they found anything. Whether that is too much is up to the limits.
    if code == 1
        && !gate.limits.is_empty()
        && gate.report.has_severities()
        && reading.doubt.is_none()
        && reading.finding_count > 0
    {
        return judge_by_limits(gate, reading);
    }
    let tail = &text::clean(last_chars(tail));
    let has_run = reading.tests.is_some_and(|tests| tests.run > 0);
    let has_places = reading.findings.iter().any(points_into_project);
    if matches!(code, 126 | 127) {
        let unnamed =
            if code == 127 { "a command was not found" } else { "a command could not be executed" };
        let why = find_missing_command(tail).unwrap_or(unnamed);
        return error_outcome(&format!("exit {code}: {why}"), reading);
    }
    if !has_run
        && !has_places
        && let Some(why) =
            find_missing_command(tail).or_else(|| find_missing_entry(&gate.command, tail))
    {
        return error_outcome(&format!("exit {code}: {why}"), reading);
    }
    if let Some(signal) =
        signal_from_exit_code(code).filter(|_| reading.findings.is_empty() && !has_run)
    {
        return error_outcome(&describe_signal(signal), reading);
    }
    if runs_pytest(gate) && !has_run {
        let why = match code {
            2 => Some("pytest was interrupted"),
            3 => Some("pytest had an internal error"),
            4 => Some("pytest was called with invalid arguments"),
            5 => return no_tests_outcome("pytest collected no tests", reading),
            _ => None,
        };
        // A finding with a location is a file of the project that pytest could not collect.
        if let Some(why) = why.filter(|_| !has_places) {
            return error_outcome(&with_last_lines(&format!("exit {code}: {why}"), tail), reading);
        }
    }
    let failed_tests = reading.tests.map_or(0, |tests| tests.failed);
    let has_errors =
        reading.findings.iter().any(|finding| finding.severity == FindingSeverity::Error);
    if !has_errors && failed_tests == 0 {
        if let Some(doubt) = reading.doubt.clone().filter(|doubt| {
            ![super::UNFINISHED_TESTS, super::NO_SUMMARY_AT_END].contains(&doubt.as_str())
        }) {
            let why = with_last_lines(&format!("exit {code}: {doubt}"), tail);
            return doubtful_outcome(&doubt, &why, reading);
        }
        if reading.findings.is_empty() {
            prepend_finding(&mut reading, with_last_lines(&format!("exit {code}"), tail));
        }
    }
    GateJudgement { outcome: GateOutcome::Failed, report: reading }
}

fn error_outcome(why: &str, reading: ParsedReport) -> GateJudgement {
    let outcome =
        GateOutcome::Unknown(UnknownReason::Error(text::clean_line(why, MAX_REASON_CHARS)));
    GateJudgement { outcome, report: reading }
}

fn inconclusive_outcome(why: &str, reading: ParsedReport) -> GateJudgement {
    let outcome =
        GateOutcome::Unknown(UnknownReason::Inconclusive(text::clean_line(why, MAX_REASON_CHARS)));
    GateJudgement { outcome, report: reading }
}

fn no_tests_outcome(why: &str, reading: ParsedReport) -> GateJudgement {
    let outcome =
        GateOutcome::Unknown(UnknownReason::NoTests(text::clean_line(why, MAX_REASON_CHARS)));
    GateJudgement { outcome, report: reading }
}

fn doubtful_outcome(doubt: &str, why: &str, reading: ParsedReport) -> GateJudgement {
    if [super::NO_TESTS_RAN, super::NO_TESTS_FOUND].contains(&doubt) {
        no_tests_outcome(why, reading)
    } else {
        inconclusive_outcome(why, reading)
    }
}

/// Whether the finding points into a file, and not only to the place where a missing command was called.
fn points_into_project(finding: &Finding) -> bool {
    const MISSING: [&str; 4] =
        ["not found", "No such file or directory", "] Error 127", "] Error 126"];
    finding.place.is_some() && !MISSING.iter().any(|end| finding.message.ends_with(end))
}

fn prepend_finding(reading: &mut ParsedReport, message: String) {
    reading.findings.insert(0, Finding::new(message));
    reading.finding_count = reading.finding_count.saturating_add(1);
}

fn prepend_condition(reading: &mut ParsedReport, rule: &str, message: String) {
    let finding = Finding { rule: Some(rule.to_string()), ..Finding::new(message) };
    reading.findings.insert(0, finding);
    reading.finding_count = reading.finding_count.saturating_add(1);
}

fn format_test_count(number: u32, what: &str) -> String {
    format!("{number} {} {what}", if number == 1 { "test" } else { "tests" })
}

/// The last [`MAX_TAIL_CHARS`] of the tail.
fn last_chars(tail: &str) -> &str {
    let start = tail.char_indices().rev().nth(MAX_TAIL_CHARS).map_or(0, |(at, _)| at);
    tail.get(start..).unwrap_or_default()
}

/// Appends the last lines of the output that contain words.
fn with_last_lines(what: &str, tail: &str) -> String {
    let mut last: Vec<_> = tail
        .lines()
        .rev()
        .map(str::trim)
        .filter(|line| line.contains(char::is_alphanumeric) && !is_boilerplate(line))
        .take(QUOTED_LINES)
        .collect();
    last.reverse();
    if last.is_empty() {
        return format!("{what}, no output");
    }
    text::clean_line(&format!("{what}: {}", last.join(" / ")), super::MAX_MESSAGE_CHARS)
}

fn is_boilerplate(line: &str) -> bool {
    line.contains("A complete log of this run can be found in")
        || line.starts_with("JUNIT report written to ")
        || line.starts_with("npm error Lifecycle script")
        || line.starts_with("npm error path ")
        || line.starts_with("npm error workspace ")
        || line.starts_with("npm error location ")
        || line.starts_with("ELIFECYCLE")
}

/// The line that reports a missing command. Only complete patterns match, because a test may print `command not found`
/// about something else.
fn find_missing_command(tail: &str) -> Option<&str> {
    tail.lines().rev().take(60).map(str::trim).find(|line| is_missing_command(line))
}

/// The line in which node or Deno reports that the file which they were to run is missing. A module that the work imports
/// is named as the source names it, or with the place of the import.
fn find_missing_entry<'t>(command: &GateInvocation, tail: &'t str) -> Option<&'t str> {
    let words: Vec<&str> = match command {
        GateInvocation::Argv(words) => words.iter().map(String::as_str).collect(),
        GateInvocation::Shell(line) => line.split_whitespace().collect(),
    };
    let is_named = |path: &str| {
        let mut files = words.iter().map(|word| word.strip_prefix("./").unwrap_or(word));
        files.any(|file| {
            let is_file = file.contains(['/', '.']) && !file.starts_with('-');
            is_file && (path == file || path.ends_with(&format!("/{file}")))
        })
    };
    let lines: Vec<&str> = tail.lines().map(str::trim).collect();
    let last = lines.len().saturating_sub(60)..lines.len();
    last.rev().find_map(|at| {
        let line = lines[at];
        let quoted = |start: &str, end: char| line.strip_prefix(start)?.split(end).next();
        let node = || {
            let path = quoted("Error: Cannot find module '", '\'')?;
            let has_importer = lines[at..].iter().any(|line| line.starts_with("Require stack:"));
            Some(path).filter(|path| path.starts_with('/') && !has_importer)
        };
        let deno = || {
            let path = quoted("error: Module not found \"file://", '"')?;
            let is_import = lines.get(at + 1).is_some_and(|next| next.starts_with("at "));
            Some(path).filter(|_| !is_import)
        };
        // A script of `package.json` may start an installed program that is missing.
        let is_program = |path: &&str| is_named(path) || path.contains("/node_modules/");
        node().or_else(deno).filter(is_program).map(|_| line)
    })
}

/// How messages about a missing command begin.
const MISSING_COMMAND_STARTS: [&str; 44] = [
    "error: Failed to spawn: ",
    "error: No interpreter found for ",
    "hint: Packages were unavailable because the network was disabled",
    "[PdmException]: Command '",
    "[PdmUsageError]: Command '",
    "CMake Error: The source directory ",
    "CMake Error: CMake was unable to find a build program",
    "No CMAKE_C_COMPILER could be found",
    "No CMAKE_CXX_COMPILER could be found",
    "error: Justfile does not contain recipe",
    "error: No justfile found",
    "mise ERROR No version is set for shim",
    "mise ERROR no task ",
    "No version is set for command ",
    "Command not found: ",
    "command not found: ",
    "Error: the command ",
    "ERR_PNPM_RECURSIVE_EXEC_FIRST_FAIL",
    "ERR_PNPM_NO_IMPORTER_MANIFEST_FOUND",
    "go: cannot find main module",
    "go: no such tool ",
    "npm error Missing script:",
    "npm ERR! Missing script:",
    "npm error could not determine executable to run",
    "npm ERR! could not determine executable to run",
    "npm error npx canceled due to missing packages",
    "npm ERR! npx canceled due to missing packages",
    "npm error 404 Not Found",
    "ERR_PNPM_NO_SCRIPT",
    "error: no such command: `",
    "error: no such subcommand: `",
    "error: toolchain '",
    "error: rustup could not choose a version of ",
    "error: Script not found",
    "error: could not find `Cargo.toml` in",
    "error: linker `",
    "Usage Error: Couldn't find a script named",
    "Error: Could not find or load main class",
    "Error: Unable to access jarfile",
    "ERROR: JAVA_HOME is not set and no 'java' command could be found",
    "ERROR: JAVA_HOME is set to an invalid directory:",
    "The JAVA_HOME environment variable is not defined correctly",
    "Cannot connect to the Docker daemon",
    "make: *** No rule to make target",
];

fn is_missing_command(line: &str) -> bool {
    let ends_missing = |line: &str| {
        [
            "not found",
            "No such file or directory",
            "cannot execute: required file not found",
            "bad interpreter",
            "Permission denied",
            "cannot execute binary file: Exec format error",
        ]
        .iter()
        .any(|end| line.ends_with(end))
            || line.contains(": bad interpreter: ")
    };
    if MISSING_COMMAND_STARTS.iter().any(|start| line.starts_with(start))
        || is_registry_unreachable(line)
    {
        return true;
    }
    let head = line.split_once(": ").map_or("", |(head, _)| head);
    let program = head.rsplit('/').next().unwrap_or_default();
    match program {
        "make" | "gmake" if line.ends_with("Error 127") || line.ends_with("Error 126") => true,
        "sh" | "bash" | "dash" | "zsh" | "ash" | "env" | "make" | "xargs" | "timeout" => {
            ends_missing(line) || line.starts_with("zsh: command not found")
        }
        _ if program.starts_with("python") => {
            line.contains(": No module named ") && !line.contains('\'')
                || line.contains(": can't open file ")
        }
        "ruby" | "perl" | "node" | "deno" | "bun" => line.contains("No such file or directory"),
        "error" => {
            // rustup: `error: 'cargo-clippy' is not installed for the toolchain …`
            line.contains(" is not installed for the toolchain ")
                || line.contains("is not installed for the custom toolchain")
        }
        "exec" => line.contains("executable file not found in $PATH"),
        _ if line.contains("could not find python interpreter ") => {
            line.starts_with("tox: error: ") || line.contains(" with spec(s): ")
        }
        _ if line.starts_with("nox > Program ") => line.ends_with(" not found."),
        // tox: `py: Exception running subprocess [Errno 2] No such file or directory: 'pytest'`
        _ if line.contains(": Exception running subprocess [Errno 2] ") => true,
        _ => line.starts_with("error Command \"") && line.ends_with("not found."),
    }
}

/// npx looks up a tool that is not installed in the registry, and fails with these codes if there is no network.
fn is_registry_unreachable(line: &str) -> bool {
    const CODES: [&str; 5] = ["ENOTCACHED", "ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ETIMEDOUT"];
    let code = line.strip_prefix("npm error code ").or_else(|| line.strip_prefix("npm ERR! code "));
    code.is_some_and(|code| CODES.contains(&code))
}

fn describe_signal(signal: i32) -> String {
    match signal_name(signal) {
        Some(name) => format!("it was killed by signal {signal} ({name})"),
        None => format!("it was killed by signal {signal}"),
    }
}

/// A shell exits with 128 plus the signal that killed its child.
fn signal_from_exit_code(code: i32) -> Option<i32> {
    code.checked_sub(128).filter(|signal| signal_name(*signal).is_some())
}

fn signal_name(signal: i32) -> Option<&'static str> {
    Some(match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL, often because memory ran out",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        15 => "SIGTERM",
        24 => "SIGXCPU",
        25 => "SIGXFSZ",
        31 => "SIGSYS",
        _ => return None,
    })
}

fn runs_pytest(gate: &Gate) -> bool {
    let is_name = |word: &str| {
        let program = word.rsplit('/').next().unwrap_or_default();
        program == "pytest" || program == "py.test"
    };
    gate.report == ReportFormat::Pytest
        || match &gate.command {
            GateInvocation::Argv(words) => words.iter().any(|word| is_name(word)),
            GateInvocation::Shell(line) => line.split_whitespace().any(is_name),
        }
}

#[cfg(test)]
mod tests;
