//! One step of a proof: a checkout of one combination of code and tests, and the gates in it.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use ralph_core::gate::{Gate, GateReport, RerunPolicy, UnknownReason};
use ralph_core::proof::{CanaryResult, ProofStep};
use ralph_core::text;
use ralph_gates::gates::result_cache::ResultCache;
use ralph_gates::gates::{
    self, ContentView, GateContent, GateContext, GateEvent, GateOrder, GateRunRequest, ResultReuse,
};
use ralph_git::checkpoint::CheckoutRequest;
use ralph_git::tree::{self, ListingRequest, TreeEntry, WorkTreeListing};
use ralph_sys::clock::{self, Deadline};
use ralph_sys::fs::{self, ConfinedDir, CopyKind, Durability};

use crate::canary::{self, Canary, ExampleTest};
use crate::canary_scope::CanaryScope;
use crate::checkout_environment::checkout_environment;
use crate::checkout_view::CheckoutView;
use crate::environment_record::changed_since;
use crate::environment_roots::EnvironmentRoot;
use crate::file_class::{FileClass, classify_file};
use crate::file_composition::needs_separation;
use crate::naming_conventions::{is_ambiguous_data, is_lock_file};
use crate::proof_directory::StepDirectories;
use crate::proof_plan::StepTree;
use crate::prove::{ProofError, ProofProgress, ProofRequest, TestProgress, count_tests};
use crate::step_cache::{GateStepResult, StepCache};
use crate::step_progress::watch_logs;
use crate::test_selection::select_files;
use ralph_gates::script_call::package_script;
use ralph_gates::test_runner;

/// For writing a large tree, and for listing it.
pub(crate) const CHECKOUT_TIMEOUT: Duration = Duration::from_mins(5);
const MAX_TEXT_BYTES: usize = 1024 * 1024;
const MAX_NAMED_FILES: usize = 3;

/// A gate in a step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepGate<'a> {
    pub gate: &'a Gate,
    /// Whether a failing test is added for it, if possible.
    pub wants_canary: bool,
    /// Limits its time further than its own timeout. Not part of the cache key: a result that came in time is the same
    /// under any limit, and one that did not is not cached.
    pub limit_ms: Option<u64>,
    /// Runs only the tests in these files, besides the canary.
    pub files: Option<&'a [String]>,
    /// How many tests it has, if an earlier result shows it. For display only.
    pub expected_tests: Option<usize>,
}

impl<'a> StepGate<'a> {
    /// All tests, without a canary. Limit and count come from the selected tests, so they do not apply then.
    pub(crate) fn whole(&self) -> Self {
        let limit_ms = self.limit_ms.filter(|_| self.files.is_none());
        let expected_tests = self.expected_tests.filter(|_| self.files.is_none());
        Self { wants_canary: false, limit_ms, files: None, expected_tests, ..*self }
    }

    /// The tests in these files if only some tests run, without a canary.
    pub(crate) fn with_files(&self, files: &'a [String]) -> Self {
        Self { wants_canary: false, files: self.files.and(Some(files)), ..*self }
    }
}

/// What the gates of a step reported.
#[derive(Debug)]
pub(crate) struct StepResult {
    /// In the order of the gates.
    pub reports: Vec<GateReport>,
    pub canaries: Vec<CanaryResult>,
    pub took_ms: u64,
    /// Whether a gate ran for it. A cached failure was confirmed when it was measured.
    pub is_fresh: bool,
}

/// Runs the gates on the tree of one step, apart from those with a cached result if these may be used.
pub(crate) fn run_step(
    request: &ProofRequest<'_>,
    tree: &StepTree<'_>,
    gates: &[StepGate<'_>],
) -> Result<StepResult, ProofError> {
    let started = clock::now_ms();
    let cache = StepCache::open(request)?;
    let cached = |gate| match request.reuse {
        ResultReuse::Cached | ResultReuse::CachedUnlessCi => cache.read(tree, gate),
        ResultReuse::Never => None,
    };
    let mut results: Vec<Option<GateStepResult>> = gates.iter().map(cached).collect();
    let missing: Vec<StepGate<'_>> = gates
        .iter()
        .zip(&results)
        .filter(|(_, known)| known.is_none())
        .map(|(gate, _)| *gate)
        .collect();
    let is_fresh = !missing.is_empty();
    if is_fresh {
        let fresh = run_in_checkout(request, tree, &missing)?;
        for (gate, result) in missing.iter().zip(&fresh) {
            cache.write(tree, gate, result);
        }
        let mut fresh = fresh.into_iter();
        for result in results.iter_mut().filter(|known| known.is_none()) {
            *result = fresh.next();
        }
    }
    let (reports, canaries) =
        results.into_iter().flatten().map(|one| (one.report, one.canary)).unzip();
    let took_ms = clock::now_ms().saturating_sub(started);
    Ok(StepResult { reports, canaries, took_ms, is_fresh })
}

/// Runs the gates on the tree of one step again, whatever is cached, and without the build results of earlier steps.
pub(crate) fn rerun_step(
    request: &ProofRequest<'_>,
    tree: &StepTree<'_>,
    gates: &[StepGate<'_>],
) -> Result<StepResult, ProofError> {
    request.directory.remove_build(tree.step)?;
    run_step(&ProofRequest { reuse: ResultReuse::Never, ..*request }, tree, gates)
}

fn run_in_checkout(
    request: &ProofRequest<'_>,
    tree: &StepTree<'_>,
    gates: &[StepGate<'_>],
) -> Result<Vec<GateStepResult>, ProofError> {
    let watch = |tests, has_ended| {
        (request.watch)(ProofProgress { step: tree.step, tests, has_ended });
    };
    watch(None, false);
    // Before the checkout is written, because the times of files are some milliseconds behind the clock.
    let started_ms = clock::now_ms();
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
        },
        &deadline,
    )?;
    let project = checkout.dir.join(request.project_below());
    let view = CheckoutView::prepare(request, &directories, &checkout.dir)?;
    if let Some(why) = &view.refusal {
        return Ok(gates.iter().map(|gate| refused_result(gate, why)).collect());
    }
    let planned = plan_canaries(request, &project, &checkout.files, gates);
    let command =
        |(gate, planned): (&StepGate<'_>, &Option<Canary>)| step_command(gate, planned.as_ref());
    let mut commands: Vec<Gate> = gates.iter().zip(&planned).map(command).collect();
    if tree.step == ProofStep::OldTests {
        // New code that fails once may leave a file behind that lets it pass when the tests run again.
        for gate in &mut commands {
            gate.rerun = RerunPolicy::Never;
        }
    }
    let expected: Option<usize> = gates.iter().map(|gate| gate.expected_tests).sum();
    let mut reports: Vec<Option<GateReport>> = gates.iter().map(|_| None).collect();
    let mut ended = 0;
    for batch in canary_batches(&planned) {
        let progress = |done| {
            let done = ended + done;
            // The canary, and tests that the earlier step did not have, are not expected.
            let tests = TestProgress { done, of: expected.filter(|of| *of >= done) };
            watch(Some(tests), false);
        };
        let canary = batch.first().and_then(|at| planned[*at].as_ref());
        if let Some(canary) = canary {
            add_canary(&project, &directories, canary)?;
        }
        let chosen: Vec<Gate> = batch.iter().map(|at| commands[*at].clone()).collect();
        let ran = run_gates(request, checkout.tree.0, &directories, &view, &chosen, &progress);
        if let Some(canary) = canary {
            ConfinedDir::open(&project)?.remove(Path::new(&canary.path))?;
        }
        ended += ran.iter().filter_map(count_tests).sum::<usize>();
        for (at, report) in batch.into_iter().zip(ran) {
            reports[at] = Some(report);
        }
    }
    watch(None, true);
    let mut reports: Vec<GateReport> = reports.into_iter().flatten().collect();
    let mut changed = changed_files(&checkout.files, &list_files(&checkout.dir)?);
    changed.retain(|path| !may_gates_write(request, path));
    void_reports("files of the checkout changed while it ran", &changed, &commands, &mut reports);
    void_if_packages_changed(request, &view.unprotected, started_ms, &commands, &mut reports);
    let result = |(mut report, planned): (GateReport, &Option<Canary>)| {
        let canary = match planned {
            Some(planned) => canary::take_canary(&mut report, planned),
            None => CanaryResult::NotPossible,
        };
        GateStepResult { report, canary }
    };
    Ok(reports.into_iter().zip(&planned).map(result).collect())
}

/// The result of a gate that cannot run in its checkout.
fn refused_result(gate: &StepGate<'_>, why: &str) -> GateStepResult {
    let unknown = UnknownReason::Inconclusive(why.to_string());
    let report = GateReport::unknown(gate.gate, unknown, clock::now_ms());
    GateStepResult { report, canary: CanaryResult::NotPossible }
}

/// The positions of the gates that run together: all without a canary, then each of the others by itself. Another gate
/// would find its canary too, and fail by it.
fn canary_batches(planned: &[Option<Canary>]) -> Vec<Vec<usize>> {
    let (alone, together): (Vec<usize>, Vec<usize>) =
        (0..planned.len()).partition(|at| planned[*at].is_some());
    let mut batches = vec![together];
    batches.extend(alone.into_iter().map(|at| vec![at]));
    batches.retain(|batch| !batch.is_empty());
    batches
}

/// The gate as it runs in the step.
fn step_command(gate: &StepGate<'_>, planned: Option<&Canary>) -> Gate {
    let files = gate.files.map(|files| {
        let added = planned.map(|planned| planned.path.clone());
        files.iter().cloned().chain(added).collect::<Vec<_>>()
    });
    let selected = files.and_then(|files| select_files(gate.gate, &files));
    let chosen = selected.as_ref().unwrap_or(gate.gate);
    let mut command = match planned {
        Some(planned) => canary::gate_with_canary(chosen, planned),
        None => chosen.clone(),
    };
    command.timeout_ms = command.timeout_ms.min(gate.limit_ms.unwrap_or(u64::MAX));
    command
}

fn run_gates(
    request: &ProofRequest<'_>,
    content: [u8; 32],
    directories: &StepDirectories,
    view: &CheckoutView,
    gates: &[Gate],
    progress: &(dyn Fn(usize) + Sync),
) -> Vec<GateReport> {
    let unmounted = view.mounts.is_none().then_some(&*view.project);
    let environment =
        checkout_environment(request.env, request.environment, directories, unmounted);
    let chosen: Vec<&Gate> = gates.iter().collect();
    let place = GateContext {
        home: request.home,
        env: request.env,
        project: &view.project,
        content: GateContent::Checkout(content),
        environment: &environment,
        path: request.path,
        mounts: view.mounts.as_ref(),
        ci_base: None,
        deadline: Deadline::after(CHECKOUT_TIMEOUT),
    };
    // Without logs there is no progress to show.
    let logs = ResultCache::open(request.home).map_or_else(
        |_| Vec::new(),
        |cache| {
            let view = ContentView::Checkout(content);
            gates.iter().map(|gate| cache.log_path(gate, &view.key(&place, gate), 0)).collect()
        },
    );
    let run = || {
        gates::run_gates(&GateRunRequest {
            listing: None,
            context: place,
            gates: &chosen,
            order: GateOrder::All,
            reuse: ResultReuse::Never,
            cancel: request.cancel,
            ci_checkout: None,
            accepts: &|_| true,
            watch: &|event| {
                if let GateEvent::Ended(ran) = event {
                    (request.ended)(ran);
                }
            },
        })
    };
    let ran = watch_logs(logs, progress, run);
    ran.into_iter().map(|ran| ran.report).collect()
}

fn list_files(root: &Path) -> Result<WorkTreeListing, ProofError> {
    let deadline = Deadline::after(CHECKOUT_TIMEOUT);
    let survey = ListingRequest { project: root, exclude: &[], cache: None, deadline: &deadline };
    Ok(tree::list_work_tree(&survey)?)
}

/// The files of the first listing that are not the same in the second.
fn changed_files(before: &WorkTreeListing, after: &WorkTreeListing) -> Vec<String> {
    let kept: HashMap<&OsStr, &TreeEntry> =
        after.entries.iter().map(|entry| (entry.path.as_os_str(), entry)).collect();
    let is_changed = |entry: &&TreeEntry| kept.get(entry.path.as_os_str()) != Some(entry);
    let changed = before.entries.iter().filter(is_changed);
    changed.map(|entry| entry.path.to_string_lossy().into_owned()).collect()
}

/// Whether gates may change a file of the checkout, because they write it by themselves, in the project too: a lock file
/// that does not fit its manifest, or generated data. Neither tests nor settings, nor a file that may contain them.
fn may_gates_write(request: &ProofRequest<'_>, path: &str) -> bool {
    let below = request.project_below();
    let inside = Path::new(path).strip_prefix(&below).ok().and_then(Path::to_str);
    let is_code = classify_file(inside.unwrap_or(path), request.rules).class == FileClass::Code
        && !needs_separation(path)
        && !is_ambiguous_data(path);
    let is_written = request.gate_writes.iter().any(|written| written == path);
    is_code && (is_written || is_lock_file(path))
}

/// Gates can write to packages that they find by their absolute path.
fn void_if_packages_changed(
    request: &ProofRequest<'_>,
    packages: &[EnvironmentRoot],
    since_ms: u64,
    gates: &[Gate],
    reports: &mut [GateReport],
) {
    let changed = changed_since(packages, request.project, since_ms, MAX_NAMED_FILES);
    if let Ok(changed) = changed {
        void_reports("installed packages changed while it ran", &changed, gates, reports);
    } else {
        let names: Vec<String> = packages.iter().map(|root| root.name.clone()).collect();
        void_reports("installed packages cannot be compared", &names, gates, reports);
    }
}

/// Gates that change files they were given have measured something else.
fn void_reports(what: &str, changed: &[String], gates: &[Gate], reports: &mut [GateReport]) {
    if changed.is_empty() {
        return;
    }
    let names = changed.iter().take(MAX_NAMED_FILES).map(|path| text::clean_line(path, 120));
    let why = format!("{what}: {}", names.collect::<Vec<_>>().join(", "));
    for (gate, report) in gates.iter().zip(reports) {
        let unknown = UnknownReason::Inconclusive(why.clone());
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
    gates: &[StepGate<'_>],
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
        let scope = CanaryScope::new(gate, runner, &paths, &read);
        // The last file, so that the canary comes after the other tests where they run in order.
        let examples = paths
            .iter()
            .copied()
            .rev()
            .filter(|path| canary::is_example(runner, path) && scope.contains(path));
        let (preferred, others): (Vec<&str>, Vec<&str>) =
            examples.partition(|path| scope.prefers(path));
        preferred.into_iter().chain(others).find_map(|path| {
            let text = read(path)?;
            let example = ExampleTest { path, text: &text };
            let canary = canary::plan_canary(gate, runner, example, clock::nonce())?;
            Some(Canary { after_word: scope.last_named_file(), ..canary })
        })
    };
    gates.iter().map(|one| one.wants_canary.then(|| plan(one.gate)).flatten()).collect()
}

fn in_directory(directory: &str, name: &str) -> String {
    if directory.is_empty() { name.to_string() } else { format!("{directory}/{name}") }
}

/// Writes the canary without following any link of the checkout.
fn add_canary(
    project: &Path,
    directories: &StepDirectories,
    canary: &Canary,
) -> Result<(), ProofError> {
    let inside = ConfinedDir::open(project)?;
    let original = directories.home.with_file_name("canary");
    fs::replace(&original, canary.content.as_bytes(), Durability::Cached)?;
    inside.put_copy(Path::new(&canary.path), &original, CopyKind::File)?;
    fs::remove_file(&original)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ralph_core::gate::GateInvocation;

    #[test]
    fn the_shorter_limit_applies() {
        let mut gate = Gate::new("tests", GateInvocation::Shell("make test".to_string()));
        gate.timeout_ms = 60_000;
        for (limit_ms, expected) in [(None, 60_000), (Some(33_000), 33_000), (Some(90_000), 60_000)]
        {
            let step = StepGate {
                gate: &gate,
                wants_canary: false,
                limit_ms,
                files: None,
                expected_tests: None,
            };
            assert_eq!(step_command(&step, None).timeout_ms, expected, "{limit_ms:?}");
        }
    }
}
