//! Whether a tool may run, and who is asked.

use super::client::{Break, Client, Fields, Heard, Line};
use super::flags::Asks;
use crate::answer::Choice;
use crate::id;
use crate::query::told::Told;
use crate::query::tools::{Call, Done};
use serde_json::{Value, json};

pub(super) enum Granted {
    /// It never came to a question.
    Unasked,
    ByMode,
    /// By who drives the client, with another input where it gave one.
    ByDriver(Option<Value>),
    Not {
        text: String,
        source: &'static str,
    },
    /// The driver does not want the turn any more.
    Interrupted,
}

impl Client<'_> {
    pub(super) fn permit(&mut self, call: &Call, told: &Told) -> Result<Granted, Break> {
        let needs_person = matches!(call.name.as_str(), "AskUserQuestion" | "ExitPlanMode");
        let is_allowed = told.answers.iter().any(|answered| {
            answered.answer.permission.as_ref().is_some_and(|asked| asked.choice == Choice::Allow)
        });
        if !needs_person && (is_allowed || self.is_free(call)) {
            return Ok(Granted::ByMode);
        }
        let mode = self.mode();
        if mode == "dontAsk" {
            return self.deny(call, Some("mode"));
        }
        match self.options.flags.asks {
            Asks::Driver if self.input == Line::Open => self.ask_driver(call, needs_person),
            Asks::Driver | Asks::Nobody => match self.ask_hooks(call)? {
                Some(granted) => Ok(granted),
                None => self.deny(call, None),
            },
        }
    }

    /// Whether nobody has to be asked.
    fn is_free(&self, call: &Call) -> bool {
        let is_edit = matches!(call.name.as_str(), "Write" | "Edit");
        let is_listed = |rule: &String| rule.split('(').next() == Some(call.name.as_str());
        self.is_bypassed()
            || call.name == "Read"
            || (is_edit && self.mode() == "acceptEdits")
            || self.options.flags.allowed.iter().any(is_listed)
    }

    /// `None` when no hook decides.
    fn ask_hooks(&mut self, call: &Call) -> Result<Option<Granted>, Break> {
        let event = "PermissionRequest";
        let input = self
            .input_of(event, Fields::Turn)
            .with("tool_name", call.name.clone())
            .with("tool_input", call.input.clone())
            .with("permission_suggestions", suggestions());
        let told = self.ask(event, Some(&call.name), input)?;
        let mut decisions = told.answers.iter().filter_map(|answered| {
            let said: Value = serde_json::from_str(&answered.handled.stdout).ok()?;
            let decision = &said["hookSpecificOutput"]["decision"];
            match decision["behavior"].as_str()? {
                "allow" => Some(Granted::ByDriver(decision.get("updatedInput").cloned())),
                "deny" => {
                    let text = decision["message"].as_str().unwrap_or_default().to_owned();
                    Some(Granted::Not { text, source: "hook" })
                }
                _ => None,
            }
        });
        Ok(decisions.next_back())
    }

    fn ask_driver(&mut self, call: &Call, needs_person: bool) -> Result<Granted, Break> {
        let request = id::uuid();
        let mut asked = json!({
            "subtype": "can_use_tool",
            "tool_name": call.name,
            "display_name": call.name,
            "input": call.input,
            "tool_use_id": call.id,
        });
        if needs_person {
            asked["requires_user_interaction"] = json!(true);
        } else {
            asked["description"] = json!(described(call));
            asked["permission_suggestions"] = suggestions();
            asked["server_policy_ask_only"] = json!(false);
        }
        self.write(&json!({"type": "control_request", "request_id": request, "request": asked}))?;
        self.asked.push(request.clone());
        loop {
            match self.hear(None)? {
                Heard::Answer(id, answer) if id == request => {
                    self.asked.retain(|asked| *asked != request);
                    return Ok(understood(answer));
                }
                Heard::Interrupt => return Ok(Granted::Interrupted),
                Heard::Closed => return self.deny(call, None),
                Heard::Task(id, finished) => self.note_task(&id, &finished)?,
                Heard::Nothing | Heard::Answer(..) | Heard::Tool(_) | Heard::Late => {}
            }
        }
    }

    fn deny(&mut self, call: &Call, reason: Option<&str>) -> Result<Granted, Break> {
        let text = match call.input.get("file_path").and_then(Value::as_str) {
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
        if let Some(reason) = reason {
            line["decision_reason_type"] = json!(reason);
        }
        self.tell(line)?;
        Ok(Granted::Not { text, source: "config" })
    }
}

fn understood(answer: Result<Value, String>) -> Granted {
    let answer = match answer {
        Ok(answer) => answer,
        Err(text) => return Granted::Not { text, source: "user_reject" },
    };
    if answer["behavior"] == "allow" {
        return Granted::ByDriver(answer.get("updatedInput").cloned());
    }
    if answer["interrupt"] == true {
        return Granted::Interrupted;
    }
    let text = answer["message"].as_str().unwrap_or_default().to_owned();
    Granted::Not { text, source: "user_reject" }
}

fn suggestions() -> Value {
    json!([{"type": "setMode", "mode": "acceptEdits", "destination": "session"}])
}

/// In a few words.
fn described(call: &Call) -> String {
    let path = call.input.get("file_path").and_then(Value::as_str);
    let name = path.and_then(|path| path.rsplit('/').next());
    let command = || call.input.get("command").and_then(Value::as_str);
    name.or_else(command).unwrap_or_default().to_owned()
}

/// What the agent reads of the answers to its questions.
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
