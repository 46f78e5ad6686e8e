//! Parses a request to the Messages API and determines which conversation it belongs to.

use super::http::HttpRequest;
use crate::client_rules::hook_agent_tools;
use crate::hook_settings::EvaluatorKind;
use crate::script::ModelScript;
use serde::Deserialize;
use serde_json::Value;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Part of the client's request for a summary before a compaction.
const SUMMARY_REQUEST: &str = "create a detailed summary of";
/// Header of every request of a client that also sends [`AGENT_HEADER`] for subagents.
const SESSION_HEADER: &str = "x-claude-code-session-id";
/// Header of a subagent's requests.
const AGENT_HEADER: &str = "x-claude-code-agent-id";

/// How the client's instructions to a model begin that answers a hook.
const EVALUATOR_INSTRUCTIONS: [&str; 2] =
    ["You are evaluating a", "You are verifying a stop condition in Claude Code"];

/// The conversation that a request belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestOrigin {
    Main,
    /// A subagent, with the client's id if it is sent.
    Agent(Option<String>),
    /// None: the client requests a summary.
    Summary,
    /// A hook that asks the model whether a condition is met.
    Evaluator(EvaluatorKind),
}

#[derive(Debug)]
pub(super) struct MessagesRequest {
    pub(super) model: String,
    /// Whether the answer is sent as a stream of events.
    pub(super) is_streamed: bool,
    pub(super) messages: Vec<Value>,
    agent: Option<String>,
    names_agents: bool,
    evaluator: Option<EvaluatorKind>,
}

#[derive(Deserialize)]
struct MessagesRequestWire {
    #[serde(default)]
    system: Value,
    #[serde(default)]
    tools: Value,
    #[serde(default)]
    output_config: Value,
    #[serde(default)]
    model: String,
    #[serde(default)]
    stream: bool,
    messages: Vec<Value>,
}

/// Parses the body. The error is a message for the client.
pub(super) fn parse_messages_request(request: &HttpRequest) -> Result<MessagesRequest, String> {
    let body: MessagesRequestWire = serde_json::from_slice(&request.body)
        .map_err(|error| format!("the body is not a Messages API request: {error}"))?;
    let evaluator = body.evaluator_kind();
    Ok(MessagesRequest {
        evaluator,
        model: body.model,
        is_streamed: body.stream,
        messages: body.messages,
        agent: request.header(AGENT_HEADER).map(str::to_owned),
        names_agents: request.header(SESSION_HEADER).is_some(),
    })
}

impl MessagesRequestWire {
    /// Recognizes the question of a hook: the form of the answer that it asks for, and its instructions. The form alone
    /// would not do, because a session can ask for an answer of any form.
    fn evaluator_kind(&self) -> Option<EvaluatorKind> {
        let mut texts = Vec::new();
        collect_texts(&self.system, &mut texts);
        let is_instructed = texts
            .iter()
            .any(|text| EVALUATOR_INSTRUCTIONS.iter().any(|words| text.starts_with(words)));
        if !is_instructed {
            return None;
        }
        let asks_verdict = !self.output_config["format"]["schema"]["properties"]["ok"].is_null();
        if asks_verdict {
            return Some(EvaluatorKind::Prompt);
        }
        let mut tools = self.tools.as_array().into_iter().flatten();
        let is_offered = tools.any(|tool| tool["name"] == hook_agent_tools::VERDICT_TOOL);
        is_offered.then_some(EvaluatorKind::Agent)
    }
}

impl MessagesRequest {
    pub(super) fn origin(&self, script: &ModelScript) -> RequestOrigin {
        let mut latest = self.messages.iter().rev();
        let last = latest.find(|message| message["role"] == "user");
        if last.is_some_and(|last| message_text(last).contains(SUMMARY_REQUEST)) {
            return RequestOrigin::Summary;
        }
        if let Some(kind) = self.evaluator {
            return RequestOrigin::Evaluator(kind);
        }
        if self.agent.is_some() {
            return RequestOrigin::Agent(self.agent.clone());
        }
        // Without these headers a subagent is recognized by its task, so an equal prompt of a person is mistaken for
        // it.
        if !self.names_agents && script.has_subagent(&self.first_user_text()) {
            return RequestOrigin::Agent(None);
        }
        RequestOrigin::Main
    }

    /// The first user message, which for a subagent is its task.
    pub(super) fn first_user_text(&self) -> String {
        let first = self.messages.iter().find(|message| message["role"] == "user");
        first.map(message_text).unwrap_or_default()
    }

    /// The question of a hook: the last message of one request, or the first of an agent's conversation.
    pub(super) fn evaluator_question(&self, kind: EvaluatorKind) -> String {
        match kind {
            EvaluatorKind::Prompt => {
                let mut latest = self.messages.iter().rev();
                let last = latest.find(|message| message["role"] == "user");
                last.map(message_text).unwrap_or_default()
            }
            EvaluatorKind::Agent => self.first_user_text(),
        }
    }

    /// A hash that is equal for a retry of the same request. The client moves its cache marks and changes its system
    /// messages between attempts, so neither is included.
    pub(super) fn hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.agent.hash(&mut hasher);
        let said = self.messages.iter().filter(|message| message["role"] != "system");
        for message in said {
            message["role"].as_str().hash(&mut hasher);
            message_text(message).hash(&mut hasher);
        }
        hasher.finish()
    }
}

/// All text of a message, including tool results.
fn message_text(message: &Value) -> String {
    let mut texts = Vec::new();
    collect_texts(&message["content"], &mut texts);
    texts.join("\n")
}

fn collect_texts<'a>(content: &'a Value, texts: &mut Vec<&'a str>) {
    match content {
        Value::String(text) => texts.push(text),
        Value::Array(blocks) => {
            for block in blocks {
                match block.get("text").and_then(Value::as_str) {
                    Some(text) => texts.push(text),
                    None => collect_texts(block.get("content").unwrap_or(&Value::Null), texts),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {}
    }
}
