//! Results of gates in checkouts that no agent works in: at the base of the run, on the candidate with protected files as
//! at the base, and at the base with the tests of the candidate.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ralph_core::gate::{BaselineMode, Gate, GateOutcome, GateReport, ResultStability};

use super::change_summary::{self, CandidateCheckpoint, StopCheckpoint};
use super::environment_evidence::{self, InstalledState};
use super::gate_worker::{self, GateSite, GateWorkerError, WorkerState};
use super::proof_sides::ProofSides;
use super::{
    ContractContext, base_checkpoint, base_checks, baseline, project_base, session_contract,
};
use ralph_gates::findings::confirm_base;
use ralph_gates::gates::gate_history::GateHistory;
use ralph_gates::gates::result_cache::{CachedResult, ResultCache};
use ralph_gates::gates::result_key::{ResultKey, compile_globs};
use ralph_gates::gates::{ContentView, GateContent, GateResult};
use ralph_proof::environment_record::RecordLimits;
use ralph_proof::{BaseCheckout, CheckoutTree, run_in_checkout};
use ralph_sys::clock::{self, Deadline};
use ralph_sys::fs::FileError;
use ralph_sys::fs::file_slot;
use ralph_sys::proc::cancel::CancelToken;
use serde::{Deserialize, Serialize};

/// How long a stop waits for the measurement of the base if it decides about a result, besides three times as long as the
/// gates took.
const BASE_MARGIN_MS: u64 = 30_000;
/// How long it waits otherwise. Most bases are measured by then, and a hold need not wait for the others.
const LABEL_TIMEOUT: Duration = Duration::from_secs(5);

/// The content of a checkout of the candidate with the packages that are installed now; `None` without a base.
pub(super) fn present_content(
    contract: &ContractContext<'_>,
    site: GateSite,
    candidate: &CandidateCheckpoint,
) -> Option<[u8; 32]> {
    let cache = ResultCache::open(&contract.world.home).ok()?;
    let installed = InstalledState::read(contract, &cache).content_mark();
    candidate_content(contract, site, candidate, &installed)
}

/// Identifies the content of a checkout of the candidate, for the keys of its results.
fn candidate_content(
    contract: &ContractContext<'_>,
    site: GateSite,
    candidate: &CandidateCheckpoint,
    installed: &[u8; 32],
) -> Option<[u8; 32]> {
    let base = contract.seal.base.as_ref()?;
    let parts = [site.name().as_bytes(), base.commit.as_bytes(), &candidate.tree, installed];
    Some(hash_content(contract, &parts))
}

fn base_content(contract: &ContractContext<'_>) -> Option<[u8; 32]> {
    let base = contract.seal.base.as_ref()?;
    Some(hash_content(contract, &[b"base", base.commit.as_bytes()]))
}

fn hash_content(contract: &ContractContext<'_>, parts: &[&[u8]]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    let policy = &contract.seal.policy;
    let globs = policy.protect.paths.iter().chain(&policy.verify.link);
    for part in parts.iter().copied().chain(globs.map(String::as_bytes)) {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hasher.finalize().into()
}

fn result_key(contract: &ContractContext<'_>, content: [u8; 32], gate: &Gate) -> ResultKey {
    let place = contract.gate_place(GateContent::Checkout(content));
    ContentView::Checkout(content).key(&place, gate)
}

/// Runs gates on the candidate with protected files as at the base, or on the base with the candidate's tests.
pub(super) fn run_on_candidate(
    contract: &ContractContext<'_>,
    site: GateSite,
    gates: &[&Gate],
    cancel: &CancelToken,
) -> Result<(), GateWorkerError> {
    let protected = compile_globs(&contract.seal.policy.protect.paths);
    let tree = match site {
        GateSite::Red => CheckoutTree::NewTests,
        GateSite::Tree | GateSite::Clean | GateSite::Proof | GateSite::Base | GateSite::Judge => {
            CheckoutTree::Candidate { protected: &protected }
        }
    };
    let cache = ResultCache::open(&contract.world.home)?;
    let asked = InstalledState::read(contract, &cache).content_mark();
    // The measurement of the base records the installed packages, and may use the same port.
    let Some(_measured) = lock_base(contract, Duration::MAX, cancel)? else { return Ok(()) };
    let (reports, candidate) = run_on_tree(contract, tree, gates, cancel)?;
    let now = InstalledState::read(contract, &cache).content_mark();
    // The hook that asked knows the packages as they were recorded then.
    for installed in BTreeSet::from([asked, now]) {
        if let Some(content) = candidate_content(contract, site, &candidate, &installed) {
            store_results(contract, &cache, content, gates, &reports)?;
        }
    }
    Ok(())
}

/// Checkpoints the work tree and runs gates in a checkout composed of it and the base.
fn run_on_tree(
    contract: &ContractContext<'_>,
    tree: CheckoutTree<'_>,
    gates: &[&Gate],
    cancel: &CancelToken,
) -> Result<(Vec<GateReport>, CandidateCheckpoint), GateWorkerError> {
    let exclude = contract.exclude();
    let place = contract.gate_place(GateContent::Tree { exclude: &exclude });
    let view = ContentView::read(&place)?;
    let ContentView::Tree(listing) = view else {
        return Err(GateWorkerError::NoTreeResults("it is not a work tree".to_string()));
    };
    let StopCheckpoint { repository, now: candidate, .. } =
        change_summary::checkpoint_tree(contract, &listing)?;
    let deadline = Deadline::after(base_checkpoint::CHECKOUT_TIMEOUT);
    let base = base_checkpoint::find_base(contract, &repository, &deadline)?;
    let cache = ResultCache::open(&contract.world.home)?;
    let installed = InstalledState::read(contract, &cache).content_mark();
    let repository = &repository;
    let identity = CandidateCheckpoint::new(repository, &candidate);
    let sides = ProofSides { repository, base: &base, candidate: &candidate, installed };
    let reports = sides.with_request(contract, gates, &[], cancel, |request| {
        run_in_checkout(request, tree, &|_| None).map_err(GateWorkerError::from)
    })?;
    Ok((reports, identity))
}

/// Why the base is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BaseNeed {
    /// The run starts. A gate that cannot run now may run when its result is needed.
    RunStart,
    /// A stop compares a result with it.
    Stop,
}

/// Records the installed packages and runs the gates at the base, in a worker of its own. At the start of a run, the
/// checks of its lists come after the gates, which stops compare with.
pub(super) fn measure_base(
    contract: &ContractContext<'_>,
    gates: &[&Gate],
    need: BaseNeed,
    cancel: &Arc<CancelToken>,
) -> Result<(), GateWorkerError> {
    let (gates, checks): (Vec<&Gate>, Vec<&Gate>) =
        gates.iter().copied().partition(|gate| contract.is_of_policy(gate));
    if !gates.is_empty() || checks.is_empty() {
        measure_gates(contract, &gates, need, cancel)?;
    }
    if checks.is_empty() || need != BaseNeed::RunStart {
        return Ok(());
    }
    let cache = ResultCache::open(&contract.world.home)?;
    with_base_sides(contract, &cache, |sides| {
        base_checks::try_base_checks(contract, sides, &checks, cancel)
    })
}

fn measure_gates(
    contract: &ContractContext<'_>,
    gates: &[&Gate],
    need: BaseNeed,
    cancel: &Arc<CancelToken>,
) -> Result<(), GateWorkerError> {
    let started_ms = clock::now_ms();
    let cache = ResultCache::open(&contract.world.home)?;
    environment_evidence::record_packages(contract, &cache, &RecordLimits::LARGE);
    // First, because the agent may change the project at any moment. Only at the start: later it could restore the files of
    // the base and change those that git ignores. Without a result, no failure is an old one.
    if need == BaseNeed::RunStart && project_base::is_needed(contract) {
        drop(project_base::measure_project(contract, &cache, gates, cancel));
    }
    let is_missing = |gate: &&&Gate| stored_result(contract, &cache, gate).is_none();
    let gates: Vec<&Gate> = gates.iter().filter(is_missing).copied().collect();
    let (Some(content), false) = (base_content(contract), gates.is_empty()) else { return Ok(()) };
    let reports = run_on_base(contract, &cache, &gates, need, cancel)?;
    let is_kept = |report: &GateReport| {
        need == BaseNeed::Stop || !matches!(report.outcome, GateOutcome::Unknown(_))
    };
    let (gates, reports): (Vec<&Gate>, Vec<GateReport>) =
        gates.iter().zip(reports).filter(|(_, report)| is_kept(report)).unzip();
    if !cancel.is_cancelled() {
        store_results(contract, &cache, content, &gates, &reports)?;
    }
    let times = MeasuredTimes { started_ms, ended_ms: clock::now_ms() };
    cache.write_note(&times_key(contract), &serde_json::to_vec(&times).unwrap_or_default())?;
    Ok(())
}

/// When the base was last measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct MeasuredTimes {
    started_ms: u64,
    ended_ms: u64,
}

fn times_key(contract: &ContractContext<'_>) -> ResultKey {
    contract.run_note_key("times of the base")
}

/// Whether tests failed while the base was measured, which has ended since. They may have used the same port.
pub(super) fn failed_during_base_measurement(
    contract: &ContractContext<'_>,
    cache: &ResultCache,
    report: &GateReport,
) -> bool {
    let ended_ms = report.at_ms.saturating_add(report.took_ms);
    let times = || serde_json::from_slice(&cache.read_note(&times_key(contract))?).ok();
    report.outcome == GateOutcome::Failed
        && report.steadiness == ResultStability::Confirmed
        && times().is_some_and(|times: MeasuredTimes| {
            (times.started_ms..=times.ended_ms).contains(&ended_ms)
        })
}

fn run_on_base(
    contract: &ContractContext<'_>,
    cache: &ResultCache,
    gates: &[&Gate],
    need: BaseNeed,
    cancel: &CancelToken,
) -> Result<Vec<GateReport>, GateWorkerError> {
    let history = GateHistory::read(&contract.world.home, contract.project());
    // In the project a gate may reuse what it built before, so its time there says little about a checkout. A stop does
    // not wait longer all the same.
    let known_ms = |gate: &Gate| {
        let in_project = || history.expected_ms(&gate.name).filter(|_| need == BaseNeed::Stop);
        history.expected_in_checkout_ms(&gate.name).or_else(in_project)
    };
    with_base_sides(contract, cache, |sides| {
        sides.with_request(contract, gates, &[], cancel, |request| {
            run_in_checkout(request, CheckoutTree::Base, &known_ms).map_err(GateWorkerError::from)
        })
    })
}

/// Calls `run` with the base of the run as both versions.
fn with_base_sides<T>(
    contract: &ContractContext<'_>,
    cache: &ResultCache,
    run: impl FnOnce(&ProofSides<'_>) -> Result<T, GateWorkerError>,
) -> Result<T, GateWorkerError> {
    let deadline = Deadline::after(base_checkpoint::CHECKOUT_TIMEOUT);
    let repository = base_checkpoint::open_repository(contract, &deadline)?;
    let base = base_checkpoint::find_base(contract, &repository, &deadline)?;
    let installed = InstalledState::read(contract, cache).content_mark();
    run(&ProofSides { repository: &repository, base: &base, candidate: &base, installed })
}

/// Calls `run` with a checkout of the base of the run, for commands that measure the work of the agent. These gates are
/// among them.
pub(super) fn with_base_checkout<T>(
    contract: &ContractContext<'_>,
    gates: &[&Gate],
    label: &'static str,
    cancel: &CancelToken,
    run: impl FnOnce(&BaseCheckout) -> Result<T, GateWorkerError>,
) -> Result<T, GateWorkerError> {
    let cache = ResultCache::open(&contract.world.home)?;
    with_base_sides(contract, &cache, |sides| {
        sides.with_request(contract, gates, &[], cancel, |request| {
            run(&BaseCheckout::prepare(request, label)?)
        })
    })
}

/// How long one worker waits for the measurement of the base, for all of its gates together.
#[derive(Debug, Default)]
pub(super) struct BaseWait {
    is_used_up: AtomicBool,
}

impl BaseWait {
    fn deadline(&self, contract: &ContractContext<'_>, compared: &[&GateResult]) -> Deadline {
        if self.is_used_up.load(Ordering::SeqCst) {
            return Deadline::after(Duration::ZERO);
        }
        let took_ms = compared.iter().map(|ran| ran.report.took_ms).max().unwrap_or_default();
        let decides = compared.iter().any(|ran| depends_on_base(contract, &ran.report));
        Deadline::after(if decides { decision_timeout(took_ms) } else { LABEL_TIMEOUT })
    }
}

/// How long a stop waits for the base of a gate that took this long, if the base decides about its result.
fn decision_timeout(took_ms: u64) -> Duration {
    Duration::from_millis(took_ms.saturating_mul(3).saturating_add(BASE_MARGIN_MS))
}

/// Whether the base decides about the result. Otherwise it only says which failures are old.
pub(super) fn depends_on_base(contract: &ContractContext<'_>, report: &GateReport) -> bool {
    report.outcome != GateOutcome::Failed || contract.seal.policy.baseline == BaselineMode::Ratchet
}

/// Makes sure that [`base_result`] knows the result of each of these gates that is compared with the base, as far as it
/// comes in time. The measurement continues in the background.
pub(super) fn await_base_results(
    contract: &ContractContext<'_>,
    ran: &[&GateResult],
    patience: &BaseWait,
    cancel: &CancelToken,
) -> Result<(), GateWorkerError> {
    let cache = ResultCache::open(&contract.world.home)?;
    let is_compared = |ran: &&&GateResult| baseline::needs_base_result(&ran.gate, &ran.report);
    let compared: Vec<&GateResult> = ran.iter().filter(is_compared).copied().collect();
    let missing = || -> Vec<String> {
        let is_missing = |ran: &&&GateResult| stored_result(contract, &cache, &ran.gate).is_none();
        compared.iter().filter(is_missing).map(|ran| ran.gate.name.clone()).collect()
    };
    if contract.seal.base.is_none() || cancel.is_cancelled() || missing().is_empty() {
        return Ok(());
    }
    let until = patience.deadline(contract, &compared);
    let is_measured = match lock_base(contract, until.remaining(), cancel)? {
        Some(lock) => {
            drop(lock);
            let gates = missing();
            gates.is_empty()
                || gate_worker::measure_needed_base(contract, gates, until, cancel)?
                    == WorkerState::Done
        }
        None => false,
    };
    if !is_measured {
        patience.is_used_up.store(true, Ordering::SeqCst);
    }
    Ok(())
}

/// Waits until no worker measures the base.
pub(super) fn lock_base(
    contract: &ContractContext<'_>,
    patience: Duration,
    cancel: &CancelToken,
) -> Result<Option<file_slot::FileSlot>, FileError> {
    let path = contract.world.home.run(&contract.run.id).base_lock();
    let until = Deadline::after(patience);
    file_slot::acquire(&path, &|| !cancel.is_cancelled() && !until.remaining().is_zero())
}

/// The result of a gate at the base of the run, to compare with this one of the work tree. `None` while it is unknown.
/// If the comparison could excuse a failure, only those failures are in it that the project had too.
pub(super) fn base_result(
    contract: &ContractContext<'_>,
    cache: &ResultCache,
    gate: &Gate,
    tree: &GateReport,
) -> Option<GateReport> {
    let base = stored_result(contract, cache, gate)?;
    if tree.outcome != GateOutcome::Failed || !project_base::is_needed(contract) {
        return Some(base);
    }
    let project = project_base::project_result(contract, cache, gate);
    Some(confirm_base(&base, project.as_ref()))
}

fn stored_result(
    contract: &ContractContext<'_>,
    cache: &ResultCache,
    gate: &Gate,
) -> Option<GateReport> {
    if let Some(passed) = session_contract::passed_result(contract, cache, gate) {
        return Some(passed);
    }
    let key = result_key(contract, base_content(contract)?, gate);
    match cache.lookup(&key).ok()? {
        CachedResult::Result(report) => Some(*report),
        CachedResult::Running | CachedResult::Missing => None,
    }
}

fn store_results(
    contract: &ContractContext<'_>,
    cache: &ResultCache,
    content: [u8; 32],
    gates: &[&Gate],
    reports: &[GateReport],
) -> Result<(), GateWorkerError> {
    for (gate, report) in gates.iter().zip(reports) {
        let key = result_key(contract, content, gate);
        cache.write_note(&key, &serde_json::to_vec(report).unwrap_or_default())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A failure that counts in any case never waits as long as one that the base could excuse.
    #[test]
    fn a_stop_waits_for_the_base_three_times_as_long_as_its_gates_took() {
        assert_eq!(
            [0, 1_000, 600_000, u64::MAX].map(decision_timeout),
            [30_000, 33_000, 1_830_000, u64::MAX].map(Duration::from_millis)
        );
        assert!(LABEL_TIMEOUT < decision_timeout(0));
    }
}
