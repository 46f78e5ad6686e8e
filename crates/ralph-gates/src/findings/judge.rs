//! Turns the end of a gate's process and its parsed report into an outcome. A failure is work for the agent, so a gate
//! that fails for any reason other than the work is `unknown`, and only an undoubted success is a pass.

use super::words;
use ralph_core::gate::{Command, Format, Gate, MinTests, Outcome, Reading, Unknown};
use ralph_core::requirement::{Finding, Severity};

const LONGEST_WHY: usize = 200;
/// Lines quoted from the end of an output without findings.
const LAST_LINES: usize = 4;
const LONGEST_TAIL: usize = 16 * 1024;

/// How the gate's process ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum How {
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
pub struct Judged {
    pub outcome: Outcome,
    /// The parsed report, with a finding added if the tool reported none.
    pub reading: Reading,
}

/// Judges a gate. `tail` is the end of its output, in which missing commands are found.
pub fn judge(gate: &Gate, how: &How, reading: Reading, tail: &str) -> Judged {
    let code = match how {
        How::Exited(code) => *code,
        How::Signalled(signal) => return error(&signalled(*signal), reading),
        How::TimedOut { after_ms } => {
            let outcome = Outcome::Unknown(Unknown::Timeout { after_ms: *after_ms });
            return Judged { outcome, reading };
        }
        How::Cancelled => {
            let outcome = Outcome::Unknown(Unknown::Skipped("it was cancelled".into()));
            return Judged { outcome, reading };
        }
        How::CouldNotStart(why) => {
            return error(&format!("it could not be started: {why}"), reading);
        }
    };
    if code == 0 { succeeded(gate, reading) } else { failed(gate, code, reading, tail) }
}

fn succeeded(gate: &Gate, mut reading: Reading) -> Judged {
    let failed_tests = reading.tests.map_or(0, |tests| tests.failed);
    // Output for people may quote errors; a report contains only real ones.
    let is_report = !matches!(gate.report, Format::Text | Format::None);
    let has_errors = reading.findings.iter().any(|finding| finding.severity == Severity::Error);
    if is_report && failed_tests > 0 || has_errors && (is_report || failed_tests > 0) {
        if !has_errors {
            let failed = tests(failed_tests, "failed");
            add(&mut reading, format!("it exited with 0, but reports that {failed}"));
        }
        return Judged { outcome: Outcome::Failed, reading };
    }
    if failed_tests > 0 {
        let why = format!(
            "it exited with 0, but its output reports that {}",
            tests(failed_tests, "failed")
        );
        return inconclusive(&why, reading);
    }
    if let Some(doubt) = reading.doubt.clone() {
        return inconclusive(&doubt, reading);
    }
    match (gate.min_tests, reading.tests) {
        (MinTests::AtLeast(_), None) => {
            inconclusive("a minimum number of tests is required, but none were counted", reading)
        }
        (MinTests::AtLeast(least), Some(counted)) if counted.run < least => {
            let verb = if least == 1 { "is" } else { "are" };
            add(
                &mut reading,
                format!("only {}, {least} {verb} required", tests(counted.run, "ran")),
            );
            Judged { outcome: Outcome::Failed, reading }
        }
        (MinTests::AtLeast(_) | MinTests::Some | MinTests::Baseline, _) => {
            Judged { outcome: Outcome::Passed, reading }
        }
    }
}

fn failed(gate: &Gate, code: i32, mut reading: Reading, tail: &str) -> Judged {
    let tail = &words::clean(end_of(tail));
    let has_run = reading.tests.is_some_and(|tests| tests.run > 0);
    let has_places = reading.findings.iter().any(is_about_the_work);
    if matches!(code, 126 | 127) {
        let unnamed =
            if code == 127 { "a command was not found" } else { "a command could not be executed" };
        let why = missing(tail).unwrap_or(unnamed);
        return error(&format!("exit {code}: {why}"), reading);
    }
    if !has_run
        && !has_places
        && let Some(why) = missing(tail)
    {
        return error(&format!("exit {code}: {why}"), reading);
    }
    if let Some(signal) = signal_behind(code).filter(|_| reading.findings.is_empty() && !has_run) {
        return error(&signalled(signal), reading);
    }
    if is_pytest(gate) && !has_run {
        let why = match code {
            2 => Some("pytest was interrupted"),
            3 => Some("pytest had an internal error"),
            4 => Some("pytest was called with invalid arguments"),
            5 => return inconclusive("pytest collected no tests", reading),
            _ => None,
        };
        // A finding with a location is a file of the project that pytest could not collect.
        if let Some(why) = why.filter(|_| !has_places) {
            return error(&said(&format!("exit {code}: {why}"), tail), reading);
        }
    }
    let failed_tests = reading.tests.map_or(0, |tests| tests.failed);
    let has_errors = reading.findings.iter().any(|finding| finding.severity == Severity::Error);
    if !has_errors && failed_tests == 0 {
        if let Some(doubt) = reading.doubt.clone().filter(|doubt| doubt != super::BROKEN_OFF) {
            return inconclusive(&said(&format!("exit {code}: {doubt}"), tail), reading);
        }
        if reading.findings.is_empty() {
            add(&mut reading, said(&format!("exit {code}"), tail));
        }
    }
    Judged { outcome: Outcome::Failed, reading }
}

fn error(why: &str, reading: Reading) -> Judged {
    let outcome = Outcome::Unknown(Unknown::Error(words::line(why, LONGEST_WHY)));
    Judged { outcome, reading }
}

fn inconclusive(why: &str, reading: Reading) -> Judged {
    let outcome = Outcome::Unknown(Unknown::Inconclusive(words::line(why, LONGEST_WHY)));
    Judged { outcome, reading }
}

/// Whether the finding points into a file, and not only to the place where a missing command was called.
fn is_about_the_work(finding: &Finding) -> bool {
    const MISSING: [&str; 4] =
        ["not found", "No such file or directory", "] Error 127", "] Error 126"];
    finding.place.is_some() && !MISSING.iter().any(|end| finding.message.ends_with(end))
}

fn add(reading: &mut Reading, message: String) {
    reading.findings.insert(0, Finding::new(message));
    reading.finding_count = reading.finding_count.saturating_add(1);
}

fn tests(number: u32, what: &str) -> String {
    format!("{number} {} {what}", if number == 1 { "test" } else { "tests" })
}

/// The last [`MAX_TAIL_CHARS`] of the tail.
fn end_of(tail: &str) -> &str {
    let start = tail.char_indices().rev().nth(LONGEST_TAIL).map_or(0, |(at, _)| at);
    tail.get(start..).unwrap_or_default()
}

/// Appends the last lines of the output that contain words.
fn said(what: &str, tail: &str) -> String {
    let mut last: Vec<_> = tail
        .lines()
        .rev()
        .map(str::trim)
        .filter(|line| line.contains(char::is_alphanumeric) && !is_boilerplate(line))
        .take(LAST_LINES)
        .collect();
    last.reverse();
    if last.is_empty() {
        return format!("{what}, no output");
    }
    words::line(&format!("{what}: {}", last.join(" / ")), super::LONGEST_MESSAGE)
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
fn missing(tail: &str) -> Option<&str> {
    tail.lines().rev().take(60).map(str::trim).find(|line| says_missing(line))
}

fn says_missing(line: &str) -> bool {
    const STARTS: [&str; 23] = [
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
    if STARTS.iter().any(|start| line.starts_with(start)) || is_out_of_reach(line) {
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
        _ => line.starts_with("error Command \"") && line.ends_with("not found."),
    }
}

/// npx looks up a tool that is not installed in the registry, and fails with these codes if there is no network.
fn is_out_of_reach(line: &str) -> bool {
    const CODES: [&str; 5] = ["ENOTCACHED", "ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ETIMEDOUT"];
    let code = line.strip_prefix("npm error code ").or_else(|| line.strip_prefix("npm ERR! code "));
    code.is_some_and(|code| CODES.contains(&code))
}

fn signalled(signal: i32) -> String {
    match name(signal) {
        Some(name) => format!("it was killed by signal {signal} ({name})"),
        None => format!("it was killed by signal {signal}"),
    }
}

/// A shell exits with 128 plus the signal that killed its child.
fn signal_behind(code: i32) -> Option<i32> {
    code.checked_sub(128).filter(|signal| name(*signal).is_some())
}

fn name(signal: i32) -> Option<&'static str> {
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

fn is_pytest(gate: &Gate) -> bool {
    let is_name = |word: &str| {
        let program = word.rsplit('/').next().unwrap_or_default();
        program == "pytest" || program == "py.test"
    };
    gate.report == Format::Pytest
        || match &gate.command {
            Command::Argv(words) => words.iter().any(|word| is_name(word)),
            Command::Shell(line) => line.split_whitespace().any(is_name),
        }
}

#[cfg(test)]
mod tests;
