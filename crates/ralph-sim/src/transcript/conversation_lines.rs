//! Formats of the conversation lines. The order of the fields is the order of the client's keys.

use crate::scenario::ScriptedUsage;
use serde::Serialize;
use serde_json::{Value, json};

/// Serializes as JSON null.
type JsonNull = Option<()>;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ChainedLine<'a, B> {
    pub(super) parent_uuid: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) logical_parent_uuid: Option<&'a str>,
    pub(super) is_sidechain: bool,
    #[serde(flatten)]
    pub(super) body: B,
    #[serde(flatten)]
    pub(super) tail: ChainedLineTail<'a>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ChainedLineTail<'a> {
    pub(super) user_type: &'static str,
    pub(super) entrypoint: &'static str,
    pub(super) cwd: &'a str,
    pub(super) session_id: &'a str,
    pub(super) version: &'static str,
    pub(super) git_branch: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) slug: Option<&'static str>,
}

/// A prompt, a tool result, hook feedback, or a summary.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct UserLine<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) prompt_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) agent_id: Option<&'a str>,
    #[serde(rename = "type")]
    pub(super) kind: UserLineType,
    pub(super) message: UserLineMessage<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) is_visible_in_transcript_only: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) is_compact_summary: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) is_meta: Option<bool>,
    pub(super) uuid: &'a str,
    pub(super) timestamp: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) permission_mode: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) origin: Option<TaskOriginWire<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) prompt_source: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) turn_origin: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) turn_position: Option<TurnPositionWire>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) queue_skip_attachments: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_use_result: Option<StructuredToolResult<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) sandboxed: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_denial_kind: Option<&'static str>,
    #[serde(rename = "sourceToolAssistantUUID", skip_serializing_if = "Option::is_none")]
    pub(super) source_tool_assistant: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) permission_decision: Option<PermissionDecisionWire>,
}

#[derive(Clone, Copy, Debug, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum UserLineType {
    #[default]
    User,
}

#[derive(Debug, Default, Serialize)]
pub(super) struct UserLineMessage<'a> {
    pub(super) role: UserLineType,
    pub(super) content: UserLineContent<'a>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum UserLineContent<'a> {
    Text(&'a str),
    Texts([TextBlockWire<'a>; 1]),
    Answer([ToolSuccessBlock<'a>; 1]),
    Failure([ToolErrorBlock<'a>; 1]),
}

impl Default for UserLineContent<'_> {
    fn default() -> Self {
        Self::Text("")
    }
}

#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct TextBlockWire<'a> {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) text: &'a str,
}

impl<'a> TextBlockWire<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { kind: "text", text }
    }
}

#[derive(Debug, Serialize)]
pub(super) struct ToolSuccessBlock<'a> {
    pub(super) tool_use_id: &'a str,
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) content: ToolSuccessContent<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) is_error: Option<bool>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum ToolSuccessContent<'a> {
    Text(&'a str),
    Blocks([TextBlockWire<'a>; 1]),
}

#[derive(Debug, Serialize)]
pub(super) struct ToolErrorBlock<'a> {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) content: &'a str,
    pub(super) is_error: bool,
    pub(super) tool_use_id: &'a str,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum StructuredToolResult<'a> {
    Value(&'a Value),
    Text(String),
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TaskOriginWire<'a> {
    pub(super) kind: &'static str,
    pub(super) producer: &'static str,
    pub(super) run_id: &'a str,
}

#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TurnPositionWire {
    pub(super) prompt_index: u64,
    pub(super) turn_index: u64,
}

#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PermissionDecisionWire {
    pub(super) decision: &'static str,
    pub(super) source: &'static str,
    pub(super) reason_type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason_code: Option<&'static str>,
}

/// A line with one content block of an answer.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AssistantLine<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) agent_id: Option<&'a str>,
    pub(super) message: AssistantLineMessage<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_input_stream_ms: Option<u64>,
    pub(super) api_block_index: usize,
    pub(super) request_id: &'a str,
    pub(super) request_ref: &'a str,
    pub(super) requested_model: &'a str,
    pub(super) prompt_cache_requested: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) attribution_agent: Option<&'a str>,
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) uuid: &'a str,
    pub(super) timestamp: String,
    pub(super) effort: &'static str,
    pub(super) per_turn_effort: &'static str,
    pub(super) made_by: &'static str,
}

#[derive(Debug, Serialize)]
pub(super) struct AssistantLineMessage<'a> {
    pub(super) id: &'a str,
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) role: &'static str,
    pub(super) model: &'a str,
    pub(super) content: [AnswerBlock<'a>; 1],
    pub(super) stop_reason: &'a str,
    pub(super) stop_sequence: JsonNull,
    pub(super) usage: AssistantLineUsage,
    pub(super) stop_details: JsonNull,
}

/// One content block of an answer.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum AnswerBlock<'a> {
    Text { text: &'a str },
    ToolUse { id: &'a str, name: &'a str, input: &'a Value },
}

#[derive(Debug, Serialize)]
pub(super) struct AssistantLineUsage {
    input_tokens: u64,
    cache_creation_input_tokens: u64,
    cache_read_input_tokens: u64,
    output_tokens: u64,
    output_tokens_details: ThinkingUsageWire,
    server_tool_use: ServerToolUsageWire,
    service_tier: &'static str,
    cache_creation: CacheCreationWire,
    inference_geo: &'static str,
    iterations: [(); 0],
    speed: &'static str,
    fallback_credit: JsonNull,
}

#[derive(Debug, Default, Serialize)]
struct ThinkingUsageWire {
    thinking_tokens: u64,
}

#[derive(Debug, Default, Serialize)]
struct ServerToolUsageWire {
    web_search_requests: u64,
    web_fetch_requests: u64,
}

#[derive(Debug, Default, Serialize)]
struct CacheCreationWire {
    ephemeral_1h_input_tokens: u64,
    ephemeral_5m_input_tokens: u64,
}

impl From<ScriptedUsage> for AssistantLineUsage {
    fn from(usage: ScriptedUsage) -> Self {
        Self {
            input_tokens: usage.input,
            cache_creation_input_tokens: usage.cache_creation,
            cache_read_input_tokens: usage.cache_read,
            output_tokens: usage.output,
            output_tokens_details: ThinkingUsageWire::default(),
            server_tool_use: ServerToolUsageWire::default(),
            service_tier: "standard",
            cache_creation: CacheCreationWire {
                ephemeral_1h_input_tokens: 0,
                ephemeral_5m_input_tokens: usage.cache_creation,
            },
            inference_geo: "",
            iterations: [],
            speed: "standard",
            fallback_credit: None,
        }
    }
}

/// The usage of an answer or a turn, with all fields that the client reports.
pub fn usage_json(usage: ScriptedUsage) -> Value {
    json!(AssistantLineUsage::from(usage))
}

/// The message of an answer made up by the client.
pub fn synthetic_message_json(id: &str, text: &str) -> Value {
    json!(SyntheticLineMessage::new(id, text))
}

/// An answer made up by the client.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SyntheticLine<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) agent_id: Option<&'a str>,
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) uuid: &'a str,
    pub(super) timestamp: String,
    pub(super) message: SyntheticLineMessage<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) request_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<&'a str>,
    pub(super) is_api_error_message: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) api_error_status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) api_error_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) per_turn_effort: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) failed_response_had_no_tool_call: Option<bool>,
    pub(super) made_by: &'static str,
}

#[derive(Debug, Serialize)]
pub(super) struct SyntheticLineMessage<'a> {
    diagnostics: JsonNull,
    id: &'a str,
    container: JsonNull,
    model: &'static str,
    role: &'static str,
    stop_details: JsonNull,
    stop_reason: &'static str,
    stop_sequence: &'static str,
    #[serde(rename = "type")]
    kind: &'static str,
    usage: SyntheticLineUsage,
    content: [TextBlockWire<'a>; 1],
    context_management: JsonNull,
}

#[derive(Debug, Default, Serialize)]
struct SyntheticLineUsage {
    output_tokens_details: JsonNull,
    input_tokens: u64,
    output_tokens: u64,
    cache_creation_input_tokens: u64,
    cache_read_input_tokens: u64,
    server_tool_use: ServerToolUsageWire,
    service_tier: JsonNull,
    cache_creation: CacheCreationWire,
    inference_geo: JsonNull,
    iterations: JsonNull,
    speed: JsonNull,
    fallback_credit: JsonNull,
}

impl<'a> SyntheticLineMessage<'a> {
    pub(super) fn new(id: &'a str, text: &'a str) -> Self {
        Self {
            diagnostics: None,
            id,
            container: None,
            model: "<synthetic>",
            role: "assistant",
            stop_details: None,
            stop_reason: "stop_sequence",
            stop_sequence: "",
            kind: "message",
            usage: SyntheticLineUsage::default(),
            content: [TextBlockWire::new(text)],
            context_management: None,
        }
    }
}
