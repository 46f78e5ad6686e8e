//! The changes a journal entry can record. Variant names are part of the disk format.

use super::{PartRecord, ProcessIdentity, RestoredRun, RunRecord, StopRecord};
use crate::approval::PersonApproval;
use crate::drive::RunnerEvent;
use crate::id::SessionId;
use crate::limits::RunLimits;
use crate::serde_skip::is_zero_offset;
use crate::source::orchestrator::OrchestratorCondition;
use crate::status::RunStatus;
use alloc::boxed::Box;
use alloc::string::String;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunChange {
    Started(Box<RunRecord>),
    /// The journal was lost or damaged. A new one starts with what was known.
    Restored(Box<RestoredRun>),
    Decided(Box<StopRecord>),
    Trouble {
        class: String,
    },
    Paused,
    /// A person interrupted the agent and then typed something else.
    Interrupted {
        /// The length of the transcript when this was detected.
        seen: u64,
    },
    Resumed,
    Cancelled,
    /// The agent declared that only a person can decide.
    Asked {
        question: String,
    },
    /// The agent declared that it waits for something external.
    Waits {
        until_ms: u64,
        why: String,
    },
    Moved {
        to: SessionId,
        how: MoveReason,
        /// The host process of the new session.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        process: Option<ProcessIdentity>,
        /// The length of the transcript then. Earlier interrupts have already taken effect.
        #[serde(default, skip_serializing_if = "is_zero_offset")]
        seen: u64,
    },
    /// The conversation was compacted, so earlier reasons are lost to the agent.
    Compacted,
    /// The agent got a reminder.
    Anchored,
    /// A tool call was denied: by ralph, or by the client, which asks for permission.
    Denied {
        tool: String,
        /// What it would have changed, or [`NOT_PERMITTED`](super::NOT_PERMITTED).
        what: String,
        /// The denied call, or the client's reason, shortened.
        call: String,
    },
    /// The host ended a turn although it was held.
    Overridden {
        how: String,
    },
    /// The stop of a subagent, teammate or task was decided. It never changes the run's own counters.
    Part(Box<PartRecord>),
    /// A person sent the agent a message, delivered with the reason of its next stop.
    HintGiven {
        text: String,
        /// Missing in journals of older versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        /// The sequence number of the question that was open. Missing in journals of older versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answers: Option<u64>,
    },
    /// A person waived a requirement for a while.
    Waived(Waiver),
    /// A person revoked a waiver.
    WaiverRevoked {
        requirement: String,
    },
    /// The agent disputed a requirement. A person has to decide.
    Disputed(Dispute),
    /// A person changed the limits.
    Limited(RunLimits),
    /// A step of an orchestrated run.
    Stepped(OrchestratorStep),
    /// The agent searched earlier runs and learnings.
    Recalled {
        query: String,
        found: u32,
    },
    /// A learning was saved.
    Learned {
        id: String,
        title: String,
    },
    /// Something the runner did.
    Drove(Box<RunnerEvent>),
    /// A person approved a chunk or a phase.
    Approved(PersonApproval),
    /// A person accepted the work of a run that had ended without proof.
    Accepted(Acceptance),
}

/// Why a run moved to another session, or to another process of the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MoveReason {
    /// The same session was reopened.
    Reopened,
    /// A new session replaced one that was cleared. The run is paused until a person resumes it.
    Cleared,
    /// A person took the run over in another session.
    TakenUp,
    /// A person resumed it in its own session.
    Resumed,
    /// A runner continues in a fresh session.
    HandedOver,
}

/// A requirement that is reported but does not hold the agent until the waiver expires.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiver {
    /// The requirement's name.
    pub requirement: String,
    pub why: String,
    /// The person who takes responsibility.
    pub by: String,
    pub until_ms: u64,
}

/// A person's decision that the work of a run counts as verified although ralph could not prove it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acceptance {
    /// The person who takes responsibility.
    pub by: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
    pub at_ms: u64,
    /// The status that the run had ended with.
    pub was: RunStatus,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dispute {
    /// The requirement's name.
    pub requirement: String,
    pub why: String,
}

/// A statement about an orchestrated run by the agent or a person. Conditions that ralph measures are not recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrchestratorStep {
    /// The phase the agent reports.
    Phase(String),
    /// The agent claims one of its own conditions.
    Claims(OrchestratorCondition),
    /// The agent withdraws such a claim.
    Withdraws(OrchestratorCondition),
    /// The stated complexity of the work, from 1 to 10.
    Classified(u8),
    /// The plan was approved.
    Approved { by: String },
}
