//! Work that follows a recorded decision: views for other tools, `progress.txt`, notifications. Nothing here can change
//! the decision.

use crate::cleaning_worker;
use crate::contract::gate_worker;
use crate::sources::ProgressUpdate;
use crate::{facts, notify, phases, quality_gate_view, run_output, run_retrospective, sources};
use ralph_core::decide::StopDecision;
use ralph_core::event::StopEvent;
use ralph_core::id::SessionId;
use ralph_core::record::{
    DecisionRule, FORMAT_VERSION, JournalEntry, RunChange, RunOrigin, RunRecord, StopOutcome,
    StopRecord,
};
use ralph_core::source::loop_file;
use ralph_core::status::RunStatus;
use ralph_core::text;
use ralph_home::faults::{self, Fault, FaultKind};
use ralph_home::journal;
use ralph_home::session_pointer;
use ralph_home::store::LoadedRun;
use ralph_home::world::World;
use ralph_sys::clock;
use ralph_sys::fs::{self, Durability, FileError};
use serde::Serialize;

/// Maximum size of the journal of a session that only files hold.
const MAX_FILES_JOURNAL_BYTES: u64 = 4 * 1024 * 1024;
const MAX_LOOP_FILE_BYTES: usize = 4 * 1024 * 1024;

/// Updates views, the session pointer and `progress.txt`, and announces the end of a run. Failures become faults.
pub fn follow_up_decision(
    world: &World,
    session: &SessionId,
    before: &LoadedRun,
    decision: &StopDecision,
) -> bool {
    let run = &before.run;
    // Other tools know nothing of a session without a run, and it has no end to announce.
    if run.origin == RunOrigin::Session {
        return false;
    }
    if decision.rule == DecisionRule::NeedsHuman
        && decision.report.is_none()
        && decision.outcome != StopOutcome::Repeated
    {
        checkpoint_question(world, run);
    }
    let done = match &decision.outcome {
        StopOutcome::Allowed | StopOutcome::Repeated | StopOutcome::Orphaned => Ok(()),
        StopOutcome::Blocked { .. } | StopOutcome::HandedOver => {
            let iteration = before.state.iteration.saturating_add(1);
            let update = progress_update(decision, iteration);
            write_loop_view(world, session, &LoopFileView::new(before, iteration, decision))
                .and(quality_gate_view::write_quality_gate_view(world, session, run, decision))
                .and(unless_rehearsal(world, || sources::write_iteration(run, &update)))
        }
        StopOutcome::Awaited { .. } => {
            quality_gate_view::write_quality_gate_view(world, session, run, decision)
        }
        StopOutcome::Ended(status) => {
            // Results of gates that are still running are no longer needed.
            drop(gate_worker::cancel_task(&world.home, &run.id));
            let ending = match status {
                RunStatus::Verified | RunStatus::Green | RunStatus::Claimed => Some("COMPLETE"),
                RunStatus::Exhausted => Some("REACHED_LIMIT"),
                RunStatus::Stuck
                | RunStatus::NeedsHuman
                | RunStatus::NeedsReview
                | RunStatus::GateBroken
                | RunStatus::RateLimited
                | RunStatus::Cancelled
                | RunStatus::Overridden
                | RunStatus::Crashed => None,
            };
            session_pointer::end_session(world, session, &run.id);
            let update = progress_update(decision, before.state.iteration);
            write_loop_view(
                world,
                session,
                &LoopFileView::new(before, before.state.iteration, decision),
            )
            .and(quality_gate_view::write_quality_gate_view(world, session, run, decision))
            .and(unless_rehearsal(world, || {
                sources::write_end(run, (status.name(), ending), &update)
            }))
        }
    };
    if let Err(error) = done.and(phases::refresh_view(world, run)) {
        let fault = Fault::new(FaultKind::File, &faults::describe_error(&error)).with_run(&run.id);
        faults::record_fault(&world.home, &fault);
    }
    match decision.outcome {
        StopOutcome::Ended(status) => {
            if !world.env.is_rehearsal() {
                cleaning_worker::clean_after_end(&world.home, &run.id);
                learn_after_decision(world, before, decision);
            }
            notify::announce_end(world, &with_current_limits(before), status, &decision.because)
        }
        StopOutcome::Allowed
        | StopOutcome::Blocked { .. }
        | StopOutcome::Awaited { .. }
        | StopOutcome::HandedOver
        | StopOutcome::Repeated
        | StopOutcome::Orphaned => false,
    }
}

/// Learns from a run that this decision ended. Its report is that of the decision, if it has one.
fn learn_after_decision(world: &World, before: &LoadedRun, decision: &StopDecision) {
    let mut state = before.state.clone();
    if decision.report.is_some() {
        state.report.clone_from(&decision.report);
    }
    run_retrospective::learn_after_end(&world.home, &before.run, &state);
}

/// Checkpoints the work of an agent that asks a person. Its question settles the stop before anything is judged; whatever
/// is judged is checkpointed already.
fn checkpoint_question(world: &World, run: &RunRecord) {
    let has_base = run.seal.as_ref().is_some_and(|seal| seal.base.is_some());
    if !has_base || world.env.is_rehearsal() {
        return;
    }
    let deadline = world.step_deadline();
    let made =
        run_output::checkpoint_work_tree(&world.home, run, "the agent asked a person", &deadline);
    if let Err(error) = made {
        let why = faults::describe_error(&error);
        faults::record_fault(&world.home, &Fault::new(FaultKind::File, &why).with_run(&run.id));
    }
}

/// The run with the limits now in force.
fn with_current_limits(opened: &LoadedRun) -> RunRecord {
    RunRecord { limits: opened.state.limits(&opened.run).clone(), ..opened.run.clone() }
}

fn progress_update(decision: &StopDecision, iteration: u32) -> ProgressUpdate<'_> {
    ProgressUpdate { iteration, report: decision.report.as_ref(), because: &decision.because }
}

/// A rehearsal writes nothing: the agent reads `progress.txt`, so it must contain only real events.
fn unless_rehearsal(
    world: &World,
    write: impl FnOnce() -> Result<(), FileError>,
) -> Result<(), FileError> {
    if world.env.is_rehearsal() { Ok(()) } else { write() }
}

/// Records a decision about a session without a run, which only files hold. This record limits how often they hold it:
/// if it cannot be written, the session must not be held.
pub fn record_files_decision(
    world: &World,
    session: &SessionId,
    stop: &StopEvent,
    decision: &StopDecision,
) -> Result<(), FileError> {
    if decision.rule == DecisionRule::Off {
        return Ok(());
    }
    let entry = JournalEntry {
        v: FORMAT_VERSION,
        seq: 0,
        at_ms: clock::now_ms(),
        prev: String::new(),
        iteration: 0,
        after: String::new(),
        by: None,
        change: RunChange::Decided(Box::new(StopRecord {
            delivery: facts::prompt_mark(stop),
            report: decision.report.clone(),
            ..StopRecord::new(decision.rule, decision.outcome.clone(), decision.because.clone())
        })),
    };
    let path = world.home.held_journal(session);
    if let Some(parent) = path.parent() {
        fs::create_private_dir(parent)?;
    }
    if fs::stat(&path).is_some_and(|stat| stat.len >= MAX_FILES_JOURNAL_BYTES) {
        return Err(FileError::refused(&path, "it is full"));
    }
    fs::append(&path, &journal::encode_entry(&path, &entry)?, Durability::Cached).map(drop)
}

/// `state/<session>/loop.json`: the run, for other tools to read.
#[derive(Serialize)]
struct LoopFileView<'a> {
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

impl<'a> LoopFileView<'a> {
    fn new(opened: &'a LoadedRun, iteration: u32, decision: &StopDecision) -> Self {
        let LoadedRun { run, state, .. } = opened;
        let verified = decision.outcome == StopOutcome::Ended(RunStatus::Verified);
        let first = decision.report.as_ref().and_then(|report| report.lines.first());
        Self {
            ralph_run: run.id.as_str(),
            session_id: state.owner(run).map(SessionId::as_str).unwrap_or_default(),
            task: &run.title,
            iteration,
            max_iterations: state.limits(run).max_iterations,
            validation_result: match decision.outcome {
                StopOutcome::Ended(RunStatus::Verified) => "passed",
                StopOutcome::Ended(RunStatus::Green) => "green",
                StopOutcome::Ended(RunStatus::Claimed) => "claimed",
                StopOutcome::Allowed
                | StopOutcome::Blocked { .. }
                | StopOutcome::Awaited { .. }
                | StopOutcome::HandedOver
                | StopOutcome::Repeated
                | StopOutcome::Orphaned
                | StopOutcome::Ended(_) => "failed",
            },
            last_error: first
                .map(|line| text::clean_line(&format!("{}: {}", line.name, line.note), 300)),
            verified_done: verified,
            created_at: clock::format_rfc3339(run.started_ms),
            last_updated: clock::format_rfc3339(clock::now_ms()),
        }
    }
}

/// Never overwrites a file that another tool wrote.
fn write_loop_view(
    world: &World,
    session: &SessionId,
    view: &LoopFileView<'_>,
) -> Result<(), FileError> {
    let directory = world.home.session_state(session);
    let path = directory.join("loop.json");
    let ours = match fs::read_if_exists(&path, MAX_LOOP_FILE_BYTES)? {
        None => true,
        Some(bytes) => loop_file::read_loop_file(&bytes).is_ok_and(|file| file.ralph_run.is_some()),
    };
    if !ours {
        return Ok(());
    }
    fs::create_private_dir(&directory)?;
    fs::overwrite(&path, &fs::encode_pretty_json(&path, view)?)
}
