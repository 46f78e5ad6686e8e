//! Runs the gates of a run in a worker process. The worker continues after the host's deadline, and its results are in
//! the cache at the next stop.

use std::ffi::OsStr;
use std::sync::Arc;

use ralph_core::gate::BaselineMode;
use ralph_core::gate::{Gate, GateReport};
use ralph_core::id::RunId;
use ralph_core::run::RunState;

use super::change_summary::{self, CandidateCheckpoint};
use super::gate_log::GateLog;
use super::{
    ContractContext, ListChecks, baseline, checkout, gate_writes, proof_evidence, sealed_programs,
};
use ralph_gates::gates::result_cache::{CachedResult, ResultCache};
use ralph_gates::gates::{
    self, ContentView, GateContent, GateContext, GateEvent, GateOrder, GateResult, GateRunRequest,
    ResultReuse,
};
use ralph_git::checkpoint::CheckpointError;
use ralph_git::tree::ListingError;
use ralph_home::paths::RalphHome;
use ralph_home::store::{self, LoadedRun, StoreError};
use ralph_home::world::World;
use ralph_lists::list_approval;
use ralph_lists::run_lists;
use ralph_policy::trust::{self, TrustError};
use ralph_proof::ProofError;
use ralph_sys::clock::Deadline;
use ralph_sys::env;
use ralph_sys::fs::{self, FileError, file_slot};
use ralph_sys::proc::cancel::CancelToken;
use ralph_sys::proc::worker::{self, WorkerHandle, WorkerSpawnError};

const MAX_MARK_BYTES: usize = 256;
/// The task of a run that needs no results any more.
const NO_TASK: &[u8] = b"none";
/// The mark of the task that measures the base.
pub(super) const BASE_MARK: &str = "base";

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
}

impl GateSite {
    pub const ALL: [Self; 5] = [Self::Tree, Self::Clean, Self::Red, Self::Proof, Self::Base];

    pub fn name(self) -> &'static str {
        match self {
            Self::Tree => "tree",
            Self::Clean => "clean",
            Self::Red => "red",
            Self::Proof => "proof",
            Self::Base => "base",
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

/// Starts a worker and waits for it until the deadline.
pub(super) fn run_gate_worker(
    contract: &ContractContext<'_>,
    task: &GateTask,
    until: Deadline,
) -> Result<WorkerState, GateWorkerError> {
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

/// Starts a worker and does not wait for it. Other tasks of the run do not cancel it.
pub(super) fn start_gate_worker(
    contract: &ContractContext<'_>,
    task: &GateTask,
) -> Result<(), GateWorkerError> {
    let path = contract.world.home.run(&contract.run.id).worker_task();
    fs::overwrite(&path, task.mark.as_bytes())?;
    spawn_gate_worker(contract, task)?.detach().map_err(GateWorkerError::Wait)
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
        Some(task) => mark != BASE_MARK && task != mark.as_bytes(),
    }
}

/// Cancels the current task; its worker exits when it sees this.
pub fn cancel_task(home: &RalphHome, run: &RunId) -> Result<(), FileError> {
    let path = home.run(run).worker_task();
    if fs::exists(&path) { fs::overwrite(&path, NO_TASK) } else { Ok(()) }
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
    let RunState { iteration, parts, waivers, driving, .. } = &state;
    let (run, iteration, checks) = (&run, *iteration, &none);
    let proof_base = driving.proof_base.as_deref();
    let contract =
        ContractContext { world, run, seal, iteration, parts, checks, waivers, proof_base };
    let files = world.home.run(id);
    let path = if task.site == GateSite::Base { files.base_lock() } else { files.worker_lock() };
    let Some(_working) = file_slot::acquire(&path, &|| !cancel.is_cancelled())? else {
        return Ok(());
    };
    let named = |gate: &&Gate| task.gates.contains(&gate.name);
    let is_check = |name: &String| !seal.policy.gates.iter().any(|gate| gate.name == *name);
    let checks = if task.gates.iter().any(is_check) {
        run_lists::sealed_checks(&world.home, run)
    } else {
        Vec::new()
    };
    let wanted: Vec<&Gate> = seal.policy.gates.iter().chain(&checks).filter(named).collect();
    match task.site {
        GateSite::Tree => run_in_tree(&contract, &wanted, cancel),
        GateSite::Clean | GateSite::Red => run_in_checkout(&contract, task.site, &wanted, cancel),
        GateSite::Proof => proof_evidence::make_proof(&contract, &wanted, cancel),
        GateSite::Base => proof_evidence::measure_base(&contract, &wanted, cancel),
    }
}

fn run_in_tree(
    contract: &ContractContext<'_>,
    wanted: &[&Gate],
    cancel: &CancelToken,
) -> Result<(), GateWorkerError> {
    let exclude = contract.exclude();
    let place = contract.gate_place(GateContent::Tree { exclude: &exclude });
    let cache = ResultCache::open(&contract.world.home)?;
    let log = GateLog::open(&contract.world.home, &contract.run.id);
    // Under a ratchet a stage passes if none of its failures are new, which takes a comparison with the base.
    let accepts = |ran: &GateResult| match contract.seal.policy.baseline {
        _ if contract.is_waived(&ran.gate.name) => true,
        BaselineMode::Ratchet if contract.is_of_policy(&ran.gate) => {
            if baseline::needs_base_result(&ran.gate, &ran.report) {
                drop(run_at_base(contract, &[&ran.gate], cancel));
            }
            let base = base_result(contract, &cache, &ran.gate);
            let report = baseline::compare_with_base(&ran.gate, ran.report.clone(), base.as_ref());
            !ran.gate.requirement(&report, BaselineMode::Ratchet).is_open()
        }
        BaselineMode::Block | BaselineMode::Ratchet => ran.passed(),
    };
    let ran = gates::run_gates(&GateRunRequest {
        context: place,
        gates: wanted,
        order: GateOrder::Staged,
        reuse: ResultReuse::Cached,
        cancel,
        accepts: &accepts,
        watch: &|seen| {
            if let GateEvent::TreeChanged { before, after } = seen {
                gate_writes::record_writes(contract, &cache, before, after);
            }
            log.record(seen);
        },
    });
    let compared: Vec<&Gate> = ran
        .iter()
        .filter(|ran| contract.is_of_policy(&ran.gate))
        .filter(|ran| baseline::needs_base_result(&ran.gate, &ran.report))
        .map(|ran| &ran.gate)
        .collect();
    run_at_base(contract, &compared, cancel)
}

fn run_in_checkout(
    contract: &ContractContext<'_>,
    site: GateSite,
    wanted: &[&Gate],
    cancel: &CancelToken,
) -> Result<(), GateWorkerError> {
    let exclude = contract.exclude();
    let place = contract.gate_place(GateContent::Tree { exclude: &exclude });
    let ContentView::Tree(listing) = ContentView::read(&place)? else { return Ok(()) };
    let (_, candidate) = change_summary::checkpoint_tree(contract, &listing)?;
    let Some(content) = checkout::candidate_content_hash(
        contract,
        site,
        &CandidateCheckpoint::from_checkpoint(&candidate),
    ) else {
        return Ok(());
    };
    let order = match site {
        GateSite::Red => GateOrder::All,
        GateSite::Tree | GateSite::Clean | GateSite::Proof | GateSite::Base => GateOrder::Staged,
    };
    let site = checkout::check_out_candidate(contract, site, &candidate)?;
    let log = GateLog::open(&contract.world.home, &contract.run.id);
    gates::run_gates(&GateRunRequest {
        context: GateContext {
            project: &site.project,
            ..contract.gate_place(GateContent::Checkout(content))
        },
        gates: wanted,
        order,
        reuse: ResultReuse::Cached,
        cancel,
        accepts: &GateResult::passed,
        watch: &|seen| log.record(seen),
    });
    Ok(())
}

/// Runs gates at the base of the run, unless the cache has their results.
fn run_at_base(
    contract: &ContractContext<'_>,
    gates: &[&Gate],
    cancel: &CancelToken,
) -> Result<(), GateWorkerError> {
    let cache = ResultCache::open(&contract.world.home)?;
    let missing: Vec<&Gate> = gates
        .iter()
        .filter(|gate| base_result(contract, &cache, gate).is_none())
        .copied()
        .collect();
    let (Some(content), false) =
        (checkout::base_content_hash(contract), missing.is_empty() || cancel.is_cancelled())
    else {
        return Ok(());
    };
    let site = checkout::check_out_base(contract)?;
    let log = GateLog::open(&contract.world.home, &contract.run.id);
    gates::run_gates(&GateRunRequest {
        context: GateContext {
            project: &site.project,
            ..contract.gate_place(GateContent::Checkout(content))
        },
        gates: &missing,
        order: GateOrder::All,
        reuse: ResultReuse::Cached,
        cancel,
        accepts: &GateResult::passed,
        watch: &|seen| log.record(seen),
    });
    Ok(())
}

/// The cached result of a gate at the base of the run.
pub(super) fn base_result(
    contract: &ContractContext<'_>,
    cache: &ResultCache,
    gate: &Gate,
) -> Option<GateReport> {
    let project = checkout::checkout_project(contract);
    let content = GateContent::Checkout(checkout::base_content_hash(contract)?);
    let place = GateContext { project: &project, ..contract.gate_place(content) };
    let key = ContentView::read(&place).ok()?.key(&place, gate);
    match cache.lookup(&key).ok()? {
        CachedResult::Result(report) => Some(*report),
        CachedResult::Running | CachedResult::Missing => None,
    }
}
