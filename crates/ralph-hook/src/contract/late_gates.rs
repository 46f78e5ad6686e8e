//! Evidence that is gathered last: it costs much, and while anything else is open it would be gathered in vain.
//!
//! Whatever runs last asks [`open_before_late`] first, and is pending with that reason while there is one.

use ralph_core::gate::{Gate, GateTier};
use ralph_core::requirement::{EVERYTHING_ELSE, PendingReason, Requirement, RequirementStatus};

use super::ContractContext;
use super::gate_query::{self, GateQuery, JudgedGates};

/// Splits off the gates of the slow tier, which run after everything else.
pub(super) fn split_off_late(wanted: Vec<&Gate>) -> (Vec<&Gate>, Vec<&Gate>) {
    wanted.into_iter().partition(|gate| gate.tier == GateTier::Fast)
}

/// Why late evidence is not gathered yet; `None` if nothing else is open.
pub(super) fn open_before_late(
    contract: &ContractContext<'_>,
    judged: &[&[Requirement]],
) -> Option<PendingReason> {
    let open = judged.iter().copied().flatten().filter(|one| contract.holds(one));
    let open: Vec<&Requirement> = open.collect();
    // A worker that is running must not be replaced by one for the late gates.
    if !open.is_empty() && open.iter().all(|one| one.is_running()) {
        let why = "waits for the other gates; the result will be available at a later stop";
        return Some(PendingReason::Running(why.to_string()));
    }
    let gates = &contract.seal.policy.gates;
    let is_gate = |one: &&Requirement| gates.iter().any(|gate| gate.name == one.name);
    let earlier = if open.iter().any(is_gate) { "the fast gates" } else { EVERYTHING_ELSE };
    (!open.is_empty()).then(|| PendingReason::comes_after(earlier))
}

/// The requirements of late gates. They do not run while something else is open.
pub(super) fn late_requirements(query: &GateQuery<'_>, open: Option<PendingReason>) -> JudgedGates {
    if query.wanted.is_empty() {
        return JudgedGates::default();
    }
    let Some(open) = open else { return gate_query::gate_requirements(query) };
    let pending = RequirementStatus::Pending(open);
    let requirements = query.wanted.iter().map(|gate| gate.requirement_with(pending.clone()));
    JudgedGates { requirements: requirements.collect(), ..JudgedGates::default() }
}
