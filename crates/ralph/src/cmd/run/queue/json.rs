//! The JSON output of a queue: the events of its runs, each with its task, and the events of the queue itself.

use super::super::view::Output;
use super::report;
use crate::wording::usd;
use ralph_core::id::RunId;
use ralph_core::status::Status;
use ralph_drive::queue::{End, Ending, Heard, Known, Order, Outcome, Queue, QueueId, Task};
use ralph_sys::clock;
use serde::Serialize;
use serde_json::Value;

pub(super) struct Lines<'a, O> {
    output: O,
    id: &'a QueueId,
    queue: &'a Queue,
    now_ms: fn() -> u64,
}

#[derive(Serialize)]
struct Line<'a> {
    v: u8,
    at: String,
    queue: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<&'a str>,
    #[serde(flatten)]
    told: Told<'a>,
}

#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Told<'a> {
    QueueOpened {
        source: String,
        tasks: Vec<TaskJson<'a>>,
    },
    TaskStarted {
        run: Option<&'a str>,
        max_cost_usd: Option<f64>,
        max_duration_ms: Option<u64>,
    },
    TaskEnded(EndJson<'a>),
    QueueEnded {
        exit_code: u8,
        stopped: Option<&'static str>,
        spent_usd: f64,
        tasks: Vec<BecameJson<'a>>,
    },
}

#[derive(Serialize)]
struct TaskJson<'a> {
    name: &'a str,
    after: Vec<&'a str>,
    landed: bool,
}

#[derive(Serialize)]
struct EndJson<'a> {
    landed: bool,
    status: Option<Status>,
    because: &'a str,
}

#[derive(Serialize)]
struct BecameJson<'a> {
    name: &'a str,
    state: &'static str,
    run: Option<&'a str>,
    status: Option<Status>,
    because: String,
    spent_usd: f64,
}

impl<'a, O: Output> Lines<'a, O> {
    pub(super) fn new(
        output: O,
        (id, queue): (&'a QueueId, &'a Queue),
        now_ms: fn() -> u64,
    ) -> Self {
        Self { output, id, queue, now_ms }
    }

    pub(super) fn opened(&mut self, known: &[Known]) {
        let source = self.queue.source.to_string_lossy().into_owned();
        let tasks = self.queue.tasks.iter().zip(known).map(|(task, known)| TaskJson {
            name: &task.name,
            after: names(self.queue, task),
            landed: known.end.as_ref().is_some_and(|end| end.how == Ending::Landed),
        });
        let tasks = tasks.collect();
        self.say(None, Told::QueueOpened { source, tasks });
    }

    pub(super) fn started(&mut self, task: usize, how: &Order) {
        let event = Told::TaskStarted {
            run: how.run.as_ref().map(RunId::as_str),
            max_cost_usd: how.max_cost_micro_usd.map(usd),
            max_duration_ms: how.max_duration_ms,
        };
        self.say(Some(task), event);
    }

    /// The line of a run, with the queue and the task added.
    pub(super) fn heard(&mut self, task: usize, heard: &Heard) {
        let Value::Object(fields) = &heard.line else { return };
        let mut fields = fields.clone();
        fields.retain(|name, _| !["v", "queue", "task"].contains(&name.as_str()));
        let place = self.queue.tasks.get(task).map(|task| task.name.as_str());
        let (id, place) = (Value::from(self.id.as_str()), Value::from(place));
        let rest = Value::Object(fields).to_string();
        let rest = rest.strip_prefix('{').filter(|rest| *rest != "}").unwrap_or("\"event\":null}");
        self.output.print(&format!("{{\"v\":1,\"queue\":{id},\"task\":{place},{rest}\n"));
    }

    pub(super) fn ended(&mut self, task: usize, end: &End) {
        let landed = end.how == Ending::Landed;
        let event = EndJson { landed, status: end.status, because: &end.why };
        self.say(Some(task), Told::TaskEnded(event));
    }

    pub(super) fn close(mut self, outcome: &Outcome) -> O {
        let tasks = self.queue.tasks.iter().zip(&outcome.tasks).map(|(task, became)| BecameJson {
            name: &task.name,
            state: report::state(became.stand),
            run: became.run.as_ref().map(RunId::as_str),
            status: became.end.as_ref().and_then(|end| end.status),
            because: report::why(self.queue, became, outcome.stopped),
            spent_usd: usd(became.spent_micro_usd),
        });
        let event = Told::QueueEnded {
            exit_code: report::exit_code(outcome),
            stopped: outcome.stopped.map(report::stopped),
            spent_usd: usd(outcome.spent_micro_usd),
            tasks: tasks.collect(),
        };
        self.say(None, event);
        self.output
    }

    fn say(&mut self, task: Option<usize>, event: Told<'_>) {
        let task = task.and_then(|task| self.queue.tasks.get(task));
        let line = Line {
            v: 1,
            at: clock::rfc3339((self.now_ms)()),
            queue: self.id.as_str(),
            task: task.map(|task| task.name.as_str()),
            told: event,
        };
        // The types consist of strings, numbers and lists; serialising them cannot fail.
        let mut line = serde_json::to_string(&line).unwrap_or_default();
        line.push('\n');
        self.output.print(&line);
    }
}

pub(super) fn names<'a>(queue: &'a Queue, task: &Task) -> Vec<&'a str> {
    let after = task.after.iter().filter_map(|at| queue.tasks.get(*at));
    after.map(|task| task.name.as_str()).collect()
}
