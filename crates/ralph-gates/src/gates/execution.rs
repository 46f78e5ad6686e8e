//! Executes one gate: runs its command, reads its output and report, and judges the result. A failure of tests is
//! confirmed by a second execution.

use std::ffi::{CStr, OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ralph_core::coverage::LOW_COVERAGE_RULE;
use ralph_core::gate::{
    Gate, GateInvocation, GateOutcome, GateReport, MAX_FINDINGS, ParsedReport, ReportFormat,
    RerunPolicy, ResultStability, TOO_MANY_RULE, UnknownReason,
};

use ralph_core::requirement::Finding;
use ralph_core::test_cases::TestOutcome;

use super::report_files::{self, ReportFiles};
use super::rerun_selection::select_failed;
use super::result_key::compile_globs;
use super::{GateEvent, GateRunRequest};
use crate::ci;
use crate::findings::{
    self, FileProbe, GateJudgement, GateProcessEnd, OutputExtent, ReportContext, ReportFile,
};
use ralph_home::faults::describe_error;
use ralph_sys::clock::{self, Deadline};
use ralph_sys::env;
use ralph_sys::fs::{self, FileError, FileKind, FreshDir};
use ralph_sys::proc::job::{self, CaptureLimits, CapturedOutput, JobResult, JobSpec};

/// Between asking a gate to terminate and killing it.
const TERMINATION_GRACE: Duration = Duration::from_secs(2);
const MAX_REPORT_BYTES: usize = 64 * 1024 * 1024;
/// Size of the end of the output that is kept for error messages, and for test summaries if the log is truncated.
const OUTPUT_TAIL_BYTES: usize = 256 * 1024;
/// Placeholder in arguments for the path of the report.
const REPORT_PLACEHOLDER: &str = "{report}";
const SHELL_PROGRAM: &str = "/bin/sh";
/// Name of the shell variable that holds the path of the report.
const REPORT_VARIABLE: &str = "RALPH_REPORT";
/// Sets [`REPORT_VARIABLE`] from the first argument, before a shell line that names it. It is not exported, so the
/// tests that the line starts do not see it.
const SET_REPORT_VARIABLE: &str = "RALPH_REPORT=$1; shift; ";
const REPORT_FILE_NAME: &CStr = c"report";

/// Runs a gate. A failure of tests counts only if it occurs twice on the same tree.
pub(super) fn run_with_confirmation(
    course: &GateRunRequest<'_>,
    gate: &Gate,
    log: impl Fn(u32) -> PathBuf,
) -> GateReport {
    if let Some(query) = &gate.ci {
        return ci::run_ci_gate(course, gate, query, &log(0));
    }
    let first = run_once(course, gate, &log(0));
    let doubtful = match gate.rerun {
        RerunPolicy::Never => false,
        RerunPolicy::Always => true,
        RerunPolicy::Tests => first.tests.is_some_and(|tests| tests.failed > 0),
    };
    if first.outcome != GateOutcome::Failed || !doubtful || course.cancel.is_cancelled() {
        return first;
    }
    (course.watch)(GateEvent::Confirming(gate));
    if let Some(confirmed) = confirm_failed_tests(course, gate, &first, &log(1)) {
        return confirmed;
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

/// Runs the failed tests alone. Their failure is confirmed if one of them fails again. Otherwise the whole gate decides:
/// that they pass alone does not mean that it passes.
fn confirm_failed_tests(
    course: &GateRunRequest<'_>,
    gate: &Gate,
    first: &GateReport,
    log: &Path,
) -> Option<GateReport> {
    let directory = course.context.project.join(&gate.cwd);
    let before = first.cases.as_ref()?;
    let second = run_once(course, &select_failed(gate, before, &directory)?, log);
    let again = second.cases.as_ref()?;
    let fails_again = |test: &String| again.outcome(test) == Some(TestOutcome::Failed);
    if second.outcome != GateOutcome::Failed || !before.failed.iter().any(fails_again) {
        return None;
    }
    let cases = Some(before.clone().without_flaky(again));
    let took_ms = first.took_ms.saturating_add(second.took_ms);
    let steadiness = ResultStability::Confirmed;
    Some(GateReport { steadiness, took_ms, cases, ..first.clone() })
}

fn run_once(course: &GateRunRequest<'_>, gate: &Gate, log: &Path) -> GateReport {
    let started = clock::now_ms();
    // A new directory with an unpredictable name: no report can be there before the gate runs.
    let directory = FreshDir::create(course.context.home.scratch(clock::nonce()));
    let result = directory.and_then(|directory| {
        let report = directory.path().join(OsStr::from_bytes(REPORT_FILE_NAME.to_bytes()));
        let reports = note_report_files(course, gate);
        let finished = run_command(course, gate, log, &report);
        let files = ExecutionFiles { log, directory, reports };
        let judged = read_result(course, gate, &files, &finished)?;
        Ok((judged, finished))
    });
    match result {
        Ok((GateJudgement { outcome, report: mut reading }, finished)) => GateReport {
            // An empty log explains no share of covered lines; its files are findings.
            log: (finished.output.total > 0 || !has_low_coverage(&reading))
                .then(|| log.to_string_lossy().into_owned()),
            name: gate.name.clone(),
            outcome,
            more_findings: sort_findings(&mut reading),
            findings: reading.findings,
            finding_count: reading.finding_count,
            has_gaps: reading.has_gaps,
            tests: reading.tests,
            cases: reading.cases,
            coverage: reading.coverage,
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
        },
        Err(error) => {
            GateReport::unknown(gate, UnknownReason::Error(describe_error(&error)), started)
        }
    }
}

fn has_low_coverage(reading: &ParsedReport) -> bool {
    reading.findings.iter().any(|one| one.rule.as_deref() == Some(LOW_COVERAGE_RULE))
}

/// Sorts findings, because tools that work in parallel report them in a different order each time. Returns those that are
/// not shown.
fn sort_findings(reading: &mut ParsedReport) -> Vec<Finding> {
    let findings = &mut reading.findings;
    findings.append(&mut reading.more_findings);
    findings.sort_by(|one, other| {
        let place = |finding: &Finding| {
            let place = finding.place.as_ref();
            place.map(|place| (place.file.clone(), place.line, place.column))
        };
        let key = |finding: &Finding| {
            let conditions = [TOO_MANY_RULE, LOW_COVERAGE_RULE];
            let is_condition = finding.rule.as_deref().is_some_and(|it| conditions.contains(&it));
            let order = (!is_condition, finding.severity as u8, finding.place.is_none());
            (order, place(finding), finding.rule.clone())
        };
        key(one).cmp(&key(other)).then_with(|| one.message.cmp(&other.message))
    });
    findings.split_off(findings.len().min(MAX_FINDINGS))
}

struct ExecutionFiles<'a> {
    log: &'a Path,
    /// The directory of the report.
    directory: FreshDir,
    /// The report files of a gate that has `report_files`.
    reports: Option<io::Result<ReportFiles>>,
}

fn note_report_files(course: &GateRunRequest<'_>, gate: &Gate) -> Option<io::Result<ReportFiles>> {
    let place = &course.context;
    let directory = report_files::behind_mounts(place.project.join(&gate.cwd), place.mounts);
    let has_files = !gate.report_files.is_empty();
    has_files.then(|| ReportFiles::note_present(&directory, &gate.report_files))
}

fn run_command(course: &GateRunRequest<'_>, gate: &Gate, log: &Path, report: &Path) -> JobResult {
    let place = &course.context;
    let environment = place.gate_environment(gate);
    let secrets = place.env.secrets();
    job::run_job(&JobSpec {
        program: &env::own_executable(),
        argv: &command_argv(&gate.command, report),
        cwd: &place.project.join(&gate.cwd),
        env: &environment,
        log: Some(log),
        capture_limits: CaptureLimits { head: 0, tail: OUTPUT_TAIL_BYTES },
        secrets: &secrets,
        deadline: Deadline::after(Duration::from_millis(gate.timeout_ms)),
        grace: TERMINATION_GRACE,
        mounts: place.mounts,
        ..JobSpec::with_defaults(course.cancel)
    })
}

/// Uses a shell only if the policy has a shell command, and inserts no value into its line.
fn command_argv(command: &GateInvocation, report: &Path) -> Vec<OsString> {
    match command {
        GateInvocation::Shell(line) if has_report_placeholder(command) => {
            let line = format!("{SET_REPORT_VARIABLE}{line}");
            vec![
                SHELL_PROGRAM.into(),
                "-c".into(),
                line.into(),
                SHELL_PROGRAM.into(),
                report.into(),
            ]
        }
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
        GateInvocation::Shell(line) => line.contains(REPORT_VARIABLE),
        GateInvocation::Argv(words) => words.iter().any(|word| word.contains(REPORT_PLACEHOLDER)),
    }
}

/// The output of an execution. A log is not longer than [`MAX_REPORT_BYTES`], but the end of a longer output is kept.
#[derive(Debug, PartialEq, Eq)]
struct LoggedOutput {
    bytes: Vec<u8>,
    /// The lines at the end of `bytes`, if others before them are missing.
    end: Option<String>,
}

impl LoggedOutput {
    /// A log that is missing or unreadable counts as truncated, unless nothing was printed.
    fn read(log: &Path, captured: &CapturedOutput) -> Self {
        let mut bytes = fs::read_range(log, 0, MAX_REPORT_BYTES).unwrap_or_default();
        let tail = captured.tail.as_slice();
        let missing = captured.total.saturating_sub(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        let rest = usize::try_from(missing)
            .ok()
            .and_then(|missing| tail.get(tail.len().checked_sub(missing)?..));
        if let Some(rest) = rest {
            bytes.reserve_exact(rest.len());
            bytes.extend_from_slice(rest);
            return Self { bytes, end: None };
        }
        // The first line may be the end of one.
        let end = tail.splitn(2, |byte| *byte == b'\n').nth(1).unwrap_or_default();
        bytes.reserve_exact(end.len() + 1);
        bytes.push(b'\n');
        bytes.extend_from_slice(end);
        Self { bytes, end: Some(String::from_utf8_lossy(end).into_owned()) }
    }
}

fn read_result(
    course: &GateRunRequest<'_>,
    gate: &Gate,
    files: &ExecutionFiles<'_>,
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
    let output = LoggedOutput::read(files.log, &finished.output);
    let seen_at =
        report_files::behind_mounts(course.context.project.to_path_buf(), course.context.mounts);
    let is_file = |path: &str| {
        fs::stat_no_follow(&seen_at.join(path)).is_some_and(|stat| stat.kind == FileKind::File)
    };
    let excluded = compile_globs(&gate.coverage.exclude);
    let is_excluded = |path: &str| excluded.is_match(path);
    let context = ReportContext {
        root: course.context.project,
        cwd: &cwd,
        extent: match &output.end {
            Some(end) => OutputExtent::Truncated { end },
            None => OutputExtent::Complete,
        },
        is_file: FileProbe(&is_file),
        is_excluded: Some(FileProbe(&is_excluded)),
    };
    let written = has_report_placeholder(&gate.command)
        .then(|| files.directory.read_if_exists(REPORT_FILE_NAME, MAX_REPORT_BYTES))
        .transpose()?;
    let several = files.reports.as_ref().map(|reports| match reports {
        Ok(reports) => reports.read_written(MAX_REPORT_BYTES).map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    });
    let report = match (&written, &several) {
        (_, Some(Err(why))) => ReportFile::Unreadable(why),
        (_, Some(Ok(files))) if files.is_empty() => ReportFile::Missing,
        (_, Some(Ok(files))) => ReportFile::Several(files),
        (None, None) => ReportFile::NoReportFile,
        (Some(None), None) => ReportFile::Missing,
        (Some(Some(bytes)), None) => ReportFile::Written(bytes),
    };
    // These build the project before they test it. Without a report the build failed, and the output says why.
    let may_build =
        several.is_some() || matches!(gate.command, GateInvocation::Shell(_)) && written.is_some();
    let is_untested = matches!(report, ReportFile::Missing)
        && may_build
        && !matches!(how, GateProcessEnd::Exited(0));
    let (format, report) = if is_untested {
        (ReportFormat::Text, ReportFile::NoReportFile)
    } else {
        (gate.report, report)
    };
    let reading: ParsedReport = findings::read_execution(format, report, &output.bytes, &context);
    let tail = String::from_utf8_lossy(&finished.output.tail);
    Ok(findings::judge_gate(gate, &how, reading, &tail))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logged_output(log: Option<&str>, tail: &str, total: u64) -> LoggedOutput {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        if let Some(log) = log {
            assert!(fs::create_new(&path, log.as_bytes()).unwrap());
        }
        let captured = CapturedOutput { head: Vec::new(), tail: tail.into(), total };
        LoggedOutput::read(&path, &captured)
    }

    #[test]
    fn the_end_of_an_output_is_read_if_its_log_is_truncated() {
        for (log, tail, total, expected, end) in [
            (Some("one\ntwo\n"), "two\n", 8, "one\ntwo\n", None),
            (Some("one\nt"), "two\n", 8, "one\ntwo\n", None),
            (Some("one\n"), "two\n", 8, "one\ntwo\n", None),
            (Some("one\n"), "o\nthree\n", 14, "one\n\nthree\n", Some("three\n")),
            (Some("one\n"), "ree", 99, "one\n\n", Some("")),
            (None, "two\n", 4, "two\n", None),
            (None, "wo\n", 4, "\n", Some("")),
            (None, "", 0, "", None),
        ] {
            let expected = LoggedOutput { bytes: expected.into(), end: end.map(str::to_owned) };
            assert_eq!(logged_output(log, tail, total), expected, "{log:?} {tail:?}");
        }
    }

    /// The path of the report reaches the command as an argument, never through the environment.
    #[test]
    fn the_path_of_the_report_is_an_argument() {
        let report = Path::new("/scratch/a b/report");
        let argv = |command| command_argv(&command, report);
        let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        for (command, expected) in [
            (
                GateInvocation::Argv(vec!["pytest".into(), "--junitxml={report}".into()]),
                words(&["pytest", "--junitxml=/scratch/a b/report"]),
            ),
            (GateInvocation::Shell("make $1".into()), words(&["/bin/sh", "-c", "make $1"])),
            (
                GateInvocation::Shell("eslint > \"$RALPH_REPORT\"".into()),
                words(&[
                    "/bin/sh",
                    "-c",
                    "RALPH_REPORT=$1; shift; eslint > \"$RALPH_REPORT\"",
                    "/bin/sh",
                    "/scratch/a b/report",
                ]),
            ),
        ] {
            assert_eq!(argv(command), expected);
        }
    }

    /// R-L3f: tests can print a summary and then more than a log holds.
    #[test]
    fn a_summary_before_a_gap_is_not_a_pass() {
        let gate = Gate::new("tests", GateInvocation::Shell("run".into()));
        let start = "running 2 tests\ntest result: ok. 2 passed; 0 failed\n";
        for (report, end, expected) in [
            (ReportFormat::Text, "x\ntest result: ok. 2 passed; 0 failed\n", "passed"),
            (
                ReportFormat::Text,
                "x\ntest result: FAILED. 1 passed; 1 failed\n",
                "it exited with 0, but its output reports that 1 test failed",
            ),
            (
                ReportFormat::Text,
                "x\nx\n",
                "the output is truncated, and its end has no test summary",
            ),
            (
                ReportFormat::CargoJson,
                "x\nx\n",
                "the output is truncated, and its end has no test summary",
            ),
            (
                ReportFormat::Pytest,
                "x\nx\n",
                "the output is truncated, and its end has no test summary",
            ),
            (
                ReportFormat::GoTestJson,
                "x\n{\"Action\":\"pass\",\"Test\":\"a\"}\n",
                "the report is truncated",
            ),
        ] {
            let gate = Gate { report, ..gate.clone() };
            let output = logged_output(Some(start), end, 1_000_000);
            let end = output.end.as_deref().unwrap();
            let root = Path::new("/project");
            let context = ReportContext {
                root,
                cwd: root,
                extent: OutputExtent::Truncated { end },
                is_file: FileProbe::default(),
                is_excluded: None,
            };
            let reading =
                findings::read_execution(report, ReportFile::NoReportFile, &output.bytes, &context);
            let judged = findings::judge_gate(&gate, &GateProcessEnd::Exited(0), reading, end);
            let outcome = match judged.outcome {
                GateOutcome::Unknown(UnknownReason::Inconclusive(why)) => why,
                other @ (GateOutcome::Passed | GateOutcome::Failed | GateOutcome::Unknown(_)) => {
                    other.name().to_owned()
                }
            };
            assert_eq!(outcome, expected, "{report:?} {end}");
        }
    }
}
