//! Lines for the results of tool calls.

use super::line::{
    AnswerContent, Permission, Structured, TextBlock, ToolAnswer, ToolFailure, User, UserContent,
};
use super::says;
use serde_json::Value;

#[derive(Clone, Copy, Debug)]
pub struct ToolResult<'a> {
    /// The id of the call.
    pub id: &'a str,
    /// The name of the tool.
    pub name: &'a str,
    /// The text that the model reads.
    pub text: &'a str,
    pub outcome: Outcome<'a>,
}

#[derive(Clone, Copy, Debug)]
pub enum Outcome<'a> {
    /// The tool succeeded, with its structured result (`toolUseResult`).
    Done(&'a Value),
    /// The tool ran and failed.
    Failed,
    /// A hook denied the call.
    Denied,
    /// The tool is unknown or its input is invalid.
    Wrong,
    /// The user interrupted the call.
    Interrupted,
    /// The client died during the call.
    Lost,
}

const ACCEPTED: Permission =
    Permission { decision: "accept", source: "config", reason_type: "mode", reason_code: None };
const DENIED: Permission = Permission {
    decision: "reject",
    source: "hook",
    reason_type: "hook",
    reason_code: Some("hook:PreToolUse"),
};

impl<'a> ToolResult<'a> {
    pub(super) fn line(&self) -> User<'a> {
        let is_shell = self.name == "Bash";
        let sandboxed = is_shell.then_some(false);
        let failed = User { message: says(self.failure()), ..User::default() };
        let error = || Some(Structured::Text(format!("Error: {}", unwrapped(self.text))));
        match self.outcome {
            Outcome::Done(result) => User {
                message: says(self.success(is_shell)),
                tool_use_result: Some(Structured::Value(result)),
                sandboxed,
                permission_decision: Some(ACCEPTED),
                ..User::default()
            },
            Outcome::Failed => User {
                tool_use_result: error(),
                sandboxed,
                permission_decision: Some(ACCEPTED),
                ..failed
            },
            Outcome::Denied => User {
                tool_use_result: error(),
                tool_denial_kind: Some("permission-rule"),
                permission_decision: Some(DENIED),
                ..failed
            },
            Outcome::Wrong => User { tool_use_result: error(), ..failed },
            Outcome::Interrupted => User {
                tool_use_result: Some(Structured::Text("User rejected tool use".to_owned())),
                tool_denial_kind: Some("user-rejected"),
                ..failed
            },
            Outcome::Lost => User {
                tool_use_result: Some(Structured::Text(self.text.to_owned())),
                tool_denial_kind: Some("interrupted"),
                ..failed
            },
        }
    }

    fn success(&self, is_shell: bool) -> UserContent<'a> {
        let content = match self.name {
            "Agent" | "Task" => AnswerContent::Blocks([TextBlock::new(self.text)]),
            _ => AnswerContent::Text(self.text),
        };
        UserContent::Answer([ToolAnswer {
            tool_use_id: self.id,
            kind: "tool_result",
            content,
            is_error: is_shell.then_some(false),
        }])
    }

    fn failure(&self) -> UserContent<'a> {
        UserContent::Failure([ToolFailure {
            kind: "tool_result",
            content: self.text,
            is_error: true,
            tool_use_id: self.id,
        }])
    }
}

/// Removes the marks that some errors carry for the model.
fn unwrapped(text: &str) -> &str {
    let inner = text
        .strip_prefix("<tool_use_error>")
        .and_then(|text| text.strip_suffix("</tool_use_error>"))
        .unwrap_or(text);
    inner.strip_prefix("Error: ").unwrap_or(inner)
}
