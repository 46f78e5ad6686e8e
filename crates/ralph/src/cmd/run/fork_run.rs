//! `--fork RUN` without a goal: continues the work of a run that has ended, from its last session and with the same
//! goal, lists and flags.

use super::run_args::RunArgs;
use super::run_plan::{self, SESSION_ID_LENGTH};
use crate::failure::CommandFailure;
use ralph_core::drive::{DriveSettings, RunWorktree};
use ralph_core::id::{RunId, SessionId};
use ralph_core::limits::LimitOverrides;
use ralph_core::record::{self, ListKind};
use ralph_core::run::RunPhase;
use ralph_core::run_terms::{RequestedLists, RunTerms};
use ralph_core::status::RunStatus;
use ralph_home::goal_file;
use ralph_home::paths::RalphHome;
use ralph_home::store::{self, LoadedRun};
use ralph_hook::control::{self, ControlError, RunOrSession};
use ralph_sys::env::Env;
use std::path::{Path, PathBuf};

/// The ended run to continue, if `--fork` names one and no goal is given.
pub(super) fn ended_run(
    home: &RalphHome,
    args: &RunArgs,
) -> Result<Option<LoadedRun>, CommandFailure> {
    let Some(name) = args.fork.as_ref().filter(|_| !args.has_goal()) else { return Ok(None) };
    let run = match control::resolve_name(home, name) {
        Ok(RunOrSession::Run(run)) => run,
        Ok(RunOrSession::Session(_)) => return Err(no_goal_failure()),
        Err(ControlError::UnknownName(_)) if is_session_id(name) => return Err(no_goal_failure()),
        Err(error) => return Err(error.into()),
    };
    let opened = store::load_run(home, &run)?;
    if opened.run.drive.is_none() {
        let what = format!("ralph did not drive run `{run}`, so it cannot continue it");
        return Err(CommandFailure::new(&what, &fork_hint(&run)));
    }
    match control::effective_phase(home, &opened) {
        RunPhase::Ended(RunStatus::Verified) if !args.from_review => {
            let what = format!("run `{run}` is verified: nothing is left to do");
            Err(CommandFailure::new(&what, &fork_hint(&run)))
        }
        RunPhase::Ended(_) => Ok(Some(opened)),
        RunPhase::Active | RunPhase::Orphaned | RunPhase::Paused { .. } => {
            let hint = format!("`ralph run --resume {run}` continues it");
            Err(CommandFailure::new(&format!("run `{run}` has not ended"), &hint))
        }
    }
}

/// The run that `--fork` names, with or without a goal.
pub(super) fn forked_run(home: &RalphHome, args: &RunArgs) -> Option<RunId> {
    match control::resolve_name(home, args.fork.as_deref()?) {
        Ok(RunOrSession::Run(run)) => Some(run),
        Ok(RunOrSession::Session(_)) | Err(_) => None,
    }
}

fn is_session_id(name: &str) -> bool {
    SessionId::parse(name).is_some_and(|session| session.as_str().len() == SESSION_ID_LENGTH)
}

fn no_goal_failure() -> CommandFailure {
    let hint = "run `ralph run \"your goal\" --fork SESSION`";
    CommandFailure::new("no goal given", hint)
}

fn fork_hint(run: &RunId) -> String {
    format!("`ralph run \"…\" --fork {run}` starts a new run from its last session")
}

/// The goal, lists, checks and limits of the ended run, which then count anew. Arguments win over its limits and complexity.
pub(super) fn forked_terms(
    env: &Env,
    home: &RalphHome,
    args: &RunArgs,
    (past, project): (&record::RunRecord, &Path),
) -> Result<RunTerms, CommandFailure> {
    let typed_before = past.seal.iter().flat_map(|seal| {
        let gates = seal.policy.gates.iter().filter(|gate| seal.is_check(&gate.name));
        gates.cloned()
    });
    let checks = typed_before.chain(run_plan::typed_checks(env, args, project)?).collect();
    let plans = past.lists.iter().filter(|list| list.kind == ListKind::Plan);
    let complexity = past.seal.as_ref().and_then(|seal| seal.complexity);
    Ok(RunTerms {
        goal: goal_file::read_goal(home, past)?,
        limits: args.limits.overrides().or(LimitOverrides::from_limits(&past.limits)),
        lists: RequestedLists {
            features: past.features.clone(),
            plans: plans.map(|list| list.path.clone()).collect(),
            ..RequestedLists::default()
        },
        complexity: args.complexity.or(complexity),
        may_change: args.may_change.clone(),
        accept: args.accept,
        checks,
        ..RunTerms::default()
    })
}

/// The project of the ended run, or its kept work tree, unless the arguments name another.
pub(super) fn forked_project(args: &RunArgs, past: &record::RunRecord) -> PathBuf {
    let recorded = || match kept_worktree(args, past) {
        Some(kept) => kept.path,
        None => original_project(past),
    };
    args.project.clone().unwrap_or_else(|| recorded().into())
}

/// The drive settings of the ended run, with its kept work tree. The caller sets the session to fork.
pub(super) fn forked_settings(args: &RunArgs, past: &record::RunRecord) -> DriveSettings {
    let settings = past.drive.as_deref().cloned().unwrap_or(DriveSettings::DEFAULT);
    DriveSettings { from: None, worktree: kept_worktree(args, past), ..settings }
}

/// The work tree of the ended run, unless the arguments ask for another.
fn kept_worktree(args: &RunArgs, past: &record::RunRecord) -> Option<RunWorktree> {
    let is_new = args.worktree || args.pr || args.project.is_some();
    let kept = past.drive.as_ref().and_then(|settings| settings.worktree.clone());
    kept.filter(|_| !is_new)
}

fn original_project(past: &record::RunRecord) -> String {
    let kept = past.worktree();
    kept.map_or_else(|| past.project.clone(), |kept| kept.from.clone())
}
