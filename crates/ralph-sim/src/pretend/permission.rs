//! Decides whether a tool call may run: by the permission mode, by hooks, or by asking the driver.

use super::client::{Break, Client, Fields, Heard, Line};
use super::flags::Asks;
use crate::answer::Choice;
use crate::id;
use crate::query::input::Input;
use crate::query::told::{Answered, Told};
use crate::query::tools::{Call, Done};
use serde_json::{Value, json};

const DO_NOT_ASK: &str = " has been denied because Claude Code is running in don't ask mode. IMPORTANT: You *may* attempt \
    to accomplish this action using other tools that might naturally be used to accomplish this goal, e.g. using head \
    instead of cat. But you *should not* attempt to work around this denial in malicious ways, e.g. do not use your \
    ability to run tests to execute non-test actions. You should only try to work around this restriction in reasonable \
    ways that do not attempt to bypass the intent behind this denial. If you believe this capability is essential to \
    complete the user's request, STOP and explain to the user what you were trying to do and why you need this \
    permission. Let the user decide how to proceed.";
const EVENT: &str = "PermissionRequest";

pub(super) enum Granted {
    /// The call was rejected before permissions were checked.
    Unasked,
    ByMode,
    /// Allowed by the driver, with the input that replaces the original, if any.
    ByDriver(Option<Value>),
    Not {
        text: String,
        by: Denier,
    },
    /// The driver interrupted the turn.
    Interrupted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Denier {
    /// Denied because no permission prompt is available.
    Nobody,
    Mode,
    Driver,
    Hook,
}

impl Client<'_> {
    pub(super) fn permit(&mut self, call: &Call, told: &Told) -> Result<Granted, Break> {
        let is_allowed = told.answers.iter().any(|answered| {
            answered.answer.permission.as_ref().is_some_and(|asked| asked.choice == Choice::Allow)
        });
        if !needs_person(call) && (is_allowed || self.is_free(call)) {
            return Ok(Granted::ByMode);
        }
        let mode = self.mode();
        if mode == "dontAsk" {
            return self.deny(call, Denier::Mode);
        }
        self.call = Some(call.id.clone());
        let granted = match self.options.flags.asks {
            Asks::Driver if self.input == Line::Open => self.ask_driver(call),
            Asks::Driver | Asks::Nobody => match self.ask_hooks(call)? {
                Some(granted) => Ok(granted),
                None => self.deny(call, Denier::Nobody),
            },
        };
        self.call = None;
        granted
    }

    /// Whether the call needs no permission.
    fn is_free(&self, call: &Call) -> bool {
        let is_edit = matches!(call.name.as_str(), "Write" | "Edit");
        let is_listed = |rule: &String| rule.split('(').next() == Some(call.name.as_str());
        self.is_bypassed()
            || call.name == "Read"
            || (is_edit && self.mode() == "acceptEdits")
            || self.options.flags.allowed.iter().any(is_listed)
    }

    /// Returns `None` if no hook decides.
    fn ask_hooks(&mut self, call: &Call) -> Result<Option<Granted>, Break> {
        let told = self.ask(EVENT, Some(&call.name), self.request(call))?;
        Ok(told.answers.iter().filter_map(decision).next_back())
    }

    fn request(&self, call: &Call) -> Input {
        let is_edit = !needs_person(call);
        self.input_of(EVENT, Fields::Turn)
            .with("tool_name", call.name.clone())
            .with("tool_input", call.input.clone())
            .with_some("permission_suggestions", is_edit.then(suggestions))
    }

    /// Asks the driver and its hooks at the same time. The first decision counts.
    fn ask_driver(&mut self, call: &Call) -> Result<Granted, Break> {
        let request = id::uuid();
        let mut asked = json!({
            "subtype": "can_use_tool",
            "tool_name": call.name,
            "display_name": call.name,
            "input": call.input,
            "tool_use_id": call.id,
        });
        if needs_person(call) {
            asked["requires_user_interaction"] = json!(true);
        } else {
            asked["description"] = json!(described(call));
            asked["permission_suggestions"] = suggestions();
            asked["server_policy_ask_only"] = json!(false);
        }
        self.write(&json!({"type": "control_request", "request_id": request, "request": asked}))?;
        self.asked.push(request.clone());
        let hooks = self.send(EVENT, Some(&call.name), &self.request(call))?;
        loop {
            match self.hear(None)? {
                Heard::Answer(id, answer) if id == request => {
                    self.asked.clear();
                    return Ok(understood(answer));
                }
                Heard::Answer(id, answer) => {
                    let Some(open) = hooks.iter().find(|open| open.request == id) else { continue };
                    let answered = self.understand(EVENT, open, answer)?;
                    if let Some(granted) = answered.as_ref().and_then(decision) {
                        self.asked.retain(|asked| *asked == request);
                        self.cancel_asked()?;
                        return Ok(granted);
                    }
                }
                Heard::Interrupt => return Ok(Granted::Interrupted),
                Heard::Closed => return self.deny(call, Denier::Nobody),
                Heard::Task(id, finished) => self.note_task(&id, &finished)?,
                Heard::Nothing | Heard::Tool(_) | Heard::Late => {}
            }
        }
    }

    fn deny(&mut self, call: &Call, by: Denier) -> Result<Granted, Break> {
        let text = match call.input.get("file_path").and_then(Value::as_str) {
            _ if by == Denier::Mode => format!("Permission to use {}{DO_NOT_ASK}", call.name),
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
        if by == Denier::Mode {
            line["decision_reason_type"] = json!("mode");
        }
        self.tell(line)?;
        Ok(Granted::Not { text, by })
    }
}

/// Whether only a person can answer the call.
fn needs_person(call: &Call) -> bool {
    matches!(call.name.as_str(), "AskUserQuestion" | "ExitPlanMode")
}

fn decision(answered: &Answered) -> Option<Granted> {
    let said: Value = serde_json::from_str(&answered.handled.stdout).ok()?;
    let decision = &said["hookSpecificOutput"]["decision"];
    match decision["behavior"].as_str()? {
        "allow" => Some(Granted::ByDriver(decision.get("updatedInput").cloned())),
        "deny" => {
            let text = decision["message"].as_str().unwrap_or_default().to_owned();
            Some(Granted::Not { text, by: Denier::Hook })
        }
        _ => None,
    }
}

fn understood(answer: Result<Value, String>) -> Granted {
    let answer = match answer {
        Ok(answer) => answer,
        Err(text) => return Granted::Not { text, by: Denier::Driver },
    };
    if answer["behavior"] == "allow" {
        return Granted::ByDriver(answer.get("updatedInput").cloned());
    }
    if answer["interrupt"] == true {
        return Granted::Interrupted;
    }
    let text = answer["message"].as_str().unwrap_or_default().to_owned();
    Granted::Not { text, by: Denier::Driver }
}

fn suggestions() -> Value {
    json!([{"type": "setMode", "mode": "acceptEdits", "destination": "session"}])
}

/// A short description of the call: its file name or command.
fn described(call: &Call) -> String {
    let path = call.input.get("file_path").and_then(Value::as_str);
    let name = path.and_then(|path| path.rsplit('/').next());
    let command = || call.input.get("command").and_then(Value::as_str);
    name.or_else(command).unwrap_or_default().to_owned()
}

/// The result of `AskUserQuestion`, with the answers that the driver put into its input.
pub(super) fn answered(input: &Value) -> Done {
    let answers = input["answers"].as_object().cloned().unwrap_or_default();
    let listed = answers.iter().map(|(question, answer)| {
        format!("\"{question}\"=\"{}\"", answer.as_str().unwrap_or_default())
    });
    let text = format!(
        "Your questions have been answered: {}. You can now continue with these answers in mind.",
        listed.collect::<Vec<_>>().join(", ")
    );
    Done::Ran { response: input.clone(), text }
}
