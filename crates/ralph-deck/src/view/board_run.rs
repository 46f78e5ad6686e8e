//! A run in `ralph status`: its row on the board, and what only this command reads.

use crate::page::{BoardGroup, BoardRow, RunStanding, view_question};
use crate::view::next_step::next_step;
use crate::view::{driven_run, journal_check, pipeline_chunks};
use crate::wording::safe_line;
use ralph_core::closed_run::closing_entry;
use ralph_core::facts::DeclaredPause;
use ralph_core::id::RunId;
use ralph_core::run::RunPhase;
use ralph_core::status::RunStatus;
use ralph_core::text;
use ralph_home::paths::RalphHome;
use ralph_hook::overview::{self, RunView};
use ralph_hook::phases::{self, PhaseProgress};
use ralph_install::doctor::protection::UnprotectedReason;
use ralph_sys::clock;

const MAX_REASON_CHARS: usize = 200;

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
    /// What a person can do next; `None` where the journal was not read.
    pub next: Option<String>,
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
        let needs_history = !has_ended || needs_check || has_worktree || is_for_person(&view);
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
            next: entries
                .and_then(|entries| next_step(run, &view.opened.state, view.phase, entries)),
            view,
        }
    }

    /// Why it ended, or what the agent asked, and the next step, if a person has to do something about it.
    pub(super) fn review_lines(&self) -> Vec<String> {
        if !is_for_person(&self.view) {
            return Vec::new();
        }
        let why = match &self.view.opened.state.declared {
            Some(DeclaredPause::NeedsHuman(question)) => {
                Some(format!("asks: {}", safe_line(question)))
            }
            Some(DeclaredPause::Approval(_) | DeclaredPause::Waiting { .. }) | None => {
                self.row.note.as_ref().map(|why| text::clean_line(why, MAX_REASON_CHARS))
            }
        };
        let next = self.next.as_ref().map(|next| format!("next: {next}"));
        why.into_iter().chain(next).collect()
    }
}

/// Whether a person has to do something about the end of a run.
fn is_for_person(view: &RunView) -> bool {
    view.opened.state.accepted.is_none()
        && matches!(view.phase, RunPhase::Ended(status) if is_unfinished(status))
}

/// A run of another project that is in progress, or that ended and waits for a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElsewhereRun {
    pub standing: RunStanding,
    pub is_asking: bool,
}

impl ElsewhereRun {
    /// `None` if no person has to look at it. Its journal is read only if it can change that.
    pub(super) fn load(home: &RalphHome, view: &RunView) -> Option<Self> {
        let standing = RunStanding::from_state(&view.opened.state, view.phase);
        if !standing.has_ended() {
            let is_asking = view_question(home, view).is_some();
            return Some(Self { standing: standing.with_question(is_asking), is_asking });
        }
        if standing.group() != BoardGroup::WaitingForYou {
            return None;
        }
        let history = overview::run_history(home, &view.opened.run.id).ok();
        let is_closed = history.is_some_and(|history| closing_entry(&history.entries).is_some());
        (!is_closed).then_some(Self { standing, is_asking: false })
    }
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
