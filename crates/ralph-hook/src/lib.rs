//! Handles one hook event: dispatch, evidence, decision, record.

pub mod adopt;
pub mod aftermath;
pub mod agents;
pub mod anchored;
pub mod contract;
pub mod control;
pub mod driven;
pub mod heard;
pub mod held;
pub mod notify;
pub mod observe;
pub mod orchestrator;
pub mod overview;
pub mod pipeline;
pub mod prompts;
pub mod rehearsal;
pub mod session_owner;
pub mod sessions;
pub mod sources;
pub mod stages;
pub mod succession;
pub mod surroundings;
pub mod tools;
pub mod trail;
pub mod verify;
pub mod words;
