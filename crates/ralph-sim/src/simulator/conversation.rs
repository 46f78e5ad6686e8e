//! The query loop: asks the model, runs its tools, and runs the stop hooks when the model wants to stop.

use super::client_process::{SimulatedClient, agent_lane};
use super::compaction;
use super::hook_dispatch::fire_event;
use super::pending_messages::PendingMessages;
use super::tool_calls::{self, ToolRoundOutcome};
use crate::client_rules::api_error_report::{ApiErrorReport, OUTPUT_LIMIT_ERROR, refusal_notice};
use crate::client_rules::event_outcome::{DispatchedEvent, EventOutcome};
use crate::client_rules::file_tools::SeenFiles;
use crate::client_rules::hook_input::{SharedInputFields, SubagentIdentity};
use crate::client_rules::stop_decision::{
    BLOCK_CAP_VARIABLE, StopCounters, StopDecision, parse_block_cap,
};
use crate::client_rules::transcript_records::{record_answer, record_hooks, record_stop_summary};
use crate::client_rules::{EMPTY_ANSWER_PROMPT, INTERRUPTED_TEXT, REFUSAL_PROMPT};
use crate::model_answer;
use crate::scenario::{ScriptedApiError, ScriptedTurn, TurnInterrupt};
use crate::timeline::{AgentLane, HookEffect, TimelineEntry, TimelineReply, TimelineRequest};
use crate::transcript::TranscriptWriter;
use serde_json::{Value, json};

/// How often a cut-off answer is continued.
const MAX_CONTINUATIONS: u32 = 3;
const CONTINUE_PROMPT: &str = "Output token limit hit. Resume directly — no apology, no recap of what you were doing. Pick up \
    mid-thought if that is where the cut happened. Break remaining work into smaller pieces.";

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
    /// Number of requests since the prompt, which `--max-turns` limits. A compaction counts as one.
    pub(super) rounds: u32,
    /// Names of the tools called so far, without duplicates.
    pub(super) called_tools: Vec<String>,
    pub(super) call_count: u32,
    /// Context that `SessionStart` hooks have added.
    pub(super) start_contexts: Vec<String>,
    /// Number of answers since the last compaction.
    pub(super) answers: u32,
    /// The verdict of an agent that answers a hook.
    pub(super) verdict: Option<Value>,
    pub(super) stops: StopCounters,
    was_stop_error_noticed: bool,
    /// Whether the model was already asked for a visible answer since the prompt. The client asks once.
    was_nudged: bool,
    cut_off: u32,
    /// Whether an answer since the prompt was refused. The client asks once more.
    was_refused: bool,
    last_text: String,
}

/// How a prompt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PromptOutcome {
    pub(super) reason: &'static str,
    pub(super) result: String,
    pub(super) is_error: bool,
    pub(super) failure: Option<FailedRequest>,
}

/// The API error that ended a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FailedRequest {
    /// The client's class of the error.
    pub(super) class: &'static str,
    /// The HTTP status; 0 if the server was not reached.
    pub(super) status: u16,
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
            rounds: 0,
            called_tools: Vec::new(),
            call_count: 0,
            start_contexts: Vec::new(),
            answers: 0,
            verdict: None,
            stops: StopCounters::default(),
            was_stop_error_noticed: false,
            was_nudged: false,
            cut_off: 0,
            was_refused: false,
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

    /// Whether an agent that answers a hook has this conversation.
    pub(super) fn is_hook_agent(&self) -> bool {
        self.agent.as_ref().is_some_and(SubagentIdentity::is_hook_agent)
    }

    /// Whether the model was already asked for a visible answer. From now on it was.
    pub(super) fn take_empty_answer_reminder(&mut self) -> bool {
        std::mem::replace(&mut self.was_nudged, true)
    }

    /// Resets the per-prompt state.
    pub(super) fn begin_prompt(&mut self) {
        self.stops = StopCounters::default();
        self.was_stop_error_noticed = false;
        self.was_nudged = false;
        self.cut_off = 0;
        self.was_refused = false;
        self.rounds = 0;
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
            if let Some(over) = continue_refused_answer(host, chat) {
                return over;
            }
        } else if turn.tools.is_empty()
            && turn.text.is_empty()
            && !chat.take_empty_answer_reminder()
        {
            host.note_write(chat.transcript.write_feedback(EMPTY_ANSWER_PROMPT));
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

pub(super) fn request_answer(
    host: &mut SimulatedClient<'_>,
    chat: &mut SimulatedConversation,
) -> ScriptedTurn {
    let request = TimelineRequest { agent: chat.lane(), messages: chat.pending.take() };
    host.requests += 1;
    chat.rounds += 1;
    host.emit(&TimelineEntry::Request(request));
    match &chat.task {
        Some(task) if chat.is_hook_agent() => host.script.next_evaluator_turn(task),
        Some(task) => host.script.next_subagent_turn(task),
        None => host.script.next_turn(),
    }
}

pub(super) fn record_reply(
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
    let (project, model) = (&host.stage.project, host.model());
    let wrote = record_answer(&mut chat.transcript, turn, host.requests, project, &model);
    host.note_write(wrote);
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
    host.note_write(chat.transcript.write_interruption(INTERRUPTED_TEXT));
    chat.pending.add_user_text(INTERRUPTED_TEXT.to_owned());
    // After a block, the client reports an interrupt as a prevented stop, not as an error.
    PromptOutcome {
        is_error: !chat.stops.is_active,
        ..PromptOutcome::error("aborted_streaming", "")
    }
}

pub(super) fn fail_with_api_error(
    host: &mut SimulatedClient<'_>,
    chat: &mut SimulatedConversation,
    error: &ScriptedApiError,
) -> PromptOutcome {
    let report = ApiErrorReport::new(error);
    let wrote = report.record(&mut chat.transcript, host.requests);
    host.note_write(wrote);
    host.emit(&TimelineEntry::Reply(TimelineReply {
        agent: chat.lane(),
        text: String::new(),
        tools: Vec::new(),
        error: Some(report.text.clone()),
    }));
    fire_stop_failure(host, chat, report.class, &report.text);
    let reason = if error.status == 413 { "image_error" } else { "api_error" };
    PromptOutcome {
        failure: Some(FailedRequest { class: report.class, status: error.status }),
        ..PromptOutcome::error(reason, report.text)
    }
}

/// Asks the model to continue a cut-off answer, at most three times in a row.
fn continue_cut_off_answer(
    host: &mut SimulatedClient<'_>,
    chat: &mut SimulatedConversation,
) -> Option<PromptOutcome> {
    if chat.cut_off < MAX_CONTINUATIONS {
        chat.cut_off += 1;
        chat.pending.add_user_text(CONTINUE_PROMPT.to_owned());
        return None;
    }
    chat.cut_off = 0;
    fire_stop_failure(host, chat, "max_output_tokens", OUTPUT_LIMIT_ERROR);
    Some(PromptOutcome::error("api_error", OUTPUT_LIMIT_ERROR))
}

/// Asks the model once more after a refused answer. The second one since the prompt is an error.
fn continue_refused_answer(
    host: &mut SimulatedClient<'_>,
    chat: &mut SimulatedConversation,
) -> Option<PromptOutcome> {
    let model = host.model();
    if !std::mem::replace(&mut chat.was_refused, true) {
        host.notice(refusal_notice(&model));
        chat.pending.add_user_text(REFUSAL_PROMPT.to_owned());
        return None;
    }
    let report = ApiErrorReport::refusal(&model, host.requests);
    host.note_write(report.record(&mut chat.transcript, host.requests));
    fire_stop_failure(host, chat, report.class, &report.text);
    Some(PromptOutcome::error("api_error", report.text))
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

/// Handles an attempted stop. Returns `None` if the agent has to continue.
fn handle_stop(
    host: &mut SimulatedClient<'_>,
    chat: &mut SimulatedConversation,
) -> Option<PromptOutcome> {
    let outcome = fire_stop_event(host, chat);
    let over = apply_stop_answers(host, chat, &outcome);
    host.note_write(record_hooks(&mut chat.transcript, &outcome));
    if chat.agent.is_none() {
        host.note_write(record_stop_summary(&mut chat.transcript, &outcome));
        if outcome.has_error() && !std::mem::replace(&mut chat.was_stop_error_noticed, true) {
            host.notice("Stop hook error occurred".to_owned());
        }
    }
    over.or_else(|| check_max_turns(host, chat))
}

/// Handles a stop of an agent that answers a hook. Returns whether it has to continue, which it also does if the client
/// has just reminded it of its verdict.
pub(super) fn stop_hook_agent(
    host: &mut SimulatedClient<'_>,
    chat: &mut SimulatedConversation,
    is_reminded: bool,
) -> bool {
    let outcome = fire_stop_event(host, chat);
    if apply_stop_answers(host, chat, &outcome).is_none() {
        return true;
    }
    // A reminder counts as a block.
    if is_reminded && outcome.blocking_answers().is_empty() {
        chat.stops.is_active = true;
        chat.stops.blocks += 1;
    }
    is_reminded
}

fn apply_stop_answers(
    host: &mut SimulatedClient<'_>,
    chat: &mut SimulatedConversation,
    outcome: &EventOutcome,
) -> Option<PromptOutcome> {
    let reasons = outcome.reasons();
    for text in outcome.feedback_texts() {
        host.note_write(chat.transcript.write_feedback(&text));
        chat.pending.add_user_text(text);
    }
    for text in outcome.stop_texts() {
        chat.pending.add_context(text);
    }
    for text in outcome.side_texts() {
        chat.pending.add_context(text);
    }
    let cap = block_cap(host);
    let decision = chat.stops.decide(outcome, cap);
    let effect = match decision {
        StopDecision::Overridden => HookEffect::Overridden { reasons: reasons.clone() },
        StopDecision::Completed | StopDecision::Prevented | StopDecision::Continue => {
            outcome.effect()
        }
    };
    host.emit_hook(outcome, effect);
    // A block replaces the result, but the report of a subagent is always its last text.
    let is_kept = |is_report: bool| reasons.is_empty() || is_report;
    let result =
        |is_report| if is_kept(is_report) { chat.last_text.clone() } else { String::new() };
    match decision {
        StopDecision::Continue => None,
        StopDecision::Completed => Some(PromptOutcome::new("completed", result(false))),
        StopDecision::Prevented => Some(PromptOutcome::new("stop_hook_prevented", result(false))),
        StopDecision::Overridden => {
            let over = PromptOutcome::new("completed", result(chat.agent.is_some()));
            if chat.agent.is_none() {
                let text = chat.stops.override_warning();
                host.note_write(chat.transcript.write_warning(&text));
                host.notice(text);
            }
            Some(over)
        }
    }
}

fn stop_event(chat: &SimulatedConversation) -> &'static str {
    if chat.agent.is_some() { "SubagentStop" } else { "Stop" }
}

fn fire_stop_event(
    host: &mut SimulatedClient<'_>,
    chat: &mut SimulatedConversation,
) -> EventOutcome {
    let event = stop_event(chat);
    let agent_transcript = chat.agent.as_ref().map(|agent| {
        // The client names a file for an agent that answers a hook, but does not write it.
        let unwritten = host.transcript_path.with_extension("").join("subagents");
        let unwritten = unwritten.join(format!("agent-{}.jsonl", agent.id));
        let path = if agent.is_hook_agent() { &unwritten } else { chat.transcript.path() };
        path.to_string_lossy().into_owned()
    });
    let last = Some(chat.last_text.clone()).filter(|text| !text.is_empty());
    let input = host
        .hook_input(event, SharedInputFields::Turn, chat.agent.as_ref())
        .with("stop_hook_active", chat.stops.is_active)
        .with_opt("agent_transcript_path", agent_transcript)
        .with_opt("last_assistant_message", last)
        .with("background_tasks", host.background_tasks())
        .with("session_crons", json!([]));
    let subject = chat.agent.as_ref().map(|agent| agent.kind.clone());
    fire_event(host, DispatchedEvent { event, subject, agent: chat.lane(), input })
}

/// The cap on consecutive blocks; `None` means no limit.
pub(super) fn block_cap(host: &mut SimulatedClient<'_>) -> Option<u32> {
    parse_block_cap(host.variable(BLOCK_CAP_VARIABLE).as_deref())
}

fn check_max_turns(
    host: &SimulatedClient<'_>,
    chat: &SimulatedConversation,
) -> Option<PromptOutcome> {
    let most = host.scenario.client.max_turns?;
    let is_out = chat.agent.is_none() && chat.rounds >= most;
    is_out.then(|| PromptOutcome::error("max_turns", ""))
}
