//! Everything a decision may depend on, as plain values gathered beforehand: the cheap [`StopFacts`], and the
//! [`StopEvidence`] that takes time to collect.

use crate::cost_reading::CostBasis;
use crate::event::HostTrouble;
use crate::proof::Proof;
use crate::record::{GateRecord, JudgeRecord, JudgedContent};
use crate::requirement::Requirement;
use crate::run::Spending;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// Facts that are cheap to gather: from the environment, the state directory and the end of the transcript.
#[derive(Clone, Debug)]
pub struct StopFacts {
    pub now_ms: u64,
    pub off: Option<OffReason>,
    /// Whether the process that owned the run has exited, or has shown no sign of life for too long.
    pub is_owner_gone: bool,
    /// `None` if a repeated delivery of one stop cannot be distinguished from a second stop.
    pub delivery: Option<StopDelivery>,
    /// When the hook process started, if `delivery` is not known.
    pub arrived_ms: Option<u64>,
    /// Whether files alone have already held this prompt once.
    pub is_prompt_held_already: bool,
    /// How often the gates of a session without a run have held this prompt.
    pub prompt_holds: u32,
    pub trouble: Option<HostTrouble>,
    pub declared: Option<DeclaredPause>,
    pub trust: PolicyTrust,
    /// Which of ralph's own files were changed by something else, in one line.
    pub tampering: Option<String>,
    pub spent_micro_usd: Option<u64>,
    pub cost_basis: CostBasis,
    /// Why the limit on the cost does not work, or not for everything, in one line.
    pub cost_gap: Option<String>,
    pub spent_tokens: Option<u64>,
    /// The cost of all runs of today; only known if there is a daily limit.
    pub spent_today_micro_usd: Option<u64>,
    pub context_permille: Option<u16>,
    pub driver: StopDriver,
    /// Whether a person typed something that is delivered only when the turn ends.
    pub has_queued_input: bool,
    /// How often the agent was held since its last tool call.
    pub consecutive_blocks: u32,
    pub block_cap: BlockCap,
}

/// How many consecutive blocks without a tool call in between the host allows before it ends the turn itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockCap {
    At(u32),
    None,
}

impl BlockCap {
    /// The host's default.
    pub const DEFAULT: Self = Self::At(8);

    /// Parses the host's setting the way the host does: a leading number counts, zero or a negative number means no
    /// cap, and anything else is the default.
    pub fn from_setting(setting: &str) -> Self {
        let setting = setting.trim();
        let digits = setting.strip_prefix(['-', '+']).unwrap_or(setting);
        let end = digits.find(|it: char| !it.is_ascii_digit()).unwrap_or(digits.len());
        match digits[..end].parse::<u32>() {
            Ok(0) => Self::None,
            Ok(_) if setting.starts_with('-') => Self::None,
            Ok(most) => Self::At(most),
            Err(_) => Self::DEFAULT,
        }
    }
}

/// One delivery of a stop to a hook process. A hook that is registered twice delivers every stop twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StopDelivery {
    /// Hash of the prompt, the last message and the host's flag: the same for two deliveries of one stop.
    pub stop: u64,
    /// The length of the transcript, if there is one. It grows when the conversation continues, but not immediately.
    pub length: Option<u64>,
    /// When the hook process started.
    pub arrived_ms: u64,
}

/// Facts that are expensive to gather, needed only if [`StopFacts`] do not settle the stop.
#[derive(Clone, Debug)]
pub struct StopEvidence {
    pub requirements: Vec<Requirement>,
    /// `None` if it was not needed: something is open or only claimed, or the policy asks for none.
    pub proof: Option<Proof>,
    /// Whether the agent is held to improve the proof first, so that neither CI nor a judge was asked.
    pub waits_for_proof: bool,
    pub tree: TreeIdentity,
    /// The same without what gates wrote into it: an agent that waits is not charged for their files.
    pub tree_without_gate_writes: TreeIdentity,
    /// Whether the process that ran gates or asked judges since the last stop ended before its task was done.
    pub has_lost_worker: bool,
    pub gates: Vec<GateRecord>,
    pub judged: Option<JudgedContent>,
    /// The verdicts of judges that this stop rests on, and what keeps judges from being asked.
    pub judging: JudgingEvidence,
    /// The limit that an adopted loop's own file sets, if it is reached.
    pub adopted_limit: Option<String>,
    /// What the agent changed that the policy protects, in one line, if the policy asks for a person's review.
    pub tampering: Option<String>,
    /// Why a gate or check could be changed without notice, in one line. It keeps the run from ending `verified`.
    pub unsealed: Option<String>,
    /// Lists that do not parse; their last parsed version was used instead.
    pub unparsable_lists: Vec<String>,
}

/// What judges contributed to the evidence of a stop. Their requirements are among the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JudgingEvidence {
    pub records: Vec<JudgeRecord>,
    /// Whether nothing but a judge says that the goal is met.
    pub is_goal_judged_only: bool,
    /// What the judges of the run have cost so far.
    pub spent: Option<Spending>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeIdentity {
    /// Content identity of the work tree.
    Known(u64),
    /// Not a repository, or git failed. Two unknown trees never count as equal.
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffReason {
    Environment,
    KillSwitch,
    Cancelled,
}

/// A reason to stop: one that the agent recorded beforehand with `ralph ask` or `ralph wait`, or an approval that is
/// missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeclaredPause {
    NeedsHuman(String),
    Waiting {
        until_ms: u64,
        why: String,
    },
    /// A person has to approve a chunk or a phase, and nothing else can be done. The run does not end with it.
    Approval(String),
}

impl DeclaredPause {
    /// What a person is asked, if one is.
    pub fn question(&self) -> Option<&str> {
        match self {
            Self::NeedsHuman(question) | Self::Approval(question) => Some(question),
            Self::Waiting { .. } => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyTrust {
    Approved,
    Missing {
        what: String,
        /// The command that approves it.
        how: String,
    },
}

/// What drives the agent, and so what a decision can do besides blocking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopDriver {
    /// A person works with the agent interactively.
    Person,
    /// A runner started the agent, whose process is still alive and may still change the work tree.
    Runner,
    /// The runner evaluates the work by itself: the agent's process has exited, or its host did not call the hook.
    RunnerAlone,
    /// Like [`Self::RunnerAlone`], but the work has not landed in its target branch yet.
    RunnerLanding,
}

impl StopFacts {
    /// An ordinary stop with no special circumstances.
    pub fn quiet(now_ms: u64) -> Self {
        Self {
            now_ms,
            off: None,
            is_owner_gone: false,
            delivery: None,
            arrived_ms: None,
            is_prompt_held_already: false,
            prompt_holds: 0,
            trouble: None,
            declared: None,
            trust: PolicyTrust::Approved,
            tampering: None,
            spent_micro_usd: None,
            cost_basis: CostBasis::Reported,
            cost_gap: None,
            spent_tokens: None,
            spent_today_micro_usd: None,
            context_permille: None,
            driver: StopDriver::Person,
            has_queued_input: false,
            consecutive_blocks: 0,
            block_cap: BlockCap::DEFAULT,
        }
    }
}

impl OffReason {
    pub fn why(self) -> &'static str {
        match self {
            Self::Environment => "`RALPH_OFF` is set",
            Self::KillSwitch => "the kill switch file exists",
            Self::Cancelled => "cancelled",
        }
    }
}
