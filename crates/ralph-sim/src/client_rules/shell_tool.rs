//! The `Bash` tool. Commands really run, in the scratch project.

use super::tool_invocation::{ToolInvocation, ToolOutcome};
use ralph_sys::clock::Deadline;
use ralph_sys::fs;
use ralph_sys::proc::job::{self, CaptureLimits, JobEnd, JobResult, JobSpec};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

const DEFAULT_TIMEOUT: Duration = Duration::from_mins(2);
/// Upper limit of a requested timeout.
const MAX_TIMEOUT: Duration = Duration::from_mins(10);
const KILL_GRACE: Duration = Duration::from_millis(500);
const MAX_PATH_BYTES: usize = 64 * 1024;
const KEPT_OUTPUT: CaptureLimits = CaptureLimits { head: 30_000, tail: 30_000 };
/// Commands that print nothing on success.
const SILENT_COMMANDS: [&str; 14] = [
    "mv", "cp", "rm", "mkdir", "rmdir", "chmod", "chown", "chgrp", "touch", "ln", "cd", "export",
    "unset", "wait",
];
/// Runs the command and writes the directory in which it ended to a file.
const WRAPPER_SCRIPT: &str =
    r#"[ -r "$3" ] && . "$3"; eval "$1"; status=$?; pwd -P > "$2"; exit $status"#;

/// The timeout that the call asks for.
pub(crate) fn command_timeout(call: &ToolInvocation) -> Duration {
    let asked = call.input.get("timeout").and_then(Value::as_u64).map(Duration::from_millis);
    asked.unwrap_or(DEFAULT_TIMEOUT).min(MAX_TIMEOUT)
}

/// A shell command of the agent, ready to run.
pub(crate) struct ShellLaunch {
    /// The `ralph` binary, which supervises the command.
    pub(crate) program: PathBuf,
    pub(crate) argv: Vec<OsString>,
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) cwd: PathBuf,
    /// The file to which the command writes its final directory.
    pub(crate) cwd_file: PathBuf,
}

/// The command line of a call. The shell first reads the file `variables`, if it exists.
pub(crate) fn command_argv(call: &ToolInvocation, place: &Path, variables: &Path) -> Vec<OsString> {
    let command = call.text("command");
    let words = ["bash", "-c", WRAPPER_SCRIPT, "bash", command].map(OsString::from);
    words.into_iter().chain([place.into(), variables.into()]).collect()
}

pub(crate) fn supervise_command(
    order: &ShellLaunch,
    deadline: Deadline,
    cancel: &ralph_sys::proc::cancel::CancelToken,
) -> JobResult {
    job::run_job(&JobSpec {
        program: &order.program,
        argv: &order.argv,
        cwd: &order.cwd,
        env: &order.env,
        capture_limits: KEPT_OUTPUT,
        deadline,
        grace: KILL_GRACE,
        ..JobSpec::with_defaults(cancel)
    })
}

/// Updates the working directory to where the command ended. Outside the project it is reset, and a note for the
/// model is returned.
pub(crate) fn follow_cwd(cwd: &mut PathBuf, project: &Path, place: &Path) -> Option<String> {
    let bytes = fs::read_if_exists(place, MAX_PATH_BYTES).ok()??;
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

pub(crate) fn command_outcome(
    finished: &JobResult,
    note: Option<String>,
    call: &ToolInvocation,
) -> ToolOutcome {
    let is_silent = is_silent(call.text("command"));
    let lines = [Some(trimmed_output(finished)).filter(|text| !text.is_empty()), note];
    let output = lines.into_iter().flatten().collect::<Vec<_>>().join("\n");
    let failed = |first: String| {
        let text = if output.is_empty() { first } else { format!("{first}\n{output}") };
        ToolOutcome::Failed { text }
    };
    match &finished.end {
        JobEnd::Exited(0) => ToolOutcome::Ran {
            response: bash_response(&output, is_silent),
            text: output_or_placeholder(output),
        },
        JobEnd::Exited(1) if is_search(call) => {
            let mut response = bash_response(&output, false);
            response["returnCodeInterpretation"] = json!("No matches found");
            ToolOutcome::Ran { response, text: output_or_placeholder(output) }
        }
        JobEnd::Exited(code) => failed(format!("Exit code {code}")),
        // The client does not see the signal.
        JobEnd::Signalled(_) => failed("Exit code 1".to_owned()),
        JobEnd::TimedOut => {
            failed(format!("Command timed out after {}s", command_timeout(call).as_secs()))
        }
        JobEnd::Cancelled => failed("Command was cancelled".to_owned()),
        JobEnd::CouldNotStart(error) => failed(error.to_string()),
        JobEnd::Lost => failed("the command killed the client".to_owned()),
    }
}

fn bash_response(output: &str, is_silent: bool) -> Value {
    json!({
        "stdout": output,
        "stderr": "",
        "interrupted": false,
        "isImage": false,
        "noOutputExpected": is_silent,
    })
}

fn output_or_placeholder(output: String) -> String {
    if output.is_empty() { "(Bash completed with no output)".to_owned() } else { output }
}

/// Whether exit code 1 of the last command only means "no matches".
fn is_search(call: &ToolInvocation) -> bool {
    let last = call.text("command").rsplit(['|', ';', '&', '\n']).next().unwrap_or_default();
    matches!(last.split_whitespace().next(), Some("grep" | "rg"))
}

/// Whether every part of a command is one of [`SILENT_COMMANDS`].
fn is_silent(command: &str) -> bool {
    let parts = command.split(['&', '|', ';', '\n']);
    let mut first = parts.filter_map(|part| part.split_whitespace().next()).peekable();
    first.peek().is_some() && first.all(|word| SILENT_COMMANDS.contains(&word))
}

fn trimmed_output(finished: &JobResult) -> String {
    let mut bytes = finished.output.head.clone();
    bytes.extend_from_slice(&finished.output.tail);
    let text = String::from_utf8_lossy(&bytes);
    // Leading empty lines and trailing white space are removed.
    let from = text.find(|char: char| !char.is_whitespace()).unwrap_or(0);
    let line = text.get(..from).and_then(|before| before.rfind('\n')).map_or(0, |at| at + 1);
    text.get(line..).unwrap_or_default().trim_end().to_owned()
}
