//! Writes the lines about a session: stops, compactions, errors and its end.

use super::line::{Synthetic, SyntheticMessage, TurnPosition, User, UserContent};
use super::system::{
    Boundary, Compacted, CostState, Empty, HookInfo, Informational, LastPrompt, Preserved, Segment,
    StopSummary,
};
use super::{EFFORT, Transcript, add, now, says};
use ralph_sys::fs::FileError;

/// The client assigns a session its slug at the first compaction.
const SLUG: &str = "patient-waiting-heron";

/// The combined results of all hooks of one stop.
#[derive(Clone, Copy, Debug)]
pub struct Stop<'a> {
    pub tool_use_id: &'a str,
    pub infos: &'a [HookInfo],
    pub errors: &'a [String],
    pub context: &'a [String],
    /// `stopReason`, if a hook returned `continue: false`.
    pub stopped: Option<&'a str>,
    pub has_output: bool,
}

#[derive(Clone, Copy, Debug)]
pub struct Compaction<'a> {
    pub trigger: Trigger,
    pub tokens_before: u64,
    pub tokens_after: u64,
    pub duration_ms: u64,
    /// The summary that replaces the conversation, with the client's introduction.
    pub summary: &'a str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    Auto,
    Manual,
}

#[derive(Clone, Copy, Debug)]
pub struct Failure<'a> {
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

impl Transcript {
    /// The client writes this line after every stop of the main conversation that has hooks, and never for a subagent.
    pub fn stop_summary(&mut self, stop: &Stop<'_>) -> Result<(), FileError> {
        let uuid = self.ids.uuid();
        let body = StopSummary {
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
            timestamp: now(),
            uuid: &uuid,
            tool_use_id: stop.tool_use_id,
        };
        self.follow(&uuid, body)
    }

    /// Writes a warning to the user, for example that hooks blocked too often.
    pub fn warning(&mut self, text: &str) -> Result<(), FileError> {
        let uuid = self.ids.uuid();
        let body = Informational {
            kind: "system",
            subtype: "informational",
            content: text,
            is_meta: false,
            timestamp: now(),
            uuid: &uuid,
            level: "warning",
        };
        self.follow(&uuid, body)
    }

    /// Writes the boundary of a compaction and the summary after it.
    pub fn compact(&mut self, compaction: &Compaction<'_>) -> Result<(), FileError> {
        let (uuid, anchor) = (self.ids.uuid(), self.ids.uuid());
        let last = self.chain.take().unwrap_or_default();
        self.slug = Some(SLUG);
        self.dropped += compaction.tokens_before.saturating_sub(compaction.tokens_after);
        let is_auto = compaction.trigger == Trigger::Auto;
        let body = Boundary {
            kind: "system",
            subtype: "compact_boundary",
            content: "Conversation compacted",
            is_meta: (!is_auto).then_some(false),
            level: "info",
            compact_metadata: Compacted {
                trigger: if is_auto { "auto" } else { "manual" },
                pre_tokens: compaction.tokens_before,
                post_tokens: compaction.tokens_after,
                cumulative_dropped_tokens: self.dropped,
                duration_ms: compaction.duration_ms,
                preserved_segment: Segment { head: &last, anchor: &anchor, tail: &last },
                preserved_messages: Preserved {
                    anchor_uuid: &anchor,
                    uuids: [&last],
                    all_uuids: [&last],
                },
                running_turn_prompt: is_auto.then_some(Empty {}),
            },
            uuid: &uuid,
            timestamp: now(),
        };
        self.write((&uuid, Some(&last)), body)?;
        let prompt = self.prompt.clone();
        let summary = User {
            prompt_id: prompt.as_deref(),
            message: says(UserContent::Text(compaction.summary)),
            is_visible_in_transcript_only: Some(true),
            is_compact_summary: Some(true),
            uuid: &anchor,
            timestamp: now(),
            turn_origin: is_auto.then_some("sdk"),
            turn_position: Some(TurnPosition { prompt_index: 0, turn_index: self.turns }),
            ..User::default()
        };
        self.follow(&anchor, summary)
    }

    /// Writes the answer that the client makes up when the API failed.
    pub fn api_error(&mut self, failure: &Failure<'_>) -> Result<(), FileError> {
        let (uuid, id, agent) = (self.ids.uuid(), self.ids.uuid(), self.agent_id());
        let body = Synthetic {
            request_id: Some(failure.request),
            error: Some(failure.error),
            is_api_error_message: true,
            api_error_status: failure.status,
            api_error_type: failure.kind,
            per_turn_effort: Some(EFFORT),
            failed_response_had_no_tool_call: Some(true),
            made_by: "model",
            ..synthetic((&uuid, &id), failure.text)
        };
        self.follow(&uuid, Synthetic { agent_id: agent.as_deref(), ..body })
    }

    /// Writes the answer that the client makes up for an unanswered prompt when the session continues.
    pub fn no_response(&mut self) -> Result<(), FileError> {
        let (uuid, id) = (self.ids.uuid(), self.ids.uuid());
        self.follow(&uuid, synthetic((&uuid, &id), "No response requested."))
    }

    /// Writes the last lines, as the client does when it exits.
    pub fn close(&mut self) -> Result<(), FileError> {
        let elapsed = u64::try_from(self.watch.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.totals.total_duration = self.before_ms.saturating_add(elapsed);
        let last = LastPrompt {
            kind: "last-prompt",
            text: &self.last_prompt,
            leaf_uuid: self.chain.as_deref().unwrap_or_default(),
            session_id: &self.session,
        };
        add(&mut self.lines, &last)?;
        let cost =
            CostState { kind: "cost-state", session_id: &self.session, totals: &self.totals };
        add(&mut self.lines, &cost)
    }
}

fn synthetic<'a>((uuid, id): (&'a str, &'a str), text: &'a str) -> Synthetic<'a> {
    Synthetic {
        agent_id: None,
        kind: "assistant",
        uuid,
        timestamp: now(),
        message: SyntheticMessage::new(id, text),
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
