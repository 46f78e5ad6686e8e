//! Session start, session end and compaction.
//!
//! A run can move to another session or process here. Each way of moving has its own rule, and every move is recorded
//! in the journal.

use crate::anchored;
use crate::heard;
use crate::observe;
use crate::prompts;
use crate::surroundings;
use ralph_core::event::{Compaction, CompactionMoment, SessionEnd, SessionStart, Source};
use ralph_core::id::{RunId, SessionId};
use ralph_core::record::{Change, Move, Process, VERSION};
use ralph_core::run::{Memory, Phase};
use ralph_core::verdict::Verdict;
use ralph_home::faults::{self, Fault, Kind, describe};
use ralph_home::session_pointer::{self, Ended, HolderError, Pointer};
use ralph_home::store::{self, Opened, Step, StoreError};
use ralph_home::world::World;
use ralph_sys::clock;
use ralph_sys::fs::{self, Durability, FileError};
use ralph_sys::owner::{self, Alive};

const LARGEST_NAME: usize = 256;

/// A hook registered twice is called twice within this time; only the first call sends the reminder.
const AT_ONCE_MS: u64 = 10_000;

#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    SessionOwner(#[from] HolderError),
    #[error(transparent)]
    File(#[from] FileError),
}

pub fn on_start(world: &World, start: &SessionStart) -> Verdict {
    let Some(session) = &start.session else { return Verdict::Allow };
    let verdict = match start.source {
        // A fork is not held: the run stays with the original session.
        Source::Fork => Ok(Verdict::Allow),
        Source::Clear if prompts::is_roundabout(world) => Ok(Verdict::Allow),
        Source::Clear => follow(world, session),
        Source::Startup | Source::Resume | Source::Compact | Source::Unknown => {
            match heard::run_of(world, session) {
                Some(run) => again(world, start, session, &run),
                None => Ok(Verdict::Allow),
            }
        }
    };
    verdict.unwrap_or_else(|error| {
        let fault = Fault::new(Kind::File, &describe(&error)).of_session(session);
        faults::record(&world.home, &fault);
        Verdict::Allow
    })
}

/// Continues a run in its own session and reminds the agent, which may have lost its context. If the session was
/// reopened in another process, the run moves to that process.
fn again(
    world: &World,
    start: &SessionStart,
    session: &SessionId,
    run: &RunId,
) -> Result<Verdict, Trouble> {
    let seen = store::load(&world.home, run)?;
    if seen.state.owner(&seen.run) != Some(session) || matches!(seen.state.phase, Phase::Ended(_)) {
        return Ok(Verdict::Allow);
    }
    let reopened = start.source != Source::Compact && is_left(&seen, caller(world));
    if reopened {
        let to = session.clone();
        write(
            world,
            run,
            Change::Moved { to, how: Move::Reopened, process: caller(world), seen: 0 },
        )?;
    }
    if let Phase::Paused { .. } = seen.state.phase {
        let notice = format!("ralph: run {run} is paused; `/ralph:resume` continues it");
        return Ok(if reopened { Verdict::AllowNoting(notice) } else { Verdict::Allow });
    }
    let Some(context) = tell_once(world, run)? else { return Ok(Verdict::Allow) };
    let notice = reopened.then(|| {
        let most = seen.state.limits(&seen.run).max_iterations.map(|most| format!(" of {most}"));
        let iteration = format!("iteration {}{}", seen.state.iteration, most.unwrap_or_default());
        format!(
            "ralph: run {run} holds this session again, at {iteration}; `/ralph:cancel` ends the run"
        )
    });
    Ok(Verdict::Tell { context, notice })
}

/// The reminder for the agent, or `None` if it was sent a moment ago.
fn tell_once(world: &World, run: &RunId) -> Result<Option<String>, Trouble> {
    let reminder = store::transact(&world.on(run), |now| {
        let just_now = now
            .state
            .anchored_ms
            .is_some_and(|then| clock::now_ms().saturating_sub(then) < AT_ONCE_MS);
        if just_now && now.state.memory == Memory::Whole {
            return Step::Leave(None);
        }
        let answer = Some(anchored::text(world, now));
        Step::Write { change: Change::Anchored, durability: Durability::Cached, answer }
    })?;
    Ok(reminder)
}

/// Whether the run's process is gone, so that this session start takes over.
fn is_left(opened: &Opened, caller: Option<Process>) -> bool {
    match (opened.state.process, caller) {
        (Some(known), Some(caller)) if known == caller => false,
        (Some(known), _) => owner::is_alive(&known) == Alive::No,
        (None, _) => opened.state.phase == Phase::Orphaned,
    }
}

fn caller(world: &World) -> Option<Process> {
    owner::mark(world.env.claude_pid()?)
}

/// Moves a run to the session that `/clear` started, and pauses it there: a person who discards the conversation may
/// want something else.
fn follow(world: &World, session: &SessionId) -> Result<Verdict, Trouble> {
    let Some(process) = caller(world) else { return Ok(Verdict::Allow) };
    let path = world.home.cleared(&process);
    let Some(name) = fs::read_opt(&path, LARGEST_NAME)? else { return Ok(Verdict::Allow) };
    fs::remove_file(&path)?;
    let run = std::str::from_utf8(&name).ok().and_then(|name| RunId::parse(name.trim()));
    let Some(run) = run else { return Ok(Verdict::Allow) };
    let _lock = session_pointer::lock(&world.home, session, &world.deadline())
        .map_err(HolderError::Lock)?;
    if session_pointer::pointer(&world.home, session)?.is_some() {
        return Ok(Verdict::Allow);
    }
    let before = store::transact(&world.on(&run), |now| match now.state.phase {
        Phase::Ended(_) => Step::Leave(None),
        Phase::Active | Phase::Paused { .. } | Phase::Orphaned => {
            let to = session.clone();
            let change = Change::Moved { to, how: Move::Cleared, process: Some(process), seen: 0 };
            let answer = now.state.owner(&now.run).cloned();
            Step::Write { change, durability: Durability::Synced, answer }
        }
    })?;
    let Some(before) = before else { return Ok(Verdict::Allow) };
    session_pointer::point(
        &world.home,
        session,
        &Pointer { v: VERSION, run: run.clone(), ended: Ended::No },
    )?;
    session_pointer::end(&world.home, &before, &run, &world.deadline())?;
    Ok(Verdict::AllowNoting(format!(
        "ralph: run {run} is paused because the conversation was cleared; \
         `/ralph:resume` continues it here, `/ralph:cancel` ends it"
    )))
}

pub fn on_end(world: &World, end: &SessionEnd) -> Verdict {
    let Some(session) = &end.session else { return Verdict::Allow };
    let Some(run) = heard::run_of(world, session) else { return Verdict::Allow };
    let closed = close(world, end, session, &run);
    if let Err(error) = closed {
        let fault = Fault::new(Kind::File, &describe(&error)).of_run(&run);
        faults::record(&world.home, &fault);
    }
    Verdict::Allow
}

fn close(world: &World, end: &SessionEnd, session: &SessionId, run: &RunId) -> Result<(), Trouble> {
    let seen = store::load(&world.home, run)?;
    if seen.state.owner(&seen.run) != Some(session) {
        return Ok(());
    }
    let news = observe::news(world, end.transcript.as_deref(), &seen.state);
    if news.overridden {
        surroundings::overridden(world, session, run)?;
        return Ok(());
    }
    if end.reason == "clear"
        && !prompts::is_roundabout(world)
        && let Some(process) = caller(world)
    {
        let path = world.home.cleared(&process);
        if let Some(parent) = path.parent() {
            fs::create_dir(parent)?;
        }
        fs::replace(&path, run.as_str().as_bytes(), Durability::Cached)?;
    }
    Ok(())
}

pub fn on_compaction(world: &World, compaction: &Compaction) -> Verdict {
    let Some(session) = &compaction.session else { return Verdict::Allow };
    let Some(run) = heard::run_of(world, session) else { return Verdict::Allow };
    let verdict = match &compaction.moment {
        CompactionMoment::Before => before_compaction(world, session, &run),
        CompactionMoment::After { summary } => after_compaction(world, session, &run, summary),
    };
    verdict.unwrap_or_else(|error| {
        let fault = Fault::new(Kind::File, &describe(&error)).of_run(&run);
        faults::record(&world.home, &fault);
        Verdict::Allow
    })
}

/// Saves the reminder in a file before the context is lost, and asks for the run to be mentioned in the summary.
fn before_compaction(world: &World, session: &SessionId, run: &RunId) -> Result<Verdict, Trouble> {
    let reminder = store::transact(&world.on(run), |now| {
        let ours = now.state.owner(&now.run) == Some(session);
        match now.state.phase {
            Phase::Active if ours && now.state.memory == Memory::Whole => {
                let answer = Some(anchored::text(world, now));
                Step::Write { change: Change::Compacted, durability: Durability::Cached, answer }
            }
            Phase::Active | Phase::Paused { .. } | Phase::Orphaned | Phase::Ended(_) => {
                Step::Leave(None)
            }
        }
    })?;
    let Some(reminder) = reminder else { return Ok(Verdict::Allow) };
    fs::replace(&world.home.run(run).handoff(), reminder.as_bytes(), Durability::Cached)?;
    let context = format!("Keep in the summary that ralph holds this session (run {run}).\n");
    Ok(Verdict::Tell { context, notice: None })
}

/// Records a fault if the agent was not reminded after a compaction, because no `SessionStart` event arrived. The next
/// block then repeats the full text.
fn after_compaction(
    world: &World,
    session: &SessionId,
    run: &RunId,
    summary: &str,
) -> Result<Verdict, Trouble> {
    let now = store::load(&world.home, run)?;
    let ours = now.state.owner(&now.run) == Some(session) && now.state.phase == Phase::Active;
    let known = now.state.memory == Memory::Whole || summary.contains(run.as_str());
    if ours && !known {
        let what = format!(
            "the conversation of run {run} was compacted, and the agent was not reminded of the run: \
             is the hook registered for SessionStart?"
        );
        faults::record(&world.home, &Fault::new(Kind::Input, &what).of_run(run));
    }
    Ok(Verdict::Allow)
}

fn write(world: &World, run: &RunId, change: Change) -> Result<(), Trouble> {
    let durability = Durability::Synced;
    store::transact(&world.on(run), |now| match now.state.phase {
        Phase::Ended(_) => Step::Leave(()),
        Phase::Active | Phase::Paused { .. } | Phase::Orphaned => {
            Step::Write { change, durability, answer: () }
        }
    })?;
    Ok(())
}
