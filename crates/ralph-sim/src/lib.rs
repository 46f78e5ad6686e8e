//! Simulates the agent's client (the host) offline: runs hooks the way the client does, and serves a scripted model to
//! the real client.
//!
//! ```text
//! scenario file ─ scenario ─▶ Scenario ─ scratch ─▶ a scratch home and project
//!                                │
//!              ┌─────────────────┴──────────────────┐
//!              ▼                                    ▼
//!   simulator: the simulated client      real_client: the real one, with `server` as its model
//!              │                                    │
//!              └───────────▶ timeline ◀─────────────┘
//!                               │
//!                           mismatch: unmet expectations
//! ```
//!
//! `fake_client` is a second fake client, for code that drives one: it speaks the client's side of stream-json, plays
//! the same scenarios, and runs hooks by callback. `client_rules` has the behavior that both fake clients share.
//!
//! `runner_play` runs `ralph run` itself, with either the real client or the fake one, through a whole scenario.
//!
//! No type here is shared with `ralph-core`: this crate is the other side of the wire, and a mistake about the client
//! that both sides share would stay invisible.

pub mod client_ids;
mod client_rules;
pub mod fake_client;
pub mod hook_answer;
pub mod hook_settings;
pub mod matcher;
pub mod mismatch;
pub mod model_answer;
pub mod real_client;
pub mod record;
pub mod replay;
pub mod runner_play;
pub mod scenario;
pub mod scratch;
pub mod script;
pub mod server;
pub mod simulator;
mod split_mix;
pub mod timeline;
pub mod transcript;
