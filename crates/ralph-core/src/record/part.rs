//! What is remembered of subagents, teammates and tasks.

use super::{Delivered, Report};
use alloc::string::String;
use serde::{Deserialize, Serialize};

/// A subagent, a teammate or a task, as the host calls it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Who {
    pub kind: PartKind,
    pub id: String,
    /// Its type, its name or its subject, in one line.
    pub name: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartKind {
    Subagent,
    Teammate,
    Task,
}

/// What was decided about a part of the work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    pub who: Who,
    /// The chunk it is held to; `None` when gates and checks of the moment are all there is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk: Option<String>,
    pub rule: PartRule,
    /// What it was told, when it was held: a second delivery of the same stop must get the same answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What the rule saw, in one line.
    pub because: String,
    /// How often it was held in a row, this time included.
    pub holds: u32,
    pub max_holds: u32,
    pub delivery: Delivered,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<Report>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tampering: Option<String>,
    pub took_ms: u64,
}

/// The row of the table in [`crate::chunk`] that fired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PartRule {
    /// It left something running that will bring it back.
    Waiting,
    /// Nothing of what is demanded counts yet.
    Unmeasured,
    /// Nothing is known to be missing, and not all could be told.
    Unknown,
    /// It was held as often as it may be.
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

    /// As people say it.
    pub fn outcome(self) -> &'static str {
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
