//! Prepares a queue: checks the queue and all its tasks before anything is started.

use super::super::args::Run;
use super::super::policy::Judge;
use super::super::prepare::{self, Plan, Work};
use super::super::{dry, go};
use super::words;
use crate::cmd::{init, start};
use crate::excerpt;
use crate::report::Failure;
use ralph_core::drive::{Settings, Then};
use ralph_core::limits::Limits;
use ralph_drive::queue::{self, Queue, QueueError, Task};
use ralph_sys::env::Env;
use std::path::{Path, PathBuf};

/// Without `--parallel`, tasks run one after the other.
const USUAL_PARALLEL: usize = 1;

pub(super) struct Prepared {
    pub queue: Queue,
    pub project: PathBuf,
    /// Cost and duration are limits on all tasks together.
    pub limits: Limits,
    pub least_micro_usd: u64,
    pub parallel: usize,
    /// The arguments of every run.
    pub arguments: Vec<String>,
    /// The arguments that are recorded to continue the queue.
    pub asked: Vec<String>,
    /// Flags for the agent, passed on unchanged.
    pub flags: Vec<String>,
    pub model: Option<String>,
    pub complexity: Option<u8>,
    pub max_iterations: Option<u32>,
    /// What happens with verified work.
    pub then: Then,
    /// The name and the command of each gate.
    pub gates: Vec<(String, String)>,
    /// The agent's command line, without the settings of single tasks.
    pub argv: Vec<String>,
    pub notes: Vec<String>,
}

pub(super) fn prepare(env: &Env, args: &Run) -> Result<Prepared, Failure> {
    for (is_given, option) in
        [(!args.plan.is_empty(), "--plan"), (!args.features.is_empty(), "--features")]
    {
        if is_given {
            let what = format!("`{option}` is for one goal, but a queue has many");
            let key = option.trim_start_matches('-');
            return Err(Failure::new(&what, &format!("give a task its own: `{key} = \"…\"`")));
        }
    }
    let here = env.current_dir().ok_or_else(|| {
        Failure::new("the current directory no longer exists", "change to a directory that exists")
    })?;
    let source = args.queue.clone().unwrap_or_default();
    let queue = queue::read(&here.join(source)).map_err(unreadable)?;
    let then = if args.pr { Then::PullRequest } else { Then::Merge };
    if then == Then::PullRequest
        && let Some(task) = queue.tasks.iter().find(|task| !task.after.is_empty())
    {
        let what = format!("`--pr` merges nothing, so `{}` could never start", task.name);
        return Err(Failure::new(&what, "omit `--pr`, or remove `after`"));
    }
    let project = init::project(env, args.project.as_deref())?;
    let any = Task { goal: "any".to_string(), ..Task::default() };
    let plan = prepare::prepare(env, &words::of_task(args, &any))?;
    go::ready(env, &plan)?;
    let mut notes = Vec::new();
    for task in &queue.tasks {
        let of_task = |failure: Failure| failure.about(&format!("task `{}`", task.name));
        lists(task, &project).map_err(of_task)?;
        let plan = prepare::prepare(env, &words::of_task(args, task)).map_err(of_task)?;
        notes.push((task.name.as_str(), dry::notes(&plan)));
    }
    let notes = together(&notes);
    let (limits, gates) = terms(&plan);
    let worst = plan.settings().unwrap_or(&Settings::DEFAULT).worst_turn_micro_usd;
    let parallel = args.parallel.and_then(|most| usize::try_from(most).ok());
    Ok(Prepared {
        queue,
        project,
        least_micro_usd: worst,
        parallel: parallel.unwrap_or(USUAL_PARALLEL),
        arguments: words::common(args, &here),
        asked: words::of(args, &here),
        flags: args.flags.clone(),
        model: args.model.clone(),
        complexity: args.complexity,
        max_iterations: args.limits.max_iterations,
        then,
        argv: dry::command_line(env, &plan, &limits),
        limits,
        gates,
        notes,
    })
}

/// The limits and gates of the queue. The limits of a single run apply to all tasks together.
fn terms(plan: &Plan) -> (Limits, Vec<(String, String)>) {
    let Work::New(new) = &plan.work else { return (Limits::DEFAULT, Vec::new()) };
    let config = match &new.judge {
        Judge::Policy(config) => Some(&**config),
        Judge::Proposed(_) | Judge::Nothing => None,
    };
    let gates = config.map(dry::of_policy).unwrap_or_default();
    (new.demand.limits(config), gates)
}

/// Notes about every task once, and the other notes with the name of their task.
fn together(notes: &[(&str, Vec<String>)]) -> Vec<String> {
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
fn lists(task: &Task, project: &Path) -> Result<(), Failure> {
    for features in &task.features {
        start::list_directory(features, project)?;
    }
    for plan in &task.plans {
        start::plan_file(plan, project)?;
    }
    Ok(())
}

fn unreadable(error: QueueError) -> Failure {
    match error {
        QueueError::Problems { ref first, more } => {
            Failure::in_file(&error.to_string(), excerpt::render(first, more))
        }
        QueueError::File(error) => error.into(),
        QueueError::Missing(_) => Failure::new(&error.to_string(), "check the path"),
        QueueError::LeadsOut(_) => Failure::new(&error.to_string(), "put the file itself there"),
        QueueError::Empty(_) => Failure::new(
            &error.to_string(),
            "write a `[[task]]` with `name` and `goal`, or a directory with a `*.md` for each",
        ),
        QueueError::TooMany(_) => Failure::new(&error.to_string(), "split it into several queues"),
        QueueError::NoText(_) => Failure::new(&error.to_string(), "save it as UTF-8"),
    }
}
