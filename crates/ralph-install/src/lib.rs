//! Hooks into an agent's settings and out again, and the doctor that checks them.

pub mod doctor;
pub mod install;
