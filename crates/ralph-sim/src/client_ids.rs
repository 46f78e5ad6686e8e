//! Generates ids in the formats that the client uses.

use crate::transcript::IdGenerator;
use ralph_sys::clock;

/// A random UUID, the client's format for session and prompt ids.
pub fn new_uuid() -> String {
    IdGenerator::random().uuid()
}

/// A random subagent id.
pub fn new_agent_id() -> String {
    IdGenerator::random().agent_id()
}

/// A random id for a background command.
pub fn new_task_id() -> String {
    format!("b{}", eight_hex_digits())
}

/// A random id for a teammate in the list of background tasks.
pub fn new_teammate_id() -> String {
    format!("t{}", eight_hex_digits())
}

fn eight_hex_digits() -> String {
    format!("{:08x}", clock::nonce() & 0xffff_ffff)
}
