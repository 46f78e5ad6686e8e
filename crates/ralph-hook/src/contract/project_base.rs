//! Results of gates in the project itself while it was the base of the run.
//!
//! A checkout may lack what the project has, such as a file that git ignores. Under a ratchet a failure of the base is
//! therefore an old one only if the project had it too. That can be measured only until the agent changes the first
//! file: a result from before the start counts, and otherwise the worker that measures the base begins with it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ralph_core::gate::{BaselineMode, Gate, GateOutcome, GateReport};
use ralph_core::record::RunOrigin;

use super::gate_log::GateLog;
use super::gate_worker::GateWorkerError;
use super::proof_sides::ProofSides;
use super::{ContractContext, base_checkpoint};
use ralph_gates::gates::result_cache::{CachedResult, ResultCache};
use ralph_gates::gates::result_key::ResultKey;
use ralph_gates::gates::{
    self, ContentView, GateContent, GateContext, GateEvent, GateOrder, GateRunRequest, ResultReuse,
};
use ralph_git::tree::{self, ListingRequest};
use ralph_proof::project_mounts;
use ralph_sys::clock::{self, Deadline};
use ralph_sys::fs::file_slot;
use ralph_sys::proc::cancel::CancelToken;

const LISTING_TIMEOUT: Duration = Duration::from_mins(1);
/// How often the worker looks whether the agent has changed the project.
const CHANGE_CHECK_INTERVAL_MS: u64 = 2_000;

pub(super) fn is_needed(contract: &ContractContext<'_>) -> bool {
    // A session without a run is held only by failures that are certainly new, so it needs no second opinion.
    contract.run.origin != RunOrigin::Session
        && contract.seal.policy.baseline == BaselineMode::Ratchet
        && contract.seal.base.is_some()
}

/// The result of a gate in the project while it was the base; `None` if it is not known.
pub(super) fn project_result(
    contract: &ContractContext<'_>,
    cache: &ResultCache,
    gate: &Gate,
) -> Option<GateReport> {
    serde_json::from_slice(&cache.read_note(&note_key(contract, gate))?).ok()
}

fn note_key(contract: &ContractContext<'_>, gate: &Gate) -> ResultKey {
    contract.run_note_key(&format!("result in the project at the base: {}", gate.name))
}

fn store_result(
    contract: &ContractContext<'_>,
    cache: &ResultCache,
    gate: &Gate,
    report: &GateReport,
) {
    if !matches!(report.outcome, GateOutcome::Unknown(_))
        && let Ok(bytes) = serde_json::to_vec(report)
    {
        // Without the note, no failure of the gate is an old one.
        drop(cache.write_note(&note_key(contract, gate), &bytes));
    }
}

/// Keeps the results that are cached for the project as it is now, when the run starts. A later one does not count: the
/// agent could restore the files of the base and change those that git ignores.
pub(super) fn keep_cached_results(
    contract: &ContractContext<'_>,
    cache: &ResultCache,
    gates: &[&Gate],
) {
    let exclude = contract.exclude();
    let place = contract.gate_place(GateContent::Tree { exclude: &exclude });
    let Ok(view) = ContentView::read(&place) else { return };
    if !is_base(contract, &view) {
        return;
    }
    for gate in gates {
        if let Ok(CachedResult::Result(report)) = cache.lookup(&view.key(&place, gate)) {
            store_result(contract, cache, gate, &report);
        }
    }
}

/// Runs the gates without a result in the project, until it is no longer the base. Where the system allows it, nothing
/// that they write reaches the project.
pub(super) fn measure_project(
    contract: &ContractContext<'_>,
    cache: &ResultCache,
    gates: &[&Gate],
    cancel: &Arc<CancelToken>,
) -> Result<(), GateWorkerError> {
    let is_missing = |gate: &&&Gate| project_result(contract, cache, gate).is_none();
    let missing: Vec<&Gate> = gates.iter().filter(is_missing).copied().collect();
    let exclude = contract.exclude();
    let place = contract.gate_place(GateContent::Tree { exclude: &exclude });
    if missing.is_empty() || !is_base(contract, &ContentView::read(&place)?) {
        return Ok(());
    }
    // Not waited for: a stop that runs gates now may itself wait for the measurement of the base.
    let lock = contract.world.home.run(&contract.run.id).worker_lock();
    let Some(_working) = file_slot::acquire(&lock, &|| false)? else { return Ok(()) };
    let until_changed = cancel_when_changed(contract, cancel).map_err(GateWorkerError::Wait)?;
    let deadline = Deadline::after(base_checkpoint::CHECKOUT_TIMEOUT);
    let repository = base_checkpoint::open_repository(contract, &deadline)?;
    let base = base_checkpoint::find_base(contract, &repository, &deadline)?;
    let sides =
        ProofSides { repository: &repository, base: &base, candidate: &base, installed: [0; 32] };
    let log = GateLog::open(&contract.world.home, &contract.run.id);
    let ran = sides.with_request(contract, &missing, &[], &until_changed, |request| {
        let mounts = project_mounts(request)?;
        Ok(gates::run_gates(&GateRunRequest {
            listing: None,
            context: GateContext { mounts: mounts.as_ref(), ..place },
            gates: &missing,
            order: GateOrder::All,
            reuse: ResultReuse::Never,
            cancel: &until_changed,
            ci_checkout: None,
            accepts: &|_| true,
            watch: &|seen| {
                if let GateEvent::Ended(ran) = seen {
                    log.record_bill(ran);
                }
            },
        }))
    })?;
    if !until_changed.is_cancelled() && is_base(contract, &ContentView::read(&place)?) {
        for ran in &ran {
            store_result(contract, cache, &ran.gate, &ran.report);
        }
    }
    Ok(())
}

fn is_base(contract: &ContractContext<'_>, view: &ContentView<'_>) -> bool {
    let ContentView::Tree(listing) = view else { return false };
    let now = listing.identity();
    contract.seal.base.as_ref().is_some_and(|base| now.as_str() == base.identity)
}

/// A token that is also cancelled once the project is no longer the base.
fn cancel_when_changed(
    contract: &ContractContext<'_>,
    cancel: &Arc<CancelToken>,
) -> std::io::Result<CancelToken> {
    let outer = Arc::clone(cancel);
    let (project, exclude) = (contract.project().to_path_buf(), contract.exclude());
    let cache = tree::stat_cache_path(&contract.world.home, &project);
    let base = contract.seal.base.as_ref().map(|base| base.identity.clone()).unwrap_or_default();
    let checked_ms = AtomicU64::new(clock::now_ms());
    CancelToken::with_external_check(move || {
        let now_ms = clock::now_ms();
        if outer.is_cancelled() {
            return true;
        }
        if now_ms.saturating_sub(checked_ms.load(Ordering::SeqCst)) < CHANGE_CHECK_INTERVAL_MS {
            return false;
        }
        checked_ms.store(now_ms, Ordering::SeqCst);
        let deadline = Deadline::after(LISTING_TIMEOUT);
        let request = ListingRequest {
            project: &project,
            exclude: &exclude,
            cache: Some(&cache),
            deadline: &deadline,
        };
        tree::list_work_tree(&request).is_ok_and(|listing| listing.identity() != base)
    })
}
