//! Runs a queue: starts the tasks that may start, handles their events, and records every result before it continues.

use std::time::Duration;

use ralph_core::id::RunId;
use ralph_core::limits::LimitKind;
use ralph_core::status::RunStatus;
use ralph_core::units::format_usd;
use ralph_sys::fs::FileError;
use serde_json::Value;

use super::queue_record::QueueRecordEntry;
use super::{QueueBudget, QueueTask, QueueTaskEnd, QueueTaskEnding, QueueTaskState, TaskSchedule};
use crate::stop_requests::{StopRequest, StopRequests};

const TICK: Duration = Duration::from_millis(100);

/// The parameters for starting a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueTaskOrder {
    pub task: usize,
    /// The run to resume; `None` starts a new one.
    pub run: Option<RunId>,
    /// The most that the run may cost in total; `None` means no limit.
    pub max_cost_micro_usd: Option<u64>,
    /// The remaining time; `None` means no limit.
    pub max_duration_ms: Option<u64>,
}

/// Executes tasks. Every started task must eventually produce an end event.
pub trait QueueWorker {
    /// Starts a task. The error is the reason for people.
    fn start(&mut self, order: &QueueTaskOrder) -> Result<(), String>;

    /// The next event of any task, if one occurs within `wait`.
    fn poll(&mut self, wait: Duration) -> Option<(usize, QueueTaskEvent)>;

    /// Raises the cost limit of a running task.
    fn raise_cost_limit(&mut self, task: usize, max_cost_micro_usd: u64);

    fn request_stop(&mut self, wish: StopRequest);
}

#[derive(Clone, Debug, PartialEq)]
pub enum QueueTaskEvent {
    Output(Box<QueueTaskOutput>),
    Ended(QueueTaskEnd),
}

/// One line of a run's JSON output.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueueTaskOutput {
    pub run: Option<RunId>,
    /// Total cost of this run.
    pub spent_micro_usd: Option<u64>,
    pub line: Value,
}

/// Receives the events of a queue.
pub trait QueueWatcher {
    fn started(&mut self, task: usize, how: &QueueTaskOrder);
    fn output(&mut self, task: usize, heard: &QueueTaskOutput);
    fn ended(&mut self, task: usize, end: &QueueTaskEnd);
    /// Called several times a second.
    fn tick(&mut self, schedule: &TaskSchedule, purse: &QueueBudget);
}

/// What is known about a task before the queue starts.
#[derive(Clone, Debug, Default)]
pub struct KnownQueueTask {
    /// The task's last end, if it is still valid.
    pub end: Option<QueueTaskEnd>,
    /// The run to resume.
    pub run: Option<RunId>,
    /// Cost of earlier runs that are not resumed.
    pub spent_before: u64,
    /// Cost of the run that is resumed.
    pub spent_by_run: u64,
}

/// The tasks, limits and prior state of a queue to run.
#[derive(Debug)]
pub struct QueuePlan<'a> {
    pub tasks: &'a [QueueTask],
    pub known: Vec<KnownQueueTask>,
    pub parallel: usize,
    pub max_cost_micro_usd: Option<u64>,
    /// No task is started with less than this left.
    pub least_micro_usd: u64,
    /// Deadline of the whole queue.
    pub until_ms: Option<u64>,
}

/// The connections of a running queue: worker, watcher, record, stop requests and clock.
pub struct QueueContext<'a> {
    pub worker: &'a mut dyn QueueWorker,
    pub watcher: &'a mut dyn QueueWatcher,
    /// Records an entry; called before the entry is acted on.
    pub note: &'a mut dyn FnMut(QueueRecordEntry) -> Result<(), FileError>,
    pub stop_requests: &'a StopRequests,
    pub now_ms: fn() -> u64,
}

impl std::fmt::Debug for QueueContext<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QueueContext")
            .field("stop_requests", &self.stop_requests)
            .finish_non_exhaustive()
    }
}

/// The result of running a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueOutcome {
    pub tasks: Vec<QueueTaskOutcome>,
    /// Why no further task was started although one could have been.
    pub stopped: Option<QueueStopReason>,
    pub spent_micro_usd: u64,
}

/// The final state of one task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueTaskOutcome {
    pub state: QueueTaskState,
    pub end: Option<QueueTaskEnd>,
    pub run: Option<RunId>,
    pub spent_micro_usd: u64,
}

/// Why a queue stopped starting tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueStopReason {
    Cancelled,
    /// What is left is less than a task needs to start.
    OutOfBudget {
        left_micro_usd: u64,
        least_micro_usd: u64,
    },
    OutOfTime,
}

/// Runs the queue until every task is done or none can start.
pub fn run_queue(
    plan: QueuePlan<'_>,
    ctx: &mut QueueContext<'_>,
) -> Result<QueueOutcome, FileError> {
    let mut work = QueueLoop::new(plan);
    loop {
        work.check_stop_request(ctx);
        work.start_tasks(ctx)?;
        ctx.watcher.tick(&work.schedule, &work.budget);
        if work.schedule.running_count() == 0 {
            break;
        }
        if let Some((task, event)) = ctx.worker.poll(TICK) {
            work.handle_event(ctx, task, event)?;
        }
    }
    (ctx.note)(QueueRecordEntry::Closed {})?;
    Ok(work.outcome())
}

struct QueueLoop<'a> {
    plan: QueuePlan<'a>,
    schedule: TaskSchedule,
    budget: QueueBudget,
    stop_request: StopRequest,
    stopped: Option<QueueStopReason>,
}

impl<'a> QueueLoop<'a> {
    fn new(plan: QueuePlan<'a>) -> Self {
        let mut schedule = TaskSchedule::new(plan.tasks, plan.parallel);
        for (task, known) in plan.known.iter().enumerate() {
            if let Some(end) = &known.end {
                schedule.end(task, end.how);
            }
        }
        let accounts = plan.tasks.iter().zip(&plan.known);
        let accounts: Vec<_> = accounts
            .map(|(task, known)| {
                let spent = known.spent_before.saturating_add(known.spent_by_run);
                (spent, task.terms.limits.get(LimitKind::MaxCost))
            })
            .collect();
        let purse = QueueBudget::new(plan.max_cost_micro_usd, plan.least_micro_usd, &accounts);
        Self { plan, schedule, budget: purse, stop_request: StopRequest::None, stopped: None }
    }

    fn check_stop_request(&mut self, ctx: &mut QueueContext<'_>) {
        let wish = ctx.stop_requests.strongest();
        if wish > self.stop_request {
            self.stop_request = wish;
            self.stopped = Some(QueueStopReason::Cancelled);
            ctx.worker.request_stop(wish);
        }
    }

    fn start_tasks(&mut self, ctx: &mut QueueContext<'_>) -> Result<(), FileError> {
        self.stopped =
            (self.stop_request > StopRequest::None).then_some(QueueStopReason::Cancelled);
        while let Some(task) = self.schedule.next_startable() {
            let left_ms = self.plan.until_ms.map(|until| until.saturating_sub((ctx.now_ms)()));
            self.stopped = match (self.stop_request, left_ms) {
                (StopRequest::AfterTurn | StopRequest::Now, _) => Some(QueueStopReason::Cancelled),
                (StopRequest::None, Some(0)) => Some(QueueStopReason::OutOfTime),
                // Other tasks may still return some of their budget.
                (StopRequest::None, _) => self.budget.shortage(),
            };
            if self.stopped.is_some() {
                return Ok(());
            }
            self.start_task(ctx, task, left_ms)?;
        }
        Ok(())
    }

    fn start_task(
        &mut self,
        ctx: &mut QueueContext<'_>,
        task: usize,
        max_duration_ms: Option<u64>,
    ) -> Result<(), FileError> {
        let Some(known) = self.plan.known.get(task).cloned() else { return Ok(()) };
        let cap = self.budget.reserve(task, self.schedule.startable_count());
        self.schedule.start(task);
        if let Some(cap) = cap.filter(|cap| *cap <= self.budget.spent_on(task)) {
            let why = format!("it has spent its budget of {}", format_usd(cap));
            let end = QueueTaskEnd {
                how: QueueTaskEnding::Parked,
                status: Some(RunStatus::Exhausted),
                why,
            };
            return self.end_task(ctx, task, end);
        }
        let max_cost_micro_usd = cap.map(|cap| cap.saturating_sub(known.spent_before));
        let order = QueueTaskOrder { task, run: known.run, max_cost_micro_usd, max_duration_ms };
        if let Some(of) = self.plan.tasks.get(task) {
            (ctx.note)(QueueRecordEntry::Started {
                task: of.name.clone(),
                asks: of.goal_digest(),
                terms: of.terms_digest(),
                run: order.run.clone(),
            })?;
        }
        match ctx.worker.start(&order) {
            Ok(()) => {
                ctx.watcher.started(task, &order);
                Ok(())
            }
            Err(why) => self.end_task(
                ctx,
                task,
                QueueTaskEnd { how: QueueTaskEnding::Parked, status: None, why },
            ),
        }
    }

    fn handle_event(
        &mut self,
        ctx: &mut QueueContext<'_>,
        task: usize,
        event: QueueTaskEvent,
    ) -> Result<(), FileError> {
        let heard = match event {
            QueueTaskEvent::Output(heard) => heard,
            QueueTaskEvent::Ended(end) => {
                self.end_task(ctx, task, end)?;
                if self.schedule.startable_count() == 0 {
                    self.share_out(ctx);
                }
                return Ok(());
            }
        };
        let Some(known) = self.plan.known.get_mut(task) else { return Ok(()) };
        if let Some(run) = &heard.run
            && known.run.as_ref() != Some(run)
            && let Some(of) = self.plan.tasks.get(task)
        {
            (ctx.note)(QueueRecordEntry::Runs { task: of.name.clone(), run: run.clone() })?;
            known.run = Some(run.clone());
        }
        if let Some(spent) = heard.spent_micro_usd {
            self.budget.record_spent(task, known.spent_before.saturating_add(spent));
        }
        ctx.watcher.output(task, &heard);
        Ok(())
    }

    /// Distributes budget that no waiting task can use among the running tasks.
    fn share_out(&mut self, ctx: &mut QueueContext<'_>) {
        for (task, cap) in self.budget.share_out() {
            let before = self.plan.known.get(task).map_or(0, |known| known.spent_before);
            ctx.worker.raise_cost_limit(task, cap.saturating_sub(before));
        }
    }

    fn end_task(
        &mut self,
        ctx: &mut QueueContext<'_>,
        task: usize,
        end: QueueTaskEnd,
    ) -> Result<(), FileError> {
        if let Some(of) = self.plan.tasks.get(task) {
            (ctx.note)(QueueRecordEntry::Ended { task: of.name.clone(), end: end.clone() })?;
        }
        self.budget.release(task);
        self.schedule.end(task, end.how);
        ctx.watcher.ended(task, &end);
        if let Some(known) = self.plan.known.get_mut(task) {
            known.end = Some(end);
        }
        Ok(())
    }

    fn outcome(self) -> QueueOutcome {
        let Self { plan, schedule, budget: purse, stopped, .. } = self;
        let became = plan.known.into_iter().enumerate().map(|(task, known)| QueueTaskOutcome {
            state: schedule.state(task),
            end: known.end,
            run: known.run,
            spent_micro_usd: purse.spent_on(task),
        });
        QueueOutcome { tasks: became.collect(), stopped, spent_micro_usd: purse.spent() }
    }
}
