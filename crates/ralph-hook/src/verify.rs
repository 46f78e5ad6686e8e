//! Gathers the evidence that a stop would gather, without deciding, counting or holding anything.

use crate::contract::JudgeAsking;
use crate::sources;
use crate::transcript_reader;
use ralph_core::decide;
use ralph_core::event::StopEvent;
use ralph_core::facts::StopEvidence;
use ralph_core::id::{RunId, SessionId};
use ralph_home::store::{self, StoreError};
use ralph_home::world::World;

/// The evidence for `ralph verify`, with waivers and disputes applied.
pub fn verify_run(
    world: &World,
    session: &SessionId,
    run: &RunId,
) -> Result<StopEvidence, StoreError> {
    let opened = store::load_run(&world.home, run)?;
    let stop = StopEvent {
        session: Some(session.clone()),
        cwd: None,
        transcript: None,
        prompt: None,
        continuing: false,
        last_message: None,
        trouble: None,
        pending: Vec::new(),
    };
    let before = opened.state.observed.as_ref();
    let mut snapshot =
        transcript_reader::read_transcript(world, &stop, before, opened.run.checklist);
    // Without a new one, the task list of the last stop counts.
    snapshot.observed = snapshot.observed.or_else(|| before.cloned());
    let evidence = sources::evidence_for_run(world, &opened, &stop, &snapshot, JudgeAsking::Never);
    let requirements = decide::apply_adjustments(
        &evidence.requirements,
        &opened.state,
        &evidence.judging.records,
        world.arrived_ms,
    );
    Ok(StopEvidence { requirements, ..evidence })
}
