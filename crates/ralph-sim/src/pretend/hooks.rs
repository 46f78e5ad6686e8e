//! Hooks that the driver registered, which are run by callback.

use super::client::{Break, Client, Heard, Line};
use super::flags::Dress;
use crate::answer::{self, Exit, Output, Verdict};
use crate::id;
use crate::matcher::{self, Matcher};
use crate::query::hooks::Telling;
use crate::query::input::Input;
use crate::query::told::{Answered, Told};
use crate::timeline::Handled;
use ralph_sys::clock::{Deadline, Stopwatch};
use serde_json::{Value, json};
use std::time::Duration;

const USUAL: Duration = Duration::from_mins(10);
const SIMPLE: &str = "CLAUDE_CODE_SIMPLE";
const MALFORMED: &str = "initialize: hooks must map hook events to arrays of matchers";
/// The client's name for a callback, in place of a hook command.
const COMMAND: &str = "callback";

#[derive(Clone, Debug)]
pub(super) struct Registered {
    event: String,
    matcher: Matcher,
    callback: String,
    timeout: Duration,
}

impl Registered {
    pub(super) fn read(hooks: &Value) -> Result<Vec<Self>, &'static str> {
        let events = match hooks {
            Value::Null => return Ok(Vec::new()),
            Value::Object(events) => events,
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                return Err(MALFORMED);
            }
        };
        let mut list = Vec::new();
        for (event, matchers) in events {
            for given in matchers.as_array().ok_or(MALFORMED)? {
                let ids = given["hookCallbackIds"].as_array().ok_or(MALFORMED)?;
                let seconds = given["timeout"].as_f64();
                let timeout = seconds.and_then(|some| Duration::try_from_secs_f64(some).ok());
                for id in ids {
                    list.push(Self {
                        event: event.clone(),
                        matcher: Matcher::read(given["matcher"].as_str().unwrap_or_default()),
                        callback: id.as_str().ok_or(MALFORMED)?.to_owned(),
                        timeout: timeout.unwrap_or(USUAL),
                    });
                }
            }
        }
        Ok(list)
    }

    fn is_for(&self, event: &str, subject: Option<&str>) -> bool {
        let is_matched = |subject: &str| {
            matcher::names_of(event, subject).any(|name| self.matcher.matches(name))
        };
        self.event == event && subject.is_none_or(is_matched)
    }
}

/// A callback that has not been answered yet.
pub(super) struct Open {
    pub(super) request: String,
    callback: String,
    deadline: Deadline,
    watch: Stopwatch,
}

impl Client<'_> {
    /// Runs all callbacks of an event and waits for their answers. Runs none if the driver has closed its side.
    pub(super) fn ask(
        &mut self,
        event: &'static str,
        subject: Option<&str>,
        input: Input,
    ) -> Result<Told, Break> {
        let mut open = self.send(event, subject, &input)?;
        let mut answers = Vec::new();
        while let Some(next) = open.iter().map(|one| one.deadline).reduce(Deadline::min) {
            match self.hear(Some(&next))? {
                Heard::Answer(id, answer) => {
                    let Some(place) = open.iter().position(|one| one.request == id) else {
                        continue;
                    };
                    let one = open.remove(place);
                    self.asked.retain(|asked| *asked != id);
                    answers.extend(self.understand(event, &one, answer)?);
                }
                Heard::Late => {
                    let (late, rest): (Vec<_>, _) =
                        open.into_iter().partition(|one| one.deadline.is_over());
                    open = rest;
                    for one in late {
                        self.give_up(event, &one)?;
                    }
                }
                Heard::Interrupt => return Err(Break::Interrupted),
                Heard::Closed => {
                    self.asked.clear();
                    break;
                }
                Heard::Task(id, finished) => self.note_task(&id, &finished)?,
                Heard::Nothing | Heard::Tool(_) => {}
            }
        }
        let subject = subject.map(str::to_owned);
        Ok(Told::new(Telling { event, subject, agent: None, input }, answers))
    }

    /// Writes the system messages of hooks.
    pub(super) fn pass_on(&mut self, told: &Told) -> Result<(), Break> {
        for content in told.messages() {
            self.inform(&content, "notice", None)?;
        }
        Ok(())
    }

    /// Sends the callbacks of an event without waiting for answers.
    pub(super) fn send(
        &mut self,
        event: &str,
        subject: Option<&str>,
        input: &Input,
    ) -> Result<Vec<Open>, Break> {
        let mut open = Vec::new();
        if self.input == Line::Closed || self.is_bare() {
            return Ok(open);
        }
        let input = input.value();
        let meant = self.hooks.iter().filter(|hook| hook.is_for(event, subject)).cloned();
        for hook in meant.collect::<Vec<_>>() {
            let request = id::uuid();
            let tool = input["tool_use_id"].as_str().or(self.call.as_deref());
            let tool = tool.map_or_else(id::uuid, str::to_owned);
            self.write(&json!({
                "type": "control_request",
                "request_id": request,
                "request": {
                    "subtype": "hook_callback",
                    "callback_id": hook.callback,
                    "input": input,
                    "tool_use_id": tool,
                },
            }))?;
            self.asked.push(request.clone());
            open.push(Open {
                request,
                callback: hook.callback,
                deadline: Deadline::after(hook.timeout),
                watch: Stopwatch::start(),
            });
        }
        Ok(open)
    }

    /// Interprets an answer. An invalid one is reported to the driver and gives `None`.
    pub(super) fn understand(
        &mut self,
        event: &'static str,
        open: &Open,
        answer: Result<Value, String>,
    ) -> Result<Option<Answered>, Break> {
        let stdout = answer.ok().map(|value| value.to_string());
        let said = stdout.as_deref().unwrap_or_default();
        let answer =
            answer::read(&Output { event, exit: &Exit::Code(0), stdout: said, stderr: "" });
        if stdout.is_none() || matches!(answer.verdict, Verdict::Void(_)) {
            let text = format!(
                "{event}: Hook callback {} failed: the SDK host replied with an error or an invalid answer. Its answer \
                 was treated as empty.",
                open.callback
            );
            self.inform(&text, "warning", Some("hook_callback_failed"))?;
            return Ok(None);
        }
        let added = match &answer.context {
            Some(answer::Context::Additional(text)) => Some(text.clone()),
            Some(answer::Context::Stdout(_)) | None => None,
        };
        let ms = u64::try_from(open.watch.elapsed().as_millis()).unwrap_or(u64::MAX);
        Ok(Some(Answered {
            command: COMMAND.to_owned(),
            plugin: None,
            added,
            handled: Handled {
                command: COMMAND.to_owned(),
                source: COMMAND.to_owned(),
                ended: "exit 0".to_owned(),
                stdout: said.to_owned(),
                stderr: String::new(),
                outcome: answer.label.name().to_owned(),
                remark: None,
                ms,
            },
            answer,
        }))
    }

    /// Whether hooks are skipped, by `--bare` or its variable. The client still reports them as applied.
    fn is_bare(&self) -> bool {
        let is_set = |value: String| matches!(value.as_str(), "1" | "true");
        self.options.flags.dress == Dress::Bare || self.variable(SIMPLE).is_some_and(is_set)
    }

    fn give_up(&mut self, event: &str, open: &Open) -> Result<(), Break> {
        const KEY: &str = "no answer";
        self.asked.retain(|asked| *asked != open.request);
        self.write(&json!({"type": "control_cancel_request", "request_id": open.request}))?;
        if self.said.contains(&KEY) {
            return Ok(());
        }
        self.said.push(KEY);
        let text = format!(
            "{event} says: The app driving this session didn't respond, so this turn ended without it."
        );
        self.inform(&text, "notice", None)
    }

    pub(super) fn inform(
        &mut self,
        content: &str,
        level: &str,
        tag: Option<&str>,
    ) -> Result<(), Break> {
        let mut line = json!({
            "type": "system",
            "subtype": "informational",
            "content": content,
            "level": level,
        });
        if let Some(tag) = tag {
            line["tag"] = json!(tag);
        }
        self.tell(line)
    }
}
