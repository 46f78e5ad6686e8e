//! The statement: in-toto's fields around a predicate of ralph's own. Names are part of the format.

use ralph_core::judge::JudgeKind;
use ralph_core::limits::RunLimits;
use ralph_core::proof::{BrokenTest, ProofVerdict};
use ralph_core::status::RunStatus;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub(crate) const STATEMENT_TYPE: &str = "https://in-toto.io/Statement/v1";
/// Changes with every change that an older ralph could misread.
pub(crate) const PREDICATE_TYPE: &str = "urn:ralph:run-verification:v1";
pub(crate) const COMMIT_DIGEST: &str = "gitCommit";
pub(crate) const TREE_DIGEST: &str = "gitTree";

/// The names of the subjects, in their order. The landed commit is optional.
pub(crate) const TREE_SUBJECT: &str = "tree";
pub(crate) const JUDGED_SUBJECT: &str = "judged-commit";
pub(crate) const LANDED_SUBJECT: &str = "landed-commit";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunStatement {
    #[serde(rename = "_type")]
    pub statement_type: String,
    pub subject: Vec<StatementSubject>,
    #[serde(rename = "predicateType")]
    pub predicate_type: String,
    pub predicate: RunPredicate,
}

/// Something that the statement is about, by its digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatementSubject {
    pub name: String,
    pub digest: BTreeMap<String, String>,
}

/// How a run ended, and what that rests on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct RunPredicate {
    pub run: String,
    pub status: AttestedStatus,
    /// RFC 3339, in UTC.
    pub started_at: String,
    pub ended_at: String,
    /// The program that made the statement.
    pub ralph_version: String,
    pub goal: AttestedGoal,
    /// Missing for a run without a policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<AttestedPolicy>,
    pub requirements: AttestedRequirements,
    pub gates: Vec<AttestedGate>,
    /// The verdicts at the end of the run. They are opinions, and stand apart from what was measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub judges: Vec<AttestedJudge>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<AttestedProof>,
    /// Those that had not expired when the run ended.
    pub waivers: Vec<AttestedWaiver>,
    pub disputes: Vec<AttestedDispute>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted: Option<AttestedAcceptance>,
    /// Whether files of ralph were edited during the run.
    pub tampered: bool,
    pub limits: RunLimits,
    pub iterations: u32,
    pub journal: AttestedJournal,
}

/// The statuses that a statement can have, the weakest first. In all others, something that was required is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttestedStatus {
    Claimed,
    Green,
    Verified,
}

impl AttestedStatus {
    pub(crate) fn of_run(status: RunStatus) -> Option<Self> {
        match status {
            RunStatus::Verified => Some(Self::Verified),
            RunStatus::Green => Some(Self::Green),
            RunStatus::Claimed => Some(Self::Claimed),
            RunStatus::Exhausted
            | RunStatus::Stuck
            | RunStatus::NeedsHuman
            | RunStatus::NeedsReview
            | RunStatus::GateBroken
            | RunStatus::RateLimited
            | RunStatus::Cancelled
            | RunStatus::Overridden
            | RunStatus::Crashed => None,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Claimed => RunStatus::Claimed.name(),
            Self::Green => RunStatus::Green.name(),
            Self::Verified => RunStatus::Verified.name(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct AttestedGoal {
    pub title: String,
    pub bytes: u64,
    /// Of the goal's file, which is not part of the journal. Missing if the file is gone or has another length.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct AttestedPolicy {
    /// What a person approved; empty if nothing of the policy comes from the repository.
    pub hash: String,
    /// The directory of the policy in the repository; empty for its root.
    pub directory: String,
    /// The policy file and the scripts that its gates use. `hash` is computed from them, in this order.
    pub files: Vec<AttestedFile>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct AttestedFile {
    /// A path in the policy's directory, or `package.json: scripts.test`
    pub name: String,
    pub blake3: String,
}

/// The requirements at the stop that ended the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct AttestedRequirements {
    /// The row of the decision table.
    pub rule: String,
    pub total: u32,
    /// Required ones that are not met, or have no result.
    pub open: u32,
    pub met: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct AttestedGate {
    pub name: String,
    /// `tree`, `clean` or `base`: the work tree, a clean checkout, or a checkout of the base.
    pub site: String,
    pub required: bool,
    /// `passed`, `failed`, or why there is no result.
    pub outcome: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tests: Option<AttestedTests>,
    pub findings: u32,
    /// Identifies gate and content: two results with the same key measured the same.
    pub key: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct AttestedTests {
    pub run: u32,
    pub failed: u32,
    pub skipped: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct AttestedJudge {
    pub name: String,
    pub kind: JudgeKind,
    pub required: bool,
    /// Whether the policy lets a run whose goal only this judge confirms end `verified`.
    pub counts: bool,
    /// `met`, `unmet`, `impossible` or `unknown`.
    pub outcome: String,
    /// As the backend named it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Of the instructions and the case.
    pub prompt_hash: String,
}

/// What running old and new tests on old and new code showed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct AttestedProof {
    pub verdict: ProofVerdict,
    /// How many old tests hold on the new code.
    pub old_tests_held: usize,
    /// How many tests fail without the change.
    pub tests_failing_without_change: usize,
    pub old_tests_broken: usize,
    /// The first of them.
    pub broken: Vec<BrokenTest>,
    pub doubts: Vec<String>,
    /// Old tests that hold but no longer run.
    pub removed: Vec<String>,
    /// Test files that a person allowed to change, and that did.
    pub allowed_to_change: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct AttestedWaiver {
    pub requirement: String,
    pub why: String,
    pub by: String,
    pub until: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct AttestedDispute {
    pub requirement: String,
    pub why: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct AttestedAcceptance {
    pub by: String,
    pub why: String,
    pub at: String,
    /// The status that the run had ended with.
    pub was: String,
}

/// The journal that the statement was made from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct AttestedJournal {
    pub entries: u64,
    /// Hash of its last line, which depends on all lines before it.
    pub head: String,
}

#[derive(Debug, thiserror::Error)]
pub enum StatementError {
    #[error("the payload is not a statement of ralph: {0}")]
    Invalid(serde_json::Error),
    #[error("the statement has another type than `{STATEMENT_TYPE}`")]
    StatementType,
    #[error("the predicate has another type than `{PREDICATE_TYPE}`")]
    PredicateType,
    #[error("the subjects are not a tree and the commits that have it")]
    Subjects,
}

impl RunStatement {
    /// Parses the payload of an envelope. Unknown fields are errors: they could mean anything.
    pub fn parse(payload: &[u8]) -> Result<Self, StatementError> {
        let types: StatementTypes =
            serde_json::from_slice(payload).map_err(StatementError::Invalid)?;
        if types.statement_type != STATEMENT_TYPE {
            return Err(StatementError::StatementType);
        }
        if types.predicate_type != PREDICATE_TYPE {
            return Err(StatementError::PredicateType);
        }
        let statement: Self = serde_json::from_slice(payload).map_err(StatementError::Invalid)?;
        let names: Vec<_> = statement.subject.iter().map(|one| one.name.as_str()).collect();
        let is_complete = matches!(
            names.as_slice(),
            [TREE_SUBJECT, JUDGED_SUBJECT] | [TREE_SUBJECT, JUDGED_SUBJECT, LANDED_SUBJECT]
        );
        let has_ids = statement.subject.iter().all(|one| one.git_id().is_some());
        if is_complete && has_ids { Ok(statement) } else { Err(StatementError::Subjects) }
    }

    /// The attested tree.
    pub fn tree(&self) -> &str {
        self.find_subject(TREE_SUBJECT).unwrap_or_default()
    }

    /// The commit of the checkpoint that was judged.
    pub fn judged_commit(&self) -> &str {
        self.find_subject(JUDGED_SUBJECT).unwrap_or_default()
    }

    /// The commit of a branch that has the judged tree.
    pub fn landed_commit(&self) -> Option<&str> {
        self.find_subject(LANDED_SUBJECT)
    }

    fn find_subject(&self, name: &str) -> Option<&str> {
        self.subject.iter().find(|one| one.name == name)?.git_id()
    }
}

/// Read first, so that a statement of another kind is reported as such.
#[derive(Deserialize)]
struct StatementTypes {
    #[serde(rename = "_type")]
    statement_type: String,
    #[serde(rename = "predicateType")]
    predicate_type: String,
}

impl StatementSubject {
    pub(crate) fn new(name: &str, id: &str) -> Self {
        let kind = if name == TREE_SUBJECT { TREE_DIGEST } else { COMMIT_DIGEST };
        let digest = BTreeMap::from([(kind.to_string(), id.to_string())]);
        Self { name: name.to_string(), digest }
    }

    /// The id, if it is one and there is nothing else.
    fn git_id(&self) -> Option<&str> {
        let kind = if self.name == TREE_SUBJECT { TREE_DIGEST } else { COMMIT_DIGEST };
        let id = self.digest.get(kind).filter(|_| self.digest.len() == 1)?;
        ralph_git::commit_content::is_full_id(id).then_some(id)
    }
}
