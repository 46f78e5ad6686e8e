//! The arguments of a queue as words: for each of its runs, and for the record from which it can be continued.

use super::super::run_args::{RunArgs, SessionsArg};
use crate::failure::CommandFailure;
use clap::{Args, FromArgMatches};
use ralph_core::run_terms::RunTerms;
use ralph_drive::queue::{QueueOpening, QueueTask};
use std::path::Path;

/// The terms of a task's run: its own, then those of the arguments.
pub(super) fn task_terms(args: &RunArgs, task: &QueueTask) -> RunTerms {
    RunTerms {
        limits: task.terms.limits.or(args.limits.overrides()),
        complexity: task.terms.complexity.or(args.complexity),
        may_change: args.may_change.clone(),
        accept: args.accept,
        ..task.terms.clone()
    }
}

/// The arguments of a task's run besides its terms, to check them in advance.
pub(super) fn task_args(args: &RunArgs, task: &QueueTask) -> RunArgs {
    let model = task.model.clone().or_else(|| args.model.clone());
    RunArgs { model, worktree: true, ..args.clone() }
}

/// The arguments that all runs of a queue share, without limits. Those of a single task are added later.
pub(super) fn shared_arguments(args: &RunArgs, here: &Path) -> Vec<String> {
    let mut words = Vec::new();
    let mut add = |option: &str, value: Option<String>| {
        if let Some(value) = value {
            words.extend([option.to_string(), value]);
        }
    };
    add("--sessions", args.sessions.map(|it| sessions_name(it).to_string()));
    add("--stronger-model", args.stronger_model.clone());
    add("--agent", args.agent.map(|host| host.name.to_string()));
    // Absolute, because the queue may be continued from another directory.
    add("--agent-program", args.agent_program.as_deref().map(|path| absolute_program(path, here)));
    add("--wait-for-limits", args.wait_for_limits.map(format_milliseconds));
    add("--idle-after", args.idle_after.map(format_milliseconds));
    add("--wait-for-checks", args.wait_for_checks.map(format_milliseconds));
    add("--accept", args.accept.map(|accept| accept.name().to_string()));
    for glob in &args.may_change {
        add("--may-change", Some(glob.clone()));
    }
    for (is_given, option) in [
        (args.no_gates, "--no-gates"),
        (args.pr, "--pr"),
        (args.draft, "--draft"),
        (args.comment, "--comment"),
        (args.allow_skip_permissions, "--allow-skip-permissions"),
    ] {
        if is_given {
            words.push(option.to_string());
        }
    }
    words
}

/// All arguments of the queue except those about its output.
pub(super) fn queue_arguments(args: &RunArgs, here: &Path) -> Vec<String> {
    let mut words = shared_arguments(args, here);
    let mut add = |option: &str, value: Option<String>| {
        if let Some(value) = value {
            words.extend([option.to_string(), value]);
        }
    };
    add("--parallel", args.parallel.map(|it| it.to_string()));
    for (option, value) in args.limits.overrides().to_options() {
        add(option, Some(value));
    }
    add("--model", args.model.clone());
    add("--complexity", args.complexity.map(|it| it.to_string()));
    if args.skip_issue_checks {
        words.push("--skip-issue-checks".to_string());
    }
    if !args.flags.is_empty() {
        words.push("--".to_string());
        words.extend(args.flags.iter().cloned());
    }
    words
}

/// The recorded arguments, with the output options of the current call.
pub(super) fn recorded_args(
    opening: &QueueOpening,
    now: &RunArgs,
) -> Result<RunArgs, CommandFailure> {
    let command = RunArgs::augment_args(clap::Command::new("ralph").no_binary_name(true));
    let queue = ["--queue".into(), opening.source.clone().into_os_string()];
    let words = queue.into_iter().chain(opening.arguments.iter().map(Into::into));
    let parsed = command.try_get_matches_from(words).and_then(|it| RunArgs::from_arg_matches(&it));
    let mut run = parsed.map_err(|error| {
        let what = "the recorded arguments of the queue are no longer valid";
        CommandFailure::caused_by(what, &error).with_hint("`ralph run --queue FILE` continues it")
    })?;
    run.project = Some(opening.project.clone());
    run.json = now.json;
    run.quiet = now.quiet;
    run.dry_run = now.dry_run;
    if now.agent_program.is_some() {
        run.agent_program.clone_from(&now.agent_program);
    }
    run.wait_for_limits = now.wait_for_limits.or(run.wait_for_limits);
    Ok(run)
}

fn format_milliseconds(ms: u64) -> String {
    format!("{ms}ms")
}

fn sessions_name(sessions: SessionsArg) -> &'static str {
    match sessions {
        SessionsArg::Hybrid => "hybrid",
        SessionsArg::SameSession => "same-session",
        SessionsArg::FreshPerFeature => "fresh-per-feature",
    }
}

/// Makes a path absolute. A bare name is looked up on `PATH` later.
fn absolute_program(path: &Path, here: &Path) -> String {
    let is_path = path.components().count() > 1;
    let path = if is_path { here.join(path) } else { path.to_path_buf() };
    path.to_string_lossy().into_owned()
}
