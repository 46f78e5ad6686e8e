//! Approvals that a policy leaves to a person: of a pipeline chunk (`approval = true`) and of a phase
//! (`[orchestrator] approvals`). The journal records them, so an approval counts as measured.

use crate::policy::Chunk;
use crate::record::{ReportLine, StopReport};
use crate::requirement::PendingKind;
use crate::requirement::{
    EvidenceKind, PendingReason, Requirement, RequirementStage, RequirementStatus,
    RequirementWeight,
};
use crate::source::orchestrator::OrchestratorPhase;
use crate::text;
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

const PHASE_SUFFIX: &str = " approved";
const MAX_NAMED: usize = 3;

/// One approval, as the journal records it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PersonApproval {
    /// The name of the requirement that it meets.
    pub requirement: String,
    pub by: String,
}

/// The approval of a phase that a policy asks for, and whether it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhaseApproval {
    pub phase: OrchestratorPhase,
    /// The person who approved it.
    pub by: Option<String>,
}

/// Who approved this requirement, if anyone did.
pub fn approver<'a>(approvals: &'a [PersonApproval], requirement: &str) -> Option<&'a str> {
    let found = approvals.iter().find(|one| one.requirement == requirement);
    found.map(|one| one.by.as_str())
}

/// The name of a phase's requirement: `implement approved`
pub fn phase_requirement_name(phase: OrchestratorPhase) -> String {
    format!("{}{PHASE_SUFFIX}", phase.name())
}

/// The name that a person gives to `ralph approve`, for a requirement that waits for a person.
pub fn approval_name(requirement: &str) -> &str {
    Chunk::name_in_requirement(requirement)
        .or_else(|| requirement.strip_suffix(PHASE_SUFFIX))
        .unwrap_or(requirement)
}

/// Adds the approval to a chunk's requirement. A chunk that is not done stays as it is: only finished work can be
/// approved.
pub fn require_chunk_approval(
    chunk: &Chunk,
    done: Requirement,
    approvals: &[PersonApproval],
) -> Requirement {
    let is_done = matches!(done.status, RequirementStatus::Met(_));
    if !chunk.approval || !is_done || approver(approvals, &chunk.requirement_name()).is_some() {
        return done;
    }
    Requirement {
        status: RequirementStatus::Pending(PendingReason::awaits_approval()),
        next: next_step(&format!("chunk `{}`", chunk.name)),
        ..done
    }
}

/// The requirement that a person approves a phase. It waits until nothing else of the phase and of those before it is
/// open: `open_phase` is the first of them that is.
pub fn phase_approval_requirement(
    approval: &PhaseApproval,
    open_phase: Option<OrchestratorPhase>,
) -> Requirement {
    let phase = approval.phase.name();
    let (status, next) = match (&approval.by, open_phase) {
        (Some(_), _) => (RequirementStatus::Met(EvidenceKind::Measured), String::new()),
        (None, None) => {
            let status = RequirementStatus::Pending(PendingReason::awaits_approval());
            (status, next_step(&format!("phase `{phase}`")))
        }
        (None, Some(open)) => {
            let open = open.name();
            let why = PendingReason::comes_after(format_args!("the conditions of phase `{open}`"));
            (RequirementStatus::Pending(why), String::new())
        }
    };
    Requirement {
        name: phase_requirement_name(approval.phase),
        stage: RequirementStage::Planning,
        status,
        weight: RequirementWeight::Required,
        next,
    }
}

fn next_step(what: &str) -> String {
    format!(
        "Show the result to the person and ask for approval of {what} (`ralph approve`); meanwhile run \
         `ralph wait \"approval\" --for 2h`"
    )
}

/// Whether the last stop reported that this requirement waits for a person.
pub fn awaits_person(line: &ReportLine) -> bool {
    line.pending_kind() == Some(PendingKind::AwaitsPerson)
}

/// The question to a person, if every open requirement needs an approval or comes after one:
/// `` a person has to approve design: `ralph approve k7f2 design` ``
pub fn describe_wait(run: &str, requirements: &[Requirement]) -> Option<String> {
    let open: Vec<&Requirement> = requirements.iter().filter(|one| one.is_open()).collect();
    if open.iter().any(|one| !one.awaits_person() && !one.comes_later()) {
        return None;
    }
    let waits = open.iter().filter(|one| one.awaits_person());
    let names: Vec<String> =
        waits.map(|one| text::clean_line(approval_name(&one.name), 60)).collect();
    let first = names.first()?;
    let mut shown: Vec<String> = names.iter().take(MAX_NAMED).cloned().collect();
    let more = names.len().saturating_sub(MAX_NAMED);
    shown.extend((more > 0).then(|| format!("{more} more")));
    let listed = match shown.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
        None => String::new(),
    };
    Some(format!("a person has to approve {listed}: `ralph approve {run} {first}`"))
}

/// The name that `ralph approve` takes for the first requirement of a report that waits for a person; empty if the report
/// does not list it.
pub fn first_awaited_name(report: Option<&StopReport>) -> String {
    let lines = report.map_or(&[][..], |report| &report.lines);
    let first = lines.iter().find(|line| awaits_person(line));
    first.map_or_else(String::new, |line| approval_name(&line.name).to_owned())
}

/// What can be approved in a run, by the names that `ralph approve` takes.
pub fn approvable_names(chunks: &[Chunk], phases: &[OrchestratorPhase]) -> Vec<(String, String)> {
    let of_chunks = chunks.iter().filter(|chunk| chunk.approval);
    let of_chunks = of_chunks.map(|chunk| (chunk.name.clone(), chunk.requirement_name()));
    let of_phases = phases.iter();
    let of_phases =
        of_phases.map(|phase| (phase.name().to_owned(), phase_requirement_name(*phase)));
    of_chunks.chain(of_phases).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::requirement::RequirementFailure;
    use alloc::vec;

    fn requirement(name: &str, status: RequirementStatus) -> Requirement {
        Requirement {
            name: name.to_owned(),
            stage: RequirementStage::Correctness,
            status,
            weight: RequirementWeight::Required,
            next: String::new(),
        }
    }

    fn chunk(name: &str) -> Chunk {
        Chunk {
            name: name.to_owned(),
            r#match: name.to_owned(),
            gates: Vec::new(),
            outputs: Vec::new(),
            max_holds: 1,
            after: Vec::new(),
            approval: true,
        }
    }

    #[test]
    fn only_finished_work_waits_for_a_person() {
        let design = chunk("design");
        let met = || requirement("chunk design", RequirementStatus::Met(EvidenceKind::Measured));
        let unmet = RequirementStatus::Unmet(RequirementFailure::new("no".to_owned()));
        let given = |name: &str| {
            vec![PersonApproval { requirement: name.to_owned(), by: "kim".to_owned() }]
        };
        let judge = |done: Requirement, approvals: &[PersonApproval]| {
            require_chunk_approval(&design, done, approvals)
        };
        assert!(judge(met(), &[]).awaits_person());
        assert!(judge(met(), &given("chunk other")).awaits_person());
        assert_eq!(judge(met(), &given("chunk design")), met());
        assert!(judge(requirement("chunk design", unmet), &[]).is_unmet());
        let free = Chunk { approval: false, ..design.clone() };
        assert_eq!(require_chunk_approval(&free, met(), &[]), met());
    }

    #[test]
    fn a_run_waits_only_if_nothing_else_can_be_done() {
        let waits = |name: &str| {
            let why = PendingReason::AwaitsPerson("waits for a person".to_owned());
            requirement(name, RequirementStatus::Pending(why))
        };
        let late = || {
            let why = PendingReason::NotReached("comes after design".to_owned());
            requirement("chunk code", RequirementStatus::Pending(why))
        };
        let met = || requirement("tests", RequirementStatus::Met(EvidenceKind::Measured));
        let unmet = || {
            let failure = RequirementFailure::new("2 failed".to_owned());
            requirement("tests", RequirementStatus::Unmet(failure))
        };
        for (all, expected) in [
            (vec![], None),
            (vec![met(), late()], None),
            (vec![waits("chunk design"), unmet()], None),
            (
                vec![met(), waits("chunk design"), late()],
                Some("a person has to approve design: `ralph approve k7f2 design`"),
            ),
            (
                vec![waits("implement approved"), waits("chunk docs")],
                Some("a person has to approve implement and docs: `ralph approve k7f2 implement`"),
            ),
        ] {
            assert_eq!(describe_wait("k7f2", &all).as_deref(), expected);
        }
    }
}
