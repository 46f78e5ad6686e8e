//! State on disk: paths, journal, run store, session owners, faults, spending ledger, lessons.

pub mod client_cost;
pub mod faults;
pub mod goal_file;
pub mod host_env;
pub mod journal;
pub mod learning_file;
pub mod ledger;
pub mod lesson_store;
pub mod paths;
pub mod run_outline;
pub mod run_process;
pub mod session_pointer;
pub mod store;
pub mod world;
