//! Requirements that no gate measures: a goal that ends by the agent's claim, and extra passes for polish.

use super::required_correctness;
use ralph_core::claim;
use ralph_core::event::StopEvent;
use ralph_core::requirement::{
    EvidenceKind, GOAL_REQUIREMENT, PendingReason, Requirement, RequirementFailure,
    RequirementStage, RequirementStatus, RequirementWeight,
};
use ralph_core::waiver;
use ralph_home::store::LoadedRun;
use ralph_home::world::World;

/// Whether the requirement is open and not waived.
pub(super) fn is_blocking(world: &World, opened: &LoadedRun, one: &Requirement) -> bool {
    waiver::blocks_end(one, &opened.state.waivers, world.arrived_ms)
}

/// The requirement for a goal that nothing measures: it is met by the agent's claim, so the run ends `claimed`.
pub(super) fn goal_requirement(stop: &StopEvent) -> Requirement {
    let word = stop.last_message.as_deref().and_then(claim::find_marker);
    let standing = if word.is_some_and(|word| word.means_done()) {
        RequirementStatus::Met(EvidenceKind::Claimed)
    } else {
        RequirementStatus::Unmet(RequirementFailure::new(
            "nothing measures this goal; it ends as claimed when the agent declares it done, or at a limit"
                .to_string(),
        ))
    };
    let next = "Continue with the goal. When, and only when, all of it is done, end your message with the line <promise>DONE</promise>";
    required_correctness(GOAL_REQUIREMENT.to_string(), standing, next.to_string())
}

/// Extra passes that a person asked for after everything else is met. Each pass counts as progress even if it changes
/// nothing: their number bounds them, so a finished run never counts as stuck.
pub(super) fn polish_requirement(opened: &LoadedRun, is_held: bool) -> Option<Requirement> {
    let least = opened.state.limits(&opened.run).min_iterations;
    let pass = opened.state.iteration.saturating_add(1);
    let standing = match least {
        0 => return None,
        least if pass > least => RequirementStatus::Met(EvidenceKind::Measured),
        _ if is_held => RequirementStatus::Pending(PendingReason::NotReached(
            "waits until everything else is met".to_string(),
        )),
        least => RequirementStatus::Unmet(RequirementFailure::new(format!(
            "pass {pass} of {least}: everything else is met; look for improvements"
        ))),
    };
    let next = match standing {
        RequirementStatus::Unmet(_) => {
            "Read the change as a reviewer would and improve it: names, tests, error handling, unneeded code"
        }
        RequirementStatus::Met(_)
        | RequirementStatus::Pending(_)
        | RequirementStatus::Unknown(_) => "",
    };
    Some(Requirement {
        name: "polish".to_string(),
        stage: RequirementStage::Quality,
        status: standing,
        weight: RequirementWeight::Required,
        next: next.to_string(),
    })
}
