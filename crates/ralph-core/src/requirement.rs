//! The one thing a decision looks at. Gates, features, tasks, checklists and orchestrator files all become
//! requirements before anything is decided.

use alloc::string::String;
use alloc::vec::Vec;

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

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
}

/// How a requirement came to be met. A claim never makes a run `verified`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// Ralph looked for itself.
    Measured,
    /// Somebody wrote it down.
    Claimed,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failure {
    /// One line, in our words: `phase "implementation" is not complete`. May hold quoted foreign text.
    pub summary: String,
    pub findings: Vec<Finding>,
    /// Foreign text worth showing whole (the steps of a feature). Fenced wherever it is shown.
    pub quote: Option<Quote>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quote {
    pub label: String,
    pub text: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub place: Option<Place>,
    pub message: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub file: String,
    pub line: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
}

impl Failure {
    pub fn new(summary: String) -> Self {
        Self { summary, ..Self::default() }
    }
}

impl Stage {
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
