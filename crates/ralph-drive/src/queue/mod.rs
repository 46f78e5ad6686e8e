//! Queues: several tasks, each a run of its own, in an order that respects their dependencies and within one budget.
//!
//! ```text
//! queue_file ─▶ TaskQueue ─ queue_record: finished tasks ─▶ TaskSchedule ◀─ QueueBudget
//!                                                              │ which task may start, with how much
//!                                                              ▼
//!                                   queue_loop ─▶ QueueWorker: one run per task ─▶ landed, or parked
//! ```
//!
//! A task is done only when its work has landed on the branch it came from, because dependent tasks build on that
//! branch.

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

/// The tasks of a queue, in file order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queue {
    /// The file or directory that defines the queue, with symbolic links resolved.
    pub source: PathBuf,
    pub tasks: Vec<Task>,
}

/// One task of a queue: its goal, dependencies and limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Task {
    pub name: String,
    pub goal: String,
    /// Indices of the tasks that have to be done first.
    pub after: Vec<usize>,
    pub features: Vec<PathBuf>,
    pub plans: Vec<PathBuf>,
    pub complexity: Option<u8>,
    pub model: Option<String>,
    pub max_iterations: Option<u32>,
    pub max_cost_micro_usd: Option<u64>,
}

impl Task {
    /// A digest of the goal and lists: if it changes, the task counts as a different one.
    pub fn asks(&self) -> String {
        self.digest(false)
    }

    /// A digest that also covers the model and the limits.
    pub fn terms(&self) -> String {
        self.digest(true)
    }

    fn digest(&self, has_terms: bool) -> String {
        let Self { goal, features, plans, complexity, model, .. } = self;
        let limits = (self.max_iterations, self.max_cost_micro_usd);
        let terms = has_terms.then_some((complexity, model, limits));
        // Serialising strings, numbers and lists cannot fail; if it did, the task would only be started again.
        let all = serde_json::to_vec(&(goal, features, plans, terms)).unwrap_or_default();
        let digest = blake3::hash(&all).to_hex();
        digest.get(..32).unwrap_or_default().to_owned()
    }
}

/// How a task ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    pub how: Ending,
    /// The status of the run; `None` if the task could not be started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    pub why: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// Verified and merged into the branch that it came from.
    Landed,
    /// Not landed, for any reason. The work is kept.
    Parked,
}
