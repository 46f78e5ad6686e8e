//! What the terminal adds to the view of a run that ralph drives itself: signs before its lines, and hints after errors.

use crate::describe::paint_marked;
use crate::failure::CommandFailure;
use ralph_core::ending;
use ralph_core::record::RunRecord;
use ralph_core::run::{RunPhase, RunState};
use ralph_core::status::RunStatus;
use ralph_deck::view::driven_run::{self, UnmergedDetail};
use ralph_home::paths::RalphHome;
use ralph_home::store;
use ralph_hook::control::ControlError;

/// The status lines of a run that ralph drives itself, but for work that is not merged; none for other runs.
pub(crate) fn status_lines(
    run: &RunRecord,
    state: &RunState,
    phase: RunPhase,
    worktree_outcome: Option<&str>,
) -> Vec<String> {
    let lines =
        driven_run::status_lines(run, state, phase, worktree_outcome, UnmergedDetail::Omitted);
    lines.iter().map(paint_marked).collect()
}

/// Adds a hint to an error about a driven run that has ended: how to continue its work.
pub(crate) fn control_failure(home: &RalphHome, error: ControlError) -> CommandFailure {
    let ControlError::HasEnded { run, status } = &error else { return error.into() };
    let is_driven = store::load_run(home, run).is_ok_and(|opened| opened.run.drive.is_some());
    let then = if *status == RunStatus::Verified {
        "starts a new run from its last session"
    } else {
        "continues from its last session"
    };
    let hint = is_driven.then(|| {
        format!("`ralph why {run}` shows how; `{}` {then}", ending::fork_command(run, *status))
    });
    let failure = CommandFailure::from(error);
    match hint {
        Some(hint) => failure.with_hint(&hint),
        None => failure,
    }
}
