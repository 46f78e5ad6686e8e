//! What happened, for whoever watches: a terminal, or a program that reads one JSON object per line.
//!
//! Text in it that an agent, a tool or a file said is foreign: cleaned and redacted before it is told, bounded, and
//! still nothing that a terminal or a shell may interpret.

use ralph_core::drive::{How, Remedy};
use ralph_core::id::{RunId, SessionId};
use ralph_core::record::Known;
use ralph_core::status::Status;
use serde::Serialize;
use std::path::PathBuf;

/// Told in the order in which it happened.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Told {
    /// The run is there, and nothing has been started yet.
    Prepared {
        run: RunId,
        title: String,
        project: PathBuf,
        gates: Vec<String>,
        notes: Vec<String>,
    },
    /// An agent was started.
    Session {
        session: SessionId,
        how: How,
        number: u32,
        model: Option<String>,
        argv: Vec<String>,
    },
    /// The agent said something.
    Said {
        by: Speaker,
        text: String,
    },
    /// The agent uses a tool; `what` is one line: a command, a path.
    Tool {
        by: Speaker,
        name: String,
        what: String,
    },
    /// A tool failed.
    ToolFailed {
        by: Speaker,
        text: String,
    },
    /// A gate is at work.
    GateStarted {
        name: String,
    },
    GateEnded {
        name: String,
        outcome: String,
        took_ms: u64,
    },
    /// The agent wanted to stop and was held.
    Held {
        iteration: u32,
        most: Option<u32>,
        open: u32,
        because: String,
        reason: String,
        /// The first of what is not met, as the decision saw it.
        missing: Vec<Missing>,
    },
    /// The agent may stop.
    LetGo {
        rule: String,
        because: String,
    },
    /// A fresh session goes on.
    HandedOver {
        why: String,
        permille: Option<u16>,
        handoff: PathBuf,
    },
    /// Something other than the work ended the turn.
    Trouble {
        class: String,
        text: String,
    },
    /// Nothing is done until then; told again every second while it lasts.
    Waiting {
        why: String,
        until_ms: u64,
        attempt: u32,
    },
    Woke,
    /// Nothing was heard of the agent for this long, and this is done about it.
    Silent {
        after_ms: u64,
        done: ralph_core::drive::Silence,
    },
    Tried {
        remedy: Remedy,
        why: String,
    },
    /// The agent asks a person.
    Question {
        text: String,
        until_ms: u64,
    },
    /// Where the run stands: told whenever it changed.
    Standing(Standing),
    Note {
        text: String,
    },
    /// The last thing that is told.
    Ended(Box<Report>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Speaker {
    Agent,
    Subagent,
}

/// What a status bar shows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Standing {
    pub iteration: u32,
    pub max_iterations: Option<u32>,
    pub context_permille: Option<u16>,
    pub spent_micro_usd: u64,
    pub max_cost_micro_usd: Option<u64>,
    pub tokens: u64,
    pub max_tokens: Option<u64>,
    pub elapsed_ms: u64,
    pub max_duration_ms: Option<u64>,
    pub sessions: u32,
    /// What is not met, when it was last looked at.
    pub open: Option<u32>,
    pub total: Option<u32>,
}

/// How it ended.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    pub run: RunId,
    pub title: String,
    pub status: Status,
    pub because: String,
    pub standing: Standing,
    /// What was open at the last look.
    pub open: Vec<Open>,
    pub met: Vec<String>,
    /// Files that differ from the start of the run, as far as git tells.
    pub files: Vec<String>,
    /// `abbreviated id, subject`, oldest first.
    pub commits: Vec<String>,
    /// The commit that the work is exactly the tree of; `None` while something is not committed.
    pub commit: Option<String>,
    /// How many paths differ from the last commit; `None` where git cannot tell.
    pub uncommitted: Option<usize>,
    /// The last state of the work, as `ralph checkpoint` names it.
    pub checkpoint: Option<String>,
    /// What to type next, if anything.
    pub next: Option<String>,
    /// What became of a work tree of its own, or of the pull request.
    pub settled: Option<String>,
    /// Where the work is that did not land, and what to type.
    pub unmerged: Option<String>,
    /// What of the money nobody billed: the worst was taken.
    pub assumed_micro_usd: u64,
    /// Tool calls that were not permitted since this runner began.
    pub denied: Vec<Denied>,
    pub sessions: Vec<SessionId>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Missing {
    pub name: String,
    pub standing: Known,
    pub note: String,
    /// The first of what was found.
    pub first: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Denied {
    pub tool: String,
    pub count: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Open {
    pub name: String,
    pub note: String,
}

/// Whoever watches.
pub trait Watcher {
    fn tell(&mut self, told: &Told);

    /// Called several times a second: a countdown goes on, and a person may have pressed something.
    fn tick(&mut self) {}
}

impl<F: FnMut(&Told)> Watcher for F {
    fn tell(&mut self, told: &Told) {
        self(told);
    }
}
