//! The progress of queues, from their records and those of their runs.

use crate::wording::micro_usd_as_usd;
use ralph_core::id::RunId;
use ralph_core::status::RunStatus;
use ralph_core::text;
use ralph_core::units::format_usd;
use ralph_drive::issues::IssueQueue;
use ralph_drive::queue::{
    self, KnownQueueTask, QueueHistory, QueueId, QueueOutcome, QueueRecord, QueueRecordError,
    QueueStopReason, QueueTask, QueueTaskEnd, QueueTaskEnding, QueueTaskHistory, QueueTaskOutcome,
    QueueTaskState, TaskQueue, TaskSchedule,
};
use ralph_home::paths::RalphHome;
use ralph_sys::fs;
use serde::Serialize;
use std::path::PathBuf;

const MAX_QUEUES: usize = 10_000;
/// Reasons end with commands to paste, and those contain paths.
const LONGEST_REASON: usize = 2_000;

/// A queue with the state of its tasks.
#[derive(Debug)]
pub struct QueueStatus {
    pub id: QueueId,
    pub queue: TaskQueue,
    pub project: PathBuf,
    pub tasks: QueueOutcome,
    /// Whether its file can still be read.
    pub has_file: bool,
}

#[derive(Debug, Serialize)]
pub struct QueueStatusView<'a> {
    pub queue: &'a str,
    pub source: String,
    pub project: String,
    pub done: usize,
    pub at_work: usize,
    pub open: usize,
    pub parked: usize,
    pub spent_usd: f64,
    pub tasks: Vec<QueueTaskView<'a>>,
    /// The command that continues it, while anything is left.
    pub resume: Option<String>,
}

#[derive(Debug, Serialize)]
pub struct QueueTaskView<'a> {
    pub name: &'a str,
    pub state: &'static str,
    pub run: Option<&'a str>,
    pub status: Option<RunStatus>,
    pub because: String,
    pub spent_usd: f64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskCounts {
    pub done: usize,
    pub at_work: usize,
    pub open: usize,
    pub parked: usize,
}

/// The queues that can be continued, and the errors of those that cannot be read. A queue can be continued if its file
/// exists and some of its tasks have not landed.
pub fn unfinished_queues(home: &RalphHome) -> (Vec<QueueStatus>, Vec<QueueRecordError>) {
    let (mut all, unreadable) = all_queues(home);
    all.retain(|one| one.has_file && one.count().done < one.tasks.tasks.len());
    (all, unreadable)
}

/// All queues, and the errors of those that cannot be read.
pub fn all_queues(home: &RalphHome) -> (Vec<QueueStatus>, Vec<QueueRecordError>) {
    let names = match fs::list_if_exists(&home.queues(), MAX_QUEUES) {
        Ok(names) => names,
        Err(error) => return (Vec::new(), vec![error.into()]),
    };
    let (mut queues, mut unreadable) = (Vec::new(), Vec::new());
    for id in names.iter().filter_map(|name| QueueId::parse(name.to_str()?)) {
        match load_queue_status(home, id) {
            Ok(queue) => queues.extend(queue),
            Err(error) => unreadable.push(error),
        }
    }
    (queues, unreadable)
}

/// The queue with this name, if there is one.
pub fn named_queue(home: &RalphHome, name: &str) -> Result<Option<QueueStatus>, QueueRecordError> {
    QueueId::parse(name).map_or(Ok(None), |id| load_queue_status(home, id))
}

fn load_queue_status(
    home: &RalphHome,
    id: QueueId,
) -> Result<Option<QueueStatus>, QueueRecordError> {
    let Some(past) = QueueRecord::read(home, &id)? else {
        return Ok(None);
    };
    let Some(opening) = &past.opening else { return Ok(None) };
    let project = opening.project.clone();
    let (queue, known, is_there) = if let Ok(queue) = queue::read_queue(&opening.source) {
        let known = queue::known_tasks(home, &queue.tasks, &past)?;
        (queue, known, true)
    } else {
        let task = |name: &String| QueueTask { name: name.clone(), ..QueueTask::default() };
        let tasks = past.tasks.keys().map(task).collect();
        let known: Result<Vec<_>, _> =
            past.tasks.values().map(|tried| queue::recorded_task(home, tried)).collect();
        let known = known?;
        // Issues are listed anew when the queue continues; until then, the tasks that were started are known.
        let has_issues = opening.source.to_str().is_some_and(|it| IssueQueue::parse(it).is_some());
        (TaskQueue { source: opening.source.clone(), tasks }, known, has_issues)
    };
    let tasks = queue_outcome(home, &queue, known, &past);
    Ok(Some(QueueStatus { id, queue, project, tasks, has_file: is_there }))
}

fn queue_outcome(
    home: &RalphHome,
    queue: &TaskQueue,
    known: Vec<KnownQueueTask>,
    past: &QueueHistory,
) -> QueueOutcome {
    let mut schedule = TaskSchedule::new(&queue.tasks, 1);
    let mut became = Vec::new();
    for (at, (task, known)) in queue.tasks.iter().zip(known).enumerate() {
        let is_at_work =
            known.run.as_ref().is_some_and(|run| ralph_home::run_process::may_be_driven(home, run));
        let end = match (known.end, &known.run) {
            (Some(end), _) => Some(end),
            (None, Some(_)) if is_at_work => None,
            (None, Some(_)) => Some(orphaned_end(past.tasks.get(&task.name))),
            (None, None) => None,
        };
        match &end {
            Some(end) => schedule.end(at, end.how),
            None if is_at_work => schedule.start(at),
            None => {}
        }
        let spent_micro_usd = known.spent_before.saturating_add(known.spent_by_run);
        became.push(QueueTaskOutcome {
            state: QueueTaskState::Ready,
            end,
            run: known.run,
            spent_micro_usd,
        });
    }
    for (at, one) in became.iter_mut().enumerate() {
        one.state = schedule.state(at);
    }
    let spent_micro_usd =
        became.iter().fold(0_u64, |sum, one| sum.saturating_add(one.spent_micro_usd));
    QueueOutcome { tasks: became, stopped: None, spent_micro_usd }
}

/// The end of a task whose run has not ended but has no runner.
fn orphaned_end(tried: Option<&QueueTaskHistory>) -> QueueTaskEnd {
    tried.and_then(|tried| tried.end.clone()).unwrap_or_else(|| QueueTaskEnd {
        how: QueueTaskEnding::Parked,
        status: Some(RunStatus::Crashed),
        why: "no runner drives it any more".to_string(),
    })
}

impl QueueStatus {
    pub fn count(&self) -> TaskCounts {
        let mut count = TaskCounts::default();
        for task in &self.tasks.tasks {
            match task.state {
                QueueTaskState::Done => count.done += 1,
                QueueTaskState::Running => count.at_work += 1,
                QueueTaskState::Ready | QueueTaskState::Waits(_) | QueueTaskState::Blocked(_) => {
                    count.open += 1;
                }
                QueueTaskState::Parked => count.parked += 1,
            }
        }
        count
    }

    pub fn has_run(&self, run: &RunId) -> bool {
        self.tasks.tasks.iter().any(|task| task.run.as_ref() == Some(run))
    }

    /// How many tasks are in which state, and the money spent.
    pub fn progress_text(&self) -> String {
        let TaskCounts { done, at_work, open, parked } = self.count();
        let all = text::count_noun(self.tasks.tasks.len(), "task");
        let spent = format_usd(self.tasks.spent_micro_usd);
        format!(
            "{done} of {all} landed · {at_work} running · {open} open · {parked} parked · {spent}"
        )
    }

    /// How to continue the queue, unless it is running or everything has landed.
    pub fn next_step(&self) -> Option<String> {
        let TaskCounts { done, at_work, .. } = self.count();
        if at_work > 0 || done == self.tasks.tasks.len() {
            return None;
        }
        Some(if self.has_file {
            format!("`ralph run --resume {}` continues", self.id.as_str())
        } else {
            "its file can no longer be read".to_string()
        })
    }

    pub fn view(&self) -> QueueStatusView<'_> {
        let TaskCounts { done, at_work, open, parked } = self.count();
        let is_over = done == self.tasks.tasks.len();
        QueueStatusView {
            queue: self.id.as_str(),
            source: self.queue.source.to_string_lossy().into_owned(),
            project: self.project.to_string_lossy().into_owned(),
            done,
            at_work,
            open,
            parked,
            spent_usd: micro_usd_as_usd(self.tasks.spent_micro_usd),
            tasks: task_views(&self.queue, &self.tasks),
            resume: (!is_over).then(|| format!("ralph run --resume {}", self.id.as_str())),
        }
    }
}

/// The state of every task.
pub fn task_views<'a>(queue: &'a TaskQueue, outcome: &'a QueueOutcome) -> Vec<QueueTaskView<'a>> {
    let tasks = queue.tasks.iter().zip(&outcome.tasks);
    let tasks = tasks.map(|(task, became)| QueueTaskView {
        name: &task.name,
        state: state_name(became.state),
        run: became.run.as_ref().map(RunId::as_str),
        status: became.end.as_ref().and_then(|end| end.status),
        because: reason_text(queue, became, outcome.stopped),
        spent_usd: micro_usd_as_usd(became.spent_micro_usd),
    });
    tasks.collect()
}

/// 0 only if every task landed. Otherwise 130 if a person ended the queue, or else the exit code of the first task that
/// did not land, in the order of the queue.
pub fn queue_exit_code(outcome: &QueueOutcome) -> u8 {
    if outcome.tasks.iter().all(|task| task.state == QueueTaskState::Done) {
        return 0;
    }
    match outcome.stopped {
        Some(QueueStopReason::Cancelled) => return RunStatus::Cancelled.exit_code(),
        Some(QueueStopReason::OutOfBudget { .. } | QueueStopReason::OutOfTime) | None => {}
    }
    let mut parked = outcome.tasks.iter().filter(|task| task.state == QueueTaskState::Parked);
    let first = parked.find_map(|task| task.end.as_ref());
    match first.map(|end| end.status) {
        // Verified but not landed: a person has to look at it.
        Some(Some(RunStatus::Verified)) => RunStatus::NeedsHuman.exit_code(),
        Some(Some(status)) => status.exit_code(),
        Some(None) => 1,
        None => RunStatus::Exhausted.exit_code(),
    }
}

/// The state of a task in one word.
pub fn state_name(stand: QueueTaskState) -> &'static str {
    match stand {
        QueueTaskState::Done => "done",
        QueueTaskState::Parked => "parked",
        QueueTaskState::Blocked(_) => "blocked",
        QueueTaskState::Running => "running",
        QueueTaskState::Ready | QueueTaskState::Waits(_) => "not_started",
    }
}

/// Why a queue stopped, in one word.
pub fn stop_name(why: QueueStopReason) -> &'static str {
    match why {
        QueueStopReason::Cancelled => "cancelled",
        QueueStopReason::OutOfBudget { .. } => "out_of_budget",
        QueueStopReason::OutOfTime => "out_of_time",
    }
}

/// The reason for the state of a task.
pub fn reason_text(
    queue: &TaskQueue,
    became: &QueueTaskOutcome,
    stopped: Option<QueueStopReason>,
) -> String {
    let name = |task: usize| queue.tasks.get(task).map_or("?", |task| task.name.as_str());
    match (became.state, &became.end) {
        (QueueTaskState::Done | QueueTaskState::Parked, Some(end)) => {
            text::clean_line(&end.why, LONGEST_REASON)
        }
        (QueueTaskState::Blocked(by), _) => format!("`{}` has not landed", name(by)),
        (QueueTaskState::Waits(by), _) => format!("`{}` comes first", name(by)),
        (QueueTaskState::Ready, _) => match stopped {
            Some(QueueStopReason::Cancelled) => "a person ended the queue".to_string(),
            Some(QueueStopReason::OutOfBudget { left_micro_usd: 0, .. }) => {
                "the budget is used up".to_string()
            }
            Some(QueueStopReason::OutOfBudget { left_micro_usd, least_micro_usd }) => format!(
                "{} of the budget is left, and a task starts with at least {} (`runner.worst_turn_usd`)",
                format_usd(left_micro_usd),
                format_usd(least_micro_usd)
            ),
            Some(QueueStopReason::OutOfTime) => "the time is up".to_string(),
            None => String::new(),
        },
        (QueueTaskState::Done | QueueTaskState::Parked | QueueTaskState::Running, _) => {
            String::new()
        }
    }
}

/// Whether a decision about the work ended the run. A run that was parked for another reason can be continued.
pub fn is_final(task: &QueueTaskOutcome) -> bool {
    match task.end.as_ref().and_then(|end| end.status) {
        Some(
            RunStatus::Exhausted
            | RunStatus::Stuck
            | RunStatus::Green
            | RunStatus::Claimed
            | RunStatus::NeedsReview
            | RunStatus::GateBroken,
        ) => true,
        Some(
            RunStatus::Verified
            | RunStatus::NeedsHuman
            | RunStatus::RateLimited
            | RunStatus::Cancelled
            | RunStatus::Overridden
            | RunStatus::Crashed,
        )
        | None => false,
    }
}
