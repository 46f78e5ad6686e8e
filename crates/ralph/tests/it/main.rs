//! Real processes in hermetic directories: what a host and a person see, and what is left on disk.
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::print_stderr,
    clippy::too_many_lines,
    clippy::unwrap_used,
    unreachable_pub,
    reason = "tests make the world that the doors look out on"
)]

mod adopted_files;
mod agents;
mod checkpoints;
mod control;
mod crashes;
mod demo;
mod detect;
mod doctor;
mod faults;
mod features;
mod gates;
mod going_on;
mod guard;
mod hook;
mod hostile;
mod import;
mod init;
mod loops;
mod model;
mod night;
mod notify;
mod orchestrator;
mod ownership;
mod past;
mod people;
mod pipeline;
mod plugin;
mod policy;
mod pretend;
mod queue;
mod real_projects;
mod recall;
mod replay;
mod report;
mod run_args;
mod sandbox;
mod sessions;
mod simulate;
mod simulate_hostile;
mod statusline;
mod supervision;
mod syscalls;
mod tamper;
mod trust;
mod typed;
mod words;
