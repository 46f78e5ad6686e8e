//! The runner: starts an agent headless and drives one run over as many sessions as it takes. Stops are held inside a
//! session, and work is handed over to a fresh session before the context is full, with one contract, one set of
//! counters and one budget.
//!
//! ```text
//! agent's stream ─ wire ─▶ StreamLine ─▶ session: hook callback? ─ ralph-hook decides ─▶ answer, in-band
//!                                           │ result, exit, silence
//!                                           ▼
//!                            turn_ending ─▶ run_loop: message · fresh session · verify · wait · park · end
//! ```
//!
//! Nothing here prints. A [`RunWatcher`](run_event::RunWatcher) receives every [`RunEvent`](run_event::RunEvent) and
//! decides how to show it.

pub mod agent;
pub mod ending;
pub mod forge;
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
