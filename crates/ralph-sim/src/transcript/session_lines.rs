//! Writes the lines about a session: stops, compactions, errors and its end.

use super::conversation_lines::{
    SyntheticLine, SyntheticLineMessage, TurnPositionWire, UserLine, UserLineContent,
};
use super::system_lines::{
    CompactBoundaryLine, CompactMetadataWire, CostStateLine, EmptyObjectWire, InformationalLine,
    LastPromptLine, PreservedMessagesWire, PreservedSegmentWire, StopHookInfo, StopSummaryLine,
};
use super::{EFFORT, TranscriptWriter, timestamp_now, user_message, write_line};
use ralph_sys::fs::FileError;

/// The client assigns a session its slug at the first compaction.
const SLUG: &str = "patient-waiting-heron";

/// The combined results of all hooks of one stop.
#[derive(Clone, Copy, Debug)]
pub struct StopHookSummary<'a> {
    pub tool_use_id: &'a str,
    pub infos: &'a [StopHookInfo],
    pub errors: &'a [String],
    pub context: &'a [String],
    /// `stopReason`, if a hook returned `continue: false`.
    pub stopped: Option<&'a str>,
    pub has_output: bool,
}

#[derive(Clone, Copy, Debug)]
pub struct WrittenCompaction<'a> {
    pub trigger: CompactionTrigger,
    pub tokens_before: u64,
    pub tokens_after: u64,
    pub duration_ms: u64,
    /// The summary that replaces the conversation, with the client's introduction.
    pub summary: &'a str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompactionTrigger {
    Auto,
    Manual,
}

#[derive(Clone, Copy, Debug)]
pub struct WrittenApiError<'a> {
    /// `None` if the server was not reached.
    pub status: Option<u16>,
    /// The API's error type, such as `overloaded_error`.
    pub kind: Option<&'a str>,
    /// The client's error type, such as `server_error`.
    pub error: &'a str,
    pub request: &'a str,
    /// The message shown to the user.
    pub text: &'a str,
}

impl TranscriptWriter {
    /// The client writes this line after every stop of the main conversation that has hooks, and never for a subagent.
    pub fn write_stop_summary(&mut self, stop: &StopHookSummary<'_>) -> Result<(), FileError> {
        let uuid = self.ids.uuid();
        let body = StopSummaryLine {
            kind: "system",
            subtype: "stop_hook_summary",
            hook_count: stop.infos.len(),
            hook_infos: stop.infos,
            hook_errors: stop.errors,
            hook_additional_context: stop.context,
            prevented_continuation: stop.stopped.is_some(),
            stop_reason: stop.stopped.unwrap_or_default(),
            has_output: stop.has_output,
            level: "suggestion",
            timestamp: timestamp_now(),
            uuid: &uuid,
            tool_use_id: stop.tool_use_id,
        };
        self.write_chained(&uuid, body)
    }

    /// Writes a warning to the user, for example that hooks blocked too often.
    pub fn write_warning(&mut self, text: &str) -> Result<(), FileError> {
        let uuid = self.ids.uuid();
        let body = InformationalLine {
            kind: "system",
            subtype: "informational",
            content: text,
            is_meta: false,
            timestamp: timestamp_now(),
            uuid: &uuid,
            level: "warning",
        };
        self.write_chained(&uuid, body)
    }

    /// Writes the boundary of a compaction and the summary after it.
    pub fn write_compaction(
        &mut self,
        compaction: &WrittenCompaction<'_>,
    ) -> Result<(), FileError> {
        let (uuid, anchor) = (self.ids.uuid(), self.ids.uuid());
        let last = self.last_uuid.take().unwrap_or_default();
        self.slug = Some(SLUG);
        self.dropped += compaction.tokens_before.saturating_sub(compaction.tokens_after);
        let is_auto = compaction.trigger == CompactionTrigger::Auto;
        let body = CompactBoundaryLine {
            kind: "system",
            subtype: "compact_boundary",
            content: "Conversation compacted",
            is_meta: (!is_auto).then_some(false),
            level: "info",
            compact_metadata: CompactMetadataWire {
                trigger: if is_auto { "auto" } else { "manual" },
                pre_tokens: compaction.tokens_before,
                post_tokens: compaction.tokens_after,
                cumulative_dropped_tokens: self.dropped,
                duration_ms: compaction.duration_ms,
                preserved_segment: PreservedSegmentWire {
                    head: &last,
                    anchor: &anchor,
                    tail: &last,
                },
                preserved_messages: PreservedMessagesWire {
                    anchor_uuid: &anchor,
                    uuids: [&last],
                    all_uuids: [&last],
                },
                running_turn_prompt: is_auto.then_some(EmptyObjectWire {}),
            },
            uuid: &uuid,
            timestamp: timestamp_now(),
        };
        self.write_with_logical_parent(&uuid, Some(&last), body)?;
        let prompt = self.prompt.clone();
        let summary = UserLine {
            prompt_id: prompt.as_deref(),
            message: user_message(UserLineContent::Text(compaction.summary)),
            is_visible_in_transcript_only: Some(true),
            is_compact_summary: Some(true),
            uuid: &anchor,
            timestamp: timestamp_now(),
            turn_origin: is_auto.then_some("sdk"),
            turn_position: Some(TurnPositionWire { prompt_index: 0, turn_index: self.turns }),
            ..UserLine::default()
        };
        self.write_chained(&anchor, summary)
    }

    /// Writes the answer that the client makes up when the API failed.
    pub fn write_api_error(&mut self, failure: &WrittenApiError<'_>) -> Result<(), FileError> {
        let (uuid, id, agent) = (self.ids.uuid(), self.ids.uuid(), self.agent_id());
        let body = SyntheticLine {
            request_id: Some(failure.request),
            error: Some(failure.error),
            is_api_error_message: true,
            api_error_status: failure.status,
            api_error_type: failure.kind,
            per_turn_effort: Some(EFFORT),
            failed_response_had_no_tool_call: Some(true),
            made_by: "model",
            ..synthetic(&uuid, &id, failure.text)
        };
        self.write_chained(&uuid, SyntheticLine { agent_id: agent.as_deref(), ..body })
    }

    /// Writes the answer that the client makes up for an unanswered prompt when the session continues.
    pub fn write_no_response(&mut self) -> Result<(), FileError> {
        let (uuid, id) = (self.ids.uuid(), self.ids.uuid());
        self.write_chained(&uuid, synthetic(&uuid, &id, "No response requested."))
    }

    /// Writes the last lines, as the client does when it exits.
    pub fn close(&mut self) -> Result<(), FileError> {
        let elapsed = u64::try_from(self.watch.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.totals.total_duration = self.before_ms.saturating_add(elapsed);
        let last = LastPromptLine {
            kind: "last-prompt",
            text: &self.last_prompt,
            leaf_uuid: self.last_uuid.as_deref().unwrap_or_default(),
            session_id: &self.session,
        };
        write_line(&mut self.lines, &last)?;
        let cost =
            CostStateLine { kind: "cost-state", session_id: &self.session, totals: &self.totals };
        write_line(&mut self.lines, &cost)
    }
}

fn synthetic<'a>(uuid: &'a str, id: &'a str, text: &'a str) -> SyntheticLine<'a> {
    SyntheticLine {
        agent_id: None,
        kind: "assistant",
        uuid,
        timestamp: timestamp_now(),
        message: SyntheticLineMessage::new(id, text),
        request_id: None,
        error: None,
        is_api_error_message: false,
        api_error_status: None,
        api_error_type: None,
        per_turn_effort: None,
        failed_response_had_no_tool_call: None,
        made_by: "other",
    }
}
