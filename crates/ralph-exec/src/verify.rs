//! A look at what a stop would find, without one: nothing is decided, counted or held.

use crate::observe;
use crate::sources;
use crate::store::{self, StoreError};
use crate::world::World;
use ralph_core::decide;
use ralph_core::event::Stop;
use ralph_core::facts::Evidence;
use ralph_core::id::{RunId, SessionId};

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
    // The newest task list is the one that was seen last.
    sight.observed = sight.observed.or_else(|| before.cloned());
    let evidence = sources::for_run(world, &opened, &stop, &sight);
    let requirements = decide::weighed(&evidence.requirements, &opened.state, world.arrived_ms);
    Ok(Evidence { requirements, ..evidence })
}
