//! One process of the agent: the conversation with it, from its start to its exit.

mod emit_events;
mod hook_answer;
mod hook_callback;
mod launch;
mod shutdown;
mod watchdog;

pub(crate) use emit_events::{emit_decision, emit_gate_progress};

use crate::meter::CostTally;
use crate::run_context::{HintDelivery, RunContext};
use crate::turn_ending::{self, TurnEnding, TurnFacts};
use hook_answer::{CallbackAnswer, CallbackKind};
use ralph_core::decide::StopDecision;
use ralph_core::drive::{RunnerEvent, SessionOrigin};
use ralph_core::event::StopEvent;
use ralph_core::id::SessionId;
use ralph_core::run::Spending;
use ralph_core::text;
use ralph_home::store::StoreError;
use ralph_hook::contract::gate_worker;
use ralph_hook::runner::RunnerStateError;
use ralph_host::stream::{self, StreamLine, StreamProtocol};
use ralph_sys::clock::{Deadline, Stopwatch};
use ralph_sys::proc::line_process::{LineProcess, LineProcessError};
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::Duration;

/// Capacity of the event queue. A client that writes faster blocks.
const EVENT_QUEUE: usize = 32;
const TICK: Duration = Duration::from_millis(100);
/// Interval between checks for changes by other processes, such as a pause or a hint.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
const SEND_TIMEOUT: Duration = Duration::from_secs(5);
const EXIT_TIMEOUT: Duration = Duration::from_secs(10);
const KILL_GRACE: Duration = Duration::from_secs(3);
/// Time limit for the agent's notes at a hand-over.
const NOTES_TIMEOUT: Duration = Duration::from_mins(5);
/// Context use from which the size of the context window is queried.
const QUERY_WINDOW_FROM: u64 = 50_000;
const MOST_WINDOWS: usize = 16;
const MOST_ANSWERS: usize = 64;
const SHOWN_ERRORS: usize = 600;
/// Prefix of the ids of requests for the session cost.
const COST_REQUEST: &str = "cost";
/// Id of the request for the value that the process's cost counter starts from, sent before any message. The counter
/// starts at zero after a kill, and at the cost of the original in a fork.
const CARRIED_COST_REQUEST: &str = "carried";
/// A client that supports the request answers within milliseconds.
const COST_TIMEOUT: Duration = Duration::from_secs(3);

#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    #[error(transparent)]
    Talk(#[from] LineProcessError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Driven(#[from] RunnerStateError),
    #[error("the system provides no random bytes for a session id")]
    NoChance,
}

/// The session that a process is started for.
#[derive(Clone, Debug)]
pub(crate) struct SessionLaunch {
    pub session: SessionId,
    pub how: SessionOrigin,
    pub model: Option<String>,
}

enum ConversationEvent {
    Line(Vec<u8>),
    End,
    Answered(Box<CallbackAnswer>),
}

/// Why [`listen`](AgentConversation::listen) returned.
#[derive(Debug)]
pub(crate) enum ListenEnd {
    /// A turn is over, and the process is ready for another message.
    Turn(FinishedTurn),
    /// The process has exited.
    Exited(FinishedTurn),
    /// The agent sent nothing, even after a nudge.
    Silent,
    /// A person did not answer the agent's question in time.
    Unanswered(String),
    /// The rate-limit window is used up to the share that a person allows.
    WindowExhausted(String),
    /// The agent was allowed to stop for good but keeps working, because another hook holds it.
    Settled(Box<StopDecision>),
    /// A person requested a stop.
    StopRequested,
    /// The run's time limit was reached in the middle of a turn.
    TimeLimit,
    /// A person paused the run, and the turn does not end.
    Paused,
    /// Another process ended the run.
    Cancelled,
}

#[derive(Debug)]
pub(crate) struct FinishedTurn {
    pub ending: TurnEnding,
    /// The last decision about a stop of the agent, if the client asked.
    pub decision: Option<StopDecision>,
    /// The last stop that the client asked about.
    pub stop: Option<Box<StopEvent>>,
}

/// A running process of the agent and everything known about its current turn.
pub(crate) struct AgentConversation {
    talk: LineProcess,
    stream: &'static StreamProtocol,
    events: Receiver<ConversationEvent>,
    sender: SyncSender<ConversationEvent>,
    session: SessionId,
    tally: CostTally,
    /// The part of this process's cost that is already booked in the day's ledger.
    booked: Spending,
    facts: TurnFacts,
    decision: Option<StopDecision>,
    last_text: Option<String>,
    model: Option<String>,
    windows: BTreeMap<String, u64>,
    /// Context use of the agent itself, after its last answer.
    context_tokens: Option<u64>,
    context_query: ContextQuery,
    /// Use of the provider's rate-limit windows, in thousandths.
    window_use: BTreeMap<String, u16>,
    activity: ClientActivity,
    /// Callbacks that are being decided, by request id.
    answering: BTreeMap<String, CallbackKind>,
    question: Option<PendingQuestion>,
    progress: u64,
    since_activity: Stopwatch,
    since_poll: Stopwatch,
    nudge: NudgeState,
    /// Started when a person paused the run.
    since_pause: Option<Stopwatch>,
    stop_handling: StopHandling,
    /// The last stop that the client asked about.
    last_stop: Option<Box<StopEvent>>,
    /// A stop whose decision waits for the client's cost so far.
    pending_stop: Option<PendingStop>,
    /// Started when the process was found to have exited.
    since_exit: Option<Stopwatch>,
    /// Started when the agent was allowed to stop for good.
    since_settled: Option<Stopwatch>,
    requests: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ContextQuery {
    NotSent,
    Sent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NudgeState {
    NotSent,
    Sent,
}

/// How stops of the agent are handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StopHandling {
    /// Every stop is decided.
    Decide,
    /// Every stop is allowed: the agent was only asked for notes.
    Allow,
}

/// The client's activity, according to its own messages.
#[derive(Debug, Default)]
struct ClientActivity {
    /// A result arrived since the last message.
    has_result: bool,
    /// The state that the client reports, if it does.
    state: Option<stream::ClientState>,
    background: usize,
}

#[derive(Debug)]
struct PendingStop {
    request: String,
    input: String,
    since: Stopwatch,
}

#[derive(Debug)]
struct PendingQuestion {
    request: String,
    text: String,
    until_ms: u64,
    /// Number of a person's hints when the question was asked.
    hints: usize,
}

impl AgentConversation {
    /// Takes the last decision about a stop of the current turn.
    pub(crate) fn take_decision(&mut self) -> Option<StopDecision> {
        self.decision.take()
    }

    pub(crate) fn session(&self) -> &SessionId {
        &self.session
    }

    /// Sends a message to the agent and listens until its turn is over.
    pub(crate) fn send_and_listen(
        &mut self,
        ctx: &mut RunContext<'_>,
        text: &str,
    ) -> Result<ListenEnd, SessionError> {
        self.facts = self.facts.next_turn();
        self.decision = None;
        self.since_settled = None;
        self.activity.has_result = false;
        self.nudge = NudgeState::NotSent;
        self.since_pause = None;
        self.since_activity = Stopwatch::start();
        // A leading slash would make it a command of the client, which never reaches the model.
        let padding = if text.starts_with('/') { " " } else { "" };
        self.send(&(self.stream.user_message)(&format!("{padding}{text}"), None));
        self.listen(ctx)
    }

    /// Terminates the process if the line cannot be written in time: half of it may be in the pipe, and the process
    /// would take the next line for the rest.
    fn send(&mut self, bytes: &[u8]) {
        if self.talk.send(bytes, Deadline::after(SEND_TIMEOUT)).is_err() {
            self.talk.terminate();
        }
    }

    pub(crate) fn listen(&mut self, ctx: &mut RunContext<'_>) -> Result<ListenEnd, SessionError> {
        loop {
            match self.events.recv_timeout(TICK) {
                Ok(ConversationEvent::Line(line)) => self.handle_line(ctx, &line)?,
                Ok(ConversationEvent::Answered(answer)) => self.handle_answer(ctx, *answer)?,
                Ok(ConversationEvent::End) | Err(RecvTimeoutError::Disconnected) => {
                    return self.after_exit(ctx);
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            if self.is_turn_over() {
                return Ok(ListenEnd::Turn(self.finish_turn()));
            }
            if self
                .pending_stop
                .as_ref()
                .is_some_and(|asking| asking.since.elapsed() > COST_TIMEOUT)
            {
                self.decide_pending_stop(ctx)?;
            }
            if let Some(pause) = self.tick(ctx)? {
                return Ok(pause);
            }
        }
    }

    /// A result alone does not end the turn: background tasks report in turns of their own.
    fn is_turn_over(&self) -> bool {
        let ClientActivity { has_result, state, background } = &self.activity;
        let is_idle = state.is_none_or(|state| state == stream::ClientState::Idle);
        let is_answered = self.answering.is_empty() && self.pending_stop.is_none();
        *has_result && is_idle && *background == 0 && is_answered
    }

    fn finish_turn(&mut self) -> FinishedTurn {
        FinishedTurn {
            ending: turn_ending::classify_turn(&self.facts),
            decision: self.decision.take(),
            stop: self.last_stop.clone(),
        }
    }

    fn after_exit(&mut self, ctx: &mut RunContext<'_>) -> Result<ListenEnd, SessionError> {
        let code = self.talk.wait(Deadline::after(EXIT_TIMEOUT)).ok().flatten();
        self.drain_answers(ctx)?;
        if !self.activity.has_result {
            self.facts.exit = Some(exit_from_code(code));
            let metered = self.tally.charge_unfinished_turn();
            self.record_cost(ctx, metered)?;
        }
        Ok(ListenEnd::Exited(self.finish_turn()))
    }

    /// Waits for decisions that are still being made: they belong to the turn.
    fn drain_answers(&mut self, ctx: &mut RunContext<'_>) -> Result<(), SessionError> {
        if self.answering.is_empty() {
            return Ok(());
        }
        drop(gate_worker::cancel_task(ctx.home, &ctx.run));
        while !self.answering.is_empty() {
            match self.events.recv_timeout(EXIT_TIMEOUT) {
                Ok(ConversationEvent::Answered(answer)) => self.handle_answer(ctx, *answer)?,
                Ok(ConversationEvent::Line(_) | ConversationEvent::End) => {}
                Err(_) => break,
            }
        }
        Ok(())
    }

    fn handle_line(&mut self, ctx: &mut RunContext<'_>, bytes: &[u8]) -> Result<(), SessionError> {
        let line = (self.stream.parse_line)(bytes);
        // Arbitrary output is not a sign of life.
        if line != StreamLine::Other || (self.stream.is_sign_of_life)(bytes) {
            self.since_activity = Stopwatch::start();
        }
        self.facts.observe(&line);
        emit_events::emit_line(ctx, &line);
        match line {
            StreamLine::Init(init) => {
                // From here on a request may be sent to a model, so an unfinished turn may cost something.
                self.tally.turn_started();
                self.model = init.model.or(self.model.take());
            }
            StreamLine::Assistant(said) => {
                // An answer proves that the message arrived.
                if std::mem::replace(&mut ctx.hint_delivery, HintDelivery::None)
                    == HintDelivery::Pending
                {
                    ctx.record(RunnerEvent::PassedOn)?;
                }
                self.record_usage(ctx, &said);
            }
            StreamLine::Result(outcome) => self.handle_result(ctx, &outcome)?,
            StreamLine::Callback { request, callback, input } => {
                self.handle_callback(ctx, self.callback_kind(&callback), (request, input));
            }
            StreamLine::Answered { request, answer } if request.starts_with(COST_REQUEST) => {
                if let Some(micro_usd) =
                    answer.ok().as_deref().and_then(self.stream.parse_session_cost)
                {
                    self.tally.set_turn_total(micro_usd);
                }
                self.decide_pending_stop(ctx)?;
            }
            StreamLine::Answered { request, answer: Ok(answer) }
                if request == CARRIED_COST_REQUEST =>
            {
                if let Some(micro_usd) = (self.stream.parse_session_cost)(&answer) {
                    self.tally.set_carried(micro_usd);
                }
            }
            StreamLine::Permission(permission) => self.ask_person(ctx, permission)?,
            StreamLine::Asked { request, subtype } => {
                let why = format!("`{}` is not supported here", text::clean_line(&subtype, 60));
                self.send(&(self.stream.error_response)(&request, &why));
            }
            StreamLine::Cancelled { request } => {
                self.question.take_if(|question| question.request == request);
            }
            StreamLine::Answered { request, answer: Ok(answer) }
                if request.starts_with("context") =>
            {
                let model = self.model.clone().unwrap_or_default();
                // Only the window size is used: the model's last answer may have newer figures for its use.
                if let Some(context) = (self.stream.parse_context_usage)(&answer) {
                    self.windows.insert(model, context.most);
                }
            }
            StreamLine::State(state) => self.activity.state = Some(state),
            StreamLine::Background(tasks) => self.activity.background = tasks.len(),
            StreamLine::RateLimit(limit) => self.update_window_use(limit),
            StreamLine::ToolResults { .. }
            | StreamLine::Overridden { .. }
            | StreamLine::Retry(_)
            | StreamLine::Answered { .. }
            | StreamLine::Compacted { .. }
            | StreamLine::HookFailed { .. }
            | StreamLine::Task(_)
            | StreamLine::Fallback { .. }
            | StreamLine::Denied { .. }
            | StreamLine::Other => {}
        }
        Ok(())
    }

    /// Records the use of a rate-limit window. A rejected window is removed: after the wait it starts at zero.
    fn update_window_use(&mut self, limit: stream::RateLimitEvent) {
        let kind = limit.kind.unwrap_or_default();
        let used =
            limit.used_permille.filter(|_| limit.status != stream::RateLimitStatus::Rejected);
        match used {
            None => drop(self.window_use.remove(&kind)),
            Some(used)
                if self.window_use.len() < MOST_WINDOWS || self.window_use.contains_key(&kind) =>
            {
                self.window_use.insert(kind, used);
            }
            Some(_) => {}
        }
    }

    /// Counts the tokens of a message, and updates the context use if it comes from the agent itself.
    fn record_usage(&mut self, ctx: &mut RunContext<'_>, said: &stream::StreamAssistant) {
        self.tally.count_call(said);
        let Some(usage) = &said.usage else { return };
        if said.parent.is_some() || said.model.is_none() {
            return;
        }
        self.context_tokens = Some(usage.total());
        self.model.clone_from(&said.model);
        let is_known = self.context_window().is_some();
        if !is_known
            && self.context_query == ContextQuery::NotSent
            && usage.total() >= QUERY_WINDOW_FROM
        {
            self.context_query = ContextQuery::Sent;
            let request = self.next_request_id("context");
            self.send(&(self.stream.context_usage_request)(&request));
        }
        drop(ctx.emit_progress(self.context_permille()));
    }

    fn callback_kind(&self, callback: &str) -> CallbackKind {
        if callback == self.stream.stop_callback { CallbackKind::Stop } else { CallbackKind::Other }
    }

    fn next_request_id(&mut self, what: &str) -> String {
        self.requests = self.requests.saturating_add(1);
        format!("{what}-{}", self.requests)
    }

    fn context_window(&self) -> Option<u64> {
        self.windows.get(self.model.as_deref().unwrap_or_default()).copied()
    }

    pub(crate) fn context_permille(&self) -> Option<u16> {
        Some(stream::usage_permille(self.context_tokens?, self.context_window()?))
    }

    fn handle_result(
        &mut self,
        ctx: &mut RunContext<'_>,
        outcome: &stream::TurnResult,
    ) -> Result<(), SessionError> {
        for model in &outcome.models {
            if let Some(window) = model.window {
                self.windows.insert(model.model.clone(), window);
            }
        }
        let metered = self.tally.bill_turn(outcome);
        self.record_cost(ctx, Some(metered))?;
        self.last_text =
            outcome.text.clone().filter(|text| !text.trim().is_empty()).or(self.last_text.take());
        self.activity.has_result = true;
        Ok(())
    }

    /// Records the cost in the journal and in the day's ledger.
    fn record_cost(
        &mut self,
        ctx: &mut RunContext<'_>,
        metered: Option<ralph_core::drive::MeterReading>,
    ) -> Result<(), SessionError> {
        let Some(metered) = metered else { return Ok(()) };
        let now = Spending { micro_usd: metered.micro_usd, tokens: metered.tokens };
        let opened = ctx.charge(self.booked, metered)?;
        self.booked = Spending {
            micro_usd: self.booked.micro_usd.max(now.micro_usd),
            tokens: self.booked.tokens.max(now.tokens),
        };
        ctx.emit_progress_of(&opened, self.context_permille());
        Ok(())
    }
}

/// As in a shell, a code above 128 is a signal.
fn exit_from_code(code: Option<i32>) -> turn_ending::AgentExit {
    match code {
        Some(code) if code > 128 => turn_ending::AgentExit { code: None, signal: Some(code - 128) },
        code => turn_ending::AgentExit { code, signal: None },
    }
}
