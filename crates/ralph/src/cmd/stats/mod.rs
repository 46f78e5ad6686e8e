//! `ralph stats`: what runs have in common, and what to change.

mod apply_proposal;
pub(super) mod stats_data;
mod stats_text;

use super::{open_home, print_json};
use crate::failure::CommandFailure;
use crate::term;
use crate::value_parsers::parse_duration;
use apply_proposal::ChosenProposal;
use clap::Args;
use ralph_core::gate::shell_quote;
use ralph_core::text;
use ralph_deck::page::stats::{self, StatsScope};
use ralph_sys::clock;
use ralph_sys::env::Env;
use stats_data::ProjectChoice;
use std::path::PathBuf;

#[derive(Args)]
#[command(after_help = "\
Examples:
  ralph stats
  ralph stats --all --since 30d
  ralph stats --week 2026-W46 --json | jq .sentence
  ralph stats --apply 1

Shows what a verified run costs, which requirements hold agents, which
gates are flaky or slow and what the cache saved, false holds, limits
that were hit, and proposals for `ralph.toml` with their evidence. With
fewer than 10 ended runs they are listed instead. A proposal is applied
only by `--apply`, which shows the diff and asks; from then on the runs
before and after it are compared. `ralph sql --csv` exports the figures.")]
pub(crate) struct StatsArgs {
    /// Leave out runs without an entry for this long, such as `30d`
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub since: Option<u64>,
    /// Show one ISO week only, such as `2026-W46` [default: the latest]
    #[arg(long, value_name = "WEEK", num_args = 0..=1, default_missing_value = "", value_parser = parse_week)]
    pub week: Option<String>,
    /// Show the runs of every project
    #[arg(long, conflicts_with = "project")]
    pub all: bool,
    /// Use this project [default: this one, or all if it has no runs]
    #[arg(long, value_name = "DIR")]
    pub project: Option<PathBuf>,
    /// Apply this proposal, after showing the change and asking
    #[arg(long, value_name = "N")]
    pub apply: Option<usize>,
    /// Don't ask for confirmation
    #[arg(long, short, requires = "apply")]
    pub yes: bool,
    /// Print one JSON object
    #[arg(long, conflicts_with = "apply")]
    pub json: bool,
}

/// An empty text stands for the latest week.
fn parse_week(word: &str) -> Result<String, String> {
    let is_digits = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    let is_week = word.split_once("-W").is_some_and(|(year, week)| {
        let is_in_year = week.parse::<u8>().is_ok_and(|week| (1..=53).contains(&week));
        year.len() == 4 && week.len() == 2 && is_digits(year) && is_digits(week) && is_in_year
    });
    if is_week || word.is_empty() {
        Ok(word.to_string())
    } else {
        Err("expected an ISO week such as `2026-W46`, from W01 to W53".to_string())
    }
}

pub(crate) fn run(env: &Env, args: &StatsArgs) -> Result<(), CommandFailure> {
    if args.apply.is_some() {
        super::refuse_agent(env, "an agent may not change its own policy", super::ASK_A_PERSON)?;
    }
    let home = open_home(env)?;
    let choice = match (&args.project, args.all) {
        (Some(directory), _) => {
            ProjectChoice::Named(super::config::project_dir(env, Some(directory))?)
        }
        (None, true) => ProjectChoice::All,
        (None, false) => ProjectChoice::Current,
    };
    let (data, project) = stats_data::load_data(env, &home, &choice)?;
    let now_ms = clock::now_ms();
    let latest = || data.rows.runs.iter().map(|run| run.week.clone()).max();
    let scope = StatsScope {
        project: project.map(|project| text::clean_line(&project.to_string_lossy(), 1000)),
        since_ms: args.since.map(|ago| now_ms.saturating_sub(ago)),
        week: args
            .week
            .clone()
            .and_then(|week| if week.is_empty() { latest() } else { Some(week) }),
    };
    let page = stats::stats_page(data.rows, scope, &data.settings, &data.applied, now_ms);
    let command = scope_command(args);
    match args.apply {
        Some(number) => {
            let chosen = ChosenProposal { number, command: &command, is_confirmed: args.yes };
            apply_proposal::apply(&home, &page, &chosen)
        }
        None if args.json => print_json(&page).map(drop),
        None => term::out_wrapped(&stats_text::render_page(&page, &command), 2).map(drop),
    }
}

/// The command with the options that choose the runs, for hints.
fn scope_command(args: &StatsArgs) -> String {
    let mut command = "ralph stats".to_string();
    if args.all {
        command.push_str(" --all");
    }
    if let Some(directory) = &args.project {
        let directory = text::clean_line(&directory.to_string_lossy(), 1000);
        command.push_str(&format!(" --project {}", shell_quote(&directory)));
    }
    if let Some(since_ms) = args.since {
        command.push_str(&format!(" --since {}s", since_ms / 1000));
    }
    match args.week.as_deref() {
        Some("") => command.push_str(" --week"),
        Some(week) => command.push_str(&format!(" --week {week}")),
        None => {}
    }
    command
}
