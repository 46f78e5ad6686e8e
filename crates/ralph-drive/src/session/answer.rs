//! Answers to hook callbacks. The decision is made by the same code as for any hook. It runs on a thread of its own,
//! because gates take time and subagents run in parallel.

use crate::wire;
use ralph_core::decide::Decision;
use ralph_core::event::{Event, Occasion, Stop};
use ralph_core::id::RunId;
use ralph_core::verdict::Verdict;
use ralph_home::world::World;
use ralph_hook::driven;
use ralph_hook::pipeline::{self, Call};
use ralph_hook::prompts::Spoken;
use ralph_host::{Host, Reply, Style};
use serde_json::json;

/// The hook events with a callback. Prompts have none, because only the runner sends them.
pub(super) const EVENTS: [&str; 9] = [
    "Stop",
    "SubagentStop",
    "TaskCompleted",
    "TeammateIdle",
    "TaskCreated",
    "StopFailure",
    "SessionStart",
    "PreToolUse",
    "PostCompact",
];
/// In seconds, longer than any gate may take. The client's default is ten minutes.
const TIMEOUT: u32 = 90_000;

pub(super) fn hooks() -> Vec<wire::Hook<'static>> {
    let hook =
        |event| wire::Hook { event, matcher: None, callback: event, timeout_s: Some(TIMEOUT) };
    EVENTS.into_iter().map(hook).collect()
}

/// The result of a callback.
#[derive(Debug)]
pub(super) struct Answer {
    pub request: String,
    /// The line to send to the client.
    pub line: Vec<u8>,
    /// Only for a stop of the main agent.
    pub decision: Option<Decision>,
    pub stop: Option<Box<Stop>>,
    pub what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Stop,
    Other,
}

/// The kind of a callback, from its id.
pub(super) fn kind(callback: &str) -> What {
    match callback {
        "Stop" => What::Stop,
        _ => What::Other,
    }
}

pub(super) fn answer(world: &World, run: &RunId, request: String, input: &str) -> Answer {
    let Ok(Event::Stop(stop)) = Host::Claude.parse(input.as_bytes()) else {
        let call = Call { host: Host::Claude, style: Style::Context, person: nobody };
        let reply = pipeline::run(world, call, input.as_bytes());
        let line = wire::answer(&request, &body(&reply));
        return Answer { request, line, decision: None, stop: None, what: What::Other };
    };
    let (verdict, decision) = match driven::decide(world, run, &stop) {
        Ok(decision) => (decision.verdict.clone(), Some(decision)),
        Err(error) => (driven::let_go(world, run, &error), None),
    };
    let reply = Host::Claude.render(Style::Context, Occasion::Stop, &verdict);
    let line = wire::answer(&request, &body(&reply));
    Answer { request, line, decision, stop: Some(Box::new(stop)), what: What::Stop }
}

/// No person types in a session that a runner drives.
fn nobody(_: &World, _: &Spoken<'_>) -> Verdict {
    Verdict::Allow
}

/// Converts a command hook's reply into the JSON object of a callback's answer.
fn body(reply: &Reply) -> Vec<u8> {
    if reply.exit == 2 {
        let reason = String::from_utf8_lossy(&reply.stderr);
        return json!({ "decision": "block", "reason": reason.trim_end() })
            .to_string()
            .into_bytes();
    }
    reply.stdout.clone()
}
