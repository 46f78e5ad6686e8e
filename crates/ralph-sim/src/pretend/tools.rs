//! Runs the tool calls of one answer, with hooks and permissions. The tools really run.

use super::client::{Break, Client, Fields, Heard};
use super::flags::Asks;
use super::inbox::Event;
use super::turn::{Over, Turn, aborted, crash};
use super::{PretendError, permission};
use crate::query::hooks::variables;
use crate::query::input::Input;
use crate::query::tools::shell::{self, Order};
use crate::query::tools::{Call, Done, REJECTED, STOPPED_RUNNING, files, schema};
use crate::scenario::{AgentTurn, Interrupt, Point};
use crate::transcript::{Outcome, ToolResult};
use crate::wire;
use permission::{Denier, Granted};
use ralph_sys::clock::{Deadline, Stopwatch};
use ralph_sys::fs;
use ralph_sys::proc::cancel::Cancel;
use ralph_sys::proc::job::How;
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

const FOR_TOOL: &str = "[Request interrupted by user for tool use]";

/// A completed call: its outcome and its permission.
struct Made {
    call: Call,
    done: Done,
    granted: Granted,
    took: Duration,
}

impl Client<'_> {
    /// Runs all calls. Returns `None` if the model gets another request.
    pub(super) fn run_tools(
        &mut self,
        turn: &mut Turn,
        answer: &AgentTurn,
        number: u64,
    ) -> Result<Option<Over>, Break> {
        let calls = answer.tools.iter().enumerate().map(|(place, call)| {
            let (name, input) = wire::tool_use(call, &self.options.project);
            let name = if name == "Task" { "Agent".to_owned() } else { name };
            Call { name, input, id: wire::tool_use_id(number, place) }
        });
        let calls: Vec<Call> = calls.collect();
        let mut is_stopped = false;
        for (place, call) in calls.iter().enumerate() {
            let rest = calls.get(place + 1..).unwrap_or_default();
            if answer.interrupt == Interrupt::Tools {
                return self.abort(turn, call, rest).map(Some);
            }
            let made = match self.make(turn, call) {
                Err(Break::Interrupted) => return self.abort(turn, call, rest).map(Some),
                made => made?,
            };
            if rest.is_empty() {
                crash(turn.mishap, Point::Tools)?;
            }
            is_stopped |= self.after(&made)?;
            self.tell_result(turn, &made)?;
        }
        Ok(is_stopped.then(|| Over::success("hook_stopped", "")))
    }

    /// Runs one call, if hooks and permissions allow it.
    fn make(&mut self, turn: &mut Turn, call: &Call) -> Result<Made, Break> {
        let made = |call: &Call, done: Done, granted: Granted| Made {
            call: call.clone(),
            done,
            granted,
            took: Duration::ZERO,
        };
        let refusal = self.absent(call).or_else(|| schema::mistake(call));
        if let Some(text) = refusal.or_else(|| files::refusal(&self.cwd, call)) {
            return Ok(made(call, Done::Refused { text }, Granted::Unasked));
        }
        let event = "PreToolUse";
        let input = self.tool_input(event, call).with("tool_use_id", call.id.clone());
        let told = self.ask(event, Some(&call.name), input)?;
        self.pass_on(&told)?;
        if let Some(text) = told.denial(&format!("{event}:{}", call.name)) {
            turn.denials.push(denial(call));
            return Ok(made(call, Done::Denied { text }, Granted::Unasked));
        }
        let input = told.updated_input().unwrap_or_else(|| call.input.clone());
        let mut call = Call { input, ..call.clone() };
        let granted = self.permit(&call, &told)?;
        match &granted {
            Granted::Not { text, .. } => {
                turn.denials.push(denial(&call));
                let text = text.clone();
                return Ok(made(&call, Done::Denied { text }, granted));
            }
            Granted::Interrupted => return Err(Break::Interrupted),
            Granted::ByDriver(Some(input)) => call.input = input.clone(),
            Granted::ByDriver(None) | Granted::ByMode | Granted::Unasked => {}
        }
        let watch = Stopwatch::start();
        let done = self.execute(&call)?;
        Ok(Made { took: watch.elapsed(), ..made(&call, done, granted) })
    }

    /// The error for a tool that needs a permission prompt, if there is none.
    fn absent(&self, call: &Call) -> Option<String> {
        let name = &call.name;
        let is_asking = matches!(name.as_str(), "AskUserQuestion" | "ExitPlanMode");
        (is_asking && self.options.flags.asks == Asks::Nobody).then(|| {
            format!(
                "<tool_use_error>Error: No such tool available: {name}. {name} is disabled for this session.\
                 </tool_use_error>"
            )
        })
    }

    fn execute(&mut self, call: &Call) -> Result<Done, Break> {
        let is_background =
            call.input.get("run_in_background").and_then(Value::as_bool).unwrap_or_default();
        Ok(match call.name.as_str() {
            "Bash" if is_background => self.start_task(call)?,
            "Bash" => self.shell(call)?,
            "Write" => files::write(&self.cwd, &mut self.seen, call),
            "Edit" => files::edit(&self.cwd, &self.seen, call),
            "Read" => files::read(&self.cwd, &mut self.seen, call),
            "AskUserQuestion" => permission::answered(&call.input),
            name => Done::Ran { response: json!({}), text: format!("(`{name}` is not simulated)") },
        })
    }

    pub(super) fn order(&self, call: &Call) -> Result<Order, Break> {
        let place = self.cwd_file();
        place.parent().map_or(Ok(()), fs::create_dir)?;
        let mut env = self.options.env.clone();
        let settings = self.settings().env;
        env.extend(settings.into_iter().map(|(name, value)| (name.into(), value.into())));
        env.extend(variables(&self.options.project, &self.session, self.options.pid));
        Ok(Order {
            program: self.options.program.clone(),
            argv: shell::argv(call, &place, &place.with_extension("env")),
            env,
            cwd: self.cwd.clone(),
            place,
        })
    }

    fn cwd_file(&self) -> PathBuf {
        self.scratch().join(format!("cwd-{}", self.options.pid))
    }

    /// Runs a command and handles the driver's input meanwhile.
    fn shell(&mut self, call: &Call) -> Result<Done, Break> {
        let order = self.order(call)?;
        let cancel = Cancel::new().map(Arc::new);
        let cancel = cancel.map_err(|error| Break::Trouble(PretendError::Cancel(error)))?;
        let (bell, theirs) = (self.inbox.bell(), Arc::clone(&cancel));
        let (place, limit) = (order.place.clone(), shell::limit(call));
        std::thread::spawn(move || {
            let finished = shell::supervise(&order, Deadline::after(limit), &theirs);
            bell.ring(Event::Tool(Box::new(finished)));
        });
        let mut ends = None;
        let finished = loop {
            match self.hear(None) {
                Ok(Heard::Tool(finished)) => break finished,
                Ok(Heard::Interrupt) => {
                    ends.get_or_insert(Break::Interrupted);
                    cancel.wish();
                }
                Ok(Heard::Task(id, finished)) => self.note_task(&id, &finished)?,
                Ok(Heard::Nothing | Heard::Answer(..) | Heard::Closed | Heard::Late) => {}
                Err(reason) => {
                    ends = Some(reason);
                    cancel.wish();
                }
            }
        };
        let note = shell::follow(&mut self.cwd, &self.options.project, &place);
        match ends {
            Some(reason) => Err(reason),
            None if matches!(finished.how, How::Lost) => {
                Ok(Done::Failed { text: "Exit code 137".to_owned() })
            }
            None => Ok(shell::understand(&finished, note, call)),
        }
    }

    fn tool_input(&self, event: &str, call: &Call) -> Input {
        self.input_of(event, Fields::Turn)
            .with("tool_name", call.name.clone())
            .with("tool_input", self.shown(call))
    }

    /// The input as hooks receive it: with absolute paths and defaults.
    fn shown(&self, call: &Call) -> Value {
        let mut input = call.input.clone();
        if let Some(path) = input.get("file_path").and_then(Value::as_str) {
            let absolute = self.cwd.join(path).to_string_lossy().into_owned();
            input["file_path"] = json!(absolute);
        }
        if call.name == "Edit" && input.get("replace_all").is_none() {
            input["replace_all"] = json!(false);
        }
        input
    }

    /// Fires the event after a call. Returns whether a hook ended the turn.
    fn after(&mut self, made: &Made) -> Result<bool, Break> {
        let Made { call, done, took, .. } = made;
        let (event, input) = match done {
            Done::Ran { response, .. } => {
                let input = self.tool_input("PostToolUse", call);
                ("PostToolUse", input.with("tool_response", response.clone()))
            }
            Done::Failed { text } => {
                let input = self.tool_input("PostToolUseFailure", call);
                let input = input.with("error", text.clone()).with("is_interrupt", false);
                ("PostToolUseFailure", input)
            }
            Done::Refused { .. } | Done::Denied { .. } | Done::Interrupted { .. } => {
                return Ok(false);
            }
        };
        let ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let input = input.with("tool_use_id", call.id.clone()).with("duration_ms", ms);
        let told = self.ask(event, Some(&call.name), input)?;
        self.pass_on(&told)?;
        self.add_contexts(&told)?;
        Ok(told.stop().is_some() && event == "PostToolUse")
    }

    fn tell_result(&mut self, turn: &mut Turn, made: &Made) -> Result<(), Break> {
        let Made { call, done, granted, .. } = made;
        turn.num_turns += 1;
        let text = done.text();
        let (outcome, result) = match done {
            Done::Ran { response, .. } => (Outcome::Done(response), response.clone()),
            Done::Failed { .. } => (Outcome::Failed, json!(format!("Error: {text}"))),
            Done::Refused { .. } => (Outcome::Wrong, json!(format!("Error: {}", bare(text)))),
            Done::Denied { .. } => (Outcome::Denied, json!(format!("Error: {text}"))),
            Done::Interrupted { .. } => (Outcome::Interrupted, json!("User rejected tool use")),
        };
        let cwd = self.cwd.clone();
        let transcript = self.transcript()?;
        transcript.tool_result(&ToolResult { id: &call.id, name: &call.name, text, outcome })?;
        transcript.set_cwd(&cwd);
        let is_error = !matches!(done, Done::Ran { .. });
        let mut block = json!({"type": "tool_result", "tool_use_id": call.id, "content": text});
        if is_error || call.name == "Bash" {
            block["is_error"] = json!(is_error);
        }
        let mut more = Map::new();
        more.insert("tool_use_result".to_owned(), result);
        more.insert("tool_result_meta".to_owned(), json!([meta(call, done, granted)]));
        self.tell_user(&json!([block]), more)
    }

    /// Ends an interrupted turn: `call` was running, and `rest` had not started.
    fn abort(&mut self, turn: &mut Turn, call: &Call, rest: &[Call]) -> Result<Over, Break> {
        let texts = std::iter::once(format!("{REJECTED}{STOPPED_RUNNING}"))
            .chain(std::iter::repeat(REJECTED.to_owned()));
        for (call, text) in std::iter::once(call).chain(rest).zip(texts) {
            let done = Done::Interrupted { text };
            let (call, granted) = (call.clone(), Granted::Unasked);
            let made = Made { call, done, granted, took: Duration::ZERO };
            self.tell_result(turn, &made)?;
        }
        turn.num_turns += 1;
        self.say_interrupted(FOR_TOOL)?;
        Ok(aborted("aborted_tools", "tool_use"))
    }
}

/// An entry of `permission_denials` in the result.
fn denial(call: &Call) -> Value {
    json!({"tool_name": call.name, "tool_use_id": call.id, "tool_input": call.input})
}

/// The metadata of a tool result: why the call ran or did not.
fn meta(call: &Call, done: &Done, granted: &Granted) -> Value {
    let mut meta = json!({"id": call.id});
    match (done, granted) {
        (Done::Interrupted { .. }, _) => meta["non_execution_kind"] = json!("user-rejected"),
        (Done::Denied { .. }, Granted::Not { by, .. }) => {
            let (kind, decision) = match by {
                Denier::Nobody => ("user-rejected", json!({"source": "config"})),
                Denier::Mode => {
                    ("permission-rule", json!({"source": "config", "reason_type": "mode"}))
                }
                Denier::Driver => ("permission-rule", json!({"source": "user_reject"})),
                Denier::Hook => ("permission-rule", json!({"source": "hook"})),
            };
            meta["non_execution_kind"] = json!(kind);
            meta["permission_decision"] = decision;
            meta["permission_decision"]["decision"] = json!("reject");
        }
        (Done::Denied { .. }, _) => {
            meta["non_execution_kind"] = json!("permission-rule");
            meta["permission_decision"] =
                json!({"decision": "reject", "source": "hook", "reason_type": "hook"});
        }
        (Done::Refused { .. }, _) => {}
        (_, Granted::ByDriver(_)) => {
            meta["permission_decision"] = json!({"decision": "accept", "source": "user_temporary"});
        }
        (_, _) => {
            meta["permission_decision"] =
                json!({"decision": "accept", "source": "config", "reason_type": "mode"});
        }
    }
    meta
}

/// Removes the mark that some errors carry for the model.
fn bare(text: &str) -> &str {
    let inner = text.strip_prefix("<tool_use_error>");
    inner.and_then(|text| text.strip_suffix("</tool_use_error>")).unwrap_or(text)
}
