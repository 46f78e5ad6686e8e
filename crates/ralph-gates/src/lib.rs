//! Runs gates, caches their results and reads the findings of other tools.

pub mod ci;
pub mod command_place;
pub mod environment;
pub mod findings;
pub mod gates;
pub mod script_call;
pub mod test_runner;
