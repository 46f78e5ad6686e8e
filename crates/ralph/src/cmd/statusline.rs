//! `ralph statusline`: the run of a session on one line. The client calls it every few hundred milliseconds, so it
//! reads only what it shows and waits for no lock. All it writes is the client's figure for the cost, which is not to be had
//! elsewhere while the session is open.

use super::{off_reason, open_home};
use crate::SUCCESS;
use crate::describe;
use crate::term::{self, paint};
use clap::Args;
use ralph_core::id::SessionId;
use ralph_core::limits::{LimitKind, LimitUsage};
use ralph_core::record::{CostReading, ReportedStatus, StopReport};
use ralph_core::run::RunPhase;
use ralph_core::units::format_usd;
use ralph_deck::page::RunActivity;
use ralph_deck::wording::{self, safe_line};
use ralph_home::client_cost;
use ralph_home::host_env;
use ralph_home::paths::RalphHome;
use ralph_home::session_pointer::SessionPointer;
use ralph_home::store::{self, LoadedRun};
use ralph_hook::contract::gate_log::{self, GateActivity};
use ralph_hook::control;
use ralph_hook::overview;
use ralph_host::status_line_input::StatusLineInput;
use ralph_sys::clock::{self, Deadline};
use ralph_sys::env::Env;
use ralph_sys::{fs, stdin};
use std::time::Duration;

/// How long to wait for the client's JSON; without it nothing is printed.
const INPUT_TIMEOUT: Duration = Duration::from_secs(2);
const MAX_COLUMNS: usize = 120;
const MAX_POINTER_BYTES: usize = 4096;
/// The limit on a requirement's name, in columns.
const MAX_NAME_COLUMNS: usize = 20;

/// Print a session's run on one line, for the client's status line
///
/// Reads the JSON that Claude Code passes to a status line command on stdin, and passes the cost in it on to the limit of
/// the session's run. For a session without a run it prints the gates that judge it, while they run, or that they are off,
/// else nothing. Never fails: the exit code is 0.
#[derive(Args)]
#[command(after_help = "\
Examples:
  echo '{\"session_id\":\"5999882c-e786-462c-84d4-07d1c65b5e76\"}' \\
    | ralph statusline

In `~/.claude/settings.json`:
  \"statusLine\": { \"type\": \"command\", \"command\": \"ralph statusline\",
                  \"refreshInterval\": 2 }

Prints colours, which the client shows, unless `NO_COLOR` is set.")]
pub(crate) struct StatuslineArgs {}

pub(crate) fn run(env: &Env) -> u8 {
    if let Some(line) = status_line(env) {
        let line = term::fit(&line, MAX_COLUMNS);
        let line =
            if env.no_color() { anstream::adapter::strip_str(&line).to_string() } else { line };
        term::write_bytes(b"", format!("{line}\n").as_bytes());
    }
    SUCCESS
}

fn status_line(env: &Env) -> Option<String> {
    let input = stdin::read_event(std::io::stdin(), &Deadline::after(INPUT_TIMEOUT)).ok()?;
    let glance = (host_env::calling_host(env).parse_status_line)(&input)?;
    let home = open_home(env).ok()?;
    let Some(opened) = session_run(&home, &glance.session) else {
        return session_activity_line(&home, &glance.session)
            .or_else(|| gates_off_line(&home, &glance.session));
    };
    let reported = record_cost(&home, &opened, &glance);
    let name =
        format!("{} {}", paint(term::DIM, "ralph"), paint(term::BOLD, opened.run.id.as_str()));
    if let Some(word) = not_held_word(env, &home, &opened) {
        return session_activity_line(&home, &glance.session).or(Some(format!("{name} {word}")));
    }
    let mut parts = vec![name];
    parts.extend(held_parts(&opened, &glance, reported));
    if let Some(activity) = gate_log::read_activity(&home, &opened.run) {
        // Before the figures of the last stop, which are dropped first.
        parts.insert(2, describe_activity(&activity));
    }
    // Drops whole parts rather than cutting one off.
    while parts.len() > 1 && term::text_width(&parts.join(" · ")) > MAX_COLUMNS {
        parts.pop();
    }
    Some(parts.join(" · "))
}

/// The run that owns the session.
fn session_run(home: &RalphHome, session: &SessionId) -> Option<LoadedRun> {
    // Not with `session_pointer`, which quarantines a file that it cannot read.
    let pointer = fs::read_if_exists(&home.session_pointer(session), MAX_POINTER_BYTES).ok()??;
    let pointer: SessionPointer = serde_json::from_slice(&pointer).ok()?;
    let opened = store::load_run(home, &pointer.run).ok()?;
    (opened.state.owner(&opened.run) == Some(session)).then_some(opened)
}

fn describe_activity(activity: &GateActivity) -> String {
    let now_ms = clock::now_ms();
    RunActivity::from_log(activity, now_ms).describe(now_ms)
}

/// The gates that judge the session without a run, while they run.
fn session_activity_line(home: &RalphHome, session: &SessionId) -> Option<String> {
    let activity = overview::session_gate_activity(home, session)?;
    let activity = describe_activity(&activity);
    Some(format!("{} · {activity}", paint(term::DIM, "ralph")))
}

fn gates_off_line(home: &RalphHome, session: &SessionId) -> Option<String> {
    let is_off = overview::is_session_off(home, session);
    is_off.then(|| format!("{} gates off · /ralph:on", paint(term::DIM, "ralph")))
}

/// One word for why the run does not hold the session, if it does not.
fn not_held_word(env: &Env, home: &RalphHome, opened: &LoadedRun) -> Option<&'static str> {
    match control::effective_phase(home, opened) {
        RunPhase::Active => off_reason(env, home).map(|_| "off"),
        phase @ (RunPhase::Paused { .. } | RunPhase::Orphaned | RunPhase::Ended(_)) => {
            Some(wording::standing(&opened.state, phase))
        }
    }
}

/// Passes the client's figure on to the next stop. Returns what the run has cost by the client's figures.
fn record_cost(home: &RalphHome, opened: &LoadedRun, glance: &StatusLineInput) -> Option<u64> {
    let total = glance.cost_micro_usd?;
    match opened.state.phase {
        RunPhase::Ended(_) => None,
        RunPhase::Active | RunPhase::Paused { .. } | RunPhase::Orphaned => {
            // Without a record the limit counts by the estimate.
            client_cost::record_client_cost(home, &opened.run.id, &glance.session, total).ok()
        }
    }
}

fn held_parts(opened: &LoadedRun, glance: &StatusLineInput, reported: Option<u64>) -> Vec<String> {
    let LoadedRun { run, state, .. } = opened;
    let limits = state.limits(run);
    let mut parts = vec![match limits.max_iterations {
        Some(most) => format!("{} of {most}", state.iteration),
        None => format!("iteration {}", state.iteration),
    }];
    parts.extend(state.report.as_ref().map(requirement_counts).filter(|text| !text.is_empty()));
    let cost = LimitKind::MaxCost.row().progress(limits, &current_usage(opened, reported));
    // The client's own figure is that of the whole session, to which the run's limit does not apply.
    parts.extend(cost.or_else(|| glance.cost_micro_usd.map(format_usd)));
    parts.extend(glance.context_percent.map(|percent| format!("context {percent} %")));
    parts
}

/// The usage at the last stop, with the client's current figure.
fn current_usage(opened: &LoadedRun, reported: Option<u64>) -> LimitUsage {
    let usage = LimitUsage::recorded(&opened.state, opened.state.last_seen_ms);
    if opened.run.drive.is_some() || reported.is_none() {
        return usage;
    }
    let known = opened.state.cost.clone().unwrap_or_default();
    let reported_micro_usd = reported.max(known.reported_micro_usd);
    let cost = CostReading { reported_micro_usd, ..known };
    LimitUsage { micro_usd: cost.spent_micro_usd(), cost_basis: cost.basis(), ..usage }
}

/// `✗ tests, clippy ? lint ✓ 7`
fn requirement_counts(report: &StopReport) -> String {
    let kinds = [
        (ReportedStatus::Unmet, report.unmet, 2),
        (ReportedStatus::Unknown, report.unknown, 1),
        (ReportedStatus::Pending, report.pending, 1),
    ];
    let mut parts = Vec::new();
    for (known, count, most) in kinds.into_iter().filter(|(_, count, _)| *count > 0) {
        let lines = report.lines.iter().filter(|line| line.standing == known);
        let names: Vec<_> =
            lines.take(most).map(|line| short_name(&safe_line(&line.name))).collect();
        let shown = u32::try_from(names.len()).unwrap_or(u32::MAX);
        let more = match count.saturating_sub(shown) {
            0 => String::new(),
            more if names.is_empty() => more.to_string(),
            more => format!(" +{more}"),
        };
        parts.push(format!("{} {}{more}", describe::mark(known), names.join(", ")));
    }
    let met = report.met_count();
    if met > 0 {
        parts.push(format!("{} {met}", paint(term::GOOD, "✓")));
    }
    parts.join(" ")
}

fn short_name(name: &str) -> String {
    if term::text_width(name) <= MAX_NAME_COLUMNS {
        name.to_string()
    } else {
        format!("{}…", term::fit(name, MAX_NAME_COLUMNS - 1))
    }
}
