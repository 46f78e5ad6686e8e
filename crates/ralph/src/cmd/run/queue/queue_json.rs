//! The JSON output of a queue: the events of its runs, each with its task, and the events of the queue itself.

use super::super::drive_view::DriveOutput;
use super::queue_report;
use crate::describe::micro_usd_as_usd;
use ralph_core::id::RunId;
use ralph_core::status::RunStatus;
use ralph_drive::queue::{
    KnownQueueTask, QueueId, QueueOutcome, QueueTask, QueueTaskEnd, QueueTaskEnding,
    QueueTaskOrder, QueueTaskOutput, TaskQueue,
};
use ralph_sys::clock;
use serde::Serialize;
use serde_json::Value;

pub(super) struct QueueJsonLines<'a, O> {
    output: O,
    id: &'a QueueId,
    queue: &'a TaskQueue,
    now_ms: fn() -> u64,
}

#[derive(Serialize)]
struct QueueJsonLine<'a> {
    v: u8,
    at: String,
    queue: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<&'a str>,
    #[serde(flatten)]
    event: QueueEventJson<'a>,
}

#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum QueueEventJson<'a> {
    QueueOpened {
        source: String,
        tasks: Vec<QueueTaskJson<'a>>,
    },
    TaskStarted {
        run: Option<&'a str>,
        max_cost_usd: Option<f64>,
        max_duration_ms: Option<u64>,
    },
    TaskEnded(TaskEndJson<'a>),
    QueueEnded {
        exit_code: u8,
        stopped: Option<&'static str>,
        spent_usd: f64,
        tasks: Vec<TaskOutcomeJson<'a>>,
    },
}

#[derive(Serialize)]
struct QueueTaskJson<'a> {
    name: &'a str,
    after: Vec<&'a str>,
    landed: bool,
}

#[derive(Serialize)]
struct TaskEndJson<'a> {
    landed: bool,
    status: Option<RunStatus>,
    because: &'a str,
}

#[derive(Serialize)]
struct TaskOutcomeJson<'a> {
    name: &'a str,
    state: &'static str,
    run: Option<&'a str>,
    status: Option<RunStatus>,
    because: String,
    spent_usd: f64,
}

impl<'a, O: DriveOutput> QueueJsonLines<'a, O> {
    pub(super) fn new(
        output: O,
        (id, queue): (&'a QueueId, &'a TaskQueue),
        now_ms: fn() -> u64,
    ) -> Self {
        Self { output, id, queue, now_ms }
    }

    pub(super) fn opened(&mut self, known: &[KnownQueueTask]) {
        let source = self.queue.source.to_string_lossy().into_owned();
        let tasks = self.queue.tasks.iter().zip(known).map(|(task, known)| QueueTaskJson {
            name: &task.name,
            after: predecessor_names(self.queue, task),
            landed: known.end.as_ref().is_some_and(|end| end.how == QueueTaskEnding::Landed),
        });
        let tasks = tasks.collect();
        self.print_line(None, QueueEventJson::QueueOpened { source, tasks });
    }

    pub(super) fn started(&mut self, task: usize, how: &QueueTaskOrder) {
        let event = QueueEventJson::TaskStarted {
            run: how.run.as_ref().map(RunId::as_str),
            max_cost_usd: how.max_cost_micro_usd.map(micro_usd_as_usd),
            max_duration_ms: how.max_duration_ms,
        };
        self.print_line(Some(task), event);
    }

    /// The line of a run, with the queue and the task added.
    pub(super) fn on_run_event(&mut self, task: usize, heard: &QueueTaskOutput) {
        let Value::Object(fields) = &heard.line else { return };
        let mut fields = fields.clone();
        fields.retain(|name, _| !["v", "queue", "task"].contains(&name.as_str()));
        let place = self.queue.tasks.get(task).map(|task| task.name.as_str());
        let (id, place) = (Value::from(self.id.as_str()), Value::from(place));
        let rest = Value::Object(fields).to_string();
        let rest = rest.strip_prefix('{').filter(|rest| *rest != "}").unwrap_or("\"event\":null}");
        self.output.print(&format!("{{\"v\":1,\"queue\":{id},\"task\":{place},{rest}\n"));
    }

    pub(super) fn ended(&mut self, task: usize, end: &QueueTaskEnd) {
        let landed = end.how == QueueTaskEnding::Landed;
        let event = TaskEndJson { landed, status: end.status, because: &end.why };
        self.print_line(Some(task), QueueEventJson::TaskEnded(event));
    }

    pub(super) fn close(mut self, outcome: &QueueOutcome) -> O {
        let tasks =
            self.queue.tasks.iter().zip(&outcome.tasks).map(|(task, became)| TaskOutcomeJson {
                name: &task.name,
                state: queue_report::state_name(became.state),
                run: became.run.as_ref().map(RunId::as_str),
                status: became.end.as_ref().and_then(|end| end.status),
                because: queue_report::reason_text(self.queue, became, outcome.stopped),
                spent_usd: micro_usd_as_usd(became.spent_micro_usd),
            });
        let event = QueueEventJson::QueueEnded {
            exit_code: queue_report::exit_code(outcome),
            stopped: outcome.stopped.map(queue_report::stop_name),
            spent_usd: micro_usd_as_usd(outcome.spent_micro_usd),
            tasks: tasks.collect(),
        };
        self.print_line(None, event);
        self.output
    }

    fn print_line(&mut self, task: Option<usize>, event: QueueEventJson<'_>) {
        let task = task.and_then(|task| self.queue.tasks.get(task));
        let line = QueueJsonLine {
            v: 1,
            at: clock::format_rfc3339((self.now_ms)()),
            queue: self.id.as_str(),
            task: task.map(|task| task.name.as_str()),
            event,
        };
        // The types consist of strings, numbers and lists; serialising them cannot fail.
        let mut line = serde_json::to_string(&line).unwrap_or_default();
        line.push('\n');
        self.output.print(&line);
    }
}

pub(super) fn predecessor_names<'a>(queue: &'a TaskQueue, task: &QueueTask) -> Vec<&'a str> {
    let after = task.after.iter().filter_map(|at| queue.tasks.get(*at));
    after.map(|task| task.name.as_str()).collect()
}
