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

mod accept;
mod adjustments;
mod adopted_files;
mod agents;
mod cheats;
mod checkpoints;
mod cli_output;
mod control;
mod crashes;
mod demo;
mod detect;
mod doctor;
mod explain_files;
mod faults;
mod features;
mod gates;
mod goals;
mod guard;
mod hook;
mod hostile_input;
mod import;
mod init;
mod installed_packages;
mod loops;
mod merged_work;
mod model;
mod notify;
mod orchestrator;
mod ownership;
mod pipeline;
mod plugin;
mod policy;
mod pretend;
mod prove;
mod queue;
mod real_projects;
mod recall;
mod recall_corpus;
mod replay;
mod report;
mod resume_and_fork;
mod run_args;
mod runner;
mod sandbox;
mod sealed_programs;
mod sessions;
mod simulate;
mod simulate_hostile;
mod slash_commands;
mod statusline;
mod stop_proof;
mod supervision;
mod syscalls;
mod tamper;
mod trust;
mod typed_consent;
mod unreadable_files;
