//! `ralph plan`: agrees on a contract before work begins. An agent proposes steps with a check each, the person answers
//! its questions and approves the commands, and every check is tried on the project as it is. Checks that pass already,
//! or cannot run, measure nothing and are sent back.
//!
//! ```text
//! plan_agent  ─┐
//!              ├─▶ PlannedStep ─▶ plan_consent ─▶ plan_trial ─▶ again, or plan_output: the list, approved
//! plan_editor ─┘
//! ```

mod plan_agent;
mod plan_consent;
mod plan_editor;
mod plan_output;
mod plan_progress;
mod plan_screen;
mod plan_trial;

use super::run::issue_run::{issue_failure, read_tracker_issue};
use super::run::run_args::parse_model;
use super::{ASK_A_PERSON, open_home, refuse_agent};
use crate::failure::CommandFailure;
use crate::host_arg::host_parser;
use crate::term;
use crate::value_parsers::parse_positive_count;
use clap::Args;
use ralph_core::run_terms;
use ralph_core::source::item_check::ItemCheck;
use ralph_core::{text, units};
use ralph_drive::issues::{IssueGoal, TrackerIssue};
use ralph_drive::planning::planner::PlannerError;
use ralph_home::paths::RalphHome;
use ralph_host::HostProfile;
use ralph_lists::loops;
use ralph_policy::config::{self, ProjectConfig};
use ralph_proof::CheckTrial;
use ralph_sys::env::Env;
use ralph_sys::fs;
use ralph_sys::proc::cancel::CancelToken;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const MAX_NAME_WORDS: usize = 4;
const MAX_NAME_CHARS: usize = 40;

#[derive(Args)]
#[command(after_help = "\
Examples:
  ralph plan \"export the orders as CSV\"
  ralph plan --goal-file goal.md --answers decisions.txt
  ralph plan --issue 123
  ralph plan \"export the orders as CSV\" --yes --json
  ralph plan --no-agent \"export the orders as CSV\"
  ralph plan --from steps.txt

The agent reads the project and proposes steps with a check each; it has
no tool that changes anything. You answer its questions, see every
command, and approve them. Then each check is tried on a copy of the
project as it is: one that passes already, or cannot run, goes back to
the agent. What is left becomes a feature list for `ralph run --loop`.

Without an agent, the steps are text:

  - Quoted fields may contain commas
    check: cargo test quoted_commas

With `--yes`, the agent's defaults answer its questions, and the commands
that it wrote are run and approved without a person reading them.

Exit codes: 0 written, 1 no plan, 3 not approved, 130 interrupted.")]
pub(crate) struct PlanArgs {
    /// State the goal
    #[arg(value_name = "GOAL")]
    pub goal: Option<String>,
    /// Read the goal from a file; `-` is stdin
    #[arg(long, value_name = "FILE", conflicts_with = "goal")]
    pub goal_file: Option<PathBuf>,
    /// Plan the work on this issue: `123`, `gh:owner/name#123`, `file:FILE`
    #[arg(long, value_name = "ISSUE", conflicts_with_all = ["goal", "goal_file", "no_agent", "from"])]
    pub issue: Option<String>,
    /// Give the agent decisions beforehand; it asks nothing else
    #[arg(long, value_name = "FILE", conflicts_with_all = ["no_agent", "from"])]
    pub answers: Option<PathBuf>,
    /// Write steps and checks by hand, in `$EDITOR` or on stdin
    #[arg(long)]
    pub no_agent: bool,
    /// Read steps and checks from this file; no agent is started
    #[arg(long, value_name = "FILE")]
    pub from: Option<PathBuf>,
    /// Name the loop [default: from the goal]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Try checks at most this often
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = parse_positive_count)]
    pub max_rounds: u32,
    /// Spend at most this much, in USD
    #[arg(long, value_name = "USD", default_value = "1", value_parser = parse_cost)]
    pub max_cost: u64,
    /// Use this model [default: the agent's own choice]
    #[arg(long, value_name = "MODEL", value_parser = parse_model)]
    pub model: Option<String>,
    /// Ask this agent
    #[arg(long, value_name = "AGENT", value_parser = host_parser())]
    pub agent: Option<&'static HostProfile>,
    /// Run this program as the agent [default: the one on `PATH`]
    #[arg(long, value_name = "PATH")]
    pub agent_program: Option<PathBuf>,
    /// Take defaults, run the proposed checks and approve them, without asking
    #[arg(long)]
    pub yes: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

pub(crate) fn parse_cost(text: &str) -> Result<u64, String> {
    let cost = units::parse_micro_usd(text).filter(|micro| *micro > 0);
    cost.ok_or_else(|| "expected an amount such as `0.50`".to_string())
}

/// What every part of the command needs.
struct PlanContext<'a> {
    env: &'a Env,
    args: &'a PlanArgs,
    home: RalphHome,
    project: PathBuf,
    config: ProjectConfig,
    goal: String,
    /// The name of the loop unless the person chose one.
    default_name: String,
    cancel: Arc<CancelToken>,
}

/// A step, its check, and the result of the check before the work.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PlannedStep {
    description: String,
    check: ItemCheck,
    trial: Option<CheckTrial>,
}

/// How the plan came about.
#[derive(Debug, Default)]
struct PlanOutcome {
    steps: Vec<PlannedStep>,
    /// Steps whose checks do not measure them.
    left_out: Vec<PlannedStep>,
    answers: Vec<AnsweredQuestion>,
    rounds: u32,
    spent_micro_usd: Option<u64>,
    notes: Vec<String>,
}

#[derive(Clone, Debug)]
struct AnsweredQuestion {
    question: String,
    answer: String,
    is_default: bool,
}

pub(crate) fn run(env: &Env, args: &PlanArgs) -> Result<u8, CommandFailure> {
    refuse_agent(env, "an agent may not approve its own checks", ASK_A_PERSON)?;
    let context = PlanContext::open(env, args)?;
    plan_consent::require_consent_possible(&context)?;
    let name = context.loop_name()?;
    let is_by_hand = args.no_agent || args.from.is_some();
    let planned = if is_by_hand {
        plan_editor::plan_by_hand(&context)
    } else {
        plan_agent::plan_with_agent(&context)
    };
    // An interrupted agent or check fails, too.
    if context.cancel.is_cancelled() {
        return Ok(super::gate::gate_run::INTERRUPTED);
    }
    plan_output::finish(&context, &name, &planned?)
}

/// Reads the issue to plan. Its text could make the agent propose anything, so a person has to see the commands.
fn read_open_issue(
    env: &Env,
    project: &Path,
    named: &str,
    is_unread: bool,
) -> Result<TrackerIssue, CommandFailure> {
    if is_unread {
        let what =
            "a person has to see the checks that come of an issue; `--yes` approves them unread";
        return Err(CommandFailure::untrusted(what, "run it at a terminal, without `--yes`"));
    }
    let issue = read_tracker_issue(env, project, named)?;
    if issue.is_closed {
        let what = format!("issue {} is closed", issue.reference());
        return Err(CommandFailure::new(&what, "reopen it, or plan the goal in your own words"));
    }
    Ok(issue)
}

impl<'a> PlanContext<'a> {
    fn open(env: &'a Env, args: &'a PlanArgs) -> Result<Self, CommandFailure> {
        let home = open_home(env)?;
        let project = super::config::project_dir(env, None)?;
        let project = fs::resolve(&project).unwrap_or(project);
        let config = config::load(&project, &home)?;
        let here = env.current_dir().unwrap_or_default();
        let issue = match &args.issue {
            Some(named) => Some(read_open_issue(env, &project, named, args.yes)?),
            None => None,
        };
        let goal = match (&issue, &args.goal) {
            (Some(issue), _) => {
                IssueGoal::of_issue(issue).map_err(|error| issue_failure(&error))?.goal.into_bytes()
            }
            (None, Some(goal)) => goal.as_bytes().to_vec(),
            (None, None) => super::start::read_goal(args.goal_file.as_deref(), &here)?,
        };
        run_terms::check_goal_length(&goal)?;
        let goal = text::clean(&String::from_utf8_lossy(&goal)).trim().to_string();
        let default_name = issue.map_or_else(|| name_from_goal(&goal), |issue| issue.task_name());
        if goal.is_empty() && !args.no_agent && args.from.is_none() {
            let hint = "for example `ralph plan \"export the orders as CSV\"`";
            return Err(CommandFailure::new("there is no goal to plan", hint));
        }
        let cancel = super::cancel_on_signals()?;
        Ok(Self { env, args, home, project, config, goal, default_name, cancel })
    }

    /// The name of the new loop. One that the person chose must be free; one from the goal gets a number.
    fn loop_name(&self) -> Result<String, CommandFailure> {
        if let Some(name) = &self.args.name {
            if !loops::is_loop_name(name) {
                let what = format!("`{}` cannot be the name of a loop", text::clean_line(name, 80));
                return Err(CommandFailure::new(&what, "use letters, digits, `.`, `_` and `-`"));
            }
            if !loops::is_free_loop_name(&self.project, name) {
                let what = format!("the loop `{name}` exists already");
                return Err(CommandFailure::new(&what, "choose another `--name`"));
            }
            return Ok(name.clone());
        }
        loops::free_loop_name(&self.project, &self.default_name).ok_or_else(|| {
            CommandFailure::new("there are too many loops of this name", "choose a `--name`")
        })
    }
}

impl PlannedStep {
    fn new(description: String, check: ItemCheck) -> Self {
        Self { description, check, trial: None }
    }

    fn is_failing(&self) -> bool {
        self.trial.as_ref().is_some_and(CheckTrial::is_failing)
    }
}

impl PlanOutcome {
    /// Moves the steps whose checks do not fail out of the plan.
    fn keep_failing(&mut self, steps: Vec<PlannedStep>) {
        let (kept, left_out) = steps.into_iter().partition(PlannedStep::is_failing);
        self.steps = kept;
        self.left_out = left_out;
    }
}

/// The first words of a goal: `export-the-orders-as`. Never `current`, which a session would adopt by itself.
fn name_from_goal(goal: &str) -> String {
    let line = goal.lines().next().unwrap_or_default().to_lowercase();
    let words = line.split(|char: char| !char.is_ascii_alphanumeric());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).take(MAX_NAME_WORDS).collect();
    let name: String = words.join("-").chars().take(MAX_NAME_CHARS).collect();
    let name = name.trim_matches('-');
    if name.is_empty() || name == "current" { "plan".to_string() } else { name.to_string() }
}

fn planner_failure(error: &PlannerError) -> CommandFailure {
    CommandFailure::new(
        &error.to_string(),
        match error {
            PlannerError::Budget { .. } => "allow more with `--max-cost USD`",
            PlannerError::DailyLimit(_) => "raise the daily limit in your settings, or wait",
            PlannerError::Timeout(_) | PlannerError::Exited(_) | PlannerError::Failed(_) => {
                "try again, or write the steps yourself with `--no-agent`"
            }
            PlannerError::Refused => {
                "state the goal in other words, or write the steps yourself with `--no-agent`"
            }
            PlannerError::Start(_)
            | PlannerError::File(_)
            | PlannerError::NoRandomness
            | PlannerError::Interrupted => "nothing was written; try again",
        },
    )
}

fn relative<'a>(path: &'a Path, context: &PlanContext<'_>) -> &'a Path {
    path.strip_prefix(&context.project).unwrap_or(path)
}

/// A line about the progress, on stderr, unless the output is for a program.
fn tell(context: &PlanContext<'_>, line: &str) {
    if !context.args.json {
        term::err(&format!("{line}\n"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_is_named_after_its_goal() {
        for (goal, expected) in [
            ("Export the orders as CSV, please", "export-the-orders-as"),
            ("../../etc/passwd", "etc-passwd"),
            ("current", "plan"),
            ("日本語", "plan"),
            ("", "plan"),
            (&"x".repeat(200), &"x".repeat(40)),
        ] {
            assert_eq!(name_from_goal(goal), expected);
            assert!(loops::is_loop_name(&name_from_goal(goal)));
        }
    }
}
