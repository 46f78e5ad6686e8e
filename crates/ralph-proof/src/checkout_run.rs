//! Gates on one tree in a checkout, outside of a proof.

use ralph_core::gate::{Gate, GateReport};
use ralph_gates::gates::result_key::PathGlobs;
use ralph_sys::clock::Deadline;
use std::path::Path;

use crate::first_step::step_limit_ms;
use crate::proof_plan::{ProofPlan, StepTree};
use crate::proof_step::{CHECKOUT_TIMEOUT, StepGate, run_step};
use crate::prove::{ProofError, ProofRequest, step_gates};
use crate::tree_composition::TreeComposition;

/// The versions that a tree is made of.
#[derive(Clone, Copy, Debug)]
pub enum CheckoutTree<'a> {
    /// The base with its own tests. The candidate of the request is not used.
    Base,
    /// The candidate, with the files that match as in the base.
    Candidate { protected: &'a PathGlobs },
    /// The base with the tests of the candidate.
    NewTests,
}

/// Runs the gates of the request, apart from those with a cached result. The reports are in the order of the gates. A
/// gate gets at most three times as long as `known_ms` says that it takes, and half a minute.
pub fn run_in_checkout(
    request: &ProofRequest<'_>,
    tree: CheckoutTree<'_>,
    known_ms: &dyn Fn(&Gate) -> Option<u64>,
) -> Result<Vec<GateReport>, ProofError> {
    let deadline = Deadline::after(CHECKOUT_TIMEOUT);
    let tree = match tree {
        CheckoutTree::Base => StepTree::of_base(request, &deadline)?,
        CheckoutTree::Candidate { protected } => {
            let kept = changed_and_protected(request, protected, &deadline)?;
            StepTree::of_candidate(request, &kept, &deadline)?
        }
        CheckoutTree::NewTests => ProofPlan::new(request, &deadline)?.new_tests,
    };
    let limit_ms = |gate: &Gate| known_ms(gate).map(step_limit_ms);
    let gates = step_gates(request.gates, |_| false);
    let gates: Vec<StepGate<'_>> =
        gates.into_iter().map(|gate| StepGate { limit_ms: limit_ms(gate.gate), ..gate }).collect();
    Ok(run_step(request, &tree, &gates)?.reports)
}

/// The changed files that match, as part of a composition that takes them from the base.
fn changed_and_protected(
    request: &ProofRequest<'_>,
    protected: &PathGlobs,
    deadline: &Deadline,
) -> Result<TreeComposition, ProofError> {
    let below = request.project_below();
    let changed = request.repository.diff(request.base, request.candidate, deadline)?;
    let paths = changed.into_iter().map(|change| change.path);
    let is_protected = |path: &std::ffi::OsString| {
        Path::new(path).strip_prefix(&below).is_ok_and(|path| protected.is_match(path))
    };
    let outside = paths.filter(is_protected).collect();
    Ok(TreeComposition { outside, ..TreeComposition::default() })
}
