//! Results of gates in checkouts, cached by content and sealed. A result is valid for every checkout with the same files,
//! so the path of a checkout is not part of the key.

use std::path::{Path, PathBuf};

use ralph_core::gate::{GateOutcome, GateReport};
use ralph_core::proof::CanaryResult;
use ralph_gates::environment::gate_environment;
use ralph_gates::gates::result_cache::ResultCache;
use ralph_gates::gates::result_key::{ResultKey, ResultKeyInputs, compute_key};
use ralph_sys::fs::FileError;
use serde::{Deserialize, Serialize};

use crate::checkout_environment::checkout_environment;
use crate::checkout_view::is_mounted;
use crate::proof_directory::StepDirectories;
use crate::proof_plan::StepTree;
use crate::proof_step::StepGate;
use crate::prove::ProofRequest;

/// Incremented when results of older versions must no longer be used.
const STEP_FORMAT: u64 = 3;
/// Stands for the directory of a checkout.
const ANY_CHECKOUT: &str = "/checkout";

/// The result of one gate in one step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct GateStepResult {
    /// Without the canary.
    pub report: GateReport,
    pub canary: CanaryResult,
}

#[derive(Debug)]
pub(crate) struct StepCache<'a> {
    request: &'a ProofRequest<'a>,
    results: ResultCache,
}

impl<'a> StepCache<'a> {
    pub(crate) fn open(request: &'a ProofRequest<'a>) -> Result<Self, FileError> {
        Ok(Self { request, results: ResultCache::open(request.home)? })
    }

    pub(crate) fn read(&self, tree: &StepTree<'_>, gate: &StepGate<'_>) -> Option<GateStepResult> {
        let note = self.results.read_note(&self.key(tree, gate))?;
        serde_json::from_slice(&note).ok()
    }

    /// Caches a result, unless it is unknown: its cause may be gone by the next run.
    pub(crate) fn write(&self, tree: &StepTree<'_>, gate: &StepGate<'_>, result: &GateStepResult) {
        if matches!(result.report.outcome, GateOutcome::Unknown(_)) {
            return;
        }
        if let Ok(note) = serde_json::to_vec(result) {
            // If the note cannot be written, the gate runs again next time.
            drop(self.results.write_note(&self.key(tree, gate), &note));
        }
    }

    fn key(&self, tree: &StepTree<'_>, gate: &StepGate<'_>) -> ResultKey {
        let request = self.request;
        let root = Path::new(ANY_CHECKOUT);
        let directories = StepDirectories {
            tree: root.join("tree"),
            home: root.join("home"),
            temporary: root.join("tmp"),
            build: root.join("build"),
            overlays: root.join("packages"),
        };
        let project: PathBuf = directories.tree.join(request.project_below());
        let is_mounted = is_mounted(request);
        let unmounted = (!is_mounted).then_some(&*project);
        let policy =
            checkout_environment(request.env, request.environment, &directories, unmounted);
        let environment = gate_environment(request.env, &policy, gate.gate, request.path);
        let mut content = blake3::Hasher::new();
        let mut field = |bytes: &[u8]| {
            content.update(&(bytes.len() as u64).to_le_bytes());
            content.update(bytes);
        };
        field(b"proof step");
        field(&STEP_FORMAT.to_le_bytes());
        field(&tree.id.0);
        field(&[u8::from(gate.wants_canary)]);
        for file in gate.files.into_iter().flatten() {
            field(file.as_bytes());
        }
        field(&[u8::from(gate.files.is_some()), u8::from(is_mounted)]);
        field(&request.installed);
        for link in request.links {
            field(link.as_bytes());
        }
        let inputs = ResultKeyInputs {
            project: request.project,
            environment: &environment,
            content: content.finalize().into(),
        };
        compute_key(gate.gate, &inputs)
    }
}
