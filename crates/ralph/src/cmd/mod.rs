//! One file per command: arguments → one library call → print.

pub(crate) mod checkpoint;
pub(crate) mod config;
pub(crate) mod control;
pub(crate) mod demo;
pub(crate) mod gate;
pub(crate) mod generate;
pub(crate) mod log;
pub(crate) mod model;
pub(crate) mod replay;
pub(crate) mod simulate;
pub(crate) mod start;
pub(crate) mod status;
pub(crate) mod trust;
pub(crate) mod why;

use crate::report::Failure;
use crate::term::Reader;
use ralph_exec::control::Caller;
use ralph_exec::env::Env;
use ralph_exec::paths::Home;

fn home(env: &Env) -> Result<Home, Failure> {
    let hint = "set `HOME`, or `RALPH_HOME` to an absolute path";
    let unknown = || Failure::new("it is not known where runs are kept", hint);
    let root = env.ralph_home().ok_or_else(unknown)?;
    if ralph_exec::fs::exists(&root) && !ralph_exec::fs::is_directory(&root) {
        return Err(Failure::new(&format!("`{}` is not a directory", root.display()), hint));
    }
    Ok(Home::new(root))
}

fn caller(env: &Env) -> Caller {
    if env.is_agent_shell() { Caller::Agent } else { Caller::Person }
}

/// One object on one line.
fn print_json(value: &impl serde::Serialize) -> Result<Reader, Failure> {
    // What ralph prints is made of strings, numbers and lists of them; serialising it cannot fail.
    let mut line = serde_json::to_string(value).unwrap_or_default();
    line.push('\n');
    crate::term::out(&line)
}

/// Why nobody is held at all, if so.
fn off(env: &Env, home: &Home) -> Option<&'static str> {
    if env.is_off() {
        Some("`RALPH_OFF` is set")
    } else if ralph_exec::fs::exists(&home.kill_switch()) {
        Some("the file `off` is in ralph's home")
    } else {
        None
    }
}
