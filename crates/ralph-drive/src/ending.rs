//! How a turn ended, from what the client told in its own fields. Neither the text of an answer nor an exit code of 0
//! says anything: a repository may be full of "limit reached", and a turn that nobody asked us about ends with 0 too.

use crate::wire::{LimitStatus, Line, Outcome, RateLimit};
use ralph_core::drive::Cause;
use ralph_core::event::Trouble;
use ralph_core::status::Status;
use ralph_core::text;

#[cfg(test)]
mod tests;

const LONGEST: usize = 300;

/// What was seen of one turn.
#[derive(Clone, Debug, Default)]
pub struct TurnFacts {
    /// The last one, if there was any.
    pub result: Option<Outcome>,
    pub stop: Stop,
    /// The client said that it lets go what was held.
    pub is_overridden: bool,
    /// We told it to break off.
    pub is_interrupted: bool,
    /// What the host's own event says went wrong.
    pub failure: Option<Trouble>,
    /// What the last error in place of an answer says went wrong.
    pub error: Option<String>,
    /// The last word on the provider's limits. It is told when it changes, so it outlives the turn.
    pub limit: Option<RateLimit>,
    /// How the process ended, if it did.
    pub exit: Option<Exit>,
}

/// Whether we were asked at the last stop of the turn, and what we said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Stop {
    #[default]
    NotAsked,
    /// The answer is on its way.
    Asked {
        request: String,
    },
    Held {
        request: String,
    },
    LetGo {
        request: String,
    },
    /// The answer came too late, or was not understood: the client went on without it.
    Unheard,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Held,
    LetGo,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exit {
    pub code: Option<i32>,
    pub signal: Option<i32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// We were asked, and let it go.
    Done,
    /// The turn is over and we were not asked, or not heard.
    Unasked,
    /// We held it, and the client let it go.
    Overridden,
    /// No model was asked anything.
    Empty,
    /// A hook of somebody else's ended it.
    HookStopped,
    MaxTurns,
    /// What the process itself was allowed to spend is spent: it answers nothing any more.
    Budget,
    RateLimited {
        resets_at_ms: Option<u64>,
        /// As the provider calls it.
        window: Option<String>,
    },
    Overloaded,
    Network,
    Server,
    Auth(String),
    Billing(String),
    /// What is asked for does not exist, whoever asks: a model, an address.
    NotFound(String),
    ContextFull,
    OutputLimit,
    Refused,
    Interrupted,
    /// The session that was to be resumed is not there.
    NoSession,
    /// The client names it, and we have no name for it.
    Error(String),
    /// The process ended without a result.
    Crashed(Exit),
    /// Neither a result nor an end.
    Silent,
}

/// What is to be done about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Class {
    /// Look at the work.
    Settled,
    /// A fresh session has to go on: this one takes nothing in any more.
    Full,
    /// It will get better.
    Weather(Cause),
    /// Only a person gets it to go on.
    Fatal { status: Status, why: String },
    /// Start the process again, a bounded number of times.
    Broken,
}

impl TurnFacts {
    pub fn see(&mut self, line: &Line) {
        match line {
            Line::Result(outcome) => self.result = Some((**outcome).clone()),
            Line::RateLimit(limit) => self.limit = Some(limit.clone()),
            Line::Overridden { .. } => self.is_overridden = true,
            Line::Assistant(said) if said.parent.is_none() => self.error.clone_from(&said.error),
            Line::Cancelled { request } if self.stop.request() == Some(request) => {
                self.stop = Stop::Unheard;
            }
            // Hooks of tools fail before the stop is asked about, so after it, it is the stop's.
            Line::HookFailed { .. } if self.stop.request().is_some() => self.stop = Stop::Unheard,
            Line::Cancelled { .. }
            | Line::HookFailed { .. }
            | Line::Assistant(_)
            | Line::Init(_)
            | Line::ToolResults { .. }
            | Line::Retry(_)
            | Line::Callback { .. }
            | Line::Permission(_)
            | Line::Asked { .. }
            | Line::Answered { .. }
            | Line::Compacted { .. }
            | Line::State(_)
            | Line::Background(_)
            | Line::Task(_)
            | Line::Fallback { .. }
            | Line::Denied { .. }
            | Line::Other => {}
        }
    }

    pub fn asked(&mut self, request: &str) {
        self.stop = Stop::Asked { request: request.to_owned() };
    }

    /// An answer to what the client gave up waiting for changes nothing.
    pub fn answered(&mut self, request: &str, answer: Answer) {
        if self.stop.request() == Some(request) {
            let request = request.to_owned();
            self.stop = match answer {
                Answer::Held => Stop::Held { request },
                Answer::LetGo => Stop::LetGo { request },
            };
        }
    }

    /// For the turn after this one.
    pub fn next(&self) -> Self {
        Self { limit: self.limit.clone(), ..Self::default() }
    }
}

impl Stop {
    fn request(&self) -> Option<&str> {
        match self {
            Self::Asked { request } | Self::Held { request } | Self::LetGo { request } => {
                Some(request)
            }
            Self::NotAsked | Self::Unheard => None,
        }
    }
}

pub fn of(facts: &TurnFacts) -> Ending {
    let Some(result) = &facts.result else {
        return match facts.exit {
            Some(exit) => Ending::Crashed(exit),
            None => Ending::Silent,
        };
    };
    let reason = result.terminal_reason.as_deref();
    match (&*result.subtype, reason) {
        ("error_max_turns", _) | (_, Some("max_turns")) => Ending::MaxTurns,
        ("error_max_budget_usd", _) | (_, Some("budget_exhausted")) => Ending::Budget,
        (_, Some("aborted_streaming" | "aborted_tools")) => Ending::Interrupted,
        (_, Some("prompt_too_long" | "blocking_limit" | "rapid_refill_breaker")) => {
            Ending::ContextFull
        }
        (_, Some("stop_hook_prevented" | "hook_stopped")) => Ending::HookStopped,
        // It never began: no turn, no reason, and a session that nobody knows.
        ("error_during_execution", None) if result.num_turns == Some(0) => Ending::NoSession,
        ("success", None | Some("completed")) if !result.is_error => completed(facts, result),
        _ => failed(facts, result),
    }
}

/// What looks like success is one only if we were asked last and let it go.
fn completed(facts: &TurnFacts, result: &Outcome) -> Ending {
    match &facts.stop {
        _ if facts.is_overridden => Ending::Overridden,
        Stop::LetGo { .. } => Ending::Done,
        Stop::Held { .. } => Ending::Overridden,
        Stop::NotAsked | Stop::Asked { .. } | Stop::Unheard if facts.is_interrupted => {
            Ending::Interrupted
        }
        Stop::NotAsked if result.is_idle() => Ending::Empty,
        Stop::NotAsked | Stop::Asked { .. } | Stop::Unheard => Ending::Unasked,
    }
}

fn failed(facts: &TurnFacts, result: &Outcome) -> Ending {
    let said = || text::line(&words(result), LONGEST);
    if result.stop_reason.as_deref() == Some("refusal") {
        return Ending::Refused;
    }
    match result.api_status {
        Some(401 | 403) => return Ending::Auth(said()),
        Some(402) => return Ending::Billing(said()),
        Some(404) => return Ending::NotFound(said()),
        Some(408) => return Ending::Network,
        Some(413) => return Ending::ContextFull,
        Some(429) => return limited(facts),
        Some(529) => return Ending::Overloaded,
        Some(500..=599) => return Ending::Server,
        Some(_) | None => {}
    }
    let named = [&result.api_error, &result.api_error_type, &facts.error];
    let named = named.into_iter().flatten().find_map(|word| by_name(word, facts, &said));
    named.or_else(|| by_failure(facts, &said)).unwrap_or_else(|| unknown(facts, result))
}

fn by_name(word: &str, facts: &TurnFacts, said: &dyn Fn() -> String) -> Option<Ending> {
    Some(match word {
        "connection_failed" | "connection_timeout" => Ending::Network,
        "max_output_tokens" => Ending::OutputLimit,
        "rate_limit_error" | "rate_limit" => limited(facts),
        "overloaded_error" | "overloaded" => Ending::Overloaded,
        "authentication_error" | "permission_error" | "authentication_failed" => {
            Ending::Auth(said())
        }
        "billing_error" => Ending::Billing(said()),
        "not_found_error" | "model_not_found" => Ending::NotFound(said()),
        "request_too_large" => Ending::ContextFull,
        "api_error" | "server_error" | "timeout_error" => Ending::Server,
        _ => return None,
    })
}

fn by_failure(facts: &TurnFacts, said: &dyn Fn() -> String) -> Option<Ending> {
    Some(match facts.failure.as_ref()? {
        Trouble::RateLimit => limited(facts),
        Trouble::Overloaded => Ending::Overloaded,
        Trouble::Authentication => Ending::Auth(said()),
        Trouble::Billing => Ending::Billing(said()),
        Trouble::ContextFull => Ending::ContextFull,
        Trouble::OutputLimit => Ending::OutputLimit,
        Trouble::Server => Ending::Server,
        Trouble::Interrupted => Ending::Interrupted,
        Trouble::InvalidRequest | Trouble::Unknown(_) => return None,
    })
}

fn unknown(facts: &TurnFacts, result: &Outcome) -> Ending {
    let is_rejected = facts.limit.as_ref().is_some_and(RateLimit::is_in_force);
    if is_rejected && result.terminal_reason.as_deref() == Some("api_error") {
        return limited(facts);
    }
    let reason = result.terminal_reason.as_deref().unwrap_or("no reason");
    let subtype = if result.subtype.is_empty() { "no subtype" } else { &result.subtype };
    Ending::Error(text::line(&format!("{subtype}, {reason}: {}", words(result)), LONGEST))
}

fn limited(facts: &TurnFacts) -> Ending {
    let limit = facts.limit.as_ref().filter(|limit| limit.is_in_force());
    Ending::RateLimited {
        resets_at_ms: limit.and_then(|limit| limit.resets_at_ms),
        window: limit.and_then(|limit| limit.kind.clone()),
    }
}

impl RateLimit {
    /// The provider takes nothing until the reset.
    pub fn is_in_force(&self) -> bool {
        self.status == LimitStatus::Rejected && !self.is_overage
    }
}

/// What the client says about it, for a person to read.
fn words(result: &Outcome) -> String {
    match &result.text {
        Some(text) if !text.is_empty() => text.clone(),
        Some(_) | None if result.errors.is_empty() => "no reason given".to_owned(),
        Some(_) | None => result.errors.join("; "),
    }
}

pub fn class(ending: &Ending) -> Class {
    let fatal = |status, why: &str| Class::Fatal { status, why: why.to_owned() };
    match ending {
        Ending::Done
        | Ending::Unasked
        | Ending::HookStopped
        | Ending::MaxTurns
        | Ending::OutputLimit
        | Ending::Refused => Class::Settled,
        Ending::Overridden => fatal(Status::Overridden, &sentence(ending)),
        Ending::ContextFull => Class::Full,
        Ending::RateLimited { .. } => Class::Weather(Cause::RateLimit),
        Ending::Overloaded => Class::Weather(Cause::Overload),
        Ending::Network => Class::Weather(Cause::Network),
        Ending::Server => Class::Weather(Cause::Server),
        Ending::Budget => fatal(Status::Exhausted, &sentence(ending)),
        Ending::Auth(_) | Ending::Billing(_) | Ending::NotFound(_) => {
            fatal(Status::NeedsHuman, &sentence(ending))
        }
        Ending::Interrupted => fatal(Status::Cancelled, &sentence(ending)),
        Ending::Empty
        | Ending::NoSession
        | Ending::Error(_)
        | Ending::Crashed(_)
        | Ending::Silent => Class::Broken,
    }
}

/// For a program.
pub fn name(ending: &Ending) -> &'static str {
    match ending {
        Ending::Done => "done",
        Ending::Unasked => "unasked",
        Ending::Overridden => "overridden",
        Ending::Empty => "empty",
        Ending::HookStopped => "hook_stopped",
        Ending::MaxTurns => "max_turns",
        Ending::Budget => "budget",
        Ending::RateLimited { .. } => "rate_limited",
        Ending::Overloaded => "overloaded",
        Ending::Network => "network",
        Ending::Server => "server",
        Ending::Auth(_) => "auth",
        Ending::Billing(_) => "billing",
        Ending::NotFound(_) => "not_found",
        Ending::ContextFull => "context_full",
        Ending::OutputLimit => "output_limit",
        Ending::Refused => "refused",
        Ending::Interrupted => "interrupted",
        Ending::NoSession => "no_session",
        Ending::Error(_) => "error",
        Ending::Crashed(_) => "crashed",
        Ending::Silent => "silent",
    }
}

/// For a person and for the journal.
pub fn sentence(ending: &Ending) -> String {
    match ending {
        Ending::Done => "the turn is over".into(),
        Ending::Unasked => "the turn ended and nobody was asked about it".into(),
        Ending::Overridden => "the client ended a turn that was held".into(),
        Ending::Empty => "the turn ended before the model was asked anything".into(),
        Ending::HookStopped => "another hook ended the turn".into(),
        Ending::MaxTurns => "the client's limit of turns is reached".into(),
        Ending::Budget => "the client's own budget is used up".into(),
        Ending::RateLimited { .. } => "the provider's rate limit is reached".into(),
        Ending::Overloaded => "the provider is overloaded".into(),
        Ending::Network => "the provider cannot be reached".into(),
        Ending::Server => "the provider has an error of its own".into(),
        Ending::Auth(said) => format!("the provider does not accept the login: {said}"),
        Ending::Billing(said) => format!("the provider wants to be paid: {said}"),
        Ending::NotFound(said) => format!("what is asked for does not exist: {said}"),
        Ending::ContextFull => "the context is full".into(),
        Ending::OutputLimit => "the answer was longer than the model may write".into(),
        Ending::Refused => "the model refused to answer".into(),
        Ending::Interrupted => "the agent was interrupted".into(),
        Ending::NoSession => "the session to be resumed does not exist".into(),
        Ending::Error(said) => format!("the client failed: {said}"),
        Ending::Crashed(exit) => match (exit.code, exit.signal) {
            (_, Some(signal)) => {
                format!("the agent was ended by signal {signal} before its turn was over")
            }
            (Some(code), None) => {
                format!("the agent exited with code {code} before its turn was over")
            }
            (None, None) => "the agent ended before its turn was over".into(),
        },
        Ending::Silent => "nothing was heard of the agent".into(),
    }
}
