//! What a request asks for, and for whom.

use super::http::Request;
use crate::script::Script;
use serde::Deserialize;
use serde_json::Value;
use std::hash::{DefaultHasher, Hash, Hasher};

/// How the client asks for a summary of what it is about to forget.
const SUMMARY: &str = "create a detailed summary of";
/// Sent in every request by clients that name their subagents.
const SESSION: &str = "x-claude-code-session-id";
/// Sent for a subagent only.
const AGENT: &str = "x-claude-code-agent-id";

/// Whose conversation a request continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    Main,
    /// A subagent, by the client's id of it if it says one.
    Agent(Option<String>),
    /// Nobody's: the client wants a summary.
    Summary,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    Events,
    Whole,
}

#[derive(Debug)]
pub(super) struct Asking {
    pub(super) model: String,
    pub(super) stream: Stream,
    pub(super) messages: Vec<Value>,
    agent: Option<String>,
    names_agents: bool,
}

#[derive(Deserialize)]
struct Body {
    #[serde(default)]
    model: String,
    #[serde(default)]
    stream: bool,
    messages: Vec<Value>,
}

/// The error is a sentence for whoever asked.
pub(super) fn read(request: &Request) -> Result<Asking, String> {
    let body: Body = serde_json::from_slice(&request.body)
        .map_err(|error| format!("the body is no request for a message: {error}"))?;
    Ok(Asking {
        model: body.model,
        stream: if body.stream { Stream::Events } else { Stream::Whole },
        messages: body.messages,
        agent: request.header(AGENT).map(str::to_owned),
        names_agents: request.header(SESSION).is_some(),
    })
}

impl Asking {
    pub(super) fn who(&self, script: &Script) -> Who {
        let mut latest = self.messages.iter().rev();
        let last = latest.find(|message| message["role"] == "user");
        if last.is_some_and(|last| text(last).contains(SUMMARY)) {
            return Who::Summary;
        }
        if self.agent.is_some() {
            return Who::Agent(self.agent.clone());
        }
        // Otherwise only the task tells, and a person who says the same is taken for a subagent.
        if !self.names_agents && script.is_agent(&self.task()) {
            return Who::Agent(None);
        }
        Who::Main
    }

    /// What was said first: for a subagent, its task.
    pub(super) fn task(&self) -> String {
        let first = self.messages.iter().find(|message| message["role"] == "user");
        first.map(text).unwrap_or_default()
    }

    /// Equal for a request that is sent again: the client then marks its cache in other places, and adds words of
    /// its own about what else it changed.
    pub(super) fn hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.agent.hash(&mut hasher);
        let said = self.messages.iter().filter(|message| message["role"] != "system");
        for message in said {
            message["role"].as_str().hash(&mut hasher);
            text(message).hash(&mut hasher);
        }
        hasher.finish()
    }
}

/// All the text of a message, tool results too.
fn text(message: &Value) -> String {
    let mut texts = Vec::new();
    collect(&message["content"], &mut texts);
    texts.join("\n")
}

fn collect<'a>(content: &'a Value, texts: &mut Vec<&'a str>) {
    match content {
        Value::String(text) => texts.push(text),
        Value::Array(blocks) => {
            for block in blocks {
                match block.get("text").and_then(Value::as_str) {
                    Some(text) => texts.push(text),
                    None => collect(block.get("content").unwrap_or(&Value::Null), texts),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {}
    }
}
