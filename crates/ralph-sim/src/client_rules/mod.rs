//! The client's own rules, which the simulator and the fake client share: the input and the answers of hooks, the
//! decision at a stop, the tools, and the lines of the transcript.
//!
//! Nothing here waits for a driver or writes a timeline. In that the two clients differ, so it stays with each of them.

pub(crate) mod answer_remark;
pub(crate) mod api_error_report;
pub(crate) mod background_task;
pub(crate) mod event_outcome;
pub(crate) mod file_tools;
pub(crate) mod handler_answer;
pub(crate) mod hook_agent_tools;
pub(crate) mod hook_input;
mod patch;
pub(crate) mod shell_tool;
pub(crate) mod stop_decision;
pub(crate) mod tool_invocation;
pub(crate) mod tool_schema;
pub(crate) mod transcript_records;

use std::ffi::OsString;
use std::path::Path;

/// The message after an answer without text and without tool calls.
pub(crate) const EMPTY_ANSWER_PROMPT: &str = "[Your previous response had no visible output. Please continue and produce a user-visible response.]";
/// The message after an answer that a safety classifier stopped.
pub(crate) const REFUSAL_PROMPT: &str = "Your response above was stopped by a safety classifier — this is not a tool or API error. The rest of \
    it was withheld, and tool calls in it that had not finished did not run. Do not produce that content again, even \
    reworded.";
pub(crate) const INTERRUPTED_TEXT: &str = "[Request interrupted by user]";
pub(crate) const INTERRUPTED_TOOL_TEXT: &str = "[Request interrupted by user for tool use]";

/// The variables that the client sets for every process it starts.
pub(crate) fn client_variables(
    project: &Path,
    session: &str,
    pid: Option<u32>,
) -> Vec<(OsString, OsString)> {
    let pid = pid.map(|pid| ("CLAUDE_PID", pid.to_string().into()));
    let fixed = [
        ("CLAUDE_PROJECT_DIR", project.into()),
        ("CLAUDECODE", "1".into()),
        ("CLAUDE_CODE_SESSION_ID", session.into()),
        ("CLAUDE_CODE_ENTRYPOINT", "sdk-cli".into()),
        ("CLAUDE_CODE_CHILD_SESSION", "1".into()),
    ];
    fixed.into_iter().chain(pid).map(|(name, value)| (name.into(), value)).collect()
}
