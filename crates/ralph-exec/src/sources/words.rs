//! What is said, where nothing measures: the words that end a goal, and passes that are there to polish.

use super::requirement;
use crate::store::Opened;
use crate::world::World;
use ralph_core::claim;
use ralph_core::event::Stop;
use ralph_core::requirement::{
    Evidence as Proof, Failure, Pending, Requirement, Stage, Standing, Weight,
};
use ralph_core::waiver;

/// Whether it stands in the way: open, and nobody does without it.
pub(super) fn holds(world: &World, opened: &Opened, one: &Requirement) -> bool {
    waiver::holds(one, &opened.state.waivers, world.arrived_ms)
}

/// A goal that nothing measures ends by the agent's word, which makes it claimed, or by its limits.
pub(super) fn unmeasured(stop: &Stop) -> Requirement {
    let word = stop.said.as_deref().and_then(claim::word);
    let standing = if word.is_some_and(|word| word.means_done()) {
        Standing::Met(Proof::Claimed)
    } else {
        Standing::Unmet(Failure::new(
            "nothing measures this goal; the agent's own word ends it, as claimed, or its limits do"
                .to_string(),
        ))
    };
    let next = "Go on with the goal. When, and only when, all of it is done, end your message with the line <promise>DONE</promise>";
    requirement("goal".to_string(), standing, next.to_string())
}

/// Passes that a person asked for beyond what is met. Each of them is something new, whether or not it changed anything:
/// their number bounds them, and nobody is stuck whose work is done.
pub(super) fn polish(opened: &Opened, is_held: bool) -> Option<Requirement> {
    let least = opened.state.limits(&opened.run).min_iterations;
    let pass = opened.state.iteration.saturating_add(1);
    let standing = match least {
        0 => return None,
        least if pass > least => Standing::Met(Proof::Measured),
        _ if is_held => {
            Standing::Pending(Pending::NotReached("comes when the rest is met".to_string()))
        }
        least => Standing::Unmet(Failure::new(format!(
            "pass {pass} of {least}: everything else is met; look for what could be better"
        ))),
    };
    let next = match standing {
        Standing::Unmet(_) => {
            "Read the change as a reviewer would, and improve what you find: names, tests, errors, what is not needed"
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
