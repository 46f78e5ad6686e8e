//! Tool calls: a sign of life, and a seat belt around what an agent may not touch.

use crate::heard;
use crate::world::World;
use ralph_core::event::{ToolCall, ToolDone};
use ralph_core::verdict::Verdict;

pub fn on_call(world: &World, call: &ToolCall) -> Verdict {
    let Some(session) = &call.session else { return Verdict::Allow };
    heard::run_of(world, session);
    Verdict::Allow
}

pub fn on_done(world: &World, done: &ToolDone) -> Verdict {
    let Some(session) = &done.session else { return Verdict::Allow };
    heard::run_of(world, session);
    Verdict::Allow
}
