//! `ralph orchestrator …`: starts runs that work in phases, shows their conditions, and records claims and approvals.

use super::{declare, identify_caller, open_home};
use crate::failure::CommandFailure;
use crate::term;
use crate::typed_consent;
use clap::{Args, Subcommand};
use ralph_core::id::RunId;
use ralph_core::record::{OrchestratorStep, RunRecord};
use ralph_core::run::RunPhase;
use ralph_core::source::orchestrator::{ConditionOwner, OrchestratorCondition, OrchestratorPhase};
use ralph_core::text;
use ralph_deck::view::phase_progress;
use ralph_home::host_env;
use ralph_home::paths::RalphHome;
use ralph_home::store::{self, LoadedRun};
use ralph_hook::control::{self, CommandCaller};
use ralph_hook::overview::{self, RunView};
use ralph_hook::phases;
use ralph_sys::clock::Deadline;
use ralph_sys::env::Env;

pub(crate) const EXAMPLES: &str = "\
Examples:
  ralph orchestrator start \"implement auth\"
  ralph orchestrator show
  ralph orchestrator set task_classified --complexity 8
  ralph orchestrator approve k7f2";

const START_EXAMPLES: &str = "\
Examples:
  ralph orchestrator start \"implement auth\"
  ralph orchestrator start --goal-file goal.md --complexity 8 --max-duration 2h

In an agent's shell `--session` defaults to its session; elsewhere to
the only session of this project that was active in the last 30 minutes.";

const LONGEST_PHASE: usize = 60;

#[derive(Subcommand)]
pub(crate) enum OrchestratorCommand {
    /// Start a run that holds a session until all nine conditions are met
    #[command(after_help = START_EXAMPLES)]
    Start(Box<OrchestratorStartArgs>),
    /// Show the phases, the nine conditions, and what is missing
    Show(OrchestratorShowArgs),
    /// Claim a condition, or name the current phase (for agents)
    Set(OrchestratorSetArgs),
    /// Approve the plan (only for people)
    Approve(OrchestratorApproveArgs),
}

#[derive(Args)]
pub(crate) struct OrchestratorStartArgs {
    /// Describe the task
    #[arg(
        value_name = "TASK",
        required_unless_present = "goal_file",
        conflicts_with = "goal_file"
    )]
    pub task: Vec<String>,
    #[command(flatten)]
    pub start: super::start_args::StartOptions,
}

#[derive(Args)]
#[command(
    after_help = "Examples:\n  ralph orchestrator show\n  ralph orchestrator show k7f2 --json | jq -r '.missing[]'"
)]
pub(crate) struct OrchestratorShowArgs {
    /// Show this run or session [default: the latest one here]
    #[arg(value_name = "RUN|SESSION")]
    pub name: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  ralph orchestrator set memory_search
  ralph orchestrator set task_classified --complexity 8
  ralph orchestrator set implementation_complete --undo
  ralph orchestrator set phase implement

The phases are clarify, classify, plan, implement, validate and
retrospect. The agent's conditions are memory_search, task_classified,
must_have_answered, implementation_complete and retrospective_done, and
plan_approved if the policy says so. Conditions of a person or of ralph
are refused. A retrospective counts once `ralph learn` or
`ralph memory learn` has saved something.")]
pub(crate) struct OrchestratorSetArgs {
    /// Name the condition, or `phase`
    #[arg(value_name = "CONDITION")]
    pub what: String,
    /// Name the phase, after `phase`
    #[arg(value_name = "NAME")]
    pub phase: Option<String>,
    /// Set the complexity from 1 to 10, with `task_classified`
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=10))]
    pub complexity: Option<u8>,
    /// Withdraw the claim
    #[arg(long, conflicts_with = "complexity")]
    pub undo: bool,
    /// Name the run or its session [default in an agent's shell: its own]
    #[arg(long, value_name = "RUN|SESSION")]
    pub run: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
#[command(
    after_help = "Examples:\n  ralph orchestrator approve\n  ralph orchestrator approve k7f2\n\nIn the session itself, type `/ralph:approve`."
)]
pub(crate) struct OrchestratorApproveArgs {
    /// Name the run or its session [default: the only one that waits]
    #[arg(value_name = "RUN|SESSION")]
    pub name: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

pub(crate) fn run(env: &Env, asked: &OrchestratorCommand) -> Result<(), CommandFailure> {
    match asked {
        OrchestratorCommand::Start(args) => start(env, args),
        OrchestratorCommand::Show(args) => show(env, args),
        OrchestratorCommand::Set(args) => set(env, args),
        OrchestratorCommand::Approve(args) => approve(env, args),
    }
}

fn start(env: &Env, args: &OrchestratorStartArgs) -> Result<(), CommandFailure> {
    let task = args.task.join(" ");
    if task.trim().is_empty() && args.start.goal_file.is_none() {
        let hint = "describe it: `ralph orchestrator start \"implement auth\"`";
        return Err(CommandFailure::new("the task is empty", hint));
    }
    super::start::start_orchestrated(env, &args.start, &task)
}

fn show(env: &Env, args: &OrchestratorShowArgs) -> Result<(), CommandFailure> {
    let home = open_home(env)?;
    let run = match (&args.name, host_env::host_session(env)) {
        (Some(name), _) => named_phased_run(&home, name)?,
        (None, Some(own)) if identify_caller(env) != CommandCaller::Person => {
            named_phased_run(&home, &own)?
        }
        (None, _) => {
            let scope = super::run_choice::scope_with_runs(env, &home)?;
            let is_here = |view: &RunView| {
                scope.as_ref().is_none_or(|scope| scope.contains_run(&view.opened.run))
            };
            let runs = overview::list_run_views(&home)?.0;
            let last = runs.into_iter().find(|view| view.opened.run.phases && is_here(view));
            last.map(|view| view.opened.run.id).ok_or_else(no_phased_run)?
        }
    };
    let opened = store::load_run(&home, &run)?;
    if !opened.run.phases {
        return Err(control::ControlError::WithoutPhases { run }.into());
    }
    if args.json {
        return print_json(&home, &opened);
    }
    term::out(&super::status::render_run(&home, &run)?)?;
    Ok(())
}

fn set(env: &Env, args: &OrchestratorSetArgs) -> Result<(), CommandFailure> {
    let home = open_home(env)?;
    let run = declare::named_or_own_run(env, &home, args.run.as_deref())?;
    let opened = store::load_run(&home, &run)?;
    let (step, done) = match args.what.as_str() {
        "phase" => phase_step(args)?,
        name => condition_step(env, &opened, args, name)?,
    };
    let opened = phases::record_step(&home, &run, step, &lock_deadline())?;
    if args.json {
        return print_json(&home, &opened);
    }
    let picture = phases::phase_progress(&home, &opened);
    let missing = match phase_progress::missing_names(&picture).as_slice() {
        [] => "nothing is missing".to_string(),
        missing => format!("missing: {}", missing.join(", ")),
    };
    term::out(&format!("{}  {done}; {missing}\n", term::paint(term::BOLD, run.as_str())))?;
    Ok(())
}

fn phase_step(args: &OrchestratorSetArgs) -> Result<(OrchestratorStep, String), CommandFailure> {
    let hint = "`ralph orchestrator set phase implement`";
    let phase = text::clean_line(args.phase.as_deref().unwrap_or_default().trim(), LONGEST_PHASE);
    if phase.is_empty() || args.complexity.is_some() || args.undo {
        return Err(CommandFailure::new("a phase needs a name and nothing else", hint));
    }
    let Some(known) = OrchestratorPhase::parse(&phase) else {
        let names = OrchestratorPhase::ALL.map(OrchestratorPhase::name).join(", ");
        let what = format!("there is no phase `{phase}`");
        return Err(CommandFailure::new(&what, &format!("the phases are {names}")));
    };
    let done = format!("noted: phase \"{}\"", known.name());
    Ok((OrchestratorStep::Phase(known.name().to_string()), done))
}

fn condition_step(
    env: &Env,
    opened: &LoadedRun,
    args: &OrchestratorSetArgs,
    name: &str,
) -> Result<(OrchestratorStep, String), CommandFailure> {
    let condition = OrchestratorCondition::parse(name).ok_or_else(|| unknown_condition(name))?;
    if let Some(extra) = &args.phase {
        let what = format!("unexpected `{}` after a condition", text::clean_line(extra, 60));
        return Err(CommandFailure::new(&what, "run `ralph orchestrator set --help`"));
    }
    if let Some(owner) = phases::non_agent_owner(&opened.run, condition) {
        return Err(not_the_agents(&opened.run, condition, owner));
    }
    if condition == OrchestratorCondition::TaskClassified {
        return classification_step(env, opened, args);
    }
    if args.complexity.is_some() {
        let hint = "`ralph orchestrator set task_classified --complexity 5`";
        return Err(CommandFailure::new("only `task_classified` takes a complexity", hint));
    }
    Ok(if args.undo {
        (OrchestratorStep::Withdraws(condition), format!("withdrawn: {}", condition.name()))
    } else {
        (OrchestratorStep::Claims(condition), format!("noted: {}", condition.name()))
    })
}

/// An agent may raise the complexity but not lower it: a lower one would disable gates.
fn classification_step(
    env: &Env,
    opened: &LoadedRun,
    args: &OrchestratorSetArgs,
) -> Result<(OrchestratorStep, String), CommandFailure> {
    let hint = "from 1 to 10: `ralph orchestrator set task_classified --complexity 5`";
    let Some(complexity) = args.complexity else {
        let what = if args.undo {
            "a classification cannot be withdrawn; set it again"
        } else {
            "no complexity given"
        };
        return Err(CommandFailure::new(what, hint));
    };
    match opened.state.way.complexity {
        Some(known) if complexity < known && identify_caller(env) != CommandCaller::Person => {
            let what = format!("the task already has complexity {known}");
            Err(CommandFailure::new(&what, "only a person can lower it"))
        }
        Some(_) | None => Ok((
            OrchestratorStep::Classified(complexity),
            format!("noted: complexity {complexity} of 10"),
        )),
    }
}

fn unknown_condition(name: &str) -> CommandFailure {
    let what = format!("there is no condition `{}`", text::clean_line(name, 60));
    let names = OrchestratorCondition::ALL.into_iter().map(OrchestratorCondition::key);
    let hint = if let Some(near) = text::nearest(name, names) {
        format!("did you mean `{near}`?")
    } else {
        let keys = OrchestratorCondition::ALL.map(OrchestratorCondition::key);
        format!("the conditions are {}", keys.join(", "))
    };
    CommandFailure::new(&what, &hint)
}

fn not_the_agents(
    run: &RunRecord,
    condition: OrchestratorCondition,
    owner: ConditionOwner,
) -> CommandFailure {
    let name = condition.name();
    match owner {
        ConditionOwner::Agent | ConditionOwner::Person => CommandFailure::new(
            &format!("\"{name}\" is given by a person"),
            &format!(
                "they type `/ralph:approve` in the session, or run `ralph orchestrator approve {}`",
                run.id
            ),
        ),
        ConditionOwner::Ralph => CommandFailure::new(
            &format!("\"{name}\" is measured by ralph"),
            "it is met when the gates of its stage pass; stop, and ralph checks",
        ),
    }
}

fn approve(env: &Env, args: &OrchestratorApproveArgs) -> Result<(), CommandFailure> {
    let home = open_home(env)?;
    let caller = identify_caller(env);
    match caller {
        CommandCaller::Agent => {
            let refusal = control::ControlError::CallerIsAgent { action: "approve the plan of" };
            return Err(refusal.into());
        }
        CommandCaller::Hidden => return Err(control::ControlError::CallerHidden.into()),
        CommandCaller::Person | CommandCaller::Session => {}
    }
    let run = match &args.name {
        Some(name) => named_phased_run(&home, name)?,
        None => run_awaiting_approval(&home)?,
    };
    typed_consent::require_while_held(&home, "approve the plan")?;
    let opened = phases::approve_plan(&home, &run, caller, &lock_deadline())?;
    if args.json {
        return print_json(&home, &opened);
    }
    let name = term::paint(term::BOLD, run.as_str());
    term::out(&format!("{name}  plan approved; the agent continues at its next turn\n"))?;
    Ok(())
}

/// The only run whose plan is not approved yet.
fn run_awaiting_approval(home: &RalphHome) -> Result<RunId, CommandFailure> {
    let waits = |view: &RunView| {
        view.opened.run.phases
            && view.opened.state.way.approved_by.is_none()
            && !matches!(view.phase, RunPhase::Ended(_))
    };
    let runs: Vec<RunId> = overview::list_run_views(home)?
        .0
        .into_iter()
        .filter(waits)
        .map(|view| view.opened.run.id)
        .collect();
    match runs.as_slice() {
        [] => Err(CommandFailure::new(
            "no plan waits for an approval",
            "`ralph status` lists the runs",
        )),
        [one] => Ok(one.clone()),
        [_, _, ..] => {
            let names: Vec<_> = runs.iter().map(|run| format!("`{run}`")).collect();
            let what = format!("more than one plan waits: {}", names.join(", "));
            Err(CommandFailure::new(&what, "name the run: `ralph orchestrator approve RUN`"))
        }
    }
}

fn named_phased_run(home: &RalphHome, name: &str) -> Result<RunId, CommandFailure> {
    super::run_choice::find_run(home, name, |_| no_phased_run())
}

fn no_phased_run() -> CommandFailure {
    let hint =
        "`ralph orchestrator start \"…\"` starts one, or `/ralph:orchestrator …` in a session";
    CommandFailure::new("there is no run that works in phases", hint)
}

fn lock_deadline() -> Deadline {
    Deadline::after(super::control::LOCK_TIMEOUT)
}

fn print_json(home: &RalphHome, opened: &LoadedRun) -> Result<(), CommandFailure> {
    let progress = phases::phase_progress(home, opened);
    let phase = control::effective_phase(home, opened);
    super::print_json(&phase_progress::orchestrator_run_view(opened, phase, &progress))?;
    Ok(())
}
