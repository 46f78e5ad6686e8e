//! Runs a queue: starts the tasks that may start, handles their events, and records every result before it continues.

use std::time::Duration;

use ralph_core::id::RunId;
use ralph_core::limits::money;
use ralph_core::status::Status;
use ralph_sys::fs::FileError;
use serde_json::Value;

use super::record::Entry;
use super::{End, Ending, Purse, Schedule, Stand, Task};
use crate::wishes::{Wish, Wishes};

const TICK: Duration = Duration::from_millis(100);

/// The parameters for starting a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    pub task: usize,
    /// The run to resume; `None` starts a new one.
    pub run: Option<RunId>,
    /// The most that the run may cost in total; `None` means no limit.
    pub max_cost_micro_usd: Option<u64>,
    /// The remaining time; `None` means no limit.
    pub max_duration_ms: Option<u64>,
}

/// Executes tasks. Every started task must eventually produce an end event.
pub trait Worker {
    /// Starts a task. The error is the reason for people.
    fn start(&mut self, order: &Order) -> Result<(), String>;

    /// The next event of any task, if one occurs within `wait`.
    fn poll(&mut self, wait: Duration) -> Option<(usize, Event)>;

    /// Raises the cost limit of a running task.
    fn raise(&mut self, task: usize, max_cost_micro_usd: u64);

    fn wish(&mut self, wish: Wish);
}

#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    Heard(Box<Heard>),
    Ended(End),
}

/// One line of a run's JSON output.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Heard {
    pub run: Option<RunId>,
    /// Total cost of this run.
    pub spent_micro_usd: Option<u64>,
    pub line: Value,
}

/// Receives the events of a queue.
pub trait Board {
    fn started(&mut self, task: usize, how: &Order);
    fn heard(&mut self, task: usize, heard: &Heard);
    fn ended(&mut self, task: usize, end: &End);
    /// Called several times a second.
    fn tick(&mut self, schedule: &Schedule, purse: &Purse);
}

/// What is known about a task before the queue starts.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// The task's last end, if it is still valid.
    pub end: Option<End>,
    /// The run to resume.
    pub run: Option<RunId>,
    /// Cost of earlier runs that are not resumed.
    pub spent_before: u64,
    /// Cost of the run that is resumed.
    pub spent_by_run: u64,
}

/// The tasks, limits and prior state of a queue to run.
#[derive(Debug)]
pub struct Plan<'a> {
    pub tasks: &'a [Task],
    pub known: Vec<Known>,
    pub parallel: usize,
    pub max_cost_micro_usd: Option<u64>,
    /// No task is started with less than this left.
    pub least_micro_usd: u64,
    /// Deadline of the whole queue.
    pub until_ms: Option<u64>,
}

/// The connections of a running queue: worker, watcher, record, stop requests and clock.
pub struct Desk<'a> {
    pub worker: &'a mut dyn Worker,
    pub board: &'a mut dyn Board,
    /// Records an entry; called before the entry is acted on.
    pub note: &'a mut dyn FnMut(Entry) -> Result<(), FileError>,
    pub wishes: &'a Wishes,
    pub now_ms: fn() -> u64,
}

impl std::fmt::Debug for Desk<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Desk").field("wishes", &self.wishes).finish_non_exhaustive()
    }
}

/// The result of running a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub tasks: Vec<Became>,
    /// Why no further task was started although one could have been.
    pub stopped: Option<Stopped>,
    pub spent_micro_usd: u64,
}

/// The final state of one task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Became {
    pub stand: Stand,
    pub end: Option<End>,
    pub run: Option<RunId>,
    pub spent_micro_usd: u64,
}

/// Why a queue stopped starting tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    Cancelled,
    OutOfBudget,
    OutOfTime,
}

/// Runs the queue until every task is done or none can start.
pub fn work(plan: Plan<'_>, ctx: &mut Desk<'_>) -> Result<Outcome, FileError> {
    let mut work = Work::new(plan);
    loop {
        work.heed(ctx);
        work.fill(ctx)?;
        ctx.board.tick(&work.schedule, &work.purse);
        if work.schedule.running() == 0 {
            break;
        }
        if let Some((task, event)) = ctx.worker.poll(TICK) {
            work.hear(ctx, task, event)?;
        }
    }
    (ctx.note)(Entry::Closed {})?;
    Ok(work.outcome())
}

struct Work<'a> {
    plan: Plan<'a>,
    schedule: Schedule,
    purse: Purse,
    wish: Wish,
    stopped: Option<Stopped>,
}

impl<'a> Work<'a> {
    fn new(plan: Plan<'a>) -> Self {
        let mut schedule = Schedule::new(plan.tasks, plan.parallel);
        for (task, known) in plan.known.iter().enumerate() {
            if let Some(end) = &known.end {
                schedule.end(task, end.how);
            }
        }
        let accounts = plan.tasks.iter().zip(&plan.known);
        let accounts: Vec<_> = accounts
            .map(|(task, known)| {
                let spent = known.spent_before.saturating_add(known.spent_by_run);
                (spent, task.max_cost_micro_usd)
            })
            .collect();
        let purse = Purse::new(plan.max_cost_micro_usd, plan.least_micro_usd, &accounts);
        Self { plan, schedule, purse, wish: Wish::None, stopped: None }
    }

    fn heed(&mut self, ctx: &mut Desk<'_>) {
        let wish = ctx.wishes.get();
        if wish > self.wish {
            self.wish = wish;
            self.stopped = Some(Stopped::Cancelled);
            ctx.worker.wish(wish);
        }
    }

    fn fill(&mut self, ctx: &mut Desk<'_>) -> Result<(), FileError> {
        self.stopped = (self.wish > Wish::None).then_some(Stopped::Cancelled);
        while let Some(task) = self.schedule.next() {
            let left_ms = self.plan.until_ms.map(|until| until.saturating_sub((ctx.now_ms)()));
            self.stopped = match (self.wish, left_ms) {
                (Wish::AfterTheTurn | Wish::Now, _) => Some(Stopped::Cancelled),
                (Wish::None, Some(0)) => Some(Stopped::OutOfTime),
                // Other tasks may still return some of their budget.
                (Wish::None, _) if !self.purse.suffices() => Some(Stopped::OutOfBudget),
                (Wish::None, _) => None,
            };
            if self.stopped.is_some() {
                return Ok(());
            }
            self.start(ctx, task, left_ms)?;
        }
        Ok(())
    }

    fn start(
        &mut self,
        ctx: &mut Desk<'_>,
        task: usize,
        max_duration_ms: Option<u64>,
    ) -> Result<(), FileError> {
        let Some(known) = self.plan.known.get(task).cloned() else { return Ok(()) };
        let cap = self.purse.allot(task, self.schedule.startable());
        self.schedule.start(task);
        if let Some(cap) = cap.filter(|cap| *cap <= self.purse.spent_on(task)) {
            let why = format!("it has spent its budget of {}", money(cap));
            let end = End { how: Ending::Parked, status: Some(Status::Exhausted), why };
            return self.end(ctx, task, end);
        }
        let max_cost_micro_usd = cap.map(|cap| cap.saturating_sub(known.spent_before));
        let order = Order { task, run: known.run, max_cost_micro_usd, max_duration_ms };
        if let Some(of) = self.plan.tasks.get(task) {
            (ctx.note)(Entry::Started {
                task: of.name.clone(),
                asks: of.asks(),
                terms: of.terms(),
                run: order.run.clone(),
            })?;
        }
        match ctx.worker.start(&order) {
            Ok(()) => {
                ctx.board.started(task, &order);
                Ok(())
            }
            Err(why) => self.end(ctx, task, End { how: Ending::Parked, status: None, why }),
        }
    }

    fn hear(&mut self, ctx: &mut Desk<'_>, task: usize, event: Event) -> Result<(), FileError> {
        let heard = match event {
            Event::Heard(heard) => heard,
            Event::Ended(end) => {
                self.end(ctx, task, end)?;
                if self.schedule.startable() == 0 {
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
            (ctx.note)(Entry::Runs { task: of.name.clone(), run: run.clone() })?;
            known.run = Some(run.clone());
        }
        if let Some(spent) = heard.spent_micro_usd {
            self.purse.note(task, known.spent_before.saturating_add(spent));
        }
        ctx.board.heard(task, &heard);
        Ok(())
    }

    /// Distributes budget that no waiting task can use among the running tasks.
    fn share_out(&mut self, ctx: &mut Desk<'_>) {
        for (task, cap) in self.purse.share_out() {
            let before = self.plan.known.get(task).map_or(0, |known| known.spent_before);
            ctx.worker.raise(task, cap.saturating_sub(before));
        }
    }

    fn end(&mut self, ctx: &mut Desk<'_>, task: usize, end: End) -> Result<(), FileError> {
        if let Some(of) = self.plan.tasks.get(task) {
            (ctx.note)(Entry::Ended { task: of.name.clone(), end: end.clone() })?;
        }
        self.purse.release(task);
        self.schedule.end(task, end.how);
        ctx.board.ended(task, &end);
        if let Some(known) = self.plan.known.get_mut(task) {
            known.end = Some(end);
        }
        Ok(())
    }

    fn outcome(self) -> Outcome {
        let Self { plan, schedule, purse, stopped, .. } = self;
        let became = plan.known.into_iter().enumerate().map(|(task, known)| Became {
            stand: schedule.stand(task),
            end: known.end,
            run: known.run,
            spent_micro_usd: purse.spent_on(task),
        });
        Outcome { tasks: became.collect(), stopped, spent_micro_usd: purse.spent() }
    }
}
