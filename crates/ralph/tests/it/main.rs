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
mod amended_runs;
mod attested_runs;
mod base_results;
mod cheats;
mod checkout_mounts;
mod checkpoints;
mod ci_gate;
mod ci_gitlab;
mod ci_reviews;
mod ci_workflows;
mod clean;
mod cli_output;
mod command_checkouts;
mod command_names;
mod conditions;
mod confirmed_failures;
mod control;
mod crashes;
mod demo;
mod detect;
mod doctor;
mod example_project;
mod example_text;
mod examples;
mod explain_files;
mod faults;
mod features;
mod front_door;
mod gates;
mod goals;
mod guard;
mod hidden_processes;
mod hook;
mod host_judges;
mod hostile_input;
mod import;
mod import_examples;
mod init;
mod installed_packages;
mod issues;
mod judge_backends;
mod judge_cheats;
mod judge_costs;
mod judge_scores;
mod judged_runs;
mod judges;
mod kept_handovers;
mod large_trees;
mod loops;
mod manual_judges;
mod mcp;
mod memory;
mod merged_work;
mod model;
mod native_judge;
mod notify;
mod orchestrator;
mod outside_links;
mod ownership;
mod pipeline;
mod plan;
mod plugin;
mod policy;
mod pretend;
mod project_commands;
mod prove;
mod queue;
mod ratchet;
mod real_projects;
mod recall;
mod recall_corpus;
mod replay;
mod report;
mod report_files;
mod repository_programs;
mod resume_and_fork;
mod reviewer_tests;
mod run_args;
mod run_reports;
mod runner;
mod sandbox;
mod scripted_endpoint;
mod sealed_files;
mod sealed_programs;
mod serve;
mod serve_client;
mod session_cost;
mod session_gates;
mod sessions;
mod simulate;
mod simulate_hostile;
mod slash_commands;
mod sql;
mod stats;
mod statusline;
mod stop_proof;
mod supervision;
mod syscalls;
mod tamper;
mod trust;
mod typed_consent;
mod unnamed_scripts;
mod unproved_work;
mod unreadable_files;
mod watch;
