//! The proof of a run: old tests on the new code and new tests on the old code, run by a worker in private checkouts.
//!
//! It is made only when everything else is met. The base is measured in the background from the start of the run.

use std::ffi::OsStr;
use std::path::Path;

use ralph_core::facts::StopDriver;
use ralph_core::gate::{Gate, GateReport, GateTrigger};
use ralph_core::policy::{Policy, ProofMode};
use ralph_core::proof::Proof;
use ralph_core::proof_summary::PROOF_REQUIREMENT;
use ralph_core::record::{PolicySeal, RunRecord};
use ralph_core::requirement::{
    EvidenceKind, PendingReason, Requirement, RequirementStatus, RequirementWeight,
};

use super::change_summary::{self, CandidateCheckpoint};
use super::environment_evidence::{self, InstalledState};
use super::gate_log::GateLog;
use super::gate_query;
use super::gate_worker::{self, GateSite, GateTask, GateWorkerError, WorkerState};
use super::{ContractContext, ContractJudgement, ListChecks, checkout, contract_requirement};
use ralph_gates::gates::result_cache::{CachedResult, ResultCache};
use ralph_gates::gates::result_key::ResultKey;
use ralph_gates::gates::{ContentView, GateContent, ResultReuse};
use ralph_git::checkpoint::{Checkpoint, CheckpointRepository};
use ralph_home::faults::describe_error;
use ralph_home::world::World;
use ralph_policy::trust::{self, TrustError};
use ralph_proof::environment_record::RecordLimits;
use ralph_proof::tree_changes::TreeChanges;
use ralph_proof::{ClassRules, GateFile, ProofDirectory, ProofRequest};
use ralph_sys::clock::Deadline;
use ralph_sys::fs::file_slot;
use ralph_sys::proc::cancel::CancelToken;

/// Increased when proofs that an older version cached must no longer be used.
const PROOF_FORMAT: u8 = 2;

/// The proof of a stop.
#[derive(Debug)]
pub enum ProofEvidence {
    NotNeeded,
    Known(Proof),
    /// It is running, or gave no result.
    Open(Requirement),
}

/// Proves the work if everything else is met. `requirements` are all of the run.
pub fn gather_proof(
    contract: &ContractContext<'_>,
    judged: &ContractJudgement,
    requirements: &[Requirement],
) -> ProofEvidence {
    if !is_needed(contract, requirements) {
        return ProofEvidence::NotNeeded;
    }
    if contract.seal.base.is_none() {
        let why = "git is not installed, so there is no base to compare with".to_string();
        return ProofEvidence::Known(Proof::unavailable(why));
    }
    let Some(candidate) = &judged.candidate else {
        let why = "the work tree could not be checkpointed".to_string();
        return ProofEvidence::Known(Proof::unavailable(why));
    };
    let gates = proof_gates(contract, judged);
    if gates.is_empty() {
        return ProofEvidence::Known(Proof::unavailable("no gate runs tests".to_string()));
    }
    match resolve_proof(contract, candidate, &gates) {
        Ok(Some(proof)) => ProofEvidence::Known(proof),
        Ok(None) => {
            let why = "old tests run on the new code, and new tests on the old code".to_string();
            let status = RequirementStatus::Pending(PendingReason::Running(why));
            let next = "Wait for the gates with `ralph gate wait`";
            ProofEvidence::Open(contract_requirement(PROOF_REQUIREMENT, status, next))
        }
        Err(why) => {
            let status = RequirementStatus::Unknown(why);
            ProofEvidence::Open(contract_requirement(PROOF_REQUIREMENT, status, ""))
        }
    }
}

/// Whether the policy asks for a proof and nothing else decides the status of the run.
fn is_needed(contract: &ContractContext<'_>, requirements: &[Requirement]) -> bool {
    let is_claimed = |one: &Requirement| {
        one.is_required() && one.status == RequirementStatus::Met(EvidenceKind::Claimed)
    };
    let is_waived = |one: &Requirement| {
        !matches!(one.status, RequirementStatus::Met(_)) && contract.is_waived(&one.name)
    };
    let driver = contract.world.driven.map(|driven| driven.driver);
    contract.seal.policy.verify.proof != ProofMode::Off
        // The runner proves the work when the agent's process has exited.
        && driver != Some(StopDriver::Runner)
        && requirements.iter().any(Requirement::is_required)
        && !requirements.iter().any(|one| contract.holds(one) || is_claimed(one) || is_waived(one))
}

/// The gates whose results counted, and the checks of list items.
fn proof_gates<'a>(contract: &ContractContext<'a>, judged: &ContractJudgement) -> Vec<&'a Gate> {
    let has_counted = |gate: &Gate| judged.has_counted(contract, gate) && takes_part(gate);
    let mut gates = gate_query::select_gates(contract, &judged.touched, &has_counted);
    gates.extend(contract.checks.due.iter().filter(|gate| takes_part(gate)));
    gates
}

fn takes_part(gate: &Gate) -> bool {
    gate.proof && gate.weight == RequirementWeight::Required
}

/// `None` while a worker makes the proof.
fn resolve_proof(
    contract: &ContractContext<'_>,
    candidate: &CandidateCheckpoint,
    gates: &[&Gate],
) -> Result<Option<Proof>, String> {
    let cache = ResultCache::open(&contract.world.home).map_err(|error| describe_error(&error))?;
    let (tree_key, _) = tree_results(contract, candidate, gates, &cache)?;
    let find_proof = || {
        let installed = InstalledState::read(contract, &cache);
        read_proof(&cache, &proof_key(&tree_key, &installed))
    };
    if let Some(proof) = find_proof() {
        return Ok(Some(proof));
    }
    let until = gate_query::worker_deadline(contract);
    let names = gates.iter().map(|gate| gate.name.clone()).collect();
    let task = GateTask { site: GateSite::Proof, gates: names, mark: tree_key.hex() };
    let left = gate_worker::run_gate_worker(contract, &task, until)
        .map_err(|error| describe_error(&error))?;
    // The worker waits until the installed packages are recorded, so they are read again.
    match (find_proof(), left) {
        (Some(proof), _) => Ok(Some(proof)),
        (None, WorkerState::Running) => Ok(None),
        (None, WorkerState::Done) => Err("it produced no result".to_string()),
    }
}

/// The key of the proof of a tree with these packages.
fn proof_key(tree_key: &ResultKey, installed: &InstalledState) -> ResultKey {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&tree_key.0);
    hasher.update(&installed.content_mark());
    ResultKey(hasher.finalize().into())
}

fn read_proof(cache: &ResultCache, key: &ResultKey) -> Option<Proof> {
    serde_json::from_slice(&cache.read_note(key)?).ok()
}

/// The results of the gates in the work tree, and the key of a proof that starts from them. The keys of the results
/// cover the content of the tree, the environment and the programs.
fn tree_results(
    contract: &ContractContext<'_>,
    candidate: &CandidateCheckpoint,
    gates: &[&Gate],
    cache: &ResultCache,
) -> Result<(ResultKey, Vec<GateReport>), String> {
    let exclude = contract.exclude();
    let place = contract.gate_place(GateContent::Tree { exclude: &exclude });
    let view = ContentView::read(&place).map_err(|error| describe_error(&error))?;
    let mut hasher = blake3::Hasher::new();
    hasher.update(&[PROOF_FORMAT]);
    hasher.update(&candidate.tree);
    let sealed = contract.seal.base.as_ref().map(|base| base.commit.as_str());
    let base = contract.proof_base.or(sealed).unwrap_or_default();
    let policy = serde_json::to_vec(&contract.seal.policy).unwrap_or_default();
    for part in [base.as_bytes(), contract.run.id.as_str().as_bytes(), &policy] {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    let mut reports = Vec::new();
    for gate in gates {
        let key = view.key(&place, gate);
        hasher.update(&key.0);
        if let Ok(CachedResult::Result(report)) = cache.lookup(&key) {
            reports.push(*report);
        }
    }
    Ok((ResultKey(hasher.finalize().into()), reports))
}

/// Makes the proof, in the worker.
pub(super) fn make_proof(
    contract: &ContractContext<'_>,
    gates: &[&Gate],
    cancel: &CancelToken,
) -> Result<(), GateWorkerError> {
    let exclude = contract.exclude();
    let place = contract.gate_place(GateContent::Tree { exclude: &exclude });
    let ContentView::Tree(listing) = ContentView::read(&place)? else { return Ok(()) };
    let (repository, candidate) = change_summary::checkpoint_tree(contract, &listing)?;
    let cache = ResultCache::open(&contract.world.home)?;
    let identity = CandidateCheckpoint::from_checkpoint(&candidate);
    let (tree_key, reports) =
        tree_results(contract, &identity, gates, &cache).map_err(GateWorkerError::NoTreeResults)?;
    let path = contract.world.home.run(&contract.run.id).base_lock();
    let Some(_base) = file_slot::acquire(&path, &|| !cancel.is_cancelled())? else {
        return Ok(());
    };
    let installed = InstalledState::read(contract, &cache);
    let key = proof_key(&tree_key, &installed);
    // A worker before this one may have finished it.
    if read_proof(&cache, &key).is_some() {
        return Ok(());
    }
    let deadline = Deadline::after(checkout::CHECKOUT_TIMEOUT);
    let base = checkout::find_proof_base(contract, &repository, &deadline)?;
    let doubt = installed.doubt(contract, || {
        // The packages were recorded at the start of the run, so its own base declares them.
        let first = checkout::find_base(contract, &repository, &deadline)?;
        let versions = (&first, &candidate);
        TreeChanges::between(&repository, versions, contract.project(), &deadline)
    })?;
    let sides = ProofSides {
        repository: &repository,
        base: &base,
        candidate: &candidate,
        installed: installed.content_mark(),
    };
    let mut report = sides.with_request(contract, gates, &reports, cancel, |request| {
        ralph_proof::prove(request).map_err(GateWorkerError::from)
    })?;
    if let Some((verdict, why)) = doubt {
        report.proof.doubt(verdict, why);
    }
    if !cancel.is_cancelled() {
        let bytes = serde_json::to_vec(&report.proof).unwrap_or_default();
        cache.write_note(&key, &bytes)?;
    }
    Ok(())
}

/// Records the installed packages and runs the gates at the base, in a worker that starts with the run.
pub(super) fn measure_base(
    contract: &ContractContext<'_>,
    gates: &[&Gate],
    cancel: &CancelToken,
) -> Result<(), GateWorkerError> {
    let cache = ResultCache::open(&contract.world.home)?;
    environment_evidence::record_packages(contract, &cache, &RecordLimits::LARGE);
    let deadline = Deadline::after(checkout::CHECKOUT_TIMEOUT);
    let repository = checkout::open_repository(contract, &deadline)?;
    let base = checkout::find_base(contract, &repository, &deadline)?;
    let installed = InstalledState::read(contract, &cache).content_mark();
    let sides = ProofSides { repository: &repository, base: &base, candidate: &base, installed };
    sides.with_request(contract, gates, &[], cancel, |request| {
        ralph_proof::measure_base(request).map(drop).map_err(GateWorkerError::from)
    })
}

/// The two trees of a proof.
struct ProofSides<'a> {
    repository: &'a CheckpointRepository,
    base: &'a Checkpoint,
    candidate: &'a Checkpoint,
    /// Identifies the installed packages.
    installed: [u8; 32],
}

impl ProofSides<'_> {
    fn with_request<T>(
        &self,
        contract: &ContractContext<'_>,
        gates: &[&Gate],
        tree_reports: &[GateReport],
        cancel: &CancelToken,
        run: impl FnOnce(&ProofRequest<'_>) -> Result<T, GateWorkerError>,
    ) -> Result<T, GateWorkerError> {
        let (world, seal) = (contract.world, contract.seal);
        let directory = ProofDirectory::create(&world.home, &world.env)?;
        let rules = class_rules(&seal.policy, contract.project(), gates)?;
        let log = GateLog::open(&world.home, &contract.run.id);
        run(&ProofRequest {
            home: &world.home,
            env: &world.env,
            project: contract.project(),
            repository: self.repository,
            base: self.base,
            candidate: self.candidate,
            gates,
            environment: &seal.policy.environment,
            path: seal.path.as_deref().map(OsStr::new),
            links: &seal.policy.verify.link,
            installed: self.installed,
            rules: &rules,
            may_change: &seal.policy.verify.may_change,
            tree_reports,
            reuse: ResultReuse::Cached,
            directory: &directory,
            cancel,
            watch: &|progress| log.record_proof(progress),
        })
    }
}

/// The rules of the policy, and the files that its commands and those of `checks` name.
pub fn class_rules(
    policy: &Policy,
    project: &Path,
    checks: &[&Gate],
) -> Result<ClassRules, TrustError> {
    let mut gate_files = Vec::new();
    for gate in policy.gates.iter().chain(checks.iter().copied()) {
        let files = trust::referenced_files(project, gate)?;
        let files = files.into_iter().map(|path| GateFile { gate: gate.name.clone(), path });
        gate_files.extend(files);
    }
    Ok(ClassRules::new(policy, gate_files))
}

/// Starts to measure the base of a new run in the background. Without it the first proof measures the base itself.
pub fn start_base_measurement(world: &World, run: &RunRecord) {
    let Some(seal) = run.seal.as_deref().filter(|seal| needs_base(seal)) else { return };
    if world.env.is_rehearsal() {
        return;
    }
    let (none, checks) = (Vec::new(), ListChecks::default());
    let contract = ContractContext {
        world,
        run,
        seal,
        iteration: 0,
        parts: &[],
        checks: &checks,
        waivers: &none,
        proof_base: None,
    };
    // Before the agent can change them. The worker records the others.
    if let Ok(cache) = ResultCache::open(&world.home) {
        environment_evidence::record_packages(&contract, &cache, &RecordLimits::SMALL);
    }
    let gates = seal.policy.gates.iter().filter(|gate| is_measured_first(gate));
    let gates = gates.map(|gate| gate.name.clone()).collect();
    let task = GateTask { site: GateSite::Base, gates, mark: gate_worker::BASE_MARK.to_string() };
    // The first proof measures the base if this fails.
    drop(gate_worker::start_gate_worker(&contract, &task));
}

fn needs_base(seal: &PolicySeal) -> bool {
    seal.base.is_some()
        && seal.policy.verify.proof != ProofMode::Off
        && seal.policy.gates.iter().any(is_measured_first)
}

/// Gates of chunks alone are measured when their chunk is reached.
fn is_measured_first(gate: &Gate) -> bool {
    takes_part(gate) && gate.on.contains(&GateTrigger::Stop)
}
