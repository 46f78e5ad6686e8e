//! Executes one gate: runs its command, reads its output and report, and judges the result. A failure of tests is
//! confirmed by a second execution.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ralph_core::gate::{Command, Gate, GateReport, Outcome, Reading, Rerun, Steadiness, Unknown};

use ralph_core::requirement::Finding;

use super::Course;
use crate::findings::{self, Context, Extent, How, Judged, ReportFile};
use ralph_home::faults::describe;
use ralph_sys::clock::{self, Deadline};
use ralph_sys::env;
use ralph_sys::fs::{self, FileError};
use ralph_sys::proc::job::{self, Finished, Job, Keep};

/// Between asking a gate to terminate and killing it.
const GRACE: Duration = Duration::from_secs(2);
const LARGEST_REPORT: usize = 64 * 1024 * 1024;
/// Size of the end of the output that is kept for error messages.
const TAIL: usize = 16 * 1024;
/// Placeholder in arguments for the path of the report.
const REPORT: &str = "{report}";
const SHELL: &str = "/bin/sh";

/// Runs a gate. A failure of tests counts only if it occurs twice on the same tree.
pub(super) fn settled(
    course: &Course<'_>,
    gate: &Gate,
    log: impl Fn(u32) -> PathBuf,
) -> GateReport {
    let first = measured(course, gate, &log(0));
    let doubtful = match gate.rerun {
        Rerun::Never => false,
        Rerun::Always => true,
        Rerun::Tests => first.tests.is_some_and(|tests| tests.failed > 0),
    };
    if first.outcome != Outcome::Failed || !doubtful || course.cancel.is_wished() {
        return first;
    }
    let second = measured(course, gate, &log(1));
    let took_ms = first.took_ms.saturating_add(second.took_ms);
    match second.outcome {
        // The first findings are kept, because they show which tests are flaky.
        Outcome::Passed => GateReport {
            outcome: Outcome::Passed,
            exit: second.exit,
            steadiness: Steadiness::Flaky,
            took_ms,
            ..first
        },
        Outcome::Failed => GateReport { steadiness: Steadiness::Confirmed, took_ms, ..first },
        Outcome::Unknown(_) => first,
    }
}

fn measured(course: &Course<'_>, gate: &Gate, log: &Path) -> GateReport {
    let started = clock::now_ms();
    let directory = course.place.home.scratch(clock::nonce());
    let places = Places { log, report: &directory.join("report") };
    let run = fs::create_dir(&directory).map(|()| run(course, gate, &places));
    let result = run.and_then(|finished| Ok((read(course, gate, &places, &finished)?, finished)));
    drop(fs::remove_made_dir(&directory));
    match result {
        Ok((Judged { outcome, reading }, finished)) => GateReport {
            name: gate.name.clone(),
            outcome,
            findings: sorted(reading.findings),
            finding_count: reading.finding_count,
            tests: reading.tests,
            exit: match finished.how {
                job::How::Exited(code) => Some(code),
                job::How::Signalled(_)
                | job::How::TimedOut
                | job::How::Cancelled
                | job::How::CouldNotStart(_)
                | job::How::Lost => None,
            },
            steadiness: Steadiness::Once,
            took_ms: u64::try_from(finished.took.as_millis()).unwrap_or(u64::MAX),
            at_ms: started,
            log: Some(log.to_string_lossy().into_owned()),
        },
        Err(error) => GateReport::unknown(gate, Unknown::Error(describe(&error)), started),
    }
}

/// Sorts findings, because tools that work in parallel report them in a different order each time.
fn sorted(mut findings: Vec<Finding>) -> Vec<Finding> {
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

struct Places<'a> {
    log: &'a Path,
    /// In a new directory for this execution only, so that no earlier report can be there.
    report: &'a Path,
}

fn run(course: &Course<'_>, gate: &Gate, places: &Places<'_>) -> Finished {
    let place = &course.place;
    let mut environment = place.environment_of(gate);
    environment.push(("RALPH_REPORT".into(), places.report.into()));
    let secrets = place.env.secrets();
    job::supervise(&Job {
        program: &env::this_program(),
        argv: &argv(&gate.command, places.report),
        cwd: &place.project.join(&gate.cwd),
        env: &environment,
        log: Some(places.log),
        keep: Keep { head: 0, tail: TAIL },
        secrets: &secrets,
        deadline: Deadline::after(Duration::from_millis(gate.timeout_ms)),
        grace: GRACE,
        ..Job::blank(course.cancel)
    })
}

/// Uses a shell only if the policy has a shell command, and inserts nothing into its line.
fn argv(command: &Command, report: &Path) -> Vec<OsString> {
    match command {
        Command::Shell(line) => vec![SHELL.into(), "-c".into(), line.into()],
        Command::Argv(words) => words
            .iter()
            .map(|word| match word.split_once(REPORT) {
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

fn asks_for_report(command: &Command) -> bool {
    match command {
        Command::Shell(line) => line.contains("RALPH_REPORT"),
        Command::Argv(words) => words.iter().any(|word| word.contains(REPORT)),
    }
}

fn read(
    course: &Course<'_>,
    gate: &Gate,
    places: &Places<'_>,
    finished: &Finished,
) -> Result<Judged, FileError> {
    let how = match &finished.how {
        job::How::Exited(code) => How::Exited(*code),
        job::How::Signalled(signal) => How::Signalled(*signal),
        job::How::TimedOut => How::TimedOut { after_ms: gate.timeout_ms },
        job::How::Cancelled => How::Cancelled,
        job::How::CouldNotStart(error) => How::CouldNotStart(describe(error)),
        job::How::Lost => How::CouldNotStart("its supervisor was killed".to_string()),
    };
    let cwd = course.place.project.join(&gate.cwd);
    let output = fs::read_range(places.log, 0, LARGEST_REPORT).unwrap_or_default();
    let is_whole = u64::try_from(output.len()).is_ok_and(|length| length >= finished.output.total);
    let context = Context {
        root: course.place.project,
        cwd: &cwd,
        extent: if is_whole { Extent::Whole } else { Extent::CutOff },
    };
    let written = asks_for_report(&gate.command)
        .then(|| fs::read_opt(places.report, LARGEST_REPORT))
        .transpose()?;
    let report = match &written {
        None => ReportFile::NotAsked,
        Some(None) => ReportFile::Missing,
        Some(Some(bytes)) => ReportFile::There(bytes),
    };
    let reading: Reading = findings::read_run(gate.report, report, &output, &context);
    let tail = String::from_utf8_lossy(&finished.output.tail);
    Ok(findings::judge(gate, &how, reading, &tail))
}
