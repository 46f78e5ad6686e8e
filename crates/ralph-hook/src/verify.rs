//! Gathers the evidence that a stop would gather, without deciding, counting or holding anything.

use crate::contract::JudgeMode;
use crate::sources;
use crate::transcript_reader;
use ralph_core::decide;
use ralph_core::event::StopEvent;
use ralph_core::facts::StopEvidence;
use ralph_core::id::{RunId, SessionId};
use ralph_core::policy::ProofMode;
use ralph_core::proof::Proof;
use ralph_core::waiver;
use ralph_home::store::{self, StoreError};
use ralph_home::world::World;

/// The evidence for `ralph verify`, with waivers and disputes applied, and with the proof if it would hold the agent.
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
    let evidence =
        sources::evidence_for_run(world, &opened, &stop, &snapshot, JudgeMode::CachedOnly);
    let (state, now_ms) = (&opened.state, world.arrived_ms);
    let mut requirements =
        decide::apply_adjustments(&evidence.requirements, state, &evidence.judging.records, now_ms);
    let excuse = |proof: &Proof| {
        proof.without_waived(|test| waiver::is_test_waived(test, &state.waivers, now_ms))
    };
    let proof = evidence.proof.as_ref().map(excuse);
    let mode = opened.run.seal.as_ref().map_or(ProofMode::Off, |seal| seal.policy.verify.proof);
    let holding = proof.as_ref().filter(|one| decide::holds_for_proof(one, mode, state, now_ms));
    let is_open = requirements.iter().any(|one| one.is_open() && !one.comes_later());
    requirements.extend(holding.filter(|_| !is_open).map(Proof::requirement));
    Ok(StopEvidence { requirements, proof, ..evidence })
}
