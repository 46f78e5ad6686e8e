//! Gates that run last: those of the slow tier, then those that ask a CI provider. While anything else is open, their
//! result would be stale by the next stop.
//!
//! Callers check [`slow_gate_blocker`] first; while it returns a reason, the gates are pending with it.

use ralph_core::gate::{Gate, GateTier};
use ralph_core::record::GateRecord;
use ralph_core::requirement::{EVERYTHING_ELSE, PendingReason, Requirement, RequirementStatus};

use super::gate_query::{self, GateQuery, MeasuredGates, WorkerWait};
use super::gate_worker::GateSite;
use super::{ContractContext, MeasuredContract, sealed_variables};
use ralph_gates::gates::GateContent;

/// Splits off the gates of the slow tier, which run after everything else.
pub(super) fn split_slow_gates(wanted: Vec<&Gate>) -> (Vec<&Gate>, Vec<&Gate>) {
    wanted.into_iter().partition(|gate| gate.tier == GateTier::Fast)
}

/// Why slow gates do not start yet; `None` if nothing else is open.
pub(super) fn slow_gate_blocker(
    contract: &ContractContext<'_>,
    requirements: &[&[Requirement]],
) -> Option<PendingReason> {
    let open = requirements.iter().copied().flatten().filter(|one| contract.holds(one));
    let open: Vec<&Requirement> = open.collect();
    // A worker that is running must not be replaced by one for the slow gates.
    if !open.is_empty() && open.iter().all(|one| one.is_running()) {
        let why = "waits for the other gates; the result will be available at a later stop";
        return Some(PendingReason::Running(why.to_string()));
    }
    let gates = &contract.seal.policy.gates;
    let is_gate = |one: &&Requirement| gates.iter().any(|gate| gate.name == one.name);
    let earlier = if open.iter().any(is_gate) { "the fast gates" } else { EVERYTHING_ELSE };
    (!open.is_empty()).then(|| PendingReason::comes_after(earlier))
}

/// The requirements of slow gates, pending while `open` has a reason.
pub(super) fn slow_gate_requirements(
    query: &GateQuery<'_>,
    open: Option<PendingReason>,
) -> MeasuredGates {
    if query.wanted.is_empty() {
        return MeasuredGates::default();
    }
    let Some(open) = open else { return gate_query::gate_requirements(query) };
    let pending = RequirementStatus::Pending(open);
    let requirements = query.wanted.iter().map(|gate| gate.requirement_with(pending.clone()));
    MeasuredGates { requirements: requirements.collect(), ..MeasuredGates::default() }
}

/// The requirements of gates that ask a CI provider, while something else is open.
pub fn waiting_ci_requirements(
    contract: &ContractContext<'_>,
    measured: &MeasuredContract,
) -> Vec<Requirement> {
    let why = PendingReason::comes_after(EVERYTHING_ELSE);
    let wanted = gate_query::select_ci_gates(contract, &measured.touched);
    let waits = |gate: &&Gate| gate.requirement_with(RequirementStatus::Pending(why.clone()));
    wanted.iter().map(waits).collect()
}

/// The requirements of gates that ask a CI provider.
pub fn ci_requirements(
    contract: &ContractContext<'_>,
    measured: &MeasuredContract,
) -> (Vec<Requirement>, Vec<GateRecord>) {
    let wanted = gate_query::select_ci_gates(contract, &measured.touched);
    if wanted.is_empty() {
        return (Vec::new(), Vec::new());
    }
    if let Some(why) = sealed_variables::describe_changed_variables(contract) {
        let unknown = RequirementStatus::Unknown(format!("not asked: {why}"));
        let refused = wanted.iter().map(|gate| gate.requirement_with(unknown.clone()));
        return (refused.collect(), Vec::new());
    }
    let exclude = contract.exclude();
    let place = contract.gate_place(GateContent::Tree { exclude: &exclude });
    let MeasuredGates { mut requirements, records, .. } =
        gate_query::gate_requirements(&GateQuery {
            contract,
            wanted: &wanted,
            place: &place,
            site: GateSite::Tree,
            listing: None,
            wait: WorkerWait::UntilAnswer,
            changed: None,
        });
    let is_met = |one: &Requirement| !contract.holds(one);
    if requirements.iter().all(is_met) && !super::is_tree_unchanged(contract, measured) {
        requirements.push(super::unknown_requirement("work tree", "it changed while CI was asked"));
    }
    (requirements, records)
}
