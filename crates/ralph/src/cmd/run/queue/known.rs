//! The state of the tasks of a queue, from its own record and from the records of their runs.

use ralph_core::id::RunId;
use ralph_core::run::Phase;
use ralph_core::status::Status;
use ralph_drive::queue::{End, Ending, Known, Past, Task, Tried};
use ralph_home::paths::Home;
use ralph_home::store::{self, Opened};
use ralph_hook::control;
use ralph_sys::fs;

const LARGEST_GOAL: usize = 4 * 1024 * 1024;
const MOST_RUNS: usize = 100_000;

pub(super) fn all(home: &Home, tasks: &[Task], past: &Past) -> Vec<Known> {
    let known = tasks.iter().map(|task| match past.tasks.get(&task.name) {
        Some(tried) => of(home, task, (tried, past)),
        None => Known::default(),
    });
    known.collect()
}

fn of(home: &Home, task: &Task, (tried, past): (&Tried, &Past)) -> Known {
    let mut runs = tried.runs.clone();
    let run = tried.run.clone().or_else(|| unnoticed(home, task, (tried, past)));
    runs.extend(run.clone().filter(|run| !runs.contains(run)));
    let spent = |run: &RunId| {
        let opened = store::load(home, run).ok();
        opened.map_or(0, |opened| opened.state.driving.spent().micro_usd)
    };
    let spent_by = |runs: &mut dyn Iterator<Item = &RunId>| {
        runs.fold(0_u64, |sum, run| sum.saturating_add(spent(run)))
    };
    let afresh = Known { spent_before: spent_by(&mut runs.iter()), ..Known::default() };
    if tried.asks != task.asks() {
        return afresh;
    }
    let Some(run) = run else { return afresh };
    let Ok(opened) = store::load(home, &run) else { return afresh };
    let phase = control::phase(home, &opened);
    let is_verified = phase == Phase::Ended(Status::Verified);
    let gone_on_with = Known {
        end: None,
        spent_before: spent_by(&mut runs.iter().filter(|other| **other != run)),
        spent_by_run: spent(&run),
        run: Some(run),
    };
    match (phase, &tried.end) {
        // Landed only if both the queue's record and the run's record agree.
        (Phase::Ended(Status::Verified), Some(end)) if end.how == Ending::Landed => {
            Known { end: Some(end.clone()), ..gone_on_with }
        }
        _ if tried.terms != task.terms() && !is_verified => afresh,
        // Still in progress, or verified but not landed yet.
        (
            Phase::Active | Phase::Orphaned | Phase::Paused { .. } | Phase::Ended(Status::Verified),
            _,
        ) => gone_on_with,
        (Phase::Ended(status), end) => {
            let why = end.as_ref().map_or_else(|| status.name().to_string(), |end| end.why.clone());
            let end = End { how: Ending::Parked, status: Some(status), why };
            Known { end: Some(end), ..gone_on_with }
        }
    }
}

/// The run of a task that is missing in the record, because the queue was killed just after the run started: it has
/// the task's goal, started after the task, and belongs to no other task.
fn unnoticed(home: &Home, task: &Task, (tried, past): (&Tried, &Past)) -> Option<RunId> {
    if tried.end.is_some() {
        return None;
    }
    let is_taken = |run: &RunId| past.tasks.values().any(|other| other.runs.contains(run));
    let names = fs::list(&home.runs(), MOST_RUNS).unwrap_or_default();
    let runs = names.iter().filter_map(|name| RunId::parse(name.to_str()?));
    let is_it = |opened: &Opened| {
        let goal = fs::read(&home.run(&opened.run.id).goal(), LARGEST_GOAL);
        opened.run.started_ms >= tried.since_ms
            && opened.run.drive.as_ref().is_some_and(|drive| drive.worktree.is_some())
            && goal.is_ok_and(|goal| goal == task.goal.as_bytes())
    };
    let mut found =
        runs.filter(|run| !is_taken(run)).filter_map(|run| store::load(home, &run).ok());
    found.find(|opened| is_it(opened)).map(|opened| opened.run.id)
}
