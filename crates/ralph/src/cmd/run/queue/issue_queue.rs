//! Queues of issues: each open issue becomes a task.

use super::super::issue_run::{self, IssueCommands};
use super::super::run_args::RunArgs;
use super::super::run_plan;
use crate::cmd::{ASK_A_PERSON, init, refuse_agent};
use crate::failure::CommandFailure;
use ralph_core::run_terms::RunTerms;
use ralph_drive::issues::{self, IssueAccess, IssueError, IssueGoal, IssueQueue};
use ralph_drive::queue::{QueueIssue, QueueTask, TaskQueue};
use ralph_sys::clock::Deadline;
use ralph_sys::env::Env;
use std::path::Path;
use std::time::Duration;

/// Two calls of a tracker, each of two minutes.
const LIST_TIMEOUT: Duration = Duration::from_mins(5);

/// Reads the issues, and asks once about the commands of all of them.
pub(super) fn read_issues(
    env: &Env,
    args: &RunArgs,
    queue: Result<IssueQueue, IssueError>,
    here: &Path,
) -> Result<TaskQueue, CommandFailure> {
    refuse_agent(env, "an agent may not start a run that drives agents", ASK_A_PERSON)?;
    let project = init::resolved_project(env, args.project.as_deref())?;
    let deadline = Deadline::after(LIST_TIMEOUT);
    let access = IssueAccess { project: &project, here, env, deadline: &deadline };
    let failure = |error: IssueError| issue_run::issue_failure(&error);
    let found = queue.and_then(|queue| issues::list_issues(&access, &queue)).map_err(failure)?;
    if args.comment && found.iter().any(|issue| issue.tracker.is_none()) {
        return Err(failure(IssueError::NoComments));
    }
    let goals: Result<Vec<_>, _> = found.iter().map(IssueGoal::of_issue).collect();
    let goals = goals.map_err(failure)?;
    let asked: Vec<_> = found
        .iter()
        .zip(&goals)
        .map(|(issue, goal)| IssueCommands { issue, commands: goal.commands.clone() })
        .collect();
    let approved = if args.dry_run {
        asked.iter().map(|_| Vec::new()).collect()
    } else {
        issue_run::approve_commands(env, args, &asked)?
    };
    let mut tasks = Vec::new();
    for ((issue, goal), checks) in found.iter().zip(goals).zip(approved) {
        let mut notes = issue_run::issue_notes(issue, &goal);
        if args.dry_run && !args.skip_issue_checks {
            notes.extend(issue_run::unapproved_notes(args, &goal.commands));
        }
        let typed = RunArgs { check: checks.clone(), ..RunArgs::default() };
        let terms = RunTerms {
            goal: goal.goal.into_bytes(),
            checks: run_plan::typed_checks(env, &typed, &project)?,
            ..RunTerms::default()
        };
        tasks.push(QueueTask {
            name: issue.task_name(),
            terms,
            issue: Some(QueueIssue { issue: issue.clone(), checks, notes }),
            ..QueueTask::default()
        });
    }
    Ok(TaskQueue { source: args.queue.clone().unwrap_or_default(), tasks })
}
