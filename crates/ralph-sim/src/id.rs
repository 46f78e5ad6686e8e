//! Names that the client makes up.

use crate::transcript::Ids;
use ralph_exec::clock;

/// A random UUID, as the client names sessions and prompts.
pub fn uuid() -> String {
    Ids::random().uuid()
}

/// As the client names subagents.
pub fn agent() -> String {
    Ids::random().agent()
}

/// As the client names commands in the background.
pub fn task() -> String {
    format!("b{}", eight())
}

/// As the client names teammates among the work in the background.
pub fn teammate() -> String {
    format!("t{}", eight())
}

fn eight() -> String {
    format!("{:08x}", clock::nonce() & 0xffff_ffff)
}
