//! Requirements from the nine conditions of a run that works in phases.

use super::RequiredJudges;
use crate::contract::MeasuredContract;
use crate::phases;
use ralph_core::gate::{Gate, GateTrigger};
use ralph_core::requirement::{
    EvidenceKind, PendingReason, Requirement, RequirementStage, RequirementStatus,
    RequirementWeight,
};
use ralph_core::source::orchestrator::{
    GatesByStage, OrchestratorCondition, StageGates, condition_requirements,
    ignored_edits_requirement,
};
use ralph_core::waiver;
use ralph_home::faults::{self, Fault, FaultKind};
use ralph_home::store::LoadedRun;
use ralph_home::world::World;

/// The conditions as requirements; empty for a run without phases.
pub(super) fn phase_requirements(
    world: &World,
    seen: &LoadedRun,
    measured: Option<&MeasuredContract>,
    required: RequiredJudges,
) -> Vec<Requirement> {
    if !seen.run.phases {
        return Vec::new();
    }
    let adopted = phases::adopt_edits(&world.home, seen, &world.step_deadline());
    let (opened, unheeded) = adopted.unwrap_or_else(|error| {
        let fault =
            Fault::new(FaultKind::File, &faults::describe_error(&error)).with_run(&seen.run.id);
        faults::record_fault(&world.home, &fault);
        (seen.clone(), Vec::new())
    });
    let gauge = |stage: RequirementStage| {
        measured.map_or(StageGates::Absent, |measured| stage_gauge(world, &opened, measured, stage))
    };
    let gauges = GatesByStage {
        correctness: gauge(RequirementStage::Correctness),
        quality: gauge(RequirementStage::Quality),
        // A judge is asked after all conditions, so this one follows it: see `apply_adversarial_judges`.
        adversarial: match gauge(RequirementStage::Adversarial) {
            StageGates::Absent if required.adversarial => StageGates::Passed,
            gates @ (StageGates::Absent
            | StageGates::Passed
            | StageGates::Failed(_)
            | StageGates::Running(_)
            | StageGates::Unknown(_)) => gates,
        },
    };
    let mut requirements =
        condition_requirements(&phases::condition_inputs(&world.home, &opened), &gauges);
    requirements.extend(ignored_edits_requirement(&unheeded));
    requirements
}

/// The combined state of the required gates of one stage at a stop. Waived gates do not count as open.
fn stage_gauge(
    world: &World,
    opened: &LoadedRun,
    measured: &MeasuredContract,
    stage: RequirementStage,
) -> StageGates {
    let counts = |gate: &&Gate| {
        gate.stage == stage
            && gate.weight == RequirementWeight::Required
            && gate.on.contains(&GateTrigger::Stop)
    };
    let gates = opened.run.seal.iter().flat_map(|seal| &seal.policy.gates).filter(counts);
    let of_stage: Vec<&Requirement> = gates
        .filter_map(|gate| measured.requirements.iter().find(|one| one.name == gate.name))
        .collect();
    let is_open = |one: &&Requirement| {
        one.is_open()
            && waiver::find_waiver(&one.name, &opened.state.waivers, world.arrived_ms).is_none()
    };
    let open: Vec<&Requirement> = of_stage.iter().copied().filter(is_open).collect();
    let named = |wanted: fn(&Requirement) -> bool| -> Vec<String> {
        open.iter().filter(|one| wanted(one)).map(|one| one.name.clone()).collect()
    };
    let (failed, running) = (named(Requirement::is_unmet), named(Requirement::is_running));
    if of_stage.is_empty() {
        StageGates::Absent
    } else if open.is_empty() {
        StageGates::Passed
    } else if !failed.is_empty() {
        StageGates::Failed(failed)
    } else if running.len() == open.len() {
        StageGates::Running(running)
    } else {
        StageGates::Unknown(named(|_| true))
    }
}

/// Lets the condition of the adversarial stage follow the judges that take the place of its gates. Adversarial gates that
/// are open keep it open already.
pub(super) fn apply_adversarial_judges(judges: &[String], requirements: &mut [Requirement]) {
    let is_judge = |one: &&Requirement| one.is_required() && judges.contains(&one.name);
    let open = requirements.iter().filter(is_judge).find(|one| one.is_open());
    let open = open.map(|one| one.name.clone());
    let name = OrchestratorCondition::AdversarialPassed.name();
    let Some(condition) = requirements.iter_mut().find(|one| one.name == name) else { return };
    if condition.is_open() {
        return;
    }
    condition.status = match open {
        Some(judge) => {
            let why = PendingReason::comes_after(format_args!("the judge {judge}"));
            RequirementStatus::Pending(why)
        }
        None => RequirementStatus::Met(EvidenceKind::Judged),
    };
}
