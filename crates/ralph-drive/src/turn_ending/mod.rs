//! How a turn ended, classified only by the structured fields that the client sends. The text of an answer and an exit
//! code of 0 are no evidence: a repository may be full of "limit reached", and a turn that ended without asking ralph
//! exits with 0 too.

use ralph_core::drive::WaitCause;
use ralph_core::event::HostTrouble;
use ralph_core::status::RunStatus;
use ralph_core::text;
use ralph_host::stream::{RateLimitEvent, StreamLine, TurnError, TurnOutcome, TurnResult};

#[cfg(test)]
mod tests;

const LONGEST: usize = 300;

/// The facts about one turn that decide how it ended.
#[derive(Clone, Debug, Default)]
pub struct TurnFacts {
    /// The last result of the turn, if any.
    pub result: Option<TurnResult>,
    pub stop: StopExchange,
    /// The client announced that it overrides the block.
    pub is_overridden: bool,
    /// The runner interrupted the turn.
    pub is_interrupted: bool,
    /// The failure class from the host's own `StopFailure` event.
    pub failure: Option<HostTrouble>,
    /// The error in the last assistant message, if it has one.
    pub error: Option<TurnError>,
    /// The last rate-limit event. The client sends one only when something changes, so it is kept beyond the turn.
    pub limit: Option<RateLimitEvent>,
    /// How the process exited, if it did.
    pub exit: Option<AgentExit>,
}

/// Whether the client asked about the last stop of the turn, and ralph's answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StopExchange {
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
pub enum StopAnswer {
    Held,
    LetGo,
}

/// Exit code or signal of the agent's process; neither if unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AgentExit {
    pub code: Option<i32>,
    pub signal: Option<i32>,
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TurnEnding {
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
    Crashed(AgentExit),
    /// Neither a result nor an exit.
    Silent,
}

/// How the run loop reacts to an ending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndingClass {
    /// The turn is complete: act on the decision about its stop, or verify the work.
    Settled,
    /// The context is full: a fresh session has to take over.
    ContextFull,
    /// A temporary failure: wait and retry.
    Transient(WaitCause),
    /// Only a person can fix it.
    Fatal { status: RunStatus, why: String },
    /// Restart the process, a limited number of times.
    Broken,
}

impl TurnFacts {
    /// Takes the facts from a line of the client.
    pub fn observe(&mut self, line: &StreamLine) {
        match line {
            StreamLine::Result(outcome) => self.result = Some((**outcome).clone()),
            StreamLine::RateLimit(limit) => self.limit = Some(limit.clone()),
            StreamLine::Overridden { .. } => self.is_overridden = true,
            StreamLine::Assistant(said) if said.parent.is_none() => {
                self.error = said.error;
            }
            StreamLine::Cancelled { request } if self.stop.request() == Some(request) => {
                self.stop = StopExchange::Unheard;
            }
            // Tool hooks fail before the client asks about the stop, so a later failure is the stop hook's.
            StreamLine::HookFailed { .. } if self.stop.request().is_some() => {
                self.stop = StopExchange::Unheard;
            }
            StreamLine::Cancelled { .. }
            | StreamLine::HookFailed { .. }
            | StreamLine::Assistant(_)
            | StreamLine::Init(_)
            | StreamLine::ToolResults { .. }
            | StreamLine::Retry(_)
            | StreamLine::Callback { .. }
            | StreamLine::Permission(_)
            | StreamLine::Asked { .. }
            | StreamLine::Answered { .. }
            | StreamLine::Compacted { .. }
            | StreamLine::State(_)
            | StreamLine::Background(_)
            | StreamLine::Task(_)
            | StreamLine::Fallback { .. }
            | StreamLine::Denied { .. }
            | StreamLine::Other => {}
        }
    }

    /// The client asked about a stop.
    pub fn stop_asked(&mut self, request: &str) {
        self.stop = StopExchange::Asked { request: request.to_owned() };
    }

    /// Ignores an answer to a request that the client has already given up on.
    pub fn stop_answered(&mut self, request: &str, answer: StopAnswer) {
        if self.stop.request() == Some(request) {
            let request = request.to_owned();
            self.stop = match answer {
                StopAnswer::Held => StopExchange::Held { request },
                StopAnswer::LetGo => StopExchange::LetGo { request },
            };
        }
    }

    /// The initial facts of the next turn.
    pub fn next_turn(&self) -> Self {
        Self { limit: self.limit.clone(), ..Self::default() }
    }
}

impl StopExchange {
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
pub fn classify_turn(facts: &TurnFacts) -> TurnEnding {
    let Some(result) = &facts.result else {
        return match facts.exit {
            Some(exit) => TurnEnding::Crashed(exit),
            None => TurnEnding::Silent,
        };
    };
    match &result.outcome {
        TurnOutcome::Completed => classify_completed(facts, result),
        TurnOutcome::MaxTurns => TurnEnding::MaxTurns,
        TurnOutcome::Budget => TurnEnding::Budget,
        TurnOutcome::Interrupted => TurnEnding::Interrupted,
        TurnOutcome::ContextFull => TurnEnding::ContextFull,
        TurnOutcome::HookStopped => TurnEnding::HookStopped,
        TurnOutcome::NoSession => TurnEnding::NoSession,
        TurnOutcome::Refused => TurnEnding::Refused,
        TurnOutcome::Failed { error, is_request_error, label } => {
            let described = || text::clean_line(&error_text(result), LONGEST);
            let known = error.or(facts.error).map(|error| known_ending(error, facts, &described));
            known.or_else(|| ending_by_failure(facts, &described)).unwrap_or_else(|| {
                let is_rejected = facts.limit.as_ref().is_some_and(RateLimitEvent::is_in_force);
                if is_rejected && *is_request_error {
                    return rate_limited(facts);
                }
                let text = format!("{label}: {}", error_text(result));
                TurnEnding::Error(text::clean_line(&text, LONGEST))
            })
        }
    }
}

/// A result that looks like success is one only if ralph allowed the last stop.
fn classify_completed(facts: &TurnFacts, result: &TurnResult) -> TurnEnding {
    match &facts.stop {
        _ if facts.is_overridden => TurnEnding::Overridden,
        StopExchange::LetGo { .. } => TurnEnding::Done,
        StopExchange::Held { .. } => TurnEnding::Overridden,
        StopExchange::NotAsked | StopExchange::Asked { .. } | StopExchange::Unheard
            if facts.is_interrupted =>
        {
            TurnEnding::Interrupted
        }
        StopExchange::NotAsked if result.is_idle() => TurnEnding::Empty,
        StopExchange::NotAsked | StopExchange::Asked { .. } | StopExchange::Unheard => {
            TurnEnding::Unasked
        }
    }
}

fn known_ending(error: TurnError, facts: &TurnFacts, said: &dyn Fn() -> String) -> TurnEnding {
    match error {
        TurnError::RateLimit => rate_limited(facts),
        TurnError::Overloaded => TurnEnding::Overloaded,
        TurnError::Network => TurnEnding::Network,
        TurnError::Server => TurnEnding::Server,
        TurnError::Auth => TurnEnding::Auth(said()),
        TurnError::Billing => TurnEnding::Billing(said()),
        TurnError::NotFound => TurnEnding::NotFound(said()),
        TurnError::ContextFull => TurnEnding::ContextFull,
        TurnError::OutputLimit => TurnEnding::OutputLimit,
    }
}

fn ending_by_failure(facts: &TurnFacts, said: &dyn Fn() -> String) -> Option<TurnEnding> {
    Some(match facts.failure.as_ref()? {
        HostTrouble::RateLimit => rate_limited(facts),
        HostTrouble::Overloaded => TurnEnding::Overloaded,
        HostTrouble::Authentication => TurnEnding::Auth(said()),
        HostTrouble::Billing => TurnEnding::Billing(said()),
        HostTrouble::ContextFull => TurnEnding::ContextFull,
        HostTrouble::OutputLimit => TurnEnding::OutputLimit,
        HostTrouble::Server => TurnEnding::Server,
        HostTrouble::Interrupted => TurnEnding::Interrupted,
        HostTrouble::InvalidRequest | HostTrouble::Unknown(_) => return None,
    })
}

fn rate_limited(facts: &TurnFacts) -> TurnEnding {
    let limit = facts.limit.as_ref().filter(|limit| limit.is_in_force());
    TurnEnding::RateLimited {
        resets_at_ms: limit.and_then(|limit| limit.resets_at_ms),
        window: limit.and_then(|limit| limit.kind.clone()),
    }
}

/// The client's description of the error, for people.
fn error_text(result: &TurnResult) -> String {
    match &result.text {
        Some(text) if !text.is_empty() => text.clone(),
        Some(_) | None if result.errors.is_empty() => "no reason given".to_owned(),
        Some(_) | None => result.errors.join("; "),
    }
}

/// The reaction to an ending.
pub fn ending_class(ending: &TurnEnding) -> EndingClass {
    let fatal = |status, why: &str| EndingClass::Fatal { status, why: why.to_owned() };
    match ending {
        TurnEnding::Done
        | TurnEnding::Unasked
        | TurnEnding::HookStopped
        | TurnEnding::MaxTurns
        | TurnEnding::OutputLimit
        | TurnEnding::Refused => EndingClass::Settled,
        TurnEnding::Overridden => fatal(RunStatus::Overridden, &describe_ending(ending)),
        TurnEnding::ContextFull => EndingClass::ContextFull,
        TurnEnding::RateLimited { .. } => EndingClass::Transient(WaitCause::RateLimit),
        TurnEnding::Overloaded => EndingClass::Transient(WaitCause::Overload),
        TurnEnding::Network => EndingClass::Transient(WaitCause::Network),
        TurnEnding::Server => EndingClass::Transient(WaitCause::Server),
        TurnEnding::Budget => fatal(RunStatus::Exhausted, &describe_ending(ending)),
        TurnEnding::Auth(_) | TurnEnding::Billing(_) | TurnEnding::NotFound(_) => {
            fatal(RunStatus::NeedsHuman, &describe_ending(ending))
        }
        TurnEnding::Interrupted => fatal(RunStatus::Cancelled, &describe_ending(ending)),
        TurnEnding::Empty
        | TurnEnding::NoSession
        | TurnEnding::Error(_)
        | TurnEnding::Crashed(_)
        | TurnEnding::Silent => EndingClass::Broken,
    }
}

/// A stable name for programs.
pub fn ending_name(ending: &TurnEnding) -> &'static str {
    match ending {
        TurnEnding::Done => "done",
        TurnEnding::Unasked => "unasked",
        TurnEnding::Overridden => "overridden",
        TurnEnding::Empty => "empty",
        TurnEnding::HookStopped => "hook_stopped",
        TurnEnding::MaxTurns => "max_turns",
        TurnEnding::Budget => "budget",
        TurnEnding::RateLimited { .. } => "rate_limited",
        TurnEnding::Overloaded => "overloaded",
        TurnEnding::Network => "network",
        TurnEnding::Server => "server",
        TurnEnding::Auth(_) => "auth",
        TurnEnding::Billing(_) => "billing",
        TurnEnding::NotFound(_) => "not_found",
        TurnEnding::ContextFull => "context_full",
        TurnEnding::OutputLimit => "output_limit",
        TurnEnding::Refused => "refused",
        TurnEnding::Interrupted => "interrupted",
        TurnEnding::NoSession => "no_session",
        TurnEnding::Error(_) => "error",
        TurnEnding::Crashed(_) => "crashed",
        TurnEnding::Silent => "silent",
    }
}

/// A clause for people and for the journal.
pub fn describe_ending(ending: &TurnEnding) -> String {
    match ending {
        TurnEnding::Done => "the turn is over".into(),
        TurnEnding::Unasked => "the turn ended without asking ralph".into(),
        TurnEnding::Overridden => "the client ended a turn that was held".into(),
        TurnEnding::Empty => "the turn ended without a request to the model".into(),
        TurnEnding::HookStopped => "another hook ended the turn".into(),
        TurnEnding::MaxTurns => "the client's turn limit is reached".into(),
        TurnEnding::Budget => "the client's own budget is used up".into(),
        TurnEnding::RateLimited { .. } => "the provider's rate limit is reached".into(),
        TurnEnding::Overloaded => "the provider is overloaded".into(),
        TurnEnding::Network => "the provider cannot be reached".into(),
        TurnEnding::Server => "the provider returned a server error".into(),
        TurnEnding::Auth(said) => format!("the provider rejected the login: {said}"),
        TurnEnding::Billing(said) => format!("the provider reports a billing problem: {said}"),
        TurnEnding::NotFound(said) => {
            format!("the requested model or address does not exist: {said}")
        }
        TurnEnding::ContextFull => "the context is full".into(),
        TurnEnding::OutputLimit => "the answer exceeded the model's output limit".into(),
        TurnEnding::Refused => "the model refused to answer".into(),
        TurnEnding::Interrupted => "the agent was interrupted".into(),
        TurnEnding::NoSession => "the session to resume does not exist".into(),
        TurnEnding::Error(said) => format!("the client failed: {said}"),
        TurnEnding::Crashed(exit) => match (exit.code, exit.signal) {
            (_, Some(signal)) => {
                format!("the agent was killed by signal {signal} during its turn")
            }
            (Some(code), None) => {
                format!("the agent exited with code {code} during its turn")
            }
            (None, None) => "the agent exited during its turn".into(),
        },
        TurnEnding::Silent => "the agent stopped responding".into(),
    }
}
