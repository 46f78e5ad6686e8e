//! `ralph run --queue`: many goals, each with its own run and work tree, within one budget.
//!
//! ```text
//! run_args, queue.toml ─ queue_prepare ─▶ PreparedQueue ─▶ queue::work ─ task_process: `ralph run --json` for each
//!                                             └─▶ queue_dry_run  └─ queue_view: queue_screen · queue_json
//! ```

mod issue_queue;
mod queue_args;
mod queue_dry_run;
mod queue_json;
mod queue_prepare;
mod queue_report;
mod queue_screen;
pub(crate) mod queue_status;
mod queue_view;
mod task_process;

use super::run_args::RunArgs;
use crate::SUCCESS;
use crate::cmd::open_home;
use crate::failure::CommandFailure;
use crate::term;
use queue_prepare::PreparedQueue;
use queue_view::QueueView;
use ralph_core::gate::shell_quote;
use ralph_core::text;
use ralph_deck::view::queue_status as queue_status_view;
use ralph_drive::StopRequests;
use ralph_drive::queue::{
    self, QueueContext, QueueId, QueueOpening, QueuePlan, QueueRecord, QueueRecordEntry,
    QueueRecordError,
};
use ralph_sys::clock;
use ralph_sys::env::Env;
use ralph_sys::proc::signals;
use task_process::TaskProcesses;

/// The id of the queue with this name, if there is one.
pub(super) fn find_queue(env: &Env, name: &str) -> Result<Option<QueueId>, CommandFailure> {
    let Some(id) = QueueId::parse(name) else { return Ok(None) };
    Ok(QueueRecord::read(&open_home(env)?, &id).map_err(queue_record_failure)?.map(|_| id))
}

/// Continues a queue with its recorded arguments.
pub(super) fn resume_queue(env: &Env, id: &QueueId, args: &RunArgs) -> Result<u8, CommandFailure> {
    let past = QueueRecord::read(&open_home(env)?, id).map_err(queue_record_failure)?;
    let opening = past.and_then(|past| past.opening).ok_or_else(|| {
        let what = format!("there is no record of how queue `{}` was started", id.as_str());
        CommandFailure::new(&what, "`ralph run --queue FILE` starts it")
    })?;
    let fixed = args.fixed_option().or_else(|| args.parallel.map(|_| "`--parallel`".to_string()));
    if let Some(option) = fixed {
        let what = format!("{option} cannot be changed with `--resume`");
        let source = shell_quote(&text::clean_line(&opening.source.to_string_lossy(), 400));
        let hint = format!(
            "`ralph run --queue {source}` with the flags of your choice continues the same queue"
        );
        return Err(CommandFailure::new(&what, &hint));
    }
    run_queue(env, &queue_args::recorded_args(&opening, args)?)
}

pub(super) fn run_queue(env: &Env, args: &RunArgs) -> Result<u8, CommandFailure> {
    let home = open_home(env)?;
    let prepared = queue_prepare::prepare_queue(env, args)?;
    let id = QueueId::for_queue(&prepared.queue.source, &prepared.project);
    if args.dry_run {
        let past = QueueRecord::read(&home, &id).map_err(queue_record_failure)?.unwrap_or_default();
        let known = queue::known_tasks(&home, &prepared.queue.tasks, &past)
            .map_err(|error| queue_record_failure(error.into()))?;
        if args.json {
            crate::cmd::print_json(&queue_dry_run::queue_dry_run_json(&prepared, &known))?;
        } else {
            term::out(&queue_dry_run::render_queue_dry_run(&prepared, &known))?;
        }
        return Ok(SUCCESS);
    }
    let (record, past) = QueueRecord::open(&home, &id).map_err(queue_record_failure)?;
    let known = queue::known_tasks(&home, &prepared.queue.tasks, &past)
        .map_err(|error| queue_record_failure(error.into()))?;
    let stop_requests = StopRequests::default();
    signals::count_stop_signals(&stop_requests.counter())
        .and_then(|()| signals::survive_broken_pipes())
        .map_err(|error| CommandFailure::caused_by("cannot listen to signals", &error))?;
    record.append(QueueRecordEntry::Opened(QueueOpening {
        source: prepared.queue.source.clone(),
        project: prepared.project.clone(),
        arguments: prepared.recorded_arguments.clone(),
    }))?;
    let PreparedQueue { queue, limits, least_micro_usd, parallel, .. } = &prepared;
    let left = limits.max_duration_ms.map(|most| most.saturating_sub(past.worked_ms));
    let plan = QueuePlan {
        tasks: &queue.tasks,
        known,
        parallel: *parallel,
        max_cost_micro_usd: limits.max_cost_micro_usd,
        least_micro_usd: *least_micro_usd,
        until_ms: left.map(|left| clock::now_ms().saturating_add(left)),
    };
    let mut worker = TaskProcesses::new(env, &home, &prepared, &record);
    let mut shown = QueueView::new(env, args, (&id, queue));
    shown.opened(&plan.known);
    let mut note = |entry| record.append(entry);
    let mut context = QueueContext {
        worker: &mut worker,
        watcher: &mut shown,
        note: &mut note,
        stop_requests: &stop_requests,
        now_ms: clock::now_ms,
    };
    let outcome = queue::run_queue(plan, &mut context)?;
    shown.finish(&outcome)?;
    Ok(queue_status_view::queue_exit_code(&outcome))
}

fn queue_record_failure(error: QueueRecordError) -> CommandFailure {
    match error {
        QueueRecordError::File(error) => error.into(),
        QueueRecordError::Busy(_) => {
            CommandFailure::caused_by("cannot work through the queue", &error)
                .with_hint("`ralph status` shows what is running")
        }
        QueueRecordError::Run(_) => {
            CommandFailure::caused_by("cannot read the state of the queue", &error)
                .with_hint("`ralph status` shows the runs that cannot be read")
        }
        QueueRecordError::Newer(_) => {
            CommandFailure::caused_by("cannot read the state of the queue", &error)
                .with_hint("use that version, or a newer one")
        }
    }
}
