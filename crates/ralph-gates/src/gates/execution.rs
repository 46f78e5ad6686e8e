//! Executes one gate: runs its command, reads its output and report, and judges the result. A failure of tests is
//! confirmed by a second execution.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ralph_core::gate::{
    Gate, GateInvocation, GateOutcome, GateReport, ParsedReport, RerunPolicy, ResultStability,
    UnknownReason,
};

use ralph_core::requirement::Finding;

use super::GateRunRequest;
use crate::findings::{
    self, GateJudgement, GateProcessEnd, OutputExtent, ReportContext, ReportFile,
};
use ralph_home::faults::describe_error;
use ralph_sys::clock::{self, Deadline};
use ralph_sys::env;
use ralph_sys::fs::{self, FileError};
use ralph_sys::proc::job::{self, CaptureLimits, JobResult, JobSpec};

/// Between asking a gate to terminate and killing it.
const TERMINATION_GRACE: Duration = Duration::from_secs(2);
const MAX_REPORT_BYTES: usize = 64 * 1024 * 1024;
/// Size of the end of the output that is kept for error messages.
const OUTPUT_TAIL_BYTES: usize = 16 * 1024;
/// Placeholder in arguments for the path of the report.
const REPORT_PLACEHOLDER: &str = "{report}";
const SHELL_PROGRAM: &str = "/bin/sh";

/// Runs a gate. A failure of tests counts only if it occurs twice on the same tree.
pub(super) fn run_with_confirmation(
    course: &GateRunRequest<'_>,
    gate: &Gate,
    log: impl Fn(u32) -> PathBuf,
) -> GateReport {
    let first = run_once(course, gate, &log(0));
    let doubtful = match gate.rerun {
        RerunPolicy::Never => false,
        RerunPolicy::Always => true,
        RerunPolicy::Tests => first.tests.is_some_and(|tests| tests.failed > 0),
    };
    if first.outcome != GateOutcome::Failed || !doubtful || course.cancel.is_cancelled() {
        return first;
    }
    let second = run_once(course, gate, &log(1));
    let took_ms = first.took_ms.saturating_add(second.took_ms);
    match second.outcome {
        // The first findings are kept, because they show which tests are flaky.
        GateOutcome::Passed => GateReport {
            outcome: GateOutcome::Passed,
            cases: second.cases,
            exit: second.exit,
            steadiness: ResultStability::Flaky,
            took_ms,
            ..first
        },
        GateOutcome::Failed => {
            let steadiness = ResultStability::Confirmed;
            let cases = match (first.cases, &second.cases) {
                (Some(cases), Some(second)) => Some(cases.without_flaky(second)),
                (cases, _) => cases,
            };
            GateReport { steadiness, took_ms, cases, ..first }
        }
        GateOutcome::Unknown(_) => first,
    }
}

fn run_once(course: &GateRunRequest<'_>, gate: &Gate, log: &Path) -> GateReport {
    let started = clock::now_ms();
    let directory = course.context.home.scratch(clock::nonce());
    let places = ExecutionFiles { log, report: &directory.join("report") };
    let run = fs::create_private_dir(&directory).map(|()| run_command(course, gate, &places));
    let result =
        run.and_then(|finished| Ok((read_result(course, gate, &places, &finished)?, finished)));
    drop(fs::remove_own_dir_tree(&directory));
    match result {
        Ok((GateJudgement { outcome, report: reading }, finished)) => GateReport {
            name: gate.name.clone(),
            outcome,
            findings: sort_findings(reading.findings),
            finding_count: reading.finding_count,
            tests: reading.tests,
            cases: reading.cases,
            exit: match finished.end {
                job::JobEnd::Exited(code) => Some(code),
                job::JobEnd::Signalled(_)
                | job::JobEnd::TimedOut
                | job::JobEnd::Cancelled
                | job::JobEnd::CouldNotStart(_)
                | job::JobEnd::Lost => None,
            },
            steadiness: ResultStability::Once,
            took_ms: u64::try_from(finished.took.as_millis()).unwrap_or(u64::MAX),
            at_ms: started,
            log: Some(log.to_string_lossy().into_owned()),
        },
        Err(error) => {
            GateReport::unknown(gate, UnknownReason::Error(describe_error(&error)), started)
        }
    }
}

/// Sorts findings, because tools that work in parallel report them in a different order each time.
fn sort_findings(mut findings: Vec<Finding>) -> Vec<Finding> {
    findings.sort_by(|one, other| {
        let place = |finding: &Finding| {
            let place = finding.place.as_ref();
            place.map(|place| (place.file.clone(), place.line, place.column))
        };
        let key = |finding: &Finding| {
            (finding.severity as u8, finding.place.is_none(), place(finding), finding.rule.clone())
        };
        key(one).cmp(&key(other)).then_with(|| one.message.cmp(&other.message))
    });
    findings
}

struct ExecutionFiles<'a> {
    log: &'a Path,
    /// In a new directory for this execution only, so that no earlier report can be there.
    report: &'a Path,
}

fn run_command(course: &GateRunRequest<'_>, gate: &Gate, places: &ExecutionFiles<'_>) -> JobResult {
    let place = &course.context;
    let mut environment = place.gate_environment(gate);
    environment.push(("RALPH_REPORT".into(), places.report.into()));
    let secrets = place.env.secrets();
    job::run_job(&JobSpec {
        program: &env::own_executable(),
        argv: &command_argv(&gate.command, places.report),
        cwd: &place.project.join(&gate.cwd),
        env: &environment,
        log: Some(places.log),
        capture_limits: CaptureLimits { head: 0, tail: OUTPUT_TAIL_BYTES },
        secrets: &secrets,
        deadline: Deadline::after(Duration::from_millis(gate.timeout_ms)),
        grace: TERMINATION_GRACE,
        ..JobSpec::with_defaults(course.cancel)
    })
}

/// Uses a shell only if the policy has a shell command, and inserts nothing into its line.
fn command_argv(command: &GateInvocation, report: &Path) -> Vec<OsString> {
    match command {
        GateInvocation::Shell(line) => vec![SHELL_PROGRAM.into(), "-c".into(), line.into()],
        GateInvocation::Argv(words) => words
            .iter()
            .map(|word| match word.split_once(REPORT_PLACEHOLDER) {
                None => word.into(),
                Some((before, after)) => {
                    let mut word = OsString::from(before);
                    word.push(report);
                    word.push(after);
                    word
                }
            })
            .collect(),
    }
}

fn has_report_placeholder(command: &GateInvocation) -> bool {
    match command {
        GateInvocation::Shell(line) => line.contains("RALPH_REPORT"),
        GateInvocation::Argv(words) => words.iter().any(|word| word.contains(REPORT_PLACEHOLDER)),
    }
}

fn read_result(
    course: &GateRunRequest<'_>,
    gate: &Gate,
    places: &ExecutionFiles<'_>,
    finished: &JobResult,
) -> Result<GateJudgement, FileError> {
    let how = match &finished.end {
        job::JobEnd::Exited(code) => GateProcessEnd::Exited(*code),
        job::JobEnd::Signalled(signal) => GateProcessEnd::Signalled(*signal),
        job::JobEnd::TimedOut => GateProcessEnd::TimedOut { after_ms: gate.timeout_ms },
        job::JobEnd::Cancelled => GateProcessEnd::Cancelled,
        job::JobEnd::CouldNotStart(error) => GateProcessEnd::CouldNotStart(describe_error(error)),
        job::JobEnd::Lost => GateProcessEnd::CouldNotStart("its supervisor was killed".to_string()),
    };
    let cwd = course.context.project.join(&gate.cwd);
    // A log that is missing or unreadable counts as truncated, unless nothing was printed.
    let output = fs::read_range(places.log, 0, MAX_REPORT_BYTES).unwrap_or_default();
    let is_whole = u64::try_from(output.len()).is_ok_and(|length| length >= finished.output.total);
    let context = ReportContext {
        root: course.context.project,
        cwd: &cwd,
        extent: if is_whole { OutputExtent::Complete } else { OutputExtent::Truncated },
    };
    let written = has_report_placeholder(&gate.command)
        .then(|| fs::read_if_exists(places.report, MAX_REPORT_BYTES))
        .transpose()?;
    let report = match &written {
        None => ReportFile::NoReportFile,
        Some(None) => ReportFile::Missing,
        Some(Some(bytes)) => ReportFile::Written(bytes),
    };
    let reading: ParsedReport = findings::read_execution(gate.report, report, &output, &context);
    let tail = String::from_utf8_lossy(&finished.output.tail);
    Ok(findings::judge_gate(gate, &how, reading, &tail))
}
