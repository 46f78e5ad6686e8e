//! The phases of an orchestrated run, and its nine conditions with their owner and a note on the evidence.

use crate::wording::{self, FactMark};
use ralph_core::approval::{self, PhaseApproval};
use ralph_core::id::SessionId;
use ralph_core::run::RunPhase;
use ralph_core::source::orchestrator::{ConditionStatus, ConditionView, OrchestratorPhase};
use ralph_core::status::RunStatus;
use ralph_home::store::LoadedRun;
use ralph_hook::phases::PhaseProgress;
use serde::Serialize;

#[derive(Debug, Serialize)]
pub struct PhaseProgressView<'a> {
    /// The first phase with an unmet condition.
    pub phase: Option<&'static str>,
    pub said_phase: Option<&'a str>,
    pub complexity: Option<u8>,
    pub conditions: Vec<PhaseConditionView<'a>>,
    pub missing: Vec<&'static str>,
    /// Approvals of phases that the policy asks for, besides that of the plan.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub approvals: Vec<PhaseApprovalView<'a>>,
}

#[derive(Debug, Serialize)]
pub struct PhaseApprovalView<'a> {
    pub phase: &'static str,
    pub approved: bool,
    pub by: Option<&'a str>,
}

#[derive(Debug, Serialize)]
pub struct PhaseConditionView<'a> {
    pub name: &'static str,
    pub owner: &'static str,
    pub standing: &'static str,
    pub note: &'a str,
}

/// An orchestrated run with its phases.
#[derive(Debug, Serialize)]
pub struct OrchestratorRunView<'a> {
    pub v: u8,
    pub run: &'a str,
    pub status: &'static str,
    pub session: Option<&'a str>,
    pub task: &'a str,
    pub iterations: u32,
    pub verified_done: bool,
    #[serde(flatten)]
    pub progress: PhaseProgressView<'a>,
}

pub fn orchestrator_run_view<'a>(
    opened: &'a LoadedRun,
    phase: RunPhase,
    progress: &'a PhaseProgress,
) -> OrchestratorRunView<'a> {
    let (run, state) = (&opened.run, &opened.state);
    OrchestratorRunView {
        v: 1,
        run: run.id.as_str(),
        status: wording::standing(state, phase),
        session: state.owner(run).map(SessionId::as_str),
        task: &run.title,
        iterations: state.iteration,
        verified_done: state.phase == RunPhase::Ended(RunStatus::Verified),
        progress: phase_progress_view(progress),
    }
}

pub fn phase_progress_view(picture: &PhaseProgress) -> PhaseProgressView<'_> {
    PhaseProgressView {
        phase: picture.current.map(OrchestratorPhase::name),
        said_phase: picture.reported_phase.as_deref(),
        complexity: picture.complexity,
        conditions: picture.conditions.iter().map(condition_view).collect(),
        missing: missing_conditions(picture).map(|one| one.condition.key()).collect(),
        approvals: picture.approvals.iter().map(approval_view).collect(),
    }
}

fn approval_view(one: &PhaseApproval) -> PhaseApprovalView<'_> {
    let by = one.by.as_deref();
    PhaseApprovalView { phase: one.phase.name(), approved: by.is_some(), by }
}

fn condition_view(one: &ConditionView) -> PhaseConditionView<'_> {
    PhaseConditionView {
        name: one.condition.key(),
        owner: one.owner.name(),
        standing: match one.status {
            ConditionStatus::Met => "met",
            ConditionStatus::Unmet => "unmet",
            ConditionStatus::Unknown => "unknown",
            ConditionStatus::Pending => "pending",
            ConditionStatus::Idle => "idle",
        },
        note: &one.note,
    }
}

/// The names of what is missing: conditions, then approvals of phases.
pub fn missing_names(picture: &PhaseProgress) -> Vec<String> {
    let conditions = missing_conditions(picture).map(|one| one.condition.name().to_string());
    let approvals = picture.approvals.iter().filter(|one| one.by.is_none());
    let approvals = approvals.map(|one| approval::phase_requirement_name(one.phase));
    conditions.chain(approvals).collect()
}

fn missing_conditions(picture: &PhaseProgress) -> impl Iterator<Item = &ConditionView> {
    picture.conditions.iter().filter(|one| one.is_missing())
}

pub fn condition_mark(status: ConditionStatus) -> FactMark {
    match status {
        ConditionStatus::Met => FactMark::Good,
        ConditionStatus::Unmet => FactMark::Bad,
        ConditionStatus::Unknown => FactMark::Unclear,
        ConditionStatus::Pending | ConditionStatus::Idle => FactMark::Neutral,
    }
}
