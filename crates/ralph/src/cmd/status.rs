//! `ralph status`: runs, queues, sessions held by files of other tools, and faults.

use super::open_home;
use super::run::queue::queue_status::{named_queue, queue_paragraph, render_queue_tasks};
use crate::cli::StatusArgs;
use crate::describe::{paint_mark, paint_marked};
use crate::failure::CommandFailure;
use crate::orchestrator_view;
use crate::term::{self, paint};
use ralph_core::id::{RunId, SessionId};
use ralph_core::run::RunPhase;
use ralph_deck::view::status_view::{self, BoardRun, BoardSelection, ClearedFaultsView, RunBoard};
use ralph_deck::wording::{self, FactMark, safe_line};
use ralph_home::faults::{self, Fault, describe_error};
use ralph_home::paths::RalphHome;
use ralph_home::store;
use ralph_hook::control::{self, RunOrSession};
use ralph_hook::overview::RunView;
use ralph_sys::clock;
use ralph_sys::env::Env;
use std::collections::BTreeSet;

const SHOWN_FAULTS: usize = 10;

/// Whether everything is shown, or one run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StatusScope {
    Everything,
    OneRun,
}

pub(crate) fn run(env: &Env, args: &StatusArgs) -> Result<(), CommandFailure> {
    let home = open_home(env)?;
    if args.clear_trouble {
        super::refuse_agent(env, "an agent may not clear the faults", super::ASK_A_PERSON)?;
        return clear_faults(&home, args);
    }
    let selection = select(&home, args)?;
    if let BoardSelection::Queue(queue) = &selection
        && !args.json
    {
        return term::out(&render_queue_tasks(queue)).map(drop);
    }
    let board = RunBoard::load(env, &home, selection)?;
    if args.json {
        super::print_json(&board.view(clock::now_ms()))?;
    } else {
        let scope = if args.name.is_none() { StatusScope::Everything } else { StatusScope::OneRun };
        term::out(&render_board(&board, scope))?;
    }
    Ok(())
}

fn select(home: &RalphHome, args: &StatusArgs) -> Result<BoardSelection, CommandFailure> {
    let Some(name) = &args.name else {
        return Ok(if args.all { BoardSelection::All } else { BoardSelection::Recent });
    };
    if let Some(queue) = named_queue(home, name)? {
        return Ok(BoardSelection::Queue(Box::new(queue)));
    }
    match control::resolve_name(home, name)? {
        RunOrSession::Run(run) => Ok(BoardSelection::Run(run)),
        RunOrSession::Session(session) => Err(no_run_error(&session)),
    }
}

/// One run, as `/ralph:status` shows it in the session.
pub(crate) fn render_run(home: &RalphHome, run: &RunId) -> Result<String, CommandFailure> {
    let opened = store::load_run(home, run)?;
    let view = RunView { phase: control::effective_phase(home, &opened), opened };
    // A command typed in the session proves that its hooks reach ralph, so protection is not checked.
    let run = BoardRun::load(home, view, None);
    Ok(run_paragraph(&run, &faults::list_faults(home)) + &phase_lines(&run, StatusScope::OneRun))
}

fn clear_faults(home: &RalphHome, args: &StatusArgs) -> Result<(), CommandFailure> {
    let forgotten = faults::clear_faults(home)?;
    if args.json {
        super::print_json(&ClearedFaultsView { v: 1, forgotten })?;
    } else {
        let faults = wording::count_noun(forgotten, "fault");
        term::out(&format!("{faults} cleared\n"))?;
    }
    Ok(())
}

fn no_run_error(session: &SessionId) -> CommandFailure {
    let hint = format!("`ralph why {session}` shows what was decided");
    CommandFailure::new(&format!("only files of other tools hold session `{session}`"), &hint)
}

fn render_board(board: &RunBoard, scope: StatusScope) -> String {
    let mut out = String::new();
    if let Some(why) = board.off {
        out.push_str(&format!("{} ralph is off: {why}\n\n", paint_mark(FactMark::Unclear)));
    }
    let projects: BTreeSet<&str> = board.runs.iter().map(run_project).collect();
    for run in &board.runs {
        out.push_str(&run_paragraph(run, &board.faults));
        if projects.len() > 1 {
            out.push_str(&format!("      in `{}`\n", safe_line(run_project(run))));
        }
        out.push_str(&phase_lines(run, scope));
    }
    for queue in &board.queues {
        out.push_str(&queue_paragraph(queue));
    }
    for one in &board.unreadable {
        let id = paint(term::BOLD, one.run.as_str());
        out.push_str(&format!("{id}  unreadable    {}\n", safe_line(&describe_error(&one.error))));
    }
    for one in &board.held {
        out.push_str(&format!("{}\n", wording::held_session(one)));
    }
    if board.is_empty() {
        out.push_str(match board.left_out {
            0 => "no runs; `/ralph:goal …` in a session, or `ralph run \"…\"`, starts one\n",
            _ => "no runs since yesterday\n",
        });
    }
    if board.left_out > 0 {
        out.push_str(&format!("{} more; `ralph status --all` shows them\n", board.left_out));
    }
    if scope == StatusScope::Everything {
        out.push_str(&fault_paragraph(&board.unattached_faults()));
    }
    out
}

/// The project of a run; if the run has a work tree of its own, the repository that it came from.
fn run_project(run: &BoardRun) -> &str {
    let run = &run.view.opened.run;
    let worktree = run.worktree();
    worktree.map_or(&run.project, |worktree| &worktree.from)
}

fn fault_paragraph(faults: &[&Fault]) -> String {
    if faults.is_empty() {
        return String::new();
    }
    let mut out = "\nfaults in ralph itself, newest first:\n".to_string();
    for fault in faults.iter().take(SHOWN_FAULTS) {
        out.push_str(&format!("  {}\n", paint_marked(&status_view::fault_line(fault))));
    }
    if faults.len() > SHOWN_FAULTS {
        let more = faults.len() - SHOWN_FAULTS;
        out.push_str(&format!("  and {more} more: `ralph status --json`\n"));
    }
    out.push_str("  `ralph status --clear-trouble` clears these\n");
    out
}

fn run_paragraph(run: &BoardRun, faults: &[Fault]) -> String {
    let now_ms = clock::now_ms();
    let id = paint(term::BOLD, run.view.opened.run.id.as_str());
    let word = wording::view_standing(&run.view, run.unprotected.as_ref());
    let mut out = format!("{id}  {word:<13} {}\n", run.headline(now_ms));
    for line in run.detail_lines(faults, now_ms) {
        let line: Vec<_> = line.iter().map(paint_marked).collect();
        out.push_str(&format!("      {}\n", line.join("  ")));
    }
    out
}

/// The phases of an orchestrated run: one line in the overview, all conditions if only this run is shown.
fn phase_lines(run: &BoardRun, scope: StatusScope) -> String {
    let Some(progress) = &run.phases else { return String::new() };
    match (scope, run.view.phase) {
        (StatusScope::OneRun, _) => orchestrator_view::render(progress),
        (StatusScope::Everything, RunPhase::Ended(_)) => String::new(),
        (StatusScope::Everything, _) => {
            format!("      {}\n", orchestrator_view::phase_line(progress))
        }
    }
}
