//! Everything a decision may know about the world, as plain values gathered before it is asked.

use crate::event::Trouble;
use crate::requirement::Requirement;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// Cheap to know: read from the environment, the state directory and the tail of the transcript.
#[derive(Clone, Debug)]
pub struct Facts {
    pub now_ms: u64,
    pub off: Option<Off>,
    pub owner: Owner,
    /// `None` when nothing tells two deliveries of one stop from two stops.
    pub delivery: Option<Delivery>,
    /// Whether files alone have held this very prompt before.
    pub prompt: Prompt,
    pub trouble: Option<Trouble>,
    pub declared: Option<Declared>,
    pub trust: Trust,
    /// What was changed behind ralph's back, in one line.
    pub tampering: Option<String>,
    pub spent_micro_usd: Option<u64>,
    pub spent_tokens: Option<u64>,
    /// What all runs of the day have cost, where somebody bounds that.
    pub spent_today_micro_usd: Option<u64>,
    pub context_permille: Option<u16>,
    pub driver: Driver,
    /// Something was typed that reaches the agent, or us, only when the turn is over.
    pub queued: Queued,
    /// How often the agent was held since it last used a tool.
    pub in_a_row: u32,
    pub cap: Cap,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queued {
    Nothing,
    Something,
}

/// How many blocks in a row, without a tool call between them, the host bears before it ends the turn itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cap {
    At(u32),
    None,
}

impl Cap {
    /// What the host does when nobody told it otherwise.
    pub const USUAL: Self = Self::At(8);

    /// As the host reads its own setting: a number at the beginning counts, nothing or less means no cap, and
    /// anything else is the usual one.
    pub fn from_setting(setting: &str) -> Self {
        let setting = setting.trim();
        let digits = setting.strip_prefix(['-', '+']).unwrap_or(setting);
        let end = digits.find(|it: char| !it.is_ascii_digit()).unwrap_or(digits.len());
        match digits[..end].parse::<u32>() {
            Ok(0) => Self::None,
            Ok(_) if setting.starts_with('-') => Self::None,
            Ok(most) => Self::At(most),
            Err(_) => Self::USUAL,
        }
    }
}

/// One arrival of a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The same for two deliveries of one stop: prompt, message, flag.
    pub stop: u64,
    /// How long the transcript was, if there was one. A conversation that went on has made it longer, if not at once.
    pub length: Option<u64>,
    /// When our process started.
    pub arrived_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prompt {
    Fresh,
    HeldAlready,
}

/// Dearer to know: asked for only when the cheap facts do not settle the stop.
#[derive(Clone, Debug)]
pub struct Evidence {
    pub requirements: Vec<Requirement>,
    pub tree: Tree,
    /// A limit that an adopted file sets for itself was reached.
    pub own_limit: Option<String>,
    /// What the run may not change was changed, in one line, and the policy wants a person to look at that.
    pub tampering: Option<String>,
    /// Lists that did not parse, so that what they said before counted.
    pub garbled: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tree {
    /// Content identity of the work tree.
    Known(u64),
    /// Not a repository, or git did not answer: two such trees are never called the same.
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Off {
    Environment,
    KillSwitch,
    Cancelled,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    Present,
    /// The process that owned the run is gone, or nothing was heard of it for too long.
    Gone,
}

/// An honest way out that the agent took, on record before it stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Declared {
    NeedsHuman(String),
    Waiting { until_ms: u64, why: String },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    Approved,
    Missing {
        what: String,
        /// What a person types to approve it.
        how: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driver {
    Person,
    /// The agent stops, and the runner that started it is asked.
    Runner,
    /// The runner asks itself: the agent's process has ended, or its host did not ask.
    Alone,
    /// The same, and the work is still to go back where it belongs before the run may end well.
    Closing,
}

impl Facts {
    /// An ordinary stop at which nothing else is going on.
    pub fn quiet(now_ms: u64) -> Self {
        Self {
            now_ms,
            off: None,
            owner: Owner::Present,
            delivery: None,
            prompt: Prompt::Fresh,
            trouble: None,
            declared: None,
            trust: Trust::Approved,
            tampering: None,
            spent_micro_usd: None,
            spent_tokens: None,
            spent_today_micro_usd: None,
            context_permille: None,
            driver: Driver::Person,
            queued: Queued::Nothing,
            in_a_row: 0,
            cap: Cap::USUAL,
        }
    }
}

impl Off {
    pub fn why(self) -> &'static str {
        match self {
            Self::Environment => "`RALPH_OFF` is set",
            Self::KillSwitch => "the kill switch file is there",
            Self::Cancelled => "cancelled",
        }
    }
}
