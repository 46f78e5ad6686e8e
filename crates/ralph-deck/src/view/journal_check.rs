//! Whether the journal of a run that ended well was changed afterwards.

use super::decisions::journal_damage_text;
use super::status_view::is_old;
use crate::wording::{FactMark, MarkedText, safe_line};
use ralph_core::run::RunPhase;
use ralph_core::status::RunStatus;
use ralph_home::journal::JournalDamage;
use ralph_home::paths::RalphHome;
use ralph_home::store::LoadedRun;
use ralph_hook::overview::{self, RunView};
use ralph_sys::clock;

/// The run, with an edit of its journal as tampering.
pub(super) fn with_journal_edit(home: &RalphHome, mut view: RunView) -> RunView {
    view.opened.tampering = find_journal_edit(home, &view).or(view.opened.tampering);
    view
}

/// What was edited, for `ralph status`.
pub(super) fn tampering_line(run: &LoadedRun) -> Option<Vec<MarkedText>> {
    let what = run.tampering.as_ref()?;
    Some(vec![MarkedText::new(FactMark::Bad, safe_line(what))])
}

/// How the journal of a recent run with a good end was changed. Checking every journal would make a long list slow;
/// `ralph report` and `ralph why` check that of any run.
fn find_journal_edit(home: &RalphHome, view: &RunView) -> Option<String> {
    let is_good_end = matches!(
        view.phase,
        RunPhase::Ended(RunStatus::Verified | RunStatus::Green | RunStatus::Claimed)
    );
    if !is_good_end || is_old(view, clock::now_ms()) {
        return None;
    }
    let history = overview::run_history(home, &view.opened.run.id).ok()?;
    let damage = history.broken.filter(JournalDamage::is_edit)?;
    Some(format!("{}; do not rely on this result", journal_damage_text(&damage)))
}
