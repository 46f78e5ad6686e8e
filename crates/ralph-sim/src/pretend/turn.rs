//! Runs one turn, from the driver's prompt to the result line.

use super::Exit;
use super::client::{Break, Client, Fields, Heard, Prompt};
use super::report::NONE;
use crate::query::conversation::{api_error_text, error_class};
use crate::scenario::{AgentTurn, ApiError, Hang, Interrupt, Mishap, Point, RateLimit, Usage};
use crate::transcript::{Answer, Block, Failure, Origin, VERSION};
use crate::{id, wire};
use ralph_sys::clock::{self, Deadline};
use serde_json::{Map, Value, json};
use std::time::Duration;

const NETWORK: &str = "API Error: Connection dropped (ECONNRESET). Check the gateway set in ANTHROPIC_BASE_URL, then try \
    again.";
const LIMIT: &str = "This request would exceed your account's rate limit. Please try again later.";
const SILENT: &str = "[Your previous response had no visible output. Please continue and produce a user-visible response.]";

/// The state of a running turn.
#[derive(Debug)]
pub(super) struct Turn {
    /// `num_turns` of the result, by the client's rules.
    pub(super) num_turns: u32,
    /// Number of requests to the model.
    pub(super) rounds: u32,
    pub(super) stops: Stops,
    pub(super) last_text: String,
    pub(super) stop_reason: Option<String>,
    pub(super) usage: Usage,
    pub(super) denials: Vec<Value>,
    /// The scripted failure of the last answer.
    pub(super) mishap: Mishap,
    /// The run id of the background task that the turn reports.
    pub(super) run: Option<String>,
    /// The driver's ids of the messages that the turn answers.
    pub(super) messages: Vec<String>,
    is_nudged: bool,
}

#[derive(Debug, Default)]
pub(super) struct Stops {
    /// `stop_hook_active`
    pub(super) is_active: bool,
    /// Consecutive blocks, without a tool call between them.
    pub(super) blocks: u32,
}

/// How a turn ended.
#[derive(Debug)]
pub(super) struct Over {
    pub(super) subtype: &'static str,
    pub(super) reason: &'static str,
    pub(super) is_error: bool,
    /// Overrides the counted value.
    pub(super) num_turns: Option<u32>,
    /// Additional fields of the result line.
    pub(super) fields: Map<String, Value>,
}

impl Over {
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

impl Client<'_> {
    /// Runs a turn. Returns the exit code if the process exited now, and the scripted failure of the last answer.
    pub(super) fn turn(&mut self, prompt: &Prompt) -> Result<(u8, Mishap), Break> {
        self.metered.start_turn();
        self.tell_lifecycle(prompt, "started")?;
        let mut turn = Turn {
            num_turns: 1,
            rounds: 0,
            stops: Stops::default(),
            last_text: String::new(),
            stop_reason: None,
            usage: NONE,
            denials: Vec::new(),
            mishap: Mishap::None,
            run: prompt.task.clone(),
            messages: prompt.id.iter().cloned().collect(),
            is_nudged: false,
        };
        let over = match self.play(prompt, &mut turn) {
            Ok(over) => over,
            Err(Break::Interrupted) => self.interrupted(&mut turn)?,
            Err(reason) => return Err(reason),
        };
        crash(turn.mishap, Point::Result)?;
        self.report(&turn, &over)?;
        self.tell_lifecycle(prompt, "completed")?;
        Ok((u8::from(over.is_error), turn.mishap))
    }

    fn play(&mut self, prompt: &Prompt, turn: &mut Turn) -> Result<Over, Break> {
        let transcript = self.transcript()?;
        transcript.queue(&prompt.text)?;
        self.prompt_id = Some(transcript.begin());
        if let Some(refusal) = self.submit(prompt)? {
            self.introduce()?;
            return Ok(Over::success("completed", &refusal));
        }
        self.introduce()?;
        if let Some(over) = self.out_of_budget()? {
            return Ok(over);
        }
        loop {
            let (number, answer) = self.turns.next(None)?;
            turn.rounds += 1;
            turn.mishap = answer.mishap;
            self.await_answer(&answer)?;
            if let Some(limit) = &answer.rate_limit {
                self.tell_limit(limit)?;
            }
            let rejected = answer.rate_limit.as_ref().filter(|limit| limit.status == "rejected");
            let error = answer.error.clone().or_else(|| rejected.map(|_| too_many()));
            if let Some(error) = error {
                return self.failed(turn, &error, number);
            }
            let before = turn.usage;
            self.answer(turn, &answer, number)?;
            let over = if !answer.tools.is_empty() {
                turn.stops.blocks = 0;
                match self.run_tools(turn, &answer, number)? {
                    Some(over) => Some(over),
                    None => self.out_of_budget()?,
                }
            } else if let Some(over) = self.out_of_budget()? {
                // The answer that exceeded the budget counts for the session but not for the turn.
                turn.usage = before;
                Some(over)
            } else if answer.text.is_empty() && !std::mem::replace(&mut turn.is_nudged, true) {
                self.remind(turn, SILENT)?;
                None
            } else {
                self.stop(turn)?
            };
            if let Some(over) = over.or_else(|| self.out_of_turns(turn)) {
                return Ok(over);
            }
            if !answer.tools.is_empty() {
                self.overhear(turn)?;
            }
        }
    }

    /// Fires `UserPromptSubmit`. Returns the message for the driver if a hook blocks the prompt.
    fn submit(&mut self, prompt: &Prompt) -> Result<Option<String>, Break> {
        let event = "UserPromptSubmit";
        let input = self.input_of(event, Fields::Mode).with("prompt", prompt.text.clone());
        let told = self.ask(event, None, input)?;
        self.pass_on(&told)?;
        let refusal = told.refused_prompt(&prompt.text);
        if refusal.is_none() {
            let origin = if prompt.task.is_some() { Origin::Task } else { Origin::Person };
            self.transcript()?.prompt(&prompt.text, origin)?;
            self.add_contexts(&told)?;
        }
        Ok(refusal)
    }

    /// Adds messages that arrived while a tool ran to this turn.
    fn overhear(&mut self, turn: &mut Turn) -> Result<(), Break> {
        use super::client::Priority;
        while self.queue.front().is_some_and(|prompt| prompt.priority == Priority::Next) {
            let Some(prompt) = self.queue.pop_front() else { break };
            self.tell_lifecycle(&prompt, "started")?;
            self.submit(&prompt)?;
            self.tell_lifecycle(&prompt, "completed")?;
            turn.messages.extend(prompt.id);
        }
        Ok(())
    }

    fn introduce(&mut self) -> Result<(), Break> {
        let tools = ["Task", "Bash", "Edit", "Read", "Write"];
        let cwd = self.options.project.to_string_lossy().into_owned();
        self.tell(json!({
            "type": "system",
            "subtype": "init",
            "cwd": cwd,
            "tools": tools,
            "mcp_servers": [],
            "model": self.model,
            "permissionMode": self.mode(),
            "slash_commands": ["clear", "compact"],
            "apiKeySource": "ANTHROPIC_API_KEY",
            "claude_code_version": VERSION,
            "output_style": "default",
            "agents": ["general-purpose"],
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
    fn await_answer(&mut self, answer: &AgentTurn) -> Result<(), Break> {
        crash(answer.mishap, Point::Answer)?;
        let deadline = match answer.mishap {
            Mishap::Hang(Hang::Client) => return Err(Break::Ends(Exit::Never)),
            Mishap::Hang(Hang::Answer) => None,
            Mishap::None | Mishap::Crash { .. } => {
                Some(Deadline::after(Duration::from_millis(answer.delay_ms)))
            }
        };
        if answer.interrupt == Interrupt::Answer {
            return Err(Break::Interrupted);
        }
        while deadline.is_none_or(|deadline| !deadline.is_over()) {
            match self.hear(deadline.as_ref())? {
                Heard::Interrupt => return Err(Break::Interrupted),
                Heard::Task(id, finished) => self.note_task(&id, &finished)?,
                // Without a driver, nothing could end the wait.
                Heard::Closed if deadline.is_none() => return Err(Break::Interrupted),
                Heard::Nothing
                | Heard::Answer(..)
                | Heard::Tool(_)
                | Heard::Closed
                | Heard::Late => {}
            }
        }
        Ok(())
    }

    /// Writes an answer: one line for each block.
    fn answer(&mut self, turn: &mut Turn, answer: &AgentTurn, number: u64) -> Result<(), Break> {
        let Usage { input, output, cache_read, cache_creation } = answer.usage;
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
        turn.stop_reason = Some(wire::stop_reason(answer).to_owned());
        let content = wire::content(answer, number, &self.options.project);
        self.write_down(answer, &content, number)?;
        for block in content {
            let mut line = json!({
                "type": "assistant",
                "message": {
                    "id": wire::message_id(number),
                    "type": "message",
                    "role": "assistant",
                    "model": self.model,
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
                "timestamp": clock::rfc3339(clock::now_ms()),
                "request_id": wire::request_id(number),
            });
            name_messages(&mut line, &turn.messages);
            self.tell(line)?;
        }
        Ok(())
    }

    fn write_down(
        &mut self,
        answer: &AgentTurn,
        content: &[Value],
        number: u64,
    ) -> Result<(), Break> {
        let blocks = content.iter().map(|block| match block["text"].as_str() {
            Some(text) => Block::Text { text },
            None => Block::ToolUse {
                id: block["id"].as_str().unwrap_or_default(),
                name: block["name"].as_str().unwrap_or_default(),
                input: &block["input"],
            },
        });
        let blocks: Vec<Block<'_>> = blocks.collect();
        let model = self.model.clone();
        Ok(self.transcript()?.answer(&Answer {
            id: &wire::message_id(number),
            request: &wire::request_id(number),
            model: &model,
            blocks: &blocks,
            stop_reason: wire::stop_reason(answer),
            usage: answer.usage,
        })?)
    }

    fn tell_limit(&mut self, limit: &RateLimit) -> Result<(), Break> {
        let mut info = json!({"status": limit.status, "rateLimitType": limit.kind});
        if let Some(wait) = limit.resets_in_ms {
            // In whole seconds, rounded up so that the reset is never reported too early.
            let at = clock::now_ms().saturating_add(wait).div_ceil(1000);
            info["resetsAt"] = json!(at);
        }
        if let Some(percent) = limit.used_percent {
            info["utilization"] = json!(f64::from(percent) / 100.0);
        }
        self.tell(json!({"type": "rate_limit_event", "rate_limit_info": info}))
    }

    /// Ends the turn with an API error that retries did not resolve.
    fn failed(&mut self, turn: &mut Turn, error: &ApiError, number: u64) -> Result<Over, Break> {
        let is_unreached = error.status == 0;
        let text = if is_unreached { NETWORK.to_owned() } else { api_error_text(error) };
        let class = if is_unreached { "server_error" } else { error_class(error) };
        turn.stop_reason = Some("stop_sequence".to_owned());
        let mut about = Map::new();
        if is_unreached {
            about.insert("api_error".to_owned(), json!("connection_failed"));
        } else {
            about.insert("api_error_status".to_owned(), json!(error.status));
            about.insert("api_error_type".to_owned(), json!(error.kind));
        }
        self.transcript()?.api_error(&Failure {
            status: (!is_unreached).then_some(error.status),
            kind: (!is_unreached).then_some(&*error.kind),
            error: class,
            request: &wire::request_id(number),
            text: &text,
        })?;
        self.tell(synthetic(&text, class, &about))?;
        let input = self
            .input_of("StopFailure", Fields::Effort)
            .with("error", class)
            .with("last_assistant_message", text.clone());
        // The client does not wait for the answer.
        self.send("StopFailure", Some(class), &input)?;
        self.asked.clear();
        let mut over = Over::success("api_error", &text);
        over.fields.extend(about);
        Ok(Over { is_error: true, ..over })
    }

    /// Ends a turn that was interrupted while the answer was streaming.
    fn interrupted(&mut self, turn: &mut Turn) -> Result<Over, Break> {
        turn.num_turns += 1;
        turn.stop_reason = None;
        self.say_interrupted("[Request interrupted by user]")?;
        Ok(aborted("aborted_streaming", "null"))
    }

    pub(super) fn say_interrupted(&mut self, text: &str) -> Result<(), Break> {
        self.transcript()?.interruption(text)?;
        self.tell_user(&json!([{"type": "text", "text": text}]), Map::new())
    }

    /// Writes a user message that no person sent, to the transcript and to the driver.
    pub(super) fn remind(&mut self, turn: &mut Turn, text: &str) -> Result<(), Break> {
        turn.num_turns += 1;
        self.transcript()?.feedback(text)?;
        let mut more = Map::new();
        more.insert("isSynthetic".to_owned(), json!(true));
        self.tell_user(&json!([{"type": "text", "text": text}]), more)
    }

    pub(super) fn tell_user(
        &mut self,
        content: &Value,
        more: Map<String, Value>,
    ) -> Result<(), Break> {
        let mut line = json!({
            "type": "user",
            "message": {"role": "user", "content": content},
            "parent_tool_use_id": null,
            "timestamp": clock::rfc3339(clock::now_ms()),
        });
        if let Value::Object(fields) = &mut line {
            fields.extend(more);
        }
        self.tell(line)
    }

    fn out_of_budget(&mut self) -> Result<Option<Over>, Break> {
        let Some(most) = self.options.flags.max_budget_usd else { return Ok(None) };
        if self.spent()? < most {
            return Ok(None);
        }
        let error = format!("Reached maximum budget (${most})");
        Ok(Some(Over::error("error_max_budget_usd", "budget_exhausted", &error)))
    }

    fn out_of_turns(&self, turn: &Turn) -> Option<Over> {
        let most = self.options.flags.max_turns.or(self.scenario.client.max_turns)?;
        (turn.rounds >= most).then(|| {
            let error = format!("Reached maximum number of turns ({most})");
            let over = Over::error("error_max_turns", "max_turns", &error);
            Over { num_turns: Some(turn.rounds + 1), ..over }
        })
    }
}

/// Ends the process if the scenario has a crash at this point.
pub(super) fn crash(mishap: Mishap, here: Point) -> Result<(), Break> {
    match mishap {
        Mishap::Crash { at, exit } if at == here => Err(Break::Ends(match exit {
            Some(code) => Exit::Code { code, said: None },
            None => Exit::Killed,
        })),
        Mishap::None | Mishap::Crash { .. } | Mishap::Hang(_) => Ok(()),
    }
}

/// Adds the ids of the messages that a line answers, if the driver gave any.
pub(super) fn name_messages(line: &mut Value, messages: &[String]) {
    if let Some(last) = messages.last() {
        line["user_message_uuid"] = json!(last);
        line["user_message_uuids"] = json!(messages);
    }
}

pub(super) fn aborted(reason: &'static str, stop_reason: &str) -> Over {
    let error = format!(
        "[ede_diagnostic] result_type=user last_content_type=n/a stop_reason={stop_reason}"
    );
    Over::error("error_during_execution", reason, &error)
}

fn too_many() -> ApiError {
    ApiError { status: 429, kind: "rate_limit_error".to_owned(), message: LIMIT.to_owned() }
}

/// An assistant message that the client makes up.
fn synthetic(text: &str, class: &str, about: &Map<String, Value>) -> Value {
    let mut line = json!({
        "type": "assistant",
        "message": {
            "id": id::uuid(),
            "type": "message",
            "role": "assistant",
            "model": "<synthetic>",
            "content": [{"type": "text", "text": text}],
            "stop_reason": "stop_sequence",
            "stop_sequence": "",
            "usage": {
                "input_tokens": 0,
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": 0,
                "output_tokens": 0,
                "output_tokens_details": null,
                "server_tool_use": {"web_search_requests": 0, "web_fetch_requests": 0},
                "service_tier": null,
                "cache_creation": {"ephemeral_1h_input_tokens": 0, "ephemeral_5m_input_tokens": 0},
                "inference_geo": null,
                "iterations": null,
                "speed": null,
                "fallback_credit": null,
            },
        },
        "parent_tool_use_id": null,
        "timestamp": clock::rfc3339(clock::now_ms()),
        "error": class,
        "is_api_error_message": true,
    });
    if let Value::Object(fields) = &mut line {
        fields.extend(about.clone());
    }
    line
}
