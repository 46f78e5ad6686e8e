//! Runs that work in phases.
//!
//! The journal records their progress. `state/<session>/orchestrator.json` is a view that ralph writes from it; edits
//! that an agent makes there to its own conditions are copied into the journal before the view is written again.

use crate::control::{self, CommandCaller, ControlError};
use crate::project_memory::memory_project;
use ralph_core::approval::PhaseApproval;
use ralph_core::id::{RunId, SessionId};
use ralph_core::policy::PlanApprover;
use ralph_core::record::{OrchestratorStep, RunChange, RunRecord};
use ralph_core::run::{RunPhase as Standing, RunState};
use ralph_core::source::orchestrator::{
    self, ConditionBasis, ConditionOwner, ConditionStatus, ConditionView, LearningStatus,
    OrchestratorCondition, OrchestratorFile, ViewEdits,
};
use ralph_core::status::RunStatus;
use ralph_home::faults::{self, Fault, FaultKind};
use ralph_home::lesson_store;
use ralph_home::paths::RalphHome;
use ralph_home::store::{self, LoadedRun, RunTransaction, StoreError, TransactionStep as Writing};
use ralph_home::world::World;
use ralph_policy::config;
use ralph_sys::clock::{self, Deadline};
use ralph_sys::fs::{self, Durability, FileError};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const MAX_VIEW_BYTES: usize = 4 * 1024 * 1024;
const MAX_LEARNING_ID_BYTES: usize = 128;

/// The content of `orchestrator.json`.
#[derive(Serialize)]
struct OrchestratorFileView<'a> {
    ralph_run: &'a str,
    session_id: &'a str,
    task: &'a str,
    phase: &'a str,
    complexity: Option<u8>,
    verified_done: bool,
    conditions: BTreeMap<ConditionKey, Option<bool>>,
    iterations: u32,
    created_at: String,
    last_updated: String,
}

/// A condition as a JSON key, sorted in the order of the conditions rather than by name.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct ConditionKey(OrchestratorCondition);

impl Serialize for ConditionKey {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.key())
    }
}

/// The progress of a run through its phases, for display.
#[derive(Clone, Debug)]
pub struct PhaseProgress {
    /// All nine conditions, in order.
    pub conditions: Vec<ConditionView>,
    /// The first incomplete phase.
    pub current: Option<orchestrator::OrchestratorPhase>,
    /// The phase that the agent reported last.
    pub reported_phase: Option<String>,
    pub complexity: Option<u8>,
    /// The approvals of phases that the policy asks for, besides that of the plan.
    pub approvals: Vec<PhaseApproval>,
}

/// The path of the view for a session.
pub fn view_path(home: &RalphHome, session: &SessionId) -> PathBuf {
    home.session_state(session).join("orchestrator.json")
}

/// Writes the first view of a run. A file that another tool left there is quarantined first.
pub fn write_first_view(home: &RalphHome, run: &RunRecord) {
    let begun = || -> Result<(), StoreError> {
        if let Some(session) = &run.owner {
            let path = view_path(home, session);
            let is_foreign = |bytes: Vec<u8>| {
                !orchestrator::read_orchestrator(&bytes).is_ok_and(|it| it.is_ours())
            };
            if fs::read_if_exists(&path, MAX_VIEW_BYTES)?.is_some_and(is_foreign) {
                fs::quarantine(&path, clock::now_ms())?;
            }
        }
        write_view(home, &store::load_run(home, &run.id)?)?;
        Ok(())
    };
    if let Err(error) = begun() {
        let fault = Fault::new(FaultKind::File, &faults::describe_error(&error)).with_run(&run.id);
        faults::record_fault(home, &fault);
    }
}

/// Rewrites the view after a decision. Does nothing for a run without phases.
pub fn refresh_view(world: &World, run: &RunRecord) -> Result<(), FileError> {
    if !run.phases {
        return Ok(());
    }
    match store::load_run(&world.home, &run.id) {
        Ok(opened) => write_view(&world.home, &opened),
        Err(StoreError::File(error)) => Err(error),
        // The next access to the run reports this error.
        Err(_) => Ok(()),
    }
}

pub(crate) fn write_view(home: &RalphHome, opened: &LoadedRun) -> Result<(), FileError> {
    let LoadedRun { run, state, .. } = opened;
    let Some(session) = state.owner(run) else { return Ok(()) };
    let picture = phase_progress(home, opened);
    let phase = match (&picture.reported_phase, picture.current) {
        (_, None) => "complete",
        (Some(reported), Some(_)) => reported,
        (None, Some(phase)) => phase.name(),
    };
    let view = OrchestratorFileView {
        ralph_run: run.id.as_str(),
        session_id: session.as_str(),
        task: &run.title,
        phase,
        complexity: picture.complexity,
        verified_done: state.phase == Standing::Ended(RunStatus::Verified),
        conditions: picture.conditions.iter().map(condition_entry).collect(),
        iterations: state.iteration,
        created_at: clock::format_rfc3339(run.started_ms),
        last_updated: clock::format_rfc3339(clock::now_ms()),
    };
    let path = view_path(home, session);
    let bytes = fs::encode_pretty_json(&path, &view)?;
    fs::create_private_dir(&home.session_state(session))?;
    if !fs::is_directory(&path) {
        fs::replace(&path, &bytes, Durability::Cached)?;
    }
    // Written after the view: if the copy were newer than the view, the difference would look like an edit by the
    // agent.
    fs::replace(&home.run(&run.id).orchestrator(), &bytes, Durability::Cached)
}

fn condition_entry(shown: &ConditionView) -> (ConditionKey, Option<bool>) {
    let value = match shown.status {
        ConditionStatus::Met => Some(true),
        ConditionStatus::Unmet => Some(false),
        ConditionStatus::Unknown | ConditionStatus::Pending | ConditionStatus::Idle => None,
    };
    (ConditionKey(shown.condition), value)
}

/// The current phase and the state of every condition.
pub fn phase_progress(home: &RalphHome, opened: &LoadedRun) -> PhaseProgress {
    let ground = condition_inputs(home, opened);
    let conditions = orchestrator::condition_views(&ground, opened.state.report.as_ref());
    let approvals = ground.phase_approvals();
    PhaseProgress {
        current: orchestrator::current_phase(&conditions, &approvals),
        approvals,
        conditions,
        reported_phase: opened.state.way.phase.clone(),
        complexity: ground.complexity(),
    }
}

/// Everything that determines the conditions, except for the gates.
pub(crate) fn condition_inputs<'a>(home: &RalphHome, opened: &'a LoadedRun) -> ConditionBasis<'a> {
    ConditionBasis {
        progress: &opened.state.way,
        approver: plan_approver(&opened.run),
        person_complexity: opened.run.seal.as_ref().and_then(|seal| seal.complexity),
        learned: learning_state(home, &opened.run, &opened.state),
        approved_phases: opened.run.seal.as_ref().map_or(&[], |seal| &seal.policy.phase_approvals),
        approvals: &opened.state.approvals,
    }
}

pub fn plan_approver(run: &RunRecord) -> PlanApprover {
    run.seal.as_ref().map_or(PlanApprover::default(), |seal| seal.policy.plan_approver)
}

fn learning_state(home: &RalphHome, run: &RunRecord, state: &RunState) -> LearningStatus {
    let Some(id) = &state.way.learned else { return LearningStatus::Nothing };
    let is_id = id.len() <= MAX_LEARNING_ID_BYTES
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let project = match &run.seal {
        Some(seal) => PathBuf::from(&seal.project),
        None => config::find_project(Path::new(&run.project)),
    };
    let file = home.project_learnings(&project).join(format!("{id}.md"));
    let is_lesson = || {
        let lessons = lesson_store::load_lessons(home, &memory_project(run));
        lessons.is_ok_and(|lessons| lessons.iter().any(|lesson| lesson.id == *id))
    };
    if is_id && (fs::exists(&file) || is_lesson()) {
        LearningStatus::Saved
    } else {
        LearningStatus::Gone
    }
}

/// Records the agent's edits of the view in the journal, as far as the conditions belong to the agent. Returns the
/// updated run and the names of ignored edits.
pub(crate) fn adopt_edits(
    home: &RalphHome,
    opened: &LoadedRun,
    deadline: &Deadline,
) -> Result<(LoadedRun, Vec<&'static str>), StoreError> {
    let ViewEdits { steps, ignored } = read_edits(home, opened);
    if steps.is_empty() {
        return Ok((opened.clone(), ignored));
    }
    let run = &opened.run.id;
    for step in steps {
        let deadline = *deadline;
        let transaction = RunTransaction { home, run, deadline, by: None, loaded: None };
        store::transact(&transaction, |_| Writing::Write {
            change: RunChange::Stepped(step),
            durability: Durability::Cached,
            answer: (),
        })?;
    }
    Ok((store::load_run(home, run)?, ignored))
}

/// The edits since the view was last written. A missing or malformed view has none.
fn read_edits(home: &RalphHome, opened: &LoadedRun) -> ViewEdits {
    let LoadedRun { run, state, .. } = opened;
    let read = |path: &Path| -> Option<OrchestratorFile> {
        orchestrator::read_orchestrator(&fs::read_if_exists(path, MAX_VIEW_BYTES).ok()??).ok()
    };
    let Some(now) = state.owner(run).and_then(|session| read(&view_path(home, session))) else {
        return ViewEdits::default();
    };
    if now.ralph_run.as_deref().is_some_and(|named| named != run.id.as_str()) {
        return ViewEdits::default();
    }
    let last = read(&home.run(&run.id).orchestrator());
    orchestrator::find_view_edits(&now, last.as_ref(), &state.way, plan_approver(run))
}

/// Records a step that a command reports. Edits of the view are adopted first, because rewriting it would lose them.
pub fn record_step(
    home: &RalphHome,
    run: &RunId,
    step: OrchestratorStep,
    deadline: &Deadline,
) -> Result<LoadedRun, ControlError> {
    let opened = store::load_run(home, run)?;
    if !opened.run.phases {
        return Err(ControlError::WithoutPhases { run: run.clone() });
    }
    if let Standing::Ended(status) = control::effective_phase(home, &opened) {
        return Err(ControlError::HasEnded { run: run.clone(), status });
    }
    adopt_edits(home, &opened, deadline)?;
    control::change_phase(home, run, deadline, |phase| match phase {
        Standing::Ended(status) => Err(ControlError::HasEnded { run: run.clone(), status }),
        Standing::Active | Standing::Paused { .. } | Standing::Orphaned => {
            Ok(RunChange::Stepped(step))
        }
    })?;
    let opened = store::load_run(home, run)?;
    write_view(home, &opened)?;
    Ok(opened)
}

/// Records a person's approval of the plan. A second approval changes nothing.
pub fn approve_plan(
    home: &RalphHome,
    run: &RunId,
    caller: CommandCaller,
    deadline: &Deadline,
) -> Result<LoadedRun, ControlError> {
    control::require_person_caller(home, run, caller, "approve the plan of")?;
    let opened = store::load_run(home, run)?;
    if opened.state.way.approved_by.is_some() && opened.run.phases {
        return Ok(opened);
    }
    let by = describe_approver(caller);
    record_step(home, run, OrchestratorStep::Approved { by: by.to_string() }, deadline)
}

fn describe_approver(caller: CommandCaller) -> &'static str {
    match caller {
        CommandCaller::Session => "a person, in the session",
        CommandCaller::Person | CommandCaller::Agent | CommandCaller::Hidden => {
            "a person, in a terminal"
        }
    }
}

/// Records an event that is not a reported step: a search of past runs, or a saved learning.
pub fn record_event(
    home: &RalphHome,
    run: &RunId,
    change: RunChange,
    deadline: &Deadline,
) -> Result<(), ControlError> {
    let opened = store::load_run(home, run)?;
    if opened.run.phases {
        adopt_edits(home, &opened, deadline)?;
    }
    control::change_phase(home, run, deadline, |phase| match phase {
        Standing::Ended(status) => Err(ControlError::HasEnded { run: run.clone(), status }),
        Standing::Active | Standing::Paused { .. } | Standing::Orphaned => Ok(change),
    })?;
    if opened.run.phases {
        write_view(home, &store::load_run(home, run)?)?;
    }
    Ok(())
}

/// The owner of a condition that the agent may not set; `None` if it may.
pub fn non_agent_owner(
    run: &RunRecord,
    condition: OrchestratorCondition,
) -> Option<ConditionOwner> {
    match condition.owner(plan_approver(run)) {
        ConditionOwner::Agent => None,
        owner @ (ConditionOwner::Person | ConditionOwner::Ralph) => Some(owner),
    }
}
