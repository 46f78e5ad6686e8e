//! Tool calls and their outcomes, as hooks and the model receive them.

use super::hook_input::HookInput;
use crate::model_answer;
use crate::scenario::ScriptedTurn;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

const REJECTED_TEXT: &str = "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file \
    edit, the new_string was NOT written to the file). STOP what you are doing and wait for the user to tell you how to \
    proceed.";
const STOPPED_WHILE_RUNNING_TEXT: &str = " Correction to the text above: this call was stopped while running, not refused before it \
    ran. It may have run in part or in full, and its changes may have been written. No permission prompt was involved. Work \
    it started elsewhere (a remote command, a background process) may still be running, so check before starting the same \
    work again. The instruction to stop and wait still stands.";

/// One tool call: name, input and id.
#[derive(Clone, Debug)]
pub(crate) struct ToolInvocation {
    pub(crate) name: String,
    pub(crate) input: Value,
    pub(crate) id: String,
}

impl ToolInvocation {
    /// The calls of an answer, in order.
    pub(crate) fn all_of(turn: &ScriptedTurn, request: u64, project: &Path) -> Vec<Self> {
        let calls = turn.tools.iter().enumerate().map(|(index, call)| {
            let (name, input) = model_answer::tool_use(call, project);
            let name = if name == "Task" { "Agent".to_owned() } else { name };
            Self { name, input, id: model_answer::tool_use_id(request, index) }
        });
        calls.collect()
    }

    /// A string field of the input; empty if there is none.
    pub(crate) fn text(&self, field: &str) -> &str {
        self.input.get(field).and_then(Value::as_str).unwrap_or_default()
    }

    pub(crate) fn is_background(&self) -> Option<bool> {
        self.input.get("run_in_background").and_then(Value::as_bool)
    }

    /// The input with the client's defaults.
    pub(crate) fn input_with_defaults(&self) -> Value {
        let mut input = self.input.clone();
        if self.name == "Edit" && input.get("replace_all").is_none() {
            input["replace_all"] = json!(false);
        }
        input
    }

    /// The input as hooks receive it: with absolute paths and defaults.
    pub(crate) fn hook_tool_input(&self, cwd: &Path) -> Value {
        let mut input = self.input_with_defaults();
        if let Some(path) = input.get("file_path").and_then(Value::as_str) {
            let absolute = cwd.join(path).to_string_lossy().into_owned();
            input["file_path"] = json!(absolute);
        }
        input
    }

    /// The event after the call and its additional fields. `None` if the call never ran.
    pub(crate) fn event_after(
        &self,
        done: &ToolOutcome,
        took: Duration,
    ) -> Option<(&'static str, HookInput)> {
        let id = self.id.clone();
        let (event, input) = match done {
            ToolOutcome::Ran { response, .. } => {
                let input = HookInput::default().with("tool_response", response.clone());
                ("PostToolUse", input.with("tool_use_id", id))
            }
            ToolOutcome::Failed { text } => {
                let input = HookInput::default().with("tool_use_id", id);
                let input = input.with("error", text.clone()).with("is_interrupt", false);
                ("PostToolUseFailure", input)
            }
            ToolOutcome::Refused { .. }
            | ToolOutcome::Denied { .. }
            | ToolOutcome::Interrupted { .. } => return None,
        };
        let ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        Some((event, input.with("duration_ms", ms)))
    }
}

/// The outcome of a tool call.
#[derive(Clone, Debug)]
pub(crate) enum ToolOutcome {
    Ran {
        response: Value,
        text: String,
    },
    Failed {
        text: String,
    },
    /// The client rejected the call before it ran; no hooks fire.
    Refused {
        text: String,
    },
    /// A hook denied the call.
    Denied {
        text: String,
    },
    /// The person interrupted the call.
    Interrupted {
        text: String,
    },
}

impl ToolOutcome {
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Ran { text, .. }
            | Self::Failed { text }
            | Self::Refused { text }
            | Self::Denied { text }
            | Self::Interrupted { text } => text,
        }
    }

    pub(crate) fn is_error(&self) -> bool {
        !matches!(self, Self::Ran { .. })
    }

    /// The outcomes of interrupted calls: the first was running, and the others had not started.
    pub(crate) fn interrupted_calls() -> impl Iterator<Item = Self> {
        let running = format!("{REJECTED_TEXT}{STOPPED_WHILE_RUNNING_TEXT}");
        let texts = std::iter::once(running).chain(std::iter::repeat(REJECTED_TEXT.to_owned()));
        texts.map(|text| Self::Interrupted { text })
    }

    /// The placeholder result of a tool that exists in the client but is not simulated.
    pub(crate) fn placeholder(tool: &str) -> Self {
        Self::Ran { response: json!({}), text: format!("(`{tool}` is not simulated)") }
    }
}
