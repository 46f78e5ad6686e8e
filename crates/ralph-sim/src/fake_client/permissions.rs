//! Decides whether a tool call may run: by the permission mode, by hooks, or by asking the driver.

use super::process::{FakeClientProcess, ReceivedInput, TurnBreak};
use crate::client_ids;
use crate::client_rules::event_outcome::{EventOutcome, HandlerAnswer};
use crate::client_rules::hook_input::{HookInput, SharedInputFields};
use crate::client_rules::tool_invocation::{ToolInvocation, ToolOutcome};
use crate::hook_answer::PermissionChoice;
use serde_json::{Value, json};

const DONT_ASK_DENIAL: &str = " has been denied because Claude Code is running in don't ask mode. IMPORTANT: You *may* attempt \
    to accomplish this action using other tools that might naturally be used to accomplish this goal, e.g. using head \
    instead of cat. But you *should not* attempt to work around this denial in malicious ways, e.g. do not use your \
    ability to run tests to execute non-test actions. You should only try to work around this restriction in reasonable \
    ways that do not attempt to bypass the intent behind this denial. If you believe this capability is essential to \
    complete the user's request, STOP and explain to the user what you were trying to do and why you need this \
    permission. Let the user decide how to proceed.";
const PERMISSION_EVENT: &str = "PermissionRequest";

pub(super) enum PermissionOutcome {
    /// The call was rejected before permissions were checked.
    NotChecked,
    ByMode,
    /// Allowed by the driver, with the input that replaces the original, if any.
    ByDriver(Option<Value>),
    Denied {
        text: String,
        by: DenialSource,
    },
    /// The driver interrupted the turn.
    Interrupted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DenialSource {
    /// Denied because no permission prompt is available.
    NoPrompter,
    Mode,
    Driver,
    Hook,
}

impl FakeClientProcess<'_> {
    pub(super) fn request_permission(
        &mut self,
        call: &ToolInvocation,
        outcome: &EventOutcome,
    ) -> Result<PermissionOutcome, TurnBreak> {
        let is_allowed = outcome.answers.iter().any(|answered| {
            answered
                .answer
                .permission
                .as_ref()
                .is_some_and(|asked| asked.choice == PermissionChoice::Allow)
        });
        if !needs_user_interaction(call) && (is_allowed || self.needs_no_permission(call)) {
            return Ok(PermissionOutcome::ByMode);
        }
        if self.permission_mode() == "dontAsk" {
            return self.write_denial(call, DenialSource::Mode);
        }
        self.permission_call = Some(call.id.clone());
        let granted = if self.options.flags.asks_driver && self.is_input_open {
            self.ask_driver(call)
        } else {
            match self.ask_permission_hooks(call)? {
                Some(granted) => Ok(granted),
                None => self.write_denial(call, DenialSource::NoPrompter),
            }
        };
        self.permission_call = None;
        granted
    }

    /// Whether the call needs no permission.
    fn needs_no_permission(&self, call: &ToolInvocation) -> bool {
        let is_edit = matches!(call.name.as_str(), "Write" | "Edit");
        let is_listed = |rule: &String| rule.split('(').next() == Some(call.name.as_str());
        self.is_bypassed()
            || call.name == "Read"
            || (is_edit && self.permission_mode() == "acceptEdits")
            || self.options.flags.allowed_tools.iter().any(is_listed)
    }

    /// Returns `None` if no hook decides.
    fn ask_permission_hooks(
        &mut self,
        call: &ToolInvocation,
    ) -> Result<Option<PermissionOutcome>, TurnBreak> {
        let outcome =
            self.run_callbacks(PERMISSION_EVENT, Some(&call.name), self.permission_input(call))?;
        Ok(outcome.answers.iter().filter_map(hook_decision).next_back())
    }

    fn permission_input(&self, call: &ToolInvocation) -> HookInput {
        let is_edit = !needs_user_interaction(call);
        self.hook_input(PERMISSION_EVENT, SharedInputFields::Turn)
            .with("tool_name", call.name.clone())
            .with("tool_input", call.input.clone())
            .with_opt("permission_suggestions", is_edit.then(permission_suggestions))
    }

    /// Asks the driver and its hooks at the same time. The first decision counts.
    fn ask_driver(&mut self, call: &ToolInvocation) -> Result<PermissionOutcome, TurnBreak> {
        let request = client_ids::new_uuid();
        let mut asked = json!({
            "subtype": "can_use_tool",
            "tool_name": call.name,
            "display_name": call.name,
            "input": call.input,
            "tool_use_id": call.id,
        });
        if needs_user_interaction(call) {
            asked["requires_user_interaction"] = json!(true);
        } else {
            asked["description"] = json!(describe_call(call));
            asked["permission_suggestions"] = permission_suggestions();
            asked["server_policy_ask_only"] = json!(false);
        }
        self.write_line(
            &json!({"type": "control_request", "request_id": request, "request": asked}),
        )?;
        self.open_requests.push(request.clone());
        let hooks =
            self.send_callbacks(PERMISSION_EVENT, Some(&call.name), &self.permission_input(call))?;
        loop {
            match self.receive(None)? {
                ReceivedInput::Answer(id, answer) if id == request => {
                    self.open_requests.clear();
                    return Ok(driver_decision(answer));
                }
                ReceivedInput::Answer(id, answer) => {
                    let Some(open) = hooks.iter().find(|open| open.request == id) else { continue };
                    let answered = self.interpret_callback(PERMISSION_EVENT, open, answer)?;
                    if let Some(granted) = answered.as_ref().and_then(hook_decision) {
                        self.open_requests.retain(|asked| *asked == request);
                        self.cancel_open_requests()?;
                        return Ok(granted);
                    }
                }
                ReceivedInput::Interrupt => return Ok(PermissionOutcome::Interrupted),
                ReceivedInput::Closed => return self.write_denial(call, DenialSource::NoPrompter),
                ReceivedInput::Task(id, finished) => self.report_finished_task(&id, &finished)?,
                ReceivedInput::Handled | ReceivedInput::Tool(_) | ReceivedInput::TimedOut => {}
            }
        }
    }

    fn write_denial(
        &mut self,
        call: &ToolInvocation,
        by: DenialSource,
    ) -> Result<PermissionOutcome, TurnBreak> {
        let text = match call.input.get("file_path").and_then(Value::as_str) {
            _ if by == DenialSource::Mode => {
                format!("Permission to use {}{DONT_ASK_DENIAL}", call.name)
            }
            Some(path) => format!(
                "Claude requested permissions to write to {path}, but you haven't granted it yet."
            ),
            None => format!(
                "Claude requested permissions to use {}, but you haven't granted it yet.",
                call.name
            ),
        };
        let mut line = json!({
            "type": "system",
            "subtype": "permission_denied",
            "tool_name": call.name,
            "tool_use_id": call.id,
            "message": text,
        });
        if by == DenialSource::Mode {
            line["decision_reason_type"] = json!("mode");
        }
        self.write_message(line)?;
        Ok(PermissionOutcome::Denied { text, by })
    }
}

/// Whether only a person can answer the call.
fn needs_user_interaction(call: &ToolInvocation) -> bool {
    matches!(call.name.as_str(), "AskUserQuestion" | "ExitPlanMode")
}

fn hook_decision(answered: &HandlerAnswer) -> Option<PermissionOutcome> {
    let asked = answered.answer.permission.as_ref()?;
    match asked.choice {
        PermissionChoice::Allow => {
            Some(PermissionOutcome::ByDriver(answered.answer.updated_input.clone()))
        }
        PermissionChoice::Deny => {
            let text = asked.reason.clone().unwrap_or_default();
            Some(PermissionOutcome::Denied { text, by: DenialSource::Hook })
        }
        PermissionChoice::Ask | PermissionChoice::Defer => None,
    }
}

fn driver_decision(answer: Result<Value, String>) -> PermissionOutcome {
    let answer = match answer {
        Ok(answer) => answer,
        Err(text) => return PermissionOutcome::Denied { text, by: DenialSource::Driver },
    };
    if answer["behavior"] == "allow" {
        return PermissionOutcome::ByDriver(answer.get("updatedInput").cloned());
    }
    if answer["interrupt"] == true {
        return PermissionOutcome::Interrupted;
    }
    let text = answer["message"].as_str().unwrap_or_default().to_owned();
    PermissionOutcome::Denied { text, by: DenialSource::Driver }
}

fn permission_suggestions() -> Value {
    json!([{"type": "setMode", "mode": "acceptEdits", "destination": "session"}])
}

/// A short description of the call: its file name or command.
fn describe_call(call: &ToolInvocation) -> String {
    let path = call.input.get("file_path").and_then(Value::as_str);
    let name = path.and_then(|path| path.rsplit('/').next());
    name.unwrap_or_else(|| call.text("command")).to_owned()
}

/// The result of `AskUserQuestion`, with the answers that the driver put into its input.
pub(super) fn question_result(input: &Value) -> ToolOutcome {
    let answers = input["answers"].as_object().cloned().unwrap_or_default();
    let listed = answers.iter().map(|(question, answer)| {
        format!("\"{question}\"=\"{}\"", answer.as_str().unwrap_or_default())
    });
    let text = format!(
        "Your questions have been answered: {}. You can now continue with these answers in mind.",
        listed.collect::<Vec<_>>().join(", ")
    );
    ToolOutcome::Ran { response: input.clone(), text }
}
