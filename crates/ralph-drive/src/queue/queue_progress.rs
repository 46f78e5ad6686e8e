//! The state of the tasks of a queue, from its own record and from the records of their runs.

use super::{
    KnownQueueTask, QueueHistory, QueueTask, QueueTaskEnd, QueueTaskEnding, QueueTaskHistory,
};
use ralph_core::id::RunId;
use ralph_core::record::Acceptance;
use ralph_core::run::RunPhase;
use ralph_core::status::RunStatus;
use ralph_git::worktree;
use ralph_home::goal_file;
use ralph_home::paths::RalphHome;
use ralph_home::store::{self, LoadedRun, StoreError};
use ralph_hook::control;
use ralph_sys::clock::Deadline;
use ralph_sys::fs;
use std::time::Duration;

const MAX_LISTED_RUNS: usize = 100_000;
const GIT_TIMEOUT: Duration = Duration::from_secs(30);

/// The state of each task: its run, its end if it has one, and the money spent on it. A run that exists but cannot be
/// read is an error: otherwise its task would start again, and its cost would not count.
pub fn known_tasks(
    home: &RalphHome,
    tasks: &[QueueTask],
    past: &QueueHistory,
) -> Result<Vec<KnownQueueTask>, StoreError> {
    let known = tasks.iter().map(|task| match past.tasks.get(&task.name) {
        Some(tried) => known_task(home, task, tried, past),
        None => Ok(KnownQueueTask::default()),
    });
    known.collect()
}

/// A task as it is recorded, if the source of the queue cannot be read.
pub fn recorded_task(
    home: &RalphHome,
    tried: &QueueTaskHistory,
) -> Result<KnownQueueTask, StoreError> {
    Ok(KnownQueueTask {
        end: tried.end.clone(),
        run: tried.run.clone(),
        spent_before: spent_by_runs(
            home,
            tried.runs.iter().filter(|run| Some(*run) != tried.run.as_ref()),
        )?,
        spent_by_run: spent_by_runs(home, &tried.run)?,
    })
}

fn spent_by_runs<'a>(
    home: &RalphHome,
    runs: impl IntoIterator<Item = &'a RunId>,
) -> Result<u64, StoreError> {
    let mut sum = 0_u64;
    for run in runs {
        let opened = load_if_exists(home, run)?;
        let spent = opened.map_or(0, |opened| opened.state.total_spent().micro_usd);
        sum = sum.saturating_add(spent);
    }
    Ok(sum)
}

/// `None` for a run that was deleted.
fn load_if_exists(home: &RalphHome, run: &RunId) -> Result<Option<LoadedRun>, StoreError> {
    match store::load_run(home, run) {
        Err(StoreError::NoSuchRun(_)) => Ok(None),
        loaded => loaded.map(Some),
    }
}

fn known_task(
    home: &RalphHome,
    task: &QueueTask,
    tried: &QueueTaskHistory,
    past: &QueueHistory,
) -> Result<KnownQueueTask, StoreError> {
    let mut runs = tried.runs.clone();
    let run = match &tried.run {
        Some(run) => Some(run.clone()),
        None => find_unrecorded_run(home, task, tried, past)?,
    };
    runs.extend(run.clone().filter(|run| !runs.contains(run)));
    let restarted = KnownQueueTask {
        spent_before: spent_by_runs(home, runs.iter())?,
        ..KnownQueueTask::default()
    };
    if tried.asks != task.goal_digest() {
        return Ok(restarted);
    }
    let Some(run) = run else { return Ok(restarted) };
    let Some(opened) = load_if_exists(home, &run)? else { return Ok(restarted) };
    let phase = control::effective_phase(home, &opened);
    let may_merge = matches!(phase, RunPhase::Ended(status) if opened.run.allows_merge(status));
    let continued = KnownQueueTask {
        end: None,
        spent_before: spent_by_runs(home, runs.iter().filter(|other| **other != run))?,
        spent_by_run: spent_by_runs(home, [&run])?,
        run: Some(run),
    };
    if let Some(acceptance) = &opened.state.accepted {
        let end = Some(accepted_end(home, &opened, acceptance));
        return Ok(KnownQueueTask { end, ..continued });
    }
    Ok(match (phase, &tried.end) {
        // Landed only if both the queue's record and the run's record agree.
        (_, Some(end)) if may_merge && end.how == QueueTaskEnding::Landed => {
            KnownQueueTask { end: Some(end.clone()), ..continued }
        }
        _ if tried.terms != task.terms_digest() && !may_merge => restarted,
        // Still in progress, or good enough but not landed yet.
        (RunPhase::Active | RunPhase::Orphaned | RunPhase::Paused { .. }, _) => continued,
        _ if may_merge => continued,
        (RunPhase::Ended(status), end) => {
            let why = end.as_ref().map_or_else(|| status.name().to_string(), |end| end.why.clone());
            let end = QueueTaskEnd { how: QueueTaskEnding::Parked, status: Some(status), why };
            KnownQueueTask { end: Some(end), ..continued }
        }
    })
}

/// The end of a task whose work a person accepted. No runner lands it any more, so it counts as landed once its commits
/// are on the target branch.
fn accepted_end(home: &RalphHome, opened: &LoadedRun, acceptance: &Acceptance) -> QueueTaskEnd {
    let worktree = opened.run.worktree();
    let deadline = Deadline::after(GIT_TIMEOUT);
    let unmerged = worktree.filter(|worktree| {
        !worktree::has_landed_commits(home, worktree, &deadline).unwrap_or(false)
    });
    let status = Some(RunStatus::Verified);
    match unmerged {
        None => {
            let why = acceptance.describe();
            QueueTaskEnd { how: QueueTaskEnding::Landed, status, why }
        }
        Some(worktree) => {
            let kept = worktree::locate_unmerged(worktree, &deadline);
            let why = format!("{}; {kept}", acceptance.describe());
            QueueTaskEnd { how: QueueTaskEnding::Parked, status, why }
        }
    }
}

/// The run of a task whose record lacks it, because the queue was killed just after the run started. The run has the
/// task's goal, started after the task, and belongs to no other task. Unreadable runs are skipped, because most of them
/// have nothing to do with the queue.
fn find_unrecorded_run(
    home: &RalphHome,
    task: &QueueTask,
    tried: &QueueTaskHistory,
    past: &QueueHistory,
) -> Result<Option<RunId>, StoreError> {
    if tried.end.is_some() {
        return Ok(None);
    }
    let is_taken = |run: &RunId| past.tasks.values().any(|other| other.runs.contains(run));
    let names = fs::list_if_exists(&home.runs(), MAX_LISTED_RUNS)?;
    let runs = names.iter().filter_map(|name| RunId::parse(name.to_str()?));
    let is_run_of_task = |opened: &LoadedRun| {
        let goal = goal_file::read_goal(home, &opened.run);
        opened.run.started_ms >= tried.since_ms
            && opened.run.drive.as_ref().is_some_and(|drive| drive.worktree.is_some())
            && goal.is_ok_and(|goal| goal == task.terms.goal)
    };
    let mut found =
        runs.filter(|run| !is_taken(run)).filter_map(|run| store::load_run(home, &run).ok());
    Ok(found.find(|opened| is_run_of_task(opened)).map(|opened| opened.run.id))
}
