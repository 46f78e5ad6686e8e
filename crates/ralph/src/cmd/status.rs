//! `ralph status`: runs, queues, sessions held by files of other tools, and faults.

use super::home;
use super::run::queue::standing::{self, QueueJson, Standing};
use super::words::WaiverJson;
use crate::cli::Status;
use crate::driven;
use crate::phases;
use crate::report::Failure;
use crate::term::{self, paint};
use crate::wording::{self, safe};
use ralph_core::chunk;
use ralph_core::facts::Declared;
use ralph_core::id::{RunId, SessionId};
use ralph_core::record::{Asked, Dispute, Line};
use ralph_core::run::{Phase, State};
use ralph_home::faults::{self, Fault, describe};
use ralph_home::paths::Home;
use ralph_home::store;
use ralph_hook::control::{self, Caller, Named};
use ralph_hook::orchestrator;
use ralph_hook::overview::{self, HeldView, RunView, Unreadable};
use ralph_install::doctor::protection::{self, Unprotected};
use ralph_sys::clock;
use ralph_sys::env::Env;
use serde::Serialize;

const A_DAY_MS: u64 = 24 * 60 * 60 * 1000;
const SHOWN_FAULTS: usize = 10;
const SHOWN_RUNS: usize = 50;

#[derive(Serialize)]
struct Overview<'a> {
    v: u8,
    /// Why ralph is switched off, if it is.
    off: Option<&'static str>,
    runs: Vec<RunJson<'a>>,
    /// Absent while there is none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    queues: Vec<QueueJson<'a>>,
    /// Sessions that are held only by files of other tools.
    held: Vec<HeldJson<'a>>,
    unreadable: Vec<UnreadableJson<'a>>,
    faults: Vec<FaultJson<'a>>,
}

#[derive(Serialize)]
struct RunJson<'a> {
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
    chunks: Option<ChunksJson>,
    /// Absent for a run without phases.
    #[serde(skip_serializing_if = "Option::is_none")]
    orchestrator: Option<phases::PictureJson<'a>>,
    trouble: Option<&'a str>,
    tampering: Option<&'a str>,
    requirements: u32,
    unmet: u32,
    unknown: u32,
    pending: u32,
    open: &'a [Line],
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
    driven: Option<driven::DrivenJson<'a>>,
    started_at: String,
    last_seen_at: String,
}

/// How many agents work on a chunk, and how many of them were verified at their last check.
#[derive(Serialize)]
struct ChunksJson {
    verified: usize,
    total: usize,
}

#[derive(Serialize)]
struct HeldJson<'a> {
    session: &'a str,
    last_decided_at: String,
}

#[derive(Serialize)]
struct UnreadableJson<'a> {
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

pub(crate) fn run(env: &Env, args: &Status) -> Result<(), Failure> {
    let home = home(env)?;
    if args.clear_trouble {
        if super::caller(env) == Caller::Agent {
            let hint = "ask a person to do this in their own terminal";
            return Err(Failure::new("an agent may not clear the faults", hint));
        }
        return clear(&home, args);
    }
    let (mut runs, mut unreadable) = overview::runs(&home)?;
    let queue = args.name.as_ref().map_or(Ok(None), |name| standing::named(&home, name))?;
    if let Some(queue) = &queue {
        queue.keep(&mut runs, &mut unreadable);
    } else if let Some(name) = &args.name {
        let run = match control::named(&home, name)? {
            Named::Run(run) => run,
            Named::Session(session) => return Err(no_run(&session)),
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
    let unprotected = protection::of_runs(env, &home, &runs);
    let unprotected: Vec<_> = unprotected.into_iter().zip(&runs).map(in_band).collect();
    let faults = faults::all(&home);
    let held = if args.name.is_none() { overview::held(&home) } else { Vec::new() };
    let off = super::off(env, &home);
    if let Some(queue) = queue.as_ref().filter(|_| !args.json) {
        return term::out(&queue.shown()).map(drop);
    }
    let queues = standing::of_status(&home, queue, args);
    let shown = Shown {
        queues: &queues,
        home: &home,
        off,
        runs: &runs,
        unprotected: &unprotected,
        held: &held,
        left_out: all - runs.len(),
        unreadable: &unreadable,
        faults: &faults,
        all: if args.name.is_none() { All::Yes } else { All::No },
    };
    if args.json { print_json(&shown) } else { print(&shown) }
}

/// A driven run needs no hook: the runner answers its stops in-band, so it is never unprotected.
fn in_band((unprotected, view): (Option<Unprotected>, &RunView)) -> Option<Unprotected> {
    unprotected.filter(|_| view.opened.run.drive.is_none())
}

/// One run, as `/ralph:status` shows it in the session.
pub(crate) fn of_run(home: &Home, run: &RunId) -> Result<String, Failure> {
    let opened = store::load(home, run)?;
    let view = RunView { phase: control::phase(home, &opened), opened };
    // A command typed in the session proves that its hooks reach ralph, so protection is not checked.
    let pipeline = super::pipeline::line(home, &view.opened);
    let text = paragraph(&view, None, (&faults::all(home), pipeline, settled(home, &view)));
    Ok(text + &phases_of(home, &view, All::No))
}

fn clear(home: &Home, args: &Status) -> Result<(), Failure> {
    #[derive(Serialize)]
    struct Cleared {
        v: u8,
        forgotten: usize,
    }
    let forgotten = faults::clear(home)?;
    if args.json {
        super::print_json(&Cleared { v: 1, forgotten })?;
    } else {
        let noun = if forgotten == 1 { "fault" } else { "faults" };
        term::out(&format!("{forgotten} {noun} cleared\n"))?;
    }
    Ok(())
}

fn no_run(session: &SessionId) -> Failure {
    let hint = format!("`ralph why {session}` shows what was decided");
    Failure::new(&format!("only files of other tools hold session `{session}`"), &hint)
}

fn is_old(view: &RunView, now_ms: u64) -> bool {
    matches!(view.phase, Phase::Ended(_))
        && now_ms.saturating_sub(view.opened.state.last_seen_ms) > A_DAY_MS
}

struct Shown<'a> {
    home: &'a Home,
    queues: &'a [Standing],
    off: Option<&'static str>,
    runs: &'a [RunView],
    /// One entry for each run.
    unprotected: &'a [Option<Unprotected>],
    held: &'a [HeldView],
    left_out: usize,
    unreadable: &'a [Unreadable],
    faults: &'a [Fault],
    all: All,
}

/// Whether everything is shown, or one run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum All {
    Yes,
    No,
}

impl Shown<'_> {
    fn is_empty(&self) -> bool {
        let has_runs = !self.runs.is_empty() || !self.unreadable.is_empty();
        !has_runs && self.held.is_empty() && self.queues.is_empty()
    }

    /// The faults that are not shown with one of the runs.
    fn general(&self) -> Vec<&Fault> {
        let shown = |id: &str| self.runs.iter().any(|view| view.opened.run.id.as_str() == id);
        let general = |fault: &&Fault| !fault.run.as_deref().is_some_and(shown);
        match self.all {
            All::Yes => self.faults.iter().filter(general).collect(),
            All::No => Vec::new(),
        }
    }
}

fn print(shown: &Shown<'_>) -> Result<(), Failure> {
    let mut out = String::new();
    if let Some(why) = shown.off {
        out.push_str(&format!("{} ralph is off: {why}\n\n", paint(term::ODD, "?")));
    }
    for (view, unprotected) in shown.runs.iter().zip(shown.unprotected) {
        let pipeline = super::pipeline::line(shown.home, &view.opened);
        out.push_str(&paragraph(
            view,
            unprotected.as_ref(),
            (shown.faults, pipeline, settled(shown.home, view)),
        ));
        out.push_str(&phases_of(shown.home, view, shown.all));
    }
    for one in shown.queues {
        out.push_str(&one.paragraph());
    }
    for one in shown.unreadable {
        let id = paint(term::BOLD, one.run.as_str());
        out.push_str(&format!("{id}  unreadable    {}\n", safe(&describe(&one.error))));
    }
    for one in shown.held {
        out.push_str(&wording::held(one));
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
    let general = shown.general();
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
fn settled(home: &Home, view: &RunView) -> Option<String> {
    let run = &view.opened.run;
    run.drive.as_ref().filter(|drive| drive.worktree.is_some())?;
    driven::settled(&overview::of_run(home, &run.id).ok()?.entries)
}

fn paragraph(
    view: &RunView,
    unprotected: Option<&Unprotected>,
    (faults, pipeline, settled): (&[Fault], Option<String>, Option<String>),
) -> String {
    let (run, state) = (&view.opened.run, &view.opened.state);
    let now_ms = clock::now_ms();
    let id = paint(term::BOLD, run.id.as_str());
    let word = wording::standing_of(view, unprotected);
    if let Phase::Ended(_) = view.phase {
        let ago = wording::ago(now_ms, state.last_seen_ms);
        let noun = if state.iteration == 1 { "iteration" } else { "iterations" };
        let spent = wording::spent(state).map(|it| format!(", {}", ralph_core::limits::money(it)));
        let spent = spent.unwrap_or_default();
        let asked = match &state.declared {
            Some(Declared::NeedsHuman(question)) => format!("      asks: {}\n", safe(question)),
            Some(Declared::Waiting { .. }) | None => String::new(),
        };
        let sessions = match state.driving.count {
            0 | 1 => String::new(),
            count => format!(" over {count} sessions"),
        };
        return format!(
            "{id}  {word:<13} {}  ({ago}, {} {noun}{sessions}{spent})\n{asked}{}{}",
            safe(&run.title),
            state.iteration,
            indented(driven::lines(run, state, view.phase, settled.as_deref())),
            said(state, now_ms)
        );
    }
    let mut out = format!("{id}  {word:<13} {}\n", safe(&run.title));
    out.push_str(&format!(
        "      {}\n",
        wording::progress(run, state, state.time_ms(view.phase, now_ms))
    ));
    if let Some(why) = unprotected {
        out.push_str(&wording::unprotected(why, now_ms));
    }
    if let Some(report) = &state.report {
        out.push_str(&format!("      {}\n", wording::report(report)));
    } else if view.phase == Phase::Active
        && state.delivery.is_none()
        && state.declared.is_none()
        && state.trouble.is_none()
        && unprotected.is_none()
        && run.drive.is_none()
    {
        out.push_str("      no stop seen yet; if none follows, run `ralph doctor`\n");
    }
    if let Some(pipeline) = pipeline {
        out.push_str(&format!("      {}\n", safe(&pipeline)));
    }
    if let Some(Declared::Waiting { until_ms, why }) = &state.declared
        && *until_ms > now_ms
    {
        out.push_str(&format!("      waits until {}: {}\n", wording::when(*until_ms), safe(why)));
    }
    out.push_str(&indented(driven::lines(run, state, view.phase, settled.as_deref())));
    out.push_str(&said(state, now_ms));
    if view.phase == Phase::Orphaned && run.drive.is_none() {
        out.push_str(&format!(
            "      its session is not held; `ralph resume {}` resumes it\n",
            run.id
        ));
    }
    if let Some(what) = &view.opened.tampering {
        out.push_str(&format!("      {} {}\n", paint(term::BAD, "✗"), safe(what)));
    }
    for fault in faults.iter().filter(|fault| fault.run.as_deref() == Some(run.id.as_str())) {
        out.push_str(&format!("    {}", fault_line(fault)));
    }
    out
}

/// The phases of an orchestrated run: one line in the overview, all conditions if only this run is shown.
fn phases_of(home: &Home, view: &RunView, all: All) -> String {
    if view.opened.run.phases == Asked::No {
        return String::new();
    }
    let picture = orchestrator::picture(home, &view.opened);
    match (all, view.phase) {
        (All::No, _) => phases::shown(&picture),
        (All::Yes, Phase::Ended(_)) => String::new(),
        (All::Yes, _) => format!("      {}\n", phases::line(&picture)),
    }
}

fn said(state: &State, now_ms: u64) -> String {
    indented(wording::said(state, now_ms))
}

fn indented(lines: Vec<String>) -> String {
    lines.into_iter().flat_map(|line| ["      ".to_string(), line, "\n".to_string()]).collect()
}

fn fault_line(fault: &Fault) -> String {
    let what = safe(&fault.what);
    format!(
        "  {} {}  {} fault: {what}\n",
        paint(term::ODD, "?"),
        wording::when(fault.at_ms),
        fault.kind.name()
    )
}

fn print_json(shown: &Shown<'_>) -> Result<(), Failure> {
    let now_ms = clock::now_ms();
    let picture = |view: &RunView| {
        let is_orchestrated = view.opened.run.phases == Asked::Yes;
        is_orchestrated.then(|| orchestrator::picture(shown.home, &view.opened))
    };
    let pictures: Vec<_> = shown.runs.iter().map(picture).collect();
    super::print_json(&Overview {
        v: 1,
        off: shown.off,
        runs: shown
            .runs
            .iter()
            .zip(shown.unprotected)
            .zip(&pictures)
            .map(|((view, unprotected), picture)| RunJson {
                orchestrator: picture.as_ref().map(phases::json),
                ..run_json(view, unprotected.as_ref(), now_ms)
            })
            .collect(),
        queues: shown.queues.iter().map(Standing::json).collect(),
        held: shown
            .held
            .iter()
            .map(|view| HeldJson {
                session: view.session.as_str(),
                last_decided_at: clock::rfc3339(view.last.at_ms),
            })
            .collect(),
        unreadable: shown
            .unreadable
            .iter()
            .map(|one| UnreadableJson { run: RunId::as_str(&one.run), why: describe(&one.error) })
            .collect(),
        faults: shown
            .faults
            .iter()
            .map(|fault| FaultJson {
                at: clock::rfc3339(fault.at_ms),
                kind: fault.kind.name(),
                what: &fault.what,
                run: fault.run.as_deref(),
                session: fault.session.as_deref(),
            })
            .collect(),
    })?;
    Ok(())
}

fn run_json<'a>(view: &'a RunView, unprotected: Option<&Unprotected>, now_ms: u64) -> RunJson<'a> {
    let (run, state) = (&view.opened.run, &view.opened.state);
    let report = state.report.as_ref();
    let tally = chunk::tally(&state.parts, None);
    let limits = state.limits(run);
    RunJson {
        run: run.id.as_str(),
        status: wording::standing_of(view, unprotected),
        unprotected: unprotected.map(|why| why.in_words(now_ms)),
        title: &run.title,
        session: state.owner(run).map(SessionId::as_str),
        project: &run.project,
        iteration: state.iteration,
        max_iterations: limits.max_iterations,
        elapsed_ms: state.elapsed_ms(state.time_ms(view.phase, now_ms)),
        max_duration_ms: limits.max_duration_ms,
        spent_usd: wording::spent(state).map(wording::usd),
        max_cost_usd: limits.max_cost_micro_usd.map(wording::usd),
        context_tokens: state.observed.as_ref().and_then(|observed| observed.context_tokens),
        chunks: (tally.all > 0)
            .then_some(ChunksJson { verified: tally.verified, total: tally.all }),
        orchestrator: None,
        trouble: state.trouble.as_deref(),
        tampering: view.opened.tampering.as_deref(),
        requirements: report.map_or(0, |report| report.total),
        unmet: report.map_or(0, |report| report.unmet),
        unknown: report.map_or(0, |report| report.unknown),
        pending: report.map_or(0, |report| report.pending),
        open: report.map_or(&[], |report| &report.lines),
        waivers: state.waivers.iter().map(WaiverJson::of).collect(),
        disputes: &state.disputes,
        told: &state.hints,
        driven: driven::json(view),
        started_at: clock::rfc3339(run.started_ms),
        last_seen_at: clock::rfc3339(state.last_seen_ms),
    }
}
