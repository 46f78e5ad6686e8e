//! Approvals of chunks and phases by a person, see [`ralph_core::approval`].

use crate::control::{self, CommandCaller, ControlError};
use crate::phases;
use ralph_core::approval::{self, PersonApproval};
use ralph_core::id::RunId;
use ralph_core::policy::PlanApprover;
use ralph_core::record::RunChange;
use ralph_core::run::RunPhase;
use ralph_core::source::orchestrator::OrchestratorPhase;
use ralph_home::paths::RalphHome;
use ralph_home::store::{self, LoadedRun};
use ralph_sys::clock::Deadline;

/// Something that a person can approve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunApproval {
    /// The name that `ralph approve` takes: of a chunk, of a phase, or `plan`.
    pub name: String,
    pub target: ApprovalTarget,
    pub state: ApprovalState,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApprovalTarget {
    Plan,
    /// A chunk or a phase, by the name of its requirement.
    Requirement(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApprovalState {
    /// Its work is not done, according to the last stop.
    NotReady,
    Due,
    Approved,
}

/// What a person can approve in a run.
pub fn run_approvals(opened: &LoadedRun) -> Vec<RunApproval> {
    let LoadedRun { run, state, .. } = opened;
    let mut all = Vec::new();
    if run.phases && phases::plan_approver(run) == PlanApprover::Person {
        let is_given = state.way.approved_by.is_some();
        all.push(RunApproval {
            name: OrchestratorPhase::Plan.name().to_string(),
            target: ApprovalTarget::Plan,
            state: if is_given { ApprovalState::Approved } else { ApprovalState::Due },
        });
    }
    let Some(policy) = run.seal.as_ref().map(|seal| &seal.policy) else { return all };
    let asked = if run.phases { policy.phase_approvals.as_slice() } else { &[] };
    let waits = |requirement: &str| {
        let lines = state.report.iter().flat_map(|report| &report.lines);
        let mut lines = lines.filter(|line| line.name == requirement);
        lines.any(approval::awaits_person)
    };
    for (name, requirement) in approval::approvable_names(&policy.pipeline, asked) {
        let state = if approval::approver(&state.approvals, &requirement).is_some() {
            ApprovalState::Approved
        } else if waits(&requirement) {
            ApprovalState::Due
        } else {
            ApprovalState::NotReady
        };
        all.push(RunApproval { name, target: ApprovalTarget::Requirement(requirement), state });
    }
    all
}

/// What a run waits for a person to approve.
pub fn due_approvals(opened: &LoadedRun) -> Vec<RunApproval> {
    let all = run_approvals(opened).into_iter();
    all.filter(|one| one.state == ApprovalState::Due).collect()
}

/// Records a person's approval. A second one changes nothing.
pub fn record_approval(
    home: &RalphHome,
    run: &RunId,
    target: &ApprovalTarget,
    by: &str,
    caller: CommandCaller,
    deadline: &Deadline,
) -> Result<(), ControlError> {
    let requirement = match target {
        ApprovalTarget::Plan => {
            return phases::approve_plan(home, run, caller, deadline).map(drop);
        }
        ApprovalTarget::Requirement(requirement) => requirement,
    };
    control::require_person_caller(home, run, caller, "approve the work of")?;
    if approval::approver(&store::load_run(home, run)?.state.approvals, requirement).is_some() {
        return Ok(());
    }
    let approval = PersonApproval { requirement: requirement.clone(), by: by.to_string() };
    control::change_phase(home, run, deadline, |phase| match phase {
        RunPhase::Ended(status) => Err(ControlError::HasEnded { run: run.clone(), status }),
        RunPhase::Active | RunPhase::Paused { .. } | RunPhase::Orphaned => {
            Ok(RunChange::Approved(approval))
        }
    })?;
    let opened = store::load_run(home, run)?;
    if opened.run.phases {
        phases::write_view(home, &opened)?;
    }
    Ok(())
}
