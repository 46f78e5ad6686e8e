//! The two versions of a run that checkouts are composed of.

use std::ffi::OsStr;

use ralph_core::gate::{BaselineMode, Gate, GateReport};
use ralph_gates::gates::result_cache::ResultCache;
use ralph_git::checkpoint::{Checkpoint, CheckpointRepository};
use ralph_proof::{ProofDirectory, ProofRequest, ResultReuse};
use ralph_sys::proc::cancel::CancelToken;

use super::gate_log::GateLog;
use super::gate_worker::GateWorkerError;
use super::gate_writes;
use super::proof_evidence::class_rules;
use super::{ContractContext, project_base};

pub(super) struct ProofSides<'a> {
    pub repository: &'a CheckpointRepository,
    pub base: &'a Checkpoint,
    pub candidate: &'a Checkpoint,
    /// Identifies the installed packages.
    pub installed: [u8; 32],
}

impl ProofSides<'_> {
    pub(super) fn with_request<T>(
        &self,
        contract: &ContractContext<'_>,
        gates: &[&Gate],
        tree_reports: &[GateReport],
        cancel: &CancelToken,
        run: impl FnOnce(&ProofRequest<'_>) -> Result<T, GateWorkerError>,
    ) -> Result<T, GateWorkerError> {
        let (world, seal) = (contract.world, contract.seal);
        let directory =
            ProofDirectory::create(&world.home, &world.env, contract.project(), cancel)?;
        let rules = class_rules(&seal.policy, contract.project(), gates)?;
        let cache = ResultCache::open(&world.home)?;
        let at_base = |gate: &&Gate| project_base::project_result(contract, &cache, gate);
        let base_reports: Vec<GateReport> = gates.iter().filter_map(at_base).collect();
        let gate_writes = gate_writes::written_paths(contract);
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
            accepts_old_failures: seal.policy.baseline == BaselineMode::Ratchet,
            tree_reports,
            base_reports: Some(&base_reports),
            gate_writes: &gate_writes,
            reuse: ResultReuse::Cached,
            must_mount: seal.mounts_checkouts,
            directory: &directory,
            cancel,
            watch: &|progress| log.record_proof(progress),
            ended: &|ran| log.record_bill(ran),
        })
    }
}
