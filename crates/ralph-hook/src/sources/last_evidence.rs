//! Evidence that is gathered last, because it takes longest: the proof, and the checks of CI.

use crate::contract::{self, ContractContext, MeasuredContract, ProofEvidence};
use ralph_core::facts::StopEvidence;
use ralph_core::run::RunState;

/// Adds the proof. It is needed only if every other requirement is met, except those of CI and judges, which come later.
pub(super) fn add_proof(
    contract: &ContractContext<'_>,
    measured: &MeasuredContract,
    evidence: &mut StopEvidence,
) {
    // A waiver makes a proof unnecessary, even a waiver for CI.
    let waived = contract::waiting_ci_requirements(contract, measured);
    let waived = waived.into_iter().filter(|one| !contract.holds(one));
    let weighed: Vec<_> = evidence.requirements.iter().cloned().chain(waived).collect();
    match contract::gather_proof(contract, measured, &weighed) {
        ProofEvidence::NotNeeded => {}
        ProofEvidence::Known(proof) => evidence.proof = Some(proof),
        ProofEvidence::Open(requirement) => evidence.requirements.push(requirement),
    }
}

/// Adds the requirements of CI. It takes the most time and needs a commit, so it is asked after the proof.
pub(super) fn add_ci(
    contract: &ContractContext<'_>,
    measured: &MeasuredContract,
    state: &RunState,
    evidence: &mut StopEvidence,
) {
    let waiting = contract::waiting_ci_requirements(contract, measured);
    if waiting.is_empty() {
        return;
    }
    let is_open = evidence.requirements.iter().any(|one| contract.holds(one));
    let waits_for_proof = !is_open && contract::must_improve_proof(contract, state, evidence);
    if is_open || waits_for_proof {
        evidence.waits_for_proof = waits_for_proof;
        evidence.requirements.extend(waiting);
        return;
    }
    let (asked, records) = contract::ci_requirements(contract, measured);
    evidence.gates.extend(records);
    evidence.requirements.extend(asked);
}
