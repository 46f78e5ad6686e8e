//! The view of an orchestrated run, as text and as JSON: its phases on one line, then its nine conditions with their
//! owner and a note on the evidence.

use crate::describe::safe_line;
use crate::term::{self, paint};
use ralph_core::source::orchestrator::{ConditionStatus, ConditionView, OrchestratorPhase};
use ralph_hook::phases::PhaseProgress;
use serde::Serialize;

#[derive(Serialize)]
pub(crate) struct OrchestratorJson<'a> {
    /// The first phase with an unmet condition.
    phase: Option<&'static str>,
    said_phase: Option<&'a str>,
    complexity: Option<u8>,
    conditions: Vec<ConditionJson<'a>>,
    missing: Vec<&'static str>,
}

#[derive(Serialize)]
struct ConditionJson<'a> {
    name: &'static str,
    owner: &'static str,
    standing: &'static str,
    note: &'a str,
}

pub(crate) fn json(picture: &PhaseProgress) -> OrchestratorJson<'_> {
    OrchestratorJson {
        phase: picture.current.map(OrchestratorPhase::name),
        said_phase: picture.reported_phase.as_deref(),
        complexity: picture.complexity,
        conditions: picture.conditions.iter().map(condition_json).collect(),
        missing: missing_conditions(picture).map(|one| one.condition.key()).collect(),
    }
}

fn condition_json(one: &ConditionView) -> ConditionJson<'_> {
    ConditionJson {
        name: one.condition.key(),
        owner: one.owner.name(),
        standing: match one.status {
            ConditionStatus::Met => "met",
            ConditionStatus::Unmet => "unmet",
            ConditionStatus::Unknown => "unknown",
            ConditionStatus::Pending => "pending",
            ConditionStatus::Idle => "idle",
        },
        note: &one.note,
    }
}

pub(crate) fn missing_conditions(picture: &PhaseProgress) -> impl Iterator<Item = &ConditionView> {
    picture.conditions.iter().filter(|one| one.is_missing())
}

/// `✓ clarify → ✓ classify → [plan] → implement → validate → retrospect`
pub(crate) fn phase_line(picture: &PhaseProgress) -> String {
    let phase = |phase: OrchestratorPhase| {
        let is_missing = |one: &ConditionView| one.condition.phase() == phase && one.is_missing();
        if picture.current == Some(phase) {
            paint(term::BOLD, &format!("[{}]", phase.name()))
        } else if picture.conditions.iter().any(is_missing) {
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
        let mark = match one.status {
            ConditionStatus::Met => paint(term::GOOD, "✓"),
            ConditionStatus::Unmet => paint(term::BAD, "✗"),
            ConditionStatus::Unknown => paint(term::WARN, "?"),
            ConditionStatus::Pending | ConditionStatus::Idle => paint(term::DIM, "·"),
        };
        out.push_str(&format!(
            "      {mark} {:<28}  {:<6}  {}\n",
            one.condition.name(),
            one.owner.name(),
            safe_line(&one.note)
        ));
    }
    let missing: Vec<_> = missing_conditions(picture).map(|one| one.condition.name()).collect();
    if !missing.is_empty() {
        out.push_str(&format!("      missing: {}\n", missing.join(", ")));
    }
    out
}
