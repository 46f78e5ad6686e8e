//! What is remembered. These are the only types that reach disk; each carries a version, and a fixture of
//! every version ever written is a test.

mod change;
mod mark;
mod part;

use crate::drive::{Remedy, Settings};
use crate::id::{RunId, SessionId};
use crate::limits::Limits;
use crate::policy::Policy;
use crate::run::State;
use crate::source::checklist::Checklist;
use crate::status::Status;
use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use change::{Change, Dispute, Move, Step, Waiver};
pub use mark::Mark;
pub use part::{Part, PartKind, PartRule, Who};

pub const VERSION: u8 = 1;

/// `run.json`: sealed at the start. The journal's first entry holds the same, so that an edit can be seen
/// and undone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    pub v: u8,
    pub id: RunId,
    /// `None` when the file names nobody, or nobody that could be a session: then it holds nobody.
    #[serde(default, deserialize_with = "lenient_session")]
    pub owner: Option<SessionId>,
    pub started_ms: u64,
    pub project: String,
    pub origin: Origin,
    /// Where counting starts: an adopted loop has used some of its iterations already.
    pub first_iteration: u32,
    pub limits: Limits,
    pub features: Vec<String>,
    pub promise: Option<String>,
    pub checklist: Asked,
    pub goal_bytes: u64,
    /// One cleaned line of the goal, for lists.
    pub title: String,
    pub on_tampering: OnTampering,
    /// The host's id of the prompt that asked for it: a hook that is registered twice starts one run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// How many features each of `features` listed at the start. Runs of today have `lists`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub listed: Vec<u32>,
    /// What feature lists and plans said at the start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lists: Vec<ListSeal>,
    /// Whether the client's own task list has to be done.
    #[serde(default, skip_serializing_if = "Asked::is_no")]
    pub tasks: Asked,
    /// Whether the agent reports phases in `orchestrator.json`, which then has to be there.
    #[serde(default, skip_serializing_if = "Asked::is_no")]
    pub phases: Asked,
    /// How long the transcript was: what it told before that is not about the run.
    #[serde(default, skip_serializing_if = "is_nowhere")]
    pub transcript_length: u64,
    /// The host process that it was asked for in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<Process>,
    /// `None` for a run that no policy judges.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seal: Option<Box<Seal>>,
    /// `None` for a run whose agent a person starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drive: Option<Box<Settings>>,
}

/// A list as it was when the run began. A copy of its items is kept beside the run; this tells whether it is that copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListSeal {
    /// The file.
    pub path: String,
    pub kind: ListKind,
    /// Of all that may not change.
    pub digest: String,
    pub count: u32,
    /// What a person approved of its checks; empty when it has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub approval: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ListKind {
    Features,
    Plan,
}

/// The policy as it was when the run began. Later edits of its file change nothing but this: they are seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seal {
    pub policy: Policy,
    /// Where the policy is: gates run there or below.
    pub project: String,
    /// What a person approved: the policy's file and the scripts it calls. Empty when nothing of it is the
    /// repository's.
    pub hash: String,
    /// `None` when git could not keep it: then what depends on it cannot be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<Base>,
    /// The `PATH` that gates run with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Where each gate's program was found, and which file that was.
    #[serde(default)]
    pub tools: Vec<Tool>,
    /// How complex the work is said to be, from 0 to 10; `None` asks for every gate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub complexity: Option<u8>,
}

/// The work tree before the agent touched it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Base {
    /// The checkpoint's commit.
    pub commit: String,
    /// Content identity, in hexadecimal digits.
    pub identity: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tool {
    pub gate: String,
    pub path: String,
    pub content: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// A person started it.
    Started,
    /// A loop directory was found that nobody had claimed, or `RALPH_LOOP_DIR` named it.
    Adopted,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Asked {
    Yes,
    #[default]
    No,
}

impl Asked {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
    fn is_no(&self) -> bool {
        *self == Self::No
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnTampering {
    /// Hold on, and end in review instead of `verified`.
    Block,
    EndInReview,
}

/// One line of `journal.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    pub v: u8,
    pub seq: u64,
    pub at_ms: u64,
    /// Hash of the line before this one; empty in the first.
    pub prev: String,
    /// Iterations charged once this entry is applied.
    pub iteration: u32,
    /// Hash of the state once this entry is applied: a state that says otherwise was edited.
    #[serde(default)]
    pub after: String,
    pub change: Change,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Restored {
    pub run: Run,
    pub state: State,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decided {
    pub rule: Rule,
    pub outcome: Outcome,
    /// What the rule saw, in one line.
    pub because: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<Mark>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery: Option<Delivered>,
    /// Absent when the stop was settled before any requirement was looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<Report>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<Observed>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<Process>,
    /// What had been changed behind ralph's back, whichever rule fired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tampering: Option<String>,
    /// The work in the background that was under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub background: Option<Mark>,
    /// Blocks since the agent last used a tool, this one included.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub in_a_row: u32,
    /// Lists that did not parse, so that what they said before still counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub garbled: Vec<String>,
    /// What is tried because nothing moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<Remedy>,
    pub took_ms: u64,
}

/// Which stop was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivered {
    pub stop: Mark,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Allowed,
    /// Charged. The reason is kept whole: a second delivery of the same stop must get the same answer.
    Blocked {
        reason: String,
    },
    /// Held until gates that are at work are done. Not charged: the time limit bounds it, and the wait is ours.
    Awaited {
        reason: String,
    },
    /// Charged. The agent may stop, and a fresh session goes on with the work.
    HandedOver,
    /// The answer of the last stop once more, because this is that stop once more. Never charged.
    Repeated,
    Orphaned,
    Ended(Status),
}

/// The row of the decision table that fired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    NotMine,
    Off,
    Repeat,
    HostTrouble,
    OddStop,
    Waiting,
    NeedsHuman,
    Untrusted,
    Verified,
    Claimed,
    Tampered,
    GateBroken,
    Limit,
    Stuck,
    Remedy,
    HandOver,
    FinalLook,
    HoldOnce,
    Block,
}

/// What a stop found, short enough to be kept for ever.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    pub total: u32,
    pub unmet: u32,
    pub unknown: u32,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub pending: u32,
    /// Changes when any unmet or unknown requirement changes.
    pub failures: Mark,
    /// The first of the requirements that are not met, most useful first.
    pub lines: Vec<Line>,
    /// The first names of those that are.
    pub met: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    pub name: String,
    pub stage: String,
    pub standing: Known,
    /// What it was when it was last told, while it is told again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub was: Option<Known>,
    pub note: String,
    /// The first of what was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<String>,
    pub findings: u32,
    pub signature: Mark,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Known {
    Unmet,
    Unknown,
    Pending,
    Advisory,
}

/// What the transcript had told when it was last read, and how far that was.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observed {
    pub inode: u64,
    pub offset: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_micro_usd: Option<u64>,
    /// What the session had cost when the run first looked: spent by others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_cost_micro_usd: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checklist: Option<Checklist>,
    /// How much of what was typed had not reached the agent.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub queued: u32,
}

/// The host process that owns the run. A pid alone is reused; with its start time, in clock ticks since boot, it is
/// not. 0 where the system does not tell; comparable only within one boot and one process namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    pub pid: u32,
    pub started: u64,
}

impl Observed {
    /// How full the context is, in thousandths; `None` when the transcript does not tell.
    pub fn context_permille(&self) -> Option<u16> {
        let permille =
            self.context_tokens?.saturating_mul(1000).checked_div(self.context_window?)?;
        Some(u16::try_from(permille).unwrap_or(u16::MAX))
    }

    /// What the session cost since the run first looked; `None` when the transcript does not tell.
    pub fn spent_micro_usd(&self) -> Option<u64> {
        Some(self.cost_micro_usd?.saturating_sub(self.first_cost_micro_usd?))
    }
}

impl Report {
    /// How many required ones are not met.
    pub fn open(&self) -> u32 {
        self.unmet.saturating_add(self.unknown).saturating_add(self.pending)
    }

    /// How much is wrong: what is open, and what was found there.
    pub fn weight(&self) -> u32 {
        let lines = self.lines.iter().filter(|line| line.standing == Known::Unmet);
        lines.fold(self.open(), |sum, line| sum.saturating_add(line.findings))
    }
}

impl Rule {
    pub const ALL: [Self; 19] = [
        Self::NotMine,
        Self::Off,
        Self::Repeat,
        Self::HostTrouble,
        Self::OddStop,
        Self::Waiting,
        Self::NeedsHuman,
        Self::Untrusted,
        Self::Verified,
        Self::Claimed,
        Self::Tampered,
        Self::GateBroken,
        Self::Limit,
        Self::Stuck,
        Self::Remedy,
        Self::HandOver,
        Self::FinalLook,
        Self::HoldOnce,
        Self::Block,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::NotMine => "not-mine",
            Self::Off => "off",
            Self::Repeat => "repeat",
            Self::HostTrouble => "host-trouble",
            Self::OddStop => "odd-stop",
            Self::Waiting => "waiting",
            Self::NeedsHuman => "needs-human",
            Self::Untrusted => "untrusted",
            Self::Verified => "verified",
            Self::Claimed => "claimed",
            Self::Tampered => "tampered",
            Self::GateBroken => "gate-broken",
            Self::Limit => "limit",
            Self::Stuck => "stuck",
            Self::Remedy => "remedy",
            Self::HandOver => "hand-over",
            Self::FinalLook => "final-look",
            Self::HoldOnce => "hold-once",
            Self::Block => "block",
        }
    }
}

impl Serialize for Status {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Status {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| D::Error::custom("not a status"))
    }
}

impl Serialize for RunId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for RunId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| D::Error::custom("not a run id"))
    }
}

impl<'de> Deserialize<'de> for SessionId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| D::Error::custom("not a session id"))
    }
}

impl Serialize for SessionId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
pub(crate) fn is_nowhere(offset: &u64) -> bool {
    *offset == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
pub(crate) fn is_zero(count: &u32) -> bool {
    *count == 0
}

fn lenient_session<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<SessionId>, D::Error> {
    let text = Option::<Cow<str>>::deserialize(deserializer)?;
    Ok(text.and_then(|text| SessionId::parse(&text)))
}
