//! Landing: work from the run's own work tree is merged with the target branch, verified there, and only then put onto
//! the target.
//!
//! ```text
//! commit ─▶ if the target moved: verify the work alone ─ not met ─▶ the agent goes on
//!               ▼
//!     merge the target ─ conflict ─▶ Park, both are kept
//!               ▼
//!     verify the merged tree ─ not met ─▶ the agent goes on
//!               ▼
//!     land ─ the target moved ─▶ start over, a few times
//!        └─▶ verified
//! ```
//!
//! Work alone is proven against the base of the run, which no agent can replace. Merged work is proven against the
//! target, so that tests of others prove nothing about this work. Both proofs are needed: an agent can write to the
//! target branch too.

use super::report::ResumeAdvice;
use super::{DriveError, NextStep, RunLoop};
use crate::run_event::RunEvent;
use crate::stop_requests::StopRequest;
use ralph_core::drive::{LandingMode, RunWorktree, RunnerEvent};
use ralph_core::facts::StopDriver;
use ralph_core::policy::ProofMode;
use ralph_core::record::RunRecord;
use ralph_core::run::RunPhase;
use ralph_core::status::RunStatus;
use ralph_core::text;
use ralph_git::worktree::{self, LandingResult, MergeResult, RemovalResult, WorktreeError};
use ralph_sys::clock::Deadline;
use ralph_sys::fs::{self, LockError};
use std::path::Path;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_mins(10);
/// How long to wait for the landing lock. Another run holds it while its merged work is verified.
const LONGEST_LOCK_WAIT: Duration = Duration::from_hours(6);
const TICK: Duration = Duration::from_millis(200);
/// Maximum number of times the target may move during the verification.
const MOST_ROUNDS: u32 = 5;

impl RunLoop<'_, '_> {
    pub(super) fn worktree(&self) -> Option<RunWorktree> {
        self.ctx.settings.worktree.clone()
    }

    /// Merges the target into the work and verifies the result. The agent's process has exited by then.
    pub(super) fn merge_and_verify(
        &mut self,
        worktree: &RunWorktree,
    ) -> Result<NextStep, DriveError> {
        if let RunPhase::Ended(_) = self.ctx.phase()? {
            return Ok(NextStep::Over);
        }
        if self.landing_lock.is_none()
            && worktree.then == LandingMode::Merge
            && let Some(next) = self.take_landing_lock(worktree)
        {
            return Ok(next);
        }
        let is_settled = self.landing_outcome()?.is_some();
        let run = self.ctx.load()?.run;
        if !is_settled && !self.is_work_verified && needs_two_proofs(&run, worktree) {
            match self.commit_if_target_moved(worktree, &run.title) {
                Ok(false) => {}
                Ok(true) => {
                    self.is_work_verified = true;
                    self.set_proof_base(None)?;
                    return self.verify_work(StopDriver::RunnerLanding);
                }
                Err(error) => return Ok(park_keeping_worktree(worktree, &error)),
            }
        }
        match self.commit_and_merge(worktree, &run.title) {
            Ok(MergeResult::Conflict { files }) => {
                self.landing_lock = None;
                self.advice = ResumeAdvice::Resolve;
                let into = worktree.into.as_deref().unwrap_or("HEAD");
                let why = format!(
                    "it conflicts with `{into}` in {}; {}",
                    files.join(", "),
                    kept_worktree_note(worktree)
                );
                Ok(NextStep::Park(RunStatus::NeedsHuman, why))
            }
            // The commits are on the target, but this run did not land them, so the person's checkout may be behind
            // its branch.
            Ok(MergeResult::UpToDate { commit }) if commit != worktree.base && !is_settled => {
                self.landing_lock = None;
                let why = format!(
                    "its commits are already on `{}`, but ralph did not put them there; {}",
                    worktree.into.as_deref().unwrap_or("HEAD"),
                    kept_worktree_note(worktree)
                );
                Ok(NextStep::Park(RunStatus::NeedsReview, why))
            }
            Ok(MergeResult::UpToDate { commit }) => {
                self.landing_commit = Some(commit);
                self.verify_work(StopDriver::RunnerLanding)
            }
            Ok(MergeResult::FastForward { commit } | MergeResult::Clean { commit }) => {
                let merged = match self.prepare_merged_work(worktree, &commit) {
                    Ok(merged) => merged,
                    Err(error) => return Ok(park_keeping_worktree(worktree, &error)),
                };
                if self.is_work_verified {
                    self.set_proof_base(merged)?;
                }
                self.landing_commit = Some(commit);
                self.verify_work(StopDriver::RunnerLanding)
            }
            Err(error) => Ok(park_keeping_worktree(worktree, &error)),
        }
    }

    /// Commits the work if the target has moved, so that it is verified before it is merged. The files are written
    /// anew, because git can be configured to ignore changes.
    fn commit_if_target_moved(
        &self,
        worktree: &RunWorktree,
        title: &str,
    ) -> Result<bool, WorktreeError> {
        let (home, deadline) = (self.ctx.home, Deadline::after(PATIENCE));
        if !worktree::has_target_moved(home, worktree, &deadline)? {
            return Ok(false);
        }
        let commit = self.commit_work(worktree, title, &deadline)?;
        worktree::rewrite_files(home, worktree, &commit, &deadline)?;
        Ok(true)
    }

    /// Writes the files of the merged work. Returns the commit of the target that it contains.
    fn prepare_merged_work(
        &self,
        worktree: &RunWorktree,
        commit: &str,
    ) -> Result<Option<String>, WorktreeError> {
        let (home, deadline) = (self.ctx.home, Deadline::after(PATIENCE));
        worktree::rewrite_files(home, worktree, commit, &deadline)?;
        if !self.is_work_verified {
            return Ok(None);
        }
        let merged = worktree::find_merged_target(home, worktree, &deadline)?;
        Ok(merged.filter(|merged| *merged != worktree.base))
    }

    fn set_proof_base(&mut self, commit: Option<String>) -> Result<(), DriveError> {
        if self.ctx.load()?.state.driving.proof_base != commit {
            self.ctx.record(RunnerEvent::ProofBase { commit })?;
        }
        Ok(())
    }

    fn commit_work(
        &self,
        worktree: &RunWorktree,
        title: &str,
        deadline: &Deadline,
    ) -> Result<String, WorktreeError> {
        let message = format!("{title}\n\nralph run {}\n", self.ctx.run);
        let committed = worktree::commit_work(self.ctx.home, worktree, &message, deadline)?;
        Ok(committed.commit().to_string())
    }

    fn commit_and_merge(
        &self,
        worktree: &RunWorktree,
        title: &str,
    ) -> Result<MergeResult, WorktreeError> {
        let deadline = Deadline::after(PATIENCE);
        let commit = self.commit_work(worktree, title, &deadline)?;
        match worktree.then {
            LandingMode::Merge => worktree::merge_target(self.ctx.home, worktree, &deadline),
            // A pull request contains the branch alone; conflicts are resolved when it is merged.
            LandingMode::PullRequest => Ok(MergeResult::FastForward { commit }),
        }
    }

    /// Lands exactly the verified commit.
    pub(super) fn land(&mut self, commit: &str) -> Result<NextStep, DriveError> {
        let Some(worktree) = self.worktree() else {
            return self.verify_work(StopDriver::RunnerAlone);
        };
        let next = match worktree.then {
            LandingMode::Merge => self.land_merge(&worktree, commit)?,
            LandingMode::PullRequest => self.land_pull_request(&worktree, commit)?,
        };
        self.landing_lock = None;
        Ok(next)
    }

    fn land_merge(&mut self, worktree: &RunWorktree, commit: &str) -> Result<NextStep, DriveError> {
        let deadline = Deadline::after(PATIENCE);
        match worktree::land_commit(self.ctx.home, worktree, commit, &deadline) {
            Ok(LandingResult::Landed { commit }) => {
                let into = worktree.into.as_deref().unwrap_or("HEAD");
                let short = text::short_id(&commit);
                self.record_settled(format!("merged into `{into}` as {short}"))?;
                self.verify_work(StopDriver::RunnerAlone)
            }
            Ok(LandingResult::TargetMoved { .. }) if self.landing_rounds < MOST_ROUNDS => {
                self.landing_rounds = self.landing_rounds.saturating_add(1);
                self.ctx.note("the target branch moved; merging again");
                Ok(NextStep::Verify)
            }
            Ok(LandingResult::TargetMoved { .. }) => {
                let why = format!(
                    "the target branch kept moving during the verification; {}",
                    kept_worktree_note(worktree)
                );
                Ok(NextStep::Park(RunStatus::NeedsHuman, why))
            }
            Ok(LandingResult::Refused { why }) => Ok(NextStep::Park(
                RunStatus::NeedsHuman,
                format!("{why}; {}", kept_worktree_note(worktree)),
            )),
            Err(error) => Ok(park_keeping_worktree(worktree, &error)),
        }
    }

    pub(super) fn record_settled(&mut self, how: String) -> Result<(), DriveError> {
        self.ctx.note(&how);
        self.ctx.record(RunnerEvent::Settled { how })?;
        Ok(())
    }

    /// Takes the landing lock. Runs land one at a time, so that the target cannot move between verification and
    /// landing. Returns the next step if the lock cannot be had.
    fn take_landing_lock(&mut self, worktree: &RunWorktree) -> Option<NextStep> {
        let path = self.ctx.home.landing_lock(Path::new(&worktree.from));
        if let Some(parent) = path.parent()
            && let Err(error) = fs::create_private_dir(parent)
        {
            return Some(park_keeping_worktree(worktree, &error));
        }
        let deadline = Deadline::after(LONGEST_LOCK_WAIT);
        let mut is_announced = false;
        loop {
            match fs::acquire_lock(&path, &Deadline::after(TICK)) {
                Ok(lock) => {
                    self.landing_lock = Some(lock);
                    return None;
                }
                Err(LockError::Busy { .. }) if !deadline.has_passed() => {}
                Err(error) => return Some(park_keeping_worktree(worktree, &error)),
            }
            if !is_announced {
                is_announced = true;
                let text = "another run is landing; waiting for it".to_string();
                self.ctx.emit(&RunEvent::Note { text });
            }
            self.ctx.watcher.tick();
            if self.ctx.stop_request() != StopRequest::None {
                let why = "stopped by a person before it landed".to_string();
                return Some(NextStep::Park(RunStatus::Cancelled, why));
            }
        }
    }

    /// Removes the work tree once its work has landed.
    pub(super) fn remove_landed_worktree(&mut self) -> Result<(), DriveError> {
        let Some(worktree) = self.worktree().filter(|worktree| worktree.then == LandingMode::Merge)
        else {
            return Ok(());
        };
        let run = self.ctx.load()?.run;
        if !matches!(self.ctx.phase()?, RunPhase::Ended(status) if run.allows_merge(status)) {
            return Ok(());
        }
        match worktree::remove_worktree(self.ctx.home, &worktree, &Deadline::after(PATIENCE)) {
            Ok(RemovalResult::Removed) => {}
            Ok(RemovalResult::BranchKept) => {
                self.ctx.note(&format!("git kept branch `{}`", worktree.branch));
            }
            Ok(RemovalResult::Kept { why }) => {
                self.ctx.note(&format!("its work tree `{}` is kept: {why}", worktree.path));
            }
            Err(error) => self.ctx.note(&ralph_home::faults::describe_error(&error)),
        }
        Ok(())
    }
}

/// Whether work is proven once alone and once merged, if the target has moved. A pull request is merged by others.
fn needs_two_proofs(run: &RunRecord, worktree: &RunWorktree) -> bool {
    let has_proof = run
        .seal
        .as_ref()
        .is_some_and(|seal| seal.base.is_some() && seal.policy.verify.proof != ProofMode::Off);
    has_proof && worktree.then == LandingMode::Merge
}

/// Where the work is kept, and the command that shows it.
pub(super) fn kept_worktree_note(worktree: &RunWorktree) -> String {
    let kept = worktree::describe_kept(worktree);
    let look = kept.commands.get(1).map(|command| format!("; see `{command}`")).unwrap_or_default();
    format!("branch `{}` and work tree `{}` are kept{look}", kept.branch, kept.path)
}

pub(super) fn park_keeping_worktree(
    worktree: &RunWorktree,
    error: &dyn std::error::Error,
) -> NextStep {
    let said = ralph_home::faults::describe_error(error);
    NextStep::Park(RunStatus::NeedsHuman, format!("{said}; {}", kept_worktree_note(worktree)))
}
