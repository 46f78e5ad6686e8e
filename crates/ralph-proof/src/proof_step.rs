//! One step of a proof: a checkout of one combination of code and tests, and the gates in it.

use std::collections::{BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::Duration;

use ralph_core::gate::{Gate, GateReport, UnknownReason};
use ralph_core::proof::{CanaryResult, ProofStep};
use ralph_core::text;
use ralph_gates::gates::{self, GateContent, GateContext, GateOrder, GateRunRequest, ResultReuse};
use ralph_git::checkpoint::{CheckoutLeftovers, CheckoutRequest, Checkpoint, OverlayFile};
use ralph_git::tree::{self, ListingRequest, TreeEntry, WorkTreeListing};
use ralph_sys::clock::{self, Deadline};
use ralph_sys::fs::{self, ConfinedDir, CopyKind, Durability};

use crate::canary::{self, Canary, ExampleTest};
use crate::checkout_environment::checkout_environment;
use crate::installed_packages::link_packages;
use crate::proof_directory::StepDirectories;
use crate::prove::{ProofError, ProofRequest};
use crate::test_runner;

/// For writing a large tree, and for listing it.
pub(crate) const CHECKOUT_TIMEOUT: Duration = Duration::from_mins(5);
const MAX_TEXT_BYTES: usize = 1024 * 1024;
const MAX_NAMED_FILES: usize = 3;

/// The tree of one step.
#[derive(Clone, Debug)]
pub(crate) struct StepTree<'a> {
    pub step: ProofStep,
    pub code: &'a Checkpoint,
    pub tests: &'a Checkpoint,
    /// Paths relative to the work tree that are taken from `tests`.
    pub from_tests: BTreeSet<OsString>,
    /// Files that have parts of both.
    pub merged: Vec<OverlayFile>,
}

/// What the gates of a step reported.
#[derive(Debug)]
pub(crate) struct StepResult {
    /// In the order of the gates.
    pub reports: Vec<GateReport>,
    pub canaries: Vec<CanaryResult>,
    pub took_ms: u64,
}

/// Runs the gates on the tree of one step. A failing test is added for each gate that `wants_canary` names, if possible.
pub(crate) fn run_step(
    request: &ProofRequest<'_>,
    tree: &StepTree<'_>,
    wants_canary: &dyn Fn(usize) -> bool,
) -> Result<StepResult, ProofError> {
    (request.watch)(tree.step);
    let started = clock::now_ms();
    let directories = request.directory.step(tree.step, request.repository.root())?;
    let deadline = Deadline::after(CHECKOUT_TIMEOUT);
    let repository =
        request.repository.with_checkout_dir(directories.tree.clone(), tree.step.name());
    let checkout = repository.checkout(
        &CheckoutRequest {
            candidate: tree.code,
            base: tree.tests,
            is_protected: &|path| tree.from_tests.contains(path),
            overlay: &tree.merged,
            links: &[],
            leftovers: CheckoutLeftovers::Remove,
        },
        &deadline,
    )?;
    let project = checkout.dir.join(request.project_below());
    link_packages(request.project, &project, request.links)?;
    let before = list_files(&checkout.dir)?;
    let planned = plan_canaries(request, &project, &before, wants_canary);
    add_canaries(&project, &directories, planned.iter().flatten())?;
    let gates: Vec<Gate> = request
        .gates
        .iter()
        .zip(&planned)
        .map(|(gate, planned)| match planned {
            Some(planned) => canary::gate_with_canary(gate, planned.runner),
            None => (*gate).clone(),
        })
        .collect();
    let mut reports = run_gates(request, checkout.tree.0, (&directories, &project), &gates);
    void_if_changed(&before, &list_files(&checkout.dir)?, &gates, &mut reports);
    let canaries = reports
        .iter_mut()
        .zip(&planned)
        .map(|(report, planned)| match planned {
            Some(planned) => canary::take_canary(report, planned),
            None => CanaryResult::NotPossible,
        })
        .collect();
    let took_ms = clock::now_ms().saturating_sub(started);
    Ok(StepResult { reports, canaries, took_ms })
}

fn run_gates(
    request: &ProofRequest<'_>,
    content: [u8; 32],
    (directories, project): (&StepDirectories, &Path),
    gates: &[Gate],
) -> Vec<GateReport> {
    let environment = checkout_environment(request.env, request.environment, directories, project);
    let chosen: Vec<&Gate> = gates.iter().collect();
    let ran = gates::run_gates(&GateRunRequest {
        context: GateContext {
            home: request.home,
            env: request.env,
            project,
            content: GateContent::Checkout(content),
            environment: &environment,
            path: request.path,
            deadline: Deadline::after(CHECKOUT_TIMEOUT),
        },
        gates: &chosen,
        order: GateOrder::All,
        reuse: ResultReuse::Never,
        cancel: request.cancel,
        accepts: &|_| true,
        watch: &|_| {},
    });
    ran.into_iter().map(|ran| ran.report).collect()
}

fn list_files(root: &Path) -> Result<WorkTreeListing, ProofError> {
    let deadline = Deadline::after(CHECKOUT_TIMEOUT);
    let survey = ListingRequest { project: root, exclude: &[], cache: None, deadline: &deadline };
    Ok(tree::list_work_tree(&survey)?)
}

/// A gate that changes the files it was given has measured something else.
fn void_if_changed(
    before: &WorkTreeListing,
    after: &WorkTreeListing,
    gates: &[Gate],
    reports: &mut [GateReport],
) {
    let kept: HashMap<&OsStr, &TreeEntry> =
        after.entries.iter().map(|entry| (entry.path.as_os_str(), entry)).collect();
    let changed: Vec<String> = before
        .entries
        .iter()
        .filter(|entry| kept.get(entry.path.as_os_str()) != Some(entry))
        .map(|entry| text::clean_line(&entry.path.to_string_lossy(), 120))
        .collect();
    if changed.is_empty() {
        return;
    }
    let named = changed.iter().take(MAX_NAMED_FILES).cloned().collect::<Vec<_>>().join(", ");
    for (gate, report) in gates.iter().zip(reports) {
        let why = format!("files of the checkout changed while it ran: {named}");
        let unknown = UnknownReason::Inconclusive(why);
        *report = GateReport {
            log: report.log.take(),
            ..GateReport::unknown(gate, unknown, report.at_ms)
        };
    }
}

fn plan_canaries(
    request: &ProofRequest<'_>,
    project: &Path,
    files: &WorkTreeListing,
    wants_canary: &dyn Fn(usize) -> bool,
) -> Vec<Option<Canary>> {
    let below = request.project_below();
    let paths: Vec<&str> = files
        .entries
        .iter()
        .filter_map(|entry| Path::new(&entry.path).strip_prefix(&below).ok()?.to_str())
        .collect();
    let read = |path: &str| {
        let bytes = fs::read(&project.join(path), MAX_TEXT_BYTES).ok()?;
        String::from_utf8(bytes).ok()
    };
    let plan = |gate: &Gate| {
        let script =
            |name: &str| package_script(&read(&in_directory(&gate.cwd, "package.json"))?, name);
        let runner = test_runner::find_runner(gate, &script)?;
        // The last file, so that the canary comes after the other tests where they run in order.
        let mut examples = paths.iter().rev().filter(|path| {
            Path::new(path).starts_with(&gate.cwd) && canary::is_example(runner, path)
        });
        examples.find_map(|path| {
            let text = read(path)?;
            canary::plan_canary(gate, runner, ExampleTest { path, text: &text }, clock::nonce())
        })
    };
    let gates = request.gates.iter().enumerate();
    gates.map(|(at, gate)| wants_canary(at).then(|| plan(gate)).flatten()).collect()
}

fn in_directory(directory: &str, name: &str) -> String {
    if directory.is_empty() { name.to_string() } else { format!("{directory}/{name}") }
}

fn package_script(manifest: &str, name: &str) -> Option<String> {
    let manifest: serde_json::Value = serde_json::from_str(manifest).ok()?;
    Some(manifest.get("scripts")?.get(name)?.as_str()?.to_string())
}

/// Writes the canaries without following any link of the checkout.
fn add_canaries<'a>(
    project: &Path,
    directories: &StepDirectories,
    canaries: impl Iterator<Item = &'a Canary>,
) -> Result<(), ProofError> {
    let inside = ConfinedDir::open(project)?;
    for canary in canaries {
        let original = directories.home.with_file_name("canary");
        fs::replace(&original, canary.content.as_bytes(), Durability::Cached)?;
        inside.put_copy(Path::new(&canary.path), &original, CopyKind::File)?;
        fs::remove_file(&original)?;
    }
    Ok(())
}
