//! What the client is told, one line each.

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// One event that the client is to ask about.
#[derive(Clone, Copy, Debug)]
pub struct Hook<'a> {
    pub event: &'a str,
    pub matcher: Option<&'a str>,
    /// Comes back with every question.
    pub callback: &'a str,
    /// Without an answer by then the client goes on as if there were no hook.
    pub timeout_s: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
pub enum Permit<'a> {
    /// With the input as it was asked for.
    Allow {
        input: &'a str,
    },
    Deny {
        message: &'a str,
    },
}

pub fn initialize(request: &str, hooks: &[Hook<'_>]) -> Vec<u8> {
    let mut events = serde_json::Map::new();
    for hook in hooks {
        let mut matcher = json!({ "hookCallbackIds": [hook.callback] });
        if let Some(fields) = matcher.as_object_mut() {
            fields.extend(hook.matcher.map(|matcher| ("matcher".to_owned(), json!(matcher))));
            fields.extend(hook.timeout_s.map(|seconds| ("timeout".to_owned(), json!(seconds))));
        }
        let matchers = events.entry(hook.event).or_insert_with(|| json!([]));
        if let Some(matchers) = matchers.as_array_mut() {
            matchers.push(matcher);
        }
    }
    ask(request, &json!({ "subtype": "initialize", "hooks": events }))
}

/// A message of the person's. Given an id, the result tells which messages it answers.
pub fn user(text: &str, id: Option<&str>) -> Vec<u8> {
    let mut line = json!({ "type": "user", "message": { "role": "user", "content": text } });
    if let (Some(fields), Some(id)) = (line.as_object_mut(), id) {
        fields.insert("uuid".to_owned(), json!(id));
    }
    whole(&line)
}

/// The answer to a callback. `body` is the object that a hook would print; anything else is the empty answer.
pub fn answer(request: &str, body: &[u8]) -> Vec<u8> {
    // Printed anew: a line break within it would end the line.
    let body = serde_json::from_slice(body).ok().filter(Value::is_object);
    respond(request, &body.unwrap_or_else(|| json!({})))
}

/// For questions that there is no answer to.
pub fn refuse(request: &str, why: &str) -> Vec<u8> {
    whole(&json!({
        "type": "control_response",
        "response": { "subtype": "error", "request_id": request, "error": why },
    }))
}

pub fn permission(request: &str, permit: Permit<'_>) -> Vec<u8> {
    match permit {
        Permit::Allow { input } => {
            let input: Option<&RawValue> = serde_json::from_str(input).ok();
            let input = input.filter(|input| !input.get().contains(['\n', '\r']));
            respond(request, &Allowed { behavior: "allow", input })
        }
        Permit::Deny { message } => {
            respond(request, &json!({ "behavior": "deny", "message": message }))
        }
    }
}

pub fn context_usage(request: &str) -> Vec<u8> {
    ask(request, &json!({ "subtype": "get_context_usage" }))
}

pub fn session_cost(request: &str) -> Vec<u8> {
    ask(request, &json!({ "subtype": "get_session_cost" }))
}

#[derive(Serialize)]
struct Allowed<'a> {
    behavior: &'static str,
    #[serde(rename = "updatedInput", skip_serializing_if = "Option::is_none")]
    input: Option<&'a RawValue>,
}

#[derive(Serialize)]
struct Response<'a, Body> {
    r#type: &'static str,
    response: Success<'a, Body>,
}

#[derive(Serialize)]
struct Success<'a, Body> {
    subtype: &'static str,
    request_id: &'a str,
    response: Body,
}

fn respond(request: &str, body: &impl Serialize) -> Vec<u8> {
    let response = Success { subtype: "success", request_id: request, response: body };
    whole(&Response { r#type: "control_response", response })
}

fn ask(request: &str, body: &Value) -> Vec<u8> {
    whole(&json!({ "type": "control_request", "request_id": request, "request": body }))
}

fn whole(line: &impl Serialize) -> Vec<u8> {
    // It fails for maps whose keys are no strings, and for types that refuse: there are none here.
    let mut bytes = serde_json::to_vec(line).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}
