//! What happened, in ralph's words. Hosts are translated into this in [`crate::host`].

use crate::id::SessionId;
use crate::record::Mark;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use serde_json::value::RawValue;

#[derive(Clone, Debug)]
pub enum Event {
    /// The agent wants to stop.
    Stop(Stop),
    /// A subagent of the session wants to stop.
    SubagentStop(SubagentStop),
    /// The turn ended because the host or its API failed; there is nothing to hold.
    StopFailure(StopFailure),
    /// A prompt is about to reach the agent.
    Prompt(Prompt),
    SessionStart(SessionStart),
    SessionEnd(SessionEnd),
    /// The conversation is about to be summed up, or was.
    Compaction(Compaction),
    /// The agent is about to use a tool.
    ToolCall(ToolCall),
    /// A tool was used.
    ToolDone(ToolDone),
    /// A task of the agent's list was made, or is about to be called done.
    Task(Task),
    /// A teammate has nothing left to do, as it thinks.
    Idle(Idle),
    /// An event that the host is known to send and that asks nothing of ralph.
    Noted(Noted),
    /// An event name this version does not know.
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stop {
    /// `None` when the host sent no id, or one that must not become a path.
    pub session: Option<SessionId>,
    pub cwd: Option<String>,
    pub transcript: Option<String>,
    /// The host's id of the prompt being answered.
    pub prompt: Option<String>,
    /// The host's one bit: this turn already goes on because of an earlier block. Never a counter.
    pub continuing: bool,
    pub said: Option<String>,
    /// The turn did not end by the agent's wish, as far as the event itself tells.
    pub trouble: Option<Trouble>,
    /// Background work and scheduled wake-ups that will bring the agent back by itself.
    pub pending: Vec<Pending>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubagentStop {
    pub session: Option<SessionId>,
    pub cwd: Option<String>,
    pub prompt: Option<String>,
    pub agent: Option<String>,
    pub agent_type: Option<String>,
    /// The agent's own, not the session's.
    pub transcript: Option<String>,
    pub continuing: bool,
    pub said: Option<String>,
    /// What it left running that will bring it back; itself, which the host lists too, is not among it.
    pub pending: Vec<Pending>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    pub session: Option<SessionId>,
    pub cwd: Option<String>,
    pub transcript: Option<String>,
    pub id: Option<String>,
    /// As it was typed, slash commands included.
    pub text: String,
    pub moment: PromptMoment,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptMoment {
    Submitted,
    /// A slash command is about to be replaced with its text.
    Expanded,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionStart {
    pub session: Option<SessionId>,
    pub cwd: Option<String>,
    pub transcript: Option<String>,
    pub source: Source,
}

/// Where a session comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    Startup,
    Resume,
    /// The conversation was thrown away; the id is a new one.
    Clear,
    Compact,
    /// A copy of another session under an id of its own.
    Fork,
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionEnd {
    pub session: Option<SessionId>,
    pub transcript: Option<String>,
    pub reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compaction {
    pub session: Option<SessionId>,
    pub moment: CompactionMoment,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompactionMoment {
    Before,
    After { summary: String },
}

#[derive(Clone, Debug)]
pub struct ToolCall {
    pub session: Option<SessionId>,
    pub cwd: Option<String>,
    pub transcript: Option<String>,
    /// The subagent that calls, if one does.
    pub agent: Option<String>,
    pub tool: String,
    pub input: Box<RawValue>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolDone {
    pub session: Option<SessionId>,
    pub tool: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    pub session: Option<SessionId>,
    pub moment: TaskMoment,
    pub id: Option<String>,
    pub subject: Option<String>,
    /// The teammate whose task it is, if it is one's.
    pub teammate: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskMoment {
    Created,
    Completed,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Idle {
    pub session: Option<SessionId>,
    pub teammate: Option<String>,
    pub agent: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StopFailure {
    pub session: Option<SessionId>,
    pub class: Trouble,
    /// A subagent failed (compaction runs in one); the session itself goes on.
    pub agent: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Noted {
    pub session: Option<SessionId>,
    pub name: &'static str,
}

/// What kind of moment is answered: hosts shape the same answer differently at different ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occasion {
    Stop,
    SubagentStop,
    Prompt,
    Expansion,
    SessionStart,
    ToolCall,
    Task,
    Idle,
    /// What is said is taken into account when the conversation is summed up.
    Compaction,
    /// Nothing that is said here changes what the host does.
    Other,
}

impl Event {
    /// Where it happened, if that is told.
    pub fn session(&self) -> Option<&SessionId> {
        match self {
            Self::Stop(stop) => stop.session.as_ref(),
            Self::StopFailure(failure) => failure.session.as_ref(),
            Self::Prompt(prompt) => prompt.session.as_ref(),
            Self::SessionStart(start) => start.session.as_ref(),
            Self::SessionEnd(end) => end.session.as_ref(),
            Self::Compaction(compaction) => compaction.session.as_ref(),
            Self::ToolCall(call) => call.session.as_ref(),
            Self::ToolDone(done) => done.session.as_ref(),
            Self::SubagentStop(stop) => stop.session.as_ref(),
            Self::Task(task) => task.session.as_ref(),
            Self::Idle(idle) => idle.session.as_ref(),
            Self::Noted(noted) => noted.session.as_ref(),
            Self::Unknown => None,
        }
    }

    pub fn occasion(&self) -> Occasion {
        match self {
            Self::Stop(_) => Occasion::Stop,
            Self::SubagentStop(_) => Occasion::SubagentStop,
            Self::Prompt(Prompt { moment: PromptMoment::Submitted, .. }) => Occasion::Prompt,
            Self::Prompt(Prompt { moment: PromptMoment::Expanded, .. }) => Occasion::Expansion,
            Self::SessionStart(_) => Occasion::SessionStart,
            Self::ToolCall(_) => Occasion::ToolCall,
            Self::Task(_) => Occasion::Task,
            Self::Idle(_) => Occasion::Idle,
            Self::Compaction(Compaction { moment: CompactionMoment::Before, .. }) => {
                Occasion::Compaction
            }
            Self::StopFailure(_)
            | Self::SessionEnd(_)
            | Self::Compaction(_)
            | Self::ToolDone(_)
            | Self::Noted(_)
            | Self::Unknown => Occasion::Other,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    pub kind: PendingKind,
    pub what: String,
    /// When it comes due it will look as if a person had typed a command of ralph's.
    pub poses: bool,
}

impl Stop {
    /// The work in the background, as one mark; `None` when there is none.
    pub fn background(&self) -> Option<Mark> {
        let background = |pending: &&Pending| pending.kind == PendingKind::Background;
        let mut names: Vec<&[u8]> =
            self.pending.iter().filter(background).map(|one| one.what.as_bytes()).collect();
        names.sort_unstable();
        (!names.is_empty()).then(|| Mark::of(&names))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PendingKind {
    Background,
    WakeUp,
}

/// Why a turn ended without the agent's wish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    RateLimit,
    Overloaded,
    Authentication,
    Billing,
    ContextFull,
    OutputLimit,
    InvalidRequest,
    Server,
    Interrupted,
    /// A word this version does not know, kept for the journal.
    Unknown(String),
}

impl Trouble {
    pub fn name(&self) -> &str {
        match self {
            Self::RateLimit => "rate_limit",
            Self::Overloaded => "overloaded",
            Self::Authentication => "authentication",
            Self::Billing => "billing",
            Self::ContextFull => "context_full",
            Self::OutputLimit => "output_limit",
            Self::InvalidRequest => "invalid_request",
            Self::Server => "server",
            Self::Interrupted => "interrupted",
            Self::Unknown(word) => word,
        }
    }
}
