//! Tries checks on the project as it is, before any work on their goal. A check that passes already measures nothing,
//! and one that cannot run never will.

use std::ffi::OsStr;
use std::path::Path;

use ralph_core::gate::{
    Gate, GateInvocation, GateOutcome, GateReport, ResultStability, UnknownReason,
};
use ralph_core::id::RunId;
use ralph_core::policy::GateEnvironment;
use ralph_core::text;
use ralph_gates::gates::{GateResult, ResultReuse};
use ralph_git::checkpoint::{CheckpointReason, CheckpointRepository, CheckpointSnapshot};
use ralph_git::tree::{self, ListingRequest};
use ralph_home::paths::RalphHome;
use ralph_sys::clock::{self, Deadline};
use ralph_sys::env::Env;
use ralph_sys::proc::cancel::CancelToken;

use crate::checkout_run::{CheckoutTree, run_in_checkout};
use crate::file_class::ClassRules;
use crate::proof_directory::ProofDirectory;
use crate::proof_step::CHECKOUT_TIMEOUT;
use crate::prove::{ProofError, ProofRequest};

const MAX_SUMMARY_CHARS: usize = 200;
const SHELLS: [&str; 5] = ["bash", "dash", "ksh", "sh", "zsh"];
/// Parses its argument as Python and runs nothing of it.
const PYTHON_PARSER: &str = "import ast, sys; ast.parse(sys.argv[1])";

/// The result of one check before the work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckTrial {
    /// It fails, as it must. The text says how.
    Failing(String),
    /// It passes already.
    Passing,
    /// It gives no result. The text says why.
    Unrunnable(String),
}

impl CheckTrial {
    /// `failing`, `passing` or `unrunnable`.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Failing(_) => "failing",
            Self::Passing => "passing",
            Self::Unrunnable(_) => "unrunnable",
        }
    }

    /// How the check fails, or why it measures nothing.
    pub fn describe(&self) -> &str {
        match self {
            Self::Failing(text) | Self::Unrunnable(text) => text,
            Self::Passing => "passes already, so it measures nothing",
        }
    }

    pub fn is_failing(&self) -> bool {
        matches!(self, Self::Failing(_))
    }
}

/// What to try, and where.
#[derive(Clone, Copy)]
pub struct CheckTrialRequest<'a> {
    pub home: &'a RalphHome,
    pub env: &'a Env,
    pub project: &'a Path,
    pub checks: &'a [Gate],
    pub environment: &'a GateEnvironment,
    /// The `PATH` from when the user approved the policy; `None` for ralph's own.
    pub path: Option<&'a OsStr>,
    /// Directories with installed dependencies, besides the usual ones, relative to the project.
    pub links: &'a [String],
    pub rules: &'a ClassRules,
    pub cancel: &'a CancelToken,
    /// Called when a check has run.
    pub ended: &'a (dyn Fn(&GateResult) + Sync),
}

impl std::fmt::Debug for CheckTrialRequest<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CheckTrialRequest").field("checks", &self.checks).finish_non_exhaustive()
    }
}

/// Runs the checks as gates, in a checkout of the work tree, so that they change no file of the project. The results are
/// in the order of the checks.
pub fn try_checks(trial: &CheckTrialRequest<'_>) -> Result<Vec<CheckTrial>, ProofError> {
    let directory = ProofDirectory::create(trial.home, trial.env, trial.project, trial.cancel)?;
    let deadline = Deadline::after(CHECKOUT_TIMEOUT);
    let name = RunId::temporary(clock::nonce());
    let repository =
        CheckpointRepository::open_temporary(&name, directory.root(), trial.project, &deadline)?;
    let excluded = [trial.home.root().to_path_buf()];
    let listing = tree::list_work_tree(&ListingRequest {
        project: trial.project,
        exclude: &excluded,
        cache: None,
        deadline: &deadline,
    })?;
    let reason = CheckpointReason::Other("the work tree".to_string());
    let snapshot = CheckpointSnapshot { listing: &listing, excluded: &excluded, reason };
    let base = repository.capture_present(&snapshot, &deadline)?;
    let parsers: Vec<Gate> = trial.checks.iter().filter_map(syntax_check).collect();
    let gates: Vec<&Gate> = trial.checks.iter().chain(&parsers).collect();
    let reports = run_checks_at_base(
        &ProofRequest {
            home: trial.home,
            env: trial.env,
            project: trial.project,
            repository: &repository,
            base: &base,
            candidate: &base,
            gates: &gates,
            environment: trial.environment,
            path: trial.path,
            links: trial.links,
            installed: [0; 32],
            rules: trial.rules,
            may_change: &[],
            accepts_old_failures: false,
            tree_reports: &[],
            base_reports: None,
            gate_writes: &[],
            reuse: ResultReuse::Never,
            must_mount: false,
            directory: &directory,
            cancel: trial.cancel,
            watch: &|_| {},
            ended: trial.ended,
        },
        &|_| None,
    )?;
    let find = |name: &str| reports.iter().find(|report| report.name == name);
    let judge = |check: &Gate| {
        let Some(report) = find(&check.name) else {
            return CheckTrial::Unrunnable("it gave no result".to_string());
        };
        judge_trial(report, find(&syntax_name(&check.name)))
    };
    Ok(trial.checks.iter().map(judge).collect())
}

/// Runs checks at the base, together. Those without a result run again, each in a checkout of its own, because a check
/// that changes files spoils the results of all others in the same checkout.
pub fn run_checks_at_base(
    request: &ProofRequest<'_>,
    known_ms: &dyn Fn(&Gate) -> Option<u64>,
) -> Result<Vec<GateReport>, ProofError> {
    let mut reports = run_in_checkout(request, CheckoutTree::Base, known_ms)?;
    if request.gates.len() < 2 {
        return Ok(reports);
    }
    for (gate, report) in request.gates.iter().zip(&mut reports) {
        let has_no_result = matches!(
            report.outcome,
            GateOutcome::Unknown(UnknownReason::Error(_) | UnknownReason::Inconclusive(_))
        );
        if !has_no_result || request.cancel.is_cancelled() {
            continue;
        }
        let alone = ProofRequest { gates: &[gate], reuse: ResultReuse::Never, ..*request };
        let again = run_in_checkout(&alone, CheckoutTree::Base, known_ms)?;
        if let Some(again) = again.into_iter().next() {
            *report = again;
        }
    }
    Ok(reports)
}

/// Judges a check by its report and by the report of the gate that parses its script, if it has one.
pub fn judge_trial(report: &GateReport, syntax: Option<&GateReport>) -> CheckTrial {
    if let Some(syntax) = syntax.filter(|syntax| syntax.outcome == GateOutcome::Failed) {
        return CheckTrial::Unrunnable(format!("its script cannot be parsed: {}", how(syntax)));
    }
    if report.steadiness == ResultStability::Flaky {
        return CheckTrial::Unrunnable("it failed and then passed on the same files".to_string());
    }
    match &report.outcome {
        GateOutcome::Passed => CheckTrial::Passing,
        GateOutcome::Failed => CheckTrial::Failing(how(report)),
        // To write the tests is work for the agent.
        GateOutcome::Unknown(UnknownReason::NoTests(why)) => {
            CheckTrial::Failing(text::clean_line(why, MAX_SUMMARY_CHARS))
        }
        // So is a file, target or script that the check names.
        GateOutcome::Unknown(unknown) if report.lacks_named_file() => {
            CheckTrial::Failing(text::clean_line(&unknown.describe(), MAX_SUMMARY_CHARS))
        }
        GateOutcome::Unknown(unknown) => {
            CheckTrial::Unrunnable(text::clean_line(&unknown.describe(), MAX_SUMMARY_CHARS))
        }
    }
}

fn how(report: &GateReport) -> String {
    match report.all_findings().next() {
        Some(finding) => text::clean_line(&finding.message, MAX_SUMMARY_CHARS),
        None => text::clean_line(&report.summary(), MAX_SUMMARY_CHARS),
    }
}

fn syntax_name(check: &str) -> String {
    format!("{check}-syntax")
}

/// A gate that parses the script on the command line of a check and runs nothing of it. A script with a syntax error
/// fails like a step that is not done, but never passes.
fn syntax_check(check: &Gate) -> Option<Gate> {
    let words = match &check.command {
        GateInvocation::Argv(words) => words.clone(),
        GateInvocation::Shell(line) => ["sh", "-c", line].map(str::to_owned).to_vec(),
    };
    let (program, arguments) = words.split_first()?;
    let name = Path::new(program).file_name()?.to_str()?;
    let is_option = |word: &String| word.starts_with('-') && !word.starts_with("--");
    let at = arguments.iter().position(|word| is_option(word) && word.ends_with('c'))?;
    let is_first = arguments.iter().take(at).all(is_option);
    let script = arguments.get(at + 1).filter(|_| is_first)?;
    let argv: Vec<String> = if SHELLS.contains(&name) {
        [program, "-n", "-c", script].map(ToString::to_string).to_vec()
    } else if name.starts_with("python") {
        [program, "-c", PYTHON_PARSER, script].map(ToString::to_string).to_vec()
    } else {
        return None;
    };
    let command = GateInvocation::Argv(argv);
    Some(Gate { command, name: syntax_name(&check.name), ..check.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ralph_core::requirement::Finding;
    use ralph_gates::gates::testing::{sample_gate, sample_report};

    fn report(outcome: GateOutcome, message: &str) -> GateReport {
        let findings = vec![Finding::new(message.to_string())];
        GateReport { findings, ..sample_report("step-1", outcome) }
    }

    #[test]
    fn only_a_failure_measures_a_step() {
        let unknown = |reason| report(GateOutcome::Unknown(reason), "");
        let flaky =
            GateReport { steadiness: ResultStability::Flaky, ..report(GateOutcome::Passed, "") };
        let failed = report(GateOutcome::Failed, "exit 1: \u{1b}[2Jno export");
        let lacks_file = GateReport {
            exit: Some(2),
            ..unknown(UnknownReason::Error("exit 2: can't open file 'hi.py'".into()))
        };
        for (report, syntax, expected) in [
            (lacks_file, None, "failing: exit 2: can't open file 'hi.py'"),
            (failed.clone(), None, "failing: exit 1: no export"),
            (
                failed.clone(),
                Some(self::report(GateOutcome::Passed, "")),
                "failing: exit 1: no export",
            ),
            (
                failed,
                Some(self::report(GateOutcome::Failed, "unexpected end of file")),
                "unrunnable: its script cannot be parsed: unexpected end of file",
            ),
            (
                report(GateOutcome::Passed, ""),
                None,
                "passing: passes already, so it measures nothing",
            ),
            (flaky, None, "unrunnable: it failed and then passed on the same files"),
            (unknown(UnknownReason::NoTests("no tests ran".into())), None, "failing: no tests ran"),
            (
                unknown(UnknownReason::Error("exit 127: nosuch: not found".into())),
                None,
                "unrunnable: exit 127: nosuch: not found",
            ),
            (unknown(UnknownReason::timeout(2_000)), None, "unrunnable: timed out after 2 s"),
        ] {
            let judged = judge_trial(&report, syntax.as_ref());
            assert_eq!(format!("{}: {}", judged.word(), judged.describe()), expected);
        }
    }

    #[test]
    fn scripts_on_a_command_line_are_parsed_first() {
        for (argv, expected) in [
            (&["sh", "-c", "a | b"][..], "sh -n -c a | b"),
            (&["/bin/bash", "-e", "-uc", "a"], "/bin/bash -n -c a"),
            (
                &["python3", "-c", "x = 1"],
                "python3 -c import ast, sys; ast.parse(sys.argv[1]) x = 1",
            ),
            (&["sh", "check.sh", "-c", "x"], "-"),
            (&["sh", "-c"], "-"),
            (&["cargo", "test", "-c", "x"], "-"),
        ] {
            let checked = syntax_check(&sample_gate("step-1", argv));
            let words = checked.map(|gate| match gate.command {
                GateInvocation::Argv(words) => words.join(" "),
                GateInvocation::Shell(line) => line,
            });
            assert_eq!(words.as_deref().unwrap_or("-"), expected, "{argv:?}");
        }
    }
}
