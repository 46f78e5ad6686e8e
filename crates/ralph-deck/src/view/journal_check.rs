//! Whether the journal of a run that ended well was changed afterwards.

use super::decisions::journal_damage_text;
use super::status_view::is_old;
use crate::wording::{FactMark, MarkedText, safe_line};
use ralph_core::run::RunPhase;
use ralph_core::status::RunStatus;
use ralph_home::store::LoadedRun;
use ralph_hook::overview::{DecisionHistory, RunView};
use ralph_sys::clock;

/// What was edited, for `ralph status`.
pub(super) fn tampering_line(run: &LoadedRun) -> Option<Vec<MarkedText>> {
    let what = run.tampering.as_ref()?;
    Some(vec![MarkedText::new(FactMark::Bad, safe_line(what))])
}

/// Whether `ralph status` checks the journal: only of recent runs with a good end, because checking every journal would
/// make a long list slow. `ralph report` and `ralph why` check any run.
pub(super) fn needs_journal_check(view: &RunView) -> bool {
    let is_good_end = matches!(
        view.phase,
        RunPhase::Ended(RunStatus::Verified | RunStatus::Green | RunStatus::Claimed)
    );
    is_good_end && !is_old(view, clock::now_ms())
}

/// How the journal of a run with a good end was changed.
pub(super) fn describe_journal_edit(history: &DecisionHistory) -> Option<String> {
    let damage = history.broken.as_ref().filter(|damage| damage.is_edit())?;
    Some(format!("{}; do not rely on this result", journal_damage_text(damage)))
}
