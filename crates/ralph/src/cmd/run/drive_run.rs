//! Carries out a run plan: creates the work tree, starts the run, and drives it to its end.

use super::drive_view::DriveView;
use super::issue_run;
use super::run_plan::{NewRun, PlannedWork, RunPlan, RunWorkspace};
use crate::cmd::control::LOCK_TIMEOUT;
use crate::cmd::pull_review::{self, NewComments};
use crate::cmd::{identify_caller, open_world, start};
use crate::failure::CommandFailure;
use ralph_core::drive::{LandingMode, RunWorktree, RunnerEvent};
use ralph_core::id::RunId;
use ralph_core::record::RunRecord;
use ralph_drive::agent::AgentClient;
use ralph_drive::forge;
use ralph_drive::{DriveError, StopRequests};
use ralph_git::{git, worktree};
use ralph_home::paths::RalphHome;
use ralph_home::store;
use ralph_home::world::World;
use ralph_hook::adjustments::person_name;
use ralph_hook::closed_run;
use ralph_hook::control::{self, RunRequest, StartNote};
use ralph_hook::runner;
use ralph_hook::runner::RunnerStateError;
use ralph_policy::{config, trust};
use ralph_proof::WorktreePackages;
use ralph_sys::clock::Deadline;
use ralph_sys::env::Env;
use ralph_sys::fs;
use ralph_sys::proc::signals;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Creating a work tree writes every file of the project once.
const WORKTREE_TIMEOUT: Duration = Duration::from_mins(10);

pub(super) fn drive_plan(
    env: &Env,
    plan: RunPlan,
    view: &mut DriveView,
) -> Result<(), CommandFailure> {
    let world = open_world(env)?;
    let RunPlan { work, program, granted_ms, mut notes, .. } = plan;
    let run = match work {
        PlannedWork::New(new) => start_new_run(&world, *new, &mut notes)?,
        PlannedWork::Resumed(opened) => opened.run,
    };
    if let Some(limit_ms) = granted_ms {
        record_grant(env, &run.id, limit_ms)?;
    }
    let stop_requests = StopRequests::default();
    signals::count_stop_signals(&stop_requests.counter())
        .and_then(|()| signals::survive_broken_pipes())
        .map_err(|error| CommandFailure::caused_by("cannot listen to signals", &error))?;
    let client = AgentClient { program, project: PathBuf::from(&run.project), env: env.clone() };
    let run = run.id;
    let plan = ralph_drive::DrivePlan {
        client: &client,
        home: &world.home,
        run,
        stop_requests: &stop_requests,
        notes,
    };
    ralph_drive::drive(&plan, view).map(drop).map_err(|error| drive_failure(&error))
}

/// Checks in advance that the work of a separate work tree can be merged or proposed.
pub(super) fn check_ready(env: &Env, plan: &RunPlan) -> Result<(), CommandFailure> {
    let PlannedWork::New(new) = &plan.work else { return Ok(()) };
    let RunWorkspace::Worktree { then, .. } = new.workspace else { return Ok(()) };
    let (project, deadline) = (&new.request.project, Deadline::after(WORKTREE_TIMEOUT));
    if then == LandingMode::PullRequest {
        forge::find_request_forge(project, env, None, &deadline).map_err(|error| {
            let failure = CommandFailure::caused_by("cannot open a pull request", &error);
            match error.hint() {
                Some(hint) => failure.with_hint(&hint),
                None => failure,
            }
        })?;
    }
    let is_on_branch = || {
        let found = git::is_on_branch(project, &deadline);
        found.map_err(|error| CommandFailure::caused_by("cannot read `HEAD`", &error))
    };
    if then == LandingMode::Merge && !is_on_branch()? {
        let what = "`HEAD` is detached, so there is no branch to merge the work into";
        return Err(CommandFailure::new(what, "run `git switch BRANCH` first, or use `--pr`"));
    }
    Ok(())
}

fn start_new_run(
    world: &World,
    mut new: NewRun,
    notes: &mut Vec<String>,
) -> Result<RunRecord, CommandFailure> {
    let home = &world.home;
    let has_tree = new.request.drive.as_ref().is_some_and(|drive| drive.worktree.is_some());
    let comments = match &new.review_of {
        Some(past) => pull_review::new_comments(&world.env, home, past)?,
        None => NewComments::default(),
    };
    if let RunWorkspace::Worktree { then, checks_ms, draft } = new.workspace
        && !has_tree
    {
        notes.extend(create_worktree(home, &mut new, |made| RunWorktree {
            then,
            checks_ms,
            draft,
            ..made
        })?);
    }
    if let Some(drive) = &mut new.request.drive {
        drive.head = git::head_commit(&new.request.project, &Deadline::after(WORKTREE_TIMEOUT));
    }
    if let Some(issue) = &new.issue
        && let Some(directory) = issue_run::create_item_loop(&new.request.project, issue)?
    {
        let directory = directory.to_string_lossy().into_owned();
        new.request.terms.lists.features.push(directory);
    }
    let issue = new.issue;
    let others = concurrent_runs(home, &new.request.project);
    let started = control::start_run(world, new.request)?;
    if let Some(forked) = &new.forked {
        let (caller, by) = (identify_caller(&world.env), person_name(&world.env));
        // A forked run that does not wait for a person cannot be closed. The new run has started in any case.
        drop(closed_run::close_ended_run(
            home,
            forked,
            caller,
            &by,
            &Deadline::after(LOCK_TIMEOUT),
        ));
    }
    if let Some(of) = issue {
        issue_run::keep_issue(home, &started.run.id, &of.issue)?;
    }
    notes.extend(concurrent_run_notes(&others, &started.notes));
    notes.extend(started.notes.iter().map(start::note_text));
    if !comments.sent.is_empty() {
        pull_review::send_comments(&world.env, home, &started.run.id, &comments.sent)?;
        notes.push(pull_review::sent_note(&started.run.id, &comments));
    }
    Ok(started.run)
}

/// Records a granted wait before it is used. Takes the runner lock, because only the runner may write to the journal.
fn record_grant(env: &Env, run: &RunId, limit_ms: u64) -> Result<(), CommandFailure> {
    let world = open_world(env)?;
    let _lock = runner::lock_run(&world.home, run).map_err(|error| drive_failure(&error.into()))?;
    runner::record_drive(&world, run, RunnerEvent::Granted { limit_ms })?;
    Ok(())
}

/// The driven runs that are working in the same directory now.
fn concurrent_runs(home: &RalphHome, project: &Path) -> Vec<RunId> {
    let runs = store::list_runs(home).unwrap_or_default();
    let driven = runs.into_iter().filter(|run| ralph_home::run_process::may_be_driven(home, run));
    let here = driven.filter(|run| {
        let opened = store::load_run(home, run);
        opened.is_ok_and(|opened| Path::new(&opened.run.project) == project)
    });
    here.collect()
}

/// Notes about the runs in the same directory that no note of the start names.
fn concurrent_run_notes(others: &[RunId], notes: &[StartNote]) -> Vec<String> {
    let is_named = |run: &RunId| {
        notes.iter().any(|note| matches!(note, StartNote::OtherRun(other) if other == run))
    };
    let unnamed = others.iter().filter(|run| !is_named(run));
    let note =
        |run| format!("run {run} is working on the same files; `--worktree` keeps runs apart");
    unnamed.map(note).collect()
}

/// Creates a separate work tree and branch, named after the new run.
fn create_worktree(
    home: &RalphHome,
    new: &mut NewRun,
    complete: impl Fn(RunWorktree) -> RunWorktree,
) -> Result<Vec<String>, CommandFailure> {
    let deadline = Deadline::after(WORKTREE_TIMEOUT);
    let demand = &mut new.request;
    let id = control::new_run_id(home);
    let made =
        worktree::create_worktree(home, &demand.project, &id, &deadline).map_err(|error| {
            let failure =
                CommandFailure::caused_by("cannot create a work tree for the run", &error);
            match error.hint() {
                Some(hint) => failure.with_hint(&hint),
                None => failure,
            }
        })?;
    let path = PathBuf::from(&made.worktree.path);
    trust::copy_approvals(home, &demand.project, &path)
        .map_err(|error| CommandFailure::caused_by("cannot approve the work tree", &error))?;
    let mut notes = made.notes;
    notes.extend(copy_packages(home, &demand.project, &made.worktree)?);
    move_to_worktree(demand, &path);
    if let Some(drive) = &mut demand.drive {
        drive.worktree = Some(complete(made.worktree));
    }
    demand.id = Some(id);
    Ok(notes)
}

/// Copies installed packages of the project to the work tree; returns notes about those that it lacks.
fn copy_packages(
    home: &RalphHome,
    project: &Path,
    worktree: &RunWorktree,
) -> Result<Vec<String>, CommandFailure> {
    let links = config::load(&config::find_project(project), home)?.policy.verify.link;
    let (from, path) = (Path::new(&worktree.from), Path::new(&worktree.path));
    let project = fs::resolve(project).unwrap_or_else(|| project.to_owned());
    let below = project.strip_prefix(from).unwrap_or(Path::new(""));
    let to = path.ancestors().nth(below.components().count()).unwrap_or(path);
    Ok(WorktreePackages { from, to, below, links: &links }.copy())
}

/// Moves the project and the lists inside it to the work tree.
fn move_to_worktree(demand: &mut RunRequest, to: &Path) {
    let from = std::mem::replace(&mut demand.project, to.to_path_buf());
    let lists = &mut demand.terms.lists;
    for path in lists.features.iter_mut().chain(&mut lists.plans) {
        if let Ok(below) = demand.base_dir.join(&*path).strip_prefix(&from) {
            *path = to.join(below).to_string_lossy().into_owned();
        }
    }
}

fn drive_failure(error: &DriveError) -> CommandFailure {
    if let DriveError::Driven(RunnerStateError::AlreadyDriven { .. }) = error {
        return CommandFailure::new(&error.to_string(), "`ralph status` shows its state");
    }
    let hint = match error {
        DriveError::Driven(_) => "`ralph status` shows what is running",
        DriveError::NotDriven(_) | DriveError::HasEnded { .. } => {
            "`ralph run \"…\"` starts another"
        }
        DriveError::Session(_) | DriveError::Store(_) => "`ralph run --resume RUN` continues it",
        DriveError::Goal(_) => "restore the file, then `ralph run --resume RUN` continues it",
    };
    CommandFailure::caused_by("the run failed", error).with_hint(hint)
}
