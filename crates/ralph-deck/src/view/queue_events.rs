//! The events of a queue, and those of its runs with their task: one line of JSON each.

use crate::view::queue_status::{self, QueueTaskView};
use crate::wording::micro_usd_as_usd;
use ralph_core::id::RunId;
use ralph_core::status::RunStatus;
use ralph_drive::queue::{
    KnownQueueTask, QueueId, QueueOutcome, QueueTask, QueueTaskEnd, QueueTaskEnding,
    QueueTaskOrder, TaskQueue,
};
use ralph_sys::clock;
use serde::Serialize;
use serde_json::Value;

/// What the lines of one queue have in common.
#[derive(Clone, Copy, Debug)]
pub struct QueueEventLines<'a> {
    pub id: &'a QueueId,
    pub queue: &'a TaskQueue,
}

#[derive(Debug, Serialize)]
pub struct QueueEventView<'a> {
    pub v: u8,
    pub at: String,
    pub queue: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<&'a str>,
    #[serde(flatten)]
    pub event: QueueEventBody<'a>,
}

#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum QueueEventBody<'a> {
    QueueOpened {
        source: String,
        tasks: Vec<OpenedTaskView<'a>>,
    },
    TaskStarted {
        run: Option<&'a str>,
        max_cost_usd: Option<f64>,
        max_duration_ms: Option<u64>,
    },
    TaskEnded(TaskEndView<'a>),
    QueueEnded {
        exit_code: u8,
        stopped: Option<&'static str>,
        spent_usd: f64,
        tasks: Vec<QueueTaskView<'a>>,
    },
}

#[derive(Debug, Serialize)]
pub struct OpenedTaskView<'a> {
    pub name: &'a str,
    pub after: Vec<&'a str>,
    pub landed: bool,
}

#[derive(Debug, Serialize)]
pub struct TaskEndView<'a> {
    pub landed: bool,
    pub status: Option<RunStatus>,
    pub because: &'a str,
}

impl<'a> QueueEventLines<'a> {
    pub fn opened(&self, known: &[KnownQueueTask], now_ms: u64) -> QueueEventView<'a> {
        let source = self.queue.source.to_string_lossy().into_owned();
        let tasks = self.queue.tasks.iter().zip(known).map(|(task, known)| OpenedTaskView {
            name: &task.name,
            after: predecessor_names(self.queue, task),
            landed: known.end.as_ref().is_some_and(|end| end.how == QueueTaskEnding::Landed),
        });
        let tasks = tasks.collect();
        self.line(None, QueueEventBody::QueueOpened { source, tasks }, now_ms)
    }

    pub fn started<'b>(
        &self,
        task: usize,
        order: &'b QueueTaskOrder,
        now_ms: u64,
    ) -> QueueEventView<'b>
    where
        'a: 'b,
    {
        let event = QueueEventBody::TaskStarted {
            run: order.run.as_ref().map(RunId::as_str),
            max_cost_usd: order.max_cost_micro_usd.map(micro_usd_as_usd),
            max_duration_ms: order.max_duration_ms,
        };
        self.line(Some(task), event, now_ms)
    }

    pub fn ended<'b>(&self, task: usize, end: &'b QueueTaskEnd, now_ms: u64) -> QueueEventView<'b>
    where
        'a: 'b,
    {
        let landed = end.how == QueueTaskEnding::Landed;
        let event = TaskEndView { landed, status: end.status, because: &end.why };
        self.line(Some(task), QueueEventBody::TaskEnded(event), now_ms)
    }

    pub fn closed<'b>(&self, outcome: &'b QueueOutcome, now_ms: u64) -> QueueEventView<'b>
    where
        'a: 'b,
    {
        let event = QueueEventBody::QueueEnded {
            exit_code: queue_status::queue_exit_code(outcome),
            stopped: outcome.stopped.map(queue_status::stop_name),
            spent_usd: micro_usd_as_usd(outcome.spent_micro_usd),
            tasks: queue_status::task_views(self.queue, outcome),
        };
        self.line(None, event, now_ms)
    }

    /// The line of a run, with the queue and the task added; `None` if it is not an object.
    pub fn run_line(&self, task: usize, line: &Value) -> Option<String> {
        let Value::Object(fields) = line else { return None };
        let mut fields = fields.clone();
        fields.retain(|name, _| !["v", "queue", "task"].contains(&name.as_str()));
        let task = self.queue.tasks.get(task).map(|task| task.name.as_str());
        let (id, task) = (Value::from(self.id.as_str()), Value::from(task));
        let rest = Value::Object(fields).to_string();
        let rest = rest.strip_prefix('{').filter(|rest| *rest != "}").unwrap_or("\"event\":null}");
        Some(format!("{{\"v\":1,\"queue\":{id},\"task\":{task},{rest}"))
    }

    fn line<'b>(
        &self,
        task: Option<usize>,
        event: QueueEventBody<'b>,
        now_ms: u64,
    ) -> QueueEventView<'b>
    where
        'a: 'b,
    {
        let task = task.and_then(|task| self.queue.tasks.get(task));
        QueueEventView {
            v: 1,
            at: clock::format_rfc3339(now_ms),
            queue: self.id.as_str(),
            task: task.map(|task| task.name.as_str()),
            event,
        }
    }
}

/// The names of the tasks that come before a task.
pub fn predecessor_names<'a>(queue: &'a TaskQueue, task: &QueueTask) -> Vec<&'a str> {
    let after = task.after.iter().filter_map(|at| queue.tasks.get(*at));
    after.map(|task| task.name.as_str()).collect()
}
