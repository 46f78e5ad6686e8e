//! Interprets the output of one finished hook process as the client does.
//!
//! Measured on the pinned client, 2.1.325. Its rules in short: JSON counts regardless of the exit code; exit 2 blocks
//! unless the script looks missing; an invalid answer does not block.

mod schema;
mod spill;

pub use spill::{Delivery, deliver};

use schema::{Said, filled};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exit {
    Code(i32),
    /// A signal killed the hook's own process. If a shell ran the hook, the shell reports an exit code instead.
    Signal(i32),
    TimedOut,
    /// The process could not be started, with the system's error message.
    NotStarted(String),
    /// The hook killed its supervisor, so its exit status is unknown.
    Lost,
}

#[derive(Clone, Copy, Debug)]
pub struct Output<'a> {
    pub event: &'a str,
    pub exit: &'a Exit,
    pub stdout: &'a str,
    pub stderr: &'a str,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    pub verdict: Verdict,
    /// Set if the hook returned `continue: false`.
    pub stop: Option<Stop>,
    pub context: Option<Context>,
    pub system_message: Option<String>,
    pub permission: Option<Permission>,
    pub updated_input: Option<serde_json::Value>,
    /// A prompt that a `SessionStart` hook submits. It becomes a separate turn.
    pub initial_user_message: Option<String>,
    pub original_prompt: Prompt,
    pub label: Label,
    /// The exit code that the client reports, which is not always that of the process.
    pub exit_code: i32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Allow,
    Block {
        reason: String,
        form: Form,
    },
    /// Does not block; the user sees a hook error.
    Failed(Failure),
    /// The answer is invalid. Does not block; the user sees a hook error.
    Void(Fault),
    /// Does not block, and nothing is shown.
    TimedOut,
    /// The hook asked to run asynchronously; its answer is ignored.
    Detached,
}

/// How a block reaches the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Once, prefixed with the command of the hook.
    ExitTwo,
    /// Twice, unchanged.
    Json,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// An exit code other than 0 and 2.
    Status {
        stderr: String,
    },
    /// Exit 2 that the client attributes to a missing script.
    ScriptMissing {
        stderr: String,
    },
    /// A block at an event that cannot be blocked.
    Powerless {
        reason: String,
        form: Form,
    },
    NotStarted {
        why: String,
    },
    Lost,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Starts with `{` and ends with `}`, but is not JSON.
    NotJson,
    /// A known field has the wrong type; `why` is the client's message.
    Schema { why: String },
    /// `hookSpecificOutput` names another event. Does not block, even on exit 2.
    Foreign { expected: String, found: String },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stop {
    pub reason: Option<String>,
}

/// Text that a hook adds to the conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Context {
    /// `additionalContext`.
    Additional(String),
    /// Plain standard output, at the events where the client uses it.
    Stdout(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permission {
    pub choice: Choice,
    pub reason: Option<String>,
}

/// In order of increasing precedence: the greatest wins if hooks disagree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Choice {
    Allow,
    Ask,
    /// The decision is left to the program that runs the client.
    Defer,
    Deny,
}

impl Choice {
    fn read(word: &str) -> Option<Self> {
        Some(match word {
            "allow" => Self::Allow,
            "ask" => Self::Ask,
            "defer" => Self::Defer,
            "deny" => Self::Deny,
            _ => return None,
        })
    }
}

/// Whether the text of a blocked prompt is shown to the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prompt {
    Shown,
    Hidden,
}

/// The client's name for the outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Label {
    Success,
    Error,
    Cancelled,
}

impl Label {
    pub fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Error => "error",
            Self::Cancelled => "cancelled",
        }
    }
}

pub fn read(output: &Output<'_>) -> Answer {
    match output.exit {
        // The client reports exit code 1 for a process killed by a signal.
        Exit::Signal(_) => read_ended(output, 1),
        Exit::Code(code) => read_ended(output, *code),
        Exit::TimedOut => Answer { label: Label::Cancelled, ..answer(Verdict::TimedOut, 1) },
        Exit::NotStarted(why) => {
            answer(Verdict::Failed(Failure::NotStarted { why: why.clone() }), 1)
        }
        Exit::Lost => answer(Verdict::Failed(Failure::Lost), 1),
    }
}

fn answer(verdict: Verdict, exit_code: i32) -> Answer {
    Answer {
        label: if exit_code == 0 && !matches!(verdict, Verdict::Void(_)) {
            Label::Success
        } else {
            Label::Error
        },
        verdict,
        stop: None,
        context: None,
        system_message: None,
        permission: None,
        updated_input: None,
        initial_user_message: None,
        original_prompt: Prompt::Shown,
        exit_code,
    }
}

fn read_ended(output: &Output<'_>, code: i32) -> Answer {
    let text = trim(output.stdout);
    if schema::is_detaching(text) || text.lines().next().is_some_and(schema::is_detaching) {
        return answer(Verdict::Detached, code);
    }
    if !text.starts_with('{') {
        return read_plain(output, code, text);
    }
    let fault = match schema::read(text) {
        Ok(Ok(said)) => match &said.about {
            Some(found) if found != output.event => {
                let fault =
                    Fault::Foreign { expected: output.event.to_owned(), found: found.clone() };
                return answer(Verdict::Void(fault), 1);
            }
            _ => return read_said(output, code, said),
        },
        Ok(Err(why)) => Fault::Schema { why },
        Err(_) if text.ends_with('}') => Fault::NotJson,
        Err(_) => return read_plain(output, code, text),
    };
    if code == 2 {
        with_denial(output.event, answer(by_exit(output), code))
    } else {
        answer(Verdict::Void(fault), code)
    }
}

fn read_plain(output: &Output<'_>, code: i32, text: &str) -> Answer {
    match code {
        0 => {
            let counts = matches!(
                output.event,
                "SessionStart"
                    | "UserPromptSubmit"
                    | "UserPromptExpansion"
                    | "PreCompact"
                    | "WorktreeCreate"
            );
            let context = (counts && !text.is_empty()).then(|| Context::Stdout(text.to_owned()));
            Answer { context, ..answer(Verdict::Allow, code) }
        }
        2 => with_denial(output.event, answer(by_exit(output), code)),
        _ => answer(
            Verdict::Failed(Failure::Status { stderr: trim(output.stderr).to_owned() }),
            code,
        ),
    }
}

fn read_said(output: &Output<'_>, code: i32, said: Said) -> Answer {
    // Other events have no permission to decide.
    let is_asked = matches!(output.event, "PreToolUse" | "PermissionRequest");
    let permission = said.permission.filter(|_| is_asked);
    let by_permission = permission
        .clone()
        .filter(|asked| asked.choice == Choice::Deny && output.event == "PreToolUse");
    let reason = filled(said.reason);
    let verdict = if said.decision.as_deref() == Some("block") || by_permission.is_some() {
        let reason = by_permission.and_then(|denied| denied.reason).or_else(|| reason.clone());
        powerful(output.event, reason.unwrap_or_else(|| "Blocked by hook".to_owned()), Form::Json)
    } else if code == 2 {
        by_exit(output)
    } else {
        Verdict::Allow
    };
    let approved = said.decision.is_some() && output.event == "PreToolUse";
    let permission =
        permission.or(approved.then_some(Permission { choice: Choice::Allow, reason: None }));
    let permission = permission
        .map(|asked| Permission { reason: asked.reason.or_else(|| reason.clone()), ..asked });
    let stop = (said.continues == Some(false) && can_block(output.event))
        .then(|| Stop { reason: filled(said.stop_reason) });
    let parts = Answer {
        stop,
        context: filled(said.context).map(Context::Additional),
        system_message: filled(said.system_message),
        permission,
        updated_input: said.updated_input,
        initial_user_message: filled(said.initial_user_message),
        original_prompt: if said.suppress_original_prompt { Prompt::Hidden } else { Prompt::Shown },
        ..answer(verdict, code)
    };
    with_denial(output.event, parts)
}

/// A blocked tool call is denied, with the reason of the block.
fn with_denial(event: &str, mut answer: Answer) -> Answer {
    if event == "PreToolUse"
        && let Verdict::Block { reason, .. } = &answer.verdict
    {
        answer.permission = Some(Permission { choice: Choice::Deny, reason: Some(reason.clone()) });
    }
    answer
}

/// The verdict for exit 2 when the JSON on stdout has no block of its own.
fn by_exit(output: &Output<'_>) -> Verdict {
    let heuristic =
        matches!(output.event, "Stop" | "SubagentStop" | "TaskCompleted" | "TeammateIdle");
    if heuristic && trim(output.stdout).is_empty() {
        let stderr = output.stderr.to_lowercase();
        if stderr.contains("no such file") || stderr.contains("can't open") {
            return Verdict::Failed(Failure::ScriptMissing {
                stderr: trim(output.stderr).to_owned(),
            });
        }
    }
    let reason = if output.stderr.is_empty() { "No stderr output" } else { output.stderr };
    powerful(output.event, reason.to_owned(), Form::ExitTwo)
}

fn powerful(event: &str, reason: String, form: Form) -> Verdict {
    if can_block(event) {
        Verdict::Block { reason, form }
    } else {
        Verdict::Failed(Failure::Powerless { reason, form })
    }
}

/// Whether the event can be blocked. At other events a block is only shown as an error, and `continue: false` is
/// ignored.
fn can_block(event: &str) -> bool {
    !matches!(
        event,
        "SessionStart"
            | "SessionEnd"
            | "Setup"
            | "SubagentStart"
            | "Notification"
            | "PostCompact"
            | "PostModelSwitch"
            | "StopFailure"
            | "PermissionDenied"
            | "InstructionsLoaded"
            | "CwdChanged"
            | "DirectoryAdded"
            | "FileChanged"
            | "WorktreeRemove"
            | "MessageDisplay"
    )
}

/// The text of a block as the client passes it on.
pub fn worded(reason: &str, form: Form, command: &str) -> String {
    match form {
        Form::ExitTwo => format!("[{command}]: {reason}"),
        Form::Json => reason.to_owned(),
    }
}

impl Failure {
    /// The client's message to the user.
    pub fn message(&self, command: &str) -> String {
        match self {
            Self::Status { stderr } => {
                let stderr = if stderr.is_empty() { "No stderr output" } else { stderr };
                format!("Failed with non-blocking status code: {stderr}")
            }
            Self::ScriptMissing { stderr } => format!(
                "Hook script appears to be missing — \"{command}\" exited 2 with: {stderr}. Treating as \
                 non-blocking. If this is a plugin hook, check the plugin install (run /plugin)."
            ),
            Self::Powerless { reason, form } => worded(reason, *form, command),
            Self::NotStarted { why } => format!(
                "Failed with non-blocking status code: Error occurred while executing hook command: {why}"
            ),
            Self::Lost => "the hook killed the process that supervised it".to_owned(),
        }
    }
}

impl Fault {
    /// The client's message to the user, without the schema that the client appends.
    pub fn message(&self) -> String {
        match self {
            Self::NotJson => {
                "Hook output looks like a JSON object but is not valid JSON".to_owned()
            }
            Self::Schema { why } => format!("Hook JSON output validation failed — {why}"),
            Self::Foreign { expected, found } => {
                format!(
                    "Hook returned incorrect event name: expected '{expected}' but got '{found}'"
                )
            }
        }
    }
}

/// Trims white space as defined by JavaScript: U+FEFF counts, U+0085 does not.
fn trim(text: &str) -> &str {
    text.trim_matches(|c: char| c == '\u{feff}' || (c.is_whitespace() && c != '\u{85}'))
}

#[cfg(test)]
mod tests;
