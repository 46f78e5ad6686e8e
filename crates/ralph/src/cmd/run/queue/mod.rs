//! `ralph run --queue`: many goals, each with its own run and work tree, within one budget.
//!
//! ```text
//! run_args, queue.toml ─ queue_prepare ─▶ PreparedQueue ─▶ queue::work ─ task_process: `ralph run --json` for each
//!                                             └─▶ queue_dry_run  └─ queue_view: queue_screen · queue_json
//! ```

mod board;
mod dry;
mod json;
mod known;
mod prepare;
mod report;
mod screen;
pub(crate) mod standing;
mod words;
mod worker;

use super::args::Run;
use crate::SUCCESS;
use crate::cmd::home;
use crate::report::Failure;
use crate::term;
use board::Shown;
use prepare::Prepared;
use ralph_drive::Wishes;
use ralph_drive::queue::{self, Book, BookError, Desk, Entry, Opening, Plan, QueueId};
use ralph_sys::clock;
use ralph_sys::env::Env;
use ralph_sys::proc::signals;
use worker::Processes;

/// The id of the queue with this name, if there is one.
pub(super) fn named(env: &Env, name: &str) -> Result<Option<QueueId>, Failure> {
    let Some(id) = QueueId::parse(name) else { return Ok(None) };
    Ok(Book::look(&home(env)?, &id).map_err(failed)?.map(|_| id))
}

/// Continues a queue with its recorded arguments.
pub(super) fn resume(env: &Env, id: &QueueId, args: &Run) -> Result<u8, Failure> {
    let past = Book::look(&home(env)?, id).map_err(failed)?;
    let opening = past.and_then(|past| past.opening).ok_or_else(|| {
        let what = format!("there is no record of how queue `{}` was started", id.as_str());
        Failure::new(&what, "`ralph run --queue FILE` starts it")
    })?;
    run(env, &words::again(&opening, args)?)
}

pub(super) fn run(env: &Env, args: &Run) -> Result<u8, Failure> {
    let home = home(env)?;
    let prepared = prepare::prepare(env, args)?;
    let id = QueueId::of(&prepared.queue.source, &prepared.project);
    if args.dry_run {
        let past = Book::look(&home, &id).map_err(failed)?.unwrap_or_default();
        let known = known::all(&home, &prepared.queue.tasks, &past);
        if args.json {
            crate::cmd::print_json(&dry::json(&prepared, &known))?;
        } else {
            term::out(&dry::shown(&prepared, &known))?;
        }
        return Ok(SUCCESS);
    }
    let (book, past) = Book::open(&home, &id).map_err(failed)?;
    let known = known::all(&home, &prepared.queue.tasks, &past);
    let wishes = Wishes::default();
    signals::count(&wishes.counter())
        .and_then(|()| signals::outlive_readers())
        .map_err(|error| Failure::because("cannot listen to signals", &error))?;
    book.add(Entry::Opened(Opening {
        source: prepared.queue.source.clone(),
        project: prepared.project.clone(),
        arguments: prepared.asked.clone(),
    }))?;
    let Prepared { queue, limits, least_micro_usd, parallel, .. } = &prepared;
    let left = limits.max_duration_ms.map(|most| most.saturating_sub(past.worked_ms));
    let plan = Plan {
        tasks: &queue.tasks,
        known,
        parallel: *parallel,
        max_cost_micro_usd: limits.max_cost_micro_usd,
        least_micro_usd: *least_micro_usd,
        until_ms: left.map(|left| clock::now_ms().saturating_add(left)),
    };
    let mut worker = Processes::new(env, &home, &prepared, &book);
    let mut shown = Shown::new(env, args, (&id, queue));
    shown.opened(&plan.known);
    let mut note = |entry| book.add(entry);
    let mut desk = Desk {
        worker: &mut worker,
        board: &mut shown,
        note: &mut note,
        wishes: &wishes,
        now_ms: clock::now_ms,
    };
    let outcome = queue::work(plan, &mut desk)?;
    shown.finish(&outcome)?;
    Ok(report::exit_code(&outcome))
}

fn failed(error: BookError) -> Failure {
    match error {
        BookError::File(error) => error.into(),
        BookError::Busy(_) => Failure::because("cannot work through the queue", &error)
            .with_hint("`ralph status` shows what is running"),
        BookError::Newer(_) => Failure::because("cannot continue the queue", &error)
            .with_hint("use that version, or a newer one"),
    }
}
