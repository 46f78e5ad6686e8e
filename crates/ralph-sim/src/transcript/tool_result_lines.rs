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
    /// The client died during the call.
    Lost,
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
        let sandboxed = is_shell.then_some(false);
        let failed =
            UserLine { message: user_message(self.failure_content()), ..UserLine::default() };
        let error =
            || Some(StructuredToolResult::Text(format!("Error: {}", strip_error_marks(self.text))));
        match self.outcome {
            WrittenToolOutcome::Done(result) => UserLine {
                message: user_message(self.success_content(is_shell)),
                tool_use_result: Some(StructuredToolResult::Value(result)),
                sandboxed,
                permission_decision: Some(ACCEPTED),
                ..UserLine::default()
            },
            WrittenToolOutcome::Failed => UserLine {
                tool_use_result: error(),
                sandboxed,
                permission_decision: Some(ACCEPTED),
                ..failed
            },
            WrittenToolOutcome::Denied => UserLine {
                tool_use_result: error(),
                tool_denial_kind: Some("permission-rule"),
                permission_decision: Some(DENIED),
                ..failed
            },
            WrittenToolOutcome::InvalidCall => UserLine { tool_use_result: error(), ..failed },
            WrittenToolOutcome::Interrupted => UserLine {
                tool_use_result: Some(StructuredToolResult::Text(
                    "User rejected tool use".to_owned(),
                )),
                tool_denial_kind: Some("user-rejected"),
                ..failed
            },
            WrittenToolOutcome::Lost => UserLine {
                tool_use_result: Some(StructuredToolResult::Text(self.text.to_owned())),
                tool_denial_kind: Some("interrupted"),
                ..failed
            },
        }
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
