//! What a runner is told to do, and what it has done: the part of a run that only a driven one has.
//!
//! A runner starts the agent itself. It answers for what a hook cannot see: which sessions there were, what they cost,
//! what is waited for, and what was tried when nothing moved.

use crate::id::SessionId;
use crate::status::Status;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

const MINUTE: u64 = 60 * 1000;

/// How a run is driven, sealed when it starts: whoever goes on with it after a crash needs no flags.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    pub agent: Agent,
    pub sessions: Sessions,
    /// `None` is the agent's own choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Tried when nothing else moved the work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stronger_model: Option<String>,
    /// The session that the first one is a copy of; the copy goes on, and it stays as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<SessionId>,
    /// What a person added to the agent's command line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
    /// Without an event for this long the agent is asked whether it is there, and after as long again restarted.
    pub idle_ms: u64,
    /// How long a question to a person may stay open.
    pub question_ms: u64,
    pub waits: Waits,
    /// What a turn is taken to cost before any was seen.
    pub worst_turn_micro_usd: u64,
    /// For all runs of a day together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub day_micro_usd: Option<u64>,
    /// The commit that the project was at when the run began; `None` before the first one, or where git cannot tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
    /// Where the work is done, when that is not the project itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<Worktree>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Agent {
    #[default]
    Claude,
}

/// When a fresh session takes over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sessions {
    /// When the context is nearly full.
    #[default]
    Hybrid,
    /// Never: the agent's client sums up what it has to.
    SameSession,
    /// Also when something of the contract was just met.
    FreshPerFeature,
}

/// How long a runner waits for better weather.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waits {
    /// For a limit to be lifted, all waits together; 0 is not at all.
    pub limit_ms: u64,
    /// How many limits are waited for.
    pub resumes: u32,
    /// Between the reset and the next word, at most.
    pub jitter_ms: u64,
    /// For errors of the network and the server, all waits together.
    pub errors_ms: u64,
    /// Hours of the day in which no limit that was lifted is used, as minutes since midnight of the person's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quiet: Option<(u16, u16)>,
    /// How much of the new window may be used before the run is parked, in thousandths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_permille: Option<u16>,
}

/// A work tree of the run's own, and the branch that it is to end in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Worktree {
    pub path: String,
    pub branch: String,
    /// The repository that it was made from.
    pub from: String,
    /// The branch that it goes back to; `None` where `HEAD` was on none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub into: Option<String>,
    /// The commit that it began at.
    pub base: String,
    pub then: Then,
    /// How long the checks of a pull request may take that have to pass; `None` when nobody waits for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checks_ms: Option<u64>,
}

/// What becomes of verified work in a work tree of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Then {
    /// It is merged, once the merged tree is verified.
    #[default]
    Merge,
    /// A pull request is opened, and nothing is merged.
    PullRequest,
}

/// What a runner did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Drove {
    /// An agent was started.
    Session(Session),
    /// What a session has cost so far, from the host's own records.
    Metered(Metered),
    /// A fresh session is to go on.
    HandsOver {
        why: String,
        permille: Option<u16>,
    },
    Waits(Wait),
    /// The wait is over, and the agent was told to go on, once.
    Woke,
    /// The agent declared one wait too many: its work is looked at instead.
    WaitedEnough {
        why: String,
    },
    /// Something was tried because nothing moved.
    Tried {
        remedy: Remedy,
        why: String,
    },
    /// Nothing was heard of the agent.
    Silent {
        after_ms: u64,
        done: Silence,
    },
    /// The agent's process ended in a way that is no end of the work.
    Broke {
        how: String,
    },
    /// Nobody drives it until a person goes on with it. What it is shown as.
    Parked {
        status: Status,
        why: String,
    },
    /// What became of the work tree.
    Settled {
        how: String,
    },
    /// The agent was told what a person had said.
    PassedOn,
    /// A person lets it wait for limits from now on, all waits together no longer than this.
    Granted {
        limit_ms: u64,
    },
}

/// One session that the runner started or went on with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    pub id: SessionId,
    pub how: How,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The whole command line, redacted.
    pub argv: Vec<String>,
    /// The variables that it was started with: `NAME=value`, redacted, of what concerns agents, and else the name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// What everybody carries who belongs to the agent's process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    Fresh,
    Resumed,
    Forked,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metered {
    pub session: SessionId,
    pub source: Source,
    /// Of the session up to now, not since the last time.
    pub micro_usd: u64,
    pub tokens: u64,
    /// Turns of this session up to now.
    pub turns: u32,
    /// Whether the host told it, or the worst was taken.
    #[serde(default, skip_serializing_if = "Meter::is_told")]
    pub meter: Meter,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The agent and its subagents.
    Agent,
    /// A gate that asks a model.
    Gate,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Meter {
    #[default]
    Told,
    Assumed,
}

impl Meter {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires this signature")]
    fn is_told(&self) -> bool {
        *self == Self::Told
    }
}

/// What is waited for, and until when. On record before the wait begins, so that a reboot keeps the plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    pub cause: Cause,
    pub since_ms: u64,
    pub until_ms: u64,
    /// How many there were in a row.
    pub attempt: u32,
    pub why: String,
    /// Which of the provider's windows was used up, as it calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The provider lifts it at a time that it told.
    RateLimit,
    Overload,
    Network,
    Server,
    /// The agent said so itself.
    Declared,
}

/// What is tried when nothing moves, in order. Saying so in the reason comes before all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Remedy {
    /// The agent is asked for another way.
    Approach,
    /// A fresh session that knows what failed.
    FreshSession,
    StrongerModel,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Silence {
    Nudged,
    Restarted,
}

impl Settings {
    /// The commit that the work began at.
    pub fn base(&self) -> Option<&str> {
        let apart = self.worktree.as_ref().map(|worktree| worktree.base.as_str());
        apart.or(self.head.as_deref())
    }

    pub const DEFAULT: Self = Self {
        agent: Agent::Claude,
        sessions: Sessions::Hybrid,
        model: None,
        stronger_model: None,
        from: None,
        arguments: Vec::new(),
        idle_ms: 10 * MINUTE,
        question_ms: 30 * MINUTE,
        waits: Waits {
            limit_ms: 0,
            resumes: 3,
            jitter_ms: 5 * MINUTE,
            errors_ms: 60 * MINUTE,
            quiet: None,
            share_permille: None,
        },
        worst_turn_micro_usd: 1_000_000,
        day_micro_usd: None,
        head: None,
        worktree: None,
    };
}

/// What of it is worth finding again.
pub fn remark(drove: &Drove) -> Option<String> {
    match drove {
        Drove::HandsOver { why, .. } => Some(format!("handed over: {why}")),
        Drove::Tried { remedy, why } => Some(format!("tried {}: {why}", remedy.name())),
        Drove::Broke { how } => Some(format!("the agent broke off: {how}")),
        Drove::Parked { why, .. } => Some(format!("parked: {why}")),
        Drove::Settled { how } => Some(how.clone()),
        Drove::Session(_)
        | Drove::Metered(_)
        | Drove::Waits(_)
        | Drove::Woke
        | Drove::WaitedEnough { .. }
        | Drove::PassedOn
        | Drove::Granted { .. }
        | Drove::Silent { .. } => None,
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

impl Cause {
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
