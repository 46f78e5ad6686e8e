//! `ralph start`. The session commands, `ralph orchestrator start` and `ralph run` start their runs here too.

use super::open_home;
use crate::cli::{LimitArgs, StartArgs};
use crate::failure::CommandFailure;
use crate::{describe, term};
use ralph_core::drive::DriveSettings;
use ralph_core::gate::{Gate, GateInvocation};
use ralph_core::id::{RunId, SessionId};
use ralph_core::limits::{LimitOverrides, RunLimits};
use ralph_core::policy::{ClaimPolicy, Policy};
use ralph_core::record::{ListKind, ListSeal, PolicySeal, RunRecord};
use ralph_core::requirement::{RequirementStage, RequirementWeight};
use ralph_home::host_env;
use ralph_home::paths::RalphHome;
use ralph_hook::contract;
use ralph_hook::control::{self, ApprovedPolicy, CommandCaller, RunStartRequest};
use ralph_hook::phases;
use ralph_lists::loop_directory;
use ralph_lists::plan;
use ralph_lists::run_lists::{self, ListFile};
use ralph_policy::config::ProjectConfig;
use ralph_sys::clock::{self, Deadline};
use ralph_sys::env::Env;
use ralph_sys::{fs, stdin};
use serde::Serialize;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

/// How many notes about a plan are shown at the start of a run.
const SHOWN_NOTES: usize = 8;

pub(crate) const UNMEASURED_NOTE: &str =
    "nothing measures this goal: the run ends as `claimed` when the agent says so, or at a limit";

const MAX_GOAL_BYTES: usize = 4 * 1024 * 1024;

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
pub(crate) struct StartRequest {
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
    pub checklist: bool,
    pub tasks: bool,
    pub gates: GateSelection,
    pub complexity: Option<u8>,
    pub prompt: Option<String>,
    pub phases: bool,
    pub transcript_length: u64,
    pub max_tokens: Option<u64>,
    pub handover_at_permille: Option<u16>,
    pub drive: Option<Box<DriveSettings>>,
    /// The id of the run, if something has been named after it already.
    pub id: Option<RunId>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum GateSelection {
    Policy,
    Skipped,
}

impl StartRequest {
    /// A run for a goal, with the policy's gates and limits.
    pub(crate) fn for_goal(
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
            checklist: false,
            tasks: false,
            gates: GateSelection::Policy,
            complexity: None,
            prompt: None,
            phases: false,
            transcript_length: 0,
            max_tokens: None,
            handover_at_permille: None,
            drive: None,
            id: None,
        }
    }

    pub(crate) fn with_limits(self, limits: &LimitArgs) -> Self {
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
    pub(crate) fn limits(&self, policy: Option<&ProjectConfig>) -> RunLimits {
        let bounds = LimitOverrides {
            max_iterations: self.max_iterations,
            min_iterations: self.min_iterations,
            max_duration_ms: self.max_duration,
            max_cost_micro_usd: self.max_cost_micro_usd,
            stuck_after: self.stuck_after,
            max_tokens: self.max_tokens,
            handover_at_permille: self.handover_at_permille,
        };
        bounds.apply_to(policy.map_or(&RunLimits::DEFAULT, |config| &config.policy.limits))
    }
}

pub(crate) struct StartedRun {
    pub run: RunRecord,
    /// Warnings for the person, such as missing tools.
    pub notes: Vec<String>,
}

pub(crate) fn run(env: &Env, args: &StartArgs) -> Result<(), CommandFailure> {
    start_from_args(env, args, None)
}

/// Starts a run that works in phases, on the task given on the command line.
pub(crate) fn start_orchestrated(
    env: &Env,
    args: &StartArgs,
    task: &str,
) -> Result<(), CommandFailure> {
    start_from_args(env, args, Some(task))
}

fn start_from_args(env: &Env, args: &StartArgs, task: Option<&str>) -> Result<(), CommandFailure> {
    let home = open_home(env)?;
    let here = env.current_dir().ok_or_else(|| {
        CommandFailure::new(
            "the current directory no longer exists",
            "change to a directory that exists",
        )
    })?;
    if (args.no_gates || args.complexity.is_some())
        && super::identify_caller(env) == CommandCaller::Agent
    {
        let hint = "ask a person to do this in their own terminal";
        return Err(CommandFailure::new("an agent may not skip its own gates", hint));
    }
    let project = resolve_directory(args.project.as_deref().unwrap_or(Path::new(".")), &here)?;
    let session = session_id(env, args)?;
    let goal = match task {
        Some(task) if args.goal_file.is_none() => task.as_bytes().to_vec(),
        Some(_) | None => read_goal(args.goal_file.as_deref(), &here)?,
    };
    let demand = StartRequest {
        features: args.features.clone(),
        plans: args.plan.clone(),
        tasks: args.tasks,
        promise: args.completion_promise.clone(),
        checklist: args.checklist,
        gates: if args.no_gates { GateSelection::Skipped } else { GateSelection::Policy },
        complexity: args.complexity,
        phases: task.is_some(),
        ..StartRequest::for_goal(session, (project, here), goal)
    };
    let demand = demand.with_limits(&args.limits);
    let begun = begin_run(env, &home, &demand)?;
    if args.json {
        print_json(&begun.run)
    } else {
        term::out(&render_started(&begun))?;
        Ok(())
    }
}

pub(crate) fn begin_run(
    env: &Env,
    home: &RalphHome,
    demand: &StartRequest,
) -> Result<StartedRun, CommandFailure> {
    let order = resolve_request(env, home, demand)?;
    let run =
        control::start_run(home, env, &order, &Deadline::after(super::control::LOCK_TIMEOUT))?;
    if run.phases {
        phases::write_first_view(home, &run);
    }
    let notes = start_notes(env, home, &run);
    Ok(StartedRun { run, notes })
}

/// Resolves the paths, policy and limits of a request.
pub(crate) fn resolve_request(
    env: &Env,
    home: &RalphHome,
    demand: &StartRequest,
) -> Result<RunStartRequest, CommandFailure> {
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
    let policy = approved_policy(home, demand)?;
    Ok(RunStartRequest {
        session: demand.session.clone(),
        project: demand.project.clone(),
        goal: demand.goal.clone(),
        limits: demand.limits(policy.as_ref().map(|approved| &approved.config)),
        features,
        plans,
        tasks: demand.tasks,
        promise: check_promise(demand.promise.as_deref())?,
        checklist: demand.checklist,
        secrets: env.secrets(),
        policy,
        complexity: demand.complexity,
        prompt: demand.prompt.clone(),
        process: host_env::host_process(env),
        phases: demand.phases,
        transcript_length: demand.transcript_length,
        drive: demand.drive.clone(),
        id: demand.id.clone(),
    })
}

/// The approved policy of the project; `None` without gates. An unapproved policy is an error: the run does not start.
pub(crate) fn approved_policy(
    home: &RalphHome,
    demand: &StartRequest,
) -> Result<Option<ApprovedPolicy>, CommandFailure> {
    if demand.gates == GateSelection::Skipped {
        return Ok(None);
    }
    let Some((config, _)) = contract::load_project_policy(home, &demand.project)? else {
        return Ok(None);
    };
    let subject = super::gate::require_approval(home, &config, None)?;
    Ok(Some(ApprovedPolicy { config, subject }))
}

fn start_notes(env: &Env, home: &RalphHome, run: &RunRecord) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(why) = super::off_reason(env, home) {
        notes.push(format!("ralph is off: {why}"));
    }
    notes.extend(plan_notes(run));
    let named = |list: &ListSeal| ListFile { path: PathBuf::from(&list.path), kind: list.kind };
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
    let listed = !run.lists.is_empty() || run.checklist || run.tasks;
    if !listed && run.promise.is_none() && !run.phases && !measured {
        notes.push(UNMEASURED_NOTE.to_string());
    }
    notes.extend(phase_notes(run));
    notes
}

/// Warns about stages without a required gate in a run with phases.
fn phase_notes(run: &RunRecord) -> Option<String> {
    let counts = |stage: RequirementStage| {
        let gates = run.seal.iter().flat_map(|seal| &seal.policy.gates);
        gates
            .into_iter()
            .any(|gate| gate.stage == stage && gate.weight == RequirementWeight::Required)
    };
    let missing: Vec<_> = [RequirementStage::Correctness, RequirementStage::Quality]
        .into_iter()
        .filter(|stage| run.phases && !counts(*stage))
        .map(RequirementStage::name)
        .collect();
    (!missing.is_empty()).then(|| {
        format!(
            "no gate measures {}, so the best result is `claimed`; `ralph gate detect` proposes gates",
            missing.join(" or ")
        )
    })
}

/// Warns about checks in a plan that cannot be run.
fn plan_notes(run: &RunRecord) -> Vec<String> {
    let plans = run.lists.iter().filter(|list| list.kind == ListKind::Plan);
    let notes = plans.flat_map(|list| {
        let path = Path::new(&list.path);
        let bytes = fs::read(path, plan::MAX_PLAN_BYTES).unwrap_or_default();
        let notes = plan::parse_plan(&bytes).map(|plan| plan.notes).unwrap_or_default();
        let file = describe::safe_line(&run_lists::display_path(run, path));
        notes.into_iter().map(move |note| note.format_for(&file)).collect::<Vec<_>>()
    });
    notes.take(SHOWN_NOTES).collect()
}

/// Warns about lists that are already done, and about items without a check.
pub(crate) fn list_notes(lists: &[ListFile], policy: Option<&Policy>) -> Vec<String> {
    let items: Vec<_> =
        lists.iter().filter_map(|list| run_lists::read_list(list).ok()).flatten().collect();
    let mut notes = Vec::new();
    if items.is_empty() {
        return notes;
    }
    let unchecked = items.iter().filter(|item| item.check.is_none()).count();
    let backed = policy.is_some_and(|policy| {
        policy.verify.claims == ClaimPolicy::WithGates && !policy.gates.is_empty()
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

fn missing_tools(seal: &PolicySeal) -> impl Iterator<Item = String> {
    let found = |gate: &Gate| seal.tools.iter().any(|tool| tool.gate == gate.name);
    let missing = seal.policy.gates.iter().filter(move |gate| !found(gate));
    missing.filter_map(|gate| match &gate.command {
        GateInvocation::Argv(words) => {
            let program = describe::safe_line(words.first()?);
            Some(format!("gate {} needs `{program}`, which was not found", gate.name))
        }
        GateInvocation::Shell(_) => None,
    })
}

fn session_id(env: &Env, args: &StartArgs) -> Result<SessionId, CommandFailure> {
    let own = host_env::host_session(env);
    let named = args.session.clone().or_else(|| own.clone());
    if super::identify_caller(env) == CommandCaller::Agent && named != own {
        let hint = "ask a person to do this in their own terminal";
        return Err(CommandFailure::new("an agent may start a run only for its own session", hint));
    }
    let hint = "give `--session ID`; in Claude Code, `/status` shows the session's id";
    let named = named.ok_or_else(|| CommandFailure::new("no session given", hint))?;
    SessionId::parse(&named).ok_or_else(|| {
        let what =
            format!("`{}` cannot be a session id", ralph_core::text::clean_line(&named, 130));
        CommandFailure::new(&what, "an id is 1 to 128 letters, digits, `_` and `-`")
    })
}

pub(crate) fn read_goal(file: Option<&Path>, here: &Path) -> Result<Vec<u8>, CommandFailure> {
    let goal = match file {
        None => return Ok(Vec::new()),
        Some(path) if path == Path::new("-") => {
            if std::io::stdin().is_terminal() {
                term::err("write the goal, then press Ctrl-D on an empty line\n");
            }
            stdin::read_all(std::io::stdin(), MAX_GOAL_BYTES).map_err(|error| {
                CommandFailure::caused_by("cannot read the goal from stdin", &error)
            })?
        }
        Some(path) if fs::is_special(&here.join(path)) => {
            let what = format!("`{}` is not a regular file", path.display());
            return Err(CommandFailure::new(&what, "pipe it in instead, with `--goal-file -`"));
        }
        Some(path) => fs::read(&here.join(path), MAX_GOAL_BYTES)?,
    };
    if goal.trim_ascii().is_empty() {
        let hint = "write the goal, or omit `--goal-file`";
        return Err(CommandFailure::new("the goal is empty", hint));
    }
    Ok(goal)
}

fn check_promise(promise: Option<&str>) -> Result<Option<String>, CommandFailure> {
    match promise {
        Some(promise)
            if promise.trim().is_empty()
                || promise.chars().count() > 200
                || promise.contains(['<', '>'])
                || promise != ralph_core::text::clean(promise) =>
        {
            let what =
                "`--completion-promise` needs 1 to 200 printable characters without `<` and `>`";
            Err(CommandFailure::new(
                what,
                "choose a short phrase that the agent would not write by chance",
            ))
        }
        promise => Ok(promise.map(str::to_string)),
    }
}

/// The directory of a feature list, given as the directory, the list file or the name of a loop.
pub(crate) fn list_directory(path: &Path, here: &Path) -> Result<PathBuf, CommandFailure> {
    if path.file_name().is_some_and(|name| name == loop_directory::FEATURES_FILE)
        && !fs::is_directory(&here.join(path))
    {
        return resolve_directory(path.parent().unwrap_or(Path::new(".")), here);
    }
    // The name of a loop, as for `ralph feature --loop`.
    let named = here.join(loop_directory::DEFAULT_DIRECTORY).with_file_name(path);
    let is_name = path.components().count() == 1 && !fs::is_directory(&here.join(path));
    if is_name && fs::is_directory(&named) {
        return resolve_directory(&named, here);
    }
    resolve_directory(path, here)
}

pub(crate) fn plan_file(path: &Path, here: &Path) -> Result<PathBuf, CommandFailure> {
    let what = || format!("`{}` is not a file", path.display());
    let resolved = fs::resolve(&here.join(path)).filter(|path| !fs::is_directory(path));
    let resolved = resolved.filter(|path| path.to_str().is_some());
    resolved.ok_or_else(|| CommandFailure::new(&what(), "name a Markdown file with `- [ ]` items"))
}

pub(crate) fn resolve_directory(path: &Path, here: &Path) -> Result<PathBuf, CommandFailure> {
    let what = || format!("`{}` is not a directory", path.display());
    let resolved = fs::resolve(&here.join(path)).filter(|path| fs::is_directory(path));
    let resolved = resolved.ok_or_else(|| CommandFailure::new(&what(), "check the path"))?;
    if resolved.to_str().is_none() {
        let what = format!("`{}` is not valid UTF-8", resolved.display());
        return Err(CommandFailure::new(&what, "rename the directory"));
    }
    Ok(resolved)
}

pub(crate) fn render_started(begun: &StartedRun) -> String {
    let StartedRun { run, notes } = begun;
    let owner = run.owner.as_ref().map(SessionId::as_str).unwrap_or_default();
    let mut out =
        format!("{}  started     {}\n", term::paint(term::BOLD, run.id.as_str()), run.title);
    out.push_str(&format!("      session {owner}\n"));
    out.push_str(&contract_lines(run));
    for note in notes {
        out.push_str(&format!("      {:<7} {note}\n", "note"));
    }
    out.push_str(&format!("      stop it with `ralph cancel {}`\n", run.id));
    out
}

/// The limits of the run and the sources of its requirements, a line each.
pub(crate) fn contract_lines(run: &RunRecord) -> String {
    let mut out = format!("      limits  {}\n", describe::limits(&run.limits));
    for (label, value) in describe::contract(run) {
        out.push_str(&format!("      {label:<7} {value}\n"));
    }
    out
}

fn print_json(run: &RunRecord) -> Result<(), CommandFailure> {
    super::print_json(&StartJson {
        v: 1,
        run: run.id.as_str(),
        session: run.owner.as_ref().map(SessionId::as_str).unwrap_or_default(),
        project: &run.project,
        max_iterations: run.limits.max_iterations,
        max_duration_ms: run.limits.max_duration_ms,
        max_cost_usd: run.limits.max_cost_micro_usd.map(describe::micro_usd_as_usd),
        stuck_after: run.limits.stuck_after,
        min_iterations: run.limits.min_iterations,
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
        started_at: clock::format_rfc3339(run.started_ms),
        cancel: format!("ralph cancel {}", run.id),
    })?;
    Ok(())
}
