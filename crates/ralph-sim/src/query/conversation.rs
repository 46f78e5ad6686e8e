//! The query loop: asks the model, runs its tools, and runs the stop hooks when the model wants to stop.

use super::book;
use super::compaction;
use super::hooks::{Telling, tell};
use super::host::{Agent, Host, Shared, lane};
use super::pending::Pending;
use super::told::Told;
use super::tools::files::Seen;
use super::tools::{self, Round};
use crate::scenario::{AgentTurn, ApiError, Interrupt};
use crate::timeline::{Effect, Entry, Lane, Reply, Request};
use crate::transcript::{Failure, Transcript};
use crate::wire;
use serde_json::json;

/// Default number of consecutive blocks that the client allows.
const CAP: u32 = 8;
pub(crate) const CAP_VARIABLE: &str = "CLAUDE_CODE_STOP_HOOK_BLOCK_CAP";

/// How often a cut-off answer is continued.
const CUT_OFF_MOST: u32 = 3;
const CONTINUE: &str = "Output token limit hit. Resume directly — no apology, no recap of what you were doing. Pick up \
    mid-thought if that is where the cut happened. Break remaining work into smaller pieces.";
const TOO_LONG: &str = "API Error: Claude's response exceeded the 128000 output token maximum. To configure this behavior, set \
    the CLAUDE_CODE_MAX_OUTPUT_TOKENS environment variable.";
const TOO_LARGE: &str = "Request too large (max 32MB). Accumulated images and attachments in the conversation pushed the \
    request over the limit. Remove older images or compact the conversation.";
const REFUSED: &str = "Your response above was stopped by a safety classifier — this is not a tool or API error. The rest of \
    it was withheld, and tool calls in it that had not finished did not run. Do not produce that content again, even \
    reworded.";
const SILENT: &str = "[Your previous response had no visible output. Please continue and produce a user-visible response.]";

/// The main conversation, or that of a subagent.
pub(super) struct Conversation {
    pub(super) agent: Option<Agent>,
    /// The task of a subagent.
    pub(super) task: Option<String>,
    pub(super) pending: Pending,
    pub(super) transcript: Transcript,
    /// Files whose current content the model has read.
    pub(super) seen: Seen,
    /// Size of the context at the last answer, in tokens.
    pub(super) context: u64,
    /// Number of turns, by the client's rules for `--max-turns`.
    pub(super) turns: u32,
    /// Names of the tools called so far, without duplicates.
    pub(super) calls: Vec<String>,
    pub(super) call_count: u32,
    /// Context that `SessionStart` hooks have added.
    pub(super) greetings: Vec<String>,
    /// Number of answers since the last compaction.
    pub(super) answers: u32,
    stops: Stops,
    cut_off: u32,
    last_text: String,
}

/// The client's record of stops since the last prompt.
#[derive(Debug, Default)]
struct Stops {
    /// `stop_hook_active`
    is_active: bool,
    /// Consecutive blocks, without a tool call between them.
    blocks: u32,
    was_noticed: bool,
}

/// How a prompt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Over {
    pub(super) reason: &'static str,
    pub(super) result: String,
    pub(super) is_error: bool,
    /// The client's class of an API error, and its HTTP status.
    pub(super) failure: Option<(&'static str, u16)>,
}

impl Over {
    pub(super) fn new(reason: &'static str, result: impl Into<String>) -> Self {
        Self { reason, result: result.into(), is_error: false, failure: None }
    }

    pub(super) fn error(reason: &'static str, result: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::new(reason, result) }
    }
}

impl Conversation {
    pub(super) fn new(agent: Option<Agent>, transcript: Transcript) -> Self {
        Self {
            agent,
            task: None,
            pending: Pending::default(),
            transcript,
            seen: Seen::new(),
            context: 0,
            turns: 0,
            calls: Vec::new(),
            call_count: 0,
            greetings: Vec::new(),
            answers: 0,
            stops: Stops::default(),
            cut_off: 0,
            last_text: String::new(),
        }
    }

    pub(super) fn lane(&self) -> Lane {
        lane(self.agent.as_ref())
    }

    /// Records tool calls. The list has each tool once, because the client reports only which tools were called.
    fn note_calls(&mut self, calls: &[String]) {
        self.call_count += u32::try_from(calls.len()).unwrap_or_default();
        for call in calls {
            if !self.calls.contains(call) {
                self.calls.push(call.clone());
            }
        }
    }

    /// Resets the per-prompt state.
    pub(super) fn begin(&mut self) {
        self.stops = Stops::default();
        self.cut_off = 0;
        self.turns = 1;
        self.last_text.clear();
    }
}

/// Runs the query loop until the prompt is finished.
pub(super) fn converse(host: &mut Host<'_>, chat: &mut Conversation) -> Over {
    loop {
        if host.is_over() {
            return Over::new("aborted_streaming", "");
        }
        compaction::when_full(host, chat);
        let turn = ask(host, chat);
        if turn.interrupt == Interrupt::Answer {
            return interrupted(host, chat);
        }
        if let Some(error) = &turn.error {
            return failed(host, chat, error);
        }
        answered(host, chat, &turn);
        if turn.stop_reason.as_deref() == Some("max_tokens") {
            if let Some(over) = cut_off(host, chat) {
                return over;
            }
        } else if turn.stop_reason.as_deref() == Some("refusal") {
            chat.turns += 1;
            chat.pending.text(REFUSED.to_owned());
        } else if turn.tools.is_empty() && turn.text.is_empty() {
            chat.turns += 1;
            chat.pending.text(SILENT.to_owned());
        } else if turn.tools.is_empty() {
            if let Some(over) = stop(host, chat) {
                return over;
            }
        } else {
            chat.stops.blocks = 0;
            match tools::run(host, chat, &turn) {
                Round::On => {}
                // The report of a subagent is its last text.
                Round::Over(over) if chat.agent.is_some() && !over.is_error => {
                    return Over { result: chat.last_text.clone(), ..over };
                }
                Round::Over(over) => return over,
            }
            if let Some(over) = out_of_turns(host, chat) {
                return over;
            }
        }
    }
}

fn ask(host: &mut Host<'_>, chat: &mut Conversation) -> AgentTurn {
    let request = Request { agent: chat.lane(), messages: chat.pending.take() };
    host.requests += 1;
    host.emit(&Entry::Request(request));
    match &chat.task {
        Some(task) => host.script.agent_answer(task),
        None => host.script.answer(),
    }
}

fn answered(host: &mut Host<'_>, chat: &mut Conversation, turn: &AgentTurn) {
    let calls: Vec<String> =
        turn.tools.iter().map(|call| wire::tool_use(call, &host.stage.project).0).collect();
    let usage = turn.usage;
    let tokens = [usage.input, usage.cache_read, usage.cache_creation, usage.output];
    chat.context = tokens.into_iter().fold(0, u64::saturating_add);
    chat.note_calls(&calls);
    chat.answers += 1;
    chat.last_text.clone_from(&turn.text);
    book::answer(host, chat, turn);
    host.emit(&Entry::Reply(Reply {
        agent: chat.lane(),
        text: turn.text.clone(),
        tools: calls,
        error: None,
    }));
}

/// The person presses Esc before the answer arrives.
fn interrupted(host: &mut Host<'_>, chat: &mut Conversation) -> Over {
    let text = "[Request interrupted by user]";
    let wrote = chat.transcript.interruption(text);
    host.wrote(wrote);
    chat.pending.text(text.to_owned());
    // After a block, the client reports an interrupt as a prevented stop, not as an error.
    Over { is_error: !chat.stops.is_active, ..Over::error("aborted_streaming", "") }
}

fn failed(host: &mut Host<'_>, chat: &mut Conversation, error: &ApiError) -> Over {
    let text = api_error_text(error);
    let wrote = chat.transcript.api_error(&Failure {
        status: Some(error.status),
        kind: Some(&error.kind),
        error: error_class(error),
        request: &wire::request_id(host.requests),
        text: &text,
    });
    host.wrote(wrote);
    host.emit(&Entry::Reply(Reply {
        agent: chat.lane(),
        text: String::new(),
        tools: Vec::new(),
        error: Some(text.clone()),
    }));
    tell_failure(host, chat, error_class(error), &text);
    let reason = if error.status == 413 { "image_error" } else { "api_error" };
    Over { failure: Some((error_class(error), error.status)), ..Over::error(reason, text) }
}

/// Asks the model to continue a cut-off answer, at most three times in a row.
fn cut_off(host: &mut Host<'_>, chat: &mut Conversation) -> Option<Over> {
    if chat.cut_off < CUT_OFF_MOST {
        chat.cut_off += 1;
        chat.turns += 1;
        chat.pending.text(CONTINUE.to_owned());
        return None;
    }
    chat.cut_off = 0;
    tell_failure(host, chat, "max_output_tokens", TOO_LONG);
    Some(Over::error("api_error", TOO_LONG))
}

fn tell_failure(host: &mut Host<'_>, chat: &Conversation, class: &str, text: &str) {
    let event = "StopFailure";
    let input = host
        .input(event, Shared::Effort, chat.agent.as_ref())
        .with("error", class)
        .with("last_assistant_message", text);
    let subject = Some(class.to_owned());
    let told = tell(host, Telling { event, subject, agent: chat.lane(), input });
    host.show(&told, Effect::Allowed);
}

pub(crate) fn api_error_text(error: &ApiError) -> String {
    let ApiError { status, message, .. } = error;
    match status {
        401 | 403 => format!("Failed to authenticate. API Error: {status} {message}"),
        413 => TOO_LARGE.to_owned(),
        429 => format!("API Error: Request rejected (429) · {message}"),
        500..=599 => format!(
            "API Error: {status} {message}. This is a server-side issue, usually temporary — try again in a moment. If it \
             persists, check your inference gateway (127.0.0.1:PORT)."
        ),
        _ => format!("API Error: {status} {message}"),
    }
}

/// The client's class of an API error.
pub(crate) fn error_class(error: &ApiError) -> &'static str {
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
fn stop(host: &mut Host<'_>, chat: &mut Conversation) -> Option<Over> {
    let told = ask_hooks(host, chat);
    let over = decide(host, chat, &told);
    book::stop(host, chat, &told);
    if chat.agent.is_none() && !chat.stops.was_noticed && told.has_error() {
        chat.stops.was_noticed = true;
        host.notice("Stop hook error occurred".to_owned());
    }
    over.or_else(|| out_of_turns(host, chat))
}

fn decide(host: &mut Host<'_>, chat: &mut Conversation, told: &Told) -> Option<Over> {
    let reasons = told.reasons();
    let contexts = told.contexts();
    for text in told.feedback() {
        let wrote = chat.transcript.feedback(&text);
        host.wrote(wrote);
        chat.pending.text(text);
        chat.turns += 1;
    }
    for text in told.stops() {
        chat.pending.context(text);
    }
    for text in told.asides() {
        chat.pending.context(text);
    }
    if let Some(stop) = told.stop() {
        let reason = stop.reason.clone();
        let result = if reasons.is_empty() { chat.last_text.clone() } else { String::new() };
        host.show(told, Effect::Stopped { reason });
        return Some(Over::new("stop_hook_prevented", result));
    }
    if reasons.is_empty() && contexts.is_empty() {
        host.show(told, Effect::Allowed);
        return Some(Over::new("completed", chat.last_text.clone()));
    }
    chat.stops.is_active = true;
    chat.stops.blocks += 1;
    if let Some(cap) = cap(host)
        && chat.stops.blocks > cap
    {
        // The report of a subagent is its last text.
        let is_kept = reasons.is_empty() || chat.agent.is_some();
        let result = if is_kept { chat.last_text.clone() } else { String::new() };
        host.show(told, Effect::Overridden { reasons });
        if chat.agent.is_none() {
            let text = overriding(chat.stops.blocks);
            let wrote = chat.transcript.warning(&text);
            host.wrote(wrote);
            host.notice(text);
        }
        return Some(Over::new("completed", result));
    }
    let effect = if reasons.is_empty() {
        Effect::Continued { context: contexts }
    } else {
        Effect::Blocked { reasons }
    };
    host.show(told, effect);
    None
}

fn event(chat: &Conversation) -> &'static str {
    if chat.agent.is_some() { "SubagentStop" } else { "Stop" }
}

fn ask_hooks(host: &mut Host<'_>, chat: &mut Conversation) -> Told {
    let event = event(chat);
    let agent_transcript =
        chat.agent.is_some().then(|| chat.transcript.path().to_string_lossy().into_owned());
    let input = host
        .input(event, Shared::Turn, chat.agent.as_ref())
        .with("stop_hook_active", chat.stops.is_active)
        .with_some("agent_transcript_path", agent_transcript)
        .with("last_assistant_message", chat.last_text.clone())
        .with("background_tasks", host.background_tasks())
        .with("session_crons", json!([]));
    let subject = chat.agent.as_ref().map(|agent| agent.kind.clone());
    tell(host, Telling { event, subject, agent: chat.lane(), input })
}

/// The cap on consecutive blocks; `None` means no limit.
pub(super) fn cap(host: &mut Host<'_>) -> Option<u32> {
    read_cap(host.variable(CAP_VARIABLE).as_deref())
}

/// Parses the value of [`BLOCK_CAP_VARIABLE`].
pub(crate) fn read_cap(value: Option<&str>) -> Option<u32> {
    match value.map(number) {
        // Fractions are cut off, and a value below 1 means no limit.
        Some(Some(number)) if number >= 1.0 => Some(to_count(number)),
        Some(Some(_)) => None,
        Some(None) | None => Some(CAP),
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
fn number(text: &str) -> Option<f64> {
    let text = text.trim_start();
    let ends = (1..=text.len()).rev().filter(|end| text.is_char_boundary(*end));
    let beginnings = ends.filter_map(|end| text.get(..end));
    let is_number = |text: &&str| text.bytes().all(|byte| b"+-.0123456789eE".contains(&byte));
    beginnings.filter(is_number).find_map(|text| text.parse().ok())
}

pub(crate) fn overriding(blocks: u32) -> String {
    format!(
        "A hook blocked the turn from ending {blocks} consecutive times — overriding and ending turn. For \
         Stop/SubagentStop hooks, check stop_hook_active in the input and return success while it's true. Set \
         {CAP_VARIABLE} to raise this limit."
    )
}

fn out_of_turns(host: &Host<'_>, chat: &Conversation) -> Option<Over> {
    let most = host.scenario.client.max_turns?;
    let is_out = chat.agent.is_none() && chat.turns > most;
    is_out.then(|| Over::error("max_turns", ""))
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
        assert_eq!(texts.map(number), expected);
    }
}
