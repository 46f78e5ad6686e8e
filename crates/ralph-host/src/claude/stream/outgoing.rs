//! Serialisers for the lines that are sent to the client.

use crate::HookReply;
use crate::claude::hooks::HOOKS;
use crate::stream::PermissionReply;
use alloc::borrow::ToOwned;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// In seconds, longer than any gate may take. The client's default is ten minutes.
const CALLBACK_TIMEOUT: u32 = 90_000;

/// Registers a callback for one hook event.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallbackHook<'a> {
    pub(super) event: &'a str,
    pub(super) matcher: Option<&'a str>,
    /// The id that the client sends with every callback.
    pub(super) callback: &'a str,
    /// After this time without an answer the client continues as if there were no hook.
    pub(super) timeout_s: Option<u32>,
}

/// The request that starts a conversation, with a callback for every event that ralph answers. The id of a callback is
/// the name of its event.
pub(in crate::claude) fn open_conversation(request: &str) -> Vec<u8> {
    let timeout_s = Some(CALLBACK_TIMEOUT);
    let rows = HOOKS.events.iter().filter(|row| row.has_callback);
    let hooks: Vec<_> = rows
        .map(|row| CallbackHook { event: row.event, matcher: None, callback: row.event, timeout_s })
        .collect();
    initialize_request(request, &hooks)
}

/// The answer to a callback, from the reply of a command hook.
pub(in crate::claude) fn hook_answer(request: &str, reply: &HookReply) -> Vec<u8> {
    if reply.exit == 2 {
        let reason = String::from_utf8_lossy(&reply.stderr);
        let body = json!({ "decision": "block", "reason": reason.trim_end() }).to_string();
        return callback_answer(request, body.as_bytes());
    }
    callback_answer(request, &reply.stdout)
}

/// The request that starts a conversation and registers the callbacks.
pub(super) fn initialize_request(request: &str, hooks: &[CallbackHook<'_>]) -> Vec<u8> {
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
    control_request(request, &json!({ "subtype": "initialize", "hooks": events }))
}

/// A user message. If it has an id, the result lists it among the messages that it answers.
pub(in crate::claude) fn user_message(text: &str, id: Option<&str>) -> Vec<u8> {
    let mut line = json!({ "type": "user", "message": { "role": "user", "content": text } });
    if let (Some(fields), Some(id)) = (line.as_object_mut(), id) {
        fields.insert("uuid".to_owned(), json!(id));
    }
    to_line(&line)
}

/// The answer to a callback. `body` is the JSON object that a hook would print; anything else becomes an empty object.
pub(super) fn callback_answer(request: &str, body: &[u8]) -> Vec<u8> {
    // Serialised again, because a line break inside it would end the line.
    let body = serde_json::from_slice(body).ok().filter(Value::is_object);
    control_response(request, &body.unwrap_or_else(|| json!({})))
}

/// An error response to a request that is not supported.
pub(in crate::claude) fn error_response(request: &str, why: &str) -> Vec<u8> {
    to_line(&json!({
        "type": "control_response",
        "response": { "subtype": "error", "request_id": request, "error": why },
    }))
}

pub(in crate::claude) fn permission_response(
    request: &str,
    permit: PermissionReply<'_>,
) -> Vec<u8> {
    match permit {
        PermissionReply::Allow { input } => {
            let input: Option<&RawValue> = serde_json::from_str(input).ok();
            let input = input.filter(|input| !input.get().contains(['\n', '\r']));
            control_response(request, &PermissionAllowedWire { behavior: "allow", input })
        }
        PermissionReply::Deny { message } => {
            control_response(request, &json!({ "behavior": "deny", "message": message }))
        }
    }
}

pub(in crate::claude) fn context_usage_request(request: &str) -> Vec<u8> {
    control_request(request, &json!({ "subtype": "get_context_usage" }))
}

pub(in crate::claude) fn session_cost_request(request: &str) -> Vec<u8> {
    control_request(request, &json!({ "subtype": "get_session_cost" }))
}

#[derive(Serialize)]
struct PermissionAllowedWire<'a> {
    behavior: &'static str,
    #[serde(rename = "updatedInput", skip_serializing_if = "Option::is_none")]
    input: Option<&'a RawValue>,
}

#[derive(Serialize)]
struct ControlResponseWire<'a, Body> {
    r#type: &'static str,
    response: ControlSuccessWire<'a, Body>,
}

#[derive(Serialize)]
struct ControlSuccessWire<'a, Body> {
    subtype: &'static str,
    request_id: &'a str,
    response: Body,
}

fn control_response(request: &str, body: &impl Serialize) -> Vec<u8> {
    let response = ControlSuccessWire { subtype: "success", request_id: request, response: body };
    to_line(&ControlResponseWire { r#type: "control_response", response })
}

fn control_request(request: &str, body: &Value) -> Vec<u8> {
    to_line(&json!({ "type": "control_request", "request_id": request, "request": body }))
}

fn to_line(line: &impl Serialize) -> Vec<u8> {
    // Serialisation fails only for maps with non-string keys and for types that refuse; there are none here.
    let mut bytes = serde_json::to_vec(line).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}
