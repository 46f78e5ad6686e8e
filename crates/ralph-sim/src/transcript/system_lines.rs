//! Formats of the lines about the session, as opposed to those of the conversation.

use super::session_totals::SessionTotals;
use serde::Serialize;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StopSummaryLine<'a> {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) subtype: &'static str,
    pub(super) hook_count: usize,
    pub(super) hook_infos: &'a [StopHookInfo],
    pub(super) hook_errors: &'a [String],
    pub(super) hook_additional_context: &'a [String],
    pub(super) prevented_continuation: bool,
    pub(super) stop_reason: &'a str,
    pub(super) has_output: bool,
    pub(super) level: &'static str,
    pub(super) timestamp: String,
    pub(super) uuid: &'a str,
    #[serde(rename = "toolUseID")]
    pub(super) tool_use_id: &'a str,
}

/// A hook of a stop and its duration. The client omits the duration of a hook that blocked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StopHookInfo {
    pub command: String,
    /// The prompt of a `prompt` hook, which is also its command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct InformationalLine<'a> {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) subtype: &'static str,
    pub(super) content: &'a str,
    pub(super) is_meta: bool,
    pub(super) timestamp: String,
    pub(super) uuid: &'a str,
    pub(super) level: &'static str,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CompactBoundaryLine<'a> {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) subtype: &'static str,
    pub(super) content: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) is_meta: Option<bool>,
    pub(super) level: &'static str,
    pub(super) compact_metadata: CompactMetadataWire<'a>,
    pub(super) uuid: &'a str,
    pub(super) timestamp: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CompactMetadataWire<'a> {
    pub(super) trigger: &'static str,
    pub(super) pre_tokens: u64,
    pub(super) post_tokens: u64,
    pub(super) cumulative_dropped_tokens: u64,
    pub(super) duration_ms: u64,
    pub(super) preserved_segment: PreservedSegmentWire<'a>,
    pub(super) preserved_messages: PreservedMessagesWire<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) running_turn_prompt: Option<EmptyObjectWire>,
}

#[derive(Debug, Serialize)]
pub(super) struct PreservedSegmentWire<'a> {
    #[serde(rename = "headUuid")]
    pub(super) head: &'a str,
    #[serde(rename = "anchorUuid")]
    pub(super) anchor: &'a str,
    #[serde(rename = "tailUuid")]
    pub(super) tail: &'a str,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PreservedMessagesWire<'a> {
    pub(super) anchor_uuid: &'a str,
    pub(super) uuids: [&'a str; 1],
    pub(super) all_uuids: [&'a str; 1],
}

#[derive(Debug, Serialize)]
pub(super) struct EmptyObjectWire {}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct QueueOperationLine<'a> {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) operation: &'static str,
    pub(super) timestamp: String,
    pub(super) session_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) content: Option<&'a str>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LastPromptLine<'a> {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    #[serde(rename = "lastPrompt")]
    pub(super) text: &'a str,
    pub(super) leaf_uuid: &'a str,
    pub(super) session_id: &'a str,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CostStateLine<'a> {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) session_id: &'a str,
    #[serde(flatten)]
    pub(super) totals: &'a SessionTotals,
}

/// `agent-ID.meta.json` beside a subagent's transcript.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SubagentMetaFile<'a> {
    pub(super) agent_type: &'a str,
    pub(super) is_built_in: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) launched_with_defaults: Option<bool>,
    pub(super) description: &'a str,
    pub(super) tool_use_id: &'a str,
    pub(super) spawn_depth: u32,
    pub(super) request_shape: &'static str,
    pub(super) request_non_interactive: bool,
    pub(super) picked_effort_model: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) finished: Option<bool>,
}
