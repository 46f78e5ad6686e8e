//! Reads what the record and the state of a run do not have, and how it stands.

use super::status_view::BoardRun;
use crate::page::{OpenQuestion, RunStanding, view_question};
use crate::view::{decisions, driven_run, journal_check, pipeline_chunks};
use ralph_core::facts::DeclaredPause;
use ralph_core::run::RunPhase;
use ralph_core::status::RunStatus;
use ralph_home::paths::RalphHome;
use ralph_hook::contract::gate_log;
use ralph_hook::overview::{self, RunView};
use ralph_hook::phases;
use ralph_install::doctor::protection::UnprotectedReason;
use ralph_sys::clock;
use serde::Serialize;

impl BoardRun {
    pub fn load(home: &RalphHome, view: RunView, unprotected: Option<UnprotectedReason>) -> Self {
        let view = journal_check::with_journal_edit(home, view);
        let run = &view.opened.run;
        let has_worktree = run.drive.as_ref().is_some_and(|drive| drive.worktree.is_some());
        // An unreadable journal says nothing about the work tree; `ralph why` reports it.
        let needs_person = view.opened.state.accepted.is_none()
            && matches!(view.phase, RunPhase::Ended(status) if is_unfinished(status))
            // The question of the agent is shown instead.
            && !matches!(view.opened.state.declared, Some(DeclaredPause::NeedsHuman(_)));
        let is_history_shown = has_worktree || needs_person;
        let history = is_history_shown.then(|| overview::run_history(home, &run.id).ok()).flatten();
        let ending_reason = history
            .as_ref()
            .filter(|_| needs_person)
            .and_then(|history| decisions::ending_reason(&history.entries));
        let worktree_outcome =
            history.and_then(|history| driven_run::worktree_outcome(&history.entries));
        Self {
            // A driven run needs no hook: the runner answers its stops in-band.
            unprotected: unprotected.filter(|_| run.drive.is_none()),
            phases: (run.phases).then(|| phases::phase_progress(home, &view.opened)),
            pipeline: pipeline_chunks::pipeline_summary(home, &view.opened),
            activity: (view.phase == RunPhase::Active)
                .then(|| gate_log::read_activity(home, run))
                .flatten(),
            worktree_outcome,
            ending_reason,
            question: view_question(home, &view),
            view,
        }
    }

    pub fn standing(&self) -> RunStanding {
        view_standing(&self.view, self.question.as_ref())
    }

    /// The state of the run in one word, also used in JSON: `unprotected` if no hook of its session reaches ralph.
    pub fn status(&self) -> &'static str {
        if self.unprotected.is_some() { "unprotected" } else { self.standing().name() }
    }
}

/// How an active run stands, with the question that its journal has.
pub(super) fn view_standing(view: &RunView, question: Option<&OpenQuestion>) -> RunStanding {
    let standing = RunStanding::from_state(&view.opened.state, view.phase);
    match (standing, question) {
        (RunStanding::Working | RunStanding::Waiting, Some(_)) => RunStanding::Asks,
        // Answered, but the runner has not passed the answer on yet.
        (RunStanding::Asks, None) => RunStanding::Working,
        (standing, _) => standing,
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

/// A question that a person has not answered.
#[derive(Debug, Serialize)]
pub struct QuestionView<'a> {
    pub text: &'a str,
    pub asked_at: String,
    /// The run is parked then; `null` if nothing waits for the answer.
    pub until: Option<String>,
    /// What has to be approved; missing for a question of the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval: Option<&'a str>,
}

pub(super) fn question_view(question: &OpenQuestion) -> QuestionView<'_> {
    QuestionView {
        text: &question.text,
        asked_at: clock::format_rfc3339(question.asked_ms),
        until: question.until_ms.map(clock::format_rfc3339),
        approval: question.approval.as_deref(),
    }
}
