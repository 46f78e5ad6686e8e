//! `ralph start`. The session commands, `ralph orchestrator start` and `ralph run` start their runs here too.

use super::home;
use crate::cli::{LimitArgs, Start};
use crate::report::Failure;
use crate::{term, wording};
use ralph_core::drive::Settings;
use ralph_core::gate::{Command, Gate};
use ralph_core::id::{RunId, SessionId};
use ralph_core::limits::{Bounds, Limits};
use ralph_core::policy::{Claims, Policy};
use ralph_core::record::{Asked, ListKind, ListSeal, Run, Seal};
use ralph_core::requirement::{Stage, Weight};
use ralph_home::paths::Home;
use ralph_hook::contract;
use ralph_hook::control::{self, Approved, Caller, Order};
use ralph_hook::orchestrator;
use ralph_lists::lists::{self, Named};
use ralph_lists::loop_directory;
use ralph_lists::plan;
use ralph_policy::config::Config;
use ralph_sys::clock::{self, Deadline};
use ralph_sys::env::Env;
use ralph_sys::{fs, owner, stdin};
use serde::Serialize;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

/// How many notes about a plan are shown at the start of a run.
const SHOWN_NOTES: usize = 8;

pub(crate) const UNMEASURED: &str =
    "nothing measures this goal: the run ends as `claimed` when the agent says so, or at a limit";

const LARGEST_GOAL: usize = 4 * 1024 * 1024;

#[derive(Serialize)]
struct StartJson<'a> {
    v: u8,
    run: &'a str,
    session: &'a str,
    project: &'a str,
    max_iterations: Option<u32>,
    max_duration_ms: Option<u64>,
    max_cost_usd: Option<f64>,
    stuck_after: u32,
    min_iterations: u32,
    features: &'a [String],
    completion_promise: Option<&'a str>,
    checklist: bool,
    goal_bytes: u64,
    gates: Vec<&'a str>,
    started_at: String,
    cancel: String,
}

/// A request to start a run, from a command, a prompt or the runner.
pub(crate) struct Demand {
    pub session: SessionId,
    pub project: PathBuf,
    /// The directory that relative paths start from.
    pub here: PathBuf,
    pub goal: Vec<u8>,
    /// 0 means no limit; `None` means the policy's.
    pub max_iterations: Option<u32>,
    pub max_duration: Option<u64>,
    pub max_cost_micro_usd: Option<u64>,
    pub stuck_after: Option<u32>,
    pub min_iterations: Option<u32>,
    pub features: Vec<PathBuf>,
    pub plans: Vec<PathBuf>,
    pub promise: Option<String>,
    pub checklist: Asked,
    pub tasks: Asked,
    pub gates: Gates,
    pub complexity: Option<u8>,
    pub prompt: Option<String>,
    pub phases: Asked,
    pub transcript_length: u64,
    pub max_tokens: Option<u64>,
    pub handover_at_permille: Option<u16>,
    pub drive: Option<Box<Settings>>,
    /// The id of the run, if something has been named after it already.
    pub id: Option<RunId>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gates {
    OfThePolicy,
    LeftOut,
}

impl Demand {
    /// A run for a goal, with the policy's gates and limits.
    pub(crate) fn of_goal(
        session: SessionId,
        (project, here): (PathBuf, PathBuf),
        goal: Vec<u8>,
    ) -> Self {
        Self {
            session,
            project,
            here,
            goal,
            max_iterations: None,
            max_duration: None,
            max_cost_micro_usd: None,
            stuck_after: None,
            min_iterations: None,
            features: Vec::new(),
            plans: Vec::new(),
            promise: None,
            checklist: Asked::No,
            tasks: Asked::No,
            gates: Gates::OfThePolicy,
            complexity: None,
            prompt: None,
            phases: Asked::No,
            transcript_length: 0,
            max_tokens: None,
            handover_at_permille: None,
            drive: None,
            id: None,
        }
    }

    pub(crate) fn within(self, limits: &LimitArgs) -> Self {
        Self {
            max_iterations: limits.max_iterations,
            max_duration: limits.max_duration,
            max_cost_micro_usd: limits.max_cost_usd,
            stuck_after: limits.stuck_after,
            min_iterations: limits.min_iterations,
            ..self
        }
    }

    /// The limits of the run: its own, then the policy's, then the defaults.
    pub(crate) fn limits(&self, policy: Option<&Config>) -> Limits {
        let bounds = Bounds {
            max_iterations: self.max_iterations,
            min_iterations: self.min_iterations,
            max_duration_ms: self.max_duration,
            max_cost_micro_usd: self.max_cost_micro_usd,
            stuck_after: self.stuck_after,
            max_tokens: self.max_tokens,
            handover_at_permille: self.handover_at_permille,
        };
        bounds.on(policy.map_or(&Limits::DEFAULT, |config| &config.policy.limits))
    }
}

pub(crate) struct Begun {
    pub run: Run,
    /// Warnings for the person, such as missing tools.
    pub notes: Vec<String>,
}

pub(crate) fn run(env: &Env, args: &Start) -> Result<(), Failure> {
    asked(env, args, None)
}

/// Starts a run that works in phases, on the task given on the command line.
pub(crate) fn orchestrated(env: &Env, args: &Start, task: &str) -> Result<(), Failure> {
    asked(env, args, Some(task))
}

fn asked(env: &Env, args: &Start, task: Option<&str>) -> Result<(), Failure> {
    let home = home(env)?;
    let here = env.current_dir().ok_or_else(|| {
        Failure::new("the current directory no longer exists", "change to a directory that exists")
    })?;
    if (args.no_gates || args.complexity.is_some()) && super::caller(env) == Caller::Agent {
        let hint = "ask a person to do this in their own terminal";
        return Err(Failure::new("an agent may not skip its own gates", hint));
    }
    let project = directory(args.project.as_deref().unwrap_or(Path::new(".")), &here)?;
    let session = session(env, args)?;
    let goal = match task {
        Some(task) if args.goal_file.is_none() => task.as_bytes().to_vec(),
        Some(_) | None => goal(args.goal_file.as_deref(), &here)?,
    };
    let demand = Demand {
        features: args.features.clone(),
        plans: args.plan.clone(),
        tasks: if args.tasks { Asked::Yes } else { Asked::No },
        promise: args.completion_promise.clone(),
        checklist: if args.checklist { Asked::Yes } else { Asked::No },
        gates: if args.no_gates { Gates::LeftOut } else { Gates::OfThePolicy },
        complexity: args.complexity,
        phases: if task.is_some() { Asked::Yes } else { Asked::No },
        ..Demand::of_goal(session, (project, here), goal)
    };
    let demand = demand.within(&args.limits);
    let begun = begin(env, &home, &demand)?;
    if args.json {
        print_json(&begun.run)
    } else {
        term::out(&shown(&begun))?;
        Ok(())
    }
}

pub(crate) fn begin(env: &Env, home: &Home, demand: &Demand) -> Result<Begun, Failure> {
    let order = order(env, home, demand)?;
    let run = control::start(home, env, &order, &Deadline::after(super::control::PATIENCE))?;
    if run.phases == Asked::Yes {
        orchestrator::begin(home, &run);
    }
    let notes = notes(env, home, &run);
    Ok(Begun { run, notes })
}

/// Resolves the paths, policy and limits of a request.
pub(crate) fn order(env: &Env, home: &Home, demand: &Demand) -> Result<Order, Failure> {
    let mut features = Vec::new();
    for named in &demand.features {
        let named = list_directory(named, &demand.here)?;
        if !features.contains(&named) {
            features.push(named);
        }
    }
    let mut plans = Vec::new();
    for named in &demand.plans {
        let named = plan_file(named, &demand.here)?;
        if !plans.contains(&named) {
            plans.push(named);
        }
    }
    let policy = policy(home, demand)?;
    Ok(Order {
        session: demand.session.clone(),
        project: demand.project.clone(),
        goal: demand.goal.clone(),
        limits: demand.limits(policy.as_ref().map(|approved| &approved.config)),
        features,
        plans,
        tasks: demand.tasks,
        promise: promise(demand.promise.as_deref())?,
        checklist: demand.checklist,
        secrets: env.secrets(),
        policy,
        complexity: demand.complexity,
        prompt: demand.prompt.clone(),
        process: env.claude_pid().and_then(owner::mark),
        phases: demand.phases,
        transcript_length: demand.transcript_length,
        drive: demand.drive.clone(),
        id: demand.id.clone(),
    })
}

/// The approved policy of the project; `None` without gates. An unapproved policy is an error: the run does not start.
pub(crate) fn policy(home: &Home, demand: &Demand) -> Result<Option<Approved>, Failure> {
    if demand.gates == Gates::LeftOut {
        return Ok(None);
    }
    let Some((config, _)) = contract::policy(home, &demand.project)? else { return Ok(None) };
    let subject = super::gate::approved(home, &config, None)?;
    Ok(Some(Approved { config, subject }))
}

fn notes(env: &Env, home: &Home, run: &Run) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(why) = super::off(env, home) {
        notes.push(format!("ralph is off: {why}"));
    }
    notes.extend(plan_notes(run));
    let named = |list: &ListSeal| Named { path: PathBuf::from(&list.path), kind: list.kind };
    let lists: Vec<_> = run.lists.iter().map(named).collect();
    notes.extend(list_notes(&lists, run.seal.as_ref().map(|seal| &seal.policy)));
    if let Some(seal) = &run.seal
        && seal.base.is_none()
    {
        notes
            .push("git is not installed, so changes cannot be compared with the start".to_string());
    }
    for gate in run.seal.iter().flat_map(|seal| missing_tools(seal)) {
        notes.push(gate);
    }
    let measured = run.seal.as_ref().is_some_and(|seal| !seal.policy.gates.is_empty());
    let listed = !run.lists.is_empty() || run.checklist == Asked::Yes || run.tasks == Asked::Yes;
    if !listed && run.promise.is_none() && run.phases == Asked::No && !measured {
        notes.push(UNMEASURED.to_string());
    }
    notes.extend(phase_notes(run));
    notes
}

/// Warns about stages without a required gate in a run with phases.
fn phase_notes(run: &Run) -> Option<String> {
    let counts = |stage: Stage| {
        let gates = run.seal.iter().flat_map(|seal| &seal.policy.gates);
        gates.into_iter().any(|gate| gate.stage == stage && gate.weight == Weight::Required)
    };
    let missing: Vec<_> = [Stage::Correctness, Stage::Quality]
        .into_iter()
        .filter(|stage| run.phases == Asked::Yes && !counts(*stage))
        .map(Stage::name)
        .collect();
    (!missing.is_empty()).then(|| {
        format!(
            "no gate measures {}, so the best result is `claimed`; `ralph gate detect` proposes gates",
            missing.join(" or ")
        )
    })
}

/// Warns about checks in a plan that cannot be run.
fn plan_notes(run: &Run) -> Vec<String> {
    let plans = run.lists.iter().filter(|list| list.kind == ListKind::Plan);
    let notes = plans.flat_map(|list| {
        let path = Path::new(&list.path);
        let bytes = fs::read(path, plan::LARGEST).unwrap_or_default();
        let notes = plan::read(&bytes).map(|plan| plan.notes).unwrap_or_default();
        let file = wording::safe(&lists::shown(run, path));
        notes.into_iter().map(move |note| note.at(&file)).collect::<Vec<_>>()
    });
    notes.take(SHOWN_NOTES).collect()
}

/// Warns about lists that are already done, and about items without a check.
pub(crate) fn list_notes(lists: &[Named], policy: Option<&Policy>) -> Vec<String> {
    let items: Vec<_> = lists.iter().filter_map(|list| lists::read(list).ok()).flatten().collect();
    let mut notes = Vec::new();
    if items.is_empty() {
        return notes;
    }
    let unchecked = items.iter().filter(|item| item.check.is_none()).count();
    let backed = policy.is_some_and(|policy| {
        policy.verify.claims == Claims::WithGates && !policy.gates.is_empty()
    });
    if items.iter().all(|item| item.done) && unchecked == items.len() {
        notes.push(
            "every list item is marked done already, so the first stop may end the run".to_string(),
        );
    } else if unchecked > 0 && !backed {
        let count = items.len();
        let which = match (unchecked, count) {
            (_, 1) => "the only item has no check".to_string(),
            (1, _) => format!("1 of {count} items has no check"),
            (_, _) => format!("{unchecked} of {count} items have no check"),
        };
        notes.push(format!("{which}, so the best result is `claimed`"));
    }
    notes
}

fn missing_tools(seal: &Seal) -> impl Iterator<Item = String> {
    let found = |gate: &Gate| seal.tools.iter().any(|tool| tool.gate == gate.name);
    let missing = seal.policy.gates.iter().filter(move |gate| !found(gate));
    missing.filter_map(|gate| match &gate.command {
        Command::Argv(words) => {
            let program = wording::safe(words.first()?);
            Some(format!("gate {} needs `{program}`, which was not found", gate.name))
        }
        Command::Shell(_) => None,
    })
}

fn session(env: &Env, args: &Start) -> Result<SessionId, Failure> {
    let own = env.claude_session();
    let named = args.session.clone().or_else(|| own.clone());
    if super::caller(env) == Caller::Agent && named != own {
        let hint = "ask a person to do this in their own terminal";
        return Err(Failure::new("an agent may start a run only for its own session", hint));
    }
    let hint = "give `--session ID`; in Claude Code, `/status` shows the session's id";
    let named = named.ok_or_else(|| Failure::new("no session given", hint))?;
    SessionId::parse(&named).ok_or_else(|| {
        let what = format!("`{}` cannot be a session id", ralph_core::text::line(&named, 130));
        Failure::new(&what, "an id is 1 to 128 letters, digits, `_` and `-`")
    })
}

pub(crate) fn goal(file: Option<&Path>, here: &Path) -> Result<Vec<u8>, Failure> {
    let goal = match file {
        None => return Ok(Vec::new()),
        Some(path) if path == Path::new("-") => {
            if std::io::stdin().is_terminal() {
                term::err("write the goal, then press Ctrl-D on an empty line\n");
            }
            stdin::read_all(std::io::stdin(), LARGEST_GOAL)
                .map_err(|error| Failure::because("cannot read the goal from stdin", &error))?
        }
        Some(path) if fs::is_special(&here.join(path)) => {
            let what = format!("`{}` is not a regular file", path.display());
            return Err(Failure::new(&what, "pipe it in instead, with `--goal-file -`"));
        }
        Some(path) => fs::read(&here.join(path), LARGEST_GOAL)?,
    };
    if goal.trim_ascii().is_empty() {
        let hint = "write the goal, or omit `--goal-file`";
        return Err(Failure::new("the goal is empty", hint));
    }
    Ok(goal)
}

fn promise(promise: Option<&str>) -> Result<Option<String>, Failure> {
    match promise {
        Some(promise)
            if promise.trim().is_empty()
                || promise.chars().count() > 200
                || promise.contains(['<', '>'])
                || promise != ralph_core::text::clean(promise) =>
        {
            let what =
                "`--completion-promise` needs 1 to 200 printable characters without `<` and `>`";
            Err(Failure::new(
                what,
                "choose a short phrase that the agent would not write by chance",
            ))
        }
        promise => Ok(promise.map(str::to_string)),
    }
}

/// The directory of a feature list, given as the directory, the list file or the name of a loop.
pub(crate) fn list_directory(path: &Path, here: &Path) -> Result<PathBuf, Failure> {
    if path.file_name().is_some_and(|name| name == loop_directory::FEATURES)
        && !fs::is_directory(&here.join(path))
    {
        return directory(path.parent().unwrap_or(Path::new(".")), here);
    }
    // The name of a loop, as for `ralph feature --loop`.
    let named = here.join(loop_directory::DEFAULT_DIRECTORY).with_file_name(path);
    let is_name = path.components().count() == 1 && !fs::is_directory(&here.join(path));
    if is_name && fs::is_directory(&named) {
        return directory(&named, here);
    }
    directory(path, here)
}

pub(crate) fn plan_file(path: &Path, here: &Path) -> Result<PathBuf, Failure> {
    let what = || format!("`{}` is not a file", path.display());
    let resolved = fs::resolve(&here.join(path)).filter(|path| !fs::is_directory(path));
    let resolved = resolved.filter(|path| path.to_str().is_some());
    resolved.ok_or_else(|| Failure::new(&what(), "name a Markdown file with `- [ ]` items"))
}

pub(crate) fn directory(path: &Path, here: &Path) -> Result<PathBuf, Failure> {
    let what = || format!("`{}` is not a directory", path.display());
    let resolved = fs::resolve(&here.join(path)).filter(|path| fs::is_directory(path));
    let resolved = resolved.ok_or_else(|| Failure::new(&what(), "check the path"))?;
    if resolved.to_str().is_none() {
        let what = format!("`{}` is not valid UTF-8", resolved.display());
        return Err(Failure::new(&what, "rename the directory"));
    }
    Ok(resolved)
}

pub(crate) fn shown(begun: &Begun) -> String {
    let Begun { run, notes } = begun;
    let owner = run.owner.as_ref().map(SessionId::as_str).unwrap_or_default();
    let mut out =
        format!("{}  started     {}\n", term::paint(term::BOLD, run.id.as_str()), run.title);
    out.push_str(&format!("      session {owner}\n"));
    out.push_str(&terms(run));
    for note in notes {
        out.push_str(&format!("      {:<7} {note}\n", "note"));
    }
    out.push_str(&format!("      stop it with `ralph cancel {}`\n", run.id));
    out
}

/// The limits of the run and the sources of its requirements, a line each.
pub(crate) fn terms(run: &Run) -> String {
    let mut out = format!("      limits  {}\n", wording::limits(&run.limits));
    for (label, value) in wording::contract(run) {
        out.push_str(&format!("      {label:<7} {value}\n"));
    }
    out
}

fn print_json(run: &Run) -> Result<(), Failure> {
    super::print_json(&StartJson {
        v: 1,
        run: run.id.as_str(),
        session: run.owner.as_ref().map(SessionId::as_str).unwrap_or_default(),
        project: &run.project,
        max_iterations: run.limits.max_iterations,
        max_duration_ms: run.limits.max_duration_ms,
        max_cost_usd: run.limits.max_cost_micro_usd.map(wording::usd),
        stuck_after: run.limits.stuck_after,
        min_iterations: run.limits.min_iterations,
        features: &run.features,
        completion_promise: run.promise.as_deref(),
        checklist: run.checklist == Asked::Yes,
        goal_bytes: run.goal_bytes,
        gates: run
            .seal
            .iter()
            .flat_map(|seal| &seal.policy.gates)
            .map(|gate| gate.name.as_str())
            .collect(),
        started_at: clock::rfc3339(run.started_ms),
        cancel: format!("ralph cancel {}", run.id),
    })?;
    Ok(())
}
