//! Work that follows a recorded decision: views for other tools, `progress.txt`, notifications. Nothing here can change
//! the decision.

use crate::contract::work;
use crate::sources::Told;
use crate::{notify, orchestrator, sources, stages, surroundings};
use ralph_core::decide::Decision;
use ralph_core::event::Stop;
use ralph_core::id::SessionId;
use ralph_core::record::{Change, Decided, Entry, Outcome, Rule, Run, VERSION};
use ralph_core::source::loop_file;
use ralph_core::status::Status;
use ralph_core::text;
use ralph_core::verdict::Bell;
use ralph_home::faults::{self, Fault, Kind};
use ralph_home::journal;
use ralph_home::session_pointer;
use ralph_home::store::Opened;
use ralph_home::world::World;
use ralph_sys::clock;
use ralph_sys::fs::{self, Durability, FileError};
use serde::Serialize;

/// Maximum size of the journal of a session that only files hold.
const LARGEST_HELD: u64 = 4 * 1024 * 1024;
const LARGEST_VIEW: usize = 4 * 1024 * 1024;

/// Updates views, the session pointer and `progress.txt`, and announces the end of a run. Failures become faults.
pub fn of(world: &World, session: &SessionId, before: &Opened, decision: &Decision) -> Bell {
    let run = &before.run;
    let done = match &decision.outcome {
        Outcome::Allowed | Outcome::Repeated | Outcome::Orphaned => Ok(()),
        Outcome::Blocked { .. } | Outcome::HandedOver => {
            let iteration = before.state.iteration.saturating_add(1);
            let update = told(decision, iteration);
            view(world, session, &View::of(before, iteration, decision))
                .and(stages::view(world, session, run, decision))
                .and(progress(world, || sources::advance(run, &update)))
        }
        Outcome::Awaited { .. } => stages::view(world, session, run, decision),
        Outcome::Ended(status) => {
            // Results of gates that are still running are no longer needed.
            drop(work::call_off(&world.home, &run.id));
            let ending = match status {
                Status::Verified | Status::Claimed => Some("COMPLETE"),
                Status::Exhausted => Some("REACHED_LIMIT"),
                Status::Stuck
                | Status::NeedsHuman
                | Status::NeedsReview
                | Status::GateBroken
                | Status::RateLimited
                | Status::Cancelled
                | Status::Overridden
                | Status::Crashed => None,
            };
            session_pointer::end_session(world, session, &run.id);
            let update = told(decision, before.state.iteration);
            view(world, session, &View::of(before, before.state.iteration, decision))
                .and(stages::view(world, session, run, decision))
                .and(progress(world, || sources::finish(run, (status.name(), ending), &update)))
        }
    };
    if let Err(error) = done.and(orchestrator::refresh(world, run)) {
        let fault = Fault::new(Kind::File, &faults::describe(&error)).of_run(&run.id);
        faults::record(&world.home, &fault);
    }
    match decision.outcome {
        Outcome::Ended(status) => notify::about(world, &bounded(before), status, &decision.because),
        Outcome::Allowed
        | Outcome::Blocked { .. }
        | Outcome::Awaited { .. }
        | Outcome::HandedOver
        | Outcome::Repeated
        | Outcome::Orphaned => Bell::Silent,
    }
}

/// The run with the limits now in force.
fn bounded(opened: &Opened) -> Run {
    Run { limits: opened.state.limits(&opened.run).clone(), ..opened.run.clone() }
}

fn told(decision: &Decision, iteration: u32) -> Told<'_> {
    Told { iteration, report: decision.report.as_ref(), because: &decision.because }
}

/// A rehearsal writes nothing: the agent reads `progress.txt`, so it must contain only real events.
fn progress(world: &World, write: impl FnOnce() -> Result<(), FileError>) -> Result<(), FileError> {
    if world.env.is_rehearsal() { Ok(()) } else { write() }
}

/// Records a decision about a session that only files hold.
pub fn of_files(world: &World, session: &SessionId, stop: &Stop, decision: &Decision) {
    if decision.rule == Rule::Off {
        return;
    }
    let entry = Entry {
        v: VERSION,
        seq: 0,
        at_ms: clock::now_ms(),
        prev: String::new(),
        iteration: 0,
        after: String::new(),
        change: Change::Decided(Box::new(Decided {
            rule: decision.rule,
            outcome: decision.outcome.clone(),
            because: decision.because.clone(),
            mark: None,
            delivery: surroundings::prompt_mark(stop),
            report: decision.report.clone(),
            observed: None,
            process: None,
            tampering: None,
            in_a_row: 0,
            garbled: Vec::new(),
            remedy: None,
            background: None,
            took_ms: 0,
        })),
    };
    let path = world.home.held_journal(session);
    if let Some(parent) = path.parent()
        && fs::create_dir(parent).is_ok()
        && fs::stat(&path).is_none_or(|stat| stat.len < LARGEST_HELD)
        && let Err(error) = fs::append(&path, &journal::line(&entry), Durability::Cached)
    {
        faults::record(&world.home, &Fault::new(Kind::File, &faults::describe(&error)));
    }
}

/// `state/<session>/loop.json`: the run, for other tools to read.
#[derive(Serialize)]
struct View<'a> {
    ralph_run: &'a str,
    session_id: &'a str,
    task: &'a str,
    iteration: u32,
    max_iterations: Option<u32>,
    validation_result: &'static str,
    last_error: Option<String>,
    verified_done: bool,
    created_at: String,
    last_updated: String,
}

impl<'a> View<'a> {
    fn of(opened: &'a Opened, iteration: u32, decision: &Decision) -> Self {
        let Opened { run, state, .. } = opened;
        let verified = decision.outcome == Outcome::Ended(Status::Verified);
        let first = decision.report.as_ref().and_then(|report| report.lines.first());
        Self {
            ralph_run: run.id.as_str(),
            session_id: state.owner(run).map(SessionId::as_str).unwrap_or_default(),
            task: &run.title,
            iteration,
            max_iterations: state.limits(run).max_iterations,
            validation_result: match decision.outcome {
                Outcome::Ended(Status::Verified) => "passed",
                Outcome::Ended(Status::Claimed) => "claimed",
                Outcome::Allowed
                | Outcome::Blocked { .. }
                | Outcome::Awaited { .. }
                | Outcome::HandedOver
                | Outcome::Repeated
                | Outcome::Orphaned
                | Outcome::Ended(_) => "failed",
            },
            last_error: first.map(|line| text::line(&format!("{}: {}", line.name, line.note), 300)),
            verified_done: verified,
            created_at: clock::rfc3339(run.started_ms),
            last_updated: clock::rfc3339(clock::now_ms()),
        }
    }
}

/// Never overwrites a file that another tool wrote.
fn view(world: &World, session: &SessionId, view: &View<'_>) -> Result<(), FileError> {
    let directory = world.home.state(session);
    let path = directory.join("loop.json");
    let ours = match fs::read_opt(&path, LARGEST_VIEW)? {
        None => true,
        Some(bytes) => loop_file::read(&bytes).is_ok_and(|file| file.ralph_run.is_some()),
    };
    if !ours {
        return Ok(());
    }
    fs::create_dir(&directory)?;
    let mut bytes = serde_json::to_vec_pretty(view).unwrap_or_default();
    bytes.push(b'\n');
    fs::overwrite(&path, &bytes)
}
