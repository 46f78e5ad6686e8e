//! Generates ids in the formats that the client uses.

use crate::transcript::Ids;
use ralph_sys::clock;

/// A random UUID, the client's format for session and prompt ids.
pub fn uuid() -> String {
    Ids::random().uuid()
}

/// A random subagent id.
pub fn agent() -> String {
    Ids::random().agent()
}

/// A random id for a background command.
pub fn task() -> String {
    format!("b{}", eight())
}

/// A random id for a teammate in the list of background tasks.
pub fn teammate() -> String {
    format!("t{}", eight())
}

fn eight() -> String {
    format!("{:08x}", clock::nonce() & 0xffff_ffff)
}
