//! How a turn ended, classified only by the structured fields that the client sends. The text of an answer and an exit
//! code of 0 are no evidence: a repository may be full of "limit reached", and a turn that ended without asking ralph
//! exits with 0 too.

use crate::wire::{LimitStatus, Line, Outcome, RateLimit};
use ralph_core::drive::Cause;
use ralph_core::event::Trouble;
use ralph_core::status::Status;
use ralph_core::text;

#[cfg(test)]
mod tests;

const LONGEST: usize = 300;

/// The facts about one turn that decide how it ended.
#[derive(Clone, Debug, Default)]
pub struct TurnFacts {
    /// The last result of the turn, if any.
    pub result: Option<Outcome>,
    pub stop: Stop,
    /// The client announced that it overrides the block.
    pub is_overridden: bool,
    /// The runner interrupted the turn.
    pub is_interrupted: bool,
    /// The failure class from the host's own `StopFailure` event.
    pub failure: Option<Trouble>,
    /// The error name from the last message that was an error instead of an answer.
    pub error: Option<String>,
    /// The last rate-limit event. The client sends one only when something changes, so it is kept beyond the turn.
    pub limit: Option<RateLimit>,
    /// How the process exited, if it did.
    pub exit: Option<Exit>,
}

/// Whether the client asked about the last stop of the turn, and ralph's answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Stop {
    #[default]
    NotAsked,
    /// The answer is still being decided.
    Asked {
        request: String,
    },
    Held {
        request: String,
    },
    LetGo {
        request: String,
    },
    /// The answer came too late or was rejected: the client went on without it.
    Unheard,
}

/// ralph's answer to a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Held,
    LetGo,
}

/// Exit code or signal of the agent's process; neither if unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exit {
    pub code: Option<i32>,
    pub signal: Option<i32>,
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The client asked, and ralph allowed the stop.
    Done,
    /// The turn is over, but the client did not ask or did not get the answer.
    Unasked,
    /// The client ended the turn although ralph held it.
    Overridden,
    /// No request was sent to a model.
    Empty,
    /// Another hook ended the turn.
    HookStopped,
    MaxTurns,
    /// The budget of the process is spent: it accepts no more messages.
    Budget,
    RateLimited {
        resets_at_ms: Option<u64>,
        /// The provider's name for the rate-limit window.
        window: Option<String>,
    },
    Overloaded,
    Network,
    Server,
    Auth(String),
    Billing(String),
    /// The requested model or address does not exist.
    NotFound(String),
    ContextFull,
    OutputLimit,
    Refused,
    Interrupted,
    /// The session to resume does not exist.
    NoSession,
    /// An error that this version does not know, in the client's words.
    Error(String),
    /// The process exited without a result.
    Crashed(Exit),
    /// Neither a result nor an exit.
    Silent,
}

/// How the run loop reacts to an ending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Class {
    /// The turn is complete: act on the decision about its stop, or verify the work.
    Settled,
    /// The context is full: a fresh session has to take over.
    Full,
    /// A temporary failure: wait and retry.
    Weather(Cause),
    /// Only a person can fix it.
    Fatal { status: Status, why: String },
    /// Restart the process, a limited number of times.
    Broken,
}

impl TurnFacts {
    /// Takes the facts from a line of the client.
    pub fn see(&mut self, line: &Line) {
        match line {
            Line::Result(outcome) => self.result = Some((**outcome).clone()),
            Line::RateLimit(limit) => self.limit = Some(limit.clone()),
            Line::Overridden { .. } => self.is_overridden = true,
            Line::Assistant(said) if said.parent.is_none() => self.error.clone_from(&said.error),
            Line::Cancelled { request } if self.stop.request() == Some(request) => {
                self.stop = Stop::Unheard;
            }
            // Tool hooks fail before the client asks about the stop, so a later failure is the stop hook's.
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

    /// The client asked about a stop.
    pub fn asked(&mut self, request: &str) {
        self.stop = Stop::Asked { request: request.to_owned() };
    }

    /// Ignores an answer to a request that the client has already given up on.
    pub fn answered(&mut self, request: &str, answer: Answer) {
        if self.stop.request() == Some(request) {
            let request = request.to_owned();
            self.stop = match answer {
                Answer::Held => Stop::Held { request },
                Answer::LetGo => Stop::LetGo { request },
            };
        }
    }

    /// The initial facts of the next turn.
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

/// Classifies the turn.
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
        // The turn never began: this is how the client reports a session that it does not have.
        ("error_during_execution", None) if result.num_turns == Some(0) => Ending::NoSession,
        ("success", None | Some("completed")) if !result.is_error => completed(facts, result),
        _ => failed(facts, result),
    }
}

/// A result that looks like success is one only if ralph allowed the last stop.
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
    /// Whether the provider rejects all requests until the reset.
    pub fn is_in_force(&self) -> bool {
        self.status == LimitStatus::Rejected && !self.is_overage
    }
}

/// The client's description of the error, for people.
fn words(result: &Outcome) -> String {
    match &result.text {
        Some(text) if !text.is_empty() => text.clone(),
        Some(_) | None if result.errors.is_empty() => "no reason given".to_owned(),
        Some(_) | None => result.errors.join("; "),
    }
}

/// The reaction to an ending.
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

/// A stable name for programs.
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

/// A clause for people and for the journal.
pub fn sentence(ending: &Ending) -> String {
    match ending {
        Ending::Done => "the turn is over".into(),
        Ending::Unasked => "the turn ended without asking ralph".into(),
        Ending::Overridden => "the client ended a turn that was held".into(),
        Ending::Empty => "the turn ended without a request to the model".into(),
        Ending::HookStopped => "another hook ended the turn".into(),
        Ending::MaxTurns => "the client's turn limit is reached".into(),
        Ending::Budget => "the client's own budget is used up".into(),
        Ending::RateLimited { .. } => "the provider's rate limit is reached".into(),
        Ending::Overloaded => "the provider is overloaded".into(),
        Ending::Network => "the provider cannot be reached".into(),
        Ending::Server => "the provider returned a server error".into(),
        Ending::Auth(said) => format!("the provider rejected the login: {said}"),
        Ending::Billing(said) => format!("the provider reports a billing problem: {said}"),
        Ending::NotFound(said) => format!("the requested model or address does not exist: {said}"),
        Ending::ContextFull => "the context is full".into(),
        Ending::OutputLimit => "the answer exceeded the model's output limit".into(),
        Ending::Refused => "the model refused to answer".into(),
        Ending::Interrupted => "the agent was interrupted".into(),
        Ending::NoSession => "the session to resume does not exist".into(),
        Ending::Error(said) => format!("the client failed: {said}"),
        Ending::Crashed(exit) => match (exit.code, exit.signal) {
            (_, Some(signal)) => {
                format!("the agent was killed by signal {signal} during its turn")
            }
            (Some(code), None) => {
                format!("the agent exited with code {code} during its turn")
            }
            (None, None) => "the agent exited during its turn".into(),
        },
        Ending::Silent => "the agent stopped responding".into(),
    }
}
