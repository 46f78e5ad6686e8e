//! Prepares a run: checks everything before anything is started or changed, and returns a [`RunPlan`].

use super::again;
use super::args::{self, Permissions, Run};
use super::grants;
use super::policy::{self, Judge};
use crate::cmd::start::{self, Demand, Gates};
use crate::cmd::{caller, feature, home, init, off};
use crate::driven;
use crate::report::Failure;
use crate::wording::safe;
use ralph_core::drive::{Agent, Settings, Then, Waits};
use ralph_core::id::SessionId;
use ralph_core::limits;
use ralph_core::run::Phase;
use ralph_drive::agent;
use ralph_gates::gates::tools;
use ralph_git::git;
use ralph_home::paths::Home;
use ralph_home::store::{self, Opened};
use ralph_hook::control::{self, Caller, ControlError, Named};
use ralph_lists::features;
use ralph_policy::config;
use ralph_sys::env::Env;
use ralph_sys::fs;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// The length of a complete session id of the agent.
pub(super) const WHOLE: usize = 36;

/// The run to drive, and the agent that drives it.
pub(crate) struct Plan {
    pub work: Work,
    /// The path of the agent's program.
    pub program: PathBuf,
    /// A new limit on waiting for rate limits, if a person gives one for a resumed run.
    pub granted_ms: Option<u64>,
    /// Warnings to show before the start.
    pub notes: Vec<String>,
}

pub(crate) enum Work {
    New(Box<New>),
    /// An existing run. Its own record has the settings.
    Resumed(Box<Opened>),
}

/// A run that has not started yet.
pub(crate) struct New {
    /// Its `drive` is set; only a separate work tree is not created yet.
    pub demand: Demand,
    /// The title that the run will have.
    pub title: String,
    pub judge: Judge,
    pub place: Place,
}

/// Where the agent works, and how the work gets back to the project.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Project,
    Worktree {
        then: Then,
        /// How long to wait for the checks of the pull request.
        checks_ms: Option<u64>,
    },
}

impl Plan {
    /// The settings of the new run, or those on record.
    pub(crate) fn settings(&self) -> Option<&Settings> {
        match &self.work {
            Work::New(new) => new.demand.drive.as_deref(),
            Work::Resumed(opened) => opened.run.drive.as_deref(),
        }
    }
}

pub(crate) fn prepare(env: &Env, args: &Run) -> Result<Plan, Failure> {
    if caller(env) == Caller::Agent {
        let hint = "ask a person to do this in their own terminal";
        return Err(Failure::new("an agent may not start a run that drives agents", hint));
    }
    args.check()?;
    let home = home(env)?;
    if let Some(why) = off(env, &home) {
        let what = format!("ralph is off: {why}");
        return Err(Failure::new(&what, "turn it on first"));
    }
    let here = env.current_dir().ok_or_else(|| {
        Failure::new("the current directory no longer exists", "change to a directory that exists")
    })?;
    if let Some(name) = &args.resume {
        return resumed(env, &home, (name, args, &here));
    }
    let past = again::ended(&home, args)?;
    let program = match &past {
        Some(past) => same_program(env, (args, &here), past)?,
        None => program(env, args, &here)?,
    };
    let filled = past.as_ref().map(|past| again::filled(&home, args, &past.run));
    let usual = past.as_ref().map(|past| again::settings(args, &past.run));
    let args = filled.as_ref().unwrap_or(args);
    let mut new = new(env, &home, (args, usual), here)?;
    let given = new.demand.drive.as_ref().map(|drive| drive.arguments.as_slice());
    let permissions = args.agent(given.unwrap_or_default())?;
    new.judge = policy::settle(env, &home, &new.demand, args)?;
    let order = start::order(env, &home, &new.demand)?;
    control::check(&home, &order)?;
    // The order has the resolved paths.
    new.title = control::title(&order);
    (new.demand.features, new.demand.plans) = (order.features, order.plans);
    let mut notes = notes(permissions, args);
    notes.extend(new.demand.drive.as_ref().and_then(|drive| grants::note(&drive.arguments)));
    notes.extend(new.judge.about(&new.demand.goal));
    Ok(Plan { work: Work::New(Box::new(new)), program, granted_ms: None, notes })
}

/// `usual` are the settings of an ended run that is continued; otherwise the policy's settings are used.
fn new(
    env: &Env,
    home: &Home,
    (args, usual): (&Run, Option<Settings>),
    here: PathBuf,
) -> Result<New, Failure> {
    let project = init::project(env, args.project.as_deref())?;
    let of_project = config::load(&config::find_project(&project), home)?.runner;
    let usual = usual.unwrap_or(of_project);
    let place = match &usual.worktree {
        Some(kept) => Place::Worktree { then: kept.then, checks_ms: kept.checks_ms },
        None => place(args, &project)?,
    };
    let mut features = args.features.clone();
    let goal = match (&args.goal, &args.of) {
        (Some(goal), _) => goal.as_bytes().to_vec(),
        (None, Some(name)) => {
            let of = feature::named(env, &project, name)?;
            let prompt = of.directory.join(features::PROMPT);
            features.insert(0, of.directory);
            let prompt = Some(prompt).filter(|prompt| fs::exists(prompt));
            start::goal(prompt.as_deref(), &here)?
        }
        (None, None) => start::goal(args.goal_file.as_deref(), &here)?,
    };
    let session = agent::new_session().ok_or_else(|| {
        let what = "the system provides no random numbers for a session id";
        Failure::new(what, "try again in a moment")
    })?;
    let demand = Demand {
        features,
        plans: args.plan.clone(),
        gates: if args.no_gates { Gates::LeftOut } else { Gates::OfThePolicy },
        complexity: args.complexity,
        max_tokens: args.max_tokens,
        handover_at_permille: args.handover_at,
        drive: Some(Box::new(Settings { from: copied(home, args)?, ..settings(args, usual) })),
        ..Demand::of_goal(session, (project, here), goal)
    };
    let demand = demand.within(&args.limits);
    Ok(New { demand, title: String::new(), judge: Judge::Nothing, place })
}

/// The session to fork. Only the agent knows whether it exists.
fn copied(home: &Home, args: &Run) -> Result<Option<SessionId>, Failure> {
    let Some(name) = &args.fork else { return Ok(None) };
    let whole = SessionId::parse(name).filter(|session| session.as_str().len() == WHOLE);
    if whole.is_some() {
        return Ok(whole);
    }
    let run = match crate::cmd::named(home, name)? {
        Named::Session(session) => return Ok(Some(session)),
        Named::Run(run) => run,
    };
    let opened = store::load(home, &run)?;
    let session = opened.state.driven_session().cloned().or(opened.run.owner);
    session.map(Some).ok_or_else(|| {
        let what = format!("run `{run}` has no session to copy");
        Failure::new(&what, "`ralph status --all` lists all runs")
    })
}

fn place(args: &Run, project: &Path) -> Result<Place, Failure> {
    let then = match (args.pr, args.worktree) {
        (true, _) => Then::PullRequest,
        (false, true) => Then::Merge,
        (false, false) => return Ok(Place::Project),
    };
    if git::root(project).is_none() {
        let place = safe(&project.to_string_lossy());
        let what = format!("`{place}` is not in a git repository, so it cannot have a work tree");
        return Err(Failure::new(&what, "`git init` creates one; it needs a first commit"));
    }
    Ok(Place::Worktree { then, checks_ms: args.wait_for_checks })
}

/// Overrides the usual settings with the given arguments. Never adds a flag of the agent by itself.
fn settings(args: &Run, usual: Settings) -> Settings {
    Settings {
        agent: args.agent.map_or(usual.agent, Into::into),
        sessions: args.sessions.map_or(usual.sessions, Into::into),
        model: args.model.clone().or(usual.model),
        stronger_model: args.stronger_model.clone().or(usual.stronger_model),
        arguments: usual.arguments.into_iter().chain(args.flags.iter().cloned()).collect(),
        idle_ms: args.idle_after.unwrap_or(usual.idle_ms),
        waits: Waits {
            limit_ms: args.wait_for_limits.unwrap_or(usual.waits.limit_ms),
            ..usual.waits
        },
        ..usual
    }
}

fn resumed(
    env: &Env,
    home: &Home,
    (name, args, here): (&str, &Run, &Path),
) -> Result<Plan, Failure> {
    let run = match crate::cmd::named(home, name)? {
        Named::Run(run) => run,
        Named::Session(session) => {
            let what = format!("no run owns session `{session}`, so there is nothing to continue");
            return Err(Failure::new(&what, "`ralph status --all` lists all runs"));
        }
    };
    let mut opened = store::load(home, &run)?;
    if let Phase::Ended(status) = control::phase(home, &opened) {
        return Err(driven::failed(home, ControlError::HasEnded { run, status }));
    }
    let Some(mut settings) = opened.state.settings(&opened.run) else {
        let what = format!("run `{run}` is not driven by ralph but by its own session");
        return Err(Failure::new(&what, &format!("`ralph resume {run}` resumes it")));
    };
    let mut notes = skipped(args::permissions(&settings.arguments));
    notes.extend(grants::note(&settings.arguments));
    let granted_ms = args.wait_for_limits.filter(|ms| *ms != settings.waits.limit_ms);
    if let Some(ms) = granted_ms {
        settings.waits.limit_ms = ms;
        notes.push(granted(ms));
    }
    opened.run.drive = Some(Box::new(settings));
    let program = same_program(env, (args, here), &opened)?;
    Ok(Plan { work: Work::Resumed(Box::new(opened)), program, granted_ms, notes })
}

fn granted(ms: u64) -> String {
    match ms {
        0 => "it does not wait for rate limits from now on".to_string(),
        ms => format!("it may wait up to {} for rate limits from now on", limits::duration(ms)),
    }
}

/// The agent's program: the given one, or the one on `PATH`. Relative entries of `PATH` are not searched, because the
/// repository could put a program there.
fn program(env: &Env, args: &Run, here: &Path) -> Result<PathBuf, Failure> {
    let usual = match args.agent.map_or(Settings::DEFAULT.agent, Into::into) {
        Agent::Claude => "claude",
    };
    let named = args.agent_program.as_deref().unwrap_or(Path::new(usual));
    let search = env.search_path().unwrap_or_default();
    let is_path = named.components().count() > 1;
    let base = if is_path { here } else { Path::new("/") };
    let found = tools::find(named.as_os_str(), base, &search);
    found.and_then(|found| fs::resolve(&found).map(|_| found)).ok_or_else(|| {
        let what = format!("the agent `{}` was not found", safe(&named.to_string_lossy()));
        let hint = match args.agent_program {
            None => "install it, or name it with `--agent-program PATH`",
            Some(_) => "name an executable program",
        };
        Failure::new(&what, hint)
    })
}

/// The program of the run's last session, if it still exists and no other is given.
fn same_program(env: &Env, (args, here): (&Run, &Path), past: &Opened) -> Result<PathBuf, Failure> {
    let last = past.state.driving.latest().and_then(|driven| driven.session.argv.first());
    match (&args.agent_program, last.map(Path::new)) {
        (None, Some(last)) if last.is_absolute() && is_program(last) => Ok(last.to_path_buf()),
        (None | Some(_), _) => program(env, args, here),
    }
}

fn is_program(path: &Path) -> bool {
    tools::find(path.as_os_str(), Path::new("/"), OsStr::new("")).is_some()
}

fn notes(permissions: Permissions, args: &Run) -> Vec<String> {
    let mut notes = skipped(permissions);
    if args.stronger_model.is_some() && args.stronger_model == args.model {
        notes.push("`--stronger-model` is the model that it starts with".to_string());
    }
    notes
}

/// The warning at every start without permission prompts.
fn skipped(permissions: Permissions) -> Vec<String> {
    match permissions {
        Permissions::Asked => Vec::new(),
        Permissions::Skipped => vec![
            "the agent runs without permission prompts: use a container or a virtual machine, without your keys".to_string(),
        ],
    }
}
