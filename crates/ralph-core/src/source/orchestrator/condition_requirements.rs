//! The requirements of the nine conditions, and the evidence for each of them.
//!
//! Conditions that the journal records are measured: a search, a classification, an approval, a learning that still
//! exists. So are the results of a stage's gates. The others are statements about the process, such as that all
//! questions were answered; they cannot be measured, so they are claims. If the gates for correctness and quality pass,
//! the claims are backed and a run can end `verified`. If such gates are missing, their stage is only advisory, the
//! claims stay claims, and the run can at best end `claimed`.

use super::{ConditionOwner, OrchestratorCondition, OrchestratorPhase};
use crate::approval::{self, PersonApproval, PhaseApproval};
use crate::policy::PlanApprover;
use crate::record::{ReportLine, ReportedStatus, StopReport};
use crate::requirement::{
    EvidenceKind, PendingReason, Requirement, RequirementFailure, RequirementStatus,
    RequirementWeight,
};
use crate::run::OrchestratorProgress;
use crate::text;
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// From this complexity on, adversarial gates are required.
pub const ADVERSARIAL_MIN_COMPLEXITY: u8 = 7;

const MAX_NOTE_CHARS: usize = 200;
const MAX_NAMED_GATES: usize = 4;

/// What the status of the conditions depends on.
#[derive(Clone, Copy, Debug)]
pub struct ConditionBasis<'a> {
    pub progress: &'a OrchestratorProgress,
    pub approver: PlanApprover,
    /// The complexity that a person gave at the start.
    pub person_complexity: Option<u8>,
    pub learned: LearningStatus,
    /// Phases that a person has to approve.
    pub approved_phases: &'a [OrchestratorPhase],
    /// What a person approved so far.
    pub approvals: &'a [PersonApproval],
}

/// Whether the last saved learning still exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LearningStatus {
    Nothing,
    Saved,
    Gone,
}

/// The combined status of the required gates of one stage, with the names of the gates that do not pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StageGates {
    /// There is none, or none that applies to this change.
    Absent,
    Passed,
    Failed(Vec<String>),
    Running(Vec<String>),
    /// Not reached, or without a result.
    Unknown(Vec<String>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatesByStage {
    pub correctness: StageGates,
    pub quality: StageGates,
    pub adversarial: StageGates,
}

/// One condition as shown to people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionView {
    pub condition: OrchestratorCondition,
    pub owner: ConditionOwner,
    pub status: ConditionStatus,
    /// Its evidence, or what is missing.
    pub note: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionStatus {
    Met,
    Unmet,
    /// It has no result.
    Unknown,
    /// Not measured yet.
    Pending,
    /// Not required, or nothing measures it.
    Idle,
}

/// The status of a condition, with its evidence in words.
struct ConditionAssessment {
    standing: RequirementStatus,
    weight: RequirementWeight,
    note: String,
    next: String,
}

impl ConditionBasis<'_> {
    /// The person's value, unless the agent rated the work as more complex.
    pub fn complexity(&self) -> Option<u8> {
        self.person_complexity.max(self.progress.complexity)
    }

    /// Whether adversarial gates are required. They are if the complexity is unknown.
    pub fn needs_adversarial(&self) -> bool {
        self.complexity().is_none_or(|complexity| complexity >= ADVERSARIAL_MIN_COMPLEXITY)
    }

    /// The approvals that the policy asks for.
    pub fn phase_approvals(&self) -> Vec<PhaseApproval> {
        let phases = self.approved_phases.iter();
        let approval = |phase: &OrchestratorPhase| {
            let by = approval::approver(self.approvals, &approval::phase_requirement_name(*phase));
            PhaseApproval { phase: *phase, by: by.map(ToOwned::to_owned) }
        };
        phases.map(approval).collect()
    }

    fn claims(&self, condition: OrchestratorCondition) -> bool {
        self.progress.claims.contains(&condition)
    }
}

impl GatesByStage {
    fn for_condition(&self, condition: OrchestratorCondition) -> &StageGates {
        match condition {
            OrchestratorCondition::QualityPassed => &self.quality,
            OrchestratorCondition::AdversarialPassed => &self.adversarial,
            OrchestratorCondition::MemorySearch
            | OrchestratorCondition::TaskClassified
            | OrchestratorCondition::MustHaveAnswered
            | OrchestratorCondition::PlanApproved
            | OrchestratorCondition::ImplementationComplete
            | OrchestratorCondition::CorrectnessPassed
            | OrchestratorCondition::RetrospectiveDone => &self.correctness,
        }
    }

    /// The kind of evidence a claim of the agent amounts to, given these gates.
    fn claim_evidence(&self, basis: &ConditionBasis<'_>) -> EvidenceKind {
        let adversarial = !basis.needs_adversarial() || self.adversarial == StageGates::Passed;
        if self.correctness == StageGates::Passed
            && self.quality == StageGates::Passed
            && adversarial
        {
            EvidenceKind::Backed
        } else {
            EvidenceKind::Claimed
        }
    }

    fn are_open(&self) -> bool {
        let open = |stage: &StageGates| !matches!(stage, StageGates::Absent | StageGates::Passed);
        open(&self.correctness) || open(&self.quality) || open(&self.adversarial)
    }
}

/// One requirement for each required condition, in working order.
pub fn condition_requirements(
    basis: &ConditionBasis<'_>,
    gates: &GatesByStage,
) -> Vec<Requirement> {
    let asked = OrchestratorCondition::ALL.into_iter().filter(|it| {
        // A policy may require its adversarial gates at any complexity. They are requirements of their own.
        *it != OrchestratorCondition::AdversarialPassed || basis.needs_adversarial()
    });
    let requirement = |condition: OrchestratorCondition| {
        let assessment = assess_condition(condition, basis, gates);
        Requirement {
            name: condition.name().to_owned(),
            stage: condition.stage(),
            status: assessment.standing,
            weight: assessment.weight,
            next: assessment.next,
        }
    };
    let asked: Vec<OrchestratorCondition> = asked.collect();
    let mut requirements: Vec<Requirement> = asked.iter().copied().map(requirement).collect();
    let conditions = asked.iter().zip(&requirements);
    let open = conditions.filter(|(_, requirement)| requirement.is_open());
    // A phase that nothing measures has no open condition, so it alone does not show that its work began.
    let first_open = open.map(|(condition, _)| condition.phase()).min();
    for approval in basis.phase_approvals() {
        let open_phase = first_open.filter(|open| *open <= approval.phase);
        requirements.push(approval::phase_approval_requirement(&approval, open_phase));
    }
    requirements
}

fn assess_condition(
    condition: OrchestratorCondition,
    basis: &ConditionBasis<'_>,
    gates: &GatesByStage,
) -> ConditionAssessment {
    match condition {
        OrchestratorCondition::MemorySearch => assess_memory_search(basis, gates),
        OrchestratorCondition::TaskClassified => assess_classification(basis),
        OrchestratorCondition::MustHaveAnswered => assess_claim(
            condition,
            basis,
            gates,
            "not marked as answered yet",
            "Answer the must-have questions (use `ralph ask \"…\"` for those only a person can answer), \
             then run `ralph orchestrator set must_have_answered`",
        ),
        OrchestratorCondition::PlanApproved => assess_plan_approval(basis, gates),
        OrchestratorCondition::ImplementationComplete => assess_claim(
            condition,
            basis,
            gates,
            "not marked as complete yet",
            "Do the work, then run `ralph orchestrator set implementation_complete`",
        ),
        OrchestratorCondition::CorrectnessPassed
        | OrchestratorCondition::QualityPassed
        | OrchestratorCondition::AdversarialPassed => assess_stage(gates.for_condition(condition)),
        OrchestratorCondition::RetrospectiveDone => assess_retrospective(basis, gates),
    }
}

fn met(proof: EvidenceKind, note: String) -> ConditionAssessment {
    let (weight, next) = (RequirementWeight::Required, String::new());
    ConditionAssessment { standing: RequirementStatus::Met(proof), weight, note, next }
}

fn unmet(note: &str, next: &str) -> ConditionAssessment {
    ConditionAssessment {
        standing: RequirementStatus::Unmet(RequirementFailure::new(note.to_owned())),
        weight: RequirementWeight::Required,
        note: note.to_owned(),
        next: next.to_owned(),
    }
}

fn assess_claim(
    condition: OrchestratorCondition,
    basis: &ConditionBasis<'_>,
    gates: &GatesByStage,
    missing: &str,
    next: &str,
) -> ConditionAssessment {
    if basis.claims(condition) {
        met(gates.claim_evidence(basis), "claimed by the agent".to_owned())
    } else {
        unmet(missing, next)
    }
}

fn assess_memory_search(basis: &ConditionBasis<'_>, gates: &GatesByStage) -> ConditionAssessment {
    match basis.progress.recalled {
        0 => assess_claim(
            OrchestratorCondition::MemorySearch,
            basis,
            gates,
            "no search of earlier runs yet",
            "Search earlier runs and learnings: `ralph recall \"…\"`",
        ),
        1 => met(EvidenceKind::Measured, "searched once".to_owned()),
        times => met(EvidenceKind::Measured, format!("searched {times} times")),
    }
}

fn assess_classification(basis: &ConditionBasis<'_>) -> ConditionAssessment {
    match basis.complexity() {
        Some(complexity) => met(EvidenceKind::Measured, format!("complexity {complexity} of 10")),
        None => unmet(
            "the complexity of the task is not set yet",
            "Rate the complexity of the task from 1 to 10: `ralph orchestrator set task_classified --complexity N`",
        ),
    }
}

fn assess_plan_approval(basis: &ConditionBasis<'_>, gates: &GatesByStage) -> ConditionAssessment {
    if let Some(by) = &basis.progress.approved_by {
        return met(EvidenceKind::Measured, format!("by {}", text::clean_line(by, MAX_NOTE_CHARS)));
    }
    match basis.approver {
        PlanApprover::Person => unmet(
            "no person has approved the plan yet",
            "Show the plan to the person, who approves it with `/ralph:approve`; meanwhile run \
             `ralph wait \"plan approval\" --for 2h`",
        ),
        PlanApprover::Agent => assess_claim(
            OrchestratorCondition::PlanApproved,
            basis,
            gates,
            "not marked as approved yet",
            "Make a plan, review it critically, then run `ralph orchestrator set plan_approved`",
        ),
    }
}

fn assess_stage(stage: &StageGates) -> ConditionAssessment {
    let pending = |pending: PendingReason| ConditionAssessment {
        note: pending.why().to_owned(),
        standing: RequirementStatus::Pending(pending),
        weight: RequirementWeight::Required,
        next: String::new(),
    };
    match stage {
        StageGates::Passed => met(EvidenceKind::Measured, "measured".to_owned()),
        StageGates::Failed(names) => unmet(&format!("not passed: {}", join_names(names)), ""),
        StageGates::Running(names) => {
            let verb = if names.len() == 1 { "is" } else { "are" };
            pending(PendingReason::Running(format!("{} {verb} still running", join_names(names))))
        }
        StageGates::Unknown(names) => {
            pending(PendingReason::NotReached(format!("waiting for {}", join_names(names))))
        }
        StageGates::Absent => ConditionAssessment {
            weight: RequirementWeight::Advisory,
            ..unmet(
                "nothing measures it: the policy has no gate of this stage that applies here",
                "",
            )
        },
    }
}

/// A retrospective counts only if it left a learning that a search can find.
fn assess_retrospective(basis: &ConditionBasis<'_>, gates: &GatesByStage) -> ConditionAssessment {
    let missing = match (basis.learned, basis.claims(OrchestratorCondition::RetrospectiveDone)) {
        (LearningStatus::Saved, _) => {
            let id = basis.progress.learned.as_deref().unwrap_or_default();
            return met(
                EvidenceKind::Measured,
                format!("saved as {}", text::clean_line(id, MAX_NOTE_CHARS)),
            );
        }
        (LearningStatus::Gone, _) => "the saved learning no longer exists",
        (LearningStatus::Nothing, true) => "marked as done, but no learning was saved",
        (LearningStatus::Nothing, false) => "no learning was saved yet",
    };
    // Suggested only at the end: while gates fail, there is still something to learn.
    let is_last = basis.claims(OrchestratorCondition::ImplementationComplete) && !gates.are_open();
    let next = if is_last {
        "Save what you learned: `ralph learn \"…\"`; `ralph memory learn` saves what held the run"
    } else {
        ""
    };
    unmet(missing, next)
}

fn join_names(names: &[String]) -> String {
    let shown: Vec<_> = names
        .iter()
        .take(MAX_NAMED_GATES)
        .map(|name| text::clean_line(name, MAX_NOTE_CHARS))
        .collect();
    match names.len().saturating_sub(MAX_NAMED_GATES) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// All nine conditions without evaluating anything: what ralph measures is taken from the last report.
pub fn condition_views(
    basis: &ConditionBasis<'_>,
    report: Option<&StopReport>,
) -> Vec<ConditionView> {
    let unseen = || StageGates::Unknown(Vec::new());
    let gates = GatesByStage { correctness: unseen(), quality: unseen(), adversarial: unseen() };
    let shown = |condition: OrchestratorCondition| {
        let owner = condition.owner(basis.approver);
        let (seen, note) = match owner {
            ConditionOwner::Ralph => reported_status(condition, basis, report),
            ConditionOwner::Agent | ConditionOwner::Person => {
                let assessment = assess_condition(condition, basis, &gates);
                let is_met = matches!(assessment.standing, RequirementStatus::Met(_));
                (
                    if is_met { ConditionStatus::Met } else { ConditionStatus::Unmet },
                    assessment.note,
                )
            }
        };
        ConditionView { condition, owner, status: seen, note }
    };
    OrchestratorCondition::ALL.into_iter().map(shown).collect()
}

fn reported_status(
    condition: OrchestratorCondition,
    basis: &ConditionBasis<'_>,
    report: Option<&StopReport>,
) -> (ConditionStatus, String) {
    if condition == OrchestratorCondition::AdversarialPassed && !basis.needs_adversarial() {
        let note = format!("not required below complexity {ADVERSARIAL_MIN_COMPLEXITY}");
        return (ConditionStatus::Idle, note);
    }
    let unmeasured = || (ConditionStatus::Pending, "not measured yet".to_owned());
    let Some(report) = report else { return unmeasured() };
    if report.met.iter().any(|name| name == condition.name()) {
        return (ConditionStatus::Met, "measured at the last stop".to_owned());
    }
    let line = report.lines.iter().find(|line: &&ReportLine| line.name == condition.name());
    match line.map(|line| (line.standing, line.note.as_str())) {
        None => unmeasured(),
        Some((ReportedStatus::Unmet, note)) => (ConditionStatus::Unmet, note.to_string()),
        Some((ReportedStatus::Unknown, note)) => (ConditionStatus::Unknown, note.to_string()),
        Some((ReportedStatus::Pending, note)) => (ConditionStatus::Pending, note.to_string()),
        Some((ReportedStatus::Advisory, note)) => (ConditionStatus::Idle, note.to_string()),
    }
}

impl ConditionView {
    /// Whether it keeps the run from ending.
    pub fn is_missing(&self) -> bool {
        match self.status {
            ConditionStatus::Met | ConditionStatus::Idle => false,
            ConditionStatus::Unmet | ConditionStatus::Unknown | ConditionStatus::Pending => true,
        }
    }
}

/// The first phase with a missing condition; `None` if nothing is missing.
pub fn current_phase(
    shown: &[ConditionView],
    approvals: &[PhaseApproval],
) -> Option<OrchestratorPhase> {
    let conditions = shown.iter().filter(|one| one.is_missing()).map(|one| one.condition.phase());
    let approvals = approvals.iter().filter(|one| one.by.is_none()).map(|one| one.phase);
    conditions.chain(approvals).min()
}
