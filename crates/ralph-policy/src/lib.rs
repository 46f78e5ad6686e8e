//! `ralph.toml`: reading and merging its layers, validation, approval by a person, and proposals for a new project.
//!
//! Running the gates is not here; see `ralph-gates`.

pub mod config;
pub mod detect;
pub mod notify_config;
pub mod policy_edit;
pub mod price_list;
pub mod trust;
