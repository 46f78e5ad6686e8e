//! `ralph start` and `ralph orchestrator start`: makes a request of the arguments, and shows the started run.

use super::start_args::{StartArgs, StartOptions};
use crate::failure::CommandFailure;
use crate::term;
use ralph_core::id::{RunId, SessionId};
use ralph_core::input_bounds::MAX_GOAL_BYTES;
use ralph_core::limits::LimitKind;
use ralph_core::record::{RunRecord, unpriced_limit};
use ralph_core::run_terms::{GoalTooLong, RequestedLists, RunTerms};
use ralph_deck::view::limit_fields::LimitFields;
use ralph_deck::wording;
use ralph_home::host_env;
use ralph_home::paths::RalphHome;
use ralph_home::session_pointer::{self, SessionPointer};
use ralph_home::store;
use ralph_hook::control::{
    self, GateSelection, RunRequest, StartError, StartNote, StartedRun, UnprovedReason,
};
use ralph_hook::recent_sessions;
use ralph_policy::trust;
use ralph_sys::env::Env;
use ralph_sys::stdin::{self, StdinError};
use ralph_sys::{clock, fs};
use serde::Serialize;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

/// Indents the continuation of a wide line.
const WRAP_INDENT: usize = 14;
/// How many sessions an error names.
const SHOWN_SESSIONS: usize = 5;
const MAX_NAMED_LINKS: usize = 3;

#[derive(Serialize)]
struct StartJson<'a> {
    v: u8,
    run: &'a str,
    session: &'a str,
    project: &'a str,
    #[serde(flatten)]
    limits: LimitFields,
    features: &'a [String],
    completion_promise: Option<&'a str>,
    checklist: bool,
    goal_bytes: u64,
    gates: Vec<&'a str>,
    /// Files whose change holds the agent.
    sealed: Vec<&'a str>,
    started_at: String,
    cancel: String,
}

pub(crate) fn run(env: &Env, args: &StartArgs) -> Result<(), CommandFailure> {
    let goal = args.goal.as_deref().map(str::as_bytes);
    start_from_args(env, &args.options, CommandLineGoal { goal, phases: false })
}

/// Starts a run that works in phases, on the task given on the command line.
pub(crate) fn start_orchestrated(
    env: &Env,
    args: &StartOptions,
    task: &str,
) -> Result<(), CommandFailure> {
    let goal = Some(task.as_bytes()).filter(|_| args.goal_file.is_none());
    start_from_args(env, args, CommandLineGoal { goal, phases: true })
}

/// What the options do not say: the goal on the command line, and whether the run works in phases.
#[derive(Clone, Copy)]
struct CommandLineGoal<'a> {
    goal: Option<&'a [u8]>,
    phases: bool,
}

fn start_from_args(
    env: &Env,
    args: &StartOptions,
    given: CommandLineGoal<'_>,
) -> Result<(), CommandFailure> {
    let world = super::open_world(env)?;
    let here = env.current_dir().ok_or_else(|| {
        CommandFailure::new(
            "the current directory no longer exists",
            "change to a directory that exists",
        )
    })?;
    if args.no_gates || args.complexity.is_some() || !args.may_change.is_empty() {
        super::refuse_agent(env, "an agent may not skip its own gates", super::ASK_A_PERSON)?;
    }
    let project =
        control::resolve_directory(args.project.as_deref().unwrap_or(Path::new(".")), &here)?;
    let session = session_id(env, args, &project)?;
    let goal = match given.goal {
        Some(goal) if goal.len() > MAX_GOAL_BYTES => return Err(GoalTooLong.into()),
        Some(goal) => goal.to_vec(),
        None => read_goal(args.goal_file.as_deref(), &here)?,
    };
    let terms = RunTerms {
        goal,
        limits: args.limits.overrides(),
        lists: RequestedLists {
            features: list_paths(&args.features)?,
            plans: list_paths(&args.plan)?,
            checklist: args.checklist,
            tasks: args.tasks,
        },
        promise: args.completion_promise.clone(),
        complexity: args.complexity,
        phases: given.phases,
        may_change: args.may_change.clone(),
        accept: None,
        checks: Vec::new(),
    };
    let request = RunRequest {
        base_dir: here,
        gates: if args.no_gates { GateSelection::Skipped } else { GateSelection::Policy },
        ..RunRequest::new(session, project, terms)
    };
    let started = control::start_run(&world, request)?;
    if args.json {
        print_json(&started.run)
    } else {
        term::out_fitted(&render_started(&started), WRAP_INDENT)?;
        Ok(())
    }
}

/// The paths of lists, which a run records as text.
pub(crate) fn list_paths(paths: &[PathBuf]) -> Result<Vec<String>, CommandFailure> {
    let text = |path: &PathBuf| path.to_str().map(str::to_string);
    let text = |path: &PathBuf| text(path).ok_or_else(|| StartError::NotUtf8(path.clone()).into());
    paths.iter().map(text).collect()
}

fn unsealed_text(why: &str) -> String {
    format!("{}; until then the run ends at most `green`", wording::safe_line(why))
}

fn other_run_text(other: &RunId) -> String {
    format!(
        "run `{other}` is active in this directory too: each sees the other's changes; `ralph run --worktree` separates them"
    )
}

fn mute_judge_text(judge: &str, why: &str) -> String {
    format!("judge {judge} cannot give a verdict: {}", wording::safe_line(why))
}

fn loopback_text(gate: &str, authority: &str) -> String {
    let (owner, name) = trust::program_owner(gate);
    let authority = wording::safe_line(authority);
    format!("{owner} {name} asks `{authority}`, where a process of the agent can answer")
}

/// A warning about a new run as a sentence.
pub(crate) fn note_text(note: &StartNote) -> String {
    match note {
        StartNote::Off(why) => format!("ralph is off: {why}"),
        StartNote::Plan { file, note } => note.format_for(&wording::safe_line(file)),
        StartNote::AllItemsDone => {
            "every list item is marked done already, so the first stop may end the run".to_string()
        }
        StartNote::UncheckedItems { unchecked, count } => {
            let which = match (unchecked, count) {
                (_, 1) => "the only item has no check".to_string(),
                (1, _) => format!("1 of {count} items has no check"),
                (_, _) => format!("{unchecked} of {count} items have no check"),
            };
            format!("{which}, so the best result is `claimed`")
        }
        StartNote::Unsealed(why) => unsealed_text(why),
        StartNote::UnmatchedGlob(glob) => {
            format!("`--may-change {}` matches no file", wording::safe_line(glob))
        }
        StartNote::OtherRun(other) => other_run_text(other),
        StartNote::NoGit => {
            "git is not installed, so changes cannot be compared with the start, and the run ends as `green` at best"
                .to_string()
        }
        StartNote::MissingTool { gate, program } => {
            let (owner, name) = trust::program_owner(gate);
            let program = wording::safe_line(program);
            format!("{owner} {name} needs `{program}`, which was not found")
        }
        StartNote::MissingKey { judge, variable } => {
            format!("judge {judge} needs ${}, which is not set here", wording::safe_line(variable))
        }
        StartNote::LoopbackService { gate, authority } => loopback_text(gate, authority),
        StartNote::MissingScript { gate, script } => {
            format!(
                "gate {gate} runs the script `{}`, which does not exist yet: the agent writes it and chooses its programs",
                wording::safe_line(script)
            )
        }
        StartNote::MissingNodeModules => {
            "`node_modules` is missing; install the packages first: a run that installs them itself ends as `green` at best"
                .to_string()
        }
        StartNote::OutsideLinks(names) => outside_links_text(names),
        StartNote::CostLimitOff { most_micro_usd, model } => {
            let models = [wording::safe_line(model)];
            let off = unpriced_limit(*most_micro_usd, &models);
            format!("{off}; `ralph init --statusline` lets the client report the cost")
        }
        StartNote::SealedGoal(file) => {
            let name = wording::safe_line(&file.name);
            let why = wording::safe_line(&file.reason());
            format!(
                "the goal names `{name}`, which is sealed because {why}: a change to it blocks every stop. `--may-change` allows it; a command that only reads the file, such as `grep`, does not seal it"
            )
        }
        StartNote::Unproved(why) => unproved_text(*why),
        StartNote::NoVerdict { judge, why } => mute_judge_text(judge, why),
        StartNote::Unmeasured => {
            "nothing measures this goal: the run ends as `claimed` when the agent says so, or at a limit"
                .to_string()
        }
        StartNote::UnmeasuredStages(stages) => {
            let stages: Vec<_> = stages.iter().map(|stage| stage.name()).collect();
            format!(
                "no gate measures {}, so the best result is `claimed`; `ralph gate detect` proposes gates",
                stages.join(" or ")
            )
        }
    }
}

fn unproved_text(why: UnprovedReason) -> String {
    let why = match why {
        UnprovedReason::NoGateTakesPart => "every gate is advisory or has `proof = false`",
        UnprovedReason::NoGateRunsTests => "no gate runs tests",
    };
    format!(
        "{why}, so nothing shows that tests notice the work, and the run ends as `green` at best"
    )
}

fn outside_links_text(names: &[String]) -> String {
    let shown: Vec<String> = names
        .iter()
        .take(MAX_NAMED_LINKS)
        .map(|name| format!("`{}`", wording::safe_line(name)))
        .collect();
    let (shown, others) =
        (shown.join(", "), if names.len() > MAX_NAMED_LINKS { " and others" } else { "" });
    let verb = if names.len() == 1 { "is a link" } else { "are links" };
    format!(
        "{shown}{others} {verb} out of the project: no checkpoint has the files there, and if they change, the run ends as `green` at best"
    )
}

fn session_id(env: &Env, args: &StartOptions, project: &Path) -> Result<SessionId, CommandFailure> {
    let own = host_env::host_session(env);
    let named = args.session.clone().or_else(|| own.clone());
    if named != own {
        let what = "an agent may start a run only for its own session";
        super::refuse_agent(env, what, super::ASK_A_PERSON)?;
    }
    let is_own = named == own;
    let Some(named) = named else { return only_recent_session(env, project) };
    let session = SessionId::parse(&named).ok_or_else(|| {
        let what =
            format!("`{}` cannot be a session id", ralph_core::text::clean_line(&named, 130));
        CommandFailure::new(&what, "an id is 1 to 128 letters, digits, `_` and `-`")
    })?;
    if !is_own && !args.yes {
        refuse_unknown_session(env, &session)?;
    }
    Ok(session)
}

/// Fails for a session without any trace: a run would wait for stops that never come.
fn refuse_unknown_session(env: &Env, session: &SessionId) -> Result<(), CommandFailure> {
    let home = super::open_home(env)?;
    // A pointer that cannot be read is a trace too; it is reported when the run is started.
    let is_known = !matches!(session_pointer::read_pointer(&home, session), Ok(None));
    let host = host_env::calling_host(env);
    if is_known || recent_sessions::has_transcript(env, host, session) != Some(false) {
        return Ok(());
    }
    Err(CommandFailure::new(
        &format!("no session `{session}` is known: it has no transcript, and no run held it"),
        "in Claude Code, `/status` shows the session's id; without a message it has no transcript yet, then add `--yes`",
    ))
}

/// The only session here that was active lately, that no run holds and that no `ralph run` started.
fn only_recent_session(env: &Env, project: &Path) -> Result<SessionId, CommandFailure> {
    let home = super::open_home(env)?;
    let host = host_env::calling_host(env);
    let mut found = recent_sessions::recent_sessions(env, host, project, clock::now_ms());
    found.retain(|one| match session_pointer::read_pointer(&home, &one.session) {
        Ok(Some(SessionPointer { ended: false, .. })) => false,
        Ok(Some(pointer)) => !is_driven(&home, &pointer.run),
        // A pointer that cannot be read is reported when the run is started.
        Ok(None) | Err(_) => true,
    });
    let id_hint = "give `--session ID`; in Claude Code, `/status` shows the session's id";
    match found.as_slice() {
        [one] => Ok(one.session.clone()),
        [] => Err(CommandFailure::new(
            "no session given, and none without a run was active here in the last 30 minutes",
            "type `/ralph:goal …` in the session, give `--session ID`, or start one with `ralph run \"…\"`",
        )),
        [_, _, ..] => {
            let now_ms = clock::now_ms();
            let names = found
                .iter()
                .take(SHOWN_SESSIONS)
                .map(|one| format!("`{}` ({})", one.session, wording::ago(now_ms, one.active_ms)));
            let names: Vec<_> = names.collect();
            let what = format!("{} sessions were active here: {}", found.len(), names.join(", "));
            Err(CommandFailure::new(&what, id_hint))
        }
    }
}

/// Whether `ralph run` started the agent itself: its sessions end with the run, and no person types in them.
fn is_driven(home: &RalphHome, run: &RunId) -> bool {
    store::load_run(home, run).is_ok_and(|opened| opened.run.drive.is_some())
}

/// Reads the goal from a file, or from stdin for `-`. It is whole, or an error.
pub(crate) fn read_goal(file: Option<&Path>, here: &Path) -> Result<Vec<u8>, CommandFailure> {
    let goal = match file {
        None => return Ok(Vec::new()),
        Some(path) if path == Path::new("-") => read_goal_from_stdin()?,
        Some(path) if fs::is_special(&here.join(path)) => {
            let what = format!("`{}` is not a regular file", path.display());
            return Err(CommandFailure::new(&what, "pipe it in instead, with `--goal-file -`"));
        }
        Some(path) => fs::read(&here.join(path), MAX_GOAL_BYTES).map_err(|error| {
            if error.is_too_large() {
                let subject = format!("`{}`", path.display());
                return CommandFailure::from(GoalTooLong).with_subject(&subject);
            }
            error.into()
        })?,
    };
    if goal.trim_ascii().is_empty() {
        let hint = "write the goal, or omit `--goal-file`";
        return Err(CommandFailure::new("the goal is empty", hint));
    }
    Ok(goal)
}

pub(crate) fn read_goal_from_stdin() -> Result<Vec<u8>, CommandFailure> {
    if std::io::stdin().is_terminal() {
        term::err("write the goal, then press Ctrl-D on an empty line\n");
    }
    stdin::read_all(std::io::stdin(), MAX_GOAL_BYTES).map_err(|error| match error {
        StdinError::TooLarge { .. } => CommandFailure::from(GoalTooLong).with_subject("stdin"),
        StdinError::TimedOut | StdinError::Failed(_) => {
            CommandFailure::caused_by("cannot read the goal from stdin", &error)
        }
    })
}

fn render_started(started: &StartedRun) -> String {
    let StartedRun { run, notes } = started;
    let owner = run.owner.as_ref().map(SessionId::as_str).unwrap_or_default();
    let mut out =
        format!("{}  started     {}\n", term::paint(term::BOLD, run.id.as_str()), run.title);
    out.push_str(&format!("      session {owner}\n"));
    for (label, value) in contract_lines(started) {
        out.push_str(&format!("      {label:<7} {value}\n"));
    }
    for note in notes {
        out.push_str(&format!("      {:<7} {}\n", "note", note_text(note)));
    }
    out.push_str(&format!("      stop it with `ralph cancel {}`\n", run.id));
    out
}

/// The limits of the run and the sources of its requirements, as labels and values.
pub(crate) fn contract_lines(started: &StartedRun) -> Vec<(&'static str, String)> {
    let StartedRun { run, notes } = started;
    let mut limits = run.limits.clone();
    // A limit that is off must not look like one that works.
    if notes.iter().any(|note| matches!(note, StartNote::CostLimitOff { .. })) {
        limits.max_cost_micro_usd = None;
    }
    let limits = ("limits", wording::limits(&limits));
    std::iter::once(limits).chain(wording::contract(run)).collect()
}

fn print_json(run: &RunRecord) -> Result<(), CommandFailure> {
    super::print_json(&StartJson {
        v: 1,
        run: run.id.as_str(),
        session: run.owner.as_ref().map(SessionId::as_str).unwrap_or_default(),
        project: &run.project,
        limits: LimitFields::of_limits(
            &run.limits,
            &[
                LimitKind::MaxIterations,
                LimitKind::MaxDuration,
                LimitKind::MaxCost,
                LimitKind::StuckAfter,
                LimitKind::MinIterations,
            ],
        ),
        features: &run.features,
        completion_promise: run.promise.as_deref(),
        checklist: run.checklist,
        goal_bytes: run.goal_bytes,
        gates: run
            .seal
            .iter()
            .flat_map(|seal| &seal.policy.gates)
            .map(|gate| gate.name.as_str())
            .collect(),
        sealed: run
            .seal
            .iter()
            .flat_map(|seal| seal.files.iter().flatten())
            .map(|file| file.name.as_str())
            .collect(),
        started_at: clock::format_rfc3339(run.started_ms),
        cancel: format!("ralph cancel {}", run.id),
    })?;
    Ok(())
}
