//! Runs one turn, from the driver's prompt to the result line.

use super::FakeClientExit;
use super::process::{FakeClientProcess, PromptPriority, QueuedPrompt, ReceivedInput, TurnBreak};
use super::refused_answer::REFUSAL;
use super::result_line::NO_USAGE;
use crate::client_rules::api_error_report::ApiErrorReport;
use crate::client_rules::hook_input::SharedInputFields;
use crate::client_rules::stop_decision::StopCounters;
use crate::client_rules::transcript_records::{record_answer, record_hooks};
use crate::client_rules::{EMPTY_ANSWER_PROMPT, INTERRUPTED_TEXT};
use crate::scenario::{
    DEFAULT_AGENT_TYPE, ScriptedApiError, ScriptedRateLimit, ScriptedTurn, ScriptedUsage, TurnHang,
    TurnInterrupt, TurnMishap, TurnPoint,
};
use crate::server::rate_limit_headers::{rejection_error, reset_time};
use crate::transcript::{CLIENT_VERSION, WrittenPromptOrigin, synthetic_message_json};
use crate::{client_ids, model_answer};
use ralph_sys::clock::{self, Deadline};
use serde_json::{Map, Value, json};
use std::time::Duration;

/// The state of a running turn.
#[derive(Debug)]
pub(super) struct FakeTurn {
    /// `num_turns` of the result, by the client's rules.
    pub(super) num_turns: u32,
    /// Number of requests to the model.
    pub(super) rounds: u32,
    pub(super) stops: StopCounters,
    pub(super) last_text: String,
    pub(super) stop_reason: Option<String>,
    pub(super) usage: ScriptedUsage,
    pub(super) denials: Vec<Value>,
    /// The scripted failure of the last answer.
    pub(super) mishap: TurnMishap,
    /// The run id of the background task that the turn reports.
    pub(super) task_run_id: Option<String>,
    /// The driver's ids of the messages that the turn answers.
    pub(super) message_ids: Vec<String>,
    /// Answers that a safety classifier stopped.
    pub(super) refusals: u32,
    is_nudged: bool,
}

/// How a turn ended.
#[derive(Debug)]
pub(super) struct FakeTurnOutcome {
    pub(super) subtype: &'static str,
    pub(super) reason: &'static str,
    pub(super) is_error: bool,
    /// Overrides the counted value.
    pub(super) num_turns: Option<u32>,
    /// Additional fields of the result line.
    pub(super) fields: Map<String, Value>,
}

impl FakeTurnOutcome {
    pub(super) fn success(reason: &'static str, result: &str) -> Self {
        let fields = [("result", json!(result)), ("api_error_status", Value::Null)];
        Self::new("success", reason, fields)
    }

    pub(super) fn error(subtype: &'static str, reason: &'static str, error: &str) -> Self {
        Self { is_error: true, ..Self::new(subtype, reason, [("errors", json!([error]))]) }
    }

    fn new<const N: usize>(
        subtype: &'static str,
        reason: &'static str,
        fields: [(&str, Value); N],
    ) -> Self {
        let fields = fields.map(|(name, value)| (name.to_owned(), value));
        Self {
            subtype,
            reason,
            is_error: false,
            num_turns: None,
            fields: fields.into_iter().collect(),
        }
    }
}

impl FakeClientProcess<'_> {
    /// Runs a turn. Returns the exit code if the process exited now, and the scripted failure of the last answer.
    pub(super) fn run_turn(
        &mut self,
        prompt: &QueuedPrompt,
    ) -> Result<(u8, TurnMishap), TurnBreak> {
        self.meter.start_turn();
        self.write_lifecycle(prompt, "started")?;
        let mut turn = FakeTurn {
            num_turns: 1,
            rounds: 0,
            stops: StopCounters::default(),
            last_text: String::new(),
            stop_reason: None,
            usage: NO_USAGE,
            denials: Vec::new(),
            mishap: TurnMishap::None,
            task_run_id: prompt.task_run_id.clone(),
            message_ids: prompt.id.iter().cloned().collect(),
            refusals: 0,
            is_nudged: false,
        };
        let over = match self.play_turn(prompt, &mut turn) {
            Ok(over) => over,
            Err(TurnBreak::Interrupted) => self.interrupt_answer(&mut turn)?,
            Err(reason) => return Err(reason),
        };
        crash_at(turn.mishap, TurnPoint::Result)?;
        self.write_result(&turn, &over)?;
        self.write_lifecycle(prompt, "completed")?;
        Ok((u8::from(over.is_error), turn.mishap))
    }

    fn play_turn(
        &mut self,
        prompt: &QueuedPrompt,
        turn: &mut FakeTurn,
    ) -> Result<FakeTurnOutcome, TurnBreak> {
        let transcript = self.transcript()?;
        transcript.write_queued_prompt(&prompt.text)?;
        self.prompt_id = Some(transcript.begin_prompt());
        if let Some(refusal) = self.submit_prompt(prompt)? {
            self.write_init()?;
            return Ok(FakeTurnOutcome::success("completed", &refusal));
        }
        self.write_init()?;
        if let Some(over) = self.check_max_budget()? {
            return Ok(over);
        }
        loop {
            let (number, answer) = self.script.next_turn()?;
            turn.rounds += 1;
            turn.mishap = answer.mishap;
            self.await_answer(&answer)?;
            if let Some(limit) = &answer.rate_limit {
                self.write_rate_limit(limit)?;
            }
            let rejected = answer.rate_limit.as_ref().and_then(|limit| rejection_error(limit));
            if let Some(error) = answer.error.clone().or(rejected) {
                return self.fail_with_api_error(turn, &error, number);
            }
            let before = turn.usage;
            self.write_answer(turn, &answer, number)?;
            let over = if turn.stop_reason.as_deref() == Some(REFUSAL) {
                self.handle_refusal(turn, number)?
            } else if !answer.tools.is_empty() {
                turn.stops.blocks = 0;
                match self.run_tools(turn, &answer, number)? {
                    Some(over) => Some(over),
                    None => self.check_max_budget()?,
                }
            } else if let Some(over) = self.check_max_budget()? {
                // The answer that exceeded the budget counts for the session but not for the turn.
                turn.usage = before;
                Some(over)
            } else if answer.text.is_empty() && !std::mem::replace(&mut turn.is_nudged, true) {
                self.write_feedback(turn, EMPTY_ANSWER_PROMPT)?;
                None
            } else {
                self.attempt_stop(turn)?
            };
            if let Some(over) = over.or_else(|| self.check_max_turns(turn)) {
                return Ok(over);
            }
            if !answer.tools.is_empty() {
                self.take_queued_prompts(turn)?;
            }
        }
    }

    /// Fires `UserPromptSubmit`. Returns the message for the driver if a hook blocks the prompt.
    fn submit_prompt(&mut self, prompt: &QueuedPrompt) -> Result<Option<String>, TurnBreak> {
        let event = "UserPromptSubmit";
        let input =
            self.hook_input(event, SharedInputFields::Mode).with("prompt", prompt.text.clone());
        let outcome = self.run_callbacks(event, None, input)?;
        self.write_system_messages(&outcome)?;
        let refusal = outcome.prompt_refusal(&prompt.text);
        if refusal.is_none() {
            let origin = if prompt.task_run_id.is_some() {
                WrittenPromptOrigin::Task
            } else {
                WrittenPromptOrigin::Person
            };
            self.transcript()?.write_prompt(&prompt.text, origin)?;
            record_hooks(self.transcript()?, &outcome)?;
        }
        Ok(refusal)
    }

    /// Adds messages that arrived while a tool ran to this turn.
    fn take_queued_prompts(&mut self, turn: &mut FakeTurn) -> Result<(), TurnBreak> {
        while self.queue.front().is_some_and(|prompt| prompt.priority == PromptPriority::Next) {
            let Some(prompt) = self.queue.pop_front() else { break };
            self.write_lifecycle(&prompt, "started")?;
            self.submit_prompt(&prompt)?;
            self.write_lifecycle(&prompt, "completed")?;
            turn.message_ids.extend(prompt.id);
        }
        Ok(())
    }

    fn write_init(&mut self) -> Result<(), TurnBreak> {
        let tools = ["Task", "Bash", "Edit", "Read", "Write"];
        let cwd = self.options.project.to_string_lossy().into_owned();
        self.write_message(json!({
            "type": "system",
            "subtype": "init",
            "cwd": cwd,
            "tools": tools,
            "mcp_servers": [],
            "model": self.model,
            "permissionMode": self.permission_mode(),
            "slash_commands": ["clear", "compact"],
            "apiKeySource": "ANTHROPIC_API_KEY",
            "claude_code_version": CLIENT_VERSION,
            "output_style": "default",
            "agents": [DEFAULT_AGENT_TYPE],
            "skills": [],
            "plugins": [],
            "capabilities": ["interrupt_receipt_v1"],
            "original_cwd": cwd,
            "additional_directories": [],
            "fast_mode_state": "off",
            "fast_mode_disabled_reason": "sdk_opt_in_required",
        }))
    }

    /// Waits for the delay of an answer, and plays its scripted crash or hang.
    fn await_answer(&mut self, answer: &ScriptedTurn) -> Result<(), TurnBreak> {
        crash_at(answer.mishap, TurnPoint::Answer)?;
        let deadline = match answer.mishap {
            TurnMishap::Hang(TurnHang::Client) => {
                return Err(TurnBreak::Exit(FakeClientExit::Never));
            }
            TurnMishap::Hang(TurnHang::Answer) => None,
            TurnMishap::None | TurnMishap::Crash { .. } => {
                Some(Deadline::after(Duration::from_millis(answer.delay_ms)))
            }
        };
        if answer.interrupt == TurnInterrupt::Answer {
            return Err(TurnBreak::Interrupted);
        }
        while deadline.is_none_or(|deadline| !deadline.has_passed()) {
            match self.receive(deadline.as_ref())? {
                ReceivedInput::Interrupt => return Err(TurnBreak::Interrupted),
                ReceivedInput::Task(id, finished) => self.report_finished_task(&id, &finished)?,
                // Without a driver, nothing could end the wait.
                ReceivedInput::Closed if deadline.is_none() => return Err(TurnBreak::Interrupted),
                ReceivedInput::Handled
                | ReceivedInput::Answer(..)
                | ReceivedInput::Tool(_)
                | ReceivedInput::Closed
                | ReceivedInput::TimedOut => {}
            }
        }
        Ok(())
    }

    /// Writes an answer: one line for each block.
    fn write_answer(
        &mut self,
        turn: &mut FakeTurn,
        answer: &ScriptedTurn,
        number: u64,
    ) -> Result<(), TurnBreak> {
        let ScriptedUsage { input, output, cache_read, cache_creation } = answer.usage;
        let read = [input, cache_read, cache_creation];
        self.context = read.into_iter().fold(0, u64::saturating_add);
        for (sum, more) in [
            (&mut turn.usage.input, input),
            (&mut turn.usage.output, output),
            (&mut turn.usage.cache_read, cache_read),
            (&mut turn.usage.cache_creation, cache_creation),
        ] {
            *sum = sum.saturating_add(more);
        }
        turn.last_text.clone_from(&answer.text);
        turn.stop_reason = Some(model_answer::stop_reason(answer).to_owned());
        let (project, model) = (self.options.project.clone(), self.model.clone());
        record_answer(self.transcript()?, answer, number, &project, &model)?;
        for block in model_answer::content_blocks(answer, number, &project) {
            let mut line = json!({
                "type": "assistant",
                "message": {
                    "id": model_answer::message_id(number),
                    "type": "message",
                    "role": "assistant",
                    "model": model,
                    "content": [block],
                    "stop_reason": null,
                    "stop_sequence": null,
                    "usage": {
                        "input_tokens": input,
                        "cache_creation_input_tokens": cache_creation,
                        "cache_read_input_tokens": cache_read,
                        "output_tokens": 1,
                    },
                    "context_management": null,
                },
                "parent_tool_use_id": null,
                "timestamp": clock::format_rfc3339(clock::now_ms()),
                "request_id": model_answer::request_id(number),
            });
            add_message_ids(&mut line, &turn.message_ids);
            self.write_message(line)?;
        }
        Ok(())
    }

    fn write_rate_limit(&mut self, limit: &ScriptedRateLimit) -> Result<(), TurnBreak> {
        let mut info = json!({"status": limit.status, "rateLimitType": limit.kind});
        if let Some(at) = reset_time(limit) {
            info["resetsAt"] = json!(at);
        }
        if let Some(percent) = limit.used_percent {
            info["utilization"] = json!(f64::from(percent) / 100.0);
        }
        self.write_message(json!({"type": "rate_limit_event", "rate_limit_info": info}))
    }

    /// Ends the turn with an API error that retries did not resolve.
    fn fail_with_api_error(
        &mut self,
        turn: &mut FakeTurn,
        error: &ScriptedApiError,
        number: u64,
    ) -> Result<FakeTurnOutcome, TurnBreak> {
        let report = ApiErrorReport::new(error);
        turn.stop_reason = Some("stop_sequence".to_owned());
        let mut about = Map::new();
        match report.status {
            Some(status) => {
                about.insert("api_error_status".to_owned(), json!(status));
                about.insert("api_error_type".to_owned(), json!(report.kind));
            }
            None => {
                about.insert("api_error".to_owned(), json!("connection_failed"));
            }
        }
        self.fail_with_report(turn, &report, &about, number)
    }

    /// Reports an error instead of an answer, to the transcript, the hooks and the driver.
    pub(super) fn fail_with_report(
        &mut self,
        turn: &FakeTurn,
        report: &ApiErrorReport<'_>,
        about: &Map<String, Value>,
        number: u64,
    ) -> Result<FakeTurnOutcome, TurnBreak> {
        report.record(self.transcript()?, number)?;
        let mut line = error_message(report, about);
        line["message"]["stop_reason"] = json!(turn.stop_reason);
        self.write_message(line)?;
        let input = self
            .hook_input("StopFailure", SharedInputFields::Effort)
            .with("error", report.class)
            .with("last_assistant_message", report.text.clone());
        // The client does not wait for the answer.
        self.send_callbacks("StopFailure", Some(report.class), &input)?;
        self.open_requests.clear();
        let mut over = FakeTurnOutcome::success("api_error", &report.text);
        over.fields.extend(about.clone());
        Ok(FakeTurnOutcome { is_error: true, ..over })
    }

    /// Ends a turn that was interrupted while the answer was streaming.
    fn interrupt_answer(&mut self, turn: &mut FakeTurn) -> Result<FakeTurnOutcome, TurnBreak> {
        turn.num_turns += 1;
        turn.stop_reason = None;
        self.write_interruption(INTERRUPTED_TEXT)?;
        Ok(aborted_outcome("aborted_streaming", "null"))
    }

    pub(super) fn write_interruption(&mut self, text: &str) -> Result<(), TurnBreak> {
        self.transcript()?.write_interruption(text)?;
        self.write_user_line(&json!([{"type": "text", "text": text}]), Map::new())
    }

    /// Writes a user message that no person sent, to the transcript and to the driver.
    pub(super) fn write_feedback(
        &mut self,
        turn: &mut FakeTurn,
        text: &str,
    ) -> Result<(), TurnBreak> {
        turn.num_turns += 1;
        self.transcript()?.write_feedback(text)?;
        let mut more = Map::new();
        more.insert("isSynthetic".to_owned(), json!(true));
        self.write_user_line(&json!([{"type": "text", "text": text}]), more)
    }

    pub(super) fn write_user_line(
        &mut self,
        content: &Value,
        more: Map<String, Value>,
    ) -> Result<(), TurnBreak> {
        let mut line = json!({
            "type": "user",
            "message": {"role": "user", "content": content},
            "parent_tool_use_id": null,
            "timestamp": clock::format_rfc3339(clock::now_ms()),
        });
        if let Value::Object(fields) = &mut line {
            fields.extend(more);
        }
        self.write_message(line)
    }

    fn check_max_budget(&mut self) -> Result<Option<FakeTurnOutcome>, TurnBreak> {
        let Some(most) = self.options.flags.max_budget_usd else { return Ok(None) };
        if self.process_cost_usd()? < most {
            return Ok(None);
        }
        let error = format!("Reached maximum budget (${most})");
        Ok(Some(FakeTurnOutcome::error("error_max_budget_usd", "budget_exhausted", &error)))
    }

    fn check_max_turns(&self, turn: &FakeTurn) -> Option<FakeTurnOutcome> {
        let most = self.options.flags.max_turns.or(self.scenario.client.max_turns)?;
        (turn.rounds >= most).then(|| {
            let error = format!("Reached maximum number of turns ({most})");
            let over = FakeTurnOutcome::error("error_max_turns", "max_turns", &error);
            FakeTurnOutcome { num_turns: Some(turn.rounds + 1), ..over }
        })
    }
}

/// Ends the process if the scenario has a crash at this point.
pub(super) fn crash_at(mishap: TurnMishap, here: TurnPoint) -> Result<(), TurnBreak> {
    match mishap {
        TurnMishap::Crash { at, exit } if at == here => Err(TurnBreak::Exit(match exit {
            Some(code) => FakeClientExit::Code { code, stderr: None },
            None => FakeClientExit::Killed,
        })),
        TurnMishap::None | TurnMishap::Crash { .. } | TurnMishap::Hang(_) => Ok(()),
    }
}

/// Adds the ids of the messages that a line answers, if the driver gave any.
pub(super) fn add_message_ids(line: &mut Value, messages: &[String]) {
    if let Some(last) = messages.last() {
        line["user_message_uuid"] = json!(last);
        line["user_message_uuids"] = json!(messages);
    }
}

pub(super) fn aborted_outcome(reason: &'static str, stop_reason: &str) -> FakeTurnOutcome {
    let error = format!(
        "[ede_diagnostic] result_type=user last_content_type=n/a stop_reason={stop_reason}"
    );
    FakeTurnOutcome::error("error_during_execution", reason, &error)
}

/// An assistant message that the client makes up for an API error.
fn error_message(report: &ApiErrorReport<'_>, about: &Map<String, Value>) -> Value {
    let mut line = json!({
        "type": "assistant",
        "message": synthetic_message_json(&client_ids::new_uuid(), &report.text),
        "parent_tool_use_id": null,
        "timestamp": clock::format_rfc3339(clock::now_ms()),
        "error": report.class,
        "is_api_error_message": true,
    });
    if let Value::Object(fields) = &mut line {
        fields.extend(about.clone());
    }
    line
}
