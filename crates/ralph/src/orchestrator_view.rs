//! The phases of an orchestrated run as text: all of them on one line, then its nine conditions with their owner and a
//! note on the evidence.

use crate::describe::paint_mark;
use crate::term::{self, paint};
use ralph_core::approval::{self, PhaseApproval};
use ralph_core::requirement::NOT_APPROVED;
use ralph_core::source::orchestrator::{ConditionOwner, ConditionView, OrchestratorPhase};
use ralph_deck::view::phase_progress::{condition_mark, missing_names};
use ralph_deck::wording::{FactMark, safe_line};
use ralph_hook::phases::PhaseProgress;

/// `✓ clarify → ✓ classify → [plan] → implement → validate → retrospect`
pub(crate) fn phase_line(picture: &PhaseProgress) -> String {
    let phase = |phase: OrchestratorPhase| {
        let is_missing = |one: &ConditionView| one.condition.phase() == phase && one.is_missing();
        let is_unapproved = |one: &PhaseApproval| one.phase == phase && one.by.is_none();
        if picture.current == Some(phase) {
            paint(term::BOLD, &format!("[{}]", phase.name()))
        } else if picture.conditions.iter().any(is_missing)
            || picture.approvals.iter().any(is_unapproved)
        {
            phase.name().to_string()
        } else {
            format!("{} {}", paint(term::GOOD, "✓"), phase.name())
        }
    };
    let mut line = OrchestratorPhase::ALL.map(phase).join(" → ");
    if let Some(phase) = &picture.reported_phase {
        line.push_str(&format!("  (the agent says \"{}\")", safe_line(phase).replace('"', "'")));
    }
    line
}

/// The whole view, indented like the other lines about a run.
pub(crate) fn render(picture: &PhaseProgress) -> String {
    let mut out = format!("      {}\n", phase_line(picture));
    for one in &picture.conditions {
        let mark = paint_mark(condition_mark(one.status));
        out.push_str(&format!(
            "      {mark} {:<28}  {:<6}  {}\n",
            one.condition.name(),
            one.owner.name(),
            safe_line(&one.note)
        ));
    }
    for one in &picture.approvals {
        let (mark, note) = match &one.by {
            Some(by) => (FactMark::Good, format!("by {by}")),
            None => (FactMark::Bad, NOT_APPROVED.to_string()),
        };
        out.push_str(&format!(
            "      {} {:<28}  {:<6}  {}\n",
            paint_mark(mark),
            approval::phase_requirement_name(one.phase),
            ConditionOwner::Person.name(),
            safe_line(&note)
        ));
    }
    let missing = missing_names(picture);
    if !missing.is_empty() {
        out.push_str(&format!("      missing: {}\n", missing.join(", ")));
    }
    out
}
