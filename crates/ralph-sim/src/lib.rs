//! The host in a box: what an agent's client does with hooks, offline, and a scripted model that the real client can
//! talk to.
//!
//! ```text
//! scenario file ─ scenario ─▶ Scenario ─ stage ─▶ a scratch home and project
//!                                │
//!              ┌─────────────────┴──────────────────┐
//!              ▼                                    ▼
//!   query: the simulated client         client: the real one, whose model is `server`
//!              │                                    │
//!              └───────────▶ timeline ◀─────────────┘
//!                               │
//!                            check: what did not come true
//! ```
//!
//! `pretend` is the client once more, for whoever drives one: it speaks the client's side of stream-json from the same
//! scenarios, and asks hooks by callback.
//!
//! `runner` plays `ralph run` itself: it drives the real client, or the pretended one, through a whole scenario.
//!
//! Nothing here shares a type with `ralph-core`: it is the other side of the wire.

pub mod answer;
pub mod check;
pub mod client;
pub mod id;
pub mod matcher;
pub mod pretend;
pub mod query;
pub mod record;
pub mod replay;
pub mod runner;
pub mod scenario;
pub mod script;
pub mod server;
pub mod settings;
pub mod stage;
pub mod timeline;
pub mod transcript;
pub mod wire;
