//! `ralph` without a command: the state of this project, and the next step.

use super::{open_home, run_choice, status};
use crate::describe::paint_mark;
use crate::failure::CommandFailure;
use crate::term::{self, paint};
use ralph_core::ending;
use ralph_core::facts::DeclaredPause;
use ralph_core::gate::shell_quote;
use ralph_core::policy::SessionGates;
use ralph_core::run::RunPhase;
use ralph_core::status::RunStatus;
use ralph_core::text;
use ralph_deck::view::approvals::{ApprovalStatus, approval_status};
use ralph_deck::view::gated_sessions::{gated_session_text, ungated_session_text};
use ralph_deck::view::status_run::StatusRun;
use ralph_deck::view::status_view::{StatusOverview, StatusSelection};
use ralph_deck::wording::{FactMark, safe_line};
use ralph_home::host_env;
use ralph_home::paths::RalphHome;
use ralph_home::store::LoadedRun;
use ralph_hook::overview;
use ralph_install::doctor::protection;
use ralph_install::install::install_notes;
use ralph_policy::config;
use ralph_policy::trust;
use ralph_sys::clock;
use ralph_sys::env::Env;
use std::path::Path;

/// Whether the project's gates could run at a stop.
#[derive(Clone, Copy, PartialEq, Eq)]
enum GateReadiness {
    Unreadable,
    Missing,
    Unapproved,
    Ready,
}

pub(crate) fn run(env: &Env) -> Result<(), CommandFailure> {
    let home = open_home(env)?;
    let scope = run_choice::current_scope(env)?;
    let all = StatusSelection::All(overview::outline_runs(&home)?);
    let board = StatusOverview::load(env, &home, all, Some(&scope))?;
    let host = host_env::calling_host(env);
    let has_hooks = protection::is_stop_hook_registered(env, host, scope.root());
    let (readiness, gates) = gate_state(env, &home, scope.root(), has_hooks);
    let mut out = format!("{}\n", paint(term::BOLD, &safe_line(&scope.root().to_string_lossy())));
    if let Some(why) = board.off {
        out.push_str(&format!("  {} ralph is off: {why}\n", paint_mark(FactMark::Unclear)));
    }
    let mut add = |mark: FactMark, what: &str, text: &str| {
        out.push_str(&format!("  {} {what:<8} {text}\n", paint_mark(mark)));
    };
    if has_hooks {
        add(FactMark::Good, "hooks", "installed");
    } else {
        add(FactMark::Unclear, "hooks", "not installed; `ralph run` works without them");
    }
    let mark = if readiness == GateReadiness::Ready { FactMark::Good } else { FactMark::Unclear };
    add(mark, "gates", &gates);
    let (going, ended): (Vec<_>, Vec<_>) =
        board.runs.iter().partition(|run| !run.row.standing.has_ended());
    let last = ended.first().filter(|_| going.is_empty());
    if going.is_empty() && last.is_none() {
        let is_only = board.elsewhere.is_empty();
        add(FactMark::Neutral, "runs", if is_only { "none yet" } else { "none in this project" });
    }
    for run in &going {
        add(FactMark::Neutral, "run", &run_line(run));
    }
    if let Some(run) = last {
        add(FactMark::Neutral, "last run", &run_line(run));
    }
    for session in board.gated.iter().take(status::SHOWN_SESSIONS) {
        let mark = if session.is_off { FactMark::Unclear } else { FactMark::Neutral };
        add(mark, "session", &gated_session_text(session, clock::now_ms()));
    }
    for held in board.held.iter().take(status::SHOWN_SESSIONS) {
        let text = format!("session {} is held by files of other tools", held.session);
        add(FactMark::Neutral, "session", &text);
    }
    for off in board.gates_off.iter().take(status::SHOWN_SESSIONS) {
        add(FactMark::Unclear, "session", &ungated_session_text(off));
    }
    out.push_str(&status::elsewhere_line(&board.elsewhere));
    let asks_elsewhere = board.elsewhere.iter().any(|one| one.is_asking);
    let is_held = board.gated.iter().any(|session| session.is_held && !session.is_off);
    let next = if board.off.is_some() {
        switch_on_command(env, &home)
    } else if is_held && going.is_empty() {
        "ralph why".to_string()
    } else if asks_elsewhere && going.is_empty() {
        "ralph watch".to_string()
    } else {
        next_step(has_hooks, readiness, &going, last.copied())
    };
    out.push_str(&format!("\nnext:  {next}\n"));
    term::out(&out)?;
    Ok(())
}

/// The command that ends what switches ralph off.
fn switch_on_command(env: &Env, home: &RalphHome) -> String {
    if env.is_ralph_off() {
        "unset RALPH_OFF".to_string()
    } else {
        format!("rm {}", shell_quote(&safe_line(&home.kill_switch().to_string_lossy())))
    }
}

fn run_line(run: &StatusRun) -> String {
    format!("{}  {}  {}", run.row.run, run.row.standing.key(), run.headline(clock::now_ms()))
}

fn gate_state(
    env: &Env,
    home: &RalphHome,
    project: &Path,
    has_hooks: bool,
) -> (GateReadiness, String) {
    let unreadable = |why: &str| (GateReadiness::Unreadable, safe_line(why));
    let config = match config::load(project, home) {
        Ok(config) => config,
        Err(error) => return unreadable(&error.describe_on_one_line()),
    };
    let Ok(subject) = trust::policy_subject(home, &config, env) else {
        return unreadable("the policy cannot be read; `ralph config` says why");
    };
    let count = text::count_noun(config.policy.gates.len(), "gate");
    let sessions = if config.policy.session.gates == SessionGates::Every && !has_hooks {
        "they hold every session after `ralph init`"
    } else {
        describe_sessions(env, config.policy.session.gates, project)
    };
    match approval_status(home, &subject) {
        _ if config.policy.gates.is_empty() => (GateReadiness::Missing, "none".to_string()),
        ApprovalStatus::Approved | ApprovalStatus::NotNeeded => {
            (GateReadiness::Ready, format!("{count}, approved; {sessions}"))
        }
        ApprovalStatus::Untrusted | ApprovalStatus::Revoked => {
            (GateReadiness::Unapproved, format!("{count}, not approved in this form"))
        }
    }
}

/// Which sessions the gates hold.
fn describe_sessions(env: &Env, sessions: SessionGates, project: &Path) -> &'static str {
    match sessions {
        SessionGates::Goal => "they hold sessions with a goal",
        SessionGates::Every if install_notes::can_compare_sessions(env, project) => {
            "they hold every session"
        }
        SessionGates::Every => {
            "without git they hold a session only for what passed earlier in it; after `git init` they compare with its start"
        }
    }
}

/// The next command to type; more than one line if commands follow each other.
fn next_step(
    has_hooks: bool,
    gates: GateReadiness,
    going: &[&StatusRun],
    last: Option<&StatusRun>,
) -> String {
    let asks = going.iter().find(|run| run.row.question.is_some());
    if let Some(run) = asks
        && let Some(DeclaredPause::Approval(_)) = run.view.opened.state.declared
    {
        return format!("ralph approve {}", run.view.opened.run.id);
    }
    if let Some(run) = asks.filter(|run| run.view.opened.run.drive.is_some()) {
        let id = &run.view.opened.run.id;
        let then = if run.row.needs_runner {
            format!(" && ralph run --resume {id}")
        } else {
            String::new()
        };
        return format!("ralph tell {id} \"…\"{then}");
    }
    let active = going.iter().find(|run| run.view.phase == RunPhase::Active);
    // Without hooks nothing holds a session; a driven run needs none.
    if !has_hooks && active.is_some_and(|run| run.view.opened.run.drive.is_none()) {
        return "ralph init".to_string();
    }
    if let Some(run) = going.iter().find(|run| run.view.phase != RunPhase::Active) {
        let LoadedRun { run: record, state, .. } = &run.view.opened;
        // The same command as in the status of a driven run.
        let needs_runner = state.driving.parked.is_some() || run.view.phase == RunPhase::Orphaned;
        let command =
            if record.drive.is_some() && needs_runner { "run --resume" } else { "resume" };
        return format!("ralph {command} {}", record.id);
    }
    if let Some(run) = active {
        return format!("ralph why {}", run.view.opened.run.id);
    }
    match (gates, last.map(|run| (run, run.view.phase))) {
        (GateReadiness::Unreadable, _) => "ralph config".to_string(),
        (GateReadiness::Unapproved, _) => "ralph trust".to_string(),
        (GateReadiness::Missing, _) if !has_hooks => "ralph init".to_string(),
        (_, Some((run, RunPhase::Ended(status)))) if status.is_acceptable() => {
            format!("ralph why {}", run.view.opened.run.id)
        }
        (_, Some((run, RunPhase::Ended(status)))) if is_unfinished(status) => {
            let record = &run.view.opened.run;
            let why = format!("ralph why {}", record.id);
            match record.drive {
                Some(_) => format!("{why}\n       {}", ending::fork_command(&record.id, status)),
                None => why,
            }
        }
        (GateReadiness::Missing, _) => "ralph gate detect".to_string(),
        (GateReadiness::Ready, _) => "ralph run \"…\"".to_string(),
    }
}

/// Ends that leave work open, which a new run from the same session can continue.
fn is_unfinished(status: RunStatus) -> bool {
    matches!(
        status,
        RunStatus::Stuck | RunStatus::Exhausted | RunStatus::GateBroken | RunStatus::NeedsHuman
    )
}
