//! What the next stop would find, for `ralph verify`: every requirement with its state and findings.

use ralph_core::facts::StopEvidence;
use ralph_core::id::{RunId, SessionId};
use ralph_core::proof::Proof;
use ralph_core::proof_summary::ProofRecord;
use ralph_core::reason::safe_line;
use ralph_core::redact::Redactor;
use ralph_core::requirement::{
    EvidenceKind, Finding, FindingAge, FindingSeverity, Requirement, RequirementStatus,
    RequirementWeight,
};
use ralph_core::requirement_tally::RequirementTally;
use serde::Serialize;

const SOMETHING_UNMET: u8 = 1;
const NO_RESULT: u8 = 4;
const MAX_NAME_CHARS: usize = 120;
const MAX_TEXT_CHARS: usize = 400;

/// The object of `ralph verify --json`.
#[derive(Debug, Serialize)]
pub struct RequirementCheckView {
    pub v: u8,
    /// `None` for a session that only the gates of its project judge.
    pub run: Option<String>,
    pub session: String,
    pub state: &'static str,
    pub total: u32,
    pub unmet: u32,
    pub unknown: u32,
    pub pending: u32,
    pub requirements: Vec<RequirementView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proof: Option<ProofRecord>,
}

/// A requirement with everything that is known about it.
#[derive(Debug, Serialize)]
pub struct RequirementView {
    pub name: String,
    pub stage: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judge: Option<&'static str>,
    pub weight: RequirementWeight,
    pub state: &'static str,
    /// Why it is met: `measured`, `claimed`, `backed` or `judged`.
    pub evidence: Option<&'static str>,
    /// Why it is not met.
    pub note: Option<String>,
    pub finding_count: usize,
    pub findings: Vec<RequirementFindingView>,
    pub log: Option<String>,
}

#[derive(Debug, Serialize)]
pub struct RequirementFindingView {
    pub file: Option<String>,
    pub line: Option<u32>,
    pub column: Option<u32>,
    pub rule: Option<String>,
    pub message: String,
    pub severity: FindingSeverity,
    pub since: FindingAge,
}

/// The exit code: 0 if everything required is met, 1 if something is not, 4 if something has no result, as that of
/// [`gate_exit_code`](super::gate_results::gate_exit_code).
pub fn requirement_exit_code(requirements: &[Requirement]) -> u8 {
    let open = || requirements.iter().filter(|one| one.is_open());
    if open().any(Requirement::is_unmet) {
        SOMETHING_UNMET
    } else if open().next().is_some() {
        NO_RESULT
    } else {
        0
    }
}

pub fn requirement_check_view(
    run: &RunId,
    session: &SessionId,
    evidence: &StopEvidence,
    redactor: &Redactor,
) -> RequirementCheckView {
    let requirements = &evidence.requirements;
    let RequirementTally { unmet, unknown, pending, total } = RequirementTally::count(requirements);
    RequirementCheckView {
        v: 1,
        run: (!run.is_of_session()).then(|| run.to_string()),
        session: session.as_str().to_string(),
        state: match requirement_exit_code(requirements) {
            0 => "met",
            SOMETHING_UNMET => "unmet",
            _ => "unknown",
        },
        total,
        unmet,
        unknown,
        pending,
        requirements: requirements.iter().map(|one| requirement_view(one, redactor)).collect(),
        proof: evidence.proof.as_ref().map(Proof::record),
    }
}

fn requirement_view(requirement: &Requirement, redactor: &Redactor) -> RequirementView {
    let text = |foreign: &str| safe_line(foreign, MAX_TEXT_CHARS, redactor);
    let mut view = RequirementView {
        name: safe_line(&requirement.name, MAX_NAME_CHARS, redactor),
        stage: requirement.stage.name(),
        judge: requirement.stage.judge_kind().map(ralph_core::judge::JudgeKind::name),
        weight: requirement.weight,
        state: "met",
        evidence: None,
        note: None,
        finding_count: 0,
        findings: Vec::new(),
        log: None,
    };
    match &requirement.status {
        RequirementStatus::Met(evidence) => {
            view.evidence = Some(match evidence {
                EvidenceKind::Measured => "measured",
                EvidenceKind::Claimed => "claimed",
                EvidenceKind::Backed => "backed",
                EvidenceKind::Judged => "judged",
            });
        }
        RequirementStatus::Unmet(failure) => {
            view.state = "unmet";
            view.note = Some(text(&failure.summary));
            view.finding_count = failure.findings.len().saturating_add(failure.unlisted);
            view.findings =
                failure.findings.iter().map(|one| finding_view(one, redactor)).collect();
            view.log = failure.log.as_deref().map(text);
        }
        RequirementStatus::Unknown(why) => {
            view.state = "unknown";
            view.note = Some(text(why));
        }
        RequirementStatus::Pending(reason) => {
            view.state = "pending";
            view.note = Some(text(reason.why()));
        }
    }
    view
}

fn finding_view(finding: &Finding, redactor: &Redactor) -> RequirementFindingView {
    let text = |foreign: &str| safe_line(foreign, MAX_TEXT_CHARS, redactor);
    let place = finding.place.as_ref();
    RequirementFindingView {
        file: place.map(|place| text(&place.file)),
        line: place.and_then(|place| place.line),
        column: place.and_then(|place| place.column),
        rule: finding.rule.as_deref().map(text),
        message: text(&finding.message),
        severity: finding.severity,
        since: finding.since,
    }
}
