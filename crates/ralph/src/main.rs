//! argv → one call → exit code.

mod cli;
mod cmd;
mod hook;
mod report;
mod term;
mod usage;
mod wording;

use ralph_exec::env::Env;
use std::process::ExitCode;

fn main() -> ExitCode {
    let env = Env::from_process();
    let args = env.args();
    // Before anything is initialised: a hook runs at every stop of every session.
    match args.split_first() {
        Some((first, rest)) if first == "hook" => hook::run(env, rest),
        Some(_) | None => cli::run(&env),
    }
}
