//! Requirements that no gate measures: a goal that ends by the agent's claim, and extra passes for polish.

use super::requirement;
use ralph_core::claim;
use ralph_core::event::Stop;
use ralph_core::requirement::{
    Evidence as Proof, Failure, Pending, Requirement, Stage, Standing, Weight,
};
use ralph_core::waiver;
use ralph_home::store::Opened;
use ralph_home::world::World;

/// Whether the requirement is open and not waived.
pub(super) fn holds(world: &World, opened: &Opened, one: &Requirement) -> bool {
    waiver::holds(one, &opened.state.waivers, world.arrived_ms)
}

/// The requirement for a goal that nothing measures: it is met by the agent's claim, so the run ends `claimed`.
pub(super) fn unmeasured(stop: &Stop) -> Requirement {
    let word = stop.said.as_deref().and_then(claim::word);
    let standing = if word.is_some_and(|word| word.means_done()) {
        Standing::Met(Proof::Claimed)
    } else {
        Standing::Unmet(Failure::new(
            "nothing measures this goal; it ends as claimed when the agent declares it done, or at a limit"
                .to_string(),
        ))
    };
    let next = "Continue with the goal. When, and only when, all of it is done, end your message with the line <promise>DONE</promise>";
    requirement("goal".to_string(), standing, next.to_string())
}

/// Extra passes that a person asked for after everything else is met. Each pass counts as progress even if it changes
/// nothing: their number bounds them, so a finished run never counts as stuck.
pub(super) fn polish(opened: &Opened, is_held: bool) -> Option<Requirement> {
    let least = opened.state.limits(&opened.run).min_iterations;
    let pass = opened.state.iteration.saturating_add(1);
    let standing = match least {
        0 => return None,
        least if pass > least => Standing::Met(Proof::Measured),
        _ if is_held => {
            Standing::Pending(Pending::NotReached("waits until everything else is met".to_string()))
        }
        least => Standing::Unmet(Failure::new(format!(
            "pass {pass} of {least}: everything else is met; look for improvements"
        ))),
    };
    let next = match standing {
        Standing::Unmet(_) => {
            "Read the change as a reviewer would and improve it: names, tests, error handling, unneeded code"
        }
        Standing::Met(_) | Standing::Pending(_) | Standing::Unknown(_) => "",
    };
    Some(Requirement {
        name: "polish".to_string(),
        stage: Stage::Quality,
        standing,
        weight: Weight::Required,
        next: next.to_string(),
    })
}
