//! The proof of a run: old tests on the new code and new tests on the old code, run by a worker in private checkouts.
//!
//! It is made only when everything else is met. The base is measured in the background from the start of the run.

use std::path::Path;

use ralph_core::facts::StopDriver;
use ralph_core::gate::{BaselineMode, Gate, GateInvocation, GateReport, GateTier, GateTrigger};
use ralph_core::policy::{Policy, ProofMode};
use ralph_core::proof::Proof;
use ralph_core::proof_summary::PROOF_REQUIREMENT;
use ralph_core::record::{PolicySeal, RunRecord};
use ralph_core::requirement::{
    EvidenceKind, PendingReason, Requirement, RequirementStatus, RequirementWeight,
};
use ralph_core::waiver;

use super::change_summary::{self, CandidateCheckpoint, StopCheckpoint};
use super::environment_evidence::{self, InstalledState};
use super::gate_query;
use super::gate_worker::{self, GateSite, GateTask, GateWorkerError, WorkerState};
use super::proof_sides::ProofSides;
use super::{
    ContractContext, ListChecks, MeasuredContract, base_checkpoint, base_checks,
    contract_requirement, project_base,
};
use ralph_gates::gates::result_cache::{CachedResult, ResultCache};
use ralph_gates::gates::result_key::ResultKey;
use ralph_gates::gates::{ContentView, GateContent};
use ralph_home::faults::describe_error;
use ralph_home::world::World;
use ralph_policy::trust::{self, TrustError};
use ralph_proof::environment_record::RecordLimits;
use ralph_proof::tree_changes::{ComparedCheckpoints, TreeChanges};
use ralph_proof::{ClassRules, GateFile, GateFileRole};
use ralph_sys::clock::{self, Deadline};
use ralph_sys::fs::{self, file_slot};
use ralph_sys::proc::cancel::CancelToken;

/// Increased when proofs that an older version cached must no longer be used.
const PROOF_FORMAT: u8 = 5;

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
    measured: &MeasuredContract,
    requirements: &[Requirement],
) -> ProofEvidence {
    if !is_needed(contract, requirements) {
        return ProofEvidence::NotNeeded;
    }
    if contract.seal.base.is_none() {
        let why = "git is not installed, so there is no base to compare with";
        return ProofEvidence::Known(Proof::impossible(why));
    }
    let Some(candidate) = &measured.candidate else {
        let why = "the work tree could not be checkpointed".to_string();
        return ProofEvidence::Known(Proof::unavailable(why));
    };
    let gates = proof_gates(contract, measured);
    if gates.is_empty() {
        return ProofEvidence::Known(Proof::impossible("no gate is part of the proof"));
    }
    match resolve_proof(contract, candidate, &gates) {
        // A proof takes time too, and what was proved must be what is there now.
        Ok(Some(_)) if !super::is_tree_unchanged(contract, measured) => {
            let why = "it changed while it was proved";
            ProofEvidence::Open(super::unknown_requirement("work tree", why))
        }
        Ok(Some(proof)) => ProofEvidence::Known(proof),
        Ok(None) => {
            let why = "old tests run on the new code, and new tests on the old code".to_string();
            let status = RequirementStatus::Pending(PendingReason::Running(why));
            let next = "Wait for the gates with `ralph wait`";
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
        waiver::weakening_waiver(one, contract.waivers, contract.world.arrived_ms).is_some()
    };
    let driver = contract.world.driven.map(|driven| driven.driver);
    contract.seal.policy.verify.proof != ProofMode::Off
        // The runner proves the work when the agent's process has exited.
        && driver != Some(StopDriver::Runner)
        && requirements.iter().any(Requirement::is_required)
        && !requirements.iter().any(|one| contract.holds(one) || is_claimed(one) || is_waived(one))
}

/// The gates whose results counted, and the checks of list items.
fn proof_gates<'a>(contract: &ContractContext<'a>, measured: &MeasuredContract) -> Vec<&'a Gate> {
    let has_counted =
        |gate: &Gate| measured.has_counted(contract, gate) && gate.takes_part_in_proof();
    let mut gates = gate_query::select_gates(contract, &measured.touched, &has_counted);
    gates.extend(contract.checks.due.iter().filter(|gate| gate.takes_part_in_proof()));
    gates
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
    let started_ms = clock::now_ms();
    let until = gate_query::worker_deadline(contract);
    let names = gates.iter().map(|gate| gate.name.clone()).collect();
    let task = GateTask { site: GateSite::Proof, gates: names, mark: tree_key.hex() };
    let left = gate_worker::run_gate_worker(contract, &task, until, || Ok(()))
        .map_err(|error| describe_error(&error))?;
    // The worker waits until the installed packages are recorded, so they are read again.
    match (find_proof(), left) {
        (Some(proof), _) => Ok(Some(proof)),
        (None, WorkerState::Running) => Ok(None),
        // The result belongs to the packages as they were.
        (None, WorkerState::Done) => {
            let changed = environment_evidence::packages_changed_since(contract, started_ms);
            Err(match changed {
                Some(names) => format!("installed packages changed while it ran: {names}"),
                None => "it produced no result".to_string(),
            })
        }
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
    let StopCheckpoint { repository, now: candidate, .. } =
        change_summary::checkpoint_tree(contract, &listing)?;
    let cache = ResultCache::open(&contract.world.home)?;
    let identity = CandidateCheckpoint::new(&repository, &candidate);
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
    let deadline = Deadline::after(base_checkpoint::CHECKOUT_TIMEOUT);
    let base = base_checkpoint::find_proof_base(contract, &repository, &deadline)?;
    let doubts = installed.doubts(contract, || {
        // The packages were recorded at the start of the run, so its own base declares them.
        let first = base_checkpoint::find_base(contract, &repository, &deadline)?;
        let versions = ComparedCheckpoints { base: &first, now: &candidate };
        TreeChanges::between(&repository, versions, contract.project(), &deadline)
    })?;
    let sides = ProofSides {
        repository: &repository,
        base: &base,
        candidate: &candidate,
        installed: installed.content_mark(),
    };
    let proved: Vec<Gate> = gates.iter().map(|gate| gate.without_coverage_conditions()).collect();
    let proved: Vec<&Gate> = proved.iter().collect();
    let mut report = sides.with_request(contract, &proved, &reports, cancel, |request| {
        ralph_proof::prove(request).map_err(GateWorkerError::from)
    })?;
    for (verdict, why) in doubts {
        report.proof.doubt(verdict, why);
    }
    if !cancel.is_cancelled() {
        let bytes = serde_json::to_vec(&report.proof).unwrap_or_default();
        cache.write_note(&key, &bytes)?;
    }
    Ok(())
}

/// The rules of the policy, and the files that its commands and those of `checks` name.
pub fn class_rules(
    policy: &Policy,
    project: &Path,
    checks: &[&Gate],
) -> Result<ClassRules, TrustError> {
    let mut gate_files = Vec::new();
    for gate in policy.gates.iter().chain(checks.iter().copied()) {
        let file = |path, role| GateFile { gate: gate.name.clone(), path, role };
        for found in trust::referenced_files(project, gate)? {
            let role = match found.script {
                Some(script) => GateFileRole::Script(script),
                None if found.is_settings => GateFileRole::Settings,
                None => GateFileRole::Judge,
            };
            gate_files.push(file(found.path, role));
        }
        let targets = make_targets(gate).into_iter();
        let targets = targets.filter(|target| fs::exists(&project.join(target)));
        gate_files.extend(targets.map(|target| file(target, GateFileRole::Judge)));
    }
    Ok(ClassRules::new(policy, gate_files))
}

/// The files that would keep `make` from running a target of the same name, so that they decide what is tested.
fn make_targets(gate: &Gate) -> Vec<String> {
    let words: Vec<&str> = match &gate.command {
        GateInvocation::Argv(words) => words.iter().map(String::as_str).collect(),
        GateInvocation::Shell(line) => line.split_whitespace().collect(),
    };
    let is_make = |word: &&str| matches!(word.rsplit('/').next(), Some("make" | "gmake"));
    let after = words.iter().skip_while(|word| !is_make(word)).skip(1);
    let is_target = |word: &&&str| !word.starts_with('-') && !word.contains(['=', '$', '"', '\'']);
    let named = after.take_while(|word| !word.contains(['&', '|', ';'])).filter(is_target);
    let directory = Path::new(&gate.cwd);
    named.filter_map(|word| directory.join(word).to_str().map(ToString::to_string)).collect()
}

/// Starts to measure the base of a new run in the background, so that its failures are known at the first stop.
pub fn start_base_measurement(world: &World, run: &RunRecord) {
    let Some(seal) = run.seal.as_deref().filter(|seal| seal.base.is_some()) else { return };
    let looked_at = base_checks::base_check_gates(&world.home, run);
    if world.env.is_rehearsal() || (!needs_base(seal) && looked_at.is_empty()) {
        return;
    }
    let (none, checks) = (Vec::new(), ListChecks::default());
    let contract = ContractContext {
        world,
        run,
        seal,
        iteration: 0,
        last_report: None,
        parts: &[],
        checks: &checks,
        waivers: &none,
        approvals: &[],
        proof_base: None,
    };
    let gates: Vec<&Gate> = if needs_base(seal) {
        seal.policy.gates.iter().filter(|gate| is_measured_first(gate)).collect()
    } else {
        Vec::new()
    };
    // Before the agent can change them. The worker records the others.
    if let Ok(cache) = ResultCache::open(&world.home) {
        environment_evidence::record_packages(&contract, &cache, &RecordLimits::SMALL);
        if project_base::is_needed(&contract) {
            project_base::keep_cached_results(&contract, &cache, &gates);
        }
    }
    let gates = gates.iter().copied().chain(&looked_at);
    let gates = gates.map(|gate| gate.name.clone()).collect();
    let task = GateTask { site: GateSite::Base, gates, mark: gate_worker::BASE_MARK.to_string() };
    // If this fails, the base is measured when its results are needed.
    drop(gate_worker::start_gate_worker(&contract, &task));
}

/// Whether the result of the run depends on the base. Otherwise it is measured when a gate fails.
fn needs_base(seal: &PolicySeal) -> bool {
    let policy = &seal.policy;
    let is_used = policy.verify.proof != ProofMode::Off || policy.baseline == BaselineMode::Ratchet;
    seal.base.is_some() && is_used && policy.gates.iter().any(is_measured_first)
}

/// Gates of chunks alone are measured when their chunk is reached, advisory ones when they fail, and slow ones when
/// they run.
fn is_measured_first(gate: &Gate) -> bool {
    gate.weight == RequirementWeight::Required
        && gate.tier == GateTier::Fast
        && gate.on.contains(&GateTrigger::Stop)
        && !gate.is_ci()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_named_like_targets_of_make_decide_what_is_tested() {
        for (command, expected) in [
            ("make test", "test"),
            ("/usr/bin/make -k CI=1 test lint", "test,lint"),
            ("cd web && make -s check && echo done", "check"),
            ("make", ""),
            ("cargo test", ""),
        ] {
            let shell = Gate::new("tests", GateInvocation::Shell(command.to_string()));
            let words = command.split(' ').map(ToString::to_string).collect();
            let mut argv = Gate::new("tests", GateInvocation::Argv(words));
            assert_eq!(make_targets(&shell).join(","), expected, "{command}");
            assert_eq!(make_targets(&argv).join(","), expected, "{command}");
            argv.cwd = "web".to_string();
            let below = make_targets(&argv).iter().all(|file| file.starts_with("web/"));
            assert!(below, "{command}");
        }
    }
}
