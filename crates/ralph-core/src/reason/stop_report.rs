//! Builds the [`StopReport`](crate::record::StopReport) that the journal keeps of a stop.

use super::{open_requirements, safe_line, safe_name};
use crate::digest64::Digest64;
use crate::policy::Chunk;
use crate::record::{ReportLine, ReportedStatus, StopReport};
use crate::redact::Redactor;
use crate::requirement::{
    EvidenceKind, PendingReason, Requirement, RequirementStatus, TEST_CHANGES_REQUIREMENT,
};
use crate::requirement_tally::RequirementTally;
use alloc::string::ToString;
use alloc::vec::Vec;

const MAX_LINES: usize = 20;
/// Names of a longer list would make every journal line too long.
const MAX_NAMES: usize = 1000;
/// How many changes to tests a report lists.
const MAX_LISTED: usize = 12;

fn digest_failures(requirements: &[Requirement]) -> Digest64 {
    let signatures: Vec<_> = open_requirements(requirements)
        .map(|one| requirement_digest(one).0.to_le_bytes())
        .collect();
    let parts: Vec<&[u8]> = signatures.iter().map(<[u8; 8]>::as_slice).collect();
    Digest64::of_parts(&parts)
}

pub(super) fn requirement_digest(requirement: &Requirement) -> Digest64 {
    match &requirement.status {
        RequirementStatus::Met(_) => Digest64::of_parts(&[requirement.name.as_bytes()]),
        RequirementStatus::Unknown(why) => {
            Digest64::of_parts(&[requirement.name.as_bytes(), b"unknown", why.as_bytes()])
        }
        // The reason for waiting changes every second (elapsed time), so it must not change the digest.
        RequirementStatus::Pending(_) => {
            Digest64::of_parts(&[requirement.name.as_bytes(), b"pending"])
        }
        RequirementStatus::Unmet(failure) => {
            let mut parts =
                alloc::vec![requirement.name.as_bytes(), b"unmet", failure.summary.as_bytes()];
            parts.extend(failure.findings.iter().map(|finding| finding.message.as_bytes()));
            parts.extend(failure.quote.iter().map(|quote| quote.text.as_bytes()));
            Digest64::of_parts(&parts)
        }
    }
}

pub fn build_stop_report(requirements: &[Requirement], redactor: &Redactor) -> StopReport {
    let RequirementTally { unmet, unknown, pending, total } = RequirementTally::count(requirements);
    let advisory = requirements.iter().filter(|one| !one.is_required() && one.is_unmet());
    StopReport {
        total,
        unmet,
        unknown,
        pending,
        failures: digest_failures(requirements),
        lines: open_requirements(requirements)
            .chain(advisory)
            .take(MAX_LINES)
            .map(|one| report_line(one, redactor))
            .collect(),
        also_open: open_requirements(requirements)
            .skip(MAX_LINES)
            .take(MAX_NAMES)
            .map(|one| safe_name(one, redactor))
            .collect(),
        met: requirements
            .iter()
            .filter(|one| one.is_required() && matches!(one.status, RequirementStatus::Met(_)))
            .map(|one| safe_name(one, redactor))
            .enumerate()
            // The progress of a pipeline is computed from all of its chunks, so none may be dropped.
            .filter(|(at, name)| *at < MAX_NAMES || Chunk::is_requirement_name(name))
            .map(|(_, name)| name)
            .collect(),
        claimed: count_claimed(requirements),
    }
}

fn count_claimed(requirements: &[Requirement]) -> u32 {
    let is_claimed = |one: &&Requirement| {
        one.is_required() && one.status == RequirementStatus::Met(EvidenceKind::Claimed)
    };
    u32::try_from(requirements.iter().filter(is_claimed).count()).unwrap_or(u32::MAX)
}

fn report_line(requirement: &Requirement, redactor: &Redactor) -> ReportLine {
    let (standing, note, findings) = match &requirement.status {
        RequirementStatus::Unmet(failure) if requirement.is_required() => (
            ReportedStatus::Unmet,
            &failure.summary,
            failure.findings.len().saturating_add(failure.unlisted),
        ),
        RequirementStatus::Unmet(failure) => (
            ReportedStatus::Advisory,
            &failure.summary,
            failure.findings.len().saturating_add(failure.unlisted),
        ),
        RequirementStatus::Unknown(why) => (ReportedStatus::Unknown, why, 0),
        RequirementStatus::Pending(
            PendingReason::Running(why)
            | PendingReason::NotReached(why)
            | PendingReason::AwaitsPerson(why),
        ) => (ReportedStatus::Pending, why, 0),
        RequirementStatus::Met(_) => (ReportedStatus::Advisory, &requirement.name, 0),
    };
    let is_listed = requirement.name == TEST_CHANGES_REQUIREMENT;
    let shown = if is_listed { MAX_LISTED } else { 1 };
    let mut lines = match &requirement.status {
        RequirementStatus::Unmet(failure) => super::finding_lines(failure, shown, redactor),
        RequirementStatus::Met(_)
        | RequirementStatus::Unknown(_)
        | RequirementStatus::Pending(_) => Vec::new(),
    };
    let listed = lines.split_off(lines.len().min(1));
    let pending = match &requirement.status {
        RequirementStatus::Pending(reason) => Some(reason.kind()),
        RequirementStatus::Met(_) | RequirementStatus::Unmet(_) | RequirementStatus::Unknown(_) => {
            None
        }
    };
    ReportLine {
        was: None,
        pending,
        first: lines.pop(),
        listed,
        name: safe_name(requirement, redactor),
        stage: requirement.stage.name().to_string(),
        judge: requirement.stage.judge_kind(),
        standing,
        note: safe_line(note, 200, redactor),
        findings: u32::try_from(findings).unwrap_or(u32::MAX),
        signature: requirement_digest(requirement),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::requirement::{
        Finding, FindingLocation, RequirementFailure, RequirementStage, RequirementWeight,
    };
    use alloc::format;
    use alloc::string::String;

    /// R-S5a: a person sees every change to tests with its place; of other requirements the first finding is enough.
    #[test]
    fn changes_to_tests_are_listed_with_their_places() {
        let finding = |line: u32| Finding {
            place: Some(FindingLocation {
                file: "test_cart.py".into(),
                line: Some(line),
                column: None,
            }),
            rule: Some("expectation-changed".into()),
            ..Finding::new(format!("`test_{line}` expects another value"))
        };
        let requirement = |name: &str| Requirement {
            name: name.into(),
            stage: RequirementStage::Correctness,
            status: RequirementStatus::Unmet(RequirementFailure {
                findings: (1..=3).map(finding).collect(),
                ..RequirementFailure::new("3 changes".into())
            }),
            weight: RequirementWeight::Advisory,
            next: String::new(),
        };
        let redactor = Redactor::new(Vec::new());
        let line = |number: u32| {
            format!(
                "test_cart.py:{number}: `test_{number}` expects another value [expectation-changed]"
            )
        };
        for (name, listed) in [(TEST_CHANGES_REQUIREMENT, &[2, 3][..]), ("lint", &[])] {
            let report = build_stop_report(&[requirement(name)], &redactor);
            let shown = report.lines.first().unwrap();
            assert_eq!(shown.first.as_deref(), Some(line(1).as_str()));
            let expected: Vec<_> = listed.iter().map(|number| line(*number)).collect();
            assert_eq!(shown.listed, expected);
        }
    }
}
