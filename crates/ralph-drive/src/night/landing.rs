//! Work in a tree of its own goes back: together with what happened meanwhile, looked at there, and only then.
//!
//! ```text
//! commit ─▶ merge the target ─ conflict ─▶ Park, both kept
//!               ▼
//!     look at the merged tree ─ not met ─▶ the agent goes on
//!               ▼
//!     land ─ the target moved ─▶ from the start, a few times
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
use ralph_exec::clock::Deadline;
use ralph_exec::fs::{self, LockError};
use ralph_exec::worktree::{self, Landed, Merged, Removed, WorktreeError};
use std::path::Path;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_mins(10);
/// Somebody else's work is verified together with the target while they hold it.
const LONGEST_TURN: Duration = Duration::from_hours(6);
const TICK: Duration = Duration::from_millis(200);
/// How often the target may move away while the work is looked at.
const MOST_ROUNDS: u32 = 5;

impl Night<'_, '_> {
    pub(super) fn worktree(&self) -> Option<Worktree> {
        self.ride.settings.worktree.clone()
    }

    /// The agent's process is gone. What it left meets what happened meanwhile, and is looked at as it would land.
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
            // It landed, and not by us: what the person has checked out is not what their branch says then.
            Ok(Merged::UpToDate { commit })
                if commit != worktree.base && self.settled().is_none() =>
            {
                self.landing = None;
                let why = format!(
                    "its commits are on `{}` already, and ralph did not put them there; {}",
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
            // A request is for what is on the branch; whoever merges it meets the rest.
            Then::PullRequest => Ok(Merged::FastForward { commit: committed.commit().to_string() }),
        }
    }

    /// What was verified goes back, exactly that.
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
                self.ride.note("the target moved meanwhile; it is brought together once more");
                Ok(Next::Look)
            }
            Ok(Landed::Moved { .. }) => {
                let why = format!(
                    "the target kept moving while the work was looked at; {}",
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

    /// One at a time: what is looked at together with the target must still be it when it lands.
    fn take_turn(&mut self, worktree: &Worktree) -> Option<Next> {
        let path = self.ride.home.landing(Path::new(&worktree.from));
        if let Some(parent) = path.parent()
            && let Err(error) = fs::create_dir(parent)
        {
            return Some(kept_back(worktree, &error));
        }
        let deadline = Deadline::after(LONGEST_TURN);
        let mut is_told = false;
        loop {
            match fs::lock(&path, &Deadline::after(TICK)) {
                Ok(lock) => {
                    self.landing = Some(lock);
                    return None;
                }
                Err(LockError::Busy { .. }) if !deadline.is_over() => {}
                Err(error) => return Some(kept_back(worktree, &error)),
            }
            if !is_told {
                is_told = true;
                let text = "another run is landing; this one waits for its turn".to_string();
                self.ride.tell(&Told::Note { text });
            }
            self.ride.watcher.tick();
            if self.ride.wish() != Wish::None {
                let why = "a person ended it before it landed".to_string();
                return Some(Next::Park(Status::Cancelled, why));
            }
        }
    }

    /// A tree whose work has landed is of no use to anybody.
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
                self.ride.note(&format!("git holds on to branch `{}`", worktree.branch));
            }
            Ok(Removed::Kept { why }) => {
                self.ride.note(&format!("its work tree `{}` is kept: {why}", worktree.path));
            }
            Err(error) => self.ride.note(&ralph_exec::faults::describe(&error)),
        }
        Ok(())
    }
}

/// Where it is, and how to look at it.
pub(super) fn kept(worktree: &Worktree) -> String {
    let kept = worktree::kept(worktree);
    let look = kept.commands.get(1).map(|command| format!("; see `{command}`")).unwrap_or_default();
    format!("branch `{}` and work tree `{}` are kept{look}", kept.branch, kept.path)
}

pub(super) fn kept_back(worktree: &Worktree, error: &dyn std::error::Error) -> Next {
    let said = ralph_exec::faults::describe(error);
    Next::Park(Status::NeedsHuman, format!("{said}; {}", kept(worktree)))
}
