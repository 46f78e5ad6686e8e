//! Gathers the evidence that a stop would gather, without deciding, counting or holding anything.

use crate::observe;
use crate::sources;
use ralph_core::decide;
use ralph_core::event::Stop;
use ralph_core::facts::Evidence;
use ralph_core::id::{RunId, SessionId};
use ralph_home::store::{self, StoreError};
use ralph_home::world::World;

/// The evidence for `ralph verify`, with waivers and disputes applied.
pub fn run(world: &World, session: &SessionId, run: &RunId) -> Result<Evidence, StoreError> {
    let opened = store::load(&world.home, run)?;
    let stop = Stop {
        session: Some(session.clone()),
        cwd: None,
        transcript: None,
        prompt: None,
        continuing: false,
        said: None,
        trouble: None,
        pending: Vec::new(),
    };
    let before = opened.state.observed.as_ref();
    let mut sight = observe::transcript(world, &stop, before, opened.run.checklist);
    // Without a new one, the task list of the last stop counts.
    sight.observed = sight.observed.or_else(|| before.cloned());
    let evidence = sources::for_run(world, &opened, &stop, &sight);
    let requirements = decide::weighed(&evidence.requirements, &opened.state, world.arrived_ms);
    Ok(Evidence { requirements, ..evidence })
}
