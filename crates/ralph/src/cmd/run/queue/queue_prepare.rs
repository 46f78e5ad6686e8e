//! Prepares a queue: checks the queue and all its tasks before anything is started.

use super::super::gate_source::GateSource;
use super::super::run_args::RunArgs;
use super::super::run_plan::{self, PlannedWork, RunPlan};
use super::super::{drive_run, dry_run, run_consent};
use super::{issue_queue, queue_args};
use crate::cmd::init;
use crate::excerpt;
use crate::failure::CommandFailure;
use ralph_core::drive::{DriveSettings, LandingMode};
use ralph_core::limits::{LimitOverrides, RunLimits};
use ralph_core::run_terms::RunTerms;
use ralph_drive::queue::{self, QueueError, QueueTask, TaskQueue};
use ralph_hook::control;
use ralph_sys::env::Env;
use std::path::{Path, PathBuf};

/// Without `--parallel`, tasks run one after the other.
const DEFAULT_PARALLEL: usize = 1;

pub(super) struct PreparedQueue {
    pub queue: TaskQueue,
    pub project: PathBuf,
    /// Cost and duration are limits on all tasks together.
    pub limits: RunLimits,
    pub least_micro_usd: u64,
    pub parallel: usize,
    /// The arguments of every run.
    pub arguments: Vec<String>,
    /// The arguments that are recorded to continue the queue.
    pub recorded_arguments: Vec<String>,
    /// Flags for the agent, passed on unchanged.
    pub flags: Vec<String>,
    pub model: Option<String>,
    pub complexity: Option<u8>,
    /// Limits given for the queue. A task's own win over them.
    pub given_limits: LimitOverrides,
    /// What happens with verified work.
    pub then: LandingMode,
    /// The name and the command of each gate.
    pub gates: Vec<(String, String)>,
    /// The agent's command line, without the settings of single tasks.
    pub argv: Vec<String>,
    pub notes: Vec<String>,
}

pub(super) fn prepare_queue(env: &Env, args: &RunArgs) -> Result<PreparedQueue, CommandFailure> {
    for (is_given, option) in
        [(!args.plan.is_empty(), "--plan"), (!args.features.is_empty(), "--features")]
    {
        if is_given {
            let what = format!("`{option}` is for one goal, but a queue has many");
            let key = option.trim_start_matches('-');
            return Err(CommandFailure::new(
                &what,
                &format!("give a task its own: `{key} = \"…\"`"),
            ));
        }
    }
    let here = env.current_dir().ok_or_else(|| {
        CommandFailure::new(
            "the current directory no longer exists",
            "change to a directory that exists",
        )
    })?;
    let queue = if let Some(issues) = args.issue_queue() {
        issue_queue::read_issues(env, args, issues, &here)?
    } else {
        let source = args.queue.clone().unwrap_or_default();
        queue::read_queue(&here.join(source)).map_err(queue_failure)?
    };
    let then = if args.pr { LandingMode::PullRequest } else { LandingMode::Merge };
    if then == LandingMode::PullRequest
        && let Some(task) = queue.tasks.iter().find(|task| !task.after.is_empty())
    {
        let what = format!("`--pr` merges nothing, so `{}` could never start", task.name);
        return Err(CommandFailure::new(&what, "omit `--pr`, or remove `after`"));
    }
    let project = init::resolved_project(env, args.project.as_deref())?;
    let any = RunTerms { goal: b"any".to_vec(), ..RunTerms::default() };
    let any = QueueTask { terms: any, ..QueueTask::default() };
    let plan = prepare_task(env, args, &any)?;
    drive_run::check_ready(env, &plan)?;
    let mut notes = Vec::new();
    for task in &queue.tasks {
        let of_task =
            |failure: CommandFailure| failure.with_subject(&format!("task `{}`", task.name));
        check_lists(task, &project).map_err(of_task)?;
        let plan = prepare_task(env, args, task).map_err(of_task)?;
        run_consent::require_measure(&plan).map_err(of_task)?;
        let of_issue = task.issue.iter().flat_map(|of| of.notes.iter().cloned());
        let of_plan = dry_run::plan_notes(env, &plan);
        notes.push((task.name.as_str(), of_issue.chain(of_plan).collect()));
    }
    let notes = merge_notes(&notes);
    let (limits, gates) = limits_and_gates(&plan);
    let worst = plan.settings().unwrap_or(&DriveSettings::DEFAULT).worst_turn_micro_usd;
    let parallel = args.parallel.and_then(|most| usize::try_from(most).ok());
    Ok(PreparedQueue {
        queue,
        project,
        least_micro_usd: worst,
        parallel: parallel.unwrap_or(DEFAULT_PARALLEL),
        arguments: queue_args::shared_arguments(args, &here),
        recorded_arguments: queue_args::queue_arguments(args, &here),
        flags: args.flags.clone(),
        model: args.model.clone(),
        complexity: args.complexity,
        given_limits: args.limits.overrides(),
        then,
        argv: dry_run::redacted_argv(env, &plan, &limits),
        limits,
        gates,
        notes,
    })
}

fn prepare_task(env: &Env, args: &RunArgs, task: &QueueTask) -> Result<RunPlan, CommandFailure> {
    let terms = queue_args::task_terms(args, task);
    run_plan::prepare_task(env, &queue_args::task_args(args, task), terms)
}

/// The limits and gates of the queue. The limits of a single run apply to all tasks together.
fn limits_and_gates(plan: &RunPlan) -> (RunLimits, Vec<(String, String)>) {
    let PlannedWork::New(new) = &plan.work else { return (RunLimits::DEFAULT, Vec::new()) };
    let config = match &new.gate_source {
        GateSource::Policy(config) => Some(&**config),
        GateSource::Proposed(_) | GateSource::Undetected(_) | GateSource::NoGates => None,
    };
    let gates = config.map(dry_run::policy_gates).unwrap_or_default();
    (new.request.limits(config), gates)
}

/// Notes about every task once, and the other notes with the name of their task.
fn merge_notes(notes: &[(&str, Vec<String>)]) -> Vec<String> {
    let is_common = |note: &String| notes.iter().all(|(_, others)| others.contains(note));
    let common = notes.first().map(|(_, first)| first.as_slice()).unwrap_or_default();
    let common = common.iter().filter(|note| is_common(note)).cloned();
    let single = notes.iter().flat_map(|(task, own)| {
        let own = own.iter().filter(|note| !is_common(note));
        own.map(move |note| format!("task `{task}`: {note}"))
    });
    common.chain(single).collect()
}

/// Checks that the lists of a task exist.
fn check_lists(task: &QueueTask, project: &Path) -> Result<(), CommandFailure> {
    for features in &task.terms.lists.features {
        control::list_directory(Path::new(features), project)?;
    }
    for plan in &task.terms.lists.plans {
        control::plan_file(Path::new(plan), project)?;
    }
    Ok(())
}

fn queue_failure(error: QueueError) -> CommandFailure {
    match error {
        QueueError::Problems { ref first, more } => {
            CommandFailure::in_file(&error.to_string(), excerpt::render(first, more))
        }
        QueueError::File(error) => error.into(),
        QueueError::Missing(_) => CommandFailure::new(&error.to_string(), "check the path"),
        QueueError::Markdown(_) => CommandFailure::new(
            &error.to_string(),
            "write `[[task]]` with `name` and `goal` for each goal, or give a directory with one Markdown file per goal",
        ),
        QueueError::LeadsOut(_) => {
            CommandFailure::new(&error.to_string(), "put the file itself there")
        }
        QueueError::Empty(_) => CommandFailure::new(
            &error.to_string(),
            "write a `[[task]]` with `name` and `goal`, or a directory with a `*.md` for each",
        ),
        QueueError::TooMany(_) => {
            CommandFailure::new(&error.to_string(), "split it into several queues")
        }
        QueueError::NoText(_) => CommandFailure::new(&error.to_string(), "save it as UTF-8"),
    }
}
