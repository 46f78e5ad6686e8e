//! A run in `ralph status`: its row on the board, and what only this command reads.

use crate::page::{BoardRow, RunStanding, view_question};
use crate::view::{driven_run, journal_check, pipeline_chunks};
use ralph_core::facts::DeclaredPause;
use ralph_core::id::RunId;
use ralph_core::run::RunPhase;
use ralph_core::status::RunStatus;
use ralph_home::paths::RalphHome;
use ralph_hook::overview::{self, RunView};
use ralph_hook::phases::{self, PhaseProgress};
use ralph_install::doctor::protection::UnprotectedReason;
use ralph_sys::clock;

/// A run, with what its row does not have.
#[derive(Debug)]
pub struct BoardRun {
    pub row: BoardRow,
    pub view: RunView,
    /// Only for an orchestrated run.
    pub phases: Option<PhaseProgress>,
    /// The progress of the run's pipeline, if it has one.
    pub pipeline: Option<String>,
    /// What happened to the work tree of a driven run: see [`driven_run::worktree_outcome`].
    pub worktree_outcome: Option<String>,
}

impl BoardRun {
    pub fn load(
        home: &RalphHome,
        mut view: RunView,
        unprotected: Option<&UnprotectedReason>,
    ) -> Self {
        let drive = view.opened.run.drive.as_ref();
        let has_worktree = drive.is_some_and(|drive| drive.worktree.is_some());
        let has_ended = matches!(view.phase, RunPhase::Ended(_));
        let needs_check = journal_check::needs_journal_check(&view);
        // Reading the journal of every run that ended would make a long list slow.
        let needs_history = !has_ended || needs_check || has_worktree || needs_person(&view);
        let read = |run: &RunId| overview::run_history(home, run).ok();
        let history = needs_history.then(|| read(&view.opened.run.id)).flatten();
        if needs_check
            && let Some(edit) = history.as_ref().and_then(journal_check::describe_journal_edit)
        {
            view.opened.tampering = Some(edit);
        }
        let run = &view.opened.run;
        let entries = history.as_ref().map(|history| history.entries.as_slice());
        let now_ms = clock::now_ms();
        let mut row = BoardRow::of_view(home, &view, entries, now_ms);
        row.add_protection(unprotected, now_ms);
        Self {
            row,
            phases: (run.phases).then(|| phases::phase_progress(home, &view.opened)),
            pipeline: pipeline_chunks::pipeline_summary(home, &view.opened),
            worktree_outcome: entries.and_then(driven_run::worktree_outcome),
            view,
        }
    }

    /// Why it ended, if a person has to do something about it.
    pub(super) fn ending_reason(&self) -> Option<&str> {
        self.row.note.as_deref().filter(|_| needs_person(&self.view))
    }
}

/// Whether a person has to do something about the end of a run.
fn needs_person(view: &RunView) -> bool {
    view.opened.state.accepted.is_none()
        && matches!(view.phase, RunPhase::Ended(status) if is_unfinished(status))
        // The question of the agent is shown instead.
        && !matches!(view.opened.state.declared, Some(DeclaredPause::NeedsHuman(_)))
}

/// The standing of a run in progress. Reads the journal only if it can change the result.
pub(super) fn open_standing(home: &RalphHome, view: &RunView) -> RunStanding {
    let standing = RunStanding::from_state(&view.opened.state, view.phase);
    standing.with_question(view_question(home, view).is_some())
}

/// Ends after which a person has to do something.
fn is_unfinished(status: RunStatus) -> bool {
    match status {
        RunStatus::Green
        | RunStatus::NeedsHuman
        | RunStatus::NeedsReview
        | RunStatus::Stuck
        | RunStatus::Exhausted
        | RunStatus::GateBroken
        | RunStatus::Crashed
        | RunStatus::Overridden => true,
        RunStatus::Verified
        | RunStatus::Claimed
        | RunStatus::RateLimited
        | RunStatus::Cancelled => false,
    }
}
