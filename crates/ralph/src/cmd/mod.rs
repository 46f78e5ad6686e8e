//! The commands, one module each: read the arguments, call the library, print the result.

pub(crate) mod accept;
pub(crate) mod adjust;
pub(crate) mod approve;
pub(crate) mod checkpoint;
pub(crate) mod checkpoint_args;
pub(crate) mod ci;
pub(crate) mod clean;
pub(crate) mod complete_words;
pub(crate) mod config;
pub(crate) mod control;
pub(crate) mod declare;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod explain_files;
pub(crate) mod export;
pub(crate) mod feature;
pub(crate) mod gate;
pub(crate) mod generate;
pub(crate) mod import;
mod index_access;
pub(crate) mod init;
mod init_text;
pub(crate) mod judge;
pub(crate) mod lab;
pub(crate) mod learn;
mod lesson_page;
pub(crate) mod list_commands;
pub(crate) mod log;
pub(crate) mod loops;
pub(crate) mod mcp;
pub(crate) mod memory;
pub(crate) mod memory_args;
pub(crate) mod model;
pub(crate) mod notify;
pub(crate) mod orchestrator;
mod person_actions;
pub(crate) mod pipeline;
pub(crate) mod plan;
pub(crate) mod pretend;
mod project_args;
pub(crate) mod project_summary;
pub(crate) mod prove;
pub(crate) mod pull_review;
pub(crate) mod recall;
pub(crate) mod replay;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod run_choice;
pub(crate) mod serve;
pub(crate) mod simulate;
pub(crate) mod sql;
pub(crate) mod start;
pub(crate) mod start_args;
pub(crate) mod stats;
pub(crate) mod status;
pub(crate) mod statusline;
pub(crate) mod tell;
pub(crate) mod trust;
mod trust_question;
pub(crate) mod uninstall;
mod uninstall_leftovers;
pub(crate) mod verify;
pub(crate) mod verify_report;
pub(crate) mod wait;
pub(crate) mod watch;
pub(crate) mod why;

use crate::failure::CommandFailure;
use crate::term::OutputReader;
use crate::typed_consent;
use index_access::open_index;
use ralph_home::host_env;
use ralph_home::paths::RalphHome;
use ralph_home::world::World;
use ralph_hook::control::{ASK_A_PERSON, CommandCaller, ControlError, off_reason};
use ralph_sys::clock::Deadline;
use ralph_sys::env::Env;
use ralph_sys::proc::cancel::CancelToken;
use ralph_sys::proc::signals;
use ralph_sys::{clock, fs, process_identity};
use run_choice::find_named;
use std::path::PathBuf;
use std::sync::Arc;

const HOME_HINT: &str = "set `HOME`, or `RALPH_HOME` to an absolute path";

fn open_home(env: &Env) -> Result<RalphHome, CommandFailure> {
    let root = env.ralph_home().ok_or_else(unknown_home_failure)?;
    if fs::exists(&root) && !fs::is_directory(&root) {
        let what = format!("`{}` is not a directory", root.display());
        return Err(CommandFailure::new(&what, HOME_HINT));
    }
    Ok(RalphHome::new(root))
}

fn unknown_home_failure() -> CommandFailure {
    CommandFailure::new("cannot determine ralph's home directory", HOME_HINT)
}

/// The environment, home and deadline of a command that changes runs.
fn open_world(env: &Env) -> Result<World, CommandFailure> {
    open_home(env)?;
    let world = World::new(env.clone(), Deadline::after(control::LOCK_TIMEOUT));
    world.ok_or_else(unknown_home_failure)
}

/// A cancellation that Ctrl-C and the other stop signals trigger.
fn cancel_on_signals() -> Result<Arc<CancelToken>, CommandFailure> {
    cancel_on_signals_or(|| false)
}

/// As [`cancel_on_signals`], and also once `elsewhere` returns true.
fn cancel_on_signals_or(
    elsewhere: impl Fn() -> bool + Send + Sync + 'static,
) -> Result<Arc<CancelToken>, CommandFailure> {
    let cancel = CancelToken::with_external_check(elsewhere).map(Arc::new);
    let cancel =
        cancel.map_err(|error| CommandFailure::caused_by("cannot set up cancellation", &error))?;
    signals::cancel_on_stop_signals(&cancel)
        .map_err(|error| CommandFailure::caused_by("cannot watch for signals", &error))?;
    Ok(cancel)
}

/// Creates a private directory for temporary files.
fn create_scratch_dir(env: &Env, name: &str) -> Result<PathBuf, CommandFailure> {
    let hint = "set `TMPDIR` to another directory";
    let place = env.temporary_dir();
    let wrong = |what: &str| {
        let what = format!("the temporary directory `{}` {what}", place.display());
        CommandFailure::new(&what, hint)
    };
    let found = fs::resolve(&place).ok_or_else(|| wrong("does not exist"))?;
    if !fs::is_directory(&found) {
        return Err(wrong("is not a directory"));
    }
    match found.to_str() {
        None => return Err(wrong("has a name that is not UTF-8")),
        Some(path) if path.contains(':') => {
            return Err(wrong("contains a `:`, so it cannot be on `PATH`"));
        }
        Some(_) => {}
    }
    let root = found.join(format!("{name}-{:016x}", clock::nonce()));
    fs::create_private_dir(&root).map_err(|error| CommandFailure::from(error).with_hint(hint))?;
    Ok(root)
}

/// Refuses a command that an agent may not give. If the caller cannot be known, a person may still confirm at the
/// terminal, but not while a run holds an agent.
fn refuse_agent(env: &Env, what: &str, hint: &str) -> Result<(), CommandFailure> {
    match identify_caller(env) {
        CommandCaller::Person | CommandCaller::Session => Ok(()),
        CommandCaller::Agent => Err(CommandFailure::new(what, hint)),
        CommandCaller::Hidden => {
            if typed_consent::held_run(&open_home(env)?)?.is_some() {
                return Err(ControlError::CallerHidden.into());
            }
            let why = "ralph cannot see every process above this command";
            typed_consent::require_always(why, "go on")
        }
    }
}

/// Whether an agent or a person calls. A process that an agent started with a cleared environment still counts as the
/// agent, because its ancestors are checked too, as long as it uses the same ralph home.
fn identify_caller(env: &Env) -> CommandCaller {
    if host_env::is_agent_shell(env) {
        return CommandCaller::Agent;
    }
    let Some(ancestors) = process_identity::ancestor_pids() else {
        return CommandCaller::Hidden;
    };
    if ancestors.into_iter().any(|pid| host_env::is_agent_process(env, pid)) {
        CommandCaller::Agent
    } else {
        CommandCaller::Person
    }
}

/// Prints one object on one line.
fn print_json(value: &impl serde::Serialize) -> Result<OutputReader, CommandFailure> {
    crate::term::out(&json_line(value))
}

/// A view as one line of JSON.
fn json_line(value: &impl serde::Serialize) -> String {
    // Views consist of strings, numbers and lists; serialising them cannot fail.
    let mut line = serde_json::to_string(value).unwrap_or_default();
    line.push('\n');
    line
}
