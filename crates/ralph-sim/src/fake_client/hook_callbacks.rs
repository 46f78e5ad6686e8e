//! Hooks that the driver registered, which are run by callback.

use super::process::{FakeClientProcess, ReceivedInput, TurnBreak};
use crate::client_ids;
use crate::client_rules::event_outcome::{DispatchedEvent, EventOutcome, HandlerAnswer};
use crate::client_rules::handler_answer::{FinishedHookProcess, HookIdentity, handler_answer};
use crate::client_rules::hook_input::HookInput;
use crate::hook_answer::{AddedContext, HookExit, HookVerdict};
use crate::matcher::{self, HookMatcher};
use ralph_sys::clock::{Deadline, Stopwatch};
use serde_json::{Value, json};
use std::time::Duration;

const DEFAULT_TIMEOUT: Duration = Duration::from_mins(10);
const SIMPLE_MODE_VARIABLE: &str = "CLAUDE_CODE_SIMPLE";
const MALFORMED_HOOKS: &str = "initialize: hooks must map hook events to arrays of matchers";
/// The client's name for a callback, in place of a hook command.
const CALLBACK_COMMAND: &str = "callback";

#[derive(Clone, Debug)]
pub(super) struct RegisteredCallback {
    event: String,
    matcher: HookMatcher,
    callback: String,
    timeout: Duration,
}

impl RegisteredCallback {
    pub(super) fn parse_all(hooks: &Value) -> Result<Vec<Self>, &'static str> {
        let events = match hooks {
            Value::Null => return Ok(Vec::new()),
            Value::Object(events) => events,
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                return Err(MALFORMED_HOOKS);
            }
        };
        let mut list = Vec::new();
        for (event, matchers) in events {
            for given in matchers.as_array().ok_or(MALFORMED_HOOKS)? {
                let ids = given["hookCallbackIds"].as_array().ok_or(MALFORMED_HOOKS)?;
                let seconds = given["timeout"].as_f64();
                let timeout = seconds.and_then(|some| Duration::try_from_secs_f64(some).ok());
                for id in ids {
                    list.push(Self {
                        event: event.clone(),
                        matcher: HookMatcher::parse(given["matcher"].as_str().unwrap_or_default()),
                        callback: id.as_str().ok_or(MALFORMED_HOOKS)?.to_owned(),
                        timeout: timeout.unwrap_or(DEFAULT_TIMEOUT),
                    });
                }
            }
        }
        Ok(list)
    }

    fn matches(&self, event: &str, subject: Option<&str>) -> bool {
        let is_matched = |subject: &str| {
            matcher::subject_names(event, subject).any(|name| self.matcher.matches(name))
        };
        self.event == event && subject.is_none_or(is_matched)
    }
}

/// A callback that has not been answered yet.
pub(super) struct OpenCallback {
    pub(super) request: String,
    callback: String,
    deadline: Deadline,
    watch: Stopwatch,
}

impl FakeClientProcess<'_> {
    /// Runs all callbacks of an event and waits for their answers. Runs none if the driver has closed its side.
    pub(super) fn run_callbacks(
        &mut self,
        event: &'static str,
        subject: Option<&str>,
        input: HookInput,
    ) -> Result<EventOutcome, TurnBreak> {
        let mut open = self.send_callbacks(event, subject, &input)?;
        let mut answers = Vec::new();
        while let Some(next) = open.iter().map(|one| one.deadline).reduce(Deadline::min) {
            match self.receive(Some(&next))? {
                ReceivedInput::Answer(id, answer) => {
                    let Some(place) = open.iter().position(|one| one.request == id) else {
                        continue;
                    };
                    let one = open.remove(place);
                    self.open_requests.retain(|asked| *asked != id);
                    answers.extend(self.interpret_callback(event, &one, answer)?);
                }
                ReceivedInput::TimedOut => {
                    let (late, rest): (Vec<_>, _) =
                        open.into_iter().partition(|one| one.deadline.has_passed());
                    open = rest;
                    for one in late {
                        self.abandon_callback(event, &one)?;
                    }
                }
                ReceivedInput::Interrupt => return Err(TurnBreak::Interrupted),
                ReceivedInput::Closed => {
                    self.open_requests.clear();
                    break;
                }
                ReceivedInput::Task(id, finished) => self.report_finished_task(&id, &finished)?,
                ReceivedInput::Handled | ReceivedInput::Tool(_) => {}
            }
        }
        let subject = subject.map(str::to_owned);
        Ok(EventOutcome::new(DispatchedEvent { event, subject, agent: None, input }, answers))
    }

    /// Writes the system messages of hooks.
    pub(super) fn write_system_messages(
        &mut self,
        outcome: &EventOutcome,
    ) -> Result<(), TurnBreak> {
        for content in outcome.system_messages() {
            self.write_informational(&content, "notice", None)?;
        }
        Ok(())
    }

    /// Sends the callbacks of an event without waiting for answers.
    pub(super) fn send_callbacks(
        &mut self,
        event: &str,
        subject: Option<&str>,
        input: &HookInput,
    ) -> Result<Vec<OpenCallback>, TurnBreak> {
        let mut open = Vec::new();
        if !self.is_input_open || self.skips_hooks() {
            return Ok(open);
        }
        let input = input.to_value();
        let meant = self.hooks.iter().filter(|hook| hook.matches(event, subject)).cloned();
        for hook in meant.collect::<Vec<_>>() {
            let request = client_ids::new_uuid();
            let tool = input["tool_use_id"].as_str().or(self.permission_call.as_deref());
            let tool = tool.map_or_else(client_ids::new_uuid, str::to_owned);
            self.write_line(&json!({
                "type": "control_request",
                "request_id": request,
                "request": {
                    "subtype": "hook_callback",
                    "callback_id": hook.callback,
                    "input": input,
                    "tool_use_id": tool,
                },
            }))?;
            self.open_requests.push(request.clone());
            open.push(OpenCallback {
                request,
                callback: hook.callback,
                deadline: Deadline::after(hook.timeout),
                watch: Stopwatch::start(),
            });
        }
        Ok(open)
    }

    /// Interprets an answer. An invalid one is reported to the driver and gives `None`.
    pub(super) fn interpret_callback(
        &mut self,
        event: &'static str,
        open: &OpenCallback,
        answer: Result<Value, String>,
    ) -> Result<Option<HandlerAnswer>, TurnBreak> {
        let is_error = answer.is_err();
        let identity = HookIdentity {
            command: CALLBACK_COMMAND.to_owned(),
            source: CALLBACK_COMMAND.to_owned(),
            plugin: None,
        };
        let ended = FinishedHookProcess {
            exit: HookExit::Code(0),
            stdout: answer.map(|value| value.to_string()).unwrap_or_default(),
            stderr: String::new(),
            ms: u64::try_from(open.watch.elapsed().as_millis()).unwrap_or(u64::MAX),
        };
        let mut answered = handler_answer(event, identity, ended);
        if is_error || matches!(answered.answer.verdict, HookVerdict::Invalid(_)) {
            let text = format!(
                "{event}: Hook callback {} failed: the SDK host replied with an error or an invalid answer. Its answer \
                 was treated as empty.",
                open.callback
            );
            self.write_informational(&text, "warning", Some("hook_callback_failed"))?;
            return Ok(None);
        }
        if let Some(AddedContext::Additional(text)) = &answered.answer.context {
            answered.delivered_context = Some(text.clone());
        }
        Ok(Some(answered))
    }

    /// Whether hooks are skipped, by `--bare` or its variable. The client still reports them as applied.
    fn skips_hooks(&self) -> bool {
        let is_set = |value: String| matches!(value.as_str(), "1" | "true");
        self.options.flags.is_bare || self.variable(SIMPLE_MODE_VARIABLE).is_some_and(is_set)
    }

    fn abandon_callback(&mut self, event: &str, open: &OpenCallback) -> Result<(), TurnBreak> {
        const KEY: &str = "no answer";
        self.open_requests.retain(|asked| *asked != open.request);
        self.write_line(&json!({"type": "control_cancel_request", "request_id": open.request}))?;
        if self.shown_notices.contains(&KEY) {
            return Ok(());
        }
        self.shown_notices.push(KEY);
        let text = format!(
            "{event} says: The app driving this session didn't respond, so this turn ended without it."
        );
        self.write_informational(&text, "notice", None)
    }

    pub(super) fn write_informational(
        &mut self,
        content: &str,
        level: &str,
        tag: Option<&str>,
    ) -> Result<(), TurnBreak> {
        let mut line = json!({
            "type": "system",
            "subtype": "informational",
            "content": content,
            "level": level,
        });
        if let Some(tag) = tag {
            line["tag"] = json!(tag);
        }
        self.write_message(line)
    }
}
