//! Carries out a run plan: creates the work tree, starts the run, and drives it to its end.

use super::prepare::{New, Place, Plan, Work};
use super::view::View;
use crate::cmd::{control, home, start};
use crate::report::Failure;
use ralph_core::drive::{Drove, Then, Worktree};
use ralph_core::id::RunId;
use ralph_core::record::Run;
use ralph_drive::agent::Client;
use ralph_drive::forge;
use ralph_drive::{DriveError, Wishes};
use ralph_git::{git, worktree};
use ralph_home::paths::Home;
use ralph_home::store;
use ralph_home::store::StoreError;
use ralph_home::world::World;
use ralph_hook::driven;
use ralph_hook::driven::DrivenError;
use ralph_policy::trust;
use ralph_sys::clock::Deadline;
use ralph_sys::env::Env;
use ralph_sys::proc::signals;
use std::path::PathBuf;
use std::time::Duration;

/// Creating a work tree writes every file of the project once.
const PATIENCE: Duration = Duration::from_mins(10);

pub(super) fn go(env: &Env, plan: Plan, view: &mut View) -> Result<(), Failure> {
    let home = home(env)?;
    let Plan { work, program, granted_ms, mut notes } = plan;
    let run = match work {
        Work::New(new) => begun(env, &home, *new, &mut notes)?,
        Work::Resumed(opened) => opened.run,
    };
    if let Some(limit_ms) = granted_ms {
        grant(env, &home, (&run.id, limit_ms))?;
    }
    let wishes = Wishes::default();
    signals::count(&wishes.counter())
        .and_then(|()| signals::outlive_readers())
        .map_err(|error| Failure::because("cannot listen to signals", &error))?;
    let client = Client { program, project: PathBuf::from(&run.project), env: env.clone() };
    let run = run.id;
    let plan = ralph_drive::Plan { client: &client, home: &home, run, wishes: &wishes, notes };
    ralph_drive::drive(&plan, view).map(drop).map_err(|error| failed(&error))
}

/// Checks in advance that the work of a separate work tree can be merged or proposed.
pub(super) fn ready(env: &Env, plan: &Plan) -> Result<(), Failure> {
    let Work::New(new) = &plan.work else { return Ok(()) };
    let Place::Worktree { then, .. } = new.place else { return Ok(()) };
    let (project, deadline) = (&new.demand.project, Deadline::after(PATIENCE));
    if then == Then::PullRequest {
        forge::check(project, env, None, &deadline).map_err(|error| {
            let failure = Failure::because("cannot open a pull request", &error);
            match error.hint() {
                Some(hint) => failure.with_hint(&hint),
                None => failure,
            }
        })?;
    }
    if then == Then::Merge && !git::is_on_branch(project, &deadline) {
        let what = "`HEAD` is detached, so there is no branch to merge the work into";
        return Err(Failure::new(what, "run `git switch BRANCH` first, or use `--pr`"));
    }
    Ok(())
}

fn begun(env: &Env, home: &Home, mut new: New, notes: &mut Vec<String>) -> Result<Run, Failure> {
    let has_tree = new.demand.drive.as_ref().is_some_and(|drive| drive.worktree.is_some());
    if let Place::Worktree { then, checks_ms } = new.place
        && !has_tree
    {
        notes.extend(apart(home, &mut new, (then, checks_ms))?);
    }
    if let Some(drive) = &mut new.demand.drive {
        drive.head = git::head(&new.demand.project, &Deadline::after(PATIENCE));
    }
    notes.extend(others(home, &new.demand.project));
    let begun = start::begin(env, home, &new.demand)?;
    notes.extend(begun.notes);
    Ok(begun.run)
}

/// Records a granted wait before it is used. Takes the runner lock, because only the runner may write to the journal.
fn grant(env: &Env, home: &Home, (run, limit_ms): (&RunId, u64)) -> Result<(), Failure> {
    let _reins = driven::take(home, run).map_err(|error| failed(&error.into()))?;
    let world = World::new(env.clone(), Deadline::after(control::PATIENCE));
    let world = world.ok_or_else(|| Failure::from(StoreError::OutOfTime))?;
    driven::record(&world, run, Drove::Granted { limit_ms })?;
    Ok(())
}

/// Notes about driven runs that are working in the same directory now.
fn others(home: &Home, project: &std::path::Path) -> Vec<String> {
    let runs = store::list(home).unwrap_or_default();
    let driven =
        runs.into_iter().filter(|run| ralph_home::run_process::runner(home, run).is_some());
    let here = driven.filter(|run| {
        let opened = store::load(home, run);
        opened.is_ok_and(|opened| std::path::Path::new(&opened.run.project) == project)
    });
    let note =
        |run| format!("run {run} is working on the same files; `--worktree` keeps runs apart");
    here.map(note).collect()
}

/// Creates a separate work tree and branch, named after the new run.
fn apart(
    home: &Home,
    new: &mut New,
    (then, checks_ms): (Then, Option<u64>),
) -> Result<Vec<String>, Failure> {
    let deadline = Deadline::after(PATIENCE);
    let demand = &mut new.demand;
    let id = ralph_hook::control::new_id(home);
    let made = worktree::create(home, &demand.project, &id, &deadline).map_err(|error| {
        let failure = Failure::because("cannot create a work tree for the run", &error);
        match error.hint() {
            Some(hint) => failure.with_hint(&hint),
            None => failure,
        }
    })?;
    let path = PathBuf::from(&made.worktree.path);
    trust::carry(home, &demand.project, &path)
        .map_err(|error| Failure::because("cannot approve the work tree", &error))?;
    moved(demand, &path);
    if let Some(drive) = &mut demand.drive {
        drive.worktree = Some(Worktree { then, checks_ms, ..made.worktree });
    }
    demand.id = Some(id);
    Ok(made.notes)
}

/// Moves the project and the lists inside it to the work tree.
fn moved(demand: &mut start::Demand, to: &std::path::Path) {
    let from = std::mem::replace(&mut demand.project, to.to_path_buf());
    let here = demand.here.clone();
    for path in demand.features.iter_mut().chain(&mut demand.plans) {
        if let Ok(below) = here.join(&*path).strip_prefix(&from) {
            *path = to.join(below);
        }
    }
}

fn failed(error: &DriveError) -> Failure {
    if let DriveError::Driven(DrivenError::Driven { .. }) = error {
        return Failure::new(&error.to_string(), "`ralph status` shows its state");
    }
    let hint = match error {
        DriveError::Driven(_) => "`ralph status` shows what is running",
        DriveError::NotDriven(_) | DriveError::HasEnded { .. } => {
            "`ralph run \"…\"` starts another"
        }
        DriveError::Session(_) | DriveError::Store(_) => "`ralph run --resume RUN` continues it",
    };
    Failure::because("the run failed", error).with_hint(hint)
}
