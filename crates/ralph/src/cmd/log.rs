//! `ralph log`: prints the journal of a run, line by line.

use super::open_home;
use super::why::{HistoryScope, find_history};
use crate::failure::CommandFailure;
use crate::term::{self, OutputReader};
use clap::Args;
use ralph_core::id::RunId;
use ralph_core::redact::Redactor;
use ralph_deck::view::journal_log;
use ralph_home::paths::RalphHome;
use ralph_hook::overview::{self, DecisionHistory};
use ralph_sys::clock;
use ralph_sys::env::Env;
use std::time::Duration;

/// Indents the continuation of a wide line.
const WRAP_INDENT: usize = 10;
/// How often `--follow` checks for new lines.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(200);

#[derive(Args)]
#[command(
    after_help = "Examples:\n  ralph log k7f2\n  ralph log --follow\n  ralph log k7f2 --json | jq .change"
)]
pub(crate) struct LogArgs {
    /// Show this run or session [default: the last one here]
    #[arg(value_name = "RUN|SESSION")]
    pub name: Option<String>,
    /// Consider all projects, not only this one
    #[arg(long, conflicts_with = "name")]
    pub all: bool,
    /// Keep printing new lines until interrupted or the run ends
    #[arg(long, short)]
    pub follow: bool,
    /// Print one JSON object per line
    #[arg(long)]
    pub json: bool,
}

pub(crate) fn run(env: &Env, args: &LogArgs) -> Result<(), CommandFailure> {
    let home = open_home(env)?;
    let found = find_history(env, &home, args.name.as_deref(), HistoryScope::from_flag(args.all))?;
    let Some(history) = found else {
        return Err(CommandFailure::new(
            "there is no run yet",
            "`ralph run --help` shows how to start one",
        ));
    };
    if let Some(broken) = &history.broken
        && !args.json
    {
        term::err(&super::why::broken_line(broken));
    }
    let redactor = Redactor::new(env.secrets());
    let reader = print(&redactor, args, &history, 0)?;
    if reader == OutputReader::Closed || !args.follow {
        return Ok(());
    }
    match RunId::parse(&history.name) {
        Some(run) => follow(&home, &redactor, args, &run, history.entries.len()),
        None => Ok(()),
    }
}

fn follow(
    home: &RalphHome,
    redactor: &Redactor,
    args: &LogArgs,
    run: &RunId,
    mut shown: usize,
) -> Result<(), CommandFailure> {
    loop {
        let history = overview::run_history(home, run)?;
        let reader = print(redactor, args, &history, shown)?;
        if reader == OutputReader::Closed || !journal_log::is_in_progress(&history.entries) {
            return Ok(());
        }
        shown = history.entries.len().max(shown);
        clock::sleep(FOLLOW_INTERVAL);
    }
}

fn print(
    redactor: &Redactor,
    args: &LogArgs,
    history: &DecisionHistory,
    from: usize,
) -> Result<OutputReader, CommandFailure> {
    for (at, entry) in history.entries.iter().enumerate().skip(from) {
        let reader = if args.json {
            super::print_json(&journal_log::journal_line_view(&history.name, entry, redactor))?
        } else {
            let before = history.entries.get(..at).unwrap_or_default();
            let line = journal_log::journal_line_text(entry, before) + "\n";
            term::out_wrapped(&line, WRAP_INDENT)?
        };
        if reader == OutputReader::Closed {
            return Ok(reader);
        }
    }
    Ok(OutputReader::Open)
}
