//! Gathers the evidence for a stop. Every source of requirements is read here and nowhere else.

mod goal;
mod last_evidence;
mod message_claims;
mod phase_conditions;
mod progress_file;
mod session_files;
mod unsealed;

use crate::adopt::LoopFiles;
use crate::contract::{
    self, ContractContext, JudgeBudget, JudgeMode, ListChecks, MeasuredContract, gate_worker,
};
use crate::facts;
use crate::transcript_reader::TranscriptSnapshot;
use message_claims::{checklist_requirement, promise_requirement};
use ralph_core::event::StopEvent;
use ralph_core::facts::{JudgingEvidence, StopEvidence, TreeIdentity};
use ralph_core::gate::{Gate, GateTrigger};
use ralph_core::id::SessionId;
use ralph_core::judge::JudgeKind;
use ralph_core::policy::ClaimPolicy;
use ralph_core::record::{ListKind, PolicySeal, RunOrigin, RunRecord};
use ralph_core::requirement::{
    EvidenceKind, Requirement, RequirementStage, RequirementStatus, RequirementWeight,
};
use ralph_core::run::RunState;
use ralph_core::source::work_list::{self, ListContext, RequiredGates};
use ralph_git::git::{self, GitState};
use ralph_git::tree::{self, ListingRequest, WorkTreeListing};
use ralph_home::faults::{self, Fault, FaultKind};
use ralph_home::store::LoadedRun;
use ralph_home::world::World;
use ralph_lists::loop_directory;
use ralph_lists::run_lists::{self, RunLists};
use ralph_lists::tasks;
use session_files::{read_session_files, uncommitted_requirement};
use std::collections::BTreeMap;
use std::path::Path;

pub(crate) use unsealed::describe_unsealed;

pub use progress_file::{ProgressUpdate, write_end, write_iteration};

fn run_contract<'a>(
    world: &'a World,
    opened: &'a LoadedRun,
    seal: &'a PolicySeal,
    checks: &'a ListChecks,
) -> ContractContext<'a> {
    let LoadedRun { run, state, .. } = opened;
    ContractContext {
        world,
        run,
        seal,
        iteration: state.iteration,
        last_report: state.report.as_ref(),
        parts: &state.parts,
        checks,
        waivers: &state.waivers,
        approvals: &state.approvals,
        proof_base: state.driving.proof_base.as_deref(),
    }
}

/// All requirements of a run, measured on the current work tree. Judges are asked only if `mode` says so.
pub fn evidence_for_run(
    world: &World,
    opened: &LoadedRun,
    stop: &StopEvent,
    snapshot: &TranscriptSnapshot,
    mode: JudgeMode,
) -> StopEvidence {
    let run = &opened.run;
    if let Some(seal) = &run.seal {
        contract::use_sealed_git(seal);
    }
    if run.origin == RunOrigin::Session {
        return evidence_for_session(world, opened, None);
    }
    let has_lost_worker = has_lost_worker(world, opened);
    let lists = run_lists::read_run_lists(world, opened);
    let checks = ListChecks { due: lists.due_checks(), programs: lists.programs() };
    let contract = run.seal.as_deref().map(|seal| run_contract(world, opened, seal, &checks));
    let measured = contract.as_ref().map(contract::measure_contract);
    let required_judges = RequiredJudges::find(contract.as_ref(), measured.as_ref());
    let mut requirements =
        phase_conditions::phase_requirements(world, opened, measured.as_ref(), required_judges);
    let adopted = read_adopted_loop(world, run);
    requirements.extend(list_requirements((run, adopted.as_ref()), &lists, measured.as_ref()));
    requirements.extend(list_discrepancies(run, &lists, measured.as_ref()));
    if let Some(promise) = &run.promise {
        requirements.push(promise_requirement(promise, stop));
    }
    if run.checklist {
        requirements.push(checklist_requirement(stop, snapshot));
    }
    requirements.extend(client_task_list_requirement(world, opened));
    requirements.extend(session_file_requirements(world, opened));
    let (tree, tree_without_gate_writes) = tree_identities(world, run, measured.as_ref());
    let mut evidence = StopEvidence {
        requirements,
        proof: None,
        waits_for_proof: false,
        tree,
        tree_without_gate_writes,
        has_lost_worker,
        gates: measured.as_ref().map(|measured| measured.records.clone()).unwrap_or_default(),
        judged: measured.as_ref().and_then(|measured| measured.judged_content().cloned()),
        judging: JudgingEvidence::default(),
        adopted_limit: adopted.as_ref().and_then(reached_own_limit),
        tampering: None,
        unsealed: None,
        unparsable_lists: lists.unreadable_files.clone(),
    };
    let is_unmeasured = !is_measured(run, &evidence);
    // A judge of the goal takes the place of the agent's claim.
    evidence.judging.is_goal_judged_only = is_unmeasured && required_judges.goal;
    let goal = (is_unmeasured && !required_judges.goal).then(|| goal::goal_requirement(stop));
    let is_held = measured.as_ref().is_some_and(|measured| measured.holds)
        || evidence
            .requirements
            .iter()
            .chain(&goal)
            .any(|one| goal::is_blocking(world, opened, one));
    evidence.requirements.extend(goal::polish_requirement(opened, is_held));
    if let (Some(contract), Some(measured)) = (&contract, measured) {
        add_policy_requirements(contract, &measured, &lists, &mut evidence);
        evidence.requirements.extend(goal);
        if evidence.tampering.is_none() {
            last_evidence::add_proof(contract, &measured, &mut evidence);
            last_evidence::add_ci(contract, &measured, &opened.state, &mut evidence);
            let judging = JudgeContext::new(world, opened, snapshot, mode);
            judging.add_to(contract, &measured, required_judges, &mut evidence);
            evidence.unsealed = unsealed::unsealed_reason(contract, &lists, &evidence.requirements);
        }
    } else {
        evidence.requirements.extend(goal);
    }
    evidence
}

/// The work tree with and without the files that gates write.
fn tree_identities(
    world: &World,
    run: &RunRecord,
    measured: Option<&MeasuredContract>,
) -> (TreeIdentity, TreeIdentity) {
    if let Some(measured) = measured {
        return (measured.tree_identity(), measured.identity_without_gate_writes());
    }
    let tree = work_tree_identity(world, run);
    (tree, tree)
}

/// Whether a worker that the last stop waited for was lost. Read before this stop starts another one.
fn has_lost_worker(world: &World, opened: &LoadedRun) -> bool {
    opened.state.awaited_tree.is_some() && gate_worker::has_lost_worker(&world.home, &opened.run.id)
}

/// Without a base the changed files are unknown, and nothing can be compared with them.
fn list_discrepancies(
    run: &RunRecord,
    lists: &RunLists,
    measured: Option<&MeasuredContract>,
) -> Vec<Requirement> {
    if run.seal.as_ref().is_none_or(|seal| seal.base.is_none()) {
        return Vec::new();
    }
    let touched = measured.map_or(&[][..], |measured| &measured.touched);
    lists.discrepancies(touched).into_iter().collect()
}

/// The kinds of required judges that change what else is required.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RequiredJudges {
    /// A required judge says whether the goal is met.
    goal: bool,
    /// A required adversarial judge takes the place of adversarial gates.
    adversarial: bool,
}

impl RequiredJudges {
    fn find(contract: Option<&ContractContext<'_>>, measured: Option<&MeasuredContract>) -> Self {
        let (Some(contract), Some(measured)) = (contract, measured) else { return Self::default() };
        let has = |kind| contract::has_required_judge(contract, &measured.touched, kind);
        Self { goal: has(JudgeKind::Goal), adversarial: has(JudgeKind::Adversarial) }
    }
}

/// What decides whether judges are asked at a stop.
struct JudgeContext<'a> {
    state: &'a RunState,
    budget: JudgeBudget,
    mode: JudgeMode,
}

impl<'a> JudgeContext<'a> {
    fn new(
        world: &World,
        opened: &'a LoadedRun,
        snapshot: &TranscriptSnapshot,
        mode: JudgeMode,
    ) -> Self {
        let budget = facts::judge_budget(world, opened, snapshot);
        Self { state: &opened.state, budget, mode }
    }

    fn add_to(
        &self,
        contract: &ContractContext<'_>,
        measured: &MeasuredContract,
        required: RequiredJudges,
        evidence: &mut StopEvidence,
    ) {
        let Self { state, budget, mode } = *self;
        contract::add_judge_requirements(contract, measured, state, budget, mode, evidence);
        if required.adversarial {
            let judges = adversarial_judge_names(contract.run);
            phase_conditions::apply_adversarial_judges(&judges, &mut evidence.requirements);
        }
    }
}

/// The adversarial judges of the sealed policy.
fn adversarial_judge_names(run: &RunRecord) -> Vec<String> {
    let judges = run.seal.iter().flat_map(|seal| &seal.policy.judges);
    let adversarial = judges.filter(|judge| judge.kind == JudgeKind::Adversarial);
    adversarial.map(|judge| judge.name.clone()).collect()
}

/// The gates of a session without a run. `listing` is the current tree, if the caller has it.
pub fn evidence_for_session(
    world: &World,
    opened: &LoadedRun,
    listing: Option<&WorkTreeListing>,
) -> StopEvidence {
    let LoadedRun { run, state, .. } = opened;
    if let Some(seal) = &run.seal {
        contract::use_sealed_git(seal);
    }
    let has_lost_worker = has_lost_worker(world, opened);
    let checks = ListChecks::default();
    let measured = run.seal.as_deref().map(|seal| {
        let context = ContractContext {
            world,
            run,
            seal,
            iteration: state.iteration,
            last_report: state.report.as_ref(),
            parts: &state.parts,
            checks: &checks,
            waivers: &state.waivers,
            approvals: &state.approvals,
            proof_base: None,
        };
        contract::judge_session(&context, listing)
    });
    let (requirements, gates, tree) = match measured {
        Some(measured) => (measured.requirements, measured.records, measured.tree),
        None => (Vec::new(), Vec::new(), TreeIdentity::Unknown),
    };
    StopEvidence {
        requirements,
        proof: None,
        waits_for_proof: false,
        tree,
        tree_without_gate_writes: tree,
        has_lost_worker,
        gates,
        judged: None,
        judging: JudgingEvidence::default(),
        adopted_limit: None,
        tampering: None,
        unsealed: None,
        unparsable_lists: Vec::new(),
    }
}

/// Adds the policy's requirements. They come last: a clean checkout is expensive, and is made only if nothing else is
/// open.
fn add_policy_requirements(
    contract: &ContractContext<'_>,
    measured: &MeasuredContract,
    lists: &RunLists,
    evidence: &mut StopEvidence,
) {
    evidence.requirements.extend(measured.requirements.iter().cloned());
    let is_held = evidence.requirements.iter().any(|one| contract.holds(one));
    if !is_held && measured.tampering.is_none() {
        let (confirmed, records) = contract::confirm_in_checkouts(contract, measured);
        evidence.gates.extend(records);
        evidence.requirements.extend(confirmed.into_iter().map(|one| lists.name_after_item(one)));
    }
    evidence.tampering.clone_from(&measured.tampering);
}

/// Whether anything measures the goal. Guards and subagent contracts do not count as measuring the work; pipelines do.
fn is_measured(run: &RunRecord, evidence: &StopEvidence) -> bool {
    let counts_here = |gate: &Gate| gate.on.contains(&GateTrigger::Stop);
    match &run.seal {
        Some(seal) if !seal.policy.gates.iter().any(counts_here) => {
            !seal.policy.pipeline.is_empty()
                || !run.features.is_empty()
                || !run.lists.is_empty()
                || run.promise.is_some()
                || run.checklist
                || run.tasks
                || run.phases
        }
        Some(_) => true,
        None => evidence.requirements.iter().any(|one| one.weight == RequirementWeight::Required),
    }
}

/// Requirements of feature lists and plans. An item without a check is a claim, which counts while the gates pass.
fn list_requirements(
    (run, adopted): (&RunRecord, Option<&LoopFiles>),
    lists: &RunLists,
    measured: Option<&MeasuredContract>,
) -> Vec<Requirement> {
    let checked: BTreeMap<String, Requirement> = measured
        .map(|measured| measured.checks.iter().map(|one| (one.name.clone(), one.clone())).collect())
        .unwrap_or_default();
    let claims = run.seal.as_ref().map_or(ClaimPolicy::default(), |seal| seal.policy.verify.claims);
    let gates = gate_state(run, measured);
    // `COMPLETE` in the `progress.txt` of an adopted loop is a claim like any other.
    let is_called_complete = adopted.is_some_and(LoopFiles::is_complete);
    let mut requirements = lists.requirements.clone();
    for (number, list) in lists.lists.iter().enumerate() {
        let demands =
            ListContext { file: &list.file, kind: list.kind, gates, claims, checked: &checked };
        let mut items = work_list::item_requirements(number, &list.items, &demands);
        if is_called_complete && list.kind == ListKind::Features {
            items.iter_mut().zip(&list.items).for_each(|(one, item)| {
                if item.check.is_none() && gates != RequiredGates::Open {
                    one.status = RequirementStatus::Met(EvidenceKind::Claimed);
                }
            });
        }
        requirements.append(&mut items);
    }
    requirements
}

fn gate_state(run: &RunRecord, measured: Option<&MeasuredContract>) -> RequiredGates {
    let (Some(seal), Some(measured)) = (&run.seal, measured) else { return RequiredGates::None };
    let counts = |gate: &Gate| {
        gate.on.contains(&GateTrigger::Stop) && gate.weight == RequirementWeight::Required
    };
    if !seal.policy.gates.iter().any(counts) {
        return RequiredGates::None;
    }
    if measured.holds { RequiredGates::Open } else { RequiredGates::Pass }
}

fn reached_own_limit(state: &LoopFiles) -> Option<String> {
    let (iteration, limit) = (state.progress.iteration, state.iteration_limit());
    (iteration >= limit).then(|| {
        format!(
            "REACHED_LIMIT: `{}` is at iteration {iteration} of {limit}",
            loop_directory::PROGRESS_FILE
        )
    })
}

/// The files of an adopted loop; `None` for a run that a person started. If they cannot be read, the run's own limits
/// apply instead of the loop's.
fn read_adopted_loop(world: &World, run: &RunRecord) -> Option<LoopFiles> {
    match run.origin {
        RunOrigin::Adopted => LoopFiles::read(Path::new(run.features.first()?))
            .inspect_err(|error| {
                let what = faults::describe_error(error);
                let fault = Fault::new(FaultKind::File, &what).with_run(&run.id);
                faults::record_fault(&world.home, &fault);
            })
            .ok(),
        RunOrigin::Started | RunOrigin::Session => None,
    }
}

fn client_task_list_requirement(world: &World, opened: &LoadedRun) -> Option<Requirement> {
    let LoadedRun { run, state, .. } = opened;
    if !run.tasks {
        return None;
    }
    let known = state.owner(run).and_then(|session| tasks::client_task_requirement(world, session));
    Some(known.unwrap_or_else(|| {
        // Neither the event nor the transcript names the tools of a session, and some models get none for tasks. After
        // one hold that asks for a task, a list that is still missing ends the run: it could never be met.
        let why = "the client has no task list for this session, perhaps because its model has no task tools; \
            a goal without `--tasks` needs none"
            .to_string();
        let next = "Create a task for each part of the work and complete it. If you have no task tools, say so and stop again".to_string();
        required_correctness("client tasks".to_string(), RequirementStatus::Unknown(why), next)
    }))
}

/// Requirements from files that other tools wrote about the run's session.
fn session_file_requirements(world: &World, opened: &LoadedRun) -> Vec<Requirement> {
    let run = &opened.run;
    let owner = opened.state.owner(run);
    let files =
        owner.map(|session| read_session_files(world, session, run.phases)).unwrap_or_default();
    let work = if files.needs_git_status() {
        let exclude = run_lists::excluded_paths(&world.home, run);
        git::repository_status(Path::new(&run.project), &exclude, &world.step_deadline())
    } else {
        GitState::NotARepository
    };
    let mut requirements: Vec<Requirement> =
        uncommitted_requirement(&files, &work).into_iter().collect();
    requirements.extend(files.requirements);
    requirements
}

fn work_tree_identity(world: &World, run: &RunRecord) -> TreeIdentity {
    let exclude = run_lists::excluded_paths(&world.home, run);
    let project = Path::new(&run.project);
    let listed = tree::list_work_tree(&ListingRequest {
        project,
        exclude: &exclude,
        cache: Some(&tree::stat_cache_path(&world.home, project)),
        deadline: &world.step_deadline(),
    });
    match listed {
        Ok(listing) => TreeIdentity::Known(listing.content_and_commit_mark()),
        Err(error) => {
            // Without the tree the run is never called stuck; only its limits end it.
            let what = format!(
                "cannot list the work tree `{}`: {}",
                run.project,
                faults::describe_error(&error)
            );
            faults::record_fault(
                &world.home,
                &Fault::new(FaultKind::File, &what).with_run(&run.id),
            );
            TreeIdentity::Unknown
        }
    }
}

/// Requirements from files that other tools wrote about a session without a run.
pub fn evidence_for_files(
    world: &World,
    session: &SessionId,
    project: Option<&Path>,
) -> StopEvidence {
    let in_phases = false;
    let files = read_session_files(world, session, in_phases);
    let work = match project {
        Some(project) if files.needs_git_status() => {
            git::repository_status(project, &[], &world.step_deadline())
        }
        Some(_) | None => GitState::NotARepository,
    };
    if let GitState::Unavailable(why) = &work {
        let fault = Fault::new(FaultKind::File, why).with_session(session);
        faults::record_fault(&world.home, &fault);
    }
    // Without a run there are no limits, so an unreadable repository would hold the session forever.
    let uncommitted = uncommitted_requirement(&files, &work).filter(|one| !one.is_unknown());
    let mut requirements = files.requirements;
    requirements.extend(uncommitted);
    StopEvidence {
        requirements,
        proof: None,
        waits_for_proof: false,
        tree: TreeIdentity::Unknown,
        tree_without_gate_writes: TreeIdentity::Unknown,
        has_lost_worker: false,
        gates: Vec::new(),
        judged: None,
        judging: JudgingEvidence::default(),
        adopted_limit: None,
        tampering: None,
        unsealed: None,
        unparsable_lists: Vec::new(),
    }
}

fn required_correctness(name: String, standing: RequirementStatus, next: String) -> Requirement {
    Requirement {
        name,
        stage: RequirementStage::Correctness,
        status: standing,
        weight: RequirementWeight::Required,
        next,
    }
}
