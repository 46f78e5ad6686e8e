//! `ralph status`: runs, queues, sessions held by files of other tools, and faults.

use super::adjust::WaiverJson;
use super::open_home;
use super::run::queue::queue_status::{self, QueueStatus, QueueStatusJson};
use crate::cli::StatusArgs;
use crate::describe::{self, safe_line};
use crate::driven_status;
use crate::failure::CommandFailure;
use crate::orchestrator_view;
use crate::term::{self, paint};
use ralph_core::chunk;
use ralph_core::facts::DeclaredPause;
use ralph_core::id::{RunId, SessionId};
use ralph_core::record::{Dispute, OptIn, ReportLine};
use ralph_core::run::{RunPhase, RunState};
use ralph_home::faults::{self, Fault, describe_error};
use ralph_home::paths::RalphHome;
use ralph_home::store;
use ralph_hook::control::{self, CommandCaller, RunOrSession};
use ralph_hook::overview::{self, HeldSession, RunView, UnreadableRun};
use ralph_hook::phases;
use ralph_install::doctor::protection::{self, UnprotectedReason};
use ralph_sys::clock;
use ralph_sys::env::Env;
use serde::Serialize;

const DAY_MS: u64 = 24 * 60 * 60 * 1000;
const SHOWN_FAULTS: usize = 10;
const SHOWN_RUNS: usize = 50;

#[derive(Serialize)]
struct StatusJson<'a> {
    v: u8,
    /// Why ralph is switched off, if it is.
    off: Option<&'static str>,
    runs: Vec<RunStatusJson<'a>>,
    /// Absent while there is none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    queues: Vec<QueueStatusJson<'a>>,
    /// Sessions that are held only by files of other tools.
    held: Vec<HeldSessionJson<'a>>,
    unreadable: Vec<UnreadableRunJson<'a>>,
    faults: Vec<FaultJson<'a>>,
}

#[derive(Serialize)]
struct RunStatusJson<'a> {
    run: &'a str,
    status: &'static str,
    /// Why no hook of the run's session reaches ralph, although the run is active.
    unprotected: Option<String>,
    title: &'a str,
    session: Option<&'a str>,
    project: &'a str,
    iteration: u32,
    max_iterations: Option<u32>,
    elapsed_ms: u64,
    max_duration_ms: Option<u64>,
    spent_usd: Option<f64>,
    max_cost_usd: Option<f64>,
    context_tokens: Option<u64>,
    /// Absent while no agent works on a chunk.
    #[serde(skip_serializing_if = "Option::is_none")]
    chunks: Option<ChunkCountJson>,
    /// Absent for a run without phases.
    #[serde(skip_serializing_if = "Option::is_none")]
    orchestrator: Option<orchestrator_view::OrchestratorJson<'a>>,
    trouble: Option<&'a str>,
    tampering: Option<&'a str>,
    requirements: u32,
    unmet: u32,
    unknown: u32,
    pending: u32,
    open: &'a [ReportLine],
    /// Absent while there is none, as are disputes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    waivers: Vec<WaiverJson>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    disputes: &'a [Dispute],
    /// Messages that the agent has not received yet.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    told: &'a [String],
    /// Absent for a run that ralph does not drive itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    driven: Option<driven_status::DrivenJson<'a>>,
    started_at: String,
    last_seen_at: String,
}

/// How many agents work on a chunk, and how many of them were verified at their last check.
#[derive(Serialize)]
struct ChunkCountJson {
    verified: usize,
    total: usize,
}

#[derive(Serialize)]
struct HeldSessionJson<'a> {
    session: &'a str,
    last_decided_at: String,
}

#[derive(Serialize)]
struct UnreadableRunJson<'a> {
    run: &'a str,
    why: String,
}

#[derive(Serialize)]
struct FaultJson<'a> {
    at: String,
    kind: &'static str,
    what: &'a str,
    run: Option<&'a str>,
    session: Option<&'a str>,
}

pub(crate) fn run(env: &Env, args: &StatusArgs) -> Result<(), CommandFailure> {
    let home = open_home(env)?;
    if args.clear_trouble {
        if super::identify_caller(env) == CommandCaller::Agent {
            let hint = "ask a person to do this in their own terminal";
            return Err(CommandFailure::new("an agent may not clear the faults", hint));
        }
        return clear_faults(&home, args);
    }
    let (mut runs, mut unreadable) = overview::list_run_views(&home)?;
    let queue =
        args.name.as_ref().map_or(Ok(None), |name| queue_status::named_queue(&home, name))?;
    if let Some(queue) = &queue {
        queue.retain_runs(&mut runs, &mut unreadable);
    } else if let Some(name) = &args.name {
        let run = match control::resolve_name(&home, name)? {
            RunOrSession::Run(run) => run,
            RunOrSession::Session(session) => return Err(no_run_error(&session)),
        };
        runs.retain(|view| view.opened.run.id == run);
        unreadable.retain(|one| one.run == run);
    }
    let now_ms = clock::now_ms();
    let all = runs.len();
    if !args.all && args.name.is_none() {
        runs.retain(|view| !is_old(view, now_ms));
        runs.truncate(SHOWN_RUNS);
    }
    let unprotected = protection::find_unprotected(env, &home, &runs);
    let unprotected: Vec<_> = unprotected.into_iter().zip(&runs).map(skip_driven).collect();
    let faults = faults::list_faults(&home);
    let held = if args.name.is_none() { overview::list_held_sessions(&home) } else { Vec::new() };
    let off = super::off_reason(env, &home);
    if let Some(queue) = queue.as_ref().filter(|_| !args.json) {
        return term::out(&queue.render_tasks()).map(drop);
    }
    let queues = queue_status::queues_for_status(&home, queue, args);
    let shown = StatusReport {
        queues: &queues,
        home: &home,
        off,
        runs: &runs,
        unprotected: &unprotected,
        held: &held,
        left_out: all - runs.len(),
        unreadable: &unreadable,
        faults: &faults,
        all: if args.name.is_none() { StatusScope::Everything } else { StatusScope::OneRun },
    };
    if args.json { print_json(&shown) } else { print(&shown) }
}

/// A driven run needs no hook: the runner answers its stops in-band, so it is never unprotected.
fn skip_driven(
    (unprotected, view): (Option<UnprotectedReason>, &RunView),
) -> Option<UnprotectedReason> {
    unprotected.filter(|_| view.opened.run.drive.is_none())
}

/// One run, as `/ralph:status` shows it in the session.
pub(crate) fn render_run(home: &RalphHome, run: &RunId) -> Result<String, CommandFailure> {
    let opened = store::load_run(home, run)?;
    let view = RunView { phase: control::effective_phase(home, &opened), opened };
    // A command typed in the session proves that its hooks reach ralph, so protection is not checked.
    let pipeline = super::pipeline::summary_line(home, &view.opened);
    let text = run_paragraph(
        &view,
        None,
        (&faults::list_faults(home), pipeline, worktree_outcome(home, &view)),
    );
    Ok(text + &phase_lines(home, &view, StatusScope::OneRun))
}

fn clear_faults(home: &RalphHome, args: &StatusArgs) -> Result<(), CommandFailure> {
    #[derive(Serialize)]
    struct ClearedFaultsJson {
        v: u8,
        forgotten: usize,
    }
    let forgotten = faults::clear_faults(home)?;
    if args.json {
        super::print_json(&ClearedFaultsJson { v: 1, forgotten })?;
    } else {
        let noun = if forgotten == 1 { "fault" } else { "faults" };
        term::out(&format!("{forgotten} {noun} cleared\n"))?;
    }
    Ok(())
}

fn no_run_error(session: &SessionId) -> CommandFailure {
    let hint = format!("`ralph why {session}` shows what was decided");
    CommandFailure::new(&format!("only files of other tools hold session `{session}`"), &hint)
}

fn is_old(view: &RunView, now_ms: u64) -> bool {
    matches!(view.phase, RunPhase::Ended(_))
        && now_ms.saturating_sub(view.opened.state.last_seen_ms) > DAY_MS
}

struct StatusReport<'a> {
    home: &'a RalphHome,
    queues: &'a [QueueStatus],
    off: Option<&'static str>,
    runs: &'a [RunView],
    /// One entry for each run.
    unprotected: &'a [Option<UnprotectedReason>],
    held: &'a [HeldSession],
    left_out: usize,
    unreadable: &'a [UnreadableRun],
    faults: &'a [Fault],
    all: StatusScope,
}

/// Whether everything is shown, or one run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StatusScope {
    Everything,
    OneRun,
}

impl StatusReport<'_> {
    fn is_empty(&self) -> bool {
        let has_runs = !self.runs.is_empty() || !self.unreadable.is_empty();
        !has_runs && self.held.is_empty() && self.queues.is_empty()
    }

    /// The faults that are not shown with one of the runs.
    fn unattached_faults(&self) -> Vec<&Fault> {
        let shown = |id: &str| self.runs.iter().any(|view| view.opened.run.id.as_str() == id);
        let general = |fault: &&Fault| !fault.run.as_deref().is_some_and(shown);
        match self.all {
            StatusScope::Everything => self.faults.iter().filter(general).collect(),
            StatusScope::OneRun => Vec::new(),
        }
    }
}

fn print(shown: &StatusReport<'_>) -> Result<(), CommandFailure> {
    let mut out = String::new();
    if let Some(why) = shown.off {
        out.push_str(&format!("{} ralph is off: {why}\n\n", paint(term::WARN, "?")));
    }
    for (view, unprotected) in shown.runs.iter().zip(shown.unprotected) {
        let pipeline = super::pipeline::summary_line(shown.home, &view.opened);
        out.push_str(&run_paragraph(
            view,
            unprotected.as_ref(),
            (shown.faults, pipeline, worktree_outcome(shown.home, view)),
        ));
        out.push_str(&phase_lines(shown.home, view, shown.all));
    }
    for one in shown.queues {
        out.push_str(&one.paragraph());
    }
    for one in shown.unreadable {
        let id = paint(term::BOLD, one.run.as_str());
        out.push_str(&format!("{id}  unreadable    {}\n", safe_line(&describe_error(&one.error))));
    }
    for one in shown.held {
        out.push_str(&describe::held_session(one));
    }
    if shown.is_empty() {
        out.push_str(match shown.left_out {
            0 => "no runs; `/ralph:goal …` in a session, or `ralph start`, starts one\n",
            _ => "no runs since yesterday\n",
        });
    }
    if shown.left_out > 0 {
        out.push_str(&format!("{} more; `ralph status --all` shows them\n", shown.left_out));
    }
    let general = shown.unattached_faults();
    if !general.is_empty() {
        out.push_str("\nfaults in ralph itself, newest first:\n");
        general.iter().take(SHOWN_FAULTS).for_each(|fault| out.push_str(&fault_line(fault)));
        if general.len() > SHOWN_FAULTS {
            let more = general.len() - SHOWN_FAULTS;
            out.push_str(&format!("  and {more} more: `ralph status --json`\n"));
        }
        out.push_str("  `ralph status --clear-trouble` clears these\n");
    }
    term::out(&out)?;
    Ok(())
}

/// Reads the journal only if the run has a work tree.
fn worktree_outcome(home: &RalphHome, view: &RunView) -> Option<String> {
    let run = &view.opened.run;
    run.drive.as_ref().filter(|drive| drive.worktree.is_some())?;
    driven_status::worktree_outcome(&overview::run_history(home, &run.id).ok()?.entries)
}

fn run_paragraph(
    view: &RunView,
    unprotected: Option<&UnprotectedReason>,
    (faults, pipeline, settled): (&[Fault], Option<String>, Option<String>),
) -> String {
    let (run, state) = (&view.opened.run, &view.opened.state);
    let now_ms = clock::now_ms();
    let id = paint(term::BOLD, run.id.as_str());
    let word = describe::view_standing(view, unprotected);
    if let RunPhase::Ended(_) = view.phase {
        let ago = describe::ago(now_ms, state.last_seen_ms);
        let noun = if state.iteration == 1 { "iteration" } else { "iterations" };
        let spent =
            describe::spent(state).map(|it| format!(", {}", ralph_core::limits::format_usd(it)));
        let spent = spent.unwrap_or_default();
        let asked = match &state.declared {
            Some(DeclaredPause::NeedsHuman(question)) => {
                format!("      asks: {}\n", safe_line(question))
            }
            Some(DeclaredPause::Waiting { .. }) | None => String::new(),
        };
        let sessions = match state.driving.count {
            0 | 1 => String::new(),
            count => format!(" over {count} sessions"),
        };
        return format!(
            "{id}  {word:<13} {}  ({ago}, {} {noun}{sessions}{spent})\n{asked}{}{}",
            safe_line(&run.title),
            state.iteration,
            indented(driven_status::status_lines(run, state, view.phase, settled.as_deref())),
            remark_text(state, now_ms)
        );
    }
    let mut out = format!("{id}  {word:<13} {}\n", safe_line(&run.title));
    out.push_str(&format!(
        "      {}\n",
        describe::progress(run, state, state.effective_now_ms(view.phase, now_ms))
    ));
    if let Some(why) = unprotected {
        out.push_str(&describe::unprotected(why, now_ms));
    }
    if let Some(report) = &state.report {
        out.push_str(&format!("      {}\n", describe::report(report)));
    } else if view.phase == RunPhase::Active
        && state.delivery.is_none()
        && state.declared.is_none()
        && state.trouble.is_none()
        && unprotected.is_none()
        && run.drive.is_none()
    {
        out.push_str("      no stop seen yet; if none follows, run `ralph doctor`\n");
    }
    if let Some(pipeline) = pipeline {
        out.push_str(&format!("      {}\n", safe_line(&pipeline)));
    }
    if let Some(DeclaredPause::Waiting { until_ms, why }) = &state.declared
        && *until_ms > now_ms
    {
        out.push_str(&format!(
            "      waits until {}: {}\n",
            describe::local_time(*until_ms),
            safe_line(why)
        ));
    }
    out.push_str(&indented(driven_status::status_lines(
        run,
        state,
        view.phase,
        settled.as_deref(),
    )));
    out.push_str(&remark_text(state, now_ms));
    if view.phase == RunPhase::Orphaned && run.drive.is_none() {
        out.push_str(&format!(
            "      its session is not held; `ralph resume {}` resumes it\n",
            run.id
        ));
    }
    if let Some(what) = &view.opened.tampering {
        out.push_str(&format!("      {} {}\n", paint(term::BAD, "✗"), safe_line(what)));
    }
    for fault in faults.iter().filter(|fault| fault.run.as_deref() == Some(run.id.as_str())) {
        out.push_str(&format!("    {}", fault_line(fault)));
    }
    out
}

/// The phases of an orchestrated run: one line in the overview, all conditions if only this run is shown.
fn phase_lines(home: &RalphHome, view: &RunView, all: StatusScope) -> String {
    if view.opened.run.phases == OptIn::No {
        return String::new();
    }
    let picture = phases::phase_progress(home, &view.opened);
    match (all, view.phase) {
        (StatusScope::OneRun, _) => orchestrator_view::render(&picture),
        (StatusScope::Everything, RunPhase::Ended(_)) => String::new(),
        (StatusScope::Everything, _) => {
            format!("      {}\n", orchestrator_view::phase_line(&picture))
        }
    }
}

fn remark_text(state: &RunState, now_ms: u64) -> String {
    indented(describe::remark_lines(state, now_ms))
}

fn indented(lines: Vec<String>) -> String {
    lines.into_iter().flat_map(|line| ["      ".to_string(), line, "\n".to_string()]).collect()
}

fn fault_line(fault: &Fault) -> String {
    let what = safe_line(&fault.what);
    format!(
        "  {} {}  {} fault: {what}\n",
        paint(term::WARN, "?"),
        describe::local_time(fault.at_ms),
        fault.kind.name()
    )
}

fn print_json(shown: &StatusReport<'_>) -> Result<(), CommandFailure> {
    let now_ms = clock::now_ms();
    let picture = |view: &RunView| {
        let is_orchestrated = view.opened.run.phases == OptIn::Yes;
        is_orchestrated.then(|| phases::phase_progress(shown.home, &view.opened))
    };
    let pictures: Vec<_> = shown.runs.iter().map(picture).collect();
    super::print_json(&StatusJson {
        v: 1,
        off: shown.off,
        runs: shown
            .runs
            .iter()
            .zip(shown.unprotected)
            .zip(&pictures)
            .map(|((view, unprotected), picture)| RunStatusJson {
                orchestrator: picture.as_ref().map(orchestrator_view::json),
                ..run_json(view, unprotected.as_ref(), now_ms)
            })
            .collect(),
        queues: shown.queues.iter().map(QueueStatus::json).collect(),
        held: shown
            .held
            .iter()
            .map(|view| HeldSessionJson {
                session: view.session.as_str(),
                last_decided_at: clock::format_rfc3339(view.last.at_ms),
            })
            .collect(),
        unreadable: shown
            .unreadable
            .iter()
            .map(|one| UnreadableRunJson {
                run: RunId::as_str(&one.run),
                why: describe_error(&one.error),
            })
            .collect(),
        faults: shown
            .faults
            .iter()
            .map(|fault| FaultJson {
                at: clock::format_rfc3339(fault.at_ms),
                kind: fault.kind.name(),
                what: &fault.what,
                run: fault.run.as_deref(),
                session: fault.session.as_deref(),
            })
            .collect(),
    })?;
    Ok(())
}

fn run_json<'a>(
    view: &'a RunView,
    unprotected: Option<&UnprotectedReason>,
    now_ms: u64,
) -> RunStatusJson<'a> {
    let (run, state) = (&view.opened.run, &view.opened.state);
    let report = state.report.as_ref();
    let tally = chunk::tally_agents(&state.parts, None);
    let limits = state.limits(run);
    RunStatusJson {
        run: run.id.as_str(),
        status: describe::view_standing(view, unprotected),
        unprotected: unprotected.map(|why| why.describe(now_ms)),
        title: &run.title,
        session: state.owner(run).map(SessionId::as_str),
        project: &run.project,
        iteration: state.iteration,
        max_iterations: limits.max_iterations,
        elapsed_ms: state.elapsed_ms(state.effective_now_ms(view.phase, now_ms)),
        max_duration_ms: limits.max_duration_ms,
        spent_usd: describe::spent(state).map(describe::micro_usd_as_usd),
        max_cost_usd: limits.max_cost_micro_usd.map(describe::micro_usd_as_usd),
        context_tokens: state.observed.as_ref().and_then(|observed| observed.context_tokens),
        chunks: (tally.all > 0)
            .then_some(ChunkCountJson { verified: tally.verified, total: tally.all }),
        orchestrator: None,
        trouble: state.trouble.as_deref(),
        tampering: view.opened.tampering.as_deref(),
        requirements: report.map_or(0, |report| report.total),
        unmet: report.map_or(0, |report| report.unmet),
        unknown: report.map_or(0, |report| report.unknown),
        pending: report.map_or(0, |report| report.pending),
        open: report.map_or(&[], |report| &report.lines),
        waivers: state.waivers.iter().map(WaiverJson::from_waiver).collect(),
        disputes: &state.disputes,
        told: &state.hints,
        driven: driven_status::json(view),
        started_at: clock::format_rfc3339(run.started_ms),
        last_seen_at: clock::format_rfc3339(state.last_seen_ms),
    }
}
