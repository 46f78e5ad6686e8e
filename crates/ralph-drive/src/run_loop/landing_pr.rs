//! Landing by pull request: pushes the branch, opens the request with the report as its body and, if configured, waits
//! for its checks.

use super::landing::{kept_worktree_note, park_keeping_worktree};
use super::{DriveError, NextStep, RunLoop};
use crate::forge::{
    self, Forge, ForgeChecks, ForgeError, PullRequest, RequestBody, RequirementLine,
    RequirementMark,
};
use crate::run_event::RunEvent;
use crate::stop_requests::StopRequest;
use ralph_core::drive::RunWorktree;
use ralph_core::facts::StopDriver;
use ralph_core::status::RunStatus;
use ralph_core::text;
use ralph_core::units;
use ralph_home::goal_file::{self, GoalFileError};
use ralph_home::store::{LoadedRun, StoreError};
use ralph_hook::run_output;
use ralph_sys::clock::{self, Deadline, Stopwatch};
use ralph_sys::fs::{self, Durability, FileError};
use std::path::{Path, PathBuf};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_mins(5);
const LARGEST_GOAL: usize = 64 * 1024;
const TICK: Duration = Duration::from_millis(200);
/// Interval between queries of the forge.
const POLL_INTERVAL: Duration = Duration::from_secs(15);
/// Checks that have not started after this time are assumed not to exist.
const CHECKS_START_TIMEOUT: Duration = Duration::from_mins(2);
/// Maximum number of times that failed checks are returned to the agent.
const MOST_ROUNDS: u32 = 5;

#[derive(Debug, thiserror::Error)]
enum PullRequestError {
    #[error(transparent)]
    Forge(#[from] ForgeError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Goal(#[from] GoalFileError),
}

enum ChecksOutcome {
    Passed(String),
    Failed(String),
    Unknown(String),
    StopRequested,
}

impl RunLoop<'_, '_> {
    pub(super) fn land_pull_request(
        &mut self,
        worktree: &RunWorktree,
        commit: &str,
    ) -> Result<NextStep, DriveError> {
        let opened = match self.open_pull_request(worktree, commit) {
            Ok(opened) => opened,
            Err(error) => return Ok(park_keeping_worktree(worktree, &error)),
        };
        let (forge, url) = opened;
        let Some(most) = worktree.checks_ms else {
            self.record_settled(format!("{url} is open, on branch `{}`", worktree.branch))?;
            return self.verify_work(StopDriver::RunnerAlone);
        };
        Ok(match self.wait_for_checks(&forge, commit, Duration::from_millis(most)) {
            ChecksOutcome::Passed(what) => {
                self.record_settled(format!("{url} is open, and {what}"))?;
                self.verify_work(StopDriver::RunnerAlone)?
            }
            ChecksOutcome::Failed(what) if self.landing_rounds < MOST_ROUNDS => {
                self.landing_rounds = self.landing_rounds.saturating_add(1);
                self.record_settled(format!("{url}: {what}"))?;
                NextStep::Say(crate::session_prompts::failed_checks_message(&what))
            }
            ChecksOutcome::Failed(what) => NextStep::Park(
                RunStatus::NeedsReview,
                format!("{url}: {what}; {}", kept_worktree_note(worktree)),
            ),
            ChecksOutcome::Unknown(what) => {
                NextStep::Park(RunStatus::GateBroken, format!("{url}: {what}"))
            }
            ChecksOutcome::StopRequested => NextStep::Park(
                RunStatus::Cancelled,
                "stopped by a person while waiting for checks".to_string(),
            ),
        })
    }

    /// Pushes the branch and opens or updates the pull request.
    fn open_pull_request(
        &mut self,
        worktree: &RunWorktree,
        commit: &str,
    ) -> Result<(Forge, String), PullRequestError> {
        let deadline = Deadline::after(PATIENCE);
        let forge = forge::find_request_forge(
            Path::new(&worktree.from),
            &self.ctx.client.env,
            None,
            &deadline,
        )?;
        forge::push_branch(&forge, worktree, commit, &deadline)?;
        let (title, body) = self.write_request_body(commit)?;
        let base = worktree.into.as_deref().or(forge.default_branch.as_deref()).unwrap_or("main");
        let request = PullRequest {
            title: &title,
            body: &body,
            head: &worktree.branch,
            base,
            draft: worktree.draft,
        };
        let opened = forge::open_request(&forge, &request, &deadline)?;
        let url = opened.url().to_string();
        Ok((forge, url))
    }

    fn write_request_body(&self, commit: &str) -> Result<(String, PathBuf), PullRequestError> {
        let LoadedRun { run, state, .. } = self.ctx.load()?;
        let paths = self.ctx.home.run(&run.id);
        let goal = goal_file::read_goal(self.ctx.home, &run)?;
        let goal = String::from_utf8_lossy(goal.get(..LARGEST_GOAL).unwrap_or(&goal));
        let trail = run_output::capture_output(self.ctx.home, &run, "before the pull request");
        let met = state.report.as_ref().map(|report| report.met.as_slice()).unwrap_or_default();
        let lines: Vec<_> = met
            .iter()
            .map(|name| RequirementLine { mark: RequirementMark::Met, name, detail: "" })
            .collect();
        let outcome = format!(
            "verified: {} — {} over {}, {}, {}",
            run.title,
            text::count_noun(state.iteration, "iteration"),
            text::count_noun(state.driving.count, "session"),
            units::format_duration(state.elapsed_ms(clock::now_ms())),
            units::format_usd(state.total_spent().micro_usd)
        );
        let page = forge::render_body(&RequestBody {
            goal: &goal,
            outcome: &outcome,
            commit,
            requirements: &lines,
            commits: &trail.commits,
            files: &trail.files,
            notes: None,
            redactor: &self.ctx.redactor,
        });
        let path = paths.directory().join("request.md");
        fs::replace(&path, page.as_bytes(), Durability::Cached)?;
        Ok((run.title, path))
    }

    /// Waits for the checks of a commit, at most for `most` or until a stop request.
    fn wait_for_checks(&mut self, forge: &Forge, commit: &str, most: Duration) -> ChecksOutcome {
        let until_ms = clock::now_ms().saturating_add(u64::try_from(most.as_millis()).unwrap_or(0));
        let began = Stopwatch::start();
        let mut asked: Option<Stopwatch> = None;
        while clock::now_ms() < until_ms {
            self.ctx.watcher.tick();
            if self.ctx.stop_request() != StopRequest::None {
                return ChecksOutcome::StopRequested;
            }
            if asked.as_ref().is_some_and(|asked| asked.elapsed() < POLL_INTERVAL) {
                clock::sleep(TICK);
                continue;
            }
            asked = Some(Stopwatch::start());
            let why = match forge::read_checks(forge, commit, &Deadline::after(PATIENCE)) {
                Ok(ForgeChecks::Passed { count }) => {
                    return ChecksOutcome::Passed(format!("all its checks pass ({count})"));
                }
                Ok(ForgeChecks::Failed { failed }) => {
                    let named = failed.iter().map(|one| match &one.url {
                        Some(url) => format!("{} ({url})", one.name),
                        None => one.name.clone(),
                    });
                    let named = named.collect::<Vec<_>>().join(", ");
                    return ChecksOutcome::Failed(format!("failed checks: {named}"));
                }
                Ok(ForgeChecks::Pending { names }) => format!("checks: {}", names.join(", ")),
                Ok(ForgeChecks::None) if began.elapsed() > CHECKS_START_TIMEOUT => {
                    return ChecksOutcome::Unknown("no checks run for this commit".to_string());
                }
                Ok(ForgeChecks::None) => "waiting for checks to start".to_string(),
                Err(error) => ralph_home::faults::describe_error(&error),
            };
            self.ctx.emit(&RunEvent::Waiting { why, until_ms, attempt: 1 });
        }
        let most = units::format_duration(u64::try_from(most.as_millis()).unwrap_or(u64::MAX));
        ChecksOutcome::Unknown(format!("its checks did not finish within {most}"))
    }
}
