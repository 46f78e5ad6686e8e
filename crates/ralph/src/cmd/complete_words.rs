//! `ralph complete-words`: the names of runs, gates and requirements for the completion scripts.

use super::{open_home, run_choice};
use crate::failure::CommandFailure;
use crate::term;
use clap::Args;
use ralph_core::text;
use ralph_home::run_outline::OutlinedRun;
use ralph_home::store;
use ralph_hook::overview;
use ralph_hook::project_runs::RunPurpose;
use ralph_policy::config;
use ralph_sys::env::Env;
use std::cmp::Reverse;

const MAX_NAMES: usize = 100;
const LONGEST_NAME: usize = 120;

#[derive(Args)]
#[command(after_help = "Examples:\n  ralph complete-words -- why k7")]
pub(crate) struct CompleteWordsArgs {
    /// Complete the last of these words
    #[arg(last = true, value_name = "WORDS")]
    pub words: Vec<String>,
}

/// What a word on the command line names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WordKind {
    Run,
    Gate,
    Requirement,
}

/// Prints a name per line; nothing if no names are known or something fails, because a completion cannot show an error.
pub(crate) fn run(
    env: &Env,
    args: &CompleteWordsArgs,
    command: &clap::Command,
) -> Result<(), CommandFailure> {
    let Some((current, before)) = args.words.split_last() else { return Ok(()) };
    let Some(kind) = word_kind(command, before) else { return Ok(()) };
    let names = known_names(env, kind).unwrap_or_default();
    let names = names.into_iter().map(|name| text::clean_line(&name, LONGEST_NAME));
    let names = names.filter(|name| name.starts_with(current.as_str())).take(MAX_NAMES);
    let lines: String = names.map(|name| name + "\n").collect();
    term::out(&lines)?;
    Ok(())
}

/// What the word after `before` names, by the argument that it would be.
fn word_kind(command: &clap::Command, before: &[String]) -> Option<WordKind> {
    let mut command = command;
    let mut group = "";
    let mut operands = 0;
    let mut option = None;
    for word in before {
        if option.take().is_some() {
            continue;
        }
        if word == "--" {
            return None;
        } else if let Some(long) = word.strip_prefix("--") {
            let named = command.get_arguments().find(|arg| arg.get_long() == Some(long));
            option = named.filter(|arg| arg.get_action().takes_values());
        } else if let Some(sub) = command.find_subcommand(word).filter(|_| operands == 0) {
            group = if group.is_empty() { sub.get_name() } else { group };
            command = sub;
        } else if !word.starts_with('-') {
            operands += 1;
        }
    }
    let operand = || {
        let is_many = |arg: &&clap::Arg| matches!(arg.get_action(), clap::ArgAction::Append);
        let known = command.get_positionals().filter(|arg| !arg.is_last_set());
        let known: Vec<_> = known.collect();
        known.get(operands).copied().or_else(|| known.into_iter().find(is_many))
    };
    argument_kind(option.or_else(operand)?, group)
}

fn argument_kind(arg: &clap::Arg, group: &str) -> Option<WordKind> {
    let name = arg.get_value_names()?.first()?.as_str();
    match name {
        "REQUIREMENT" => Some(WordKind::Requirement),
        "NAME" if group == "gate" => Some(WordKind::Gate),
        _ if name.contains("RUN") => Some(WordKind::Run),
        _ => None,
    }
}

fn known_names(env: &Env, kind: WordKind) -> Result<Vec<String>, CommandFailure> {
    match kind {
        WordKind::Run => run_names(env),
        WordKind::Gate => gate_names(env),
        WordKind::Requirement => requirement_names(env),
    }
}

/// The runs of this project, or of all projects if it has none.
fn run_names(env: &Env) -> Result<Vec<String>, CommandFailure> {
    let home = open_home(env)?;
    let runs = overview::outline_runs(&home)?;
    let scope = run_choice::scope_among(env, &home, &runs)?;
    let mut runs = overview::outlined_in(scope.as_ref(), runs);
    let seen_ms = |run: &OutlinedRun| run.outline.as_ref().map(|outline| outline.last_seen_ms);
    // A run without an outline is at work or was just changed.
    runs.sort_by_key(|run| Reverse(seen_ms(run).unwrap_or(u64::MAX)));
    Ok(runs.iter().map(|run| run.id.to_string()).collect())
}

fn gate_names(env: &Env) -> Result<Vec<String>, CommandFailure> {
    let config = config::load(&super::config::project_dir(env, None)?, &open_home(env)?)?;
    Ok(config.policy.gates.into_iter().map(|gate| gate.name).collect())
}

/// The requirements of the last report, open ones first; before it, the gates.
fn requirement_names(env: &Env) -> Result<Vec<String>, CommandFailure> {
    let home = open_home(env)?;
    let run = run_choice::project_run(env, &home, RunPurpose::Steer)?;
    let Some(report) = store::load_run(&home, &run)?.state.report else { return gate_names(env) };
    let open = report.lines.into_iter().map(|line| line.name);
    Ok(open.chain(report.also_open).chain(report.met).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_argument_decides_what_is_completed() {
        let command = crate::cli::RalphCli::command();
        for (line, expected) in [
            ("why", Some(WordKind::Run)),
            ("pause", Some(WordKind::Run)),
            ("run --resume", Some(WordKind::Run)),
            ("waive --run", Some(WordKind::Run)),
            ("list checkpoints", Some(WordKind::Run)),
            ("gate explain", Some(WordKind::Gate)),
            ("gate run tests", Some(WordKind::Gate)),
            ("waive", Some(WordKind::Requirement)),
            ("waive --undo", Some(WordKind::Requirement)),
            ("dispute", Some(WordKind::Requirement)),
            ("waive tests --why", None),
            ("why k7f2", None),
            ("run", None),
            ("run --", None),
            ("nonsense", None),
            ("", None),
        ] {
            let words: Vec<_> = line.split_whitespace().map(str::to_string).collect();
            assert_eq!(word_kind(&command, &words), expected, "{line}");
        }
    }
}
