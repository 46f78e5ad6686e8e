//! What would run in a project, and whether a person approved it.

use crate::view::gate_list::{
    CiDefinitionView, JudgeDefinitionView, ci_definition_view, judge_definition_view,
};
use ralph_core::gate::Gate;
use ralph_core::judge::Judge;
use ralph_home::paths::RalphHome;
use ralph_policy::trust::{
    self, Approval, ApprovalSubject, DifferenceKind, GateProgram, ProgramSearch, ReferencedContent,
    ShownEnvironment,
};
use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalStatus {
    Approved,
    Untrusted,
    /// None of the commands come from the repository.
    NotNeeded,
    Revoked,
}

#[derive(Debug, Serialize)]
pub struct TrustView<'a> {
    pub v: u8,
    pub project: String,
    #[serde(flatten)]
    pub policy: TrustSubjectView<'a>,
    pub judges: Vec<JudgeDefinitionView<'a>>,
    pub ci: Vec<CiDefinitionView<'a>>,
    pub lists: Vec<TrustListView<'a>>,
}

#[derive(Debug, Serialize)]
pub struct TrustListView<'a> {
    pub list: String,
    #[serde(flatten)]
    pub subject: TrustSubjectView<'a>,
}

#[derive(Debug, Serialize)]
pub struct TrustSubjectView<'a> {
    pub status: ApprovalStatus,
    pub hash: &'a str,
    pub commands: Vec<TrustCommandView<'a>>,
    pub called: &'a [ReferencedContent],
    pub programs: &'a [GateProgram],
    pub environment: &'a ShownEnvironment,
    pub changes: Vec<TrustChangeView>,
}

#[derive(Debug, Serialize)]
pub struct TrustCommandView<'a> {
    pub gate: &'a str,
    pub command: &'a str,
}

#[derive(Debug, Serialize)]
pub struct TrustChangeView {
    pub what: String,
    pub how: DifferenceKind,
}

#[derive(Debug, Serialize)]
pub struct TrustRevokedView {
    pub v: u8,
    pub project: String,
    pub status: ApprovalStatus,
    pub revoked: usize,
}

/// What a person needs to see before they approve a policy or a list.
#[derive(Debug)]
pub struct ApprovalQuestion {
    /// The path of the list, relative to the project; `None` for the policy.
    pub list: Option<String>,
    /// The features of a loop that would hold a session, one line each; empty for a policy and for checks.
    pub loop_features: Vec<String>,
    pub subject: ApprovalSubject,
    pub before: ApprovalStatus,
    pub search_path: ProgramSearch,
    /// Whether ralph sets `CI=true` for the gates.
    pub sets_ci: bool,
    /// The judges of the policy, whose commands are among those of the subject.
    pub judges: Vec<Judge>,
    /// The gates of the policy that ask a CI provider, whose commands are there too.
    pub ci_gates: Vec<Gate>,
    /// The last approval, if this version is not approved.
    pub last: Option<Approval>,
}

pub fn approval_status(home: &RalphHome, subject: &ApprovalSubject) -> ApprovalStatus {
    if !subject.needs_approval() {
        ApprovalStatus::NotNeeded
    } else if trust::is_approved(home, subject) {
        ApprovalStatus::Approved
    } else {
        ApprovalStatus::Untrusted
    }
}

/// The view of a policy and of the lists whose checks need approval.
pub fn trust_view<'a>(
    home: &RalphHome,
    policy: &'a ApprovalQuestion,
    lists: &'a [ApprovalQuestion],
) -> TrustView<'a> {
    let lists = lists.iter().map(|question| TrustListView {
        list: question.list.clone().unwrap_or_default(),
        subject: subject_view(home, question),
    });
    TrustView {
        v: 1,
        project: policy.subject.project.display().to_string(),
        policy: subject_view(home, policy),
        judges: policy.judges.iter().map(judge_definition_view).collect(),
        ci: policy.ci_gates.iter().filter_map(ci_definition_view).collect(),
        lists: lists.collect(),
    }
}

fn subject_view<'a>(home: &RalphHome, question: &'a ApprovalQuestion) -> TrustSubjectView<'a> {
    let ApprovalQuestion { subject, search_path, last, .. } = question;
    let commands = subject
        .commands
        .iter()
        .map(|one| TrustCommandView { gate: &one.gate, command: &one.command });
    let differences = last.iter().flat_map(|last| subject.differences(last));
    TrustSubjectView {
        status: approval_status(home, subject),
        hash: &subject.hash,
        commands: commands.collect(),
        called: &subject.references,
        programs: &search_path.programs,
        environment: &search_path.environment,
        changes: differences
            .map(|difference| TrustChangeView { what: difference.item, how: difference.kind })
            .collect(),
    }
}
