//! Finds what an agent edited in the view of its run. An edit of one of its own conditions is a claim; other edits are
//! ignored.

use super::{ConditionAnswer, ConditionOwner, OrchestratorCondition, OrchestratorFile};
use crate::policy::PlanApprover;
use crate::record::OrchestratorStep;
use crate::requirement::{
    Requirement, RequirementFailure, RequirementStage, RequirementStatus, RequirementWeight,
};
use crate::run::OrchestratorProgress;
use crate::text;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

const MAX_PHASE_CHARS: usize = 60;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ViewEdits {
    pub steps: Vec<OrchestratorStep>,
    /// Keys that were set although they are not the agent's.
    pub ignored: Vec<&'static str>,
}

/// What changed in the file since ralph wrote it. `last` is that version, or `None` if it is not known. Then only `true`
/// counts as an edit, because a `false` may be as old as the file.
pub fn find_view_edits(
    now: &OrchestratorFile,
    last: Option<&OrchestratorFile>,
    progress: &OrchestratorProgress,
    approver: PlanApprover,
) -> ViewEdits {
    let mut edits = ViewEdits::default();
    let phase = now.phase.as_deref().map(|phase| text::clean_line(phase, MAX_PHASE_CHARS));
    let before = last.and_then(|last| last.phase.as_deref());
    let before = before.map(|phase| text::clean_line(phase, MAX_PHASE_CHARS));
    if let Some(phase) = phase.filter(|phase| !phase.is_empty() && before.as_ref() != Some(phase))
        && progress.phase.as_ref() != Some(&phase)
    {
        edits.steps.push(OrchestratorStep::Phase(phase));
    }
    add_complexity_edit(&mut edits, now, last, progress);
    for condition in OrchestratorCondition::ALL {
        let (then, says) = (last.map(|last| last.answer(condition)), now.answer(condition));
        let is_edited = match (then, says) {
            (_, ConditionAnswer::Unknown) | (None, ConditionAnswer::No) => false,
            (then, says) => then != Some(says),
        };
        if !is_edited {
            continue;
        }
        let claims = progress.claims.contains(&condition);
        match (condition.owner(approver), says) {
            (ConditionOwner::Agent, ConditionAnswer::Yes) if !claims => {
                edits.steps.push(OrchestratorStep::Claims(condition));
            }
            (ConditionOwner::Agent, ConditionAnswer::No) if claims => {
                edits.steps.push(OrchestratorStep::Withdraws(condition));
            }
            (ConditionOwner::Agent, _) => {}
            (ConditionOwner::Person | ConditionOwner::Ralph, _) => {
                edits.ignored.push(condition.key());
            }
        }
    }
    if now.verified_done && !last.is_some_and(|last| last.verified_done) {
        edits.ignored.push("verified_done");
    }
    edits
}

/// The agent may raise the complexity but not lower it, because a low complexity disables the adversarial gates.
fn add_complexity_edit(
    edits: &mut ViewEdits,
    now: &OrchestratorFile,
    last: Option<&OrchestratorFile>,
    progress: &OrchestratorProgress,
) {
    let Some(complexity) = now.complexity else { return };
    if last.and_then(|last| last.complexity) == Some(complexity) {
        return;
    }
    match progress.complexity {
        Some(known) if complexity < known => edits.ignored.push("complexity"),
        Some(known) if complexity == known => {}
        Some(_) | None => edits.steps.push(OrchestratorStep::Classified(complexity)),
    }
}

/// Reports ignored edits, so that the agent does not wait for them to take effect.
pub fn ignored_edits_requirement(keys: &[&'static str]) -> Option<Requirement> {
    if keys.is_empty() {
        return None;
    }
    let keys: Vec<String> = keys.iter().map(|key| format!("`{key}`")).collect();
    let summary = format!(
        "edits of {} were ignored: a person approves the plan, and ralph measures the rest itself",
        keys.join(", ")
    );
    Some(Requirement {
        name: "`orchestrator.json`".into(),
        stage: RequirementStage::Planning,
        status: RequirementStatus::Unmet(RequirementFailure::new(summary)),
        weight: RequirementWeight::Advisory,
        next: String::new(),
    })
}
