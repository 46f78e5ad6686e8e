//! Handles one hook event: dispatch, evidence, decision, record.

pub mod adjustments;
pub mod adopt;
pub mod agents;
pub mod contract;
pub mod control;
pub mod dispatch;
pub mod facts;
pub mod follow_up;
pub mod heartbeat;
pub mod notify;
pub mod overview;
pub mod phases;
pub mod prompts;
pub mod quality_gate_view;
pub mod rehearsal;
pub mod reminder;
pub mod resume_session;
pub mod run_output;
pub mod runner;
pub mod session_owner;
pub mod sessions;
pub mod sources;
pub mod stop;
pub mod tools;
pub mod transcript_reader;
pub mod verify;
