//! Asks the judges of a stop, in the worker of the run. The hook that needs the verdicts writes the cases, sealed, and the
//! worker writes the verdicts into the cache, where they are known to every later stop with the same content.

use std::ffi::OsStr;
use std::path::Path;

use ralph_core::gate::Gate;
use ralph_core::id::RunId;
use ralph_core::judge::{
    Judge, JudgeBackend, JudgeCase, JudgeKind, JudgeOutcome, JudgeResult, JudgeUsage,
};
use ralph_core::redact::Redactor;
use ralph_core::run::RunState;
use serde::{Deserialize, Serialize};

use super::environment_evidence::InstalledState;
use super::gate_log::GateLog;
use super::gate_worker::GateWorkerError;
use super::judge_support::{CandidateCheckouts, CheckoutSupport};
use super::proof_sides::ProofSides;
use super::{ContractContext, base_checkpoint, checkout_results, judge_meter, sealed_variables};
use ralph_gates::command_place::{CommandCheckout, CommandPlace};
use ralph_gates::gates::result_cache::ResultCache;
use ralph_gates::gates::result_key::ResultKey;
use ralph_git::checkpoint::{
    CheckoutRequest, Checkpoint, CheckpointError, CheckpointRepository, VerificationCheckout,
};
use ralph_home::faults::describe_error;
use ralph_judge::{JudgeRequest, JudgeStep};
use ralph_policy::{config, price_list, trust};
use ralph_proof::{ProofError, ProofRequest};
use ralph_sys::clock::{self, Deadline};
use ralph_sys::env;
use ralph_sys::fs::{FileError, FreshDir};
use ralph_sys::proc::cancel::CancelToken;

const CHECKOUT_DIRECTORY: &str = "candidate";
const CHECKOUT_LABEL: &str = "judge";
/// The label of the checkout that a judge's command runs in. Another one, because both checkouts exist at the same time.
pub const JUDGE_BASE_LABEL: &str = "judge-base";

/// Cases that a hook hands to the worker, each with the key of its verdict.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct JudgeTask {
    /// Identifies the task among others of the run: the judges, and everything that their cases are about.
    pub mark: String,
    pub cases: Vec<JudgeCase>,
    /// The number of the checkpoint that the cases are about.
    pub checkpoint: u32,
    pub trees: JudgedTrees,
    /// What the verdicts may cost together.
    pub budget_micro_usd: Option<u64>,
}

/// The ids of the trees of both checkpoints that a case compares.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct JudgedTrees {
    pub base: String,
    pub candidate: String,
}

/// A verdict in the cache.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct StoredVerdict {
    pub result: JudgeResult,
    /// The run that paid for it.
    pub run: RunId,
}

/// The key of a judge's verdict about a case. It covers what the judge receives, its program and its scripts.
pub(super) fn verdict_key(
    contract: &ContractContext<'_>,
    judge: &Judge,
    case: &JudgeCase,
    trees: &JudgedTrees,
) -> ResultKey {
    let label = trust::judge_label(judge);
    let seal = contract.seal;
    let tools = seal.tools.iter().filter(|tool| tool.gate == label);
    let files = seal.files.iter().flatten().filter(|file| file.gate == label);
    let contents = tools.map(|tool| &tool.content).chain(files.map(|file| &file.hash));
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"verdict of a judge\0");
    let key = ralph_judge::case_key(judge, case);
    let gates = has_gates_run(judge).then(|| serde_json::to_string(&seal.policy.gates));
    let gates = gates.and_then(Result::ok);
    // A command runs in a checkout of the base of the run, which need not be the tree that the case compares with.
    let base = seal.base.as_ref().filter(|_| matches!(judge.backend, JudgeBackend::Command(_)));
    let base = base.map(|base| &base.identity);
    let parts = std::iter::once(&key).chain(seen_trees(judge, trees)).chain(&gates).chain(base);
    for part in parts.chain(contents) {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    ResultKey(hasher.finalize().into())
}

/// Whether gates run for the judge, so that its verdict depends on them and on the files that they read.
fn has_gates_run(judge: &Judge) -> bool {
    judge.kind == JudgeKind::Agent || judge.tests
}

/// The trees that decide a verdict, none if the judge sees only its case. Otherwise a file that the case leaves out could
/// change, and the verdict about the old one would stand.
fn seen_trees<'a>(judge: &Judge, trees: &'a JudgedTrees) -> Vec<&'a String> {
    let reads_files = match judge.backend {
        JudgeBackend::Command(_) => true,
        JudgeBackend::Host(_) | JudgeBackend::Http(_) => has_gates_run(judge),
    };
    if reads_files { vec![&trees.base, &trees.candidate] } else { Vec::new() }
}

pub(super) fn read_verdict(cache: &ResultCache, key: &ResultKey) -> Option<StoredVerdict> {
    serde_json::from_slice(&cache.read_note(key)?).ok()
}

fn task_key(contract: &ContractContext<'_>) -> ResultKey {
    contract.run_note_key("cases for judges")
}

/// Hands the cases to the worker that is started next.
pub(super) fn give_task(
    contract: &ContractContext<'_>,
    cache: &ResultCache,
    task: &JudgeTask,
) -> Result<(), FileError> {
    cache.write_note(&task_key(contract), &serde_json::to_vec(task).unwrap_or_default())
}

/// Takes the task of this mark. A task is taken once: only a hook can have a judge asked again.
fn take_task(contract: &ContractContext<'_>, cache: &ResultCache, mark: &str) -> Option<JudgeTask> {
    let key = task_key(contract);
    let task: JudgeTask = serde_json::from_slice(&cache.read_note(&key)?).ok()?;
    cache.clear(&key, &|| false).ok()?;
    (task.mark == mark).then_some(task)
}

/// Asks the judges one after the other, in the worker.
pub(super) fn ask_judges(
    contract: &ContractContext<'_>,
    state: &RunState,
    mark: &str,
    cancel: &CancelToken,
) -> Result<(), GateWorkerError> {
    let world = contract.world;
    let cache = ResultCache::open(&world.home)?;
    let Some(task) = take_task(contract, &cache, mark) else { return Ok(()) };
    // A worker that was not started by the hook could have another environment.
    if sealed_variables::describe_changed_variables(contract).is_some() {
        return Ok(());
    }
    let opening = Deadline::after(base_checkpoint::CHECKOUT_TIMEOUT);
    let repository = base_checkpoint::open_repository(contract, &opening)?;
    let scratch = FreshDir::create(world.home.scratch(clock::nonce()))?;
    let mut left = task.budget_micro_usd;
    let mut is_held = false;
    for (judge, case) in required_first(&contract.seal.policy.judges, &task.cases) {
        // A judge that holds nothing is not worth its cost while another one holds the agent.
        if cancel.is_cancelled() || is_held && !judge.is_required() {
            continue;
        }
        let key = verdict_key(contract, judge, case, &task.trees);
        // A worker before this one may have asked. Even if it got no verdict, that is for the hook to report first.
        if let Some(known) = read_verdict(&cache, &key) {
            is_held |= holds_agent(judge, &known.result);
            continue;
        }
        let before = super::current_tree_mark(contract);
        let checkouts =
            WorkerCheckouts { contract, state, repository: &repository, task: &task, cancel };
        let asking = VerdictRequest {
            contract,
            judge,
            case,
            scratch: scratch.path(),
            budget: left,
            checkouts: &checkouts,
        };
        let result = asking.ask_with_files()?;
        is_held |= holds_agent(judge, &result);
        let cost = result.usage.micro_usd.unwrap_or(0);
        left = left.map(|left| left.saturating_sub(cost));
        // Quotes were compared with the files as they are now, so the verdict is about the case only if they are the same.
        if cancel.is_cancelled() || before.is_none() || super::current_tree_mark(contract) != before
        {
            continue;
        }
        let stored = StoredVerdict { result, run: contract.run.id.clone() };
        cache.write_note(&key, &serde_json::to_vec(&stored).unwrap_or_default())?;
    }
    Ok(())
}

/// The judges of the cases, those that can hold the agent first.
fn required_first<'a>(
    judges: &'a [Judge],
    cases: &'a [JudgeCase],
) -> Vec<(&'a Judge, &'a JudgeCase)> {
    let judge_of = |case: &JudgeCase| judges.iter().find(|judge| judge.name == case.judge);
    let mut found: Vec<_> =
        cases.iter().filter_map(|case| judge_of(case).map(|judge| (judge, case))).collect();
    found.sort_by_key(|(judge, _)| !judge.is_required());
    found
}

/// Whether the verdict of the judge keeps the agent from stopping.
pub(super) fn holds_agent(judge: &Judge, result: &JudgeResult) -> bool {
    judge.is_required() && result.outcome != JudgeOutcome::Met
}

/// Whether the judge gets the files of the candidate besides its case.
pub fn gets_candidate(judge: &Judge) -> bool {
    match judge.backend {
        JudgeBackend::Command(_) => true,
        JudgeBackend::Host(_) | JudgeBackend::Http(_) => judge.kind == JudgeKind::Agent,
    }
}

/// Writes the candidate for a judge. In the work tree it could read ignored files, and secrets in them.
pub fn checkout_for_judge(
    repository: &CheckpointRepository,
    candidate: &Checkpoint,
    scratch: &Path,
    deadline: &Deadline,
) -> Result<VerificationCheckout, CheckpointError> {
    let directory = scratch.join(CHECKOUT_DIRECTORY);
    let repository = repository.with_checkout_dir(directory, CHECKOUT_LABEL);
    repository.checkout(&CheckoutRequest::whole(candidate), deadline)
}

struct VerdictRequest<'a> {
    contract: &'a ContractContext<'a>,
    judge: &'a Judge,
    case: &'a JudgeCase,
    scratch: &'a Path,
    budget: Option<u64>,
    checkouts: &'a WorkerCheckouts<'a>,
}

impl VerdictRequest<'_> {
    /// Asks with the files that the judge reads, and a command in a checkout of the base. The base is that of the run, not
    /// the commit that the work was merged with: only the former is sealed, together with the judge.
    fn ask_with_files(&self) -> Result<JudgeResult, GateWorkerError> {
        let Self { contract, judge, .. } = *self;
        let WorkerCheckouts { repository, cancel, .. } = *self.checkouts;
        let checkout = if gets_candidate(judge) {
            // A deadline of its own: earlier judges may have used up any deadline of the task.
            let deadline = Deadline::after(base_checkpoint::CHECKOUT_TIMEOUT);
            let candidate = self.checkouts.candidate(&deadline)?;
            Some(checkout_for_judge(repository, &candidate, self.scratch, &deadline)?)
        } else {
            None
        };
        let files = checkout.as_ref().map_or(repository.root(), |checkout| &checkout.dir);
        let JudgeBackend::Command(words) = &judge.backend else {
            let environment = &contract.seal.policy.environment;
            return Ok(
                self.ask(files, &CommandPlace::in_directory(contract.project(), environment))
            );
        };
        checkout_results::with_base_checkout(contract, &[], JUDGE_BASE_LABEL, cancel, |base| {
            Ok(self.ask(files, &base.place_command(words, "")))
        })
    }

    /// `files` are those that the judge may read.
    fn ask(&self, files: &Path, place: &CommandPlace<'_>) -> JudgeResult {
        let (contract, judge) = (self.contract, self.judge);
        let (world, seal) = (contract.world, contract.seal);
        let root = self.checkouts.repository.root();
        let log = GateLog::open(&world.home, &contract.run.id);
        log.record_judge_start(&judge.name);
        let mut prices = price_list::price_table(&contract.run.prices);
        prices.prices.extend(config::load_prices(&world.home).unwrap_or_default());
        let is_measured =
            |gate: &&Gate| self.case.evidence.iter().any(|one| one.requirement == gate.name);
        let support = CheckoutSupport {
            judge,
            policy: &seal.policy,
            gates: seal.policy.gates.iter().filter(is_measured).collect(),
            evidence: &self.case.evidence,
            project_below: contract.project().strip_prefix(root).unwrap_or(Path::new("")),
            checkouts: self.checkouts,
        };
        let mut result = ralph_judge::ask_judge(
            &JudgeRequest {
                judge,
                case: self.case,
                files,
                place,
                scratch: self.scratch,
                env: &world.env,
                search_path: seal.path.as_deref().map(OsStr::new),
                host_program: None,
                supervisor: &env::own_executable(),
                prices: &prices,
                budget_micro_usd: self.budget,
                support: &support,
            },
            self.checkouts.cancel,
        );
        strip_project(&mut result, root, contract.project());
        log.record_judge_end(&judge.name, result.outcome.name(), result.took_ms);
        result
    }
}

/// Paths of findings are relative to the repository, and people and agents read them relative to the project.
fn strip_project(result: &mut JudgeResult, root: &Path, project: &Path) {
    let below = project.strip_prefix(root).unwrap_or(Path::new(""));
    let kept = result.findings.iter_mut().map(|finding| &mut finding.file);
    for file in kept.chain(result.dropped.iter_mut().map(|finding| &mut finding.file)) {
        if let Ok(inside) = Path::new(file).strip_prefix(below) {
            *file = inside.to_string_lossy().into_owned();
        }
    }
}

/// Checkouts of the candidate that a task is about, and the meter of the run.
struct WorkerCheckouts<'a> {
    contract: &'a ContractContext<'a>,
    state: &'a RunState,
    repository: &'a CheckpointRepository,
    task: &'a JudgeTask,
    cancel: &'a CancelToken,
}

impl std::fmt::Debug for WorkerCheckouts<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkerCheckouts").field("task", &self.task).finish_non_exhaustive()
    }
}

impl WorkerCheckouts<'_> {
    /// The checkpoint of the task, if it still has the tree that the cases are about.
    fn candidate(&self, deadline: &Deadline) -> Result<Checkpoint, CheckpointError> {
        let number = self.task.checkpoint;
        let found = self.repository.find(number, deadline)?;
        if self.repository.hex(&found.tree) == self.task.trees.candidate {
            Ok(found)
        } else {
            Err(CheckpointError::Replaced { number })
        }
    }

    fn run_request(
        &self,
        gates: &[&Gate],
        deadline: Deadline,
        run: &mut dyn FnMut(&ProofRequest<'_>) -> Result<(), ProofError>,
    ) -> Result<(), GateWorkerError> {
        let Self { contract, repository, cancel, .. } = *self;
        // The measurement of the base may use the same port.
        let measured = checkout_results::lock_base(contract, deadline.remaining(), cancel)?;
        let Some(_measured) = measured else {
            return Err(GateWorkerError::NoTreeResults("the base is being measured".to_string()));
        };
        let reading = Deadline::after(base_checkpoint::CHECKOUT_TIMEOUT);
        let candidate = self.candidate(&reading)?;
        let base = base_checkpoint::find_proof_base(contract, repository, &reading)?;
        let cache = ResultCache::open(&contract.world.home)?;
        let installed = InstalledState::read(contract, &cache).content_mark();
        let sides = ProofSides { repository, base: &base, candidate: &candidate, installed };
        sides.with_request(contract, gates, &[], cancel, |request| {
            // It is no step of the proof of the run.
            Ok(run(&ProofRequest { watch: &|_| {}, ..*request })?)
        })
    }
}

impl CandidateCheckouts for WorkerCheckouts<'_> {
    fn report_progress(&self, judge: &str, step: &JudgeStep<'_>) {
        let ContractContext { world, run, .. } = *self.contract;
        // The words of a service may repeat what was sent to it.
        let step = Redactor::new(world.env.secrets()).redact(&step.describe());
        GateLog::open(&world.home, &run.id).record_judge_step(judge, &step);
    }

    fn book_estimate(&self, estimate: &JudgeUsage) {
        let Self { contract, state, .. } = *self;
        judge_meter::book_estimate(&contract.world.home, contract.run, state, estimate);
    }

    fn book_cost(&self, used: &JudgeUsage) {
        let Self { contract, state, .. } = *self;
        judge_meter::book_cost(&contract.world.home, contract.run, state, used);
    }

    fn with_request(
        &self,
        gates: &[&Gate],
        deadline: Deadline,
        run: &mut dyn FnMut(&ProofRequest<'_>) -> Result<(), ProofError>,
    ) -> Result<(), String> {
        self.run_request(gates, deadline, run).map_err(|error| describe_error(&error))
    }
}

/// Whether a verdict can be used again. Whatever gave no verdict is asked again at the next stop.
pub(super) fn is_definite(result: &JudgeResult) -> bool {
    !matches!(result.outcome, JudgeOutcome::Unknown { .. })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ralph_core::judge::JudgeHost;
    use ralph_core::requirement::RequirementWeight;

    #[test]
    fn a_judge_that_reads_files_is_asked_about_each_tree() {
        let trees = JudgedTrees { base: "1".to_string(), candidate: "2".to_string() };
        let command = || JudgeBackend::Command(vec!["./judge".into()]);
        let host = || JudgeBackend::Host(JudgeHost { host: "claude".into(), model: None });
        for (kind, backend, is_covered) in [
            (JudgeKind::Prompt, command(), true),
            (JudgeKind::Agent, command(), true),
            (JudgeKind::Agent, host(), true),
            (JudgeKind::Prompt, host(), false),
        ] {
            let judge = Judge {
                name: "review".into(),
                kind,
                backend,
                prompt: None,
                prompt_file: None,
                max_tokens: 1,
                timeout_ms: 1,
                reviewers: 1,
                weight: RequirementWeight::Required,
                counts: false,
                tests: false,
                when: Vec::new(),
                min_complexity: 0,
            };
            let expected: &[&str] = if is_covered { &["1", "2"] } else { &[] };
            assert_eq!(seen_trees(&judge, &trees), expected, "{kind:?}");
        }
    }
}
