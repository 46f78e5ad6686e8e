//! One process of the agent, talked to from its first word to its end.

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

/// Lines that wait to be read. A client that says more waits too.
const QUEUE: usize = 32;
const TICK: Duration = Duration::from_millis(100);
/// How often a person's words from elsewhere are looked for.
const LOOK: Duration = Duration::from_secs(1);
const SAY: Duration = Duration::from_secs(5);
const FAREWELL: Duration = Duration::from_secs(10);
const LAST_WORDS: Duration = Duration::from_secs(3);
/// An agent that takes longer to write notes is at something else.
const NOTES: Duration = Duration::from_mins(5);
/// From this many tokens on it matters how large the window is.
const ASK_FROM: u64 = 50_000;
const MOST_WINDOWS: usize = 16;
const MOST_ANSWERS: usize = 64;
const SHOWN_ERRORS: usize = 600;
/// Questions about the cost of the session begin with this.
const COST: &str = "cost";
/// What a process goes on counting from is asked with this, before anything is said: after a killed one from nothing,
/// in a copy of a session from what the original cost.
const CARRIED: &str = "carried";
/// It takes a thousandth of a second, if the client answers at all.
const COST_PATIENCE: Duration = Duration::from_secs(3);

#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    #[error(transparent)]
    Talk(#[from] TalkError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Driven(#[from] DrivenError),
    #[error("the system gives no random numbers, so no session can be named")]
    NoChance,
}

/// Which session a process is started for.
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

/// Why nobody listens any more.
#[derive(Debug)]
pub(crate) enum Pause {
    /// A turn is over, and the process is there for another one.
    Turn(Turn),
    /// The process is gone.
    Gone(Turn),
    /// Nothing was heard of it, also after it was asked.
    Silent,
    /// The agent asks a person, who did not answer in time.
    Unanswered(String),
    /// The window that was waited for is used as far as a person allows.
    UsedUp(String),
    /// It was let go for good, and goes on all the same: a hook of somebody else's holds it.
    Settled(Box<Decision>),
    /// A person wants it to end now.
    Wished,
    /// The time of the run is up in the middle of a turn.
    OverTime,
    /// A person paused the run, and its turn does not come to an end.
    Paused,
    /// The run was ended from elsewhere.
    Cancelled,
}

#[derive(Debug)]
pub(crate) struct Turn {
    pub ending: Ending,
    /// The last that was decided about the agent's stop, if it was asked.
    pub decision: Option<Decision>,
    /// The last stop that was asked about.
    pub stop: Option<Box<Stop>>,
}

pub(crate) struct Conversation {
    talk: Talk,
    events: Receiver<Event>,
    sender: SyncSender<Event>,
    session: SessionId,
    tally: Tally,
    /// What the ledger of the day has of this process.
    booked: Spent,
    facts: TurnFacts,
    decision: Option<Decision>,
    said: Option<String>,
    model: Option<String>,
    windows: BTreeMap<String, u64>,
    /// Of the agent itself, after its last answer.
    context_tokens: Option<u64>,
    context: Context,
    /// How much of the provider's windows is used, in thousandths, as it last told.
    used: BTreeMap<String, u16>,
    activity: Activity,
    /// Questions that are being answered.
    answering: BTreeMap<String, What>,
    question: Option<Question>,
    progress: u64,
    heard: Stopwatch,
    looked: Stopwatch,
    nudge: Nudge,
    /// Since a person paused the run.
    paused: Option<Stopwatch>,
    manner: Manner,
    /// The last stop that was asked about.
    stop: Option<Box<Stop>>,
    /// A stop that waits for the client to say what it has cost so far.
    asking: Option<Asking>,
    /// Since its process is known to have ended.
    died: Option<Stopwatch>,
    /// Since it was let go for good.
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

/// How its stops are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    /// They are decided about.
    Usual,
    /// It is only asked something, and may stop.
    Quiet,
}

/// What the client says it is doing.
#[derive(Debug, Default)]
struct Activity {
    /// A result was told since the last message.
    has_result: bool,
    /// What it calls its own state, if it does.
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
    /// What a person had said by then.
    hints: usize,
}

impl Conversation {
    /// What was last decided about a stop of the turn that is under way.
    pub(crate) fn decided(&mut self) -> Option<Decision> {
        self.decision.take()
    }

    pub(crate) fn session(&self) -> &SessionId {
        &self.session
    }

    /// Says something to the agent, and listens until it has stopped.
    pub(crate) fn say(&mut self, ride: &mut Ride<'_>, text: &str) -> Result<Pause, SessionError> {
        self.facts = self.facts.next();
        self.decision = None;
        self.settled = None;
        self.activity.has_result = false;
        self.nudge = Nudge::No;
        self.paused = None;
        self.heard = Stopwatch::start();
        // With a stroke in front it would be a command of the client's, and reach no model.
        let stroke = if text.starts_with('/') { " " } else { "" };
        self.send(&wire::user(&format!("{stroke}{text}"), None));
        self.listen(ride)
    }

    /// What cannot be said has nobody to hear it. A process that does not read has half a line before it, and would
    /// take the next one for the rest of it.
    fn send(&mut self, bytes: &[u8]) {
        if self.talk.say(bytes, Deadline::after(SAY)).is_err() {
            self.talk.ask_to_end();
        }
    }

    pub(crate) fn listen(&mut self, ride: &mut Ride<'_>) -> Result<Pause, SessionError> {
        loop {
            match self.events.recv_timeout(TICK) {
                Ok(Event::Line(line)) => self.hear(ride, &line)?,
                Ok(Event::Answered(answer)) => self.answered(ride, *answer)?,
                Ok(Event::End) | Err(RecvTimeoutError::Disconnected) => return self.gone(ride),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if self.is_over() {
                return Ok(Pause::Turn(self.turn()));
            }
            if self.asking.as_ref().is_some_and(|asking| asking.since.elapsed() > COST_PATIENCE) {
                self.go_on_asking(ride)?;
            }
            if let Some(pause) = self.tick(ride)? {
                return Ok(pause);
            }
        }
    }

    /// A result alone is no end: whoever works in the background reports in a turn of its own.
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

    fn gone(&mut self, ride: &mut Ride<'_>) -> Result<Pause, SessionError> {
        let code = self.talk.wait(Deadline::after(FAREWELL)).ok().flatten();
        self.settle(ride)?;
        if !self.activity.has_result {
            self.facts.exit = Some(exit(code));
            let metered = self.tally.broken_off();
            self.meter(ride, metered)?;
        }
        Ok(Pause::Gone(self.turn()))
    }

    /// Answers that are still on their way are decided already, or will be: they are part of the turn.
    fn settle(&mut self, ride: &mut Ride<'_>) -> Result<(), SessionError> {
        if self.answering.is_empty() {
            return Ok(());
        }
        drop(work::call_off(ride.home, &ride.run));
        while !self.answering.is_empty() {
            match self.events.recv_timeout(FAREWELL) {
                Ok(Event::Answered(answer)) => self.answered(ride, *answer)?,
                Ok(Event::Line(_) | Event::End) => {}
                Err(_) => break,
            }
        }
        Ok(())
    }

    fn hear(&mut self, ride: &mut Ride<'_>, bytes: &[u8]) -> Result<(), SessionError> {
        let line = wire::read(bytes);
        // Who prints anything is not alive for that.
        if line != Line::Other || wire::is_sign_of_life(bytes) {
            self.heard = Stopwatch::start();
        }
        self.facts.see(&line);
        watch::watch(ride, &line);
        match line {
            Line::Init(init) => {
                // From here on a model is asked, and whoever breaks off may have cost something.
                self.tally.asked();
                self.model = init.model.or(self.model.take());
            }
            Line::Assistant(said) => {
                // Whoever answers has heard it.
                if std::mem::replace(&mut ride.word, Word::None) == Word::ToBePassedOn {
                    ride.record(Drove::PassedOn)?;
                }
                self.took_in(ride, &said);
            }
            Line::Result(outcome) => self.ended(ride, &outcome)?,
            Line::Callback { request, callback, input } => {
                self.ask(ride, answer::kind(&callback), (request, input));
            }
            Line::Answered { request, answer } if request.starts_with(COST) => {
                if let Some(micro_usd) = answer.ok().as_deref().and_then(wire::cost) {
                    self.tally.told(micro_usd);
                }
                self.go_on_asking(ride)?;
            }
            Line::Answered { request, answer: Ok(answer) } if request == CARRIED => {
                if let Some(micro_usd) = wire::cost(&answer) {
                    self.tally.carries(micro_usd);
                }
            }
            Line::Permission(permission) => self.asked_person(ride, permission)?,
            Line::Asked { request, subtype } => {
                let why = format!("`{}` is not answered here", text::line(&subtype, 60));
                self.send(&wire::refuse(&request, &why));
            }
            Line::Cancelled { request } => {
                self.question.take_if(|question| question.request == request);
            }
            Line::Answered { request, answer: Ok(answer) } if request.starts_with("context") => {
                let model = self.model.clone().unwrap_or_default();
                // How full it is was told by the last answer of the model, which may be newer than this.
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

    /// A window that is used up is waited for, and begins anew.
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

    /// What the agent itself has in its context, and what its subagents and it have used.
    fn took_in(&mut self, ride: &mut Ride<'_>, said: &wire::Assistant) {
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
        drop(ride.stands(self.permille()));
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

    fn ended(&mut self, ride: &mut Ride<'_>, outcome: &wire::Outcome) -> Result<(), SessionError> {
        for model in &outcome.models {
            if let Some(window) = model.window {
                self.windows.insert(model.model.clone(), window);
            }
        }
        let metered = self.tally.billed(outcome);
        self.meter(ride, Some(metered))?;
        self.said =
            outcome.text.clone().filter(|text| !text.trim().is_empty()).or(self.said.take());
        self.activity.has_result = true;
        Ok(())
    }

    /// What was spent goes on record, and into the ledger of the day.
    fn meter(
        &mut self,
        ride: &mut Ride<'_>,
        metered: Option<ralph_core::drive::Metered>,
    ) -> Result<(), SessionError> {
        let Some(metered) = metered else { return Ok(()) };
        let now = Spent { micro_usd: metered.micro_usd, tokens: metered.tokens };
        let opened = ride.charge(self.booked, metered)?;
        self.booked = Spent {
            micro_usd: self.booked.micro_usd.max(now.micro_usd),
            tokens: self.booked.tokens.max(now.tokens),
        };
        ride.stands_as(&opened, self.permille());
        Ok(())
    }
}

/// As a shell tells it: more than 128 is a signal.
fn exit(code: Option<i32>) -> ending::Exit {
    match code {
        Some(code) if code > 128 => ending::Exit { code: None, signal: Some(code - 128) },
        code => ending::Exit { code, signal: None },
    }
}
