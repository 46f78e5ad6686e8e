//! One process of the agent: the conversation with it, from its start to its exit.

mod answer;
mod asked;
mod leave;
mod mind;
mod open;
mod watch;

pub(crate) use watch::{tell_decision, tell_gates};

use crate::ending::{self, Ending, TurnFacts};
use crate::meter::Tally;
use crate::ride::{Ride, Word};
use crate::wire::{self, Line};
use answer::{Answer, What};
use ralph_core::decide::Decision;
use ralph_core::drive::{Drove, How};
use ralph_core::event::Stop;
use ralph_core::id::SessionId;
use ralph_core::run::Spent;
use ralph_core::text;
use ralph_home::store::StoreError;
use ralph_hook::contract::work;
use ralph_hook::driven::DrivenError;
use ralph_sys::clock::{Deadline, Stopwatch};
use ralph_sys::proc::talk::{Talk, TalkError};
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::Duration;

/// Capacity of the event queue. A client that writes faster blocks.
const QUEUE: usize = 32;
const TICK: Duration = Duration::from_millis(100);
/// Interval between checks for changes by other processes, such as a pause or a hint.
const LOOK: Duration = Duration::from_secs(1);
const SAY: Duration = Duration::from_secs(5);
const FAREWELL: Duration = Duration::from_secs(10);
const LAST_WORDS: Duration = Duration::from_secs(3);
/// Time limit for the agent's notes at a hand-over.
const NOTES: Duration = Duration::from_mins(5);
/// Context use from which the size of the context window is queried.
const ASK_FROM: u64 = 50_000;
const MOST_WINDOWS: usize = 16;
const MOST_ANSWERS: usize = 64;
const SHOWN_ERRORS: usize = 600;
/// Prefix of the ids of requests for the session cost.
const COST: &str = "cost";
/// Id of the request for the value that the process's cost counter starts from, sent before any message. The counter
/// starts at zero after a kill, and at the cost of the original in a fork.
const CARRIED: &str = "carried";
/// A client that supports the request answers within milliseconds.
const COST_PATIENCE: Duration = Duration::from_secs(3);

#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    #[error(transparent)]
    Talk(#[from] TalkError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Driven(#[from] DrivenError),
    #[error("the system provides no random bytes for a session id")]
    NoChance,
}

/// The session that a process is started for.
#[derive(Clone, Debug)]
pub(crate) struct Start {
    pub session: SessionId,
    pub how: How,
    pub model: Option<String>,
}

enum Event {
    Line(Vec<u8>),
    End,
    Answered(Box<Answer>),
}

/// Why [`listen`](AgentConversation::listen) returned.
#[derive(Debug)]
pub(crate) enum Pause {
    /// A turn is over, and the process is ready for another message.
    Turn(Turn),
    /// The process has exited.
    Gone(Turn),
    /// The agent sent nothing, even after a nudge.
    Silent,
    /// A person did not answer the agent's question in time.
    Unanswered(String),
    /// The rate-limit window is used up to the share that a person allows.
    UsedUp(String),
    /// The agent was allowed to stop for good but keeps working, because another hook holds it.
    Settled(Box<Decision>),
    /// A person requested a stop.
    Wished,
    /// The run's time limit was reached in the middle of a turn.
    OverTime,
    /// A person paused the run, and the turn does not end.
    Paused,
    /// Another process ended the run.
    Cancelled,
}

#[derive(Debug)]
pub(crate) struct Turn {
    pub ending: Ending,
    /// The last decision about a stop of the agent, if the client asked.
    pub decision: Option<Decision>,
    /// The last stop that the client asked about.
    pub stop: Option<Box<Stop>>,
}

/// A running process of the agent and everything known about its current turn.
pub(crate) struct Conversation {
    talk: Talk,
    events: Receiver<Event>,
    sender: SyncSender<Event>,
    session: SessionId,
    tally: Tally,
    /// The part of this process's cost that is already booked in the day's ledger.
    booked: Spent,
    facts: TurnFacts,
    decision: Option<Decision>,
    said: Option<String>,
    model: Option<String>,
    windows: BTreeMap<String, u64>,
    /// Context use of the agent itself, after its last answer.
    context_tokens: Option<u64>,
    context: Context,
    /// Use of the provider's rate-limit windows, in thousandths.
    used: BTreeMap<String, u16>,
    activity: Activity,
    /// Callbacks that are being decided, by request id.
    answering: BTreeMap<String, What>,
    question: Option<Question>,
    progress: u64,
    heard: Stopwatch,
    looked: Stopwatch,
    nudge: Nudge,
    /// Started when a person paused the run.
    paused: Option<Stopwatch>,
    manner: Manner,
    /// The last stop that the client asked about.
    stop: Option<Box<Stop>>,
    /// A stop whose decision waits for the client's cost so far.
    asking: Option<Asking>,
    /// Started when the process was found to have exited.
    died: Option<Stopwatch>,
    /// Started when the agent was allowed to stop for good.
    settled: Option<Stopwatch>,
    requests: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Context {
    Unasked,
    Asked,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Nudge {
    No,
    Given,
}

/// How stops of the agent are handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    /// Every stop is decided.
    Usual,
    /// Every stop is allowed: the agent was only asked for notes.
    Quiet,
}

/// The client's activity, according to its own messages.
#[derive(Debug, Default)]
struct Activity {
    /// A result arrived since the last message.
    has_result: bool,
    /// The state that the client reports, if it does.
    state: Option<wire::State>,
    background: usize,
}

#[derive(Debug)]
struct Asking {
    request: String,
    input: String,
    since: Stopwatch,
}

#[derive(Debug)]
struct Question {
    request: String,
    text: String,
    until_ms: u64,
    /// Number of a person's hints when the question was asked.
    hints: usize,
}

impl Conversation {
    /// Takes the last decision about a stop of the current turn.
    pub(crate) fn decided(&mut self) -> Option<Decision> {
        self.decision.take()
    }

    pub(crate) fn session(&self) -> &SessionId {
        &self.session
    }

    /// Sends a message to the agent and listens until its turn is over.
    pub(crate) fn say(&mut self, ctx: &mut Ride<'_>, text: &str) -> Result<Pause, SessionError> {
        self.facts = self.facts.next();
        self.decision = None;
        self.settled = None;
        self.activity.has_result = false;
        self.nudge = Nudge::No;
        self.paused = None;
        self.heard = Stopwatch::start();
        // A leading slash would make it a command of the client, which never reaches the model.
        let padding = if text.starts_with('/') { " " } else { "" };
        self.send(&wire::user(&format!("{padding}{text}"), None));
        self.listen(ctx)
    }

    /// Terminates the process if the line cannot be written in time: half of it may be in the pipe, and the process
    /// would take the next line for the rest.
    fn send(&mut self, bytes: &[u8]) {
        if self.talk.say(bytes, Deadline::after(SAY)).is_err() {
            self.talk.ask_to_end();
        }
    }

    pub(crate) fn listen(&mut self, ctx: &mut Ride<'_>) -> Result<Pause, SessionError> {
        loop {
            match self.events.recv_timeout(TICK) {
                Ok(Event::Line(line)) => self.hear(ctx, &line)?,
                Ok(Event::Answered(answer)) => self.answered(ctx, *answer)?,
                Ok(Event::End) | Err(RecvTimeoutError::Disconnected) => return self.gone(ctx),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if self.is_over() {
                return Ok(Pause::Turn(self.turn()));
            }
            if self.asking.as_ref().is_some_and(|asking| asking.since.elapsed() > COST_PATIENCE) {
                self.go_on_asking(ctx)?;
            }
            if let Some(pause) = self.tick(ctx)? {
                return Ok(pause);
            }
        }
    }

    /// A result alone does not end the turn: background tasks report in turns of their own.
    fn is_over(&self) -> bool {
        let Activity { has_result, state, background } = &self.activity;
        let is_idle = state.is_none_or(|state| state == wire::State::Idle);
        let is_answered = self.answering.is_empty() && self.asking.is_none();
        *has_result && is_idle && *background == 0 && is_answered
    }

    fn turn(&mut self) -> Turn {
        Turn {
            ending: ending::of(&self.facts),
            decision: self.decision.take(),
            stop: self.stop.clone(),
        }
    }

    fn gone(&mut self, ctx: &mut Ride<'_>) -> Result<Pause, SessionError> {
        let code = self.talk.wait(Deadline::after(FAREWELL)).ok().flatten();
        self.settle(ctx)?;
        if !self.activity.has_result {
            self.facts.exit = Some(exit(code));
            let metered = self.tally.broken_off();
            self.meter(ctx, metered)?;
        }
        Ok(Pause::Gone(self.turn()))
    }

    /// Waits for decisions that are still being made: they belong to the turn.
    fn settle(&mut self, ctx: &mut Ride<'_>) -> Result<(), SessionError> {
        if self.answering.is_empty() {
            return Ok(());
        }
        drop(work::call_off(ctx.home, &ctx.run));
        while !self.answering.is_empty() {
            match self.events.recv_timeout(FAREWELL) {
                Ok(Event::Answered(answer)) => self.answered(ctx, *answer)?,
                Ok(Event::Line(_) | Event::End) => {}
                Err(_) => break,
            }
        }
        Ok(())
    }

    fn hear(&mut self, ctx: &mut Ride<'_>, bytes: &[u8]) -> Result<(), SessionError> {
        let line = wire::read(bytes);
        // Arbitrary output is not a sign of life.
        if line != Line::Other || wire::is_sign_of_life(bytes) {
            self.heard = Stopwatch::start();
        }
        self.facts.see(&line);
        watch::watch(ctx, &line);
        match line {
            Line::Init(init) => {
                // From here on a request may be sent to a model, so an unfinished turn may cost something.
                self.tally.asked();
                self.model = init.model.or(self.model.take());
            }
            Line::Assistant(said) => {
                // An answer proves that the message arrived.
                if std::mem::replace(&mut ctx.word, Word::None) == Word::ToBePassedOn {
                    ctx.record(Drove::PassedOn)?;
                }
                self.took_in(ctx, &said);
            }
            Line::Result(outcome) => self.ended(ctx, &outcome)?,
            Line::Callback { request, callback, input } => {
                self.ask(ctx, answer::kind(&callback), (request, input));
            }
            Line::Answered { request, answer } if request.starts_with(COST) => {
                if let Some(micro_usd) = answer.ok().as_deref().and_then(wire::cost) {
                    self.tally.told(micro_usd);
                }
                self.go_on_asking(ctx)?;
            }
            Line::Answered { request, answer: Ok(answer) } if request == CARRIED => {
                if let Some(micro_usd) = wire::cost(&answer) {
                    self.tally.carries(micro_usd);
                }
            }
            Line::Permission(permission) => self.asked_person(ctx, permission)?,
            Line::Asked { request, subtype } => {
                let why = format!("`{}` is not supported here", text::line(&subtype, 60));
                self.send(&wire::refuse(&request, &why));
            }
            Line::Cancelled { request } => {
                self.question.take_if(|question| question.request == request);
            }
            Line::Answered { request, answer: Ok(answer) } if request.starts_with("context") => {
                let model = self.model.clone().unwrap_or_default();
                // Only the window size is used: the model's last answer may have newer figures for its use.
                if let Some(context) = wire::context(&answer) {
                    self.windows.insert(model, context.most);
                }
            }
            Line::State(state) => self.activity.state = Some(state),
            Line::Background(tasks) => self.activity.background = tasks.len(),
            Line::RateLimit(limit) => self.uses(limit),
            Line::ToolResults { .. }
            | Line::Overridden { .. }
            | Line::Retry(_)
            | Line::Answered { .. }
            | Line::Compacted { .. }
            | Line::HookFailed { .. }
            | Line::Task(_)
            | Line::Fallback { .. }
            | Line::Denied { .. }
            | Line::Other => {}
        }
        Ok(())
    }

    /// Records the use of a rate-limit window. A rejected window is removed: after the wait it starts at zero.
    fn uses(&mut self, limit: wire::RateLimit) {
        let kind = limit.kind.unwrap_or_default();
        let used = limit.used_permille.filter(|_| limit.status != wire::LimitStatus::Rejected);
        match used {
            None => drop(self.used.remove(&kind)),
            Some(used) if self.used.len() < MOST_WINDOWS || self.used.contains_key(&kind) => {
                self.used.insert(kind, used);
            }
            Some(_) => {}
        }
    }

    /// Counts the tokens of a message, and updates the context use if it comes from the agent itself.
    fn took_in(&mut self, ctx: &mut Ride<'_>, said: &wire::Assistant) {
        self.tally.called(said);
        let Some(usage) = &said.usage else { return };
        if said.parent.is_some() || said.model.is_none() {
            return;
        }
        self.context_tokens = Some(usage.total());
        self.model.clone_from(&said.model);
        let is_known = self.window().is_some();
        if !is_known && self.context == Context::Unasked && usage.total() >= ASK_FROM {
            self.context = Context::Asked;
            let request = self.request("context");
            self.send(&wire::context_usage(&request));
        }
        drop(ctx.stands(self.permille()));
    }

    fn request(&mut self, what: &str) -> String {
        self.requests = self.requests.saturating_add(1);
        format!("{what}-{}", self.requests)
    }

    fn window(&self) -> Option<u64> {
        self.windows.get(self.model.as_deref().unwrap_or_default()).copied()
    }

    pub(crate) fn permille(&self) -> Option<u16> {
        Some(wire::permille(self.context_tokens?, self.window()?))
    }

    fn ended(&mut self, ctx: &mut Ride<'_>, outcome: &wire::Outcome) -> Result<(), SessionError> {
        for model in &outcome.models {
            if let Some(window) = model.window {
                self.windows.insert(model.model.clone(), window);
            }
        }
        let metered = self.tally.billed(outcome);
        self.meter(ctx, Some(metered))?;
        self.said =
            outcome.text.clone().filter(|text| !text.trim().is_empty()).or(self.said.take());
        self.activity.has_result = true;
        Ok(())
    }

    /// Records the cost in the journal and in the day's ledger.
    fn meter(
        &mut self,
        ctx: &mut Ride<'_>,
        metered: Option<ralph_core::drive::Metered>,
    ) -> Result<(), SessionError> {
        let Some(metered) = metered else { return Ok(()) };
        let now = Spent { micro_usd: metered.micro_usd, tokens: metered.tokens };
        let opened = ctx.charge(self.booked, metered)?;
        self.booked = Spent {
            micro_usd: self.booked.micro_usd.max(now.micro_usd),
            tokens: self.booked.tokens.max(now.tokens),
        };
        ctx.stands_as(&opened, self.permille());
        Ok(())
    }
}

/// As in a shell, a code above 128 is a signal.
fn exit(code: Option<i32>) -> ending::Exit {
    match code {
        Some(code) if code > 128 => ending::Exit { code: None, signal: Some(code - 128) },
        code => ending::Exit { code, signal: None },
    }
}
