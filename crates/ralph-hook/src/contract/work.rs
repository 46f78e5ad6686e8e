//! Runs the gates of a run in a worker process. The worker continues after the host's deadline, and its results are in
//! the cache at the next stop.

use std::ffi::OsStr;
use std::sync::Arc;

use ralph_core::gate::{Gate, GateReport};
use ralph_core::id::RunId;
use ralph_core::policy::Baseline;
use ralph_core::run::State;

use super::look::{self, Candidate};
use super::progress::Log;
use super::{Checks, Contract, baseline, checkout};
use ralph_gates::gates::cache::{Cache, Known};
use ralph_gates::gates::{self, Content, Course, Order, Place, Ran, Reuse, View};
use ralph_git::checkpoint::CheckpointError;
use ralph_home::paths::Home;
use ralph_home::store::{self, Opened, StoreError};
use ralph_home::world::World;
use ralph_lists::lists;
use ralph_policy::trust;
use ralph_sys::clock::Deadline;
use ralph_sys::env;
use ralph_sys::fs::{self, FileError, slot};
use ralph_sys::proc::cancel::Cancel;
use ralph_sys::proc::worker::{self, SpawnError};

const LONGEST_MARK: usize = 256;

/// The gates that a worker runs, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    pub site: Where,
    pub gates: Vec<String>,
    /// Identifies these gates on this content.
    pub mark: String,
}

/// The content that gates run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    Tree,
    /// A clean checkout of the candidate, with protected files as at the base.
    Clean,
    /// The base of the run, with the tests of the candidate.
    Red,
}

impl Where {
    pub const ALL: [Self; 3] = [Self::Tree, Self::Clean, Self::Red];

    pub fn name(self) -> &'static str {
        match self {
            Self::Tree => "tree",
            Self::Clean => "clean",
            Self::Red => "red",
        }
    }
}

/// The state of the worker when the hook stopped waiting for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    Done,
    /// It continues in the background.
    Running,
}

#[derive(Debug, thiserror::Error)]
pub enum WorkError {
    #[error(transparent)]
    Spawn(#[from] SpawnError),
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
    #[error("cannot wait for the worker")]
    Wait(#[source] std::io::Error),
}

/// Starts a worker and waits for it until the deadline.
pub(super) fn start(
    contract: &Contract<'_>,
    task: &Task,
    until: Deadline,
) -> Result<Left, WorkError> {
    let program = env::this_program();
    let run = contract.run.id.as_str();
    let paths = contract.world.home.run(&contract.run.id);
    // A worker with another task sees this and exits.
    fs::overwrite(&paths.task(), task.mark.as_bytes())?;
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
    let log = paths.worker_log();
    let mut worker = worker::spawn(&worker::Spec {
        program: &program,
        arguments: &arguments,
        env: &[],
        log: Some(&log),
    })?;
    if worker.wait(until).map_err(WorkError::Wait)?.is_some() {
        Ok(Left::Done)
    } else {
        worker.let_go().map_err(WorkError::Wait)?;
        Ok(Left::Running)
    }
}

/// Whether another task, or none, has replaced this one.
pub fn is_called_off(home: &Home, run: &RunId, mark: &str) -> bool {
    fs::read_opt(&home.run(run).task(), LONGEST_MARK).ok().flatten().as_deref()
        != Some(mark.as_bytes())
}

/// Cancels the current task; its worker exits when it sees this.
pub fn call_off(home: &Home, run: &RunId) -> Result<(), FileError> {
    let path = home.run(run).task();
    if fs::exists(&path) { fs::overwrite(&path, b"none") } else { Ok(()) }
}

/// Runs in the worker. Never writes the state of the run, so a cancellation at the same time stands.
pub fn perform(
    world: &World,
    id: &RunId,
    task: &Task,
    cancel: &Arc<Cancel>,
) -> Result<(), WorkError> {
    let Opened { run, state, .. } = store::load(&world.home, id)?;
    let seal = run.seal.as_deref().ok_or_else(|| WorkError::NoPolicy(id.clone()))?;
    if !trust::is_seal_approved(&world.home, seal)
        || lists::are_approved(&world.home, &run).is_err()
    {
        return Err(WorkError::Untrusted(id.clone()));
    }
    let none = Checks::default();
    let State { iteration, parts, waivers, .. } = &state;
    let (run, iteration, checks) = (&run, *iteration, &none);
    let contract = Contract { world, run, seal, iteration, parts, checks, waivers };
    let path = world.home.run(id).working();
    let Some(_working) = slot::take(&path, &|| !cancel.is_wished())? else { return Ok(()) };
    let named = |gate: &&Gate| task.gates.contains(&gate.name);
    let is_check = |name: &String| !seal.policy.gates.iter().any(|gate| gate.name == *name);
    let checks =
        if task.gates.iter().any(is_check) { lists::checks(&world.home, run) } else { Vec::new() };
    let wanted: Vec<&Gate> = seal.policy.gates.iter().chain(&checks).filter(named).collect();
    match task.site {
        Where::Tree => in_tree(&contract, &wanted, cancel),
        Where::Clean | Where::Red => in_checkout(&contract, task.site, &wanted, cancel),
    }
}

fn in_tree(contract: &Contract<'_>, wanted: &[&Gate], cancel: &Cancel) -> Result<(), WorkError> {
    let exclude = contract.exclude();
    let place = contract.place(Content::Tree { exclude: &exclude });
    let cache = Cache::open(&contract.world.home)?;
    let log = Log::of(&contract.world.home, &contract.run.id);
    // Under a ratchet a stage passes if none of its failures are new, which takes a comparison with the base.
    let accepts = |ran: &Ran| match contract.seal.policy.baseline {
        _ if contract.is_waived(&ran.gate.name) => true,
        Baseline::Ratchet if contract.is_of_policy(&ran.gate) => {
            if baseline::is_wanted(&ran.gate, &ran.report) {
                drop(at_base(contract, &[&ran.gate], cancel));
            }
            let base = known_at_base(contract, &cache, &ran.gate);
            let report = baseline::compared(&ran.gate, ran.report.clone(), base.as_ref());
            !ran.gate.requirement(&report, Baseline::Ratchet).is_open()
        }
        Baseline::Block | Baseline::Ratchet => ran.passed(),
    };
    let ran = gates::run(&Course {
        place,
        gates: wanted,
        order: Order::Staged,
        reuse: Reuse::Known,
        cancel,
        accepts: &accepts,
        watch: &|seen| log.note(seen),
    });
    let compared: Vec<&Gate> = ran
        .iter()
        .filter(|ran| contract.is_of_policy(&ran.gate))
        .filter(|ran| baseline::is_wanted(&ran.gate, &ran.report))
        .map(|ran| &ran.gate)
        .collect();
    at_base(contract, &compared, cancel)
}

fn in_checkout(
    contract: &Contract<'_>,
    site: Where,
    wanted: &[&Gate],
    cancel: &Cancel,
) -> Result<(), WorkError> {
    let exclude = contract.exclude();
    let Ok(View::Tree(listing)) = View::of(&contract.place(Content::Tree { exclude: &exclude }))
    else {
        return Ok(());
    };
    let (_, candidate) = look::checkpoint(contract, &listing)?;
    let Some(content) = checkout::content_of(contract, site, &Candidate::of(&candidate)) else {
        return Ok(());
    };
    let order = match site {
        Where::Red => Order::All,
        Where::Tree | Where::Clean => Order::Staged,
    };
    let site = checkout::of(contract, site, &candidate)?;
    let log = Log::of(&contract.world.home, &contract.run.id);
    gates::run(&Course {
        place: Place { project: &site.project, ..contract.place(Content::Checkout(content)) },
        gates: wanted,
        order,
        reuse: Reuse::Known,
        cancel,
        accepts: &Ran::passed,
        watch: &|seen| log.note(seen),
    });
    Ok(())
}

/// Runs gates at the base of the run, unless the cache has their results.
fn at_base(contract: &Contract<'_>, gates: &[&Gate], cancel: &Cancel) -> Result<(), WorkError> {
    let cache = Cache::open(&contract.world.home)?;
    let missing: Vec<&Gate> = gates
        .iter()
        .filter(|gate| known_at_base(contract, &cache, gate).is_none())
        .copied()
        .collect();
    let (Some(content), false) =
        (checkout::base_content(contract), missing.is_empty() || cancel.is_wished())
    else {
        return Ok(());
    };
    let site = checkout::base(contract)?;
    let log = Log::of(&contract.world.home, &contract.run.id);
    gates::run(&Course {
        place: Place { project: &site.project, ..contract.place(Content::Checkout(content)) },
        gates: &missing,
        order: Order::All,
        reuse: Reuse::Known,
        cancel,
        accepts: &Ran::passed,
        watch: &|seen| log.note(seen),
    });
    Ok(())
}

/// The cached result of a gate at the base of the run.
pub(super) fn known_at_base(
    contract: &Contract<'_>,
    cache: &Cache,
    gate: &Gate,
) -> Option<GateReport> {
    let project = checkout::project(contract);
    let content = Content::Checkout(checkout::base_content(contract)?);
    let place = Place { project: &project, ..contract.place(content) };
    let key = View::of(&place).ok()?.key(&place, gate);
    match cache.look(&key).ok()? {
        Known::Result(report) => Some(*report),
        Known::Running | Known::Nothing => None,
    }
}
