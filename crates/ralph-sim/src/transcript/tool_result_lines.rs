//! Lines for the results of tool calls.

use super::conversation_lines::{
    PermissionDecisionWire, StructuredToolResult, TextBlockWire, ToolErrorBlock, ToolSuccessBlock,
    ToolSuccessContent, UserLine, UserLineContent,
};
use super::user_message;
use serde_json::Value;

#[derive(Clone, Copy, Debug)]
pub struct WrittenToolResult<'a> {
    /// The id of the call.
    pub id: &'a str,
    /// The name of the tool.
    pub name: &'a str,
    /// The text that the model reads.
    pub text: &'a str,
    pub outcome: WrittenToolOutcome<'a>,
}

#[derive(Clone, Copy, Debug)]
pub enum WrittenToolOutcome<'a> {
    /// The tool succeeded, with its structured result (`toolUseResult`).
    Done(&'a Value),
    /// The tool ran and failed.
    Failed,
    /// A hook denied the call.
    Denied,
    /// The tool is unknown or its input is invalid.
    InvalidCall,
    /// The user interrupted the call.
    Interrupted,
}

const ACCEPTED: PermissionDecisionWire = PermissionDecisionWire {
    decision: "accept",
    source: "config",
    reason_type: "mode",
    reason_code: None,
};
const DENIED: PermissionDecisionWire = PermissionDecisionWire {
    decision: "reject",
    source: "hook",
    reason_type: "hook",
    reason_code: Some("hook:PreToolUse"),
};

impl<'a> WrittenToolResult<'a> {
    pub(super) fn user_line(&self) -> UserLine<'a> {
        let is_shell = self.name == "Bash";
        let content = match self.outcome {
            WrittenToolOutcome::Done(_) => self.success_content(is_shell),
            WrittenToolOutcome::Failed
            | WrittenToolOutcome::Denied
            | WrittenToolOutcome::InvalidCall
            | WrittenToolOutcome::Interrupted => self.failure_content(),
        };
        let has_run =
            matches!(self.outcome, WrittenToolOutcome::Done(_) | WrittenToolOutcome::Failed);
        let (tool_denial_kind, denial) = match self.outcome {
            WrittenToolOutcome::Denied => (Some("permission-rule"), Some(DENIED)),
            WrittenToolOutcome::Interrupted => (Some("user-rejected"), None),
            WrittenToolOutcome::Done(_)
            | WrittenToolOutcome::Failed
            | WrittenToolOutcome::InvalidCall => (None, None),
        };
        UserLine {
            message: user_message(content),
            tool_use_result: Some(self.structured_result()),
            sandboxed: (has_run && is_shell).then_some(false),
            tool_denial_kind,
            permission_decision: if has_run { Some(ACCEPTED) } else { denial },
            ..UserLine::default()
        }
    }

    /// The structured result: the tool's own, or a text that says why there is none.
    pub fn structured_result(&self) -> StructuredToolResult<'a> {
        StructuredToolResult::Text(match self.outcome {
            WrittenToolOutcome::Done(result) => return StructuredToolResult::Value(result),
            WrittenToolOutcome::Interrupted => "User rejected tool use".to_owned(),
            WrittenToolOutcome::Failed
            | WrittenToolOutcome::Denied
            | WrittenToolOutcome::InvalidCall => {
                format!("Error: {}", strip_error_marks(self.text))
            }
        })
    }

    fn success_content(&self, is_shell: bool) -> UserLineContent<'a> {
        let content = match self.name {
            "Agent" | "Task" => ToolSuccessContent::Blocks([TextBlockWire::new(self.text)]),
            _ => ToolSuccessContent::Text(self.text),
        };
        UserLineContent::Answer([ToolSuccessBlock {
            tool_use_id: self.id,
            kind: "tool_result",
            content,
            is_error: is_shell.then_some(false),
        }])
    }

    fn failure_content(&self) -> UserLineContent<'a> {
        UserLineContent::Failure([ToolErrorBlock {
            kind: "tool_result",
            content: self.text,
            is_error: true,
            tool_use_id: self.id,
        }])
    }
}

/// Removes the marks that some errors carry for the model.
fn strip_error_marks(text: &str) -> &str {
    let inner = text
        .strip_prefix("<tool_use_error>")
        .and_then(|text| text.strip_suffix("</tool_use_error>"))
        .unwrap_or(text);
    inner.strip_prefix("Error: ").unwrap_or(inner)
}
