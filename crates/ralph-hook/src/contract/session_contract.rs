//! Judges the work tree of a session without a run by the gates alone, and only by what got worse since the session
//! began. Nothing else of the policy holds such a session: a person may ask for any change in it.

use std::time::Duration;

use ralph_core::facts::TreeIdentity;
use ralph_core::gate::{BaselineMode, Gate, GateOutcome, GateReport, GateTrigger, MinTests};
use ralph_core::policy::ProofMode;
use ralph_core::record::{PolicySeal, RunBase, RunOrigin};
use ralph_core::requirement::{
    OLD_FAILURES_SUFFIX, PendingReason, Requirement, RequirementStatus, RequirementWeight,
};

use super::gate_query::{self, GateQuery, WorkerWait};
use super::gate_worker::GateSite;
use super::seal::{self, SealError, SealRequest};
use super::{ContractContext, change_summary, unknown_requirement};
use ralph_gates::gates::gate_history::GateHistory;
use ralph_gates::gates::result_cache::ResultCache;
use ralph_gates::gates::result_key::ResultKey;
use ralph_gates::gates::{ContentView, GateContent};
use ralph_git::tree::WorkTreeListing;
use ralph_home::faults::describe_error;
use ralph_policy::config::ProjectConfig;
use ralph_policy::trust::ApprovalSubject;

/// The gates of a session without a run, and the tree they judged.
#[derive(Debug)]
pub struct SessionJudgement {
    pub requirements: Vec<Requirement>,
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
pub fn judge_session(contract: &ContractContext<'_>) -> SessionJudgement {
    let exclude = contract.exclude();
    let place = contract.gate_place(GateContent::Tree { exclude: &exclude });
    let listing = match ContentView::read(&place) {
        Ok(ContentView::Tree(listing)) => listing.into_owned(),
        Ok(ContentView::Checkout(_)) => return SessionJudgement::unknown("it is not a work tree"),
        Err(error) => return SessionJudgement::unknown(&describe_error(&error)),
    };
    let is_selective = contract.seal.policy.gates.iter().any(|gate: &Gate| !gate.when.is_empty());
    let touched = if is_selective {
        change_summary::summarise_change(contract, &listing).touched
    } else {
        Vec::new()
    };
    let asks = |gate: &Gate| gate.on.contains(&GateTrigger::Stop);
    let wanted = gate_query::select_gates(contract, &touched, &asks);
    let slow = Duration::from_millis(contract.seal.policy.session.slow_ms);
    let history = GateHistory::read(&contract.world.home, contract.project());
    let is_slow = |gate: &&Gate| {
        history.expected_ms(&gate.name).is_some_and(|ms| Duration::from_millis(ms) > slow)
    };
    let (slow_gates, fast_gates): (Vec<&Gate>, Vec<&Gate>) =
        wanted.iter().copied().partition(is_slow);
    let query = |wanted: &[&Gate], wait: Duration| {
        gate_query::gate_requirements(&GateQuery {
            contract,
            wanted,
            place: &place,
            site: GateSite::Tree,
            listing: Some(&listing),
            wait: WorkerWait::AtMost(wait),
        })
    };
    let mut requirements = query(&fast_gates, slow);
    if requirements.iter().any(|one| contract.holds(one)) {
        let waits = |gate: &&Gate| {
            let why = "waits for the faster gates".to_string();
            gate.requirement_with(RequirementStatus::Pending(PendingReason::NotReached(why)))
        };
        requirements.extend(slow_gates.iter().map(waits));
    } else {
        requirements.extend(query(&slow_gates, Duration::ZERO));
    }
    remember_passed(contract, &listing, &wanted, &requirements);
    let tree = TreeIdentity::Known(listing.content_and_commit_mark());
    SessionJudgement { requirements, tree }
}

impl SessionJudgement {
    fn unknown(why: &str) -> Self {
        let requirements = vec![unknown_requirement("work tree", why)];
        Self { requirements, tree: TreeIdentity::Unknown }
    }
}

/// Why a failure in a session without a run may be an old one; `None` if it can be compared, and for every run.
pub(super) fn comparison_doubt(
    contract: &ContractContext<'_>,
    base: Option<&GateReport>,
) -> Option<String> {
    if contract.run.origin != RunOrigin::Session {
        return None;
    }
    match base.map(|base| &base.outcome) {
        None => Some("it fails, but may have failed before: there is no base".to_string()),
        Some(GateOutcome::Unknown(unknown)) => {
            Some(format!("it fails, but may have failed before: {}", unknown.describe()))
        }
        Some(GateOutcome::Passed | GateOutcome::Failed) => None,
    }
}

/// Whether a failure in a session without a run counts as an old one although its text differs from that of the base: a
/// gate that names neither tests nor places fails in both.
pub(super) fn is_old_without_findings(
    contract: &ContractContext<'_>,
    report: &GateReport,
    base: Option<&GateReport>,
) -> bool {
    let names_nothing = |report: &GateReport| {
        report.cases.as_ref().is_none_or(|cases| cases.failed.is_empty())
            && !report.all_findings().any(|finding| finding.place.is_some())
    };
    contract.run.origin == RunOrigin::Session
        && base.is_some_and(|base| base.outcome == GateOutcome::Failed && names_nothing(base))
        && names_nothing(report)
}

/// Names a gate of a session without a run that fails no more than at the base.
pub(super) fn old_failures_requirement(
    contract: &ContractContext<'_>,
    gate: &Gate,
    report: &GateReport,
    requirement: &Requirement,
) -> Option<Requirement> {
    let is_excused = contract.run.origin == RunOrigin::Session
        && report.outcome == GateOutcome::Failed
        && matches!(requirement.status, RequirementStatus::Met(_));
    is_excused.then(|| Requirement {
        name: old_failures_name(gate),
        weight: RequirementWeight::Advisory,
        ..gate.requirement_with(RequirementStatus::Unmet(report.failure()))
    })
}

fn old_failures_name(gate: &Gate) -> String {
    format!("{}{OLD_FAILURES_SUFFIX}", gate.name)
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
fn remember_passed(
    contract: &ContractContext<'_>,
    listing: &WorkTreeListing,
    wanted: &[&Gate],
    requirements: &[Requirement],
) {
    let Ok(cache) = ResultCache::open(&contract.world.home) else { return };
    let is_met = |name: &str| {
        let named =
            |one: &Requirement| one.name == name && matches!(one.status, RequirementStatus::Met(_));
        requirements.iter().any(named)
    };
    let has_old_failures =
        |gate: &Gate| requirements.iter().any(|one| one.name == old_failures_name(gate));
    for gate in wanted.iter().filter(|gate| is_met(&gate.name) && !has_old_failures(gate)) {
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
