//! Interprets the output of one finished hook process as the client does.
//!
//! Measured on the pinned client, 2.1.325. Its rules in short: JSON counts regardless of the exit code; exit 2 blocks
//! unless the script looks missing; an invalid answer does not block.

mod answer_schema;
mod evaluator_verdict;
mod spill;

pub use evaluator_verdict::{
    EvaluatorOutcome, EvaluatorVerdict, FinishedEvaluation, evaluator_question,
    interpret_evaluation, is_stop_event, json_type, read_prompt_answer, read_verdict,
    shorten_repeated_prompt,
};
pub use spill::{TextDelivery, deliver};

use answer_schema::{HookJson, non_empty};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookExit {
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
pub struct FinishedHookOutput<'a> {
    pub event: &'a str,
    pub exit: &'a HookExit,
    pub stdout: &'a str,
    pub stderr: &'a str,
}

#[derive(Clone, Debug, PartialEq)]
pub struct HookAnswer {
    pub verdict: HookVerdict,
    /// Set if the hook returned `continue: false`.
    pub stop: Option<ContinueFalse>,
    pub context: Option<AddedContext>,
    pub system_message: Option<String>,
    pub permission: Option<HookPermission>,
    pub updated_input: Option<serde_json::Value>,
    /// A prompt that a `SessionStart` hook submits. It becomes a separate turn.
    pub initial_user_message: Option<String>,
    /// Whether the text of a blocked prompt is hidden from the user.
    pub is_prompt_hidden: bool,
    pub label: HookOutcomeLabel,
    /// The exit code that the client reports, which is not always that of the process.
    pub exit_code: i32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookVerdict {
    Allow,
    Block {
        reason: String,
        form: BlockForm,
    },
    /// Does not block; the user sees a hook error.
    Failed(HookFailure),
    /// The answer is invalid. Does not block; the user sees a hook error.
    Invalid(InvalidHookAnswer),
    /// Does not block, and nothing is shown.
    TimedOut,
    /// The hook asked to run asynchronously; its answer is ignored.
    Detached,
    /// A model was asked and gave no verdict. Does not block, and nothing is shown.
    NoVerdict,
}

/// How a block reaches the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockForm {
    /// Once, prefixed with the command of the hook.
    ExitTwo,
    /// Twice, unchanged.
    Json,
    /// Once, unchanged: the verdict of an `agent` hook.
    AgentVerdict,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookFailure {
    /// An exit code other than 0 and 2.
    Status {
        stderr: String,
    },
    /// Exit 2 that the client attributes to a missing script.
    ScriptMissing {
        stderr: String,
    },
    /// A block at an event that cannot be blocked.
    CannotBlock {
        reason: String,
        form: BlockForm,
    },
    NotStarted {
        why: String,
    },
    Lost,
    /// A model was asked and gave no answer, or none that could be read.
    Evaluator {
        message: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InvalidHookAnswer {
    /// Starts with `{` and ends with `}`, but is not JSON.
    NotJson,
    /// A known field has the wrong type; `why` is the client's message.
    Schema { why: String },
    /// `hookSpecificOutput` names another event. Does not block, even on exit 2.
    OtherEvent { expected: String, found: String },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContinueFalse {
    pub reason: Option<String>,
}

/// Text that a hook adds to the conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddedContext {
    /// `additionalContext`.
    Additional(String),
    /// Plain standard output, at the events where the client uses it.
    Stdout(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookPermission {
    pub choice: PermissionChoice,
    pub reason: Option<String>,
}

/// In order of increasing precedence: the greatest wins if hooks disagree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PermissionChoice {
    Allow,
    Ask,
    /// The decision is left to the program that runs the client.
    Defer,
    Deny,
}

impl PermissionChoice {
    fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "allow" => Self::Allow,
            "ask" => Self::Ask,
            "defer" => Self::Defer,
            "deny" => Self::Deny,
            _ => return None,
        })
    }
}

/// The client's name for the outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookOutcomeLabel {
    Success,
    Error,
    Cancelled,
}

impl HookOutcomeLabel {
    pub fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Error => "error",
            Self::Cancelled => "cancelled",
        }
    }
}

pub fn interpret(output: &FinishedHookOutput<'_>) -> HookAnswer {
    match output.exit {
        // The client reports exit code 1 for a process killed by a signal.
        HookExit::Signal(_) => interpret_exited(output, 1),
        HookExit::Code(code) => interpret_exited(output, *code),
        HookExit::TimedOut => HookAnswer {
            label: HookOutcomeLabel::Cancelled,
            ..bare_answer(HookVerdict::TimedOut, 1)
        },
        HookExit::NotStarted(why) => {
            bare_answer(HookVerdict::Failed(HookFailure::NotStarted { why: why.clone() }), 1)
        }
        HookExit::Lost => bare_answer(HookVerdict::Failed(HookFailure::Lost), 1),
    }
}

fn bare_answer(verdict: HookVerdict, exit_code: i32) -> HookAnswer {
    HookAnswer {
        label: if exit_code == 0 && !matches!(verdict, HookVerdict::Invalid(_)) {
            HookOutcomeLabel::Success
        } else {
            HookOutcomeLabel::Error
        },
        verdict,
        stop: None,
        context: None,
        system_message: None,
        permission: None,
        updated_input: None,
        initial_user_message: None,
        is_prompt_hidden: false,
        exit_code,
    }
}

fn interpret_exited(output: &FinishedHookOutput<'_>, code: i32) -> HookAnswer {
    let text = trim(output.stdout);
    if answer_schema::is_async_request(text)
        || text.lines().next().is_some_and(answer_schema::is_async_request)
    {
        return bare_answer(HookVerdict::Detached, code);
    }
    if !text.starts_with('{') {
        return interpret_plain(output, code, text);
    }
    let fault = match answer_schema::parse_hook_json(text) {
        Ok(Ok(said)) => match &said.event {
            Some(found) if found != output.event => {
                let fault = InvalidHookAnswer::OtherEvent {
                    expected: output.event.to_owned(),
                    found: found.clone(),
                };
                return bare_answer(HookVerdict::Invalid(fault), 1);
            }
            _ => return interpret_json(output, code, said),
        },
        Ok(Err(why)) => InvalidHookAnswer::Schema { why },
        Err(_) if text.ends_with('}') => InvalidHookAnswer::NotJson,
        Err(_) => return interpret_plain(output, code, text),
    };
    if code == 2 {
        with_denial(output.event, bare_answer(exit_two_verdict(output), code))
    } else {
        bare_answer(HookVerdict::Invalid(fault), code)
    }
}

fn interpret_plain(output: &FinishedHookOutput<'_>, code: i32, text: &str) -> HookAnswer {
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
            let context =
                (counts && !text.is_empty()).then(|| AddedContext::Stdout(text.to_owned()));
            HookAnswer { context, ..bare_answer(HookVerdict::Allow, code) }
        }
        2 => with_denial(output.event, bare_answer(exit_two_verdict(output), code)),
        _ => bare_answer(
            HookVerdict::Failed(HookFailure::Status { stderr: trim(output.stderr).to_owned() }),
            code,
        ),
    }
}

fn interpret_json(output: &FinishedHookOutput<'_>, code: i32, said: HookJson) -> HookAnswer {
    // Other events have no permission to decide.
    let is_asked = matches!(output.event, "PreToolUse" | "PermissionRequest");
    let permission = said.permission.filter(|_| is_asked);
    let by_permission = permission
        .clone()
        .filter(|asked| asked.choice == PermissionChoice::Deny && output.event == "PreToolUse");
    let reason = non_empty(said.reason);
    let verdict = if said.decision.as_deref() == Some("block") || by_permission.is_some() {
        let reason = by_permission.and_then(|denied| denied.reason).or_else(|| reason.clone());
        block_if_possible(
            output.event,
            reason.unwrap_or_else(|| "Blocked by hook".to_owned()),
            BlockForm::Json,
        )
    } else if code == 2 {
        exit_two_verdict(output)
    } else {
        HookVerdict::Allow
    };
    let approved = said.decision.is_some() && output.event == "PreToolUse";
    let permission = permission
        .or(approved.then_some(HookPermission { choice: PermissionChoice::Allow, reason: None }));
    let permission = permission
        .map(|asked| HookPermission { reason: asked.reason.or_else(|| reason.clone()), ..asked });
    let stop = (said.continues == Some(false) && can_block(output.event))
        .then(|| ContinueFalse { reason: non_empty(said.stop_reason) });
    let parts = HookAnswer {
        stop,
        context: non_empty(said.context).map(AddedContext::Additional),
        system_message: non_empty(said.system_message),
        permission,
        updated_input: said.updated_input,
        initial_user_message: non_empty(said.initial_user_message),
        is_prompt_hidden: said.suppress_original_prompt,
        ..bare_answer(verdict, code)
    };
    with_denial(output.event, parts)
}

/// A blocked tool call is denied, with the reason of the block.
fn with_denial(event: &str, mut answer: HookAnswer) -> HookAnswer {
    if event == "PreToolUse"
        && let HookVerdict::Block { reason, .. } = &answer.verdict
    {
        answer.permission =
            Some(HookPermission { choice: PermissionChoice::Deny, reason: Some(reason.clone()) });
    }
    answer
}

/// The verdict for exit 2 when the JSON on stdout has no block of its own.
fn exit_two_verdict(output: &FinishedHookOutput<'_>) -> HookVerdict {
    let heuristic =
        matches!(output.event, "Stop" | "SubagentStop" | "TaskCompleted" | "TeammateIdle");
    if heuristic && trim(output.stdout).is_empty() {
        let stderr = output.stderr.to_lowercase();
        if stderr.contains("no such file") || stderr.contains("can't open") {
            return HookVerdict::Failed(HookFailure::ScriptMissing {
                stderr: trim(output.stderr).to_owned(),
            });
        }
    }
    let reason = if output.stderr.is_empty() { "No stderr output" } else { output.stderr };
    block_if_possible(output.event, reason.to_owned(), BlockForm::ExitTwo)
}

fn block_if_possible(event: &str, reason: String, form: BlockForm) -> HookVerdict {
    if can_block(event) {
        HookVerdict::Block { reason, form }
    } else {
        HookVerdict::Failed(HookFailure::CannotBlock { reason, form })
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
pub fn block_text(reason: &str, form: BlockForm, command: &str) -> String {
    match form {
        BlockForm::ExitTwo => format!("[{command}]: {reason}"),
        BlockForm::Json | BlockForm::AgentVerdict => reason.to_owned(),
    }
}

impl HookFailure {
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
            Self::CannotBlock { reason, form } => block_text(reason, *form, command),
            Self::NotStarted { why } => format!(
                "Failed with non-blocking status code: Error occurred while executing hook command: {why}"
            ),
            Self::Lost => "the hook killed the process that supervised it".to_owned(),
            Self::Evaluator { message } => message.clone(),
        }
    }
}

impl InvalidHookAnswer {
    /// The client's message to the user, without the schema that the client appends.
    pub fn message(&self) -> String {
        match self {
            Self::NotJson => {
                "Hook output looks like a JSON object but is not valid JSON".to_owned()
            }
            Self::Schema { why } => format!("Hook JSON output validation failed — {why}"),
            Self::OtherEvent { expected, found } => {
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
