//! The settings of a runner, and the events it records in the journal. Only driven runs have them.
//!
//! A runner starts the agent itself and records what a hook cannot observe: the sessions, their cost, the waits, and
//! the remedies that were tried.

use crate::host_name::HostName;
use crate::id::SessionId;
use crate::status::RunStatus;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

const MINUTE_MS: u64 = 60 * 1000;

/// How a run is driven. Stored when the run starts, so that it can be resumed without repeating any flags.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriveSettings {
    /// The host of the agents that the run starts.
    pub agent: HostName,
    pub sessions: SessionPolicy,
    /// `None` leaves the choice to the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The model of the last remedy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stronger_model: Option<String>,
    /// The session that the first one is forked from. It is not changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<SessionId>,
    /// Arguments that a person added to the agent's command line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
    /// After this long without an event the agent is nudged, and after the same time again restarted.
    pub idle_ms: u64,
    /// How long to wait for a person's answer to a question.
    pub question_ms: u64,
    pub waits: WaitLimits,
    /// The assumed cost of a turn before any was metered.
    pub worst_turn_micro_usd: u64,
    /// The budget of all runs of a day together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub day_micro_usd: Option<u64>,
    /// The project's commit when the run began; `None` if there was none or git failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
    /// The run's own work tree; `None` if it works in the project itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<RunWorktree>,
}

/// When a fresh session takes over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SessionPolicy {
    /// When the context is nearly full.
    #[default]
    Hybrid,
    /// Never: the agent's client compacts the conversation.
    SameSession,
    /// When the context is nearly full, and whenever another requirement is met.
    FreshPerFeature,
}

/// How long a runner waits for rate limits to reset and for the network to recover.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitLimits {
    /// Maximum total wait for rate limits; 0 disables waiting.
    pub limit_ms: u64,
    /// How many rate limits are waited out.
    pub resumes: u32,
    /// Maximum random delay after a reset.
    pub jitter_ms: u64,
    /// Maximum total wait for network and server errors.
    pub errors_ms: u64,
    /// Quiet hours, in which a run does not continue after a reset: start and end in minutes since local midnight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quiet: Option<(u16, u16)>,
    /// The share of a new rate-limit window that may be used before the run is parked, in thousandths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_permille: Option<u16>,
}

/// The run's own work tree and branch, and where its work lands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunWorktree {
    pub path: String,
    pub branch: String,
    /// The repository it was created from.
    pub from: String,
    /// The branch to merge into; `None` if `HEAD` was detached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub into: Option<String>,
    /// The commit it started from.
    pub base: String,
    pub then: LandingMode,
    /// How long to wait for the required checks of a pull request; `None` does not wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checks_ms: Option<u64>,
    /// Whether the pull request is opened as a draft.
    #[serde(default, skip_serializing_if = "crate::serde_skip::is_false")]
    pub draft: bool,
}

/// How verified work in the run's own work tree lands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LandingMode {
    /// It is merged once the merged tree is verified.
    #[default]
    Merge,
    /// A pull request is opened; nothing is merged.
    PullRequest,
}

/// Something a runner did, recorded in the journal. Variant names are part of the disk format.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunnerEvent {
    /// An agent was started.
    Session(RunnerSession),
    /// The cost of a session so far, from the host's records.
    Metered(MeterReading),
    /// The work is handed over to a fresh session.
    HandsOver {
        why: String,
        /// How full the context was, in thousandths.
        permille: Option<u16>,
    },
    Waits(PlannedWait),
    /// The agent asked a person something. Without an answer by then the run is parked.
    AsksPerson {
        question: String,
        until_ms: u64,
    },
    /// The wait ended, and the agent was resumed.
    Woke,
    /// The agent declared too many waits, so its requirements are evaluated instead.
    WaitedEnough {
        why: String,
    },
    /// A remedy was tried because the run made no progress.
    Tried {
        remedy: Remedy,
        why: String,
    },
    /// The agent sent no event for too long.
    Silent {
        after_ms: u64,
        done: SilenceResponse,
    },
    /// The agent's process ended unexpectedly.
    Broke {
        how: String,
    },
    /// The runner gave up. The run is paused and shown with this status until a person resumes it.
    Parked {
        status: RunStatus,
        why: String,
    },
    /// The work tree was merged, kept or removed.
    Settled {
        how: String,
    },
    /// From now on a proof compares with this commit of the target branch; with the base of the run if `None`.
    ProofBase {
        commit: Option<String>,
    },
    /// The person's messages were passed on to the agent.
    PassedOn,
    /// A person allowed waiting for rate limits, up to this total.
    Granted {
        limit_ms: u64,
    },
}

/// One session that the runner started, resumed or forked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunnerSession {
    pub id: SessionId,
    pub how: SessionOrigin,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The whole command line, redacted.
    pub argv: Vec<String>,
    /// Its environment: `NAME=value`, redacted, for variables that concern agents, and only the name for all others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// The marker that every process started by the agent inherits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionOrigin {
    Fresh,
    Resumed,
    Forked,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeterReading {
    pub session: SessionId,
    pub source: CostSource,
    /// The session's total so far, not the difference to the previous reading.
    pub micro_usd: u64,
    pub tokens: u64,
    /// Turns of this session so far.
    pub turns: u32,
    /// Whether the host reported the cost or the worst case is assumed.
    #[serde(default, skip_serializing_if = "MeterBasis::is_told")]
    pub meter: MeterBasis,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CostSource {
    /// The agent and its subagents.
    Agent,
    /// A gate that calls a model.
    Gate,
    /// A judge of the policy.
    Judge,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MeterBasis {
    #[default]
    Told,
    Assumed,
}

impl MeterBasis {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires this signature")]
    fn is_told(&self) -> bool {
        *self == Self::Told
    }
}

/// A wait and its end. Recorded before the wait begins, so that it survives a reboot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedWait {
    pub cause: WaitCause,
    pub since_ms: u64,
    pub until_ms: u64,
    /// How many waits there were in a row.
    pub attempt: u32,
    pub why: String,
    /// The provider's name of the rate-limit window that was used up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitCause {
    /// The provider announced when it resets.
    RateLimit,
    Overload,
    Network,
    Server,
    /// The agent declared it with `ralph wait`.
    Declared,
}

/// What is tried, in this order, when a run makes no progress. Before any of them, the reason only reports the lack of
/// progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Remedy {
    /// The agent is asked for another approach.
    Approach,
    /// A fresh session, which starts with a summary of what failed.
    FreshSession,
    StrongerModel,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SilenceResponse {
    Nudged,
    Restarted,
}

impl DriveSettings {
    /// The commit that the work started from.
    pub fn base(&self) -> Option<&str> {
        let apart = self.worktree.as_ref().map(|worktree| worktree.base.as_str());
        apart.or(self.head.as_deref())
    }

    pub const DEFAULT: Self = Self {
        agent: HostName::DEFAULT,
        sessions: SessionPolicy::Hybrid,
        model: None,
        stronger_model: None,
        from: None,
        arguments: Vec::new(),
        idle_ms: 10 * MINUTE_MS,
        question_ms: 30 * MINUTE_MS,
        waits: WaitLimits {
            limit_ms: 0,
            resumes: 3,
            jitter_ms: 5 * MINUTE_MS,
            errors_ms: 60 * MINUTE_MS,
            quiet: None,
            share_permille: None,
        },
        worst_turn_micro_usd: 1_000_000,
        day_micro_usd: None,
        head: None,
        worktree: None,
    };
}

/// A searchable line about an event; `None` if it is not worth finding later.
pub fn describe_event(drove: &RunnerEvent) -> Option<String> {
    match drove {
        RunnerEvent::HandsOver { why, .. } => Some(format!("handed over: {why}")),
        RunnerEvent::Tried { remedy, why } => Some(format!("tried {}: {why}", remedy.name())),
        RunnerEvent::Broke { how } => Some(format!("the agent ended unexpectedly: {how}")),
        RunnerEvent::Parked { why, .. } => Some(format!("parked: {why}")),
        RunnerEvent::Settled { how } => Some(how.clone()),
        RunnerEvent::AsksPerson { question, .. } => Some(format!("asked a person: {question}")),
        RunnerEvent::Session(_)
        | RunnerEvent::Metered(_)
        | RunnerEvent::Waits(_)
        | RunnerEvent::Woke
        | RunnerEvent::WaitedEnough { .. }
        | RunnerEvent::ProofBase { .. }
        | RunnerEvent::PassedOn
        | RunnerEvent::Granted { .. }
        | RunnerEvent::Silent { .. } => None,
    }
}

impl Remedy {
    pub fn name(self) -> &'static str {
        match self {
            Self::Approach => "another approach",
            Self::FreshSession => "a fresh session",
            Self::StrongerModel => "a stronger model",
        }
    }
}

impl WaitCause {
    pub fn name(self) -> &'static str {
        match self {
            Self::RateLimit => "rate limit",
            Self::Overload => "overload",
            Self::Network => "network",
            Self::Server => "server error",
            Self::Declared => "declared wait",
        }
    }
}
