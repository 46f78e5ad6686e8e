//! `ralph status`: runs, queues, sessions held by files of other tools, and faults.

use super::list_commands::ListRunsArgs;
use super::run::queue::queue_status::{named_queue, queue_paragraph, render_queue_tasks};
use super::{cancel_on_signals, open_home, run_choice};
use crate::describe::{paint_mark, paint_marked};
use crate::failure::CommandFailure;
use crate::orchestrator_view;
use crate::term::{self, paint};
use clap::Args;
use ralph_core::id::{RunId, SessionId};
use ralph_core::run::RunPhase;
use ralph_deck::page::BoardGroup;
use ralph_deck::view::driven_run::UnmergedDetail;
use ralph_deck::view::fault_list::{ClearedFaultsView, fault_line};
use ralph_deck::view::gated_sessions::{gated_session_text, ungated_session_text};
use ralph_deck::view::status_run::{ElsewhereRun, StatusRun};
use ralph_deck::view::status_view::{StatusOverview, StatusSelection};
use ralph_deck::wording::{self, FactMark, safe_line};
use ralph_home::faults::{self, Fault, describe_error};
use ralph_home::paths::RalphHome;
use ralph_home::store;
use ralph_hook::control::RunOrSession;
use ralph_hook::overview::{self, GatedSession, RunView};
use ralph_hook::project_scope::ProjectScope;
use ralph_sys::clock::{self, Deadline};
use ralph_sys::env::Env;
use std::collections::BTreeSet;
use std::time::Duration;

const NOT_JUDGED: &str = "the gates of the project have not judged a stop of this session yet\n";
const SHOWN_FAULTS: usize = 10;
/// How many sessions without a run are shown.
pub(super) const SHOWN_SESSIONS: usize = 5;
/// Indents the continuation of a wide line, as the details of a run are indented.
const WRAP_INDENT: usize = 8;
const WATCH_INTERVAL: Duration = Duration::from_secs(1);
/// How often Ctrl-C is checked between two drawings.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

#[derive(Args)]
#[command(after_help = "\
Examples:
  ralph status
  ralph status --watch
  ralph status --all --json | jq '.runs[].status'

Shows the runs of this project that are in progress or ended within a
day; `ralph list runs` shows older ones too.")]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
pub(crate) struct StatusArgs {
    /// Show only this run, session or queue
    #[arg(value_name = "RUN|SESSION|QUEUE")]
    pub name: Option<String>,
    /// Show the runs of all projects, also old ones
    #[arg(long)]
    pub all: bool,
    /// Show the state again every second, until Ctrl-C
    #[arg(long, short, conflicts_with_all = ["json", "clear_trouble"])]
    pub watch: bool,
    /// Clear the faults listed so far
    #[arg(long)]
    pub clear_trouble: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// What is shown: one run, or the runs of this project or of all of them.
struct StatusRequest<'a> {
    name: Option<&'a str>,
    all: bool,
    /// Also runs that ended long ago.
    older: bool,
}

/// Whether everything is shown, the runs of one project, or one run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StatusScope {
    Everything,
    Project,
    OneRun,
}

pub(crate) fn run(env: &Env, args: &StatusArgs) -> Result<(), CommandFailure> {
    let home = open_home(env)?;
    if args.clear_trouble {
        super::refuse_agent(env, "an agent may not clear the faults", super::ASK_A_PERSON)?;
        return clear_faults(&home, args);
    }
    let request = StatusRequest { name: args.name.as_deref(), all: args.all, older: args.all };
    if args.watch {
        return watch(env, &home, &request);
    }
    print_status(env, &home, &request, args.json)
}

/// All runs of this project, or of all of them.
pub(super) fn list_runs(env: &Env, args: &ListRunsArgs) -> Result<(), CommandFailure> {
    let request = StatusRequest { name: None, all: args.all, older: true };
    print_status(env, &open_home(env)?, &request, args.json)
}

fn print_status(
    env: &Env,
    home: &RalphHome,
    request: &StatusRequest<'_>,
    json: bool,
) -> Result<(), CommandFailure> {
    if json {
        let selection = select(home, request)?;
        let scope = request_scope(env, home, request, &selection)?;
        let status = StatusOverview::load(env, home, selection, scope.as_ref())?;
        super::print_json(&status.view(clock::now_ms()))?;
        return Ok(());
    }
    term::out_wrapped(&render_status(env, home, request)?, WRAP_INDENT)?;
    Ok(())
}

fn request_scope(
    env: &Env,
    home: &RalphHome,
    request: &StatusRequest<'_>,
    selection: &StatusSelection,
) -> Result<Option<ProjectScope>, CommandFailure> {
    match selection {
        StatusSelection::Recent(runs) | StatusSelection::All(runs) if !request.all => {
            run_choice::scope_among(env, home, runs)
        }
        StatusSelection::Recent(_)
        | StatusSelection::All(_)
        | StatusSelection::Run(_)
        | StatusSelection::Queue(_) => Ok(None),
    }
}

fn render_status(
    env: &Env,
    home: &RalphHome,
    request: &StatusRequest<'_>,
) -> Result<String, CommandFailure> {
    let selection = select(home, request)?;
    let scope = request_scope(env, home, request, &selection)?;
    if let StatusSelection::Queue(queue) = &selection {
        return Ok(render_queue_tasks(queue));
    }
    if let StatusSelection::Run(run) = &selection
        && run.is_of_session()
    {
        return render_run(home, run);
    }
    let scope = scope.as_ref();
    let status = StatusOverview::load(env, home, selection, scope)?;
    let is_one = request.name.is_some();
    let shown = match scope {
        _ if is_one => StatusScope::OneRun,
        Some(_) => StatusScope::Project,
        None => StatusScope::Everything,
    };
    let text = render_overview(&status, shown);
    let is_elsewhere = scope.is_none() && !request.all && !is_one && !status.runs.is_empty();
    if !is_elsewhere {
        return Ok(text);
    }
    Ok(format!("{}{text}", run_choice::elsewhere_note(&run_choice::current_scope(env)?)))
}

/// Draws the state on a screen of its own, and leaves its last state behind.
fn watch(env: &Env, home: &RalphHome, request: &StatusRequest<'_>) -> Result<(), CommandFailure> {
    if !term::is_watched(env) {
        let hint = "`ralph status` shows the state once, `ralph log --follow` prints what happens";
        return Err(CommandFailure::new("`--watch` needs a terminal", hint));
    }
    let cancel = cancel_on_signals()?;
    let screen = term::AlternateScreen::enter();
    let (mut shown, mut drawn) = (String::new(), String::new());
    let watched = loop {
        match render_status(env, home, request) {
            Ok(text) => {
                let on_screen = term::screen_text(&text, WRAP_INDENT);
                if on_screen != drawn {
                    screen.draw(&on_screen);
                    drawn = on_screen;
                }
                shown = text;
            }
            Err(failure) => break Err(failure),
        }
        let redraw = Deadline::after(WATCH_INTERVAL);
        while !redraw.has_passed() && !cancel.is_cancelled() {
            clock::sleep(POLL_INTERVAL);
        }
        if cancel.is_cancelled() {
            break Ok(());
        }
    };
    drop(screen);
    term::out_wrapped(&shown, WRAP_INDENT)?;
    watched
}

fn select(
    home: &RalphHome,
    request: &StatusRequest<'_>,
) -> Result<StatusSelection, CommandFailure> {
    let Some(name) = request.name else {
        let runs = overview::outline_runs(home)?;
        let select = if request.older { StatusSelection::All } else { StatusSelection::Recent };
        return Ok(select(runs));
    };
    if let Some(queue) = named_queue(home, name)? {
        return Ok(StatusSelection::Queue(Box::new(queue)));
    }
    match run_choice::find_named(home, name)? {
        RunOrSession::Run(run) => Ok(StatusSelection::Run(run)),
        RunOrSession::Session(session) => Err(no_run_error(&session)),
    }
}

/// One run, as `/ralph:status` shows it in the session.
pub(crate) fn render_run(home: &RalphHome, run: &RunId) -> Result<String, CommandFailure> {
    let opened = store::load_run(home, run)?;
    if run.is_of_session() {
        let gated = overview::gated_session(home, &opened);
        return Ok(gated.map_or_else(|| NOT_JUDGED.to_string(), |gated| gated_lines(&gated)));
    }
    let view = RunView::new(home, opened);
    // A command typed in the session proves that its hooks reach ralph, so protection is not checked.
    let run = StatusRun::load(home, view, None);
    let scope = StatusScope::OneRun;
    Ok(run_paragraph(&run, &faults::list_faults(home), scope) + &phase_lines(&run, scope))
}

/// A session without a run, with the next step.
fn gated_lines(gated: &GatedSession) -> String {
    let off = if gated.is_off { "" } else { "; `/ralph:off` in the session turns the gates off" };
    format!(
        "{}\n      `ralph why {}` shows the decisions{off}\n",
        gated_session_text(gated, clock::now_ms()),
        gated.record
    )
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

fn render_overview(status: &StatusOverview, scope: StatusScope) -> String {
    let mut out = String::new();
    if let Some(why) = status.off {
        out.push_str(&format!("{} ralph is off: {why}\n\n", paint_mark(FactMark::Unclear)));
    }
    let projects: BTreeSet<&str> = status.runs.iter().map(|run| run.row.project.as_str()).collect();
    let mut runs: Vec<_> = status.runs.iter().collect();
    // As on the board of `ralph watch`: what waits for a person comes first. The order is stable: latest activity first.
    runs.sort_by_key(|run| (run.row.group(), run.row.standing.urgency()));
    if runs.len() > 1 {
        out.push_str(&format!("{}\n", summary_line(&runs)));
    }
    for run in runs {
        out.push_str(&run_paragraph(run, &status.faults, scope));
        if projects.len() > 1 {
            out.push_str(&format!("      in `{}`\n", safe_line(&run.row.project)));
        }
        out.push_str(&phase_lines(run, scope));
    }
    for queue in &status.queues {
        out.push_str(&queue_paragraph(queue));
    }
    for one in &status.unreadable {
        let id = paint(term::BOLD, one.run.as_str());
        out.push_str(&format!("{id}  unreadable    {}\n", safe_line(&describe_error(&one.error))));
    }
    for one in &status.held {
        out.push_str(&format!("{}\n", wording::held_session(one)));
    }
    for one in status.gated.iter().take(SHOWN_SESSIONS) {
        out.push_str(&format!("{}\n", gated_session_text(one, clock::now_ms())));
    }
    for one in status.gates_off.iter().take(SHOWN_SESSIONS) {
        out.push_str(&format!("{}\n", ungated_session_text(one)));
    }
    if status.is_empty() {
        out.push_str(match status.left_out {
            0 => "no runs; `/ralph:goal …` in a session, or `ralph run \"…\"`, starts one\n",
            _ => "no runs since yesterday\n",
        });
    }
    if status.left_out > 0 {
        let is_project = scope == StatusScope::Project;
        let command = if is_project { "ralph list runs" } else { "ralph status --all" };
        out.push_str(&format!("{} more; `{command}` shows them\n", status.left_out));
    }
    out.push_str(&elsewhere_line(&status.elsewhere));
    if scope != StatusScope::OneRun {
        out.push_str(&fault_paragraph(&status.unattached_faults()));
    }
    out
}

/// `2 wait for you · 1 working · 5 ended`
fn summary_line(runs: &[&StatusRun]) -> String {
    let count = |group: BoardGroup| runs.iter().filter(|run| run.row.group() == group).count();
    let waiting = count(BoardGroup::WaitingForYou);
    let wait = if waiting == 1 { "waits" } else { "wait" };
    format!(
        "{waiting} {wait} for you · {} working · {} ended",
        count(BoardGroup::Working),
        count(BoardGroup::Ended)
    )
}

/// How many runs of other projects are in progress or wait for a person, and how they stand; empty if there are none.
pub(super) fn elsewhere_line(runs: &[ElsewhereRun]) -> String {
    if runs.is_empty() {
        return String::new();
    }
    let count = |is: fn(&ElsewhereRun) -> bool| runs.iter().filter(|one| is(one)).count();
    let asking = count(|one| one.is_asking);
    let working = count(|one| !one.is_asking && one.standing.group() == BoardGroup::Working);
    let ended = count(|one| one.standing.has_ended());
    let stopped = runs.len() - asking - working - ended;
    let counts = [
        (asking, if asking == 1 { "asks" } else { "ask" }),
        (stopped, if stopped == 1 { "needs resuming" } else { "need resuming" }),
        (ended, if ended == 1 { "ended and waits for you" } else { "ended and wait for you" }),
        (working, "working"),
    ];
    let counts: Vec<_> = counts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    let noun = wording::count_noun(runs.len(), "run");
    let in_progress = if ended == 0 { " in progress" } else { "" };
    format!(
        "{noun}{in_progress} in other projects ({}); `ralph watch` shows all\n",
        counts.join(", ")
    )
}

fn fault_paragraph(faults: &[&Fault]) -> String {
    if faults.is_empty() {
        return String::new();
    }
    let mut out = "\nfaults in ralph itself, newest first:\n".to_string();
    for fault in faults.iter().take(SHOWN_FAULTS) {
        out.push_str(&format!("  {}\n", paint_marked(&fault_line(fault))));
    }
    if faults.len() > SHOWN_FAULTS {
        let more = faults.len() - SHOWN_FAULTS;
        out.push_str(&format!("  and {more} more: `ralph status --json`\n"));
    }
    out.push_str("  `ralph status --clear-trouble` clears these\n");
    out
}

fn run_paragraph(run: &StatusRun, faults: &[Fault], scope: StatusScope) -> String {
    let now_ms = clock::now_ms();
    let id = paint(term::BOLD, &run.row.run);
    let word = run.row.standing.key();
    let mut out = format!("{id}  {word:<13} {}\n", run.headline(now_ms));
    let unmerged = match scope {
        StatusScope::OneRun => UnmergedDetail::Commands,
        StatusScope::Everything | StatusScope::Project => UnmergedDetail::Brief,
    };
    for line in run.detail_lines(faults, now_ms, unmerged) {
        let line: Vec<_> = line.iter().map(paint_marked).collect();
        out.push_str(&format!("      {}\n", line.join("  ")));
    }
    out
}

/// The phases of an orchestrated run: one line in the overview, all conditions if only this run is shown.
fn phase_lines(run: &StatusRun, scope: StatusScope) -> String {
    let Some(progress) = &run.phases else { return String::new() };
    match (scope, run.view.phase) {
        (StatusScope::OneRun, _) => orchestrator_view::render(progress),
        (StatusScope::Everything | StatusScope::Project, RunPhase::Ended(_)) => String::new(),
        (StatusScope::Everything | StatusScope::Project, _) => {
            format!("      {}\n", orchestrator_view::phase_line(progress))
        }
    }
}
