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
mod markdown_queue;
mod queue_file;
mod queue_loop;
mod queue_progress;
mod queue_record;
mod schedule;
mod toml_queue;

#[cfg(test)]
mod tests;

use std::path::PathBuf;

use ralph_core::limits::LimitKind;
use ralph_core::run_terms::RunTerms;
use ralph_core::status::RunStatus;
use serde::{Deserialize, Serialize};

use crate::issues::TrackerIssue;

pub use budget::QueueBudget;
pub use queue_file::{QueueError, read_queue};
pub use queue_loop::{
    KnownQueueTask, QueueContext, QueueOutcome, QueuePlan, QueueStopReason, QueueTaskEvent,
    QueueTaskOrder, QueueTaskOutcome, QueueTaskOutput, QueueWatcher, QueueWorker, run_queue,
};
pub use queue_progress::{known_tasks, recorded_task};
pub use queue_record::{
    QueueHistory, QueueId, QueueOpening, QueueRecord, QueueRecordEntry, QueueRecordError,
    QueueTaskHistory,
};
pub use schedule::{QueueTaskState, TaskSchedule};

/// The tasks of a queue, in file order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskQueue {
    /// The file or directory that defines the queue, with symbolic links resolved.
    pub source: PathBuf,
    pub tasks: Vec<QueueTask>,
}

/// One task of a queue: the terms of its run, and its dependencies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueTask {
    pub name: String,
    /// Indices of the tasks that have to be done first.
    pub after: Vec<usize>,
    pub model: Option<String>,
    pub terms: RunTerms,
    /// The issue that the goal comes from.
    pub issue: Option<QueueIssue>,
}

/// The issue of a task, as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueIssue {
    pub issue: TrackerIssue,
    /// Commands of the issue that a person approved.
    pub checks: Vec<String>,
    /// What a person should know before the start.
    pub notes: Vec<String>,
}

impl QueueTask {
    /// A digest of the goal and lists: if it changes, the task counts as a different one.
    pub fn goal_digest(&self) -> String {
        self.digest(false)
    }

    /// A digest that also covers the model and the limits.
    pub fn terms_digest(&self) -> String {
        self.digest(true)
    }

    fn digest(&self, has_terms: bool) -> String {
        let RunTerms { goal, limits, lists, complexity, .. } = &self.terms;
        // Older versions knew only these two limits. Without others, the digest must equal the one that they recorded.
        let first = [LimitKind::MaxIterations, LimitKind::MaxCost];
        let others: Vec<_> = limits
            .given()
            .filter(|(limit, _)| !first.contains(&limit.kind))
            .map(|(limit, value)| (limit.key, value))
            .collect();
        let limits = first.map(|kind| limits.get(kind));
        let terms = has_terms.then_some((complexity, &self.model, limits));
        let goal = String::from_utf8_lossy(goal);
        // Serialising strings, numbers and lists cannot fail; if it did, the task would only be started again.
        let mut all =
            serde_json::to_vec(&(goal, &lists.features, &lists.plans, terms)).unwrap_or_default();
        if has_terms && !others.is_empty() {
            all.extend(serde_json::to_vec(&others).unwrap_or_default());
        }
        let digest = blake3::hash(&all).to_hex();
        digest.get(..32).unwrap_or_default().to_owned()
    }
}

/// How a task ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueTaskEnd {
    pub how: QueueTaskEnding,
    /// The status of the run; `None` if the task could not be started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<RunStatus>,
    pub why: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueTaskEnding {
    /// Verified and merged into the branch that it came from.
    Landed,
    /// Not landed, for any reason. The work is kept.
    Parked,
}
