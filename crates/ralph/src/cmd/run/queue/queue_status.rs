//! The status of queues, from their records and those of their runs, for `ralph status`.

use super::super::run_screen::labelled_line;
use super::{queue_progress, queue_report};
use crate::cli;
use crate::describe::{micro_usd_as_usd, safe_line};
use crate::failure::CommandFailure;
use crate::term::{self, paint};
use ralph_core::id::RunId;
use ralph_core::limits::format_usd;
use ralph_core::status::RunStatus;
use ralph_drive::queue::{
    self, KnownQueueTask, QueueHistory, QueueId, QueueOutcome, QueueRecord, QueueTask,
    QueueTaskEnd, QueueTaskEnding, QueueTaskHistory, QueueTaskOutcome, QueueTaskState, TaskQueue,
    TaskSchedule,
};
use ralph_home::paths::RalphHome;
use ralph_hook::control::ControlError;
use ralph_hook::overview::{RunView, UnreadableRun};
use ralph_sys::fs;
use serde::Serialize;
use std::path::PathBuf;

const MAX_QUEUES: usize = 10_000;
const SHOWN_RUNS: usize = 8;
const WIDEST: usize = 100;

pub(crate) struct QueueStatus {
    id: QueueId,
    queue: TaskQueue,
    project: PathBuf,
    tasks: QueueOutcome,
    /// Whether its file can still be read.
    has_file: bool,
}

#[derive(Serialize)]
pub(crate) struct QueueStatusJson<'a> {
    queue: &'a str,
    source: String,
    project: String,
    done: usize,
    at_work: usize,
    open: usize,
    parked: usize,
    spent_usd: f64,
    tasks: Vec<QueueTaskStatusJson<'a>>,
    /// The command that continues it, while anything is left.
    resume: Option<String>,
}

#[derive(Serialize)]
struct QueueTaskStatusJson<'a> {
    name: &'a str,
    state: &'static str,
    run: Option<&'a str>,
    status: Option<RunStatus>,
    because: String,
    spent_usd: f64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct TaskCounts {
    done: usize,
    at_work: usize,
    open: usize,
    parked: usize,
}

/// Queues that can be continued: not everything has landed, and their file exists. Queues with an unreadable record are
/// skipped here; the error appears when such a queue is named.
fn unfinished_queues(home: &RalphHome) -> Vec<QueueStatus> {
    let mut all = all_queues(home);
    all.retain(|one| one.has_file && one.count().done < one.tasks.tasks.len());
    all
}

/// The queues that `ralph status` shows: the named one, all, or the unfinished ones.
pub(crate) fn queues_for_status(
    home: &RalphHome,
    named: Option<QueueStatus>,
    args: &cli::StatusArgs,
) -> Vec<QueueStatus> {
    match (named, &args.name) {
        (Some(queue), _) => vec![queue],
        (None, Some(_)) => Vec::new(),
        (None, None) if args.all => all_queues(home),
        (None, None) => unfinished_queues(home),
    }
}

fn all_queues(home: &RalphHome) -> Vec<QueueStatus> {
    let names = fs::list(&home.queues(), MAX_QUEUES).unwrap_or_default();
    let ids = names.iter().filter_map(|name| QueueId::parse(name.to_str()?));
    ids.filter_map(|id| load_queue_status(home, id).ok().flatten()).collect()
}

pub(crate) fn named_queue(
    home: &RalphHome,
    name: &str,
) -> Result<Option<QueueStatus>, CommandFailure> {
    QueueId::parse(name).map_or(Ok(None), |id| load_queue_status(home, id))
}

fn load_queue_status(home: &RalphHome, id: QueueId) -> Result<Option<QueueStatus>, CommandFailure> {
    let Some(past) = QueueRecord::read(home, &id).map_err(super::book_failure)? else {
        return Ok(None);
    };
    let Some(opening) = &past.opening else { return Ok(None) };
    let project = opening.project.clone();
    let (queue, known, is_there) = if let Ok(queue) = queue::read_queue(&opening.source) {
        let known = queue_progress::known_tasks(home, &queue.tasks, &past);
        (queue, known, true)
    } else {
        let (tasks, known) = past.tasks.iter().map(recorded_task).unzip();
        (TaskQueue { source: opening.source.clone(), tasks }, known, false)
    };
    let tasks = queue_outcome(home, (&queue, known), &past);
    Ok(Some(QueueStatus { id, queue, project, tasks, has_file: is_there }))
}

/// A task of a queue whose file can no longer be read.
fn recorded_task((name, tried): (&String, &QueueTaskHistory)) -> (QueueTask, KnownQueueTask) {
    let task = QueueTask { name: name.clone(), ..QueueTask::default() };
    (
        task,
        KnownQueueTask {
            end: tried.end.clone(),
            run: tried.run.clone(),
            ..KnownQueueTask::default()
        },
    )
}

fn queue_outcome(
    home: &RalphHome,
    (queue, known): (&TaskQueue, Vec<KnownQueueTask>),
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
    fn count(&self) -> TaskCounts {
        let mut count = TaskCounts::default();
        for task in &self.tasks.tasks {
            match task.state {
                QueueTaskState::Done => count.done += 1,
                QueueTaskState::Running => count.at_work += 1,
                QueueTaskState::Ready | QueueTaskState::Waits(_) | QueueTaskState::Blocked(_) => {
                    count.open += 1
                }
                QueueTaskState::Parked => count.parked += 1,
            }
        }
        count
    }

    /// Keeps only the runs of this queue.
    pub(crate) fn retain_runs(&self, runs: &mut Vec<RunView>, unreadable: &mut Vec<UnreadableRun>) {
        runs.retain(|view| self.has_run(&view.opened.run.id));
        unreadable.retain(|one| self.has_run(&one.run));
    }

    fn has_run(&self, run: &RunId) -> bool {
        self.tasks.tasks.iter().any(|task| task.run.as_ref() == Some(run))
    }

    /// Its id, its progress, and how to continue it.
    pub(crate) fn paragraph(&self) -> String {
        let id = self.id.as_str();
        let more = format!("`ralph status {id}` shows its tasks");
        let next = match self.next_step() {
            Some(next) => format!("{next}, {more}"),
            None => more,
        };
        format!("{}          {next}\n", self.head())
    }

    /// Like [`Self::paragraph`], with every task.
    pub(crate) fn render_tasks(&self) -> String {
        let columns = term::columns().min(WIDEST);
        let rows = queue_report::task_rows(&self.queue, &self.tasks, columns);
        let next = self
            .next_step()
            .map(|next| labelled_line("", &paint(term::DIM, "next"), &next, columns));
        format!("{}{rows}{}", self.head(), next.unwrap_or_default())
    }

    fn head(&self) -> String {
        let TaskCounts { done, at_work, open, parked } = self.count();
        let all = self.tasks.tasks.len();
        let source = safe_line(&self.queue.source.to_string_lossy());
        let spent = format_usd(self.tasks.spent_micro_usd);
        let id = paint(term::BOLD, self.id.as_str());
        format!(
            "{id}  queue  `{source}`\n          {done} of {all} tasks landed · {at_work} running · {open} open · {parked} parked · {spent}\n"
        )
    }

    fn next_step(&self) -> Option<String> {
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

    pub(crate) fn json(&self) -> QueueStatusJson<'_> {
        let TaskCounts { done, at_work, open, parked } = self.count();
        let tasks = self.queue.tasks.iter().zip(&self.tasks.tasks).map(|(task, became)| {
            QueueTaskStatusJson {
                name: &task.name,
                state: queue_report::state_name(became.state),
                run: became.run.as_ref().map(RunId::as_str),
                status: became.end.as_ref().and_then(|end| end.status),
                because: queue_report::reason_text(&self.queue, became, None),
                spent_usd: micro_usd_as_usd(became.spent_micro_usd),
            }
        });
        let is_over = done == self.tasks.tasks.len();
        QueueStatusJson {
            queue: self.id.as_str(),
            source: self.queue.source.to_string_lossy().into_owned(),
            project: self.project.to_string_lossy().into_owned(),
            done,
            at_work,
            open,
            parked,
            spent_usd: micro_usd_as_usd(self.tasks.spent_micro_usd),
            tasks: tasks.collect(),
            resume: (!is_over).then(|| format!("ralph run --resume {}", self.id.as_str())),
        }
    }

    fn not_a_run_failure(&self) -> CommandFailure {
        let id = self.id.as_str();
        let tasks = self.queue.tasks.iter().zip(&self.tasks.tasks);
        let runs: Vec<_> = tasks
            .filter_map(|(task, became)| Some(format!("{} ({})", became.run.as_ref()?, task.name)))
            .collect();
        let shown = runs.get(..SHOWN_RUNS).unwrap_or(&runs).join(", ");
        let what = match runs.len().saturating_sub(SHOWN_RUNS) {
            _ if runs.is_empty() => format!("`{id}` is a queue, and none of its runs has started"),
            0 => format!("`{id}` is a queue, not a run; its runs are {shown}"),
            more => format!("`{id}` is a queue, not a run; its runs are {shown} and {more} more"),
        };
        CommandFailure::new(
            &what,
            &format!("name one of them; `ralph status {id}` shows its tasks"),
        )
    }
}

/// Turns the error about an unknown name into a hint, if the name is that of a queue.
pub(crate) fn unknown_name_failure(home: &RalphHome, error: ControlError) -> CommandFailure {
    let ControlError::UnknownName(name) = &error else { return error.into() };
    match named_queue(home, name) {
        Ok(Some(queue)) => queue.not_a_run_failure(),
        Ok(None) | Err(_) => error.into(),
    }
}
