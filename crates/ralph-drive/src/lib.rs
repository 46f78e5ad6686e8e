//! Drives agents. One run goes on over as many sessions as it takes: held inside a session, handed over before the
//! context is full, with one contract, one set of counters and one budget.
//!
//! ```text
//! agent's stream ─ wire ─▶ Line ─▶ session: a hook callback? ─ ralph-exec's pipeline decides ─▶ answer, in-band
//!                                     │ a result, an end, silence
//!                                     ▼
//!                                  ending ─▶ night: say on · fresh session · look · wait · park · over
//! ```
//!
//! Nothing here draws: whoever watches is told what happened ([`told::Told`]).

pub mod agent;
pub mod ending;
pub mod handoff;
pub mod meter;
mod night;
pub mod queue;
#[cfg(test)]
mod recorded;
mod ride;
mod session;
pub mod told;
pub mod weather;
pub mod wire;
mod wishes;

pub use night::{DriveError, Plan, drive};
pub use session::SessionError;
pub use wishes::{Wish, Wishes};
