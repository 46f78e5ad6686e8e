//! What the journal records about subagents, teammates and tasks, together called parts.

use super::{DeliveryId, StopReport};
use alloc::string::String;
use serde::{Deserialize, Serialize};

/// A subagent, teammate or task, with the host's id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartIdentity {
    pub kind: PartKind,
    pub id: String,
    /// One line: a subagent's type, a teammate's name, or a task's subject.
    pub name: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartKind {
    Subagent,
    Teammate,
    Task,
}

/// One decided stop of a part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartRecord {
    pub who: PartIdentity,
    /// Its chunk; `None` if only the gates and checks for this kind of event apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk: Option<String>,
    pub rule: PartRule,
    /// The full reason if it was held, because a second delivery of the same stop must get the same answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why the rule fired, in one line.
    pub because: String,
    /// How often it was held in a row, including this time.
    pub holds: u32,
    pub max_holds: u32,
    pub delivery: DeliveryId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<StopReport>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tampering: Option<String>,
    pub took_ms: u64,
}

/// The row of the table in the module `part_stop` that fired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PartRule {
    /// Its own background work is still running and will wake it.
    Waiting,
    /// None of its requirements applies yet.
    Unmeasured,
    /// No requirement is known to be unmet, but some have no result yet.
    Unknown,
    /// A requirement is not met, but it has reached its hold limit.
    Spent,
    Hold,
    Verified,
}

impl PartRule {
    pub const ALL: [Self; 6] =
        [Self::Waiting, Self::Unmeasured, Self::Unknown, Self::Spent, Self::Hold, Self::Verified];

    pub fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Unmeasured => "unmeasured",
            Self::Unknown => "unknown",
            Self::Spent => "spent",
            Self::Hold => "hold",
            Self::Verified => "verified",
        }
    }

    /// The outcome in words, for people.
    pub fn outcome_label(self) -> &'static str {
        match self {
            Self::Hold => "held",
            Self::Verified => "verified",
            Self::Waiting | Self::Unmeasured | Self::Unknown | Self::Spent => "let go",
        }
    }
}

impl PartKind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Subagent => "subagent",
            Self::Teammate => "teammate",
            Self::Task => "task",
        }
    }
}
