//! Judges the work tree of a session without a run by the gates alone, and only by what got worse since the session
//! began. Nothing else of the policy holds such a session: a person may ask for any change in it.

use std::borrow::Cow;
use std::time::Duration;

use ralph_core::facts::TreeIdentity;
use ralph_core::gate::{
    BaselineMode, Gate, GateOutcome, GateReport, GateTier, GateTrigger, MinTests,
};
use ralph_core::policy::ProofMode;
use ralph_core::record::{GateRecord, PolicySeal, RunBase, RunOrigin};
use ralph_core::requirement::{EvidenceKind, PendingReason, Requirement, RequirementStatus};

use super::gate_query::{self, GateQuery, MeasuredGates, WorkerWait};
use super::gate_worker::GateSite;
use super::seal::{self, SealError, SealRequest};
use super::{ContractContext, baseline, change_summary, unknown_requirement};
use ralph_gates::gates::gate_history::GateHistory;
use ralph_gates::gates::result_cache::ResultCache;
use ralph_gates::gates::result_key::ResultKey;
use ralph_gates::gates::{ContentView, GateContent};
use ralph_git::tree::WorkTreeListing;
use ralph_home::faults::describe_error;
use ralph_policy::config::ProjectConfig;
use ralph_policy::trust::ApprovalSubject;

/// Why a failure cannot be compared if the session has no base.
const NO_BASE: &str = "without git there is nothing to compare with";

/// The gates of a session without a run, and the tree they judged.
#[derive(Debug)]
pub struct SessionJudgement {
    pub requirements: Vec<Requirement>,
    /// The results that were used, for the journal.
    pub records: Vec<GateRecord>,
    pub tree: TreeIdentity,
}

/// Seals a policy for a session without a run: old failures count for nothing, nor does the number of tests.
pub fn seal_session(
    sealing: &SealRequest<'_>,
    config: &ProjectConfig,
    subject: &ApprovalSubject,
    base: Option<RunBase>,
) -> Result<PolicySeal, SealError> {
    let mut seal = seal::seal_with_base(sealing, config, subject, base)?;
    seal.policy.baseline = BaselineMode::Ratchet;
    seal.policy.verify.proof = ProofMode::Off;
    for gate in &mut seal.policy.gates {
        if gate.min_tests == MinTests::Baseline {
            gate.min_tests = MinTests::Some;
        }
    }
    Ok(seal)
}

/// Runs the gates that judge a stop. A gate that usually takes longer than `[session] slow` continues in the background.
/// `known` is the current tree, if the caller has listed it.
pub fn judge_session(
    contract: &ContractContext<'_>,
    known: Option<&WorkTreeListing>,
) -> SessionJudgement {
    let exclude = contract.exclude();
    let place = contract.gate_place(GateContent::Tree { exclude: &exclude });
    let listing = match known.map_or_else(
        || ContentView::read(&place),
        |listing| Ok(ContentView::Tree(Cow::Borrowed(listing))),
    ) {
        Ok(ContentView::Tree(listing)) => listing,
        Ok(ContentView::Checkout(_)) => return SessionJudgement::unknown("it is not a work tree"),
        Err(error) => return SessionJudgement::unknown(&describe_error(&error)),
    };
    let needs_change = |gate: &Gate| !gate.when.is_empty() || gate.coverage.min_changed.is_some();
    let change = contract
        .seal
        .policy
        .gates
        .iter()
        .any(needs_change)
        .then(|| change_summary::summarise_change(contract, &listing));
    let touched = change.as_ref().map_or(&[][..], |change| &change.touched);
    let changed = contract.seal.base.as_ref().and(change.as_ref());
    let changed = changed.map(|change| change.changed_lines.as_slice());
    let asks = |gate: &Gate| gate.on.contains(&GateTrigger::Stop);
    let wanted = gate_query::select_gates(contract, touched, &asks);
    let slow = Duration::from_millis(contract.seal.policy.session.slow_ms);
    let history = GateHistory::read(&contract.world.home, contract.project());
    let is_slow = |gate: &&Gate| {
        gate.tier == GateTier::Slow
            || history.expected_ms(&gate.name).is_some_and(|ms| Duration::from_millis(ms) > slow)
    };
    let (slow_gates, fast_gates): (Vec<&Gate>, Vec<&Gate>) =
        wanted.iter().copied().partition(is_slow);
    let query = |wanted: &[&Gate], wait: Duration| {
        gate_query::judge_gates(&GateQuery {
            contract,
            wanted,
            place: &place,
            site: GateSite::Tree,
            listing: Some(listing.as_ref()),
            wait: WorkerWait::AtMost(wait),
            changed,
        })
    };
    let MeasuredGates { mut requirements, mut accepted, mut records } = query(&fast_gates, slow);
    if requirements.iter().any(|one| contract.holds(one)) {
        let waits = |gate: &&Gate| {
            let why = "waits for the faster gates".to_string();
            gate.requirement_with(RequirementStatus::Pending(PendingReason::NotReached(why)))
        };
        requirements.extend(slow_gates.iter().map(waits));
    } else {
        let measured = query(&slow_gates, Duration::ZERO);
        requirements.extend(measured.requirements);
        accepted.extend(measured.accepted);
        records.extend(measured.records);
    }
    let is_passed = |gate: &&&Gate| {
        let is_met = |one: &Requirement| matches!(one.status, RequirementStatus::Met(_));
        requirements.iter().any(|one| one.name == gate.name && is_met(one))
            && !accepted.iter().any(|report| report.name == gate.name)
    };
    remember_passed(contract, &listing, wanted.iter().filter(is_passed));
    requirements.extend(baseline::old_failures_requirement(&accepted));
    let tree = TreeIdentity::Known(listing.content_and_commit_mark());
    SessionJudgement { requirements, records, tree }
}

impl SessionJudgement {
    fn unknown(why: &str) -> Self {
        let requirements = vec![unknown_requirement("work tree", why)];
        Self { requirements, records: Vec::new(), tree: TreeIdentity::Unknown }
    }
}

/// The status of a failed gate in a session without a run that does not hold it; `None` if only what got worse counts,
/// and for every run.
pub(super) fn excused_failure(
    contract: &ContractContext<'_>,
    report: &GateReport,
    base: Option<&GateReport>,
) -> Option<RequirementStatus> {
    if contract.run.origin != RunOrigin::Session || report.outcome != GateOutcome::Failed {
        return None;
    }
    let unknown = |why: &str| {
        Some(RequirementStatus::Unknown(format!("it fails, but may have failed before: {why}")))
    };
    match base.map(|base| &base.outcome) {
        None => unknown(NO_BASE),
        Some(GateOutcome::Unknown(reason)) => unknown(&reason.describe()),
        // A gate that names neither tests nor places fails in both, so the failure is old, whatever its text.
        Some(GateOutcome::Failed) if names_nothing(report) && base.is_some_and(names_nothing) => {
            Some(RequirementStatus::Met(EvidenceKind::Measured))
        }
        Some(GateOutcome::Passed | GateOutcome::Failed) => None,
    }
}

fn names_nothing(report: &GateReport) -> bool {
    report.cases.as_ref().is_none_or(|cases| cases.failed.is_empty())
        && !report.all_findings().any(|finding| finding.place.is_some())
}

/// The result to compare a later one with, if the gate has passed in this session, or on the tree that it began with.
pub(super) fn passed_result(
    contract: &ContractContext<'_>,
    cache: &ResultCache,
    gate: &Gate,
) -> Option<GateReport> {
    if contract.run.origin != RunOrigin::Session {
        return None;
    }
    let base = contract.seal.base.as_ref().map(|base| base.identity.as_str());
    let keys = [Some(session_key(contract, gate)), base.map(|base| tree_key(contract, gate, base))];
    let is_known = keys.iter().flatten().any(|key| cache.read_note(key).is_some());
    is_known.then(|| GateReport::new(&gate.name, GateOutcome::Passed, 0))
}

/// Remembers which gates passed, for this session and for others that begin with the same tree.
fn remember_passed<'a>(
    contract: &ContractContext<'_>,
    listing: &WorkTreeListing,
    passed: impl Iterator<Item = &'a &'a Gate>,
) {
    let Ok(cache) = ResultCache::open(&contract.world.home) else { return };
    for gate in passed {
        for key in [session_key(contract, gate), tree_key(contract, gate, &listing.identity())] {
            // Without the note, the next failure is compared with a checkout of the base.
            drop(cache.write_note(&key, b"passed"));
        }
    }
}

fn session_key(contract: &ContractContext<'_>, gate: &Gate) -> ResultKey {
    contract.run_note_key(&format!("passed in the session: {}", gate.name))
}

fn tree_key(contract: &ContractContext<'_>, gate: &Gate, identity: &str) -> ResultKey {
    let mut hasher = blake3::Hasher::new_derive_key("ralph gate passed on tree");
    for part in [&contract.seal.project, &contract.seal.hash, identity, &gate.name] {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    ResultKey(hasher.finalize().into())
}
