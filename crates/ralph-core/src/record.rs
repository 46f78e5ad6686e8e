//! The types stored on disk: the run record and the journal. Each file carries a format version, and a fixture of every
//! version ever written is a test. Serialised names must not change.

mod change;
mod constructors;
mod gate_record;
mod judge_record;
mod list_seal;
mod part;
mod report_line;

use crate::digest64::Digest64;
use crate::drive::{DriveSettings, Remedy};
use crate::host_name::HostName;
use crate::id::{RunId, SessionId};
use crate::limits::RunLimits;
use crate::model_price::ModelPrice;
use crate::policy::{OnTampering, Policy};
use crate::proof_summary::ProofRecord;
use crate::run::{RunState, Spending};
use crate::sealed_file::{OutsideLink, SealedFile};
use crate::serde_skip::{is_false, is_zero, is_zero_offset};
use crate::source::checklist::Checklist;
use crate::status::RunStatus;
use crate::yes_no;
use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use crate::cost_reading::{CostBasis, CostReading, unpriced_limit};
pub use crate::requirement::PendingKind;
pub use crate::sealed_file::{SealedProgram, SealedVariable};
pub use change::{Acceptance, Dispute, MoveReason, OrchestratorStep, RunChange, Waiver};
pub use gate_record::{GateRecord, JudgedContent, MeasuredSite};
pub use judge_record::{JudgeRecord, describe_unseen};
pub use list_seal::{ListKind, ListSeal};
pub use part::{PartIdentity, PartKind, PartRecord, PartRule};
pub use report_line::{ReportLine, ReportedStatus};

/// The version that this ralph writes; it reads all earlier ones. It rises with the first change after a release that an
/// older ralph cannot read: a new field of the state, because of its hash, or a new name in an enum.
pub const FORMAT_VERSION: u8 = 2;

/// Recorded for a tool call that the client denied because nothing permits it.
pub const NOT_PERMITTED: &str = "not permitted";

/// `run.json`: what a run was started with. The journal's first entry holds a copy, so that an edit can be detected and
/// undone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRecord {
    pub v: u8,
    pub id: RunId,
    /// The session it holds. `None` if the file names none or an invalid id; then the run holds no session.
    #[serde(default, deserialize_with = "lenient_session")]
    pub owner: Option<SessionId>,
    pub started_ms: u64,
    pub project: String,
    pub origin: RunOrigin,
    /// The count to start from: an adopted loop has already used some of its iterations.
    pub first_iteration: u32,
    pub limits: RunLimits,
    pub features: Vec<String>,
    pub promise: Option<String>,
    /// Whether the list that the agent keeps in its conversation has to be completed.
    #[serde(with = "yes_no")]
    pub checklist: bool,
    pub goal_bytes: u64,
    /// Hash of the goal. Older versions did not record it: then only the length is compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal_hash: Option<String>,
    /// The goal as one cleaned line, for lists of runs.
    pub title: String,
    pub on_tampering: OnTampering,
    /// The host's id of the prompt that started it, so that a hook that is registered twice starts one run only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// How many features each of `features` had at the start. Superseded by `lists`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub listed: Vec<u32>,
    /// The feature lists and plans as sealed at the start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lists: Vec<ListSeal>,
    /// Whether the client's own task list has to be completed.
    #[serde(default, skip_serializing_if = "is_false", with = "yes_no")]
    pub tasks: bool,
    /// Whether the agent reports phases in `orchestrator.json`, which must then exist.
    #[serde(default, skip_serializing_if = "is_false", with = "yes_no")]
    pub phases: bool,
    /// The length of the transcript at the start. Earlier entries do not concern the run.
    #[serde(default, skip_serializing_if = "is_zero_offset")]
    pub transcript_length: u64,
    /// The host process it was started in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessIdentity>,
    /// `None` for a run without a policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seal: Option<Box<PolicySeal>>,
    /// `None` for a run whose agent is started by a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drive: Option<Box<DriveSettings>>,
    /// The host whose hooks call ralph.
    #[serde(default, skip_serializing_if = "HostName::is_default")]
    pub host: HostName,
    /// The person's own prices of models, which take precedence over the built-in ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prices: Vec<ModelPrice>,
}

/// The policy as it was when the run began. Later edits of its file are detected, but do not change the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicySeal {
    pub policy: Policy,
    /// The directory of the policy. Gates run in it or below.
    pub project: String,
    /// Hash of what a person approved: the policy file and the scripts it calls. Empty if nothing of it comes from the
    /// repository.
    pub hash: String,
    /// `None` if git could not record it; requirements that depend on it are then unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<RunBase>,
    /// The `PATH` that gates run with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The program that each gate resolved to, with a hash of its content.
    #[serde(default)]
    pub tools: Vec<GateTool>,
    /// The stated complexity of the work, from 0 to 10; `None` requires every gate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub complexity: Option<u8>,
    /// The git that ralph itself runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git: Option<SealedProgram>,
    /// The files of the project that decide the results of required gates. Older versions did not record them: then
    /// everything that a person approved counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<Vec<SealedFile>>,
    /// The gates of the policy that a person typed for this run only, by name. No approval covers them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<String>,
    /// The environment variables that decide which service answers for judges and CI. Older versions recorded none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variables: Option<Vec<SealedVariable>>,
    /// Whether checkouts could be mounted in place of the project when the run began. Then no gate, judge or CI command
    /// runs in one that is not.
    #[serde(default, skip_serializing_if = "is_false", with = "yes_no")]
    pub mounts_checkouts: bool,
}

/// The work tree before the agent touched it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunBase {
    /// The commit of its checkpoint.
    pub commit: String,
    /// Fingerprint of its content, in hexadecimal digits.
    pub identity: String,
    /// Tracked paths that a sparse checkout left out; a whole directory has a slash at the end. `None` if they are not
    /// known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absent: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outside_links: Vec<OutsideLink>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateTool {
    pub gate: String,
    pub path: String,
    pub content: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunOrigin {
    /// A person started it.
    Started,
    /// Created from an unclaimed loop directory, or from the one that `RALPH_LOOP_DIR` names.
    Adopted,
    /// Not a run: the record of a session without one, whose stops the gates of the project hold.
    Session,
}

/// One line of `journal.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JournalEntry {
    pub v: u8,
    pub seq: u64,
    pub at_ms: u64,
    /// Hash of the previous line; empty in the first.
    pub prev: String,
    /// Iterations charged after this entry is applied.
    pub iteration: u32,
    /// Hash of the state after this entry is applied. A state with another hash was edited.
    #[serde(default)]
    pub after: String,
    pub change: RunChange,
    /// The person whose action it records, if the change itself does not name them. Missing in journals of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// What was known when a lost or damaged journal was replaced by a new one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RestoredRun {
    pub run: RunRecord,
    pub state: RunState,
}

/// One decided stop, as the journal records it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StopRecord {
    pub rule: DecisionRule,
    pub outcome: StopOutcome,
    /// Why the rule fired, in one line.
    pub because: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<Digest64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery: Option<DeliveryId>,
    /// `None` if the stop was settled before any requirement was evaluated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<StopReport>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<TranscriptReading>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessIdentity>,
    /// Which of ralph's own files were changed by something else, whichever rule fired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tampering: Option<String>,
    /// Digest of the background work that was running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub background: Option<Digest64>,
    /// Blocks since the agent's last tool call, including this one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub in_a_row: u32,
    /// In a session without a run: how often its prompt has been held, including this stop.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub prompt_hold: u32,
    /// Lists that did not parse; their last parsed version was used instead.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub garbled: Vec<String>,
    /// The remedy that was tried because the run made no progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<Remedy>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<ProofRecord>,
    /// The results of gates that the decision rests on. Missing in journals of older versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gates: Vec<GateRecord>,
    /// `None` if nothing was judged, or without git. Missing in journals of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judged: Option<JudgedContent>,
    /// The verdicts of judges that the decision rests on. Missing in journals of older versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub judges: Vec<JudgeRecord>,
    /// What the judges of the run have cost so far, if that is known to have changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge_spending: Option<Spending>,
    /// `None` if a runner meters the cost, or the host names no transcript.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<CostReading>,
    /// The tree of a stop that was held only because results are pending.
    #[serde(default, rename = "awaited", skip_serializing_if = "Option::is_none")]
    pub awaited_tree: Option<Digest64>,
    /// When the hook process started, if `delivery` is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrived_ms: Option<u64>,
    pub took_ms: u64,
}

/// Identifies a stop, to recognise a second delivery of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveryId {
    pub stop: Digest64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopOutcome {
    Allowed,
    /// Charged. The full reason is stored, because a second delivery of the same stop must get the same answer.
    Blocked {
        reason: String,
    },
    /// Held until running gates finish. Not charged, because ralph causes the wait; the time limit bounds it. An agent
    /// that starts the wait anew with other files is charged.
    Awaited {
        reason: String,
    },
    /// Charged. The agent may stop, and a fresh session continues the work.
    HandedOver,
    /// The previous answer again, because the same stop was delivered again. Never charged.
    Repeated,
    Orphaned,
    Ended(RunStatus),
}

/// The row of the decision table that fired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DecisionRule {
    NotMine,
    Off,
    Repeat,
    HostTrouble,
    OddStop,
    Waiting,
    NeedsHuman,
    Untrusted,
    Verified,
    Proof,
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
    Passed,
}

/// The requirements of one stop, short enough to keep forever.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopReport {
    pub total: u32,
    pub unmet: u32,
    pub unknown: u32,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub pending: u32,
    /// Changes when any unmet or unknown requirement changes.
    pub failures: Digest64,
    /// The first requirements that are not met, most useful first.
    pub lines: Vec<ReportLine>,
    /// The names of other required ones that are not met. Missing in journals of older versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also_open: Vec<String>,
    /// The names of the requirements that are met. Older versions recorded the first 20 only.
    pub met: Vec<String>,
    /// How many of them only a claim of the agent meets. Missing in journals of older versions.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub claimed: u32,
}

/// What was read from the transcript so far, and up to which offset.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TranscriptReading {
    pub inode: u64,
    pub offset: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
    /// Older versions looked here for the cost, which the client writes only when it exits. [`CostReading`] replaces it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_micro_usd: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_cost_micro_usd: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checklist: Option<Checklist>,
    /// How many typed messages had not reached the agent yet.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub queued: u32,
}

/// Identifies a process. A pid alone can be reused, so its start time is part of the identity. Comparable only within
/// one boot and one process namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessIdentity {
    pub pid: u32,
    /// In clock ticks since boot; 0 if the system does not report it.
    pub started: u64,
}

impl StopReport {
    /// How many required requirements are not met.
    pub fn open_count(&self) -> u32 {
        self.unmet.saturating_add(self.unknown).saturating_add(self.pending)
    }

    pub fn met_count(&self) -> u32 {
        self.total.saturating_sub(self.open_count())
    }

    /// A measure of how much is wrong: the open requirements plus the findings of the unmet ones.
    pub fn failure_weight(&self) -> u32 {
        let lines = self.lines.iter().filter(|line| line.standing == ReportedStatus::Unmet);
        lines.fold(self.open_count(), |sum, line| sum.saturating_add(line.findings))
    }
}

impl DecisionRule {
    pub const ALL: [Self; 21] = [
        Self::NotMine,
        Self::Off,
        Self::Repeat,
        Self::HostTrouble,
        Self::OddStop,
        Self::Waiting,
        Self::NeedsHuman,
        Self::Untrusted,
        Self::Verified,
        Self::Proof,
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
        Self::Passed,
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
            Self::Proof => "proof",
            Self::Claimed => "claimed",
            Self::Tampered => "tampered",
            Self::GateBroken => "gate-broken",
            Self::Limit => "limit",
            Self::Stuck => "stuck",
            Self::Remedy => "remedy",
            Self::HandOver => "hand-over",
            Self::FinalLook => "final-look",
            Self::HoldOnce => "hold-once",
            Self::Passed => "passed",
            Self::Block => "block",
        }
    }
}

impl Serialize for RunStatus {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for RunStatus {
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

fn lenient_session<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<SessionId>, D::Error> {
    let text = Option::<Cow<str>>::deserialize(deserializer)?;
    Ok(text.and_then(|text| SessionId::parse(&text)))
}
