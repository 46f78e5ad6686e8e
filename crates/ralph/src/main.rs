//! The entry point: picks `ralph hook`, an internal process, or the command line, and returns its exit code.
#![cfg_attr(all(target_os = "linux", target_env = "gnu", not(test)), no_main)]

mod approval_text;
mod cli;
mod cmd;
mod command_groups;
mod config_failure;
mod describe;
mod driven_status;
mod excerpt;
mod failure;
mod foreground_editor;
mod gate_progress;
mod hook;
mod host_arg;
mod limit_args;
mod orchestrator_view;
mod prompt_commands;
mod term;
mod text_table;
mod timeline_view;
mod typed_consent;
mod usage_error;
mod value_parsers;
mod version_info;

use ralph_sys::env::Env;
use ralph_sys::proc::{line_process, supervisor};
use ralph_sys::stdio;

const SUCCESS: u8 = 0;
/// 2 would mean "block" to a host and "limit reached" to a script.
const FAILURE: u8 = 1;
/// The project's policy is not approved.
const UNTRUSTED: u8 = 3;

/// The C entry point. It skips Rust's runtime start-up, which reads `/proc/self/maps` and sets up signal stacks: a
/// tenth of the cost of a hook in a session without a run. SIGPIPE also keeps its default action, so that
/// `ralph log | head` ends quietly. Rust's start-up would reopen closed descriptors; `stdio::secure` does that here.
#[cfg(all(target_os = "linux", target_env = "gnu", not(test)))]
#[expect(
    unsafe_code,
    reason = "`main` is the name the C library calls, and nothing else defines it"
)]
#[unsafe(no_mangle)]
extern "C" fn main() -> i32 {
    i32::from(run())
}

#[cfg(not(all(target_os = "linux", target_env = "gnu", not(test))))]
fn main() -> std::process::ExitCode {
    run().into()
}

fn run() -> u8 {
    let descriptors = stdio::ensure_streams_open();
    let env = Env::from_process();
    let args = env.args();
    // Before anything else is set up: a hook runs at every stop of every session.
    match args.split_first() {
        Some((first, rest)) if first == "hook" => hook::run(env, rest, descriptors),
        Some((first, _)) if first == supervisor::SUPERVISOR_ARGUMENT => {
            supervisor::run_supervisor()
        }
        Some((first, rest)) if first == line_process::TIED_ARGUMENT => {
            line_process::exec_tied_to_parent(rest)
        }
        Some(_) | None => cli::run(&env),
    }
}
