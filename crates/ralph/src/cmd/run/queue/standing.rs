//! The status of queues, from their records and those of their runs, for `ralph status`.

use super::super::screen::line_of;
use super::{known, report};
use crate::cli;
use crate::report::Failure;
use crate::term::{self, paint};
use crate::wording::{safe, usd};
use ralph_core::id::RunId;
use ralph_core::limits::money;
use ralph_core::status::Status;
use ralph_drive::queue::{
    self, Became, Book, End, Ending, Known, Outcome, Past, Queue, QueueId, Schedule, Stand, Task,
    Tried,
};
use ralph_home::paths::Home;
use ralph_hook::control::ControlError;
use ralph_hook::overview::{RunView, Unreadable};
use ralph_sys::fs;
use serde::Serialize;
use std::path::PathBuf;

const MOST_QUEUES: usize = 10_000;
const SHOWN_RUNS: usize = 8;
const WIDEST: usize = 100;

pub(crate) struct Standing {
    id: QueueId,
    queue: Queue,
    project: PathBuf,
    tasks: Outcome,
    /// Whether its file can still be read.
    is_there: bool,
}

#[derive(Serialize)]
pub(crate) struct QueueJson<'a> {
    queue: &'a str,
    source: String,
    project: String,
    done: usize,
    at_work: usize,
    open: usize,
    parked: usize,
    spent_usd: f64,
    tasks: Vec<TaskJson<'a>>,
    /// The command that continues it, while anything is left.
    resume: Option<String>,
}

#[derive(Serialize)]
struct TaskJson<'a> {
    name: &'a str,
    state: &'static str,
    run: Option<&'a str>,
    status: Option<Status>,
    because: String,
    spent_usd: f64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    done: usize,
    at_work: usize,
    open: usize,
    parked: usize,
}

/// Queues that can be continued: not everything has landed, and their file exists. Queues with an unreadable record are
/// skipped here; the error appears when such a queue is named.
fn unfinished(home: &Home) -> Vec<Standing> {
    let mut all = every(home);
    all.retain(|one| one.is_there && one.count().done < one.tasks.tasks.len());
    all
}

/// The queues that `ralph status` shows: the named one, all, or the unfinished ones.
pub(crate) fn of_status(home: &Home, named: Option<Standing>, args: &cli::Status) -> Vec<Standing> {
    match (named, &args.name) {
        (Some(queue), _) => vec![queue],
        (None, Some(_)) => Vec::new(),
        (None, None) if args.all => every(home),
        (None, None) => unfinished(home),
    }
}

fn every(home: &Home) -> Vec<Standing> {
    let names = fs::list(&home.queues(), MOST_QUEUES).unwrap_or_default();
    let ids = names.iter().filter_map(|name| QueueId::parse(name.to_str()?));
    ids.filter_map(|id| of(home, id).ok().flatten()).collect()
}

pub(crate) fn named(home: &Home, name: &str) -> Result<Option<Standing>, Failure> {
    QueueId::parse(name).map_or(Ok(None), |id| of(home, id))
}

fn of(home: &Home, id: QueueId) -> Result<Option<Standing>, Failure> {
    let Some(past) = Book::look(home, &id).map_err(super::failed)? else { return Ok(None) };
    let Some(opening) = &past.opening else { return Ok(None) };
    let project = opening.project.clone();
    let (queue, known, is_there) = if let Ok(queue) = queue::read(&opening.source) {
        let known = known::all(home, &queue.tasks, &past);
        (queue, known, true)
    } else {
        let (tasks, known) = past.tasks.iter().map(recorded).unzip();
        (Queue { source: opening.source.clone(), tasks }, known, false)
    };
    let tasks = outcome(home, (&queue, known), &past);
    Ok(Some(Standing { id, queue, project, tasks, is_there }))
}

/// A task of a queue whose file can no longer be read.
fn recorded((name, tried): (&String, &Tried)) -> (Task, Known) {
    let task = Task { name: name.clone(), ..Task::default() };
    (task, Known { end: tried.end.clone(), run: tried.run.clone(), ..Known::default() })
}

fn outcome(home: &Home, (queue, known): (&Queue, Vec<Known>), past: &Past) -> Outcome {
    let mut schedule = Schedule::new(&queue.tasks, 1);
    let mut became = Vec::new();
    for (at, (task, known)) in queue.tasks.iter().zip(known).enumerate() {
        let is_at_work = known
            .run
            .as_ref()
            .is_some_and(|run| ralph_home::run_process::runner(home, run).is_some());
        let end = match (known.end, &known.run) {
            (Some(end), _) => Some(end),
            (None, Some(_)) if is_at_work => None,
            (None, Some(_)) => Some(left(past.tasks.get(&task.name))),
            (None, None) => None,
        };
        match &end {
            Some(end) => schedule.end(at, end.how),
            None if is_at_work => schedule.start(at),
            None => {}
        }
        let spent_micro_usd = known.spent_before.saturating_add(known.spent_by_run);
        became.push(Became { stand: Stand::Ready, end, run: known.run, spent_micro_usd });
    }
    for (at, one) in became.iter_mut().enumerate() {
        one.stand = schedule.stand(at);
    }
    let spent_micro_usd =
        became.iter().fold(0_u64, |sum, one| sum.saturating_add(one.spent_micro_usd));
    Outcome { tasks: became, stopped: None, spent_micro_usd }
}

/// The end of a task whose run has not ended but has no runner.
fn left(tried: Option<&Tried>) -> End {
    tried.and_then(|tried| tried.end.clone()).unwrap_or_else(|| End {
        how: Ending::Parked,
        status: Some(Status::Crashed),
        why: "no runner drives it any more".to_string(),
    })
}

impl Standing {
    fn count(&self) -> Count {
        let mut count = Count::default();
        for task in &self.tasks.tasks {
            match task.stand {
                Stand::Done => count.done += 1,
                Stand::Running => count.at_work += 1,
                Stand::Ready | Stand::Waits(_) | Stand::Blocked(_) => count.open += 1,
                Stand::Parked => count.parked += 1,
            }
        }
        count
    }

    /// Keeps only the runs of this queue.
    pub(crate) fn keep(&self, runs: &mut Vec<RunView>, unreadable: &mut Vec<Unreadable>) {
        runs.retain(|view| self.has(&view.opened.run.id));
        unreadable.retain(|one| self.has(&one.run));
    }

    fn has(&self, run: &RunId) -> bool {
        self.tasks.tasks.iter().any(|task| task.run.as_ref() == Some(run))
    }

    /// Its id, its progress, and how to continue it.
    pub(crate) fn paragraph(&self) -> String {
        let id = self.id.as_str();
        let more = format!("`ralph status {id}` shows its tasks");
        let next = match self.next() {
            Some(next) => format!("{next}, {more}"),
            None => more,
        };
        format!("{}          {next}\n", self.head())
    }

    /// Like [`Self::paragraph`], with every task.
    pub(crate) fn shown(&self) -> String {
        let columns = term::columns().min(WIDEST);
        let rows = report::rows(&self.queue, &self.tasks, columns);
        let next = self.next().map(|next| line_of("", &paint(term::DIM, "next"), &next, columns));
        format!("{}{rows}{}", self.head(), next.unwrap_or_default())
    }

    fn head(&self) -> String {
        let Count { done, at_work, open, parked } = self.count();
        let all = self.tasks.tasks.len();
        let source = safe(&self.queue.source.to_string_lossy());
        let spent = money(self.tasks.spent_micro_usd);
        let id = paint(term::BOLD, self.id.as_str());
        format!(
            "{id}  queue  `{source}`\n          {done} of {all} tasks landed · {at_work} running · {open} open · {parked} parked · {spent}\n"
        )
    }

    fn next(&self) -> Option<String> {
        let Count { done, at_work, .. } = self.count();
        if at_work > 0 || done == self.tasks.tasks.len() {
            return None;
        }
        Some(if self.is_there {
            format!("`ralph run --resume {}` continues", self.id.as_str())
        } else {
            "its file can no longer be read".to_string()
        })
    }

    pub(crate) fn json(&self) -> QueueJson<'_> {
        let Count { done, at_work, open, parked } = self.count();
        let tasks = self.queue.tasks.iter().zip(&self.tasks.tasks).map(|(task, became)| TaskJson {
            name: &task.name,
            state: report::state(became.stand),
            run: became.run.as_ref().map(RunId::as_str),
            status: became.end.as_ref().and_then(|end| end.status),
            because: report::why(&self.queue, became, None),
            spent_usd: usd(became.spent_micro_usd),
        });
        let is_over = done == self.tasks.tasks.len();
        QueueJson {
            queue: self.id.as_str(),
            source: self.queue.source.to_string_lossy().into_owned(),
            project: self.project.to_string_lossy().into_owned(),
            done,
            at_work,
            open,
            parked,
            spent_usd: usd(self.tasks.spent_micro_usd),
            tasks: tasks.collect(),
            resume: (!is_over).then(|| format!("ralph run --resume {}", self.id.as_str())),
        }
    }

    fn no_run(&self) -> Failure {
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
        Failure::new(&what, &format!("name one of them; `ralph status {id}` shows its tasks"))
    }
}

/// Turns the error about an unknown name into a hint, if the name is that of a queue.
pub(crate) fn unknown(home: &Home, error: ControlError) -> Failure {
    let ControlError::Unknown(name) = &error else { return error.into() };
    match named(home, name) {
        Ok(Some(queue)) => queue.no_run(),
        Ok(None) | Err(_) => error.into(),
    }
}
