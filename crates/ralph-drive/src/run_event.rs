//! Events of a driven run, for a terminal or for a program that reads one JSON object per line.
//!
//! Text that comes from an agent, a tool or a file is foreign. It is cleaned, redacted and bounded before it gets into
//! an event, but must still never be interpreted by a terminal or a shell.

use ralph_core::drive::{Remedy, SessionOrigin};
use ralph_core::host_name::HostName;
use ralph_core::id::{RunId, SessionId};
use ralph_core::limits::{LimitUsage, RunLimits};
use ralph_core::proof::ProofStep;
use ralph_core::record::ReportedStatus;
use ralph_core::requirement_tally::RequirementTally;
use ralph_core::status::RunStatus;
use serde::Serialize;
use std::path::PathBuf;

/// One event of a driven run, emitted in the order in which the events happen.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum RunEvent {
    /// The run is loaded; no agent has been started yet.
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
        how: SessionOrigin,
        number: u32,
        model: Option<String>,
        argv: Vec<String>,
    },
    /// The agent or a subagent wrote text.
    Said {
        by: EventSpeaker,
        text: String,
    },
    /// The agent calls a tool; `what` is a one-line summary such as a command or a path.
    Tool {
        by: EventSpeaker,
        name: String,
        what: String,
    },
    /// A tool failed.
    ToolFailed {
        by: EventSpeaker,
        text: String,
    },
    /// A gate has started.
    GateStarted {
        name: String,
        /// How long it took the last time, if that is known.
        #[serde(skip_serializing_if = "Option::is_none")]
        expected_ms: Option<u64>,
    },
    GateEnded {
        name: String,
        outcome: String,
        took_ms: u64,
    },
    /// A judge that runs is asked the next question, or waits for its service.
    JudgeStep {
        name: String,
        step: String,
    },
    /// A step of the proof started, or more of its tests ended.
    ProofProgress {
        step: ProofStep,
        done: Option<usize>,
        of: Option<usize>,
    },
    /// The agent tried to stop and was held.
    Held {
        iteration: u32,
        most: Option<u32>,
        open: u32,
        because: String,
        reason: String,
        /// The first unmet requirements, as the decision saw them.
        missing: Vec<MissingRequirement>,
    },
    /// The agent was allowed to stop.
    LetGo {
        rule: String,
        because: String,
    },
    /// A fresh session takes over.
    HandedOver {
        why: String,
        permille: Option<u16>,
        handover: PathBuf,
    },
    /// Something other than the work ended the turn.
    Trouble {
        class: String,
        text: String,
    },
    /// The runner waits until then. Emitted again every second while the wait lasts.
    Waiting {
        why: String,
        until_ms: u64,
        attempt: u32,
    },
    Woke,
    /// The agent sent nothing for this long; `done` is the runner's reaction.
    Silent {
        after_ms: u64,
        done: ralph_core::drive::SilenceResponse,
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
    /// Current counters and limits, emitted whenever they change.
    Standing(RunProgress),
    Note {
        text: String,
    },
    /// Always the last event.
    Ended(Box<DriveReport>),
}

/// Whether an event comes from the agent itself or from a subagent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EventSpeaker {
    Agent,
    Subagent,
}

/// Counters and limits of a run, as a status bar shows them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RunProgress {
    pub limits: RunLimits,
    pub usage: LimitUsage,
    pub context_permille: Option<u16>,
    pub sessions: u32,
    /// Unmet requirements at the last verification.
    pub open: Option<u32>,
    pub total: Option<u32>,
    /// The same verification, by state.
    #[serde(skip)]
    pub tally: Option<RequirementTally>,
}

/// The final report of a driven run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DriveReport {
    pub run: RunId,
    pub title: String,
    pub status: RunStatus,
    pub because: String,
    pub standing: RunProgress,
    /// Requirements that were unmet at the last verification.
    pub open: Vec<OpenRequirement>,
    pub met: Vec<String>,
    /// The failures of the base that a ratchet accepts: `1 old failure remains: test_round`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old_failures: Option<String>,
    /// Files that differ from the start of the run, according to git.
    pub files: Vec<String>,
    /// `abbreviated id, subject`, oldest first.
    pub commits: Vec<String>,
    /// The commit whose tree is exactly the work; `None` if anything is uncommitted.
    pub commit: Option<String>,
    /// Number of paths that differ from the last commit; `None` if git does not know.
    pub uncommitted: Option<usize>,
    /// The last checkpoint, as `ralph checkpoint` names it.
    pub checkpoint: Option<String>,
    /// The next command to type, if any.
    pub next: Option<String>,
    /// How the run's own work tree or pull request was settled.
    pub settled: Option<String>,
    /// Where unmerged work is, and the commands to get at it.
    pub unmerged: Option<String>,
    /// The part of the cost that the client never billed; the worst case was assumed for it.
    pub assumed_micro_usd: u64,
    #[serde(skip)]
    pub agent: HostName,
    /// Tool calls that were denied since this runner started.
    pub denied: Vec<DeniedTool>,
    pub sessions: Vec<SessionId>,
}

/// An unmet requirement at a held stop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MissingRequirement {
    pub name: String,
    pub standing: ReportedStatus,
    pub note: String,
    /// The first finding.
    pub first: Option<String>,
}

/// A tool whose calls were denied, and how many.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeniedTool {
    pub tool: String,
    pub count: u32,
}

/// An unmet requirement in the final report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OpenRequirement {
    pub name: String,
    pub note: String,
}

/// Receives the events of a run.
pub trait RunWatcher {
    fn on_event(&mut self, event: &RunEvent);

    /// Called several times a second, to update a countdown or to read keys.
    fn tick(&mut self) {}
}

impl<F: FnMut(&RunEvent)> RunWatcher for F {
    fn on_event(&mut self, event: &RunEvent) {
        self(event);
    }
}
