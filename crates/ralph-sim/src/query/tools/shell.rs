//! The `Bash` tool. Commands really run, in the scratch project.

use super::{Call, Done};
use crate::query::host::Host;
use ralph_sys::clock::Deadline;
use ralph_sys::fs;
use ralph_sys::proc::job::{self, Finished, How, Job, Keep};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

const USUAL: Duration = Duration::from_mins(2);
/// Upper limit of a requested timeout.
const LONGEST: Duration = Duration::from_mins(10);
/// How long a command runs before the person interrupts it.
const PATIENCE: Duration = Duration::from_millis(300);
const GRACE: Duration = Duration::from_millis(500);
const LONGEST_PATH: usize = 64 * 1024;
const KEEP: Keep = Keep { head: 30_000, tail: 30_000 };
/// Commands that print nothing on success.
const SILENT: [&str; 14] = [
    "mv", "cp", "rm", "mkdir", "rmdir", "chmod", "chown", "chgrp", "touch", "ln", "cd", "export",
    "unset", "wait",
];
/// Runs the command and writes the directory in which it ended to a file.
const WRAPPER: &str = r#"[ -r "$3" ] && . "$3"; eval "$1"; status=$?; pwd -P > "$2"; exit $status"#;

pub(super) fn run(host: &mut Host<'_>, call: &Call) -> Done {
    let order = Order::new(host, call);
    let cancel = std::sync::Arc::clone(&host.cancel);
    let finished = supervise(&order, Deadline::after(limit(call)), &cancel);
    host.was_killed |= matches!(finished.how, How::Lost);
    let note = follow(&mut host.cwd, &host.stage.project, &order.place);
    understand(&finished, note, call)
}

/// The timeout of a command, as requested in the call.
pub(crate) fn limit(call: &Call) -> Duration {
    let asked = call.input.get("timeout").and_then(Value::as_u64).map(Duration::from_millis);
    asked.unwrap_or(USUAL).min(LONGEST)
}

/// Runs a command that the person interrupts.
pub(super) fn begin(host: &mut Host<'_>, call: &Call) {
    let order = Order::new(host, call);
    let cancel = std::sync::Arc::clone(&host.cancel);
    supervise(&order, Deadline::after(PATIENCE), &cancel);
}

/// A shell command of the agent, ready to run.
pub(crate) struct Order {
    /// The `ralph` binary, which supervises the command.
    pub(crate) program: PathBuf,
    pub(crate) argv: Vec<OsString>,
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) cwd: PathBuf,
    /// The file to which the command writes its final directory.
    pub(crate) place: PathBuf,
}

impl Order {
    pub(in crate::query) fn new(host: &mut Host<'_>, call: &Call) -> Self {
        let settings = host.settings();
        let place = host.stage.root.join("cwd");
        Self {
            program: host.program.to_owned(),
            argv: argv(call, &place, &host.env_file()),
            env: host.environment(&settings),
            cwd: host.cwd.clone(),
            place,
        }
    }
}

/// The command line of a call. The shell first reads the file `variables`, if it exists.
pub(crate) fn argv(call: &Call, place: &Path, variables: &Path) -> Vec<OsString> {
    let command = call.input.get("command").and_then(Value::as_str).unwrap_or_default();
    let words = ["bash", "-c", WRAPPER, "bash", command].map(OsString::from);
    words.into_iter().chain([place.into(), variables.into()]).collect()
}

pub(crate) fn supervise(
    order: &Order,
    deadline: Deadline,
    cancel: &ralph_sys::proc::cancel::Cancel,
) -> Finished {
    job::supervise(&Job {
        program: &order.program,
        argv: &order.argv,
        cwd: &order.cwd,
        env: &order.env,
        keep: KEEP,
        deadline,
        grace: GRACE,
        ..Job::blank(cancel)
    })
}

/// Updates the working directory to where the command ended. Outside the project it is reset, and a note for the model is
/// returned.
pub(crate) fn follow(cwd: &mut PathBuf, project: &Path, place: &Path) -> Option<String> {
    let bytes = fs::read_opt(place, LONGEST_PATH).ok()??;
    // Removed, because a command that exits the shell does not write the file.
    fs::remove_file(place).ok();
    let text = String::from_utf8_lossy(&bytes);
    let directory = PathBuf::from(text.trim_end_matches('\n'));
    if directory.starts_with(project) {
        *cwd = directory;
        return None;
    }
    project.clone_into(cwd);
    Some(format!("Shell cwd was reset to {}", cwd.display()))
}

pub(crate) fn understand(finished: &Finished, note: Option<String>, call: &Call) -> Done {
    let is_silent = is_silent(call.input.get("command").and_then(Value::as_str));
    let lines = [Some(text(finished)).filter(|text| !text.is_empty()), note];
    let output = lines.into_iter().flatten().collect::<Vec<_>>().join("\n");
    let failed = |first: String| {
        let text = if output.is_empty() { first } else { format!("{first}\n{output}") };
        Done::Failed { text }
    };
    match &finished.how {
        How::Exited(0) => Done::Ran { response: ran(&output, is_silent), text: shown(output) },
        How::Exited(1) if is_search(call) => {
            let mut response = ran(&output, false);
            response["returnCodeInterpretation"] = json!("No matches found");
            Done::Ran { response, text: shown(output) }
        }
        How::Exited(code) => failed(format!("Exit code {code}")),
        // The client does not see the signal.
        How::Signalled(_) => failed("Exit code 1".to_owned()),
        How::TimedOut => failed(format!("Command timed out after {}s", limit(call).as_secs())),
        How::Cancelled => failed("Command was cancelled".to_owned()),
        How::CouldNotStart(error) => failed(error.to_string()),
        How::Lost => failed("the command killed the client".to_owned()),
    }
}

fn ran(output: &str, is_silent: bool) -> Value {
    json!({
        "stdout": output,
        "stderr": "",
        "interrupted": false,
        "isImage": false,
        "noOutputExpected": is_silent,
    })
}

fn shown(output: String) -> String {
    if output.is_empty() { "(Bash completed with no output)".to_owned() } else { output }
}

/// Whether exit code 1 of the last command only means "no matches".
fn is_search(call: &Call) -> bool {
    let command = call.input.get("command").and_then(Value::as_str).unwrap_or_default();
    let last = command.rsplit(['|', ';', '&', '\n']).next().unwrap_or_default();
    matches!(last.split_whitespace().next(), Some("grep" | "rg"))
}

/// Whether every part of a command is one of [`SILENT_COMMANDS`].
fn is_silent(command: Option<&str>) -> bool {
    let parts = command.unwrap_or_default().split(['&', '|', ';', '\n']);
    let mut first = parts.filter_map(|part| part.split_whitespace().next()).peekable();
    first.peek().is_some() && first.all(|word| SILENT.contains(&word))
}

fn text(finished: &Finished) -> String {
    let mut bytes = finished.output.head.clone();
    bytes.extend_from_slice(&finished.output.tail);
    let text = String::from_utf8_lossy(&bytes);
    // Leading empty lines and trailing white space are removed.
    let from = text.find(|char: char| !char.is_whitespace()).unwrap_or(0);
    let line = text.get(..from).and_then(|before| before.rfind('\n')).map_or(0, |at| at + 1);
    text.get(line..).unwrap_or_default().trim_end().to_owned()
}
