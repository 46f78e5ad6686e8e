//! `ralph orchestrator …`: starts runs that work in phases, shows their conditions, and records claims and approvals.

use super::{caller, declare, home};
use crate::cli::Start;
use crate::phases;
use crate::report::Failure;
use crate::{term, wording};
use clap::{Args, Subcommand};
use ralph_core::id::{RunId, SessionId};
use ralph_core::record::{Asked, Run, Step};
use ralph_core::run::Phase;
use ralph_core::source::orchestrator::{Condition, Owner};
use ralph_core::status::Status;
use ralph_core::text;
use ralph_home::paths::Home;
use ralph_home::store::{self, Opened};
use ralph_hook::control::{self, Caller, Named};
use ralph_hook::orchestrator;
use ralph_hook::overview::{self, RunView};
use ralph_sys::clock::Deadline;
use ralph_sys::env::Env;
use serde::Serialize;

pub(crate) const EXAMPLES: &str = "\
Examples:
  ralph orchestrator start \"implement auth\" --session 5999882c-e786-462c-84d4-07d1c65b5e76
  ralph orchestrator show
  ralph orchestrator set task_classified --complexity 8
  ralph orchestrator approve k7f2";

const START_EXAMPLES: &str = "\
Examples:
  ralph orchestrator start \"implement auth\" --session 5999882c-e786-462c-84d4-07d1c65b5e76
  ralph orchestrator start --goal-file goal.md --complexity 8 --max-duration 2h

Inside an agent's shell `--session` defaults to its session; elsewhere
it is required.";

const LONGEST_PHASE: usize = 60;

#[derive(Subcommand)]
pub(crate) enum Orchestrator {
    /// Start a run that holds a session until all nine conditions are met
    #[command(after_help = START_EXAMPLES)]
    Start(Begin),
    /// Show the phases, the nine conditions, and what is missing
    Show(Show),
    /// Claim a condition, or name the current phase (for agents)
    Set(Set),
    /// Approve the plan (only for people)
    Approve(Approve),
}

#[derive(Args)]
pub(crate) struct Begin {
    /// Describe the task
    #[arg(
        value_name = "TASK",
        required_unless_present = "goal_file",
        conflicts_with = "goal_file"
    )]
    pub task: Vec<String>,
    #[command(flatten)]
    pub start: Start,
}

#[derive(Args)]
#[command(
    after_help = "Examples:\n  ralph orchestrator show\n  ralph orchestrator show k7f2 --json | jq -r '.missing[]'"
)]
pub(crate) struct Show {
    /// Show this run or session [default: the agent's own, or the latest run]
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
  ralph orchestrator set phase implementation

The agent's conditions are memory_search, task_classified,
must_have_answered, implementation_complete and retrospective_done, and
plan_approved if the policy says so. Conditions of a person or of ralph
are refused. A retrospective counts once `ralph learn` has saved
something.")]
pub(crate) struct Set {
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
pub(crate) struct Approve {
    /// Name the run or its session [default: the only one that waits]
    #[arg(value_name = "RUN|SESSION")]
    pub name: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Serialize)]
struct ShowJson<'a> {
    v: u8,
    run: &'a str,
    status: &'static str,
    session: Option<&'a str>,
    task: &'a str,
    iterations: u32,
    verified_done: bool,
    #[serde(flatten)]
    picture: phases::PictureJson<'a>,
}

pub(crate) fn run(env: &Env, asked: &Orchestrator) -> Result<(), Failure> {
    match asked {
        Orchestrator::Start(args) => start(env, args),
        Orchestrator::Show(args) => show(env, args),
        Orchestrator::Set(args) => set(env, args),
        Orchestrator::Approve(args) => approve(env, args),
    }
}

fn start(env: &Env, args: &Begin) -> Result<(), Failure> {
    let task = args.task.join(" ");
    if task.trim().is_empty() && args.start.goal_file.is_none() {
        let hint = "describe it: `ralph orchestrator start \"implement auth\"`";
        return Err(Failure::new("the task is empty", hint));
    }
    super::start::orchestrated(env, &args.start, &task)
}

fn show(env: &Env, args: &Show) -> Result<(), Failure> {
    let home = home(env)?;
    let run = match (&args.name, env.claude_session()) {
        (Some(name), _) => named(&home, name)?,
        (None, Some(own)) if caller(env) == Caller::Agent => named(&home, &own)?,
        (None, _) => {
            let runs = overview::runs(&home)?.0;
            let last = runs.into_iter().find(|view| view.opened.run.phases == Asked::Yes);
            last.map(|view| view.opened.run.id).ok_or_else(none)?
        }
    };
    let opened = store::load(&home, &run)?;
    if opened.run.phases == Asked::No {
        return Err(control::ControlError::WithoutPhases { run }.into());
    }
    if args.json {
        return print_json(&home, &opened);
    }
    term::out(&super::status::of_run(&home, &run)?)?;
    Ok(())
}

fn set(env: &Env, args: &Set) -> Result<(), Failure> {
    let home = home(env)?;
    let run = declare::run_of(env, &home, args.run.as_deref())?;
    let opened = store::load(&home, &run)?;
    let (step, done) = match args.what.as_str() {
        "phase" => phase(args)?,
        name => condition(env, &opened, args, name)?,
    };
    let opened = orchestrator::step(&home, &run, step, &deadline())?;
    if args.json {
        return print_json(&home, &opened);
    }
    let picture = orchestrator::picture(&home, &opened);
    let missing: Vec<_> = phases::missing(&picture).map(|one| one.condition.name()).collect();
    let missing = match missing.as_slice() {
        [] => "nothing is missing".to_string(),
        missing => format!("missing: {}", missing.join(", ")),
    };
    term::out(&format!("{}  {done}; {missing}\n", term::paint(term::BOLD, run.as_str())))?;
    Ok(())
}

fn phase(args: &Set) -> Result<(Step, String), Failure> {
    let hint = "`ralph orchestrator set phase implementation`";
    let phase = text::line(args.phase.as_deref().unwrap_or_default().trim(), LONGEST_PHASE);
    if phase.is_empty() || args.complexity.is_some() || args.undo {
        return Err(Failure::new("a phase needs a name and nothing else", hint));
    }
    let done = format!("noted: phase \"{phase}\"");
    Ok((Step::Phase(phase), done))
}

fn condition(
    env: &Env,
    opened: &Opened,
    args: &Set,
    name: &str,
) -> Result<(Step, String), Failure> {
    let condition = Condition::parse(name).ok_or_else(|| unknown(name))?;
    if let Some(extra) = &args.phase {
        let what = format!("unexpected `{}` after a condition", text::line(extra, 60));
        return Err(Failure::new(&what, "run `ralph orchestrator set --help`"));
    }
    if let Some(owner) = orchestrator::refusal(&opened.run, condition) {
        return Err(refused(&opened.run, condition, owner));
    }
    if condition == Condition::TaskClassified {
        return classified(env, opened, args);
    }
    if args.complexity.is_some() {
        let hint = "`ralph orchestrator set task_classified --complexity 5`";
        return Err(Failure::new("only `task_classified` takes a complexity", hint));
    }
    Ok(if args.undo {
        (Step::Withdraws(condition), format!("withdrawn: {}", condition.name()))
    } else {
        (Step::Claims(condition), format!("noted: {}", condition.name()))
    })
}

/// An agent may raise the complexity but not lower it: a lower one would disable gates.
fn classified(env: &Env, opened: &Opened, args: &Set) -> Result<(Step, String), Failure> {
    let hint = "from 1 to 10: `ralph orchestrator set task_classified --complexity 5`";
    let Some(complexity) = args.complexity else {
        let what = if args.undo {
            "a classification cannot be withdrawn; set it again"
        } else {
            "no complexity given"
        };
        return Err(Failure::new(what, hint));
    };
    match opened.state.way.complexity {
        Some(known) if complexity < known && caller(env) == Caller::Agent => {
            let what = format!("the task already has complexity {known}");
            Err(Failure::new(&what, "only a person can lower it"))
        }
        Some(_) | None => {
            Ok((Step::Classified(complexity), format!("noted: complexity {complexity} of 10")))
        }
    }
}

fn unknown(name: &str) -> Failure {
    let what = format!("there is no condition `{}`", text::line(name, 60));
    let hint = match text::nearest(name, Condition::ALL.into_iter().map(Condition::key)) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "`ralph orchestrator show` lists them".to_string(),
    };
    Failure::new(&what, &hint)
}

fn refused(run: &Run, condition: Condition, owner: Owner) -> Failure {
    let name = condition.name();
    match owner {
        Owner::Agent | Owner::Person => Failure::new(
            &format!("\"{name}\" is given by a person"),
            &format!(
                "they type `/ralph:approve` in the session, or run `ralph orchestrator approve {}`",
                run.id
            ),
        ),
        Owner::Ralph => Failure::new(
            &format!("\"{name}\" is measured by ralph"),
            "it is met when the gates of its stage pass; stop, and ralph checks",
        ),
    }
}

fn approve(env: &Env, args: &Approve) -> Result<(), Failure> {
    let home = home(env)?;
    let caller = caller(env);
    if caller == Caller::Agent {
        return Err(control::ControlError::FromTheAgent { action: "approve the plan of" }.into());
    }
    let run = match &args.name {
        Some(name) => named(&home, name)?,
        None => waiting(&home)?,
    };
    let opened = orchestrator::approve(&home, &run, caller, &deadline())?;
    if args.json {
        return print_json(&home, &opened);
    }
    let name = term::paint(term::BOLD, run.as_str());
    term::out(&format!("{name}  plan approved; the agent continues at its next turn\n"))?;
    Ok(())
}

/// The only run whose plan is not approved yet.
fn waiting(home: &Home) -> Result<RunId, Failure> {
    let waits = |view: &RunView| {
        view.opened.run.phases == Asked::Yes
            && view.opened.state.way.approved_by.is_none()
            && !matches!(view.phase, Phase::Ended(_))
    };
    let runs: Vec<RunId> =
        overview::runs(home)?.0.into_iter().filter(waits).map(|view| view.opened.run.id).collect();
    match runs.as_slice() {
        [] => Err(Failure::new("no plan waits for an approval", "`ralph status` lists the runs")),
        [one] => Ok(one.clone()),
        [_, _, ..] => {
            let names: Vec<_> = runs.iter().map(|run| format!("`{run}`")).collect();
            let what = format!("more than one plan waits: {}", names.join(", "));
            Err(Failure::new(&what, "name the run: `ralph orchestrator approve RUN`"))
        }
    }
}

fn named(home: &Home, name: &str) -> Result<RunId, Failure> {
    match super::named(home, name)? {
        Named::Run(run) => Ok(run),
        Named::Session(_) => Err(none()),
    }
}

fn none() -> Failure {
    let hint =
        "`ralph orchestrator start \"…\"` starts one, or `/ralph:orchestrator …` in a session";
    Failure::new("there is no run that works in phases", hint)
}

fn deadline() -> Deadline {
    Deadline::after(super::control::PATIENCE)
}

fn print_json(home: &Home, opened: &Opened) -> Result<(), Failure> {
    let (run, state) = (&opened.run, &opened.state);
    let picture = orchestrator::picture(home, opened);
    super::print_json(&ShowJson {
        v: 1,
        run: run.id.as_str(),
        status: wording::standing(state, control::phase(home, opened)),
        session: state.owner(run).map(SessionId::as_str),
        task: &run.title,
        iterations: state.iteration,
        verified_done: state.phase == Phase::Ended(Status::Verified),
        picture: phases::json(&picture),
    })?;
    Ok(())
}
