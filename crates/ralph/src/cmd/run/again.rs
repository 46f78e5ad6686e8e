//! `--fork RUN` without a goal: continues the work of a run that has ended, from its last session and with the same
//! goal, lists and flags.

use super::args::Run;
use super::prepare::WHOLE;
use crate::report::Failure;
use ralph_core::drive::{Settings, Worktree};
use ralph_core::id::{RunId, SessionId};
use ralph_core::limits::Limits;
use ralph_core::record::{self, ListKind};
use ralph_core::run::Phase;
use ralph_core::status::Status;
use ralph_home::paths::Home;
use ralph_home::store::{self, Opened};
use ralph_hook::control::{self, ControlError, Named};
use std::path::PathBuf;

/// The ended run to continue, if `--fork` names one and no goal is given.
pub(super) fn ended(home: &Home, args: &Run) -> Result<Option<Opened>, Failure> {
    let Some(name) = args.fork.as_ref().filter(|_| !args.says_what()) else { return Ok(None) };
    let run = match control::named(home, name) {
        Ok(Named::Run(run)) => run,
        Ok(Named::Session(_)) => return Err(unsaid()),
        Err(ControlError::Unknown(_)) if is_session(name) => return Err(unsaid()),
        Err(error) => return Err(error.into()),
    };
    let opened = store::load(home, &run)?;
    if opened.run.drive.is_none() {
        let what = format!("ralph did not drive run `{run}`, so it cannot continue it");
        return Err(Failure::new(&what, &with_goal(&run)));
    }
    match control::phase(home, &opened) {
        Phase::Ended(Status::Verified) => {
            let what = format!("run `{run}` is verified: nothing is left to do");
            Err(Failure::new(&what, &with_goal(&run)))
        }
        Phase::Ended(_) => Ok(Some(opened)),
        Phase::Active | Phase::Orphaned | Phase::Paused { .. } => {
            let hint = format!("`ralph run --resume {run}` continues it");
            Err(Failure::new(&format!("run `{run}` has not ended"), &hint))
        }
    }
}

fn is_session(name: &str) -> bool {
    SessionId::parse(name).is_some_and(|session| session.as_str().len() == WHOLE)
}

fn unsaid() -> Failure {
    let hint = "run `ralph run \"your goal\" --fork SESSION`";
    Failure::new("no goal given", hint)
}

fn with_goal(run: &RunId) -> String {
    format!("`ralph run \"…\" --fork {run}` starts a new run from its last session")
}

/// Fills in the arguments that are not given from the ended run: goal, lists, limits, project and gates.
pub(super) fn filled(home: &Home, args: &Run, past: &record::Run) -> Run {
    let mut again = args.clone();
    if past.goal_bytes > 0 {
        again.goal_file = Some(home.run(&past.id).goal());
    }
    again.features = past.features.iter().map(PathBuf::from).collect();
    let plans = past.lists.iter().filter(|list| list.kind == ListKind::Plan);
    again.plan = plans.map(|list| PathBuf::from(&list.path)).collect();
    again.no_gates |= past.seal.is_none();
    let complexity = past.seal.as_ref().and_then(|seal| seal.complexity);
    again.complexity = again.complexity.or(complexity);
    let place = match worktree(args, past) {
        Some(kept) => kept.path,
        None => made_from(past),
    };
    again.project.get_or_insert(PathBuf::from(place));
    limited(&mut again, &past.limits);
    again
}

/// Fills in the limits of the ended run, which then count anew. 0 means no limit.
fn limited(again: &mut Run, past: &Limits) {
    let limits = &mut again.limits;
    limits.max_iterations.get_or_insert(past.max_iterations.unwrap_or(0));
    limits.min_iterations.get_or_insert(past.min_iterations);
    limits.max_duration.get_or_insert(past.max_duration_ms.unwrap_or(0));
    limits.max_cost_usd.get_or_insert(past.max_cost_micro_usd.unwrap_or(0));
    limits.stuck_after.get_or_insert(past.stuck_after);
    again.max_tokens.get_or_insert(past.max_tokens.unwrap_or(0));
    again.handover_at.get_or_insert(past.handover_at_permille);
}

/// The drive settings of the ended run, with its kept work tree. The caller sets the session to fork.
pub(super) fn settings(args: &Run, past: &record::Run) -> Settings {
    let settings = past.drive.as_deref().cloned().unwrap_or(Settings::DEFAULT);
    Settings { from: None, worktree: worktree(args, past), ..settings }
}

/// The work tree of the ended run, unless the arguments ask for another.
fn worktree(args: &Run, past: &record::Run) -> Option<Worktree> {
    let is_new = args.worktree || args.pr || args.project.is_some();
    let kept = past.drive.as_ref().and_then(|settings| settings.worktree.clone());
    kept.filter(|_| !is_new)
}

fn made_from(past: &record::Run) -> String {
    let kept = past.drive.as_ref().and_then(|settings| settings.worktree.as_ref());
    kept.map_or_else(|| past.project.clone(), |kept| kept.from.clone())
}
