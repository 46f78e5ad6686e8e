//! Answers to hook callbacks. The decision is made by the same code as for any hook. It runs on a thread of its own,
//! because gates take time and subagents run in parallel.

use ralph_core::decide::StopDecision;
use ralph_core::event::{HookEvent, ReplyOccasion, StopEvent};
use ralph_core::id::RunId;
use ralph_core::verdict::Verdict;
use ralph_home::world::World;
use ralph_hook::dispatch::{self, HookCall};
use ralph_hook::prompts::CommandRequest;
use ralph_hook::runner;
use ralph_host::BlockStyle;

/// The result of a callback.
#[derive(Debug)]
pub(super) struct CallbackAnswer {
    pub request: String,
    /// The line to send to the client.
    pub line: Vec<u8>,
    /// Only for a stop of the main agent.
    pub decision: Option<StopDecision>,
    pub stop: Option<Box<StopEvent>>,
    pub what: CallbackKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallbackKind {
    Stop,
    Other,
}

pub(super) fn answer_callback(
    world: &World,
    run: &RunId,
    request: String,
    input: &str,
) -> CallbackAnswer {
    let Ok(HookEvent::Stop(stop)) = (world.host.parse_event)(input.as_bytes()) else {
        let call = HookCall { style: BlockStyle::Context, execute_command: no_person };
        let reply = dispatch::handle_event(world, call, input.as_bytes());
        let line = (world.host.stream.hook_answer)(&request, &reply);
        return CallbackAnswer {
            request,
            line,
            decision: None,
            stop: None,
            what: CallbackKind::Other,
        };
    };
    let (verdict, decision) = match runner::decide_driven_stop(world, run, &stop) {
        Ok(decision) => (decision.verdict.clone(), Some(decision)),
        Err(error) => (runner::allow_after_runner_error(world, run, &error), None),
    };
    let reply = (world.host.render_verdict)(BlockStyle::Context, ReplyOccasion::Stop, &verdict);
    let line = (world.host.stream.hook_answer)(&request, &reply);
    CallbackAnswer { request, line, decision, stop: Some(Box::new(stop)), what: CallbackKind::Stop }
}

/// No person types in a session that a runner drives.
fn no_person(_: &World, _: &CommandRequest<'_>) -> Verdict {
    Verdict::Allow
}
