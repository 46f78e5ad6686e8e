//! Runs the gates of a run in a worker process. The worker continues after the host's deadline, and its results are in
//! the cache at the next stop.

use std::ffi::OsStr;
use std::sync::Arc;
use std::time::Duration;

use ralph_core::gate::BaselineMode;
use ralph_core::gate::Gate;
use ralph_core::id::RunId;
use ralph_core::run::RunState;

use super::checkout_results::{BaseNeed, BaseWait};
use super::gate_log::GateLog;
use super::listing_notes::ListingNotes;
use super::{
    ContractContext, ListChecks, baseline, checkout_results, gate_writes, judge_meter,
    judge_worker, proof_evidence, sealed_programs,
};
use ralph_gates::command_place::CommandCheckout;
use ralph_gates::gates::result_cache::ResultCache;
use ralph_gates::gates::{
    self, GateContent, GateEvent, GateOrder, GateResult, GateRunRequest, ResultReuse,
};
use ralph_git::checkpoint::CheckpointError;
use ralph_git::tree::ListingError;
use ralph_home::paths::RalphHome;
use ralph_home::store::{self, LoadedRun, StoreError};
use ralph_home::world::World;
use ralph_lists::list_approval;
use ralph_lists::run_lists;
use ralph_policy::trust::{self, TrustError};
use ralph_proof::{BaseCheckout, ProofError};
use ralph_sys::clock::Deadline;
use ralph_sys::env;
use ralph_sys::fs::file_slot::{self, SlotContent};
use ralph_sys::fs::{self, FileError};
use ralph_sys::proc::cancel::CancelToken;
use ralph_sys::proc::worker::{self, WorkerHandle, WorkerSpawnError};

const MAX_MARK_BYTES: usize = 256;
/// The lock of a worker contains the name of its site.
const MAX_SLOT_BYTES: usize = 64;
/// The task of a run that needs no results any more.
const NO_TASK: &[u8] = b"none";
/// The mark of the task that measures the base.
pub(super) const BASE_MARK: &str = "base";
/// The mark of the same task if a stop needs its results.
pub(super) const NEEDED_BASE_MARK: &str = "base-needed";
/// How long the second run of a failed gate waits for the measurement of the base, which may use the same port. If it
/// takes longer, the gate runs again at the next stop.
const CONFIRMATION_TIMEOUT: Duration = Duration::from_secs(2);
const CI_CHECKOUT_LABEL: &str = "ci";
const CANCEL_CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// The gates that a worker runs, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateTask {
    pub site: GateSite,
    pub gates: Vec<String>,
    /// Identifies these gates on this content.
    pub mark: String,
}

/// The content that gates run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateSite {
    Tree,
    /// A clean checkout of the candidate, with protected files as at the base.
    Clean,
    /// The base of the run, with the tests of the candidate.
    Red,
    /// The four trees of a proof.
    Proof,
    /// The base of the run with its own tests, measured from the start.
    Base,
    /// No gates: the judges of the policy are asked about the change.
    Judge,
}

impl GateSite {
    pub const ALL: [Self; 6] =
        [Self::Tree, Self::Clean, Self::Red, Self::Proof, Self::Base, Self::Judge];

    pub fn name(self) -> &'static str {
        match self {
            Self::Tree => "tree",
            Self::Clean => "clean",
            Self::Red => "red",
            Self::Proof => "proof",
            Self::Base => "base",
            Self::Judge => "judge",
        }
    }
}

/// The state of the worker when the hook stopped waiting for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerState {
    Done,
    /// It continues in the background.
    Running,
}

#[derive(Debug, thiserror::Error)]
pub enum GateWorkerError {
    #[error(transparent)]
    Spawn(#[from] WorkerSpawnError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error("run `{0}` has no policy")]
    NoPolicy(RunId),
    #[error("the policy of run `{0}` is not approved")]
    Untrusted(RunId),
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    #[error(transparent)]
    Listing(#[from] ListingError),
    #[error(transparent)]
    Proof(#[from] ProofError),
    #[error("the results in the work tree are unknown: {0}")]
    NoTreeResults(String),
    #[error(transparent)]
    Trust(#[from] TrustError),
    #[error("cannot wait for the worker")]
    Wait(#[source] std::io::Error),
}

/// Starts a worker and waits for it until the deadline. `hand_over` writes what the worker needs besides its task.
pub(super) fn run_gate_worker(
    contract: &ContractContext<'_>,
    task: &GateTask,
    until: Deadline,
    hand_over: impl FnOnce() -> Result<(), FileError>,
) -> Result<WorkerState, GateWorkerError> {
    if !await_same_task(contract, task, until)? {
        return Ok(WorkerState::Running);
    }
    hand_over()?;
    let paths = contract.world.home.run(&contract.run.id);
    // A worker with another task sees this and exits.
    fs::overwrite(&paths.worker_task(), task.mark.as_bytes())?;
    let mut worker = spawn_gate_worker(contract, task)?;
    if worker.wait(until).map_err(GateWorkerError::Wait)?.is_some() {
        Ok(WorkerState::Done)
    } else {
        worker.detach().map_err(GateWorkerError::Wait)?;
        Ok(WorkerState::Running)
    }
}

/// Waits for a worker of an earlier stop that is at the same task: another one would only wait for it in the background,
/// one for each stop. Returns whether it has ended. It may have ended without results, so a new one follows it.
fn await_same_task(
    contract: &ContractContext<'_>,
    task: &GateTask,
    until: Deadline,
) -> Result<bool, FileError> {
    let paths = contract.world.home.run(&contract.run.id);
    let current = fs::read_if_exists(&paths.worker_task(), MAX_MARK_BYTES)?;
    if current.as_deref() != Some(task.mark.as_bytes()) {
        return Ok(true);
    }
    let lock = file_slot::acquire(&paths.worker_lock(), &|| !until.has_passed())?;
    Ok(lock.is_some())
}

/// Starts a worker and does not wait for it. Other tasks of the run do not cancel it.
pub(super) fn start_gate_worker(
    contract: &ContractContext<'_>,
    task: &GateTask,
) -> Result<(), GateWorkerError> {
    let path = contract.world.home.run(&contract.run.id).worker_task();
    fs::overwrite(&path, task.mark.as_bytes())?;
    spawn_gate_worker(contract, task)?.detach().map_err(GateWorkerError::Wait)
}

/// Measures the base for gates that a stop compares with it, in a worker of its own, and waits for it until the deadline.
/// Then it continues in the background.
pub(super) fn measure_needed_base(
    contract: &ContractContext<'_>,
    gates: Vec<String>,
    until: Deadline,
    cancel: &CancelToken,
) -> Result<WorkerState, GateWorkerError> {
    let task = GateTask { site: GateSite::Base, gates, mark: NEEDED_BASE_MARK.to_string() };
    let mut worker = spawn_gate_worker(contract, &task)?;
    while !until.has_passed() {
        let next = Deadline::after(until.remaining().min(CANCEL_CHECK_INTERVAL));
        let has_ended = worker.wait(next).map_err(GateWorkerError::Wait)?.is_some();
        if has_ended || cancel.is_cancelled() {
            return Ok(WorkerState::Done);
        }
    }
    worker.detach().map_err(GateWorkerError::Wait)?;
    Ok(WorkerState::Running)
}

fn spawn_gate_worker(
    contract: &ContractContext<'_>,
    task: &GateTask,
) -> Result<WorkerHandle, GateWorkerError> {
    let program = env::own_executable();
    let run = contract.run.id.as_str();
    let mut arguments = vec![
        "gate",
        "warm",
        "--leashed",
        "--run",
        run,
        "--site",
        task.site.name(),
        "--mark",
        &task.mark,
        "--",
    ];
    arguments.extend(task.gates.iter().map(String::as_str));
    let arguments: Vec<&OsStr> = arguments.into_iter().map(OsStr::new).collect();
    let log = contract.world.home.run(&contract.run.id).worker_log();
    Ok(worker::spawn_worker(&worker::WorkerSpec {
        program: &program,
        arguments: &arguments,
        env: &[],
        log: Some(&log),
    })?)
}

/// Whether another task, or none, has replaced this one. The base is measured beside other tasks.
pub fn is_task_cancelled(home: &RalphHome, run: &RunId, mark: &str) -> bool {
    let task = fs::read_if_exists(&home.run(run).worker_task(), MAX_MARK_BYTES).ok().flatten();
    match task.as_deref() {
        Some(NO_TASK) | None => true,
        Some(task) => ![BASE_MARK, NEEDED_BASE_MARK].contains(&mark) && task != mark.as_bytes(),
    }
}

/// Cancels the current task; its worker exits when it sees this.
pub fn cancel_task(home: &RalphHome, run: &RunId) -> Result<(), FileError> {
    let path = home.run(run).worker_task();
    if fs::exists(&path) { fs::overwrite(&path, NO_TASK) } else { Ok(()) }
}

pub(super) fn read_worker_slot(home: &RalphHome, run: &RunId) -> Result<SlotContent, FileError> {
    file_slot::peek(&home.run(run).worker_lock(), MAX_SLOT_BYTES)
}

/// Whether the last worker ended before its task was done, because it was killed for example.
pub(crate) fn has_lost_worker(home: &RalphHome, run: &RunId) -> bool {
    matches!(read_worker_slot(home, run), Ok(SlotContent::Free(site)) if !site.is_empty())
}

/// Runs in the worker. Never writes the state of the run, so a cancellation at the same time stands.
pub fn perform_task(
    world: &World,
    id: &RunId,
    task: &GateTask,
    cancel: &Arc<CancelToken>,
) -> Result<(), GateWorkerError> {
    let LoadedRun { run, state, .. } = store::load_run(&world.home, id)?;
    let seal = run.seal.as_deref().ok_or_else(|| GateWorkerError::NoPolicy(id.clone()))?;
    if !trust::is_seal_approved(&world.home, seal)
        || list_approval::check_approvals(&world.home, &run).is_err()
    {
        return Err(GateWorkerError::Untrusted(id.clone()));
    }
    sealed_programs::use_sealed_git(seal);
    let none = ListChecks::default();
    let RunState { iteration, parts, waivers, approvals, driving, .. } = &state;
    let (run, iteration, checks) = (&run, *iteration, &none);
    let proof_base = driving.proof_base.as_deref();
    let contract = ContractContext {
        world,
        run,
        seal,
        iteration,
        last_report: None,
        parts,
        checks,
        waivers,
        approvals,
        proof_base,
    };
    let files = world.home.run(id);
    let path = if task.site == GateSite::Base { files.base_lock() } else { files.worker_lock() };
    let Some(working) = file_slot::acquire(&path, &|| !cancel.is_cancelled())? else {
        return Ok(());
    };
    if task.site != GateSite::Base {
        // Remains there if the worker is killed. Without it, a stop that waits again is not charged.
        drop(working.fill(task.site.name().as_bytes()));
        GateLog::open(&world.home, id).record_begin();
        judge_meter::settle_lost_call(&world.home, run, &state);
    }
    let named = |gate: &&Gate| task.gates.contains(&gate.name);
    let is_check = |name: &String| !seal.policy.gates.iter().any(|gate| gate.name == *name);
    let checks = if task.gates.iter().any(is_check) {
        run_lists::sealed_checks(&world.home, run)
    } else {
        Vec::new()
    };
    let wanted: Vec<&Gate> = seal.policy.gates.iter().chain(&checks).filter(named).collect();
    let ended = match task.site {
        GateSite::Tree => run_in_tree(&contract, &task.mark, &wanted, cancel),
        GateSite::Clean | GateSite::Red => {
            checkout_results::run_on_candidate(&contract, task.site, &wanted, cancel)
        }
        GateSite::Proof => proof_evidence::make_proof(&contract, &wanted, cancel),
        GateSite::Judge => judge_worker::ask_judges(&contract, &state, &task.mark, cancel),
        GateSite::Base => {
            let need =
                if task.mark == NEEDED_BASE_MARK { BaseNeed::Stop } else { BaseNeed::RunStart };
            checkout_results::measure_base(&contract, &wanted, need, cancel)
        }
    };
    if ended.is_ok() && !cancel.is_cancelled() && task.site != GateSite::Base {
        drop(working.clear());
    }
    ended
}

fn run_in_tree(
    contract: &ContractContext<'_>,
    mark: &str,
    wanted: &[&Gate],
    cancel: &CancelToken,
) -> Result<(), GateWorkerError> {
    let commands: Vec<&Gate> =
        wanted.iter().filter(|gate| gate.asks_by_command()).copied().collect();
    if commands.is_empty() {
        return run_with_ci(contract, mark, wanted, None, cancel);
    }
    checkout_results::with_base_checkout(contract, &commands, CI_CHECKOUT_LABEL, cancel, |base| {
        run_with_ci(contract, mark, wanted, Some(base), cancel)
    })
}

/// `base` is where the commands of `[[ci]]` run.
fn run_with_ci(
    contract: &ContractContext<'_>,
    mark: &str,
    wanted: &[&Gate],
    base: Option<&BaseCheckout>,
    cancel: &CancelToken,
) -> Result<(), GateWorkerError> {
    let exclude = contract.exclude();
    let place = contract.gate_place(GateContent::Tree { exclude: &exclude });
    let cache = ResultCache::open(&contract.world.home)?;
    let log = GateLog::open(&contract.world.home, &contract.run.id);
    let handover = ListingNotes { contract, cache: &cache, mark };
    let listing = handover.take();
    let patience = BaseWait::default();
    // Under a ratchet a stage passes if none of its failures are new, which takes a comparison with the base.
    let is_compared = |gate: &Gate| contract.is_of_policy(gate) && !gate.is_ci();
    let accepts = |ran: &GateResult| match contract.seal.policy.baseline {
        _ if contract.is_waived(&ran.gate.name) => true,
        BaselineMode::Ratchet if is_compared(&ran.gate) => {
            // Without a result of the base, no failure is an old one.
            drop(checkout_results::await_base_results(contract, &[ran], &patience, cancel));
            let base = checkout_results::base_result(contract, &cache, &ran.gate, &ran.report);
            let (report, proof) = (ran.report.clone(), contract.seal.policy.verify.proof);
            let report = baseline::compare_with_base(&ran.gate, report, base.as_ref(), proof);
            !ran.gate.requirement(&report, BaselineMode::Ratchet).is_open()
        }
        BaselineMode::Block | BaselineMode::Ratchet => ran.passed(),
    };
    let ran = gates::run_gates(&GateRunRequest {
        listing: listing.as_ref(),
        context: place,
        gates: wanted,
        order: GateOrder::Staged,
        reuse: ResultReuse::Cached,
        cancel,
        ci_checkout: base.map(|base| base as &dyn CommandCheckout),
        accepts: &accepts,
        watch: &|seen| {
            match seen {
                GateEvent::TreeListed(listing) => handover.record_end(listing),
                GateEvent::TreeChanged { before, after } => {
                    gate_writes::record_writes(contract, &cache, before, after);
                }
                // The base is measured from the start of the run, and may use the same port.
                GateEvent::Confirming(_) => {
                    drop(checkout_results::lock_base(contract, CONFIRMATION_TIMEOUT, cancel));
                }
                GateEvent::Started(_) | GateEvent::Ended(_) => {}
            }
            log.record(seen);
        },
    });
    let compared: Vec<&GateResult> = ran.iter().filter(|ran| is_compared(&ran.gate)).collect();
    checkout_results::await_base_results(contract, &compared, &patience, cancel)
}
