//! The one thing a decision looks at. Gates, features, tasks, checklists and orchestrator files all become
//! requirements before anything is decided.

use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// Stable over the life of a run, unique in it: `feature 4`, `orchestrator`, `uncommitted changes`.
    pub name: String,
    pub stage: Stage,
    pub standing: Standing,
    pub weight: Weight,
    /// The one sentence that tells the agent what to do about it, imperative, from a template of ours.
    pub next: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    Planning,
    Correctness,
    Quality,
    Security,
    Adversarial,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    Met(Evidence),
    Unmet(Failure),
    /// Not yes and not no: what would tell could not be read or run.
    Unknown(String),
    /// Not looked at yet, and nobody's fault.
    Pending(Pending),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pending {
    /// What would tell is at work. Nobody is stuck while it is.
    Running(String),
    /// Its turn comes when what goes before it is met.
    NotReached(String),
}

/// How a requirement came to be met. A claim never makes a run `verified`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// Ralph looked for itself.
    Measured,
    /// Somebody wrote it down.
    Claimed,
    /// Somebody wrote it down, every required gate passes, and the policy is content with that.
    Backed,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failure {
    /// One line, in our words: `phase "implementation" is not complete`. May hold quoted foreign text.
    pub summary: String,
    /// The first of them.
    pub findings: Vec<Finding>,
    /// How many more there are than are listed.
    pub unlisted: usize,
    /// Foreign text worth showing whole (the steps of a feature). Fenced wherever it is shown.
    pub quote: Option<Quote>,
    /// Where all of it can be read, by the agent too.
    pub log: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quote {
    pub label: String,
    pub text: String,
}

/// One thing that a tool found, in its own words. Foreign text: cleaned, redacted and fenced wherever it is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// The tool's name for it: `E0308`, `no-unused-vars`, `tests::nested_quotes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    pub message: String,
    #[serde(default)]
    pub severity: Severity,
    #[serde(default)]
    pub since: Since,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Relative to the project where the tool allows.
    pub file: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<u32>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    #[default]
    Error,
    Warning,
    Note,
}

/// Whether the run brought a finding, or found it there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Since {
    /// Nobody looked, or the look at the base told nothing.
    #[default]
    Unknown,
    /// It is not there at the base of the run.
    New,
    /// The base has it too.
    PreExisting,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Weight {
    Required,
    /// Told, never held for.
    Advisory,
}

impl Requirement {
    pub fn is_required(&self) -> bool {
        self.weight == Weight::Required
    }

    pub fn is_unmet(&self) -> bool {
        matches!(self.standing, Standing::Unmet(_))
    }

    pub fn is_unknown(&self) -> bool {
        matches!(self.standing, Standing::Unknown(_))
    }

    pub fn is_pending(&self) -> bool {
        matches!(self.standing, Standing::Pending(_))
    }

    pub fn is_running(&self) -> bool {
        matches!(self.standing, Standing::Pending(Pending::Running(_)))
    }

    /// Whether it stands in the way of an end.
    pub fn is_open(&self) -> bool {
        self.is_required() && !matches!(self.standing, Standing::Met(_))
    }
}

impl Finding {
    pub fn new(message: String) -> Self {
        Self {
            place: None,
            rule: None,
            message,
            severity: Severity::default(),
            since: Since::default(),
        }
    }
}

impl Pending {
    pub fn why(&self) -> &str {
        match self {
            Self::Running(why) | Self::NotReached(why) => why,
        }
    }
}

impl Failure {
    pub fn new(summary: String) -> Self {
        Self { summary, ..Self::default() }
    }
}

impl Stage {
    /// In the order in which gates run.
    pub const OF_GATES: [Self; 4] =
        [Self::Correctness, Self::Quality, Self::Security, Self::Adversarial];

    pub fn name(self) -> &'static str {
        match self {
            Self::Planning => "planning",
            Self::Correctness => "correctness",
            Self::Quality => "quality",
            Self::Security => "security",
            Self::Adversarial => "adversarial",
        }
    }
}
