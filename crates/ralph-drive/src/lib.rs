//! The runner: starts an agent headless and drives one run over as many sessions as it takes. Stops are held inside a
//! session, and work is handed over to a fresh session before the context is full, with one contract, one set of
//! counters and one budget.
//!
//! ```text
//! agent's stream ─ ralph-host ─▶ StreamLine ─▶ session: hook callback? ─ ralph-hook decides ─▶ answer, in-band
//!                                           │ result, exit, silence
//!                                           ▼
//!                            turn_ending ─▶ run_loop: message · fresh session · verify · wait · park · end
//! ```
//!
//! Nothing here prints. A [`RunWatcher`](run_event::RunWatcher) receives every [`RunEvent`](run_event::RunEvent) and
//! decides how to show it.

pub mod agent;
pub mod backoff;
pub mod call_summary;
pub mod forge;
pub mod issues;
pub mod meter;
pub mod planning;
pub mod queue;
mod run_context;
pub mod run_event;
mod run_loop;
mod session;
pub mod session_prompts;
mod stop_requests;
pub mod turn_ending;

pub use run_loop::{DriveError, DrivePlan, drive};
pub use session::SessionError;
pub use stop_requests::{StopRequest, StopRequests};
