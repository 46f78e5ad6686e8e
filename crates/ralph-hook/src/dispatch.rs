//! Dispatches one hook event: parses stdin, finds the run that owns the session, and renders the verdict.
//!
//! Each kind of event has a module of its own (`stop`, `prompts`, `sessions`, `tools`, `agents`). Only routing and
//! error handling belong here.

use crate::prompts::CommandRequest;
use crate::session_owner::{self, SessionOwner};
use crate::stop::{self, StopContext};
use crate::{agents, facts, heartbeat, prompts, runner, session_gates, sessions, tools};
use ralph_core::event::{HookEvent, StopEvent, StopFailureEvent};
use ralph_core::id::{RunId, SessionId};
use ralph_core::record::RunChange;
use ralph_core::verdict::Verdict;
use ralph_home::faults::{self, Fault, FaultKind};
use ralph_home::session_pointer::{self, SessionPointer};
use ralph_home::store::{self, LoadedRun, StoreError, TransactionStep};
use ralph_home::world::World;
use ralph_host::{BlockStyle, HookReply};
use ralph_sys::fs::Durability;

/// One invocation of the hook by the host of the [`World`].
#[derive(Clone, Copy, Debug)]
pub struct HookCall {
    pub style: BlockStyle,
    /// Executes a ralph command that a person typed as a prompt.
    pub execute_command: fn(&World, &CommandRequest<'_>) -> Verdict,
}

/// Handles one event. Malformed input is recorded as a fault and never blocks the agent.
pub fn handle_event(world: &World, call: HookCall, input: &[u8]) -> HookReply {
    match (world.host.parse_event)(input) {
        Ok(event) => {
            let verdict = if world.env.is_ralph_off() {
                Verdict::Allow
            } else {
                dispatch_event(world, &call, &event)
            };
            (world.host.render_verdict)(call.style, event.occasion(), &verdict)
        }
        Err(malformed) => {
            let what = format!("the event on stdin could not be read: {}", malformed.why);
            faults::record_fault(&world.home, &Fault::new(FaultKind::Input, &what));
            HookReply::default()
        }
    }
}

fn dispatch_event(world: &World, call: &HookCall, event: &HookEvent) -> Verdict {
    if world.driven.is_none() && runner::is_runner_session(world, event.session()) {
        return Verdict::Allow;
    }
    match event {
        HookEvent::Stop(stop) => on_stop(world, stop),
        HookEvent::StopFailure(failure) => on_stop_failure(world, failure),
        HookEvent::Prompt(prompt) => prompts::on_prompt(world, call, prompt),
        HookEvent::SessionStart(start) => sessions::on_start(world, start),
        HookEvent::SessionEnd(end) => sessions::on_end(world, end),
        HookEvent::Compaction(compaction) => sessions::on_compaction(world, compaction),
        HookEvent::ToolCall(call) => tools::on_call(world, call),
        HookEvent::ToolDone(done) => tools::on_done(world, done),
        HookEvent::SubagentStop(stop) => agents::on_subagent(world, stop),
        HookEvent::Task(task) => agents::on_task(world, task),
        HookEvent::Idle(idle) => agents::on_idle(world, idle),
        HookEvent::Ignored(_) | HookEvent::Unknown => Verdict::Allow,
    }
}

fn on_stop(world: &World, stop: &StopEvent) -> Verdict {
    let Some(session) = &stop.session else {
        return Verdict::Allow;
    };
    match session_owner::find_owner(world, stop, session) {
        SessionOwner::Nothing => session_gates::stop_verdict(world, stop, session),
        SessionOwner::Files => stop::files_verdict(world, stop, session),
        SessionOwner::UnapprovedLoop(notice) => Verdict::AllowWithNotice(notice),
        SessionOwner::Unreadable(what) => {
            Verdict::AllowWithNotice(format!("ralph: this session is no longer held: {what}"))
        }
        SessionOwner::Run(run) => {
            world.current_run.get_or_init(|| run.clone());
            heartbeat::record_heartbeat(&world.home, &run);
            stop::run_verdict(&StopContext { world, stop, session, run: &run, listing: None })
                .unwrap_or_else(|error| allow_after_error(world, session, &run, &error))
        }
    }
}

fn on_stop_failure(world: &World, failure: &StopFailureEvent) -> Verdict {
    let (Some(session), None) = (&failure.session, &failure.agent) else {
        return Verdict::Allow;
    };
    match session_pointer::read_pointer(&world.home, session) {
        Ok(Some(SessionPointer { run, ended: false, .. })) => {
            let change = RunChange::Trouble { class: failure.class.name().to_string() };
            let durability = Durability::Cached;
            let step = |_: &LoadedRun| TransactionStep::Write { change, durability, answer: () };
            if let Err(error) = store::transact(&world.transaction(&run), step) {
                facts::record_run_fault(world, &run, &error);
            }
            Verdict::Allow
        }
        Ok(Some(SessionPointer { ended: true, .. }) | None) => Verdict::Allow,
        Err(error) => {
            let fault =
                Fault::new(FaultKind::File, &faults::describe_error(&error)).with_session(session);
            faults::record_fault(&world.home, &fault);
            Verdict::Allow
        }
    }
}

/// After an error of ralph's own the agent may stop. The error is shown to the person, and the run is not marked
/// verified.
fn allow_after_error(
    world: &World,
    session: &SessionId,
    run: &RunId,
    error: &StoreError,
) -> Verdict {
    facts::record_run_fault(world, run, error);
    if let StoreError::NoSuchRun(_) = error {
        ralph_home::session_pointer::end_session(world, session, run);
    }
    Verdict::AllowWithNotice(format!(
        "ralph: run {run} let the agent stop without a verdict: {}",
        faults::describe_error(error)
    ))
}
