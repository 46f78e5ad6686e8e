//! Landing: work from the run's own work tree is merged with the target branch, verified there, and only then put onto
//! the target.
//!
//! ```text
//! commit ─▶ merge the target ─ conflict ─▶ Park, both are kept
//!               ▼
//!     verify the merged tree ─ not met ─▶ the agent goes on
//!               ▼
//!     land ─ the target moved ─▶ start over, a few times
//!        └─▶ verified
//! ```

use super::report::Advice;
use super::{DriveError, Next, Night};
use crate::told::Told;
use crate::wishes::Wish;
use ralph_core::drive::{Drove, Then, Worktree};
use ralph_core::facts::Driver;
use ralph_core::run::Phase;
use ralph_core::status::Status;
use ralph_git::worktree::{self, Landed, Merged, Removed, WorktreeError};
use ralph_sys::clock::Deadline;
use ralph_sys::fs::{self, LockError};
use std::path::Path;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_mins(10);
/// How long to wait for the landing lock. Another run holds it while its merged work is verified.
const LONGEST_TURN: Duration = Duration::from_hours(6);
const TICK: Duration = Duration::from_millis(200);
/// Maximum number of times the target may move during the verification.
const MOST_ROUNDS: u32 = 5;

impl Night<'_, '_> {
    pub(super) fn worktree(&self) -> Option<Worktree> {
        self.ride.settings.worktree.clone()
    }

    /// Merges the target into the work and verifies the result. The agent's process has exited by then.
    pub(super) fn bring_together(&mut self, worktree: &Worktree) -> Result<Next, DriveError> {
        if let Phase::Ended(_) = self.ride.phase()? {
            return Ok(Next::Over);
        }
        if self.landing.is_none()
            && worktree.then == Then::Merge
            && let Some(next) = self.take_turn(worktree)
        {
            return Ok(next);
        }
        match self.merged(worktree) {
            Ok(Merged::Conflict { files }) => {
                self.landing = None;
                self.advice = Advice::Resolve;
                let into = worktree.into.as_deref().unwrap_or("HEAD");
                let why = format!(
                    "it conflicts with `{into}` in {}; {}",
                    files.join(", "),
                    kept(worktree)
                );
                Ok(Next::Park(Status::NeedsHuman, why))
            }
            // The commits are on the target, but this run did not land them, so the person's checkout may be behind
            // its branch.
            Ok(Merged::UpToDate { commit })
                if commit != worktree.base && self.settled().is_none() =>
            {
                self.landing = None;
                let why = format!(
                    "its commits are already on `{}`, but ralph did not put them there; {}",
                    worktree.into.as_deref().unwrap_or("HEAD"),
                    kept(worktree)
                );
                Ok(Next::Park(Status::NeedsReview, why))
            }
            Ok(Merged::UpToDate { commit }) => {
                self.closing = Some(commit);
                self.look(Driver::Closing)
            }
            Ok(Merged::FastForward { commit } | Merged::Clean { commit }) => {
                let deadline = Deadline::after(PATIENCE);
                let anew = worktree::check_out_anew(self.ride.home, worktree, &commit, &deadline);
                if let Err(error) = anew {
                    return Ok(kept_back(worktree, &error));
                }
                self.closing = Some(commit);
                self.look(Driver::Closing)
            }
            Err(error) => Ok(kept_back(worktree, &error)),
        }
    }

    fn merged(&self, worktree: &Worktree) -> Result<Merged, WorktreeError> {
        let deadline = Deadline::after(PATIENCE);
        let home = self.ride.home;
        let title = self.ride.load().map(|opened| opened.run.title).unwrap_or_default();
        let message = format!("{title}\n\nralph run {}\n", self.ride.run);
        let committed = worktree::commit(home, worktree, &message, &deadline)?;
        match worktree.then {
            Then::Merge => worktree::merge(home, worktree, &deadline),
            // A pull request contains the branch alone; conflicts are resolved when it is merged.
            Then::PullRequest => Ok(Merged::FastForward { commit: committed.commit().to_string() }),
        }
    }

    /// Lands exactly the verified commit.
    pub(super) fn land(&mut self, commit: &str) -> Result<Next, DriveError> {
        let Some(worktree) = self.worktree() else { return self.look(Driver::Alone) };
        let next = match worktree.then {
            Then::Merge => self.land_merge(&worktree, commit)?,
            Then::PullRequest => self.request(&worktree, commit)?,
        };
        self.landing = None;
        Ok(next)
    }

    fn land_merge(&mut self, worktree: &Worktree, commit: &str) -> Result<Next, DriveError> {
        let deadline = Deadline::after(PATIENCE);
        match worktree::land(self.ride.home, worktree, commit, &deadline) {
            Ok(Landed::Landed { commit }) => {
                let into = worktree.into.as_deref().unwrap_or("HEAD");
                let short = commit.get(..10).unwrap_or(&commit);
                self.settle(format!("merged into `{into}` as {short}"))?;
                self.look(Driver::Alone)
            }
            Ok(Landed::Moved { .. }) if self.rounds < MOST_ROUNDS => {
                self.rounds = self.rounds.saturating_add(1);
                self.ride.note("the target branch moved; merging again");
                Ok(Next::Look)
            }
            Ok(Landed::Moved { .. }) => {
                let why = format!(
                    "the target branch kept moving during the verification; {}",
                    kept(worktree)
                );
                Ok(Next::Park(Status::NeedsHuman, why))
            }
            Ok(Landed::Refused { why }) => {
                Ok(Next::Park(Status::NeedsHuman, format!("{why}; {}", kept(worktree))))
            }
            Err(error) => Ok(kept_back(worktree, &error)),
        }
    }

    pub(super) fn settle(&mut self, how: String) -> Result<(), DriveError> {
        self.ride.note(&how);
        self.ride.record(Drove::Settled { how })?;
        Ok(())
    }

    /// Takes the landing lock. Runs land one at a time, so that the target cannot move between verification and
    /// landing. Returns the next step if the lock cannot be had.
    fn take_turn(&mut self, worktree: &Worktree) -> Option<Next> {
        let path = self.ride.home.landing(Path::new(&worktree.from));
        if let Some(parent) = path.parent()
            && let Err(error) = fs::create_dir(parent)
        {
            return Some(kept_back(worktree, &error));
        }
        let deadline = Deadline::after(LONGEST_TURN);
        let mut is_announced = false;
        loop {
            match fs::lock(&path, &Deadline::after(TICK)) {
                Ok(lock) => {
                    self.landing = Some(lock);
                    return None;
                }
                Err(LockError::Busy { .. }) if !deadline.is_over() => {}
                Err(error) => return Some(kept_back(worktree, &error)),
            }
            if !is_announced {
                is_announced = true;
                let text = "another run is landing; waiting for it".to_string();
                self.ride.tell(&Told::Note { text });
            }
            self.ride.watcher.tick();
            if self.ride.wish() != Wish::None {
                let why = "stopped by a person before it landed".to_string();
                return Some(Next::Park(Status::Cancelled, why));
            }
        }
    }

    /// Removes the work tree once its work has landed.
    pub(super) fn clear_away(&mut self) -> Result<(), DriveError> {
        let Some(worktree) = self.worktree().filter(|worktree| worktree.then == Then::Merge) else {
            return Ok(());
        };
        if self.ride.phase()? != Phase::Ended(Status::Verified) {
            return Ok(());
        }
        match worktree::remove(self.ride.home, &worktree, &Deadline::after(PATIENCE)) {
            Ok(Removed::Gone) => {}
            Ok(Removed::BranchKept) => {
                self.ride.note(&format!("git kept branch `{}`", worktree.branch));
            }
            Ok(Removed::Kept { why }) => {
                self.ride.note(&format!("its work tree `{}` is kept: {why}", worktree.path));
            }
            Err(error) => self.ride.note(&ralph_home::faults::describe(&error)),
        }
        Ok(())
    }
}

/// Where the work is kept, and the command that shows it.
pub(super) fn kept(worktree: &Worktree) -> String {
    let kept = worktree::kept(worktree);
    let look = kept.commands.get(1).map(|command| format!("; see `{command}`")).unwrap_or_default();
    format!("branch `{}` and work tree `{}` are kept{look}", kept.branch, kept.path)
}

pub(super) fn kept_back(worktree: &Worktree, error: &dyn std::error::Error) -> Next {
    let said = ralph_home::faults::describe(error);
    Next::Park(Status::NeedsHuman, format!("{said}; {}", kept(worktree)))
}
