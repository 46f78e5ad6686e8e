//! `ralph statusline`: the run of a session on one line. The client calls it every few hundred milliseconds, so it
//! reads only what it shows, takes no lock and changes nothing.

use super::{home, off};
use crate::SUCCESS;
use crate::term::{self, paint};
use crate::wording::{self, safe};
use clap::Args;
use ralph_core::limits::money;
use ralph_core::record::{Known, Report};
use ralph_core::run::Phase;
use ralph_home::paths::Home;
use ralph_home::session_pointer::Pointer;
use ralph_home::store::{self, Opened};
use ralph_hook::control;
use ralph_host::claude::status_line::{self, Glance};
use ralph_sys::clock::Deadline;
use ralph_sys::env::Env;
use ralph_sys::{fs, stdin};
use std::time::Duration;

/// How long to wait for the client's JSON; without it nothing is printed.
const PATIENCE: Duration = Duration::from_secs(2);
const COLUMNS: usize = 120;
const LARGEST_POINTER: usize = 4096;
/// The limit on a requirement's name, in columns.
const LONGEST_NAME: usize = 20;

/// Print a session's run on one line, for the client's status line
///
/// Reads the JSON that Claude Code passes to a status line command on stdin. Prints nothing for a session without a
/// run, and never fails: the exit code is 0.
#[derive(Args)]
#[command(after_help = "\
Examples:
  echo '{\"session_id\":\"5999882c-e786-462c-84d4-07d1c65b5e76\"}' | ralph statusline

In `~/.claude/settings.json`:
  \"statusLine\": { \"type\": \"command\", \"command\": \"ralph statusline\" }

Prints colours, which the client shows, unless `NO_COLOR` is set.")]
pub(crate) struct Statusline {}

pub(crate) fn run(env: &Env) -> u8 {
    if let Some(line) = line(env) {
        let line = term::fit(&line, COLUMNS);
        let line =
            if env.no_color() { anstream::adapter::strip_str(&line).to_string() } else { line };
        term::bytes(b"", format!("{line}\n").as_bytes());
    }
    SUCCESS
}

fn line(env: &Env) -> Option<String> {
    let input = stdin::read(std::io::stdin(), &Deadline::after(PATIENCE)).ok()?;
    let glance = status_line::parse(&input)?;
    let home = home(env).ok()?;
    // Not with `session_pointer`, which quarantines a file that it cannot read.
    let pointer = fs::read_opt(&home.session(&glance.session), LARGEST_POINTER).ok()??;
    let pointer: Pointer = serde_json::from_slice(&pointer).ok()?;
    let opened = store::load(&home, &pointer.run).ok()?;
    if opened.run.owner.as_ref() != Some(&glance.session) {
        return None;
    }
    let name =
        format!("{} {}", paint(term::DIM, "ralph"), paint(term::BOLD, opened.run.id.as_str()));
    if let Some(word) = free(env, &home, &opened) {
        return Some(format!("{name} {word}"));
    }
    let mut parts = vec![name];
    parts.extend(held(&opened, &glance));
    // Drops whole parts rather than cutting one off.
    while parts.len() > 1 && columns(&parts.join(" · ")) > COLUMNS {
        parts.pop();
    }
    Some(parts.join(" · "))
}

fn columns(painted: &str) -> usize {
    anstream::adapter::strip_str(painted).to_string().chars().map(term::width).sum()
}

/// One word for why the run does not hold the session, if it does not.
fn free(env: &Env, home: &Home, opened: &Opened) -> Option<&'static str> {
    match control::phase(home, opened) {
        Phase::Active => off(env, home).map(|_| "off"),
        phase @ (Phase::Paused { .. } | Phase::Orphaned | Phase::Ended(_)) => {
            Some(wording::standing(&opened.state, phase))
        }
    }
}

fn held(opened: &Opened, glance: &Glance) -> Vec<String> {
    let Opened { run, state, .. } = opened;
    let limits = state.limits(run);
    let mut parts = vec![match limits.max_iterations {
        Some(most) => format!("{} of {most}", state.iteration),
        None => format!("iteration {}", state.iteration),
    }];
    parts.extend(state.report.as_ref().map(standings).filter(|text| !text.is_empty()));
    // The client's cost is that of the whole session, to which the run's limit does not apply.
    parts.extend(match (wording::spent(state), limits.max_cost_micro_usd) {
        (Some(spent), Some(most)) => Some(format!("{} of {}", money(spent), money(most))),
        (Some(spent), None) => Some(money(spent)),
        (None, _) => glance.cost_micro_usd.map(money),
    });
    parts.extend(glance.context_percent.map(|percent| format!("context {percent} %")));
    parts
}

/// `✗ tests, clippy ? lint ✓ 7`
fn standings(report: &Report) -> String {
    let kinds = [
        (Known::Unmet, report.unmet, 2),
        (Known::Unknown, report.unknown, 1),
        (Known::Pending, report.pending, 1),
    ];
    let mut parts = Vec::new();
    for (known, count, most) in kinds.into_iter().filter(|(_, count, _)| *count > 0) {
        let lines = report.lines.iter().filter(|line| line.standing == known);
        let names: Vec<_> = lines.take(most).map(|line| short(&safe(&line.name))).collect();
        let shown = u32::try_from(names.len()).unwrap_or(u32::MAX);
        let more = match count.saturating_sub(shown) {
            0 => String::new(),
            more if names.is_empty() => more.to_string(),
            more => format!(" +{more}"),
        };
        parts.push(format!("{} {}{more}", wording::mark(known), names.join(", ")));
    }
    let met = report.total.saturating_sub(report.open());
    if met > 0 {
        parts.push(format!("{} {met}", paint(term::GOOD, "✓")));
    }
    parts.join(" ")
}

fn short(name: &str) -> String {
    if columns(name) <= LONGEST_NAME {
        name.to_string()
    } else {
        format!("{}…", term::fit(name, LONGEST_NAME - 1))
    }
}
