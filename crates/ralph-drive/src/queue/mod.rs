//! Many goals, worked through in an order that their dependencies allow, within one budget.
//!
//! ```text
//! read ─▶ Queue ─ record: what is done already ─▶ Schedule ◀─ Purse
//!                                                    │ which may start, with how much
//!                                                    ▼
//!                                   work ─▶ Worker: a run of its own for each ─▶ landed, or parked
//! ```
//!
//! A task is done when its work is in the branch that it came from, and not before: what comes after it builds on that.

mod budget;
mod markdown;
mod read;
mod record;
mod schedule;
mod table;
mod work;

#[cfg(test)]
mod tests;

use std::path::PathBuf;

use ralph_core::status::Status;
use serde::{Deserialize, Serialize};

pub use budget::Purse;
pub use read::{QueueError, read};
pub use record::{Book, BookError, Entry, Opening, Past, QueueId, Tried};
pub use schedule::{Schedule, Stand};
pub use work::{
    Became, Board, Desk, Event, Heard, Known, Order, Outcome, Plan, Stopped, Worker, work,
};

/// What is to be done, in the order in which it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queue {
    /// The file or the directory that says so, without symbolic links.
    pub source: PathBuf,
    pub tasks: Vec<Task>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Task {
    pub name: String,
    pub goal: String,
    /// Which tasks have to be done first, by their place in the queue.
    pub after: Vec<usize>,
    pub features: Vec<PathBuf>,
    pub plans: Vec<PathBuf>,
    pub complexity: Option<u8>,
    pub model: Option<String>,
    pub max_iterations: Option<u32>,
    pub max_cost_micro_usd: Option<u64>,
}

impl Task {
    /// What is asked for: a task whose goal or lists are other ones is another task.
    pub fn asks(&self) -> String {
        self.digest(false)
    }

    /// The same with the terms that it is tried under.
    pub fn terms(&self) -> String {
        self.digest(true)
    }

    fn digest(&self, has_terms: bool) -> String {
        let Self { goal, features, plans, complexity, model, .. } = self;
        let limits = (self.max_iterations, self.max_cost_micro_usd);
        let terms = has_terms.then_some((complexity, model, limits));
        // Strings, numbers and lists of them; serialising it cannot fail, and an empty text would only begin anew.
        let all = serde_json::to_vec(&(goal, features, plans, terms)).unwrap_or_default();
        let digest = blake3::hash(&all).to_hex();
        digest.get(..32).unwrap_or_default().to_owned()
    }
}

/// How work at a task ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    pub how: Ending,
    /// As the run says; what could not be started has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    pub why: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// Verified, and in the branch that it came from.
    Landed,
    /// Not, for whatever reason. What there is of it is kept.
    Parked,
}
