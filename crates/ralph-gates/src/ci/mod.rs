//! Gates of `[[ci]]`: wait for the checks that a CI provider runs for the commit that is checked out.
//!
//! A pass needs an answer of the provider about exactly this commit. Everything else is a failure of a check, or no
//! result: no answer, no check, no commit, no time.

pub mod check_answers;
pub mod check_state;
mod check_verdict;
mod github_checks;
mod gitlab_checks;
mod job_findings;
mod poll_state;
mod provider_call;
mod published_commit;
mod state_document;

use std::path::Path;
use std::time::Duration;

use check_verdict::{CheckLog, CiCheck, CiVerdict, RequiredChecks, judge_checks};
use poll_state::{PollState, PollStep, join_names};
use provider_call::{ProviderSession, QueryError};
use published_commit::CandidateCommit;
use ralph_core::ci_query::{CiProvider, CiQuery};
use ralph_core::gate::{Gate, GateOutcome, GateReport, MAX_FINDINGS, UnknownReason};
use ralph_core::requirement::Finding;
use ralph_core::text;
use ralph_home::faults::describe_error;
use ralph_sys::clock::{self, Deadline, Stopwatch};
use ralph_sys::fs::{self, Durability};
use ralph_sys::proc::cancel::CancelToken;
use state_document::StateDocument;

use crate::gates::{GateContent, GateRunRequest};

const PER_PAGE: usize = 100;
/// Up to a thousand checks are read; more are an error.
const MAX_PAGES: usize = 10;
const GIT_TIMEOUT: Duration = Duration::from_mins(1);
const SLEEP_STEP: Duration = Duration::from_millis(100);
/// How many logs of failed checks are read.
const MAX_LOGS: usize = 10;
const MAX_REPORT_LOG_BYTES: usize = 2 * 1024 * 1024;

/// Reads pages of a list until one is not full.
fn read_pages<T>(
    mut read: impl FnMut(usize) -> Result<Vec<T>, QueryError>,
) -> Result<Vec<T>, QueryError> {
    let mut all = Vec::new();
    for page in 1..=MAX_PAGES {
        let found = read(page)?;
        let is_last = found.len() < PER_PAGE;
        all.extend(found);
        if is_last {
            return Ok(all);
        }
    }
    let why = format!("the commit has more than {} checks", MAX_PAGES * PER_PAGE);
    Err(QueryError::Permanent(why))
}

/// Waits for the checks of the commit that is checked out. The log lists the queries, and has the logs of failed checks.
pub(crate) fn run_ci_gate(
    course: &GateRunRequest<'_>,
    gate: &Gate,
    query: &CiQuery,
    log: &Path,
) -> GateReport {
    let started = clock::now_ms();
    let took = Stopwatch::start();
    let mut waiting = CheckWait { course, gate, query, log: String::new() };
    let result = waiting.run();
    let text = text::truncate(&waiting.log, MAX_REPORT_LOG_BYTES);
    let written = fs::replace(log, text.as_bytes(), Durability::Cached);
    let took_ms = u64::try_from(took.elapsed().as_millis()).unwrap_or(u64::MAX);
    let CiResult { outcome, mut findings } = match (written, result.outcome) {
        // A failure without its log is still a failure; a pass is not a pass without a record of it.
        (Err(error), GateOutcome::Passed) => {
            let unknown = UnknownReason::Error(describe_error(&error));
            CiResult { outcome: GateOutcome::Unknown(unknown), findings: Vec::new() }
        }
        (_, outcome) => CiResult { outcome, findings: result.findings },
    };
    let finding_count = u32::try_from(findings.len()).unwrap_or(u32::MAX);
    let more_findings = findings.split_off(findings.len().min(MAX_FINDINGS));
    GateReport {
        findings,
        more_findings,
        finding_count,
        took_ms,
        log: Some(log.to_string_lossy().into_owned()),
        ..GateReport::new(&gate.name, outcome, started)
    }
}

struct CiResult {
    outcome: GateOutcome,
    findings: Vec<Finding>,
}

struct CheckWait<'a> {
    course: &'a GateRunRequest<'a>,
    gate: &'a Gate,
    query: &'a CiQuery,
    /// Cleaned and redacted.
    log: String,
}

impl CheckWait<'_> {
    fn run(&mut self) -> CiResult {
        let deadline = Deadline::after(Duration::from_millis(self.gate.timeout_ms));
        let GateContent::Tree { exclude } = self.course.context.content else {
            let why = "a checkout without a commit has no checks".to_string();
            return self.end(UnknownReason::Inconclusive(why));
        };
        let git = Deadline::after(GIT_TIMEOUT).min(deadline);
        let commit = match published_commit::find_commit(self.course.context.project, exclude, &git)
        {
            CandidateCommit::Known(commit) => commit,
            CandidateCommit::Uncommitted(why) => return self.end(UnknownReason::Unpublished(why)),
            CandidateCommit::Unknown(why) => return self.end(UnknownReason::Error(why)),
        };
        let opened = ProviderSession::open(self.course, self.gate, self.query, deadline);
        let session = match opened {
            Ok(session) => session,
            Err(error) => return self.end(UnknownReason::Error(error.describe())),
        };
        self.note(&format!("commit {commit}"));
        self.wait_for_checks(&session, &commit)
    }

    fn wait_for_checks(&mut self, session: &ProviderSession<'_>, commit: &str) -> CiResult {
        let began = Stopwatch::start();
        let mut state = PollState::new(commit, self.query.poll_ms, self.query.start_ms);
        let mut marked: Option<Vec<String>> = None;
        loop {
            let (checks, answer) = match self.ask_once(session, commit, &mut marked) {
                Ok((checks, verdict)) => (checks, Ok(verdict)),
                Err(error) => (Vec::new(), Err(error)),
            };
            // A call that the end of the wait interrupts says nothing about the provider.
            if matches!(answer, Err(QueryError::Transient(_))) && session.deadline().has_passed() {
                return self.end(state.time_is_up(self.gate.timeout_ms));
            }
            match state.take_answer(answer, began.elapsed()) {
                PollStep::Passed(names) => {
                    self.note(&format!("passed: {}", join_names(&names)));
                    return CiResult { outcome: GateOutcome::Passed, findings: Vec::new() };
                }
                PollStep::Failed(failed) => {
                    let failed: Vec<&CiCheck> =
                        failed.iter().filter_map(|at| checks.get(*at)).collect();
                    return self.report_failed(session, &failed);
                }
                PollStep::End(why) => return self.end(why),
                PollStep::Wait(why) => self.note(&why),
            }
            let pause = state.next_pause();
            if !sleep_until(pause, &session.deadline(), self.course.cancel) {
                return if self.course.cancel.is_cancelled() {
                    self.end(UnknownReason::Error(QueryError::Cancelled.describe()))
                } else {
                    self.end(state.time_is_up(self.gate.timeout_ms))
                };
            }
        }
    }

    fn ask_once(
        &self,
        session: &ProviderSession<'_>,
        commit: &str,
        marked: &mut Option<Vec<String>>,
    ) -> Result<(Vec<CiCheck>, CiVerdict), QueryError> {
        let checks = read_checks(session, commit)?;
        // The rules of the branch decide only if the policy names no checks, and do not change while we wait.
        let names = match marked {
            Some(names) => names,
            None => marked.insert(read_marked(session)?),
        };
        let required = RequiredChecks {
            named: &self.query.checks,
            marked: names,
            statuses: self.query.statuses,
        };
        let verdict = judge_checks(&checks, &required);
        Ok((checks, verdict))
    }

    fn report_failed(&mut self, session: &ProviderSession<'_>, failed: &[&CiCheck]) -> CiResult {
        let mut findings = Vec::new();
        for (at, check) in failed.iter().enumerate() {
            self.note(&format!("failed: {}", check.name));
            let found = if at < MAX_LOGS {
                self.check_findings(session, check)
            } else {
                job_findings::log_findings(&check.name, "", self.course.context.project)
            };
            findings.extend(found);
        }
        CiResult { outcome: GateOutcome::Failed, findings }
    }

    /// A log that cannot be read changes nothing about the failure.
    fn check_findings(&mut self, session: &ProviderSession<'_>, check: &CiCheck) -> Vec<Finding> {
        let project = self.course.context.project;
        let log = match (&check.log, &self.query.provider) {
            (CheckLog::Text(text), _) => Ok(text.as_bytes().to_vec()),
            (CheckLog::Job(id), CiProvider::Github { repo, .. }) => {
                github_checks::read_job_log(session, repo, *id)
            }
            (CheckLog::Job(id), CiProvider::Gitlab { repo, .. }) => {
                gitlab_checks::read_job_trace(session, repo, *id)
            }
            (CheckLog::CheckRun(id), CiProvider::Github { repo, .. }) => {
                return match github_checks::read_annotations(session, repo, *id) {
                    Ok(mut annotations) => {
                        for one in &mut annotations {
                            one.message = one.message.take().map(|it| session.redactor.redact(&it));
                        }
                        job_findings::annotation_findings(&check.name, &annotations)
                    }
                    Err(error) => {
                        self.note(&format!("no annotations: {}", error.describe()));
                        job_findings::annotation_findings(&check.name, &[])
                    }
                };
            }
            (CheckLog::None | CheckLog::Job(_) | CheckLog::CheckRun(_), _) => Ok(Vec::new()),
        };
        let log = match log {
            Ok(bytes) => session.redactor.redact(&job_findings::plain_log(&bytes)),
            Err(error) => {
                self.note(&format!("no log: {}", error.describe()));
                String::new()
            }
        };
        for line in log.lines() {
            self.log.push_str(&format!("  {line}\n"));
        }
        job_findings::log_findings(&check.name, &log, project)
    }

    fn end(&mut self, why: UnknownReason) -> CiResult {
        self.note(&why.describe());
        CiResult { outcome: GateOutcome::Unknown(why), findings: Vec::new() }
    }

    /// Adds a line of our own to the log.
    fn note(&mut self, what: &str) {
        let line = format!("{} {what}\n", clock::format_rfc3339(clock::now_ms()));
        self.log.push_str(&line);
    }
}

fn read_checks(session: &ProviderSession<'_>, commit: &str) -> Result<Vec<CiCheck>, QueryError> {
    match &session.query.provider {
        CiProvider::Github { repo, .. } => {
            let read = github_checks::read_github_checks(session, repo, commit);
            if let Err(QueryError::NotFound(_)) = &read {
                github_checks::can_read_repository(session, repo)?;
            }
            read
        }
        CiProvider::Gitlab { repo, .. } => {
            let read = gitlab_checks::read_gitlab_checks(session, repo, commit);
            if let Err(QueryError::NotFound(_)) = &read {
                gitlab_checks::can_read_project(session, repo)?;
            }
            read
        }
        CiProvider::Command => session.read_command::<StateDocument>(commit)?.into_checks(commit),
        CiProvider::Http { url } => {
            session.read_url::<StateDocument>(url, commit)?.into_checks(commit)
        }
    }
}

/// The names that the provider marks as required, if the policy names none.
fn read_marked(session: &ProviderSession<'_>) -> Result<Vec<String>, QueryError> {
    match &session.query.provider {
        CiProvider::Github { repo, .. } if session.query.checks.is_empty() => {
            github_checks::read_required_checks(session, repo, &session.query.branch)
        }
        // GitLab marks each job instead, and so does a document.
        CiProvider::Github { .. }
        | CiProvider::Gitlab { .. }
        | CiProvider::Command
        | CiProvider::Http { .. } => Ok(Vec::new()),
    }
}

/// Sleeps for `pause`. Returns false if the deadline passes before it, or the wait is cancelled.
fn sleep_until(pause: Duration, deadline: &Deadline, cancel: &CancelToken) -> bool {
    let wake = Deadline::after(pause);
    while !wake.has_passed() {
        if cancel.is_cancelled() || deadline.has_passed() {
            return false;
        }
        clock::sleep(wake.remaining().min(SLEEP_STEP));
    }
    !deadline.has_passed()
}
