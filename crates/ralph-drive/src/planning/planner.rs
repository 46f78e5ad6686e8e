//! A conversation with an agent that plans: one process of the client, metered, bounded in time and money, and killed at
//! the end.

use crate::agent::{self, AgentClient};
use crate::meter::{self, CostTally, TallyStart};
use ralph_core::drive::{CostSource, DriveSettings, MeterReading};
use ralph_core::id::RunId;
use ralph_core::limits::RunLimits;
use ralph_core::run::Spending;
use ralph_core::text;
use ralph_core::units::format_usd;
use ralph_home::ledger::{self, LedgerEntry};
use ralph_home::paths::RalphHome;
use ralph_host::HostProfile;
use ralph_host::agent_launch::PlannerLaunch;
use ralph_host::stream::{AssistantBlock, StreamLine, TurnError, TurnOutcome, TurnResult};
use ralph_sys::clock::{self, Deadline};
use ralph_sys::env;
use ralph_sys::fs::{self, FileError};
use ralph_sys::proc::cancel::CancelToken;
use ralph_sys::proc::line_process::{
    self, LineProcess, LineProcessError, LineProcessOutput, LineProcessSpec, OnParentDeath,
};
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

const EVENT_QUEUE: usize = 32;
const TICK: Duration = Duration::from_millis(100);
const SEND_TIMEOUT: Duration = Duration::from_secs(5);
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);
const MAX_ERROR_CHARS: usize = 300;
const MAX_ERROR_BYTES: usize = 4_000;
/// Off, so that no hook of ralph holds the agent or lets it adopt a loop.
const OFF_VARIABLE: (&str, &str) = ("RALPH_OFF", "1");

/// The agent, and what it may cost.
#[derive(Clone, Copy, Debug)]
pub struct PlannerSpec<'a> {
    pub host: &'static HostProfile,
    pub client: &'a AgentClient,
    pub home: &'a RalphHome,
    pub settings: &'a DriveSettings,
    pub model: Option<&'a str>,
    pub max_micro_usd: u64,
    /// How long one answer may take.
    pub turn_timeout: Duration,
    pub cancel: &'a CancelToken,
}

/// Reported while the agent works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlannerEvent {
    /// It calls a tool: the tool's name.
    Tool(String),
    /// The client retries a request to the model by itself.
    Retry,
}

#[derive(Debug, thiserror::Error)]
pub enum PlannerError {
    #[error(transparent)]
    Start(#[from] LineProcessError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error("the system provides no random numbers for a session id")]
    NoRandomness,
    #[error("the agent has spent {spent} of the {most} allowed")]
    Budget { spent: String, most: String },
    #[error("the daily limit of {0} is reached")]
    DailyLimit(String),
    #[error("the agent did not answer within {0} s")]
    Timeout(u64),
    #[error("the agent exited without an answer{0}")]
    Exited(String),
    #[error("the model refused to answer")]
    Refused,
    #[error("the agent's turn failed: {0}")]
    Failed(String),
    #[error("interrupted")]
    Interrupted,
}

/// The running conversation. When dropped, it kills the agent.
#[derive(Debug)]
pub struct Planner<'a> {
    spec: PlannerSpec<'a>,
    process: LineProcess,
    lines: Receiver<LineProcessOutput>,
    tally: CostTally,
    /// The part of the cost that is in the day's ledger.
    booked: Spending,
    /// Identifies the conversation in the ledger; no run has this id.
    ledger_id: RunId,
    errors: PathBuf,
}

impl<'a> Planner<'a> {
    pub fn start(spec: PlannerSpec<'a>) -> Result<Self, PlannerError> {
        let session = agent::new_session_id().ok_or(PlannerError::NoRandomness)?;
        let ledger_id = RunId::temporary(clock::nonce());
        let limits =
            RunLimits { max_cost_micro_usd: Some(spec.max_micro_usd), ..RunLimits::DEFAULT };
        let caps = meter::native_caps(&limits, Spending::default(), left_today(&spec)?);
        let launch = PlannerLaunch {
            session: &session,
            model: spec.model,
            max_budget_usd: caps.max_budget_usd.as_deref(),
        };
        let arguments = (spec.host.launch.planner_arguments)(&launch);
        let argv: Vec<OsString> = std::iter::once(spec.client.program.clone().into_os_string())
            .chain(arguments.into_iter().map(OsString::from))
            .collect();
        let directory = spec.home.scratch(clock::nonce());
        fs::create_private_dir(&directory)?;
        let errors = directory.join("planner.err");
        let (sender, lines) = mpsc::sync_channel(EVENT_QUEUE);
        let process = start_process(&spec, &argv, &errors, move |output| {
            // The receiver is gone once the conversation has ended.
            drop(sender.send(output));
        })?;
        let tally = CostTally::new(TallyStart {
            session,
            source: CostSource::Agent,
            known: Spending::default(),
            turns: 0,
            carried: Spending::default(),
            worst_turn_micro_usd: spec.settings.worst_turn_micro_usd,
        });
        Ok(Self { spec, process, lines, tally, booked: Spending::default(), ledger_id, errors })
    }

    /// What the conversation has cost so far.
    pub fn spent(&self) -> Spending {
        self.tally.spent()
    }

    /// Sends a message and waits for the agent's answer.
    pub fn ask(
        &mut self,
        message: &str,
        watch: &mut dyn FnMut(PlannerEvent),
    ) -> Result<String, PlannerError> {
        if self.spent().micro_usd >= self.spec.max_micro_usd {
            return Err(self.over_budget());
        }
        // A leading slash would make it a command of the client, which never reaches the model.
        let padding = if message.starts_with('/') { " " } else { "" };
        let line = (self.spec.host.stream.user_message)(&format!("{padding}{message}"), None);
        if self.process.send(&line, Deadline::after(SEND_TIMEOUT)).is_err() {
            return Err(PlannerError::Exited(self.last_error()));
        }
        let result = self.await_result(watch)?;
        let reading = self.tally.bill_turn(&result);
        self.book(&reading);
        self.answer_of(result)
    }

    fn await_result(
        &mut self,
        watch: &mut dyn FnMut(PlannerEvent),
    ) -> Result<TurnResult, PlannerError> {
        let deadline = Deadline::after(self.spec.turn_timeout);
        loop {
            if self.spec.cancel.is_cancelled() {
                self.book_unfinished();
                return Err(PlannerError::Interrupted);
            }
            if deadline.has_passed() {
                self.book_unfinished();
                return Err(PlannerError::Timeout(self.spec.turn_timeout.as_secs()));
            }
            let line = match self.lines.recv_timeout(TICK) {
                Ok(LineProcessOutput::Line(line)) => line,
                Err(RecvTimeoutError::Timeout) => continue,
                Ok(LineProcessOutput::End) | Err(RecvTimeoutError::Disconnected) => {
                    drop(self.process.wait(Deadline::after(EXIT_TIMEOUT)));
                    self.book_unfinished();
                    return Err(PlannerError::Exited(self.last_error()));
                }
            };
            match (self.spec.host.stream.parse_line)(&line) {
                StreamLine::Init(_) => self.tally.turn_started(),
                StreamLine::Assistant(said) => {
                    self.tally.count_call(&said);
                    for block in said.blocks {
                        if let AssistantBlock::Call(call) = block {
                            watch(PlannerEvent::Tool(call.name));
                        }
                    }
                }
                StreamLine::Result(result) => return Ok(*result),
                StreamLine::Retry(_) => watch(PlannerEvent::Retry),
                StreamLine::Asked { request, subtype } => {
                    let why = format!("`{}` is not supported here", text::clean_line(&subtype, 60));
                    let answer = (self.spec.host.stream.error_response)(&request, &why);
                    drop(self.process.send(&answer, Deadline::after(SEND_TIMEOUT)));
                }
                // Nothing of these changes the answer; the agent has no tool that needs a permission.
                StreamLine::ToolResults { .. }
                | StreamLine::RateLimit(_)
                | StreamLine::Callback { .. }
                | StreamLine::Permission(_)
                | StreamLine::Cancelled { .. }
                | StreamLine::Answered { .. }
                | StreamLine::Compacted { .. }
                | StreamLine::Overridden { .. }
                | StreamLine::HookFailed { .. }
                | StreamLine::State(_)
                | StreamLine::Background(_)
                | StreamLine::Task(_)
                | StreamLine::Fallback { .. }
                | StreamLine::Denied { .. }
                | StreamLine::Other => {}
            }
        }
    }

    fn answer_of(&self, result: TurnResult) -> Result<String, PlannerError> {
        match result.outcome {
            TurnOutcome::Completed => Ok(result.text.unwrap_or_default()),
            TurnOutcome::Refused => Err(PlannerError::Refused),
            TurnOutcome::Budget => Err(self.over_budget()),
            TurnOutcome::MaxTurns => Err(PlannerError::Failed("too many turns".to_string())),
            TurnOutcome::Interrupted => Err(PlannerError::Interrupted),
            TurnOutcome::ContextFull => {
                Err(PlannerError::Failed("its context is full".to_string()))
            }
            TurnOutcome::HookStopped => Err(PlannerError::Failed("a hook stopped it".to_string())),
            TurnOutcome::NoSession => Err(PlannerError::Failed("no session".to_string())),
            TurnOutcome::Failed { error, label, .. } => {
                let said = result.text.or_else(|| result.errors.into_iter().next());
                let said = said.unwrap_or(label);
                let what = match error {
                    Some(TurnError::RateLimit) => "rate limit: ",
                    Some(TurnError::Auth) => "not logged in: ",
                    Some(_) | None => "",
                };
                let said = text::clean_line(&said, MAX_ERROR_CHARS);
                Err(PlannerError::Failed(format!("{what}{said}")))
            }
        }
    }

    fn over_budget(&self) -> PlannerError {
        PlannerError::Budget {
            spent: format_usd(self.spent().micro_usd),
            most: format_usd(self.spec.max_micro_usd),
        }
    }

    fn book_unfinished(&mut self) {
        if let Some(reading) = self.tally.charge_unfinished_turn() {
            self.book(&reading);
        }
    }

    /// Adds the cost to the day's ledger, which limits all runs together. If it cannot be written, the plan's own limit
    /// still holds.
    fn book(&mut self, reading: &MeterReading) {
        if let Some(entry) = LedgerEntry::new(&self.ledger_id, self.booked, reading) {
            drop(ledger::append_spending(self.spec.home, clock::now_ms(), &entry));
        }
        self.booked = self.tally.spent();
    }

    /// The last line that the client wrote to its standard error, to end a sentence with.
    fn last_error(&self) -> String {
        last_line(&self.errors).map(|line| format!(": {line}")).unwrap_or_default()
    }
}

impl Drop for Planner<'_> {
    fn drop(&mut self) {
        self.process.close_input();
        drop(self.process.wait(Deadline::after(EXIT_TIMEOUT)));
        if let Some(directory) = self.errors.parent() {
            // What is left is removed with other scratch directories.
            drop(fs::remove_file(&self.errors));
            drop(fs::remove_empty_dir(directory));
        }
    }
}

/// The last line of a file that is not blank; its end, if it is long.
fn last_line(path: &std::path::Path) -> Option<String> {
    let length = fs::stat(path)?.len;
    let from = length.saturating_sub(MAX_ERROR_BYTES as u64);
    let bytes = fs::read_range(path, from, MAX_ERROR_BYTES).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let last = text.lines().rev().find(|line| !line.trim().is_empty())?;
    Some(text::clean_line(last, MAX_ERROR_CHARS))
}

fn left_today(spec: &PlannerSpec<'_>) -> Result<Option<u64>, PlannerError> {
    let Some(most) = spec.settings.day_micro_usd else { return Ok(None) };
    let left = most.saturating_sub(ledger::spent_today(spec.home, clock::now_ms())?);
    if left == 0 {
        return Err(PlannerError::DailyLimit(format_usd(most)));
    }
    Ok(Some(left))
}

fn start_process(
    spec: &PlannerSpec<'_>,
    argv: &[OsString],
    errors: &std::path::Path,
    on_output: impl FnMut(LineProcessOutput) + Send + 'static,
) -> Result<LineProcess, LineProcessError> {
    let launch = &spec.host.launch;
    let added = launch.added_variables.iter().chain([&OFF_VARIABLE]);
    let added = added.map(|(name, value)| (*name, (*value).to_owned())).collect();
    let variables = agent::client_environment(spec.host, spec.client, added);
    let argv: Vec<&OsStr> = argv.iter().map(OsString::as_os_str).collect();
    let variables: Vec<_> =
        variables.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str())).collect();
    let this = env::own_executable();
    let process = LineProcessSpec {
        argv: &argv,
        cwd: &spec.client.project,
        env: &variables,
        stderr_path: errors,
        mark: None,
        on_parent_death: OnParentDeath::Kill(&this),
    };
    line_process::start_line_process(&process, on_output)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_of_a_long_file_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("errors");
        let warning = "a warning\n".repeat(MAX_ERROR_BYTES);
        for (content, last) in [
            (String::new(), None),
            ("\n \n".to_string(), None),
            ("one\ntwo\n\n".to_string(), Some("two")),
            (format!("{warning}out of memory\n"), Some("out of memory")),
        ] {
            fs::replace(&path, content.as_bytes(), fs::Durability::Cached).unwrap();
            assert_eq!(last_line(&path).as_deref(), last);
        }
        assert_eq!(last_line(&directory.path().join("absent")), None);
    }
}
