//! Prepares a run: checks everything before anything is started or changed, and returns a [`RunPlan`].

use super::fork_run;
use super::gate_source::{self, GateSource};
use super::issue_run::IssueRun;
use super::permission_notes::{self, EditPermission};
use super::run_args::{self, PermissionPrompts, RunArgs};
use crate::cmd::gate::add;
use crate::cmd::start;
use crate::cmd::{ASK_A_PERSON, feature, init, off_reason, open_world, refuse_agent};
use crate::driven_status;
use crate::failure::CommandFailure;
use ralph_core::drive::{DriveSettings, LandingMode, WaitLimits};
use ralph_core::gate::Gate;
use ralph_core::id::RunId;
use ralph_core::id::SessionId;
use ralph_core::run::RunPhase;
use ralph_core::run_terms::{RequestedLists, RunTerms};
use ralph_core::units;
use ralph_deck::wording::safe_line;
use ralph_drive::agent;
use ralph_git::git;
use ralph_home::paths::RalphHome;
use ralph_home::store::{self, LoadedRun};
use ralph_home::world::World;
use ralph_hook::control::{self, ControlError, GateSelection, RunOrSession, RunRequest};
use ralph_host::HostProfile;
use ralph_lists::loop_directory;
use ralph_policy::config;
use ralph_policy::detect::typed_command::TypedCommand;
use ralph_sys::clock::Deadline;
use ralph_sys::env::Env;
use ralph_sys::fs;
use ralph_sys::proc::program_search;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Makes a directory a repository with one commit.
const FIRST_REPOSITORY: &str = "git init && git add -A && git commit -m \"Start\"";
const FIRST_COMMIT: &str = "git add -A && git commit -m \"Start\"";
/// Reading `HEAD` takes milliseconds.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// The length of a complete session id of the agent.
pub(super) const SESSION_ID_LENGTH: usize = 36;

/// The run to drive, and the agent that drives it.
pub(crate) struct RunPlan {
    pub work: PlannedWork,
    /// The path of the agent's program.
    pub program: PathBuf,
    /// A new limit on waiting for rate limits, if a person gives one for a resumed run.
    pub granted_ms: Option<u64>,
    /// Warnings to show before the start.
    pub notes: Vec<String>,
    /// What lets the agent edit files. A resumed run keeps its flags.
    pub edits: EditPermission,
    /// Whether `--yes` answers the question before the start.
    pub is_answered: bool,
}

pub(crate) enum PlannedWork {
    New(Box<NewRun>),
    /// An existing run. Its own record has the settings.
    Resumed(Box<LoadedRun>),
}

/// A run that has not started yet.
pub(crate) struct NewRun {
    /// Its `drive` is set; only a separate work tree is not created yet.
    pub request: RunRequest,
    /// The title that the run will have.
    pub title: String,
    pub gate_source: GateSource,
    pub workspace: RunWorkspace,
    /// The issue that the goal comes from. Its items become a list when the run starts.
    pub issue: Option<IssueRun>,
    /// The run that `--fork` names. If it waits for a person, its work going on closes it.
    pub forked: Option<RunId>,
    /// The run whose pull request was reviewed: the comments become the first messages to the agent.
    pub review_of: Option<RunId>,
}

/// Where the agent works, and how the work gets back to the project.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunWorkspace {
    Project,
    Worktree {
        then: LandingMode,
        /// How long to wait for the checks of the pull request.
        checks_ms: Option<u64>,
        /// Whether the pull request is a draft.
        draft: bool,
    },
}

impl RunPlan {
    /// The settings of the new run, or those on record.
    pub(crate) fn settings(&self) -> Option<&DriveSettings> {
        match &self.work {
            PlannedWork::New(new) => new.request.drive.as_deref(),
            PlannedWork::Resumed(opened) => opened.run.drive.as_deref(),
        }
    }
}

pub(crate) fn prepare_run(env: &Env, args: &RunArgs) -> Result<RunPlan, CommandFailure> {
    prepare(env, args, None)
}

/// Prepares the run of a queue's task, which has its own terms.
pub(crate) fn prepare_task(
    env: &Env,
    args: &RunArgs,
    terms: RunTerms,
) -> Result<RunPlan, CommandFailure> {
    prepare(env, args, Some(terms))
}

fn prepare(env: &Env, args: &RunArgs, terms: Option<RunTerms>) -> Result<RunPlan, CommandFailure> {
    refuse_agent(env, "an agent may not start a run that drives agents", ASK_A_PERSON)?;
    args.check_arguments()?;
    let world = open_world(env)?;
    let home = &world.home;
    if let Some(why) = off_reason(env, home) {
        let what = format!("ralph is off: {why}");
        let hint = if env.is_ralph_off() {
            "`unset RALPH_OFF`".to_string()
        } else {
            format!("`rm {}`", home.kill_switch().display())
        };
        return Err(CommandFailure::new(&what, &hint));
    }
    let here = env.current_dir().ok_or_else(|| {
        CommandFailure::new(
            "the current directory no longer exists",
            "change to a directory that exists",
        )
    })?;
    if let Some(name) = &args.resume {
        return resume_plan(env, home, (name, args, &here));
    }
    let past = fork_run::ended_run(home, args)?;
    let program = match &past {
        Some(past) => recorded_agent(env, (args, &here), past)?,
        None => find_agent(
            env,
            args.agent_program.as_deref(),
            args.agent.unwrap_or_else(ralph_host::default_host),
            &here,
        )?,
    };
    let new = new_run(env, home, args, terms, past.as_ref(), here)?;
    finish_plan(&world, args, new, program)
}

/// Settles the gates, and checks that the run can start.
fn finish_plan(
    world: &World,
    args: &RunArgs,
    mut new: NewRun,
    program: PathBuf,
) -> Result<RunPlan, CommandFailure> {
    let mut usual = DriveSettings::DEFAULT;
    let drive = new.request.drive.as_deref_mut().unwrap_or(&mut usual);
    let host = known_agent(drive)?;
    let permissions = args.check_agent_flags(host, &drive.arguments)?;
    let edits = EditPermission::find(world, host, &new.request.project, &drive.arguments);
    let missing_flags = permission_notes::no_permissions_note(host, &drive.arguments);
    if edits == EditPermission::Project {
        drive.arguments.extend(permission_notes::edit_flags(host));
    }
    new.gate_source = gate_source::find_gates(world, &new.request, args)?;
    let checked = control::check_request(world, new.request)?;
    // The checked request has resolved paths.
    (new.title, new.request) = (checked.title, checked.request);
    let mut notes = start_warnings(permissions, args);
    if edits == EditPermission::Open {
        notes.extend(missing_flags);
    }
    notes.extend(missing_commit_note(&new.request.project));
    let work = PlannedWork::New(Box::new(new));
    Ok(RunPlan { work, program, granted_ms: None, notes, edits, is_answered: args.yes })
}

/// A new run with the given terms, those of an ended run that is continued, or those of the arguments.
fn new_run(
    env: &Env,
    home: &RalphHome,
    args: &RunArgs,
    terms: Option<RunTerms>,
    past: Option<&LoadedRun>,
    here: PathBuf,
) -> Result<NewRun, CommandFailure> {
    let past = past.map(|past| &past.run);
    let named = match past {
        Some(past) => Some(fork_run::forked_project(args, past)),
        None => args.project.clone(),
    };
    let project = init::resolved_project(env, named.as_deref())?;
    let usual = match past {
        Some(past) => fork_run::forked_settings(args, past),
        None => config::load(&config::find_project(&project), home)?.runner,
    };
    let place = match &usual.worktree {
        Some(kept) => {
            RunWorkspace::Worktree { then: kept.then, checks_ms: kept.checks_ms, draft: kept.draft }
        }
        None => choose_workspace(args, &project)?,
    };
    let terms = match (terms, past) {
        (Some(terms), _) => terms,
        (None, Some(past)) => fork_run::forked_terms(env, home, args, (past, &project))?,
        (None, None) => terms_from_args(env, args, &project, &here)?,
    };
    let session = agent::new_session_id().ok_or_else(|| {
        let what = "the system provides no random numbers for a session id";
        CommandFailure::new(what, "try again in a moment")
    })?;
    let has_no_gates = args.no_gates || past.is_some_and(|past| past.seal.is_none());
    let request = RunRequest {
        base_dir: here,
        gates: if has_no_gates { GateSelection::Skipped } else { GateSelection::Policy },
        drive: Some(Box::new(DriveSettings {
            from: session_to_fork(home, args)?,
            ..drive_settings(args, usual)
        })),
        ..RunRequest::new(session, project, terms)
    };
    Ok(NewRun {
        request,
        title: String::new(),
        gate_source: GateSource::NoGates,
        workspace: place,
        issue: None,
        forked: fork_run::forked_run(home, args),
        review_of: past.filter(|_| args.from_review).map(|past| past.id.clone()),
    })
}

fn terms_from_args(
    env: &Env,
    args: &RunArgs,
    project: &Path,
    here: &Path,
) -> Result<RunTerms, CommandFailure> {
    let mut features = start::list_paths(&args.features)?;
    let goal = match (&args.goal, &args.of) {
        (Some(goal), _) => goal.as_bytes().to_vec(),
        (None, Some(name)) => {
            let of = feature::loop_by_name(env, project, name)?;
            let prompt = of.directory.join(loop_directory::PROMPT_FILE);
            features.splice(0..0, start::list_paths(&[of.directory])?);
            let prompt = Some(prompt).filter(|prompt| fs::exists(prompt));
            start::read_goal(prompt.as_deref(), here)?
        }
        (None, None) => start::read_goal(args.goal_file.as_deref(), here)?,
    };
    let plans = start::list_paths(&args.plan)?;
    Ok(RunTerms {
        goal,
        limits: args.limits.overrides(),
        lists: RequestedLists { features, plans, ..RequestedLists::default() },
        complexity: args.complexity,
        may_change: args.may_change.clone(),
        accept: args.accept,
        checks: typed_checks(env, args, project)?,
        ..RunTerms::default()
    })
}

/// The gates of `--check`. The person who types them approves them; no file of the repository can.
pub(super) fn typed_checks(
    env: &Env,
    args: &RunArgs,
    project: &Path,
) -> Result<Vec<Gate>, CommandFailure> {
    let checks = args.check.iter().map(|command| {
        let typed = TypedCommand { command, name: None, stage: None };
        let proposal = add::typed_proposal(env, project, typed)
            .map_err(|failure| failure.with_subject("`--check`"))?;
        Ok(proposal.gate)
    });
    checks.collect()
}

/// The session to fork. Only the agent knows whether it exists.
fn session_to_fork(home: &RalphHome, args: &RunArgs) -> Result<Option<SessionId>, CommandFailure> {
    let Some(name) = &args.fork else { return Ok(None) };
    let whole =
        SessionId::parse(name).filter(|session| session.as_str().len() == SESSION_ID_LENGTH);
    if whole.is_some() {
        return Ok(whole);
    }
    let run = match crate::cmd::find_named(home, name)? {
        RunOrSession::Session(session) => return Ok(Some(session)),
        RunOrSession::Run(run) => run,
    };
    let opened = store::load_run(home, &run)?;
    let session = opened.state.driven_session().cloned().or(opened.run.owner);
    session.map(Some).ok_or_else(|| {
        let what = format!("run `{run}` has no session to copy");
        CommandFailure::new(&what, "`ralph status --all` lists all runs")
    })
}

fn choose_workspace(args: &RunArgs, project: &Path) -> Result<RunWorkspace, CommandFailure> {
    let then = match (args.pr, args.worktree) {
        (true, _) => LandingMode::PullRequest,
        (false, true) => LandingMode::Merge,
        (false, false) => return Ok(RunWorkspace::Project),
    };
    if git::work_tree_root(project).is_none() {
        let place = safe_line(&project.to_string_lossy());
        let what = format!("`{place}` is not in a git repository, so it cannot have a work tree");
        return Err(CommandFailure::new(&what, &format!("paste: {FIRST_REPOSITORY}")));
    }
    Ok(RunWorkspace::Worktree { then, checks_ms: args.wait_for_checks, draft: args.draft })
}

/// Overrides the usual settings with the given arguments. Never adds a flag of the agent by itself.
fn drive_settings(args: &RunArgs, usual: DriveSettings) -> DriveSettings {
    DriveSettings {
        agent: args.agent.map_or(usual.agent, HostProfile::recorded_name),
        sessions: args.sessions.map_or(usual.sessions, Into::into),
        model: args.model.clone().or(usual.model),
        stronger_model: args.stronger_model.clone().or(usual.stronger_model),
        arguments: usual.arguments.into_iter().chain(args.flags.iter().cloned()).collect(),
        idle_ms: args.idle_after.unwrap_or(usual.idle_ms),
        waits: WaitLimits {
            limit_ms: args.wait_for_limits.unwrap_or(usual.waits.limit_ms),
            ..usual.waits
        },
        ..usual
    }
}

fn resume_plan(
    env: &Env,
    home: &RalphHome,
    (name, args, here): (&str, &RunArgs, &Path),
) -> Result<RunPlan, CommandFailure> {
    let run = match crate::cmd::find_named(home, name)? {
        RunOrSession::Run(run) => run,
        RunOrSession::Session(session) => {
            let what = format!("no run owns session `{session}`, so there is nothing to continue");
            return Err(CommandFailure::new(&what, "`ralph status --all` lists all runs"));
        }
    };
    let mut opened = store::load_run(home, &run)?;
    if let RunPhase::Ended(status) = control::effective_phase(home, &opened) {
        return Err(driven_status::control_failure(home, ControlError::HasEnded { run, status }));
    }
    let Some(mut settings) = opened.state.drive_settings(&opened.run) else {
        let what = format!("run `{run}` is not driven by ralph but by its own session");
        return Err(CommandFailure::new(&what, &format!("`ralph resume {run}` resumes it")));
    };
    let host = known_agent(&settings)?;
    let permissions = run_args::permission_prompts(host, &settings.arguments);
    let mut notes = skipped_permissions_note(permissions);
    notes.extend(permission_notes::no_permissions_note(host, &settings.arguments));
    let granted_ms = args.wait_for_limits.filter(|ms| *ms != settings.waits.limit_ms);
    if let Some(ms) = granted_ms {
        settings.waits.limit_ms = ms;
        notes.push(granted_note(ms));
    }
    opened.run.drive = Some(Box::new(settings));
    let program = recorded_agent(env, (args, here), &opened)?;
    let (work, edits) = (PlannedWork::Resumed(Box::new(opened)), EditPermission::Flags);
    Ok(RunPlan { work, program, granted_ms, notes, edits, is_answered: args.yes })
}

fn granted_note(ms: u64) -> String {
    match ms {
        0 => "it does not wait for rate limits from now on".to_string(),
        ms => {
            format!("it may wait up to {} for rate limits from now on", units::format_duration(ms))
        }
    }
}

/// The host of the run's agents. Fails if a newer ralph recorded one that this version does not know.
fn known_agent(settings: &DriveSettings) -> Result<&'static HostProfile, CommandFailure> {
    let name = settings.agent.as_str();
    ralph_host::host_named(name).ok_or_else(|| {
        let what = format!("this version of ralph does not know the agent `{}`", safe_line(name));
        CommandFailure::new(&what, "install the version of ralph that started the run")
    })
}

/// The agent's program: the given one, or the one on `PATH`. Relative entries of `PATH` are not searched, because the
/// repository could put a program there.
pub(crate) fn find_agent(
    env: &Env,
    given: Option<&Path>,
    host: &HostProfile,
    here: &Path,
) -> Result<PathBuf, CommandFailure> {
    let named = given.unwrap_or(Path::new(host.program));
    let search = env.search_path().unwrap_or_default();
    let is_path = named.components().count() > 1;
    let base = if is_path { here } else { Path::new("/") };
    let found = program_search::find_program(named.as_os_str(), base, &search);
    found.and_then(|found| fs::resolve(&found).map(|_| found)).ok_or_else(|| {
        let what = format!("the agent `{}` was not found", safe_line(&named.to_string_lossy()));
        let hint = match given {
            None => "install it, or name it with `--agent-program PATH`",
            Some(_) => "name an executable program",
        };
        CommandFailure::new(&what, hint)
    })
}

/// The program of the run's last session, if it still exists and no other is given.
fn recorded_agent(
    env: &Env,
    (args, here): (&RunArgs, &Path),
    past: &LoadedRun,
) -> Result<PathBuf, CommandFailure> {
    let last = past.state.driving.latest_session().and_then(|driven| driven.session.argv.first());
    match (&args.agent_program, last.map(Path::new)) {
        (None, Some(last)) if last.is_absolute() && is_program(last) => Ok(last.to_path_buf()),
        (None | Some(_), _) => {
            let recorded = ralph_host::recorded_host(&past.run.host);
            find_agent(env, args.agent_program.as_deref(), args.agent.unwrap_or(recorded), here)
        }
    }
}

fn is_program(path: &Path) -> bool {
    program_search::find_program(path.as_os_str(), Path::new("/"), OsStr::new("")).is_some()
}

/// The next step in a directory without a commit, in which no diff shows the work of the agent.
fn missing_commit_note(project: &Path) -> Option<String> {
    if git::work_tree_root(project).is_none() {
        return Some(format!(
            "not a git repository, so no diff shows the agent's work; paste `{FIRST_REPOSITORY}` first"
        ));
    }
    let head = git::head_commit(project, &Deadline::after(HEAD_TIMEOUT));
    head.is_none().then(|| {
        format!("nothing is committed yet, so no diff shows the agent's work; paste `{FIRST_COMMIT}` first")
    })
}

fn start_warnings(permissions: PermissionPrompts, args: &RunArgs) -> Vec<String> {
    let mut notes = skipped_permissions_note(permissions);
    if args.stronger_model.is_some() && args.stronger_model == args.model {
        notes.push("`--stronger-model` is the model that it starts with".to_string());
    }
    notes
}

/// The warning at every start without permission prompts.
fn skipped_permissions_note(permissions: PermissionPrompts) -> Vec<String> {
    match permissions {
        PermissionPrompts::Asked => Vec::new(),
        PermissionPrompts::Skipped => vec![
            "the agent runs without permission prompts: use a container or a virtual machine, without your keys".to_string(),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ralph_core::host_name::HostName;

    /// With the flags of the default host, the agent would start incorrectly or not at all.
    #[test]
    fn an_agent_of_a_newer_version_is_not_driven() {
        let driven_by = |agent| {
            let settings = DriveSettings { agent, ..DriveSettings::DEFAULT };
            known_agent(&settings).map(|host| host.name).map_err(|failure| failure.to_plain_text())
        };
        assert_eq!(driven_by(HostName::DEFAULT), Ok("claude"));
        insta::assert_snapshot!(driven_by(HostName::new("ot\u{1b}her")).unwrap_err(), @"
        this version of ralph does not know the agent `other`
          hint: install the version of ralph that started the run
        ");
    }
}
