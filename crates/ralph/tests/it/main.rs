//! End-to-end tests: each one runs the real binary in a temporary home and project, and checks its output, its exit
//! code and the files it leaves on disk.
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::print_stderr,
    clippy::too_many_lines,
    clippy::unwrap_used,
    unreachable_pub,
    reason = "tests set up files, processes and the environment directly"
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
