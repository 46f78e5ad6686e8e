//! Dispatches one hook event: parses stdin, finds the run that owns the session, and renders the verdict.
//!
//! Each kind of event has a module of its own (`stop`, `prompts`, `sessions`, `tools`, `agents`). Only routing and
//! error handling belong here.

use crate::held::{self, Scene};
use crate::prompts::Spoken;
use crate::session_owner::{self, SessionOwner};
use crate::{agents, driven, heard, prompts, sessions, surroundings, tools};
use ralph_core::event::{Event, Stop, StopFailure};
use ralph_core::id::{RunId, SessionId};
use ralph_core::record::Change;
use ralph_core::verdict::Verdict;
use ralph_home::faults::{self, Fault, Kind};
use ralph_home::session_pointer::{self, Ended, Pointer};
use ralph_home::store::{self, Opened, Step, StoreError};
use ralph_home::world::World;
use ralph_host::{Host, Reply, Style};
use ralph_sys::fs::Durability;

/// One invocation of the hook: the host that made it, and the reply style it expects.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    pub host: Host,
    pub style: Style,
    /// Executes a ralph command that a person typed as a prompt.
    pub person: fn(&World, &Spoken<'_>) -> Verdict,
}

/// Handles one event. Malformed input is recorded as a fault and never blocks the agent.
pub fn run(world: &World, call: Call, input: &[u8]) -> Reply {
    match call.host.parse(input) {
        Ok(event) => {
            let verdict =
                if world.env.is_off() { Verdict::Allow } else { answer(world, &call, &event) };
            call.host.render(call.style, event.occasion(), &verdict)
        }
        Err(malformed) => {
            let what = format!("the event on stdin could not be read: {}", malformed.why);
            faults::record(&world.home, &Fault::new(Kind::Input, &what));
            Reply::default()
        }
    }
}

fn answer(world: &World, call: &Call, event: &Event) -> Verdict {
    if world.driven.is_none() && driven::is_answered(world, event.session()) {
        return Verdict::Allow;
    }
    match event {
        Event::Stop(stop) => on_stop(world, stop),
        Event::StopFailure(failure) => on_failure(world, failure),
        Event::Prompt(prompt) => prompts::on(world, call, prompt),
        Event::SessionStart(start) => sessions::on_start(world, start),
        Event::SessionEnd(end) => sessions::on_end(world, end),
        Event::Compaction(compaction) => sessions::on_compaction(world, compaction),
        Event::ToolCall(call) => tools::on_call(world, call),
        Event::ToolDone(done) => tools::on_done(world, done),
        Event::SubagentStop(stop) => agents::on_subagent(world, stop),
        Event::Task(task) => agents::on_task(world, task),
        Event::Idle(idle) => agents::on_idle(world, idle),
        Event::Noted(_) | Event::Unknown => Verdict::Allow,
    }
}

fn on_stop(world: &World, stop: &Stop) -> Verdict {
    let Some(session) = &stop.session else {
        return Verdict::Allow;
    };
    match session_owner::find_owner(world, stop, session) {
        SessionOwner::Nothing => Verdict::Allow,
        SessionOwner::Files => held::by_files(world, stop, session),
        SessionOwner::Unreadable(what) => {
            Verdict::AllowNoting(format!("ralph: this session is no longer held: {what}"))
        }
        SessionOwner::Run(run) => {
            world.in_hand.get_or_init(|| run.clone());
            heard::note(&world.home, &run);
            held::by_run(&Scene { world, stop, session, run: &run })
                .unwrap_or_else(|error| let_go(world, session, &run, &error))
        }
    }
}

fn on_failure(world: &World, failure: &StopFailure) -> Verdict {
    let (Some(session), None) = (&failure.session, &failure.agent) else {
        return Verdict::Allow;
    };
    match session_pointer::pointer(&world.home, session) {
        Ok(Some(Pointer { run, ended: Ended::No, .. })) => {
            let change = Change::Trouble { class: failure.class.name().to_string() };
            let durability = Durability::Cached;
            let step = |_: &Opened| Step::Write { change, durability, answer: () };
            if let Err(error) = store::transact(&world.on(&run), step) {
                surroundings::trouble(world, &run, &error);
            }
            Verdict::Allow
        }
        Ok(Some(Pointer { ended: Ended::Yes, .. }) | None) => Verdict::Allow,
        Err(error) => {
            let fault = Fault::new(Kind::File, &faults::describe(&error)).of_session(session);
            faults::record(&world.home, &fault);
            Verdict::Allow
        }
    }
}

/// After an error of ralph's own the agent may stop. The error is shown to the person, and the run is not marked
/// verified.
fn let_go(world: &World, session: &SessionId, run: &RunId, error: &StoreError) -> Verdict {
    surroundings::trouble(world, run, error);
    if let StoreError::NoSuchRun(_) = error {
        ralph_home::session_pointer::end_session(world, session, run);
    }
    Verdict::AllowNoting(format!(
        "ralph: run {run} let the agent stop without a verdict: {}",
        faults::describe(error)
    ))
}
