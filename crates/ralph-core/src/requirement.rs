//! Requirements: the only input a decision evaluates. Gates, features, tasks, checklists and orchestrator files are all
//! converted to requirements first.

use crate::judge::JudgeKind;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Display;
use serde::{Deserialize, Serialize};

/// A goal that nothing measures; it is met by a completion marker.
pub const GOAL_REQUIREMENT: &str = "goal";
/// The promise that a person asked for; it is met by that promise.
pub const PROMISE_REQUIREMENT: &str = "promise";
/// The advisory requirement that lists changes to tests for a person.
pub const TEST_CHANGES_REQUIREMENT: &str = "test changes";
/// The requirement that lists added code which detects a test runner. It never holds.
pub const RUNNER_DETECTION_REQUIREMENT: &str = "runner detection";

/// The advisory requirement that names the failures of the base which a ratchet or a session without a run accepts.
pub const OLD_FAILURES_REQUIREMENT: &str = "old failures";

/// The advisory requirement that names the checks which passed before the work began. They do not measure the goal.
pub const PASSING_CHECKS_REQUIREMENT: &str = "checks at the base";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// Unique in a run and stable during it: `feature 4`, `orchestrator`, `uncommitted changes`.
    pub name: String,
    pub stage: RequirementStage,
    pub status: RequirementStatus,
    pub weight: RequirementWeight,
    /// One imperative sentence for the agent, from a template of ours: what to do to meet the requirement.
    pub next: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequirementStage {
    Planning,
    Correctness,
    Quality,
    Security,
    Adversarial,
    /// The checks of a CI provider, which cost the most time.
    Ci,
    /// The verdict of a judge. No gate has this stage, and reports name it `adversarial`.
    #[serde(skip)]
    Judged(JudgeKind),
}

/// What the requirements that cost the most come after, see [`PendingReason::comes_after`].
pub const EVERYTHING_ELSE: &str = "everything else is met";
/// Starts the reason why a requirement is not reached yet. Stored reports of older versions have no other sign of it.
pub(crate) const WAITS_PREFIX: &str = "comes after ";
/// Starts the reason why a finished piece of work is still open, likewise.
pub(crate) const APPROVAL_PREFIX: &str = "waits for a person: ";
pub const NOT_APPROVED: &str = "not approved yet";

impl RequirementStage {
    /// Why a gate of a later stage does not run yet.
    pub fn wait_reason(self) -> PendingReason {
        PendingReason::comes_after(format_args!("{} has passed", self.name()))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequirementStatus {
    Met(EvidenceKind),
    Unmet(RequirementFailure),
    /// Neither met nor unmet: its gate or file could not be run or read.
    Unknown(String),
    /// Not evaluated yet. This is not an error.
    Pending(PendingReason),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PendingReason {
    /// Its gate is still running. A run is never `stuck` meanwhile.
    Running(String),
    /// It is evaluated once earlier requirements are met.
    NotReached(String),
    /// The work is done, and a person has to approve it. The agent can do nothing about it.
    AwaitsPerson(String),
}

/// Why a requirement has no result yet, as a report keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PendingKind {
    Running,
    /// Earlier requirements come first.
    NotReached,
    AwaitsPerson,
}

impl PendingKind {
    /// From the text of a report by an older version.
    pub fn of_note(note: &str) -> Self {
        if note.starts_with(APPROVAL_PREFIX) {
            Self::AwaitsPerson
        } else if note.starts_with(WAITS_PREFIX) {
            Self::NotReached
        } else {
            Self::Running
        }
    }
}

/// The evidence that a requirement is met. A claim never makes a run `verified`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvidenceKind {
    /// Ralph measured it.
    Measured,
    /// The agent or a file claims it.
    Claimed,
    /// Claimed, while every required gate passes and the policy accepts that (`[verify] claims = "with_gates"`).
    Backed,
    /// A judge said so. That is an opinion: it never makes a run `verified` by itself, unless the policy counts it.
    Judged,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequirementFailure {
    /// One line of our own: `phase "implementation" is not complete`. May contain quoted foreign text.
    pub summary: String,
    /// The first findings.
    pub findings: Vec<Finding>,
    /// How many findings are not in `findings`.
    pub unlisted: usize,
    /// Foreign text worth showing in full (the steps of a feature). Fenced wherever it is shown.
    pub quote: Option<QuotedText>,
    /// Path of the full log. The agent can read it.
    pub log: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotedText {
    pub label: String,
    pub text: String,
}

/// One problem reported by a tool, in the tool's wording. Foreign text: cleaned, redacted and fenced wherever it is
/// shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<FindingLocation>,
    /// The tool's name for it: `E0308`, `no-unused-vars`, `tests::nested_quotes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    pub message: String,
    #[serde(default)]
    pub severity: FindingSeverity,
    #[serde(default)]
    pub since: FindingAge,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FindingLocation {
    /// Relative to the project if possible.
    pub file: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<u32>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingSeverity {
    #[default]
    Error,
    Warning,
    Note,
}

/// Whether a finding existed at the base of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingAge {
    /// The base was not checked, or its gate gave no result there.
    #[default]
    Unknown,
    /// The base does not have it.
    New,
    /// The base has it too.
    PreExisting,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequirementWeight {
    Required,
    /// Reported, but it never holds the agent.
    Advisory,
}

impl Requirement {
    pub fn is_required(&self) -> bool {
        self.weight == RequirementWeight::Required
    }

    pub fn is_unmet(&self) -> bool {
        matches!(self.status, RequirementStatus::Unmet(_))
    }

    pub fn is_unknown(&self) -> bool {
        matches!(self.status, RequirementStatus::Unknown(_))
    }

    pub fn is_pending(&self) -> bool {
        matches!(self.status, RequirementStatus::Pending(_))
    }

    pub fn is_running(&self) -> bool {
        matches!(self.status, RequirementStatus::Pending(PendingReason::Running(_)))
    }

    /// Whether it is evaluated once earlier requirements are met.
    pub fn comes_later(&self) -> bool {
        matches!(self.status, RequirementStatus::Pending(PendingReason::NotReached(_)))
    }

    /// Whether only a person's approval is missing.
    pub fn awaits_person(&self) -> bool {
        matches!(self.status, RequirementStatus::Pending(PendingReason::AwaitsPerson(_)))
    }

    /// Whether it keeps the run from ending: required and not met.
    pub fn is_open(&self) -> bool {
        self.is_required() && !matches!(self.status, RequirementStatus::Met(_))
    }
}

impl Finding {
    pub fn new(message: String) -> Self {
        Self {
            place: None,
            rule: None,
            message,
            severity: FindingSeverity::default(),
            since: FindingAge::default(),
        }
    }
}

impl PendingReason {
    /// It is evaluated once `what` is done: `the fast gates`
    pub fn comes_after(what: impl Display) -> Self {
        Self::NotReached(format!("{WAITS_PREFIX}{what}"))
    }

    /// A person has to approve the finished work.
    pub fn awaits_approval() -> Self {
        Self::AwaitsPerson(format!("{APPROVAL_PREFIX}{NOT_APPROVED}"))
    }

    pub fn kind(&self) -> PendingKind {
        match self {
            Self::Running(_) => PendingKind::Running,
            Self::NotReached(_) => PendingKind::NotReached,
            Self::AwaitsPerson(_) => PendingKind::AwaitsPerson,
        }
    }

    pub fn why(&self) -> &str {
        match self {
            Self::Running(why) | Self::NotReached(why) | Self::AwaitsPerson(why) => why,
        }
    }
}

impl RequirementFailure {
    pub fn new(summary: String) -> Self {
        Self { summary, ..Self::default() }
    }
}

impl RequirementStage {
    /// The stages that gates can have, in the order they run.
    pub const GATE_STAGES: [Self; 5] =
        [Self::Correctness, Self::Quality, Self::Security, Self::Adversarial, Self::Ci];

    pub fn name(self) -> &'static str {
        match self {
            Self::Planning => "planning",
            Self::Correctness => "correctness",
            Self::Quality => "quality",
            Self::Security => "security",
            Self::Adversarial | Self::Judged(_) => "adversarial",
            Self::Ci => "ci",
        }
    }

    pub fn judge_kind(self) -> Option<JudgeKind> {
        match self {
            Self::Judged(kind) => Some(kind),
            Self::Planning
            | Self::Correctness
            | Self::Quality
            | Self::Security
            | Self::Adversarial
            | Self::Ci => None,
        }
    }

    /// What people and agents read after the name of a requirement: `correctness`, `judge, goal`.
    pub fn label(self) -> String {
        stage_label(self.name(), self.judge_kind())
    }
}

/// [`RequirementStage::label`] for a stage as a report stores it.
pub fn stage_label(stage: &str, judge: Option<JudgeKind>) -> String {
    match judge {
        Some(kind) => format!("judge, {}", kind.name()),
        None => stage.to_string(),
    }
}
