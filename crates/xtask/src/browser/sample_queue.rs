//! A queue with a task that landed, one at work, one that was parked and one that waits.

use super::detailed_runs::{DRIVEN_RUN, SampleWording};
use super::sample_home::HOSTILE;
use crate::disk;
use anyhow::{Context, Result, anyhow};
use ralph_core::id::RunId;
use ralph_core::status::RunStatus;
use ralph_drive::queue::{
    self, QueueId, QueueOpening, QueueRecord, QueueRecordEntry, QueueTaskEnd, QueueTaskEnding,
};
use ralph_home::paths::RalphHome;
use std::path::Path;

const TASKS: &str = r#"[[task]]
name = "retry"
goal = "Retry mails that the relay deferred"

[[task]]
name = "blocks"
goal = "Index in blocks, so that a search reads less"

[[task]]
name = "ledger"
goal = "Move invoices to the new ledger"

[[task]]
name = "metrics"
goal = "Count what is retried"
after = ["retry", "ledger"]
"#;

/// The ids of the runs of the tasks that have ended.
pub(super) struct EndedQueueRuns {
    pub(super) landed: &'static str,
    pub(super) parked: &'static str,
}

pub(super) fn write_queue(
    root: &Path,
    runs: &EndedQueueRuns,
    wording: SampleWording,
) -> Result<()> {
    let home = RalphHome::new(root.to_path_buf());
    let name = match wording {
        SampleWording::Realistic => "goals.toml".to_string(),
        SampleWording::Hostile => format!("{}.toml", HOSTILE.replace('/', " ")),
    };
    let source = root.join("goals").join(name);
    disk::write_with_parents(&source, TASKS.as_bytes())?;
    let tasks = queue::read_queue(&source).map_err(|error| anyhow!("{error}"))?.tasks;
    let id = QueueId::for_queue(&source, root);
    let (record, _) = QueueRecord::open(&home, &id)?;
    let project = root.to_path_buf();
    let opening = QueueOpening { source, project, arguments: Vec::new() };
    record.append(QueueRecordEntry::Opened(opening))?;
    let started = [runs.landed, DRIVEN_RUN, runs.parked];
    for (task, run) in tasks.iter().zip(started) {
        let run = Some(RunId::parse(run).context("a wrong id")?);
        let (asks, terms) = (task.goal_digest(), task.terms_digest());
        let task = task.name.clone();
        record.append(QueueRecordEntry::Started { task, asks, terms, run })?;
    }
    let ends = [
        ("retry", QueueTaskEnding::Landed, RunStatus::Verified, "merged into main"),
        (
            "ledger",
            QueueTaskEnding::Parked,
            RunStatus::Stuck,
            "the last 3 stops brought nothing new",
        ),
    ];
    for (task, how, status, why) in ends {
        let end = QueueTaskEnd { how, status: Some(status), why: wording.text(why) };
        record.append(QueueRecordEntry::Ended { task: task.to_string(), end })?;
    }
    Ok(())
}
