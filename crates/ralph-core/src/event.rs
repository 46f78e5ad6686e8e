//! Hook events in a host-independent form. The `ralph-host` crate parses each host's payloads into these types.

use crate::digest64::Digest64;
use crate::id::SessionId;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use serde_json::value::RawValue;

#[derive(Clone, Debug)]
pub enum HookEvent {
    /// The agent wants to stop.
    Stop(StopEvent),
    /// A subagent of the session wants to stop.
    SubagentStop(SubagentStopEvent),
    /// The turn ended because the host or its API failed. It cannot be held.
    StopFailure(StopFailureEvent),
    /// A prompt is about to reach the agent.
    Prompt(PromptEvent),
    SessionStart(SessionStartEvent),
    SessionEnd(SessionEndEvent),
    /// The conversation is about to be compacted, or was.
    Compaction(CompactionEvent),
    /// The agent is about to use a tool.
    ToolCall(ToolCallEvent),
    /// A tool call finished.
    ToolDone(ToolDoneEvent),
    /// A task of the agent's list was created, or is about to be completed.
    Task(TaskEvent),
    /// A teammate considers its work done.
    Idle(TeammateIdleEvent),
    /// A known event that ralph does not act on.
    Ignored(IgnoredEvent),
    /// An event name this version does not know.
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StopEvent {
    /// `None` if the host sent no id, or one that is not safe in a path.
    pub session: Option<SessionId>,
    pub cwd: Option<String>,
    pub transcript: Option<String>,
    /// The host's id of the prompt being answered.
    pub prompt: Option<String>,
    /// The host's flag that this turn already continues because of an earlier block. It is not a counter.
    pub continuing: bool,
    /// The agent's last message.
    pub last_message: Option<String>,
    /// Set if the event itself shows that the agent did not end the turn.
    pub trouble: Option<HostTrouble>,
    /// Background work and scheduled wake-ups that will wake the agent again.
    pub pending: Vec<PendingWork>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubagentStopEvent {
    pub session: Option<SessionId>,
    pub cwd: Option<String>,
    pub prompt: Option<String>,
    pub agent: Option<String>,
    pub agent_type: Option<String>,
    /// The subagent's transcript, not the session's.
    pub transcript: Option<String>,
    pub continuing: bool,
    /// The subagent's last message.
    pub last_message: Option<String>,
    /// Background work that will wake it. The host lists the subagent itself too; that entry is removed.
    pub pending: Vec<PendingWork>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptEvent {
    pub session: Option<SessionId>,
    pub cwd: Option<String>,
    pub transcript: Option<String>,
    pub id: Option<String>,
    /// The text as typed, including slash commands.
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
pub struct SessionStartEvent {
    pub session: Option<SessionId>,
    pub cwd: Option<String>,
    pub transcript: Option<String>,
    pub source: SessionStartSource,
}

/// Why a session starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionStartSource {
    Startup,
    Resume,
    /// The conversation was cleared; the session has a new id.
    Clear,
    Compact,
    /// A copy of another session with its own id.
    Fork,
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionEndEvent {
    pub session: Option<SessionId>,
    pub transcript: Option<String>,
    pub reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactionEvent {
    pub session: Option<SessionId>,
    pub moment: CompactionMoment,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompactionMoment {
    Before,
    After { summary: String },
}

#[derive(Clone, Debug)]
pub struct ToolCallEvent {
    pub session: Option<SessionId>,
    pub cwd: Option<String>,
    pub transcript: Option<String>,
    /// The id of the calling subagent; `None` for the main agent.
    pub agent: Option<String>,
    pub tool: String,
    pub input: Box<RawValue>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolDoneEvent {
    pub session: Option<SessionId>,
    pub tool: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskEvent {
    pub session: Option<SessionId>,
    pub moment: TaskMoment,
    pub id: Option<String>,
    pub subject: Option<String>,
    /// The teammate that owns the task, if any.
    pub teammate: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskMoment {
    Created,
    Completed,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TeammateIdleEvent {
    pub session: Option<SessionId>,
    pub teammate: Option<String>,
    pub agent: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StopFailureEvent {
    pub session: Option<SessionId>,
    pub class: HostTrouble,
    /// The subagent that failed, if any (compaction runs in one). The session itself continues.
    pub agent: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IgnoredEvent {
    pub session: Option<SessionId>,
    pub name: &'static str,
}

/// The kind of event that a verdict answers. Hosts encode the same verdict differently for different events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyOccasion {
    Stop,
    SubagentStop,
    Prompt,
    Expansion,
    SessionStart,
    ToolCall,
    Task,
    Idle,
    /// Before a compaction: the output is added to the instructions of the summary.
    Compaction,
    /// The host ignores the output.
    Other,
}

impl HookEvent {
    /// The session the event belongs to, if the host named a valid one.
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
            Self::Ignored(noted) => noted.session.as_ref(),
            Self::Unknown => None,
        }
    }

    pub fn occasion(&self) -> ReplyOccasion {
        match self {
            Self::Stop(_) => ReplyOccasion::Stop,
            Self::SubagentStop(_) => ReplyOccasion::SubagentStop,
            Self::Prompt(PromptEvent { moment: PromptMoment::Submitted, .. }) => {
                ReplyOccasion::Prompt
            }
            Self::Prompt(PromptEvent { moment: PromptMoment::Expanded, .. }) => {
                ReplyOccasion::Expansion
            }
            Self::SessionStart(_) => ReplyOccasion::SessionStart,
            Self::ToolCall(_) => ReplyOccasion::ToolCall,
            Self::Task(_) => ReplyOccasion::Task,
            Self::Idle(_) => ReplyOccasion::Idle,
            Self::Compaction(CompactionEvent { moment: CompactionMoment::Before, .. }) => {
                ReplyOccasion::Compaction
            }
            Self::StopFailure(_)
            | Self::SessionEnd(_)
            | Self::Compaction(_)
            | Self::ToolDone(_)
            | Self::Ignored(_)
            | Self::Unknown => ReplyOccasion::Other,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingWork {
    pub kind: PendingWorkKind,
    pub what: String,
    /// Whether its prompt, when it fires, would look like a ralph command typed by a person.
    pub impersonates_person: bool,
}

impl StopEvent {
    /// Digest of the background work, to detect whether it has changed since the last stop; `None` if there is none.
    pub fn background_digest(&self) -> Option<Digest64> {
        let background = |pending: &&PendingWork| pending.kind == PendingWorkKind::Background;
        let mut names: Vec<&[u8]> =
            self.pending.iter().filter(background).map(|one| one.what.as_bytes()).collect();
        names.sort_unstable();
        (!names.is_empty()).then(|| Digest64::of_parts(&names))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PendingWorkKind {
    Background,
    WakeUp,
}

/// Why a turn ended although the agent did not end it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostTrouble {
    RateLimit,
    Overloaded,
    Authentication,
    Billing,
    ContextFull,
    OutputLimit,
    InvalidRequest,
    Server,
    Interrupted,
    /// A reason this version does not know, kept for the journal.
    Unknown(String),
}

impl HostTrouble {
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
