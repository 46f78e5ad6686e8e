//! The query loop: asks the model, runs its tools, and runs the stop hooks when the model wants to stop.

use super::client_process::{SharedInputFields, SimulatedClient, SubagentIdentity, agent_lane};
use super::compaction;
use super::event_outcome::EventOutcome;
use super::hook_dispatch::{DispatchedEvent, fire_event};
use super::pending_messages::PendingMessages;
use super::tool_calls::file_tools::SeenFiles;
use super::tool_calls::{self, ToolRoundOutcome};
use super::transcript_log;
use crate::model_answer;
use crate::scenario::{ScriptedApiError, ScriptedTurn, TurnInterrupt};
use crate::timeline::{AgentLane, HookEffect, TimelineEntry, TimelineReply, TimelineRequest};
use crate::transcript::{TranscriptWriter, WrittenApiError};
use serde_json::json;

/// Default number of consecutive blocks that the client allows.
const DEFAULT_BLOCK_CAP: u32 = 8;
pub(crate) const BLOCK_CAP_VARIABLE: &str = "CLAUDE_CODE_STOP_HOOK_BLOCK_CAP";

/// How often a cut-off answer is continued.
const MAX_CONTINUATIONS: u32 = 3;
const CONTINUE_PROMPT: &str = "Output token limit hit. Resume directly — no apology, no recap of what you were doing. Pick up \
    mid-thought if that is where the cut happened. Break remaining work into smaller pieces.";
const OUTPUT_LIMIT_ERROR: &str = "API Error: Claude's response exceeded the 128000 output token maximum. To configure this behavior, set \
    the CLAUDE_CODE_MAX_OUTPUT_TOKENS environment variable.";
const REQUEST_TOO_LARGE_ERROR: &str = "Request too large (max 32MB). Accumulated images and attachments in the conversation pushed the \
    request over the limit. Remove older images or compact the conversation.";
const REFUSAL_PROMPT: &str = "Your response above was stopped by a safety classifier — this is not a tool or API error. The rest of \
    it was withheld, and tool calls in it that had not finished did not run. Do not produce that content again, even \
    reworded.";
const EMPTY_ANSWER_PROMPT: &str = "[Your previous response had no visible output. Please continue and produce a user-visible response.]";

/// The main conversation, or that of a subagent.
pub(super) struct SimulatedConversation {
    pub(super) agent: Option<SubagentIdentity>,
    /// The task of a subagent.
    pub(super) task: Option<String>,
    pub(super) pending: PendingMessages,
    pub(super) transcript: TranscriptWriter,
    /// Files whose current content the model has read.
    pub(super) seen: SeenFiles,
    /// Size of the context at the last answer, in tokens.
    pub(super) context_tokens: u64,
    /// Number of turns, by the client's rules for `--max-turns`.
    pub(super) turns: u32,
    /// Names of the tools called so far, without duplicates.
    pub(super) called_tools: Vec<String>,
    pub(super) call_count: u32,
    /// Context that `SessionStart` hooks have added.
    pub(super) start_contexts: Vec<String>,
    /// Number of answers since the last compaction.
    pub(super) answers: u32,
    stops: StopCounters,
    cut_off: u32,
    last_text: String,
}

/// The client's record of stops since the last prompt.
#[derive(Debug, Default)]
struct StopCounters {
    /// `stop_hook_active`
    is_active: bool,
    /// Consecutive blocks, without a tool call between them.
    blocks: u32,
    was_noticed: bool,
}

/// How a prompt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PromptOutcome {
    pub(super) reason: &'static str,
    pub(super) result: String,
    pub(super) is_error: bool,
    /// The client's class of an API error, and its HTTP status.
    pub(super) failure: Option<(&'static str, u16)>,
}

impl PromptOutcome {
    pub(super) fn new(reason: &'static str, result: impl Into<String>) -> Self {
        Self { reason, result: result.into(), is_error: false, failure: None }
    }

    pub(super) fn error(reason: &'static str, result: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::new(reason, result) }
    }
}

impl SimulatedConversation {
    pub(super) fn new(agent: Option<SubagentIdentity>, transcript: TranscriptWriter) -> Self {
        Self {
            agent,
            task: None,
            pending: PendingMessages::default(),
            transcript,
            seen: SeenFiles::new(),
            context_tokens: 0,
            turns: 0,
            called_tools: Vec::new(),
            call_count: 0,
            start_contexts: Vec::new(),
            answers: 0,
            stops: StopCounters::default(),
            cut_off: 0,
            last_text: String::new(),
        }
    }

    pub(super) fn lane(&self) -> AgentLane {
        agent_lane(self.agent.as_ref())
    }

    /// Records tool calls. The list has each tool once, because the client reports only which tools were called.
    fn note_calls(&mut self, calls: &[String]) {
        self.call_count += u32::try_from(calls.len()).unwrap_or_default();
        for call in calls {
            if !self.called_tools.contains(call) {
                self.called_tools.push(call.clone());
            }
        }
    }

    /// Resets the per-prompt state.
    pub(super) fn begin_prompt(&mut self) {
        self.stops = StopCounters::default();
        self.cut_off = 0;
        self.turns = 1;
        self.last_text.clear();
    }
}

/// Runs the query loop until the prompt is finished.
pub(super) fn run_query_loop(
    host: &mut SimulatedClient<'_>,
    chat: &mut SimulatedConversation,
) -> PromptOutcome {
    loop {
        if host.should_stop() {
            return PromptOutcome::new("aborted_streaming", "");
        }
        compaction::compact_if_full(host, chat);
        let turn = request_answer(host, chat);
        if turn.interrupt == TurnInterrupt::Answer {
            return interrupt_answer(host, chat);
        }
        if let Some(error) = &turn.error {
            return fail_with_api_error(host, chat, error);
        }
        record_reply(host, chat, &turn);
        if turn.stop_reason.as_deref() == Some("max_tokens") {
            if let Some(over) = continue_cut_off_answer(host, chat) {
                return over;
            }
        } else if turn.stop_reason.as_deref() == Some("refusal") {
            chat.turns += 1;
            chat.pending.add_user_text(REFUSAL_PROMPT.to_owned());
        } else if turn.tools.is_empty() && turn.text.is_empty() {
            chat.turns += 1;
            chat.pending.add_user_text(EMPTY_ANSWER_PROMPT.to_owned());
        } else if turn.tools.is_empty() {
            if let Some(over) = handle_stop(host, chat) {
                return over;
            }
        } else {
            chat.stops.blocks = 0;
            match tool_calls::run_calls(host, chat, &turn) {
                ToolRoundOutcome::Continue => {}
                // The report of a subagent is its last text.
                ToolRoundOutcome::Finished(over) if chat.agent.is_some() && !over.is_error => {
                    return PromptOutcome { result: chat.last_text.clone(), ..over };
                }
                ToolRoundOutcome::Finished(over) => return over,
            }
            if let Some(over) = check_max_turns(host, chat) {
                return over;
            }
        }
    }
}

fn request_answer(
    host: &mut SimulatedClient<'_>,
    chat: &mut SimulatedConversation,
) -> ScriptedTurn {
    let request = TimelineRequest { agent: chat.lane(), messages: chat.pending.take() };
    host.requests += 1;
    host.emit(&TimelineEntry::Request(request));
    match &chat.task {
        Some(task) => host.script.next_subagent_turn(task),
        None => host.script.next_turn(),
    }
}

fn record_reply(
    host: &mut SimulatedClient<'_>,
    chat: &mut SimulatedConversation,
    turn: &ScriptedTurn,
) {
    let calls: Vec<String> =
        turn.tools.iter().map(|call| model_answer::tool_use(call, &host.stage.project).0).collect();
    let usage = turn.usage;
    let tokens = [usage.input, usage.cache_read, usage.cache_creation, usage.output];
    chat.context_tokens = tokens.into_iter().fold(0, u64::saturating_add);
    chat.note_calls(&calls);
    chat.answers += 1;
    chat.last_text.clone_from(&turn.text);
    transcript_log::record_answer(host, chat, turn);
    host.emit(&TimelineEntry::Reply(TimelineReply {
        agent: chat.lane(),
        text: turn.text.clone(),
        tools: calls,
        error: None,
    }));
}

/// The person presses Esc before the answer arrives.
fn interrupt_answer(
    host: &mut SimulatedClient<'_>,
    chat: &mut SimulatedConversation,
) -> PromptOutcome {
    let text = "[Request interrupted by user]";
    let wrote = chat.transcript.write_interruption(text);
    host.note_write(wrote);
    chat.pending.add_user_text(text.to_owned());
    // After a block, the client reports an interrupt as a prevented stop, not as an error.
    PromptOutcome {
        is_error: !chat.stops.is_active,
        ..PromptOutcome::error("aborted_streaming", "")
    }
}

fn fail_with_api_error(
    host: &mut SimulatedClient<'_>,
    chat: &mut SimulatedConversation,
    error: &ScriptedApiError,
) -> PromptOutcome {
    let text = api_error_text(error);
    let wrote = chat.transcript.write_api_error(&WrittenApiError {
        status: Some(error.status),
        kind: Some(&error.kind),
        error: error_class(error),
        request: &model_answer::request_id(host.requests),
        text: &text,
    });
    host.note_write(wrote);
    host.emit(&TimelineEntry::Reply(TimelineReply {
        agent: chat.lane(),
        text: String::new(),
        tools: Vec::new(),
        error: Some(text.clone()),
    }));
    fire_stop_failure(host, chat, error_class(error), &text);
    let reason = if error.status == 413 { "image_error" } else { "api_error" };
    PromptOutcome {
        failure: Some((error_class(error), error.status)),
        ..PromptOutcome::error(reason, text)
    }
}

/// Asks the model to continue a cut-off answer, at most three times in a row.
fn continue_cut_off_answer(
    host: &mut SimulatedClient<'_>,
    chat: &mut SimulatedConversation,
) -> Option<PromptOutcome> {
    if chat.cut_off < MAX_CONTINUATIONS {
        chat.cut_off += 1;
        chat.turns += 1;
        chat.pending.add_user_text(CONTINUE_PROMPT.to_owned());
        return None;
    }
    chat.cut_off = 0;
    fire_stop_failure(host, chat, "max_output_tokens", OUTPUT_LIMIT_ERROR);
    Some(PromptOutcome::error("api_error", OUTPUT_LIMIT_ERROR))
}

fn fire_stop_failure(
    host: &mut SimulatedClient<'_>,
    chat: &SimulatedConversation,
    class: &str,
    text: &str,
) {
    let event = "StopFailure";
    let input = host
        .hook_input(event, SharedInputFields::Effort, chat.agent.as_ref())
        .with("error", class)
        .with("last_assistant_message", text);
    let subject = Some(class.to_owned());
    let outcome = fire_event(host, DispatchedEvent { event, subject, agent: chat.lane(), input });
    host.emit_hook(&outcome, HookEffect::Allowed);
}

pub(crate) fn api_error_text(error: &ScriptedApiError) -> String {
    let ScriptedApiError { status, message, .. } = error;
    match status {
        401 | 403 => format!("Failed to authenticate. API Error: {status} {message}"),
        413 => REQUEST_TOO_LARGE_ERROR.to_owned(),
        429 => format!("API Error: Request rejected (429) · {message}"),
        500..=599 => format!(
            "API Error: {status} {message}. This is a server-side issue, usually temporary — try again in a moment. If it \
             persists, check your inference gateway (127.0.0.1:PORT)."
        ),
        _ => format!("API Error: {status} {message}"),
    }
}

/// The client's class of an API error.
pub(crate) fn error_class(error: &ScriptedApiError) -> &'static str {
    match error.status {
        429 => "rate_limit",
        401 | 403 => "authentication_failed",
        404 => "model_not_found",
        413 => "invalid_request",
        402 => "billing_error",
        500..=599 => "server_error",
        _ => "unknown",
    }
}

/// Handles an attempted stop. Returns `None` if the agent has to continue.
fn handle_stop(
    host: &mut SimulatedClient<'_>,
    chat: &mut SimulatedConversation,
) -> Option<PromptOutcome> {
    let outcome = fire_stop_event(host, chat);
    let over = apply_stop_answers(host, chat, &outcome);
    transcript_log::record_stop(host, chat, &outcome);
    if chat.agent.is_none() && !chat.stops.was_noticed && outcome.has_error() {
        chat.stops.was_noticed = true;
        host.notice("Stop hook error occurred".to_owned());
    }
    over.or_else(|| check_max_turns(host, chat))
}

fn apply_stop_answers(
    host: &mut SimulatedClient<'_>,
    chat: &mut SimulatedConversation,
    outcome: &EventOutcome,
) -> Option<PromptOutcome> {
    let reasons = outcome.reasons();
    let contexts = outcome.contexts();
    for text in outcome.feedback_texts() {
        let wrote = chat.transcript.write_feedback(&text);
        host.note_write(wrote);
        chat.pending.add_user_text(text);
        chat.turns += 1;
    }
    for text in outcome.stop_texts() {
        chat.pending.add_context(text);
    }
    for text in outcome.side_texts() {
        chat.pending.add_context(text);
    }
    if let Some(stop) = outcome.continue_false() {
        let reason = stop.reason.clone();
        let result = if reasons.is_empty() { chat.last_text.clone() } else { String::new() };
        host.emit_hook(outcome, HookEffect::Stopped { reason });
        return Some(PromptOutcome::new("stop_hook_prevented", result));
    }
    if reasons.is_empty() && contexts.is_empty() {
        host.emit_hook(outcome, HookEffect::Allowed);
        return Some(PromptOutcome::new("completed", chat.last_text.clone()));
    }
    chat.stops.is_active = true;
    chat.stops.blocks += 1;
    if let Some(cap) = block_cap(host)
        && chat.stops.blocks > cap
    {
        // The report of a subagent is its last text.
        let is_kept = reasons.is_empty() || chat.agent.is_some();
        let result = if is_kept { chat.last_text.clone() } else { String::new() };
        host.emit_hook(outcome, HookEffect::Overridden { reasons });
        if chat.agent.is_none() {
            let text = override_warning(chat.stops.blocks);
            let wrote = chat.transcript.write_warning(&text);
            host.note_write(wrote);
            host.notice(text);
        }
        return Some(PromptOutcome::new("completed", result));
    }
    let effect = if reasons.is_empty() {
        HookEffect::Continued { context: contexts }
    } else {
        HookEffect::Blocked { reasons }
    };
    host.emit_hook(outcome, effect);
    None
}

fn stop_event(chat: &SimulatedConversation) -> &'static str {
    if chat.agent.is_some() { "SubagentStop" } else { "Stop" }
}

fn fire_stop_event(
    host: &mut SimulatedClient<'_>,
    chat: &mut SimulatedConversation,
) -> EventOutcome {
    let event = stop_event(chat);
    let agent_transcript =
        chat.agent.is_some().then(|| chat.transcript.path().to_string_lossy().into_owned());
    let input = host
        .hook_input(event, SharedInputFields::Turn, chat.agent.as_ref())
        .with("stop_hook_active", chat.stops.is_active)
        .with_opt("agent_transcript_path", agent_transcript)
        .with("last_assistant_message", chat.last_text.clone())
        .with("background_tasks", host.background_tasks())
        .with("session_crons", json!([]));
    let subject = chat.agent.as_ref().map(|agent| agent.kind.clone());
    fire_event(host, DispatchedEvent { event, subject, agent: chat.lane(), input })
}

/// The cap on consecutive blocks; `None` means no limit.
pub(super) fn block_cap(host: &mut SimulatedClient<'_>) -> Option<u32> {
    parse_block_cap(host.variable(BLOCK_CAP_VARIABLE).as_deref())
}

/// Parses the value of [`BLOCK_CAP_VARIABLE`].
pub(crate) fn parse_block_cap(value: Option<&str>) -> Option<u32> {
    match value.map(parse_js_number) {
        // Fractions are cut off, and a value below 1 means no limit.
        Some(Some(number)) if number >= 1.0 => Some(to_count(number)),
        Some(Some(_)) => None,
        Some(None) | None => Some(DEFAULT_BLOCK_CAP),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the number is at least 1, and the cast saturates"
)]
fn to_count(number: f64) -> u32 {
    number as u32
}

/// Parses the number at the start of a text, as JavaScript's `parseFloat` does.
fn parse_js_number(text: &str) -> Option<f64> {
    let text = text.trim_start();
    let ends = (1..=text.len()).rev().filter(|end| text.is_char_boundary(*end));
    let beginnings = ends.filter_map(|end| text.get(..end));
    let is_number = |text: &&str| text.bytes().all(|byte| b"+-.0123456789eE".contains(&byte));
    beginnings.filter(is_number).find_map(|text| text.parse().ok())
}

pub(crate) fn override_warning(blocks: u32) -> String {
    format!(
        "A hook blocked the turn from ending {blocks} consecutive times — overriding and ending turn. For \
         Stop/SubagentStop hooks, check stop_hook_active in the input and return success while it's true. Set \
         {BLOCK_CAP_VARIABLE} to raise this limit."
    )
}

fn check_max_turns(
    host: &SimulatedClient<'_>,
    chat: &SimulatedConversation,
) -> Option<PromptOutcome> {
    let most = host.scenario.client.max_turns?;
    let is_out = chat.agent.is_none() && chat.turns > most;
    is_out.then(|| PromptOutcome::error("max_turns", ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As observed in the client.
    #[test]
    fn parses_the_number_at_the_start_of_a_text() {
        let texts = ["8", " 2", "1.5", "2abc", "1e1", "0x2", "-1", "0", "many", "", "e", "."];
        let expected = [
            Some(8.0),
            Some(2.0),
            Some(1.5),
            Some(2.0),
            Some(10.0),
            Some(0.0),
            Some(-1.0),
            Some(0.0),
            None,
            None,
            None,
            None,
        ];
        assert_eq!(texts.map(parse_js_number), expected);
    }
}
