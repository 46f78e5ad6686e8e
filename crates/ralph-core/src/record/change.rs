//! What can happen to a run.

use super::{Decided, Part, Process, Restored, Run, is_nowhere};
use crate::drive::Drove;
use crate::id::SessionId;
use crate::limits::Limits;
use crate::source::orchestrator::Condition;
use alloc::boxed::Box;
use alloc::string::String;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    Started(Box<Run>),
    /// The journal was lost or damaged; this is what was known when it began anew.
    Restored(Box<Restored>),
    Decided(Box<Decided>),
    Trouble {
        class: String,
    },
    Paused,
    /// A person interrupted the agent and then said something else. That was seen with the transcript this long.
    Interrupted {
        seen: u64,
    },
    Resumed,
    Cancelled,
    /// The agent says that only a person can decide.
    Asked {
        question: String,
    },
    /// The agent says that it waits for something outside.
    Waits {
        until_ms: u64,
        why: String,
    },
    Moved {
        to: SessionId,
        how: Move,
        /// The host process that it goes on in.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        process: Option<Process>,
        /// How long the transcript was then: an interrupt before that has had its effect.
        #[serde(default, skip_serializing_if = "is_nowhere")]
        seen: u64,
    },
    /// The conversation was summed up, and what the agent was told is gone.
    Compacted,
    /// The agent was told again where it stands.
    Anchored,
    /// A tool call was not let through.
    Denied {
        tool: String,
        what: String,
        /// What was about to be done, shortened.
        call: String,
    },
    /// The host ended a turn that had been held.
    Overridden {
        how: String,
    },
    /// A subagent, teammate or task was looked at. It never moves what the run itself counts.
    Part(Box<Part>),
    /// A person said something that the agent is to know at its next stop.
    Told {
        text: String,
    },
    /// A person does without a requirement for a while.
    Waived(Waiver),
    /// A person takes that back.
    Insisted {
        requirement: String,
    },
    /// The agent says that a requirement is wrong. A person has to look at that.
    Disputed(Dispute),
    /// A person set other limits.
    Limited(Limits),
    /// A step of the orchestrator's way.
    Stepped(Step),
    /// The agent searched what is on record.
    Recalled {
        query: String,
        found: u32,
    },
    /// Something learned was saved, where a search finds it.
    Learned {
        id: String,
        title: String,
    },
    /// What the runner did that drives the agent.
    Drove(Box<Drove>),
}

/// How a run came to be somebody else's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Move {
    /// The same session, opened again.
    Reopened,
    /// A new session in the place of one that was cleared. Nobody is held before a person says so.
    Cleared,
    /// A person took it up in this session.
    TakenUp,
    /// A person resumed it in the session that it is in.
    Resumed,
    /// A runner goes on in a fresh session.
    HandedOver,
}

/// A requirement that is told and not held for, until then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiver {
    /// The requirement's name.
    pub requirement: String,
    pub why: String,
    /// Who answers for it.
    pub by: String,
    pub until_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dispute {
    /// The requirement's name.
    pub requirement: String,
    pub why: String,
}

/// What is said on the way through the orchestrator's phases. What ralph measures is never said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Where the agent says it is.
    Phase(String),
    /// The agent says that a condition of its own holds.
    Claims(Condition),
    /// It no longer does.
    Withdraws(Condition),
    /// How complex the work is said to be, from 1 to 10.
    Classified(u8),
    /// The plan is approved, by whom.
    Approved { by: String },
}
