//! Which run a command means: the named one, that of the agent's own session, or that of the current project.

use super::run::queue::queue_status::{named_queue, unknown_name_failure};
use crate::failure::CommandFailure;
use ralph_core::id::{RunId, SessionId};
use ralph_core::text;
use ralph_home::host_env;
use ralph_home::paths::RalphHome;
use ralph_home::run_outline::OutlinedRun;
use ralph_home::store;
use ralph_hook::control::{self, ControlError, RunOrSession};
use ralph_hook::overview;
use ralph_hook::project_runs::{self, ProjectRun, RunPurpose};
use ralph_hook::project_scope::ProjectScope;
use ralph_sys::env::Env;
use ralph_sys::fs;

const MAX_SESSIONS: usize = 10_000;

/// The project of the current directory.
pub(crate) fn current_scope(env: &Env) -> Result<ProjectScope, CommandFailure> {
    let here = env.current_dir().ok_or_else(|| {
        CommandFailure::new(
            "the current directory no longer exists",
            "change to a directory that exists",
        )
    })?;
    Ok(ProjectScope::of_directory(&here))
}

/// The current project, unless ralph knows nothing about it: then everything is shown instead.
pub(crate) fn scope_with_runs(
    env: &Env,
    home: &RalphHome,
) -> Result<Option<ProjectScope>, CommandFailure> {
    scope_among(env, home, &overview::outline_runs(home)?)
}

/// Like [`scope_with_runs`], for a caller that has the outlines of all runs.
pub(crate) fn scope_among(
    env: &Env,
    home: &RalphHome,
    runs: &[OutlinedRun],
) -> Result<Option<ProjectScope>, CommandFailure> {
    let scope = current_scope(env)?;
    let is_here = |record: &OutlinedRun| {
        store::load_run(home, &record.id).is_ok_and(|opened| scope.contains_run(&opened.run))
    };
    let has_any = |records: &[OutlinedRun]| {
        let mut is_candidate = scope.outline_filter();
        let mut candidates: Vec<_> = records.iter().filter(|record| is_candidate(record)).collect();
        // Most often one with an outline decides.
        candidates.sort_by_key(|record| record.outline.is_none());
        candidates.into_iter().any(is_here)
    };
    let is_known = has_any(runs) || has_any(&overview::outline_session_records(home)?);
    Ok(is_known.then_some(scope))
}

/// The run or session of that name. For the name of a queue, the error suggests to name one of its runs; for an unknown
/// name, the most similar one.
pub(crate) fn find_named(home: &RalphHome, name: &str) -> Result<RunOrSession, CommandFailure> {
    control::resolve_name(home, name).map_err(|error| name_failure(home, error))
}

/// Whether a run, a session or a queue has that name, or several could be meant.
pub(crate) fn is_known_name(home: &RalphHome, name: &str) -> bool {
    let is_run = !matches!(control::resolve_name(home, name), Err(ControlError::UnknownName(_)));
    is_run || matches!(named_queue(home, name), Ok(Some(_)))
}

/// Whether a run has that id, or its session that name.
pub(crate) fn is_known_run(home: &RalphHome, name: &str) -> bool {
    matches!(control::resolve_name(home, name), Ok(RunOrSession::Run(_)))
}

/// The error about a name, with a suggestion.
pub(crate) fn name_failure(home: &RalphHome, error: ControlError) -> CommandFailure {
    let ControlError::UnknownName(name) = &error else { return error.into() };
    let is_queue = matches!(named_queue(home, name), Ok(Some(_)));
    let near = nearest_name(home, name).filter(|_| !is_queue);
    let failure = unknown_name_failure(home, error);
    match near {
        Some(near) => failure.with_hint(&format!(
            "did you mean `{near}`? `ralph status --all` lists runs and sessions"
        )),
        None => failure,
    }
}

fn nearest_name(home: &RalphHome, name: &str) -> Option<String> {
    let runs = store::list_runs(home).unwrap_or_default();
    let mut sessions = fs::list_if_exists(&home.sessions(), MAX_SESSIONS).unwrap_or_default();
    sessions.extend(fs::list_if_exists(&home.session_notes(), MAX_SESSIONS).unwrap_or_default());
    let sessions = sessions.iter().filter_map(|session| session.to_str());
    let names = runs.iter().map(RunId::as_str).chain(sessions);
    text::nearest(name, names).map(str::to_string)
}

/// The named run. `no_run` makes the error about a session that no run owns.
pub(crate) fn find_run(
    home: &RalphHome,
    name: &str,
    no_run: impl FnOnce(&SessionId) -> CommandFailure,
) -> Result<RunId, CommandFailure> {
    match find_named(home, name)? {
        RunOrSession::Run(run) if run.is_of_session() => Err(gated_session_failure(&run)),
        RunOrSession::Run(run) => Ok(run),
        RunOrSession::Session(session) => Err(no_run(&session)),
    }
}

pub(crate) fn unowned_session(session: &SessionId) -> CommandFailure {
    let hint = "`ralph status --all` lists the runs";
    CommandFailure::new(&format!("no run owns session `{session}`"), hint)
}

/// The error about a session that only the gates of its project hold.
pub(crate) fn gated_session_failure(record: &RunId) -> CommandFailure {
    let hint = format!(
        "`ralph why {record}` explains what they decided; `/ralph:off` in the session turns them off"
    );
    CommandFailure::new("no run holds this session, only the gates of its project do", &hint)
}

/// The run of the session whose agent calls, if there is one.
pub(crate) fn own_run(env: &Env, home: &RalphHome) -> Option<RunId> {
    let session = host_env::host_session(env)?;
    match control::resolve_name(home, &session) {
        Ok(RunOrSession::Run(run)) => Some(run),
        Ok(RunOrSession::Session(_)) | Err(_) => None,
    }
}

/// The run that a command without a name means.
pub(crate) fn project_run(
    env: &Env,
    home: &RalphHome,
    purpose: RunPurpose,
) -> Result<RunId, CommandFailure> {
    match find_project_run(env, home, purpose)? {
        Some(run) => Ok(run),
        None => Err(no_run_failure(home, &current_scope(env)?)?),
    }
}

/// Like [`project_run`]; `None` if the project has no run.
pub(crate) fn find_project_run(
    env: &Env,
    home: &RalphHome,
    purpose: RunPurpose,
) -> Result<Option<RunId>, CommandFailure> {
    if let Some(own) = own_run(env, home) {
        return Ok(Some(own));
    }
    let scope = current_scope(env)?;
    match project_runs::choose_run(home, &scope, purpose)? {
        ProjectRun::One(run) => Ok(Some(run)),
        ProjectRun::Several(runs) => {
            let names: Vec<_> = runs.iter().map(|run| format!("`{run}`")).collect();
            let what =
                format!("{} runs of this project could be meant: {}", runs.len(), names.join(", "));
            Err(CommandFailure::new(&what, "name one of them; `ralph status` shows their state"))
        }
        ProjectRun::NoneHere => Ok(None),
    }
}

fn no_run_failure(
    home: &RalphHome,
    scope: &ProjectScope,
) -> Result<CommandFailure, CommandFailure> {
    let what = format!("there is no run in `{}`", scope.root().display());
    let hint = match store::list_runs(home)?.first() {
        Some(_) => "name a run of another project; `ralph status --all` lists them",
        None => "`ralph run \"…\"` starts one, `ralph start \"…\"` holds an open session",
    };
    Ok(CommandFailure::new(&what, hint))
}

/// Says that everything is shown, because ralph knows nothing about this project.
pub(crate) fn elsewhere_note(scope: &ProjectScope) -> String {
    format!("note: no runs in `{}`; this is about all projects\n", scope.root().display())
}
