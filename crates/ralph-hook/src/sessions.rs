//! Session start, session end and compaction.
//!
//! A run can move to another session or process here. Each way of moving has its own rule, and every move is recorded
//! in the journal.

use crate::facts;
use crate::heartbeat;
use crate::prompts;
use crate::reminder;
use crate::transcript_reader;
use ralph_core::event::{
    CompactionEvent, CompactionMoment, SessionEndEvent, SessionStartEvent, SessionStartSource,
};
use ralph_core::id::{RunId, SessionId};
use ralph_core::record::{MoveReason, ProcessIdentity, RunChange};
use ralph_core::run::{AgentMemory, RunPhase};
use ralph_core::verdict::Verdict;
use ralph_home::faults::{self, Fault, FaultKind, describe_error};
use ralph_home::host_env;
use ralph_home::session_pointer::{self, SessionPointer, SessionPointerError};
use ralph_home::store::{self, LoadedRun, StoreError, TransactionStep};
use ralph_home::world::World;
use ralph_sys::clock;
use ralph_sys::fs::{self, Durability, FileError};
use ralph_sys::process_identity::{self, Liveness};

const MAX_RUN_ID_BYTES: usize = 256;

/// A hook registered twice is called twice within this time; only the first call sends the reminder.
const DUPLICATE_HOOK_MS: u64 = 10_000;

#[derive(Debug, thiserror::Error)]
enum SessionEventError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    SessionOwner(#[from] SessionPointerError),
    #[error(transparent)]
    File(#[from] FileError),
}

pub fn on_start(world: &World, start: &SessionStartEvent) -> Verdict {
    let Some(session) = &start.session else { return Verdict::Allow };
    let verdict = match start.source {
        // A fork is not held: the run stays with the original session.
        SessionStartSource::Fork => Ok(Verdict::Allow),
        SessionStartSource::Clear if !prompts::is_from_client(world) => Ok(Verdict::Allow),
        SessionStartSource::Clear => move_after_clear(world, session),
        SessionStartSource::Startup
        | SessionStartSource::Resume
        | SessionStartSource::Compact
        | SessionStartSource::Unknown => match heartbeat::find_run_and_beat(world, session) {
            Some(run) => continue_run(world, start, session, &run),
            None => Ok(Verdict::Allow),
        },
    };
    verdict.unwrap_or_else(|error| {
        let fault = Fault::new(FaultKind::File, &describe_error(&error)).with_session(session);
        faults::record_fault(&world.home, &fault);
        Verdict::Allow
    })
}

/// Continues a run in its own session and reminds the agent, which may have lost its context. If the session was
/// reopened in another process, the run moves to that process.
fn continue_run(
    world: &World,
    start: &SessionStartEvent,
    session: &SessionId,
    run: &RunId,
) -> Result<Verdict, SessionEventError> {
    let seen = store::load_run(&world.home, run)?;
    if seen.state.owner(&seen.run) != Some(session)
        || matches!(seen.state.phase, RunPhase::Ended(_))
    {
        return Ok(Verdict::Allow);
    }
    let reopened = start.source != SessionStartSource::Compact
        && is_process_gone(&seen, host_env::host_process(&world.env));
    if reopened {
        let to = session.clone();
        write_unless_ended(
            world,
            run,
            RunChange::Moved {
                to,
                how: MoveReason::Reopened,
                process: host_env::host_process(&world.env),
                seen: 0,
            },
        )?;
    }
    if let RunPhase::Paused { .. } = seen.state.phase {
        let notice = format!("ralph: run {run} is paused; `/ralph:resume` continues it");
        return Ok(if reopened { Verdict::AllowWithNotice(notice) } else { Verdict::Allow });
    }
    let Some(context) = remind_once(world, run)? else { return Ok(Verdict::Allow) };
    let notice = reopened.then(|| {
        let most = seen.state.limits(&seen.run).max_iterations.map(|most| format!(" of {most}"));
        let iteration = format!("iteration {}{}", seen.state.iteration, most.unwrap_or_default());
        format!(
            "ralph: run {run} holds this session again, at {iteration}; `/ralph:cancel` ends the run"
        )
    });
    Ok(Verdict::AddContext { context, notice })
}

/// The reminder for the agent, or `None` if it was sent a moment ago.
fn remind_once(world: &World, run: &RunId) -> Result<Option<String>, SessionEventError> {
    let reminder = store::transact(&world.transaction(run), |now| {
        let just_now = now
            .state
            .anchored_ms
            .is_some_and(|then| clock::now_ms().saturating_sub(then) < DUPLICATE_HOOK_MS);
        if just_now && now.state.memory == AgentMemory::Whole {
            return TransactionStep::Leave(None);
        }
        let answer = Some(reminder::build_reminder(world, now));
        TransactionStep::Write {
            change: RunChange::Anchored,
            durability: Durability::Cached,
            answer,
        }
    })?;
    Ok(reminder)
}

/// Whether the run's process is gone, so that this session start takes over.
fn is_process_gone(opened: &LoadedRun, caller: Option<ProcessIdentity>) -> bool {
    match (opened.state.process, caller) {
        (Some(known), Some(caller)) if known == caller => false,
        (Some(known), _) => process_identity::check_liveness(&known) == Liveness::Dead,
        (None, _) => opened.state.phase == RunPhase::Orphaned,
    }
}

/// Moves a run to the session that `/clear` started, and pauses it there: a person who discards the conversation may
/// want something else.
fn move_after_clear(world: &World, session: &SessionId) -> Result<Verdict, SessionEventError> {
    let Some(process) = host_env::host_process(&world.env) else { return Ok(Verdict::Allow) };
    let path = world.home.cleared_session(&process);
    let Some(name) = fs::read_if_exists(&path, MAX_RUN_ID_BYTES)? else {
        return Ok(Verdict::Allow);
    };
    fs::remove_file(&path)?;
    let run = std::str::from_utf8(&name).ok().and_then(|name| RunId::parse(name.trim()));
    let Some(run) = run else {
        let what = format!(
            "`{}` does not name a run, so no run was moved to this session",
            path.display()
        );
        let fault = Fault::new(FaultKind::File, &what).with_session(session);
        faults::record_fault(&world.home, &fault);
        return Ok(Verdict::Allow);
    };
    let _lock = session_pointer::lock_session(&world.home, session, &world.step_deadline())
        .map_err(SessionPointerError::Lock)?;
    if session_pointer::read_pointer(&world.home, session)?.is_some() {
        return Ok(Verdict::Allow);
    }
    let before = store::transact(&world.transaction(&run), |now| match now.state.phase {
        RunPhase::Ended(_) => TransactionStep::Leave(None),
        RunPhase::Active | RunPhase::Paused { .. } | RunPhase::Orphaned => {
            let to = session.clone();
            let change =
                RunChange::Moved { to, how: MoveReason::Cleared, process: Some(process), seen: 0 };
            let answer = now.state.owner(&now.run).cloned();
            TransactionStep::Write { change, durability: Durability::Synced, answer }
        }
    })?;
    let Some(before) = before else { return Ok(Verdict::Allow) };
    session_pointer::write_pointer(&world.home, session, &SessionPointer::to_run(&run))?;
    session_pointer::mark_run_ended(&world.home, &before, &run, &world.step_deadline())?;
    Ok(Verdict::AllowWithNotice(format!(
        "ralph: run {run} is paused because the conversation was cleared; \
         `/ralph:resume` continues it here, `/ralph:cancel` ends it"
    )))
}

pub fn on_end(world: &World, end: &SessionEndEvent) -> Verdict {
    let Some(session) = &end.session else { return Verdict::Allow };
    let Some(run) = heartbeat::find_run_and_beat(world, session) else { return Verdict::Allow };
    let closed = handle_session_end(world, end, session, &run);
    if let Err(error) = closed {
        let fault = Fault::new(FaultKind::File, &describe_error(&error)).with_run(&run);
        faults::record_fault(&world.home, &fault);
    }
    Verdict::Allow
}

fn handle_session_end(
    world: &World,
    end: &SessionEndEvent,
    session: &SessionId,
    run: &RunId,
) -> Result<(), SessionEventError> {
    let seen = store::load_run(&world.home, run)?;
    if seen.state.owner(&seen.run) != Some(session) {
        return Ok(());
    }
    let news = transcript_reader::read_interruptions(world, end.transcript.as_deref(), &seen.state);
    if news.overridden {
        facts::record_override(world, session, run)?;
        return Ok(());
    }
    if end.reason == "clear"
        && prompts::is_from_client(world)
        && let Some(process) = host_env::host_process(&world.env)
    {
        let path = world.home.cleared_session(&process);
        if let Some(parent) = path.parent() {
            fs::create_private_dir(parent)?;
        }
        fs::replace(&path, run.as_str().as_bytes(), Durability::Cached)?;
    }
    Ok(())
}

pub fn on_compaction(world: &World, compaction: &CompactionEvent) -> Verdict {
    let Some(session) = &compaction.session else { return Verdict::Allow };
    let Some(run) = heartbeat::find_run_and_beat(world, session) else { return Verdict::Allow };
    let verdict = match &compaction.moment {
        CompactionMoment::Before => before_compaction(world, session, &run),
        CompactionMoment::After { summary } => after_compaction(world, session, &run, summary),
    };
    verdict.unwrap_or_else(|error| {
        let fault = Fault::new(FaultKind::File, &describe_error(&error)).with_run(&run);
        faults::record_fault(&world.home, &fault);
        Verdict::Allow
    })
}

/// Saves the reminder in a file before the context is lost, and asks for the run to be mentioned in the summary.
fn before_compaction(
    world: &World,
    session: &SessionId,
    run: &RunId,
) -> Result<Verdict, SessionEventError> {
    let reminder = store::transact(&world.transaction(run), |now| {
        let ours = now.state.owner(&now.run) == Some(session);
        match now.state.phase {
            RunPhase::Active if ours && now.state.memory == AgentMemory::Whole => {
                let answer = Some(reminder::build_reminder(world, now));
                TransactionStep::Write {
                    change: RunChange::Compacted,
                    durability: Durability::Cached,
                    answer,
                }
            }
            RunPhase::Active
            | RunPhase::Paused { .. }
            | RunPhase::Orphaned
            | RunPhase::Ended(_) => TransactionStep::Leave(None),
        }
    })?;
    let Some(reminder) = reminder else { return Ok(Verdict::Allow) };
    fs::replace(&world.home.run(run).handover(), reminder.as_bytes(), Durability::Cached)?;
    let context = format!("Keep in the summary that ralph holds this session (run {run}).\n");
    Ok(Verdict::AddContext { context, notice: None })
}

/// Records a fault if the agent was not reminded after a compaction, because no `SessionStart` event arrived. The next
/// block then repeats the full text.
fn after_compaction(
    world: &World,
    session: &SessionId,
    run: &RunId,
    summary: &str,
) -> Result<Verdict, SessionEventError> {
    let now = store::load_run(&world.home, run)?;
    let ours = now.state.owner(&now.run) == Some(session) && now.state.phase == RunPhase::Active;
    let known = now.state.memory == AgentMemory::Whole || summary.contains(run.as_str());
    if ours && !known {
        let what = format!(
            "the conversation of run {run} was compacted, and the agent was not reminded of the run: \
             is the hook registered for SessionStart?"
        );
        faults::record_fault(&world.home, &Fault::new(FaultKind::Input, &what).with_run(run));
    }
    Ok(Verdict::Allow)
}

fn write_unless_ended(
    world: &World,
    run: &RunId,
    change: RunChange,
) -> Result<(), SessionEventError> {
    let durability = Durability::Synced;
    store::transact(&world.transaction(run), |now| match now.state.phase {
        RunPhase::Ended(_) => TransactionStep::Leave(()),
        RunPhase::Active | RunPhase::Paused { .. } | RunPhase::Orphaned => {
            TransactionStep::Write { change, durability, answer: () }
        }
    })?;
    Ok(())
}
