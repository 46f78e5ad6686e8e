//! Runs the tool calls of one answer, with the hooks before and after them.

pub(crate) mod files;
mod patch;
pub(crate) mod schema;
pub(crate) mod shell;
mod tasks;

use super::agents;
use super::background;
use super::book;
use super::conversation::{Conversation, Over};
use super::hooks::{Telling, tell};
use super::host::{Host, Shared};
use super::input::Input;
use super::teammates;
use super::told::Told;
use crate::answer::Choice;
use crate::scenario::{AgentTurn, Interrupt};
use crate::timeline::{Effect, Entry, Tool};
use crate::wire;
use ralph_sys::clock::Stopwatch;
use serde_json::{Value, json};

pub(super) use tasks::Tasks;

pub(crate) const REJECTED: &str = "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file \
    edit, the new_string was NOT written to the file). STOP what you are doing and wait for the user to tell you how to \
    proceed.";
pub(crate) const STOPPED_RUNNING: &str = " Correction to the text above: this call was stopped while running, not refused before it \
    ran. It may have run in part or in full, and its changes may have been written. No permission prompt was involved. Work \
    it started elsewhere (a remote command, a background process) may still be running, so check before starting the same \
    work again. The instruction to stop and wait still stands.";

/// Whether the model gets another request after a round of tool calls.
pub(super) enum Round {
    On,
    Over(Over),
}

/// One tool call: name, input and id.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) name: String,
    pub(crate) input: Value,
    pub(crate) id: String,
}

/// The outcome of a tool call.
pub(crate) enum Done {
    Ran {
        response: Value,
        text: String,
    },
    Failed {
        text: String,
    },
    /// The client rejected the call before it ran; no hooks fire.
    Refused {
        text: String,
    },
    /// A hook denied the call.
    Denied {
        text: String,
    },
    /// The person interrupted the call.
    Interrupted {
        text: String,
    },
}

impl Done {
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Ran { text, .. }
            | Self::Failed { text }
            | Self::Refused { text }
            | Self::Denied { text }
            | Self::Interrupted { text } => text,
        }
    }
}

/// The text that the model reads for a call.
struct Result {
    call: Call,
    text: String,
}

pub(super) fn run(host: &mut Host<'_>, chat: &mut Conversation, turn: &AgentTurn) -> Round {
    let project = host.stage.project.clone();
    let request = host.requests;
    let calls = turn.tools.iter().enumerate().map(|(index, call)| {
        let (name, input) = wire::tool_use(call, &project);
        let name = if name == "Task" { "Agent".to_owned() } else { name };
        Call { name, input, id: wire::tool_use_id(request, index) }
    });
    let calls: Vec<Call> = calls.collect();
    let mut results = Vec::new();
    let mut is_stopped = false;
    let mut known = Vec::new();
    for call in &calls {
        match schema::mistake(call).or_else(|| tasks::refusal(host, call)) {
            Some(text) => {
                finish(host, chat, call, &Done::Refused { text: text.clone() });
                results.push(Result { call: call.clone(), text });
            }
            None => known.push(call.clone()),
        }
    }
    let mut rest = known.as_slice();
    while let Some((first, _)) = rest.split_first() {
        if turn.interrupt == Interrupt::Tools {
            return interrupted(host, chat, first, rest.get(1..).unwrap_or_default());
        }
        // The client runs `Read` and `Agent` calls concurrently, and others one after another.
        let is_free = |call: &&Call| matches!(call.name.as_str(), "Read" | "Agent");
        let together = rest.iter().take_while(is_free).count().max(1);
        let (now, later) = rest.split_at(together);
        rest = later;
        let admitted: Vec<Admitted> = now.iter().map(|call| admit(host, chat, call)).collect();
        for (call, admitted) in now.iter().zip(admitted) {
            let (text, stopped) = match admitted {
                Admitted::Deferred => return Round::Over(Over::new("tool_deferred", "")),
                Admitted::Not { text, is_stopped } => (text, is_stopped),
                Admitted::With(input, is_stopped, told) => {
                    let call = Call { input, ..call.clone() };
                    let (text, also) = carry_out(host, chat, &call, &told);
                    (text, is_stopped || also)
                }
            };
            is_stopped |= stopped;
            results.push(Result { call: call.clone(), text });
        }
    }
    if is_stopped || batch(host, chat, &calls, &results) {
        return Round::Over(Over::new("hook_stopped", ""));
    }
    if chat.agent.is_none() {
        background::tell_of_ended(host, chat);
    }
    Round::On
}

/// The decision of the `PreToolUse` hooks.
enum Admitted {
    /// The call may run: its input, whether a hook ends the turn, and the hook answers.
    With(Value, bool, Told),
    Not {
        text: String,
        is_stopped: bool,
    },
    /// Left to the program that runs the client. Here there is none.
    Deferred,
}

fn admit(host: &mut Host<'_>, chat: &mut Conversation, call: &Call) -> Admitted {
    if let Some(text) = files::refusal(&host.cwd, call) {
        finish(host, chat, call, &Done::Refused { text: text.clone() });
        return Admitted::Not { text, is_stopped: false };
    }
    let told = before(host, chat, call);
    book::hooks(host, chat, &told);
    let name = format!("PreToolUse:{}", call.name);
    let is_stopped = note_stop(chat, &told);
    if let Some(text) = told.denial(&name) {
        let reasons = vec![text.clone()];
        host.show(&told, Effect::Blocked { reasons });
        finish(host, chat, call, &Done::Denied { text: text.clone() });
        for context in told.asides() {
            chat.pending.context(context);
        }
        return Admitted::Not { text, is_stopped };
    }
    host.show(&told, effect(&told));
    if told.is_deferred() {
        return Admitted::Deferred;
    }
    let Some(input) = told.updated_input() else {
        return Admitted::With(call.input.clone(), is_stopped, told);
    };
    let rewritten = Call { input, ..call.clone() };
    match schema::missing(&rewritten) {
        None => Admitted::With(rewritten.input, is_stopped, told),
        Some(issues) => {
            let text = format!(
                "PreToolUse hook for {} returned updatedInput that failed schema validation: {issues}\nThe tool input from \
                 the model was valid; the hook's rewrite of it was not.",
                call.name
            );
            finish(host, chat, &rewritten, &Done::Refused { text: text.clone() });
            Admitted::Not { text, is_stopped }
        }
    }
}

/// Runs a call and fires the event after it. Returns the text for the model, and whether a hook ended the turn.
fn carry_out(
    host: &mut Host<'_>,
    chat: &mut Conversation,
    call: &Call,
    told: &Told,
) -> (String, bool) {
    let watch = Stopwatch::start();
    let done = execute(host, chat, call);
    let took = u64::try_from(watch.elapsed().as_millis()).unwrap_or(u64::MAX);
    finish(host, chat, call, &done);
    for context in told.asides() {
        chat.pending.context(context);
    }
    let mut is_stopped = false;
    if let Some((event, rest)) = after(call, &done, took) {
        let input = host
            .input(event, Shared::Turn, chat.agent.as_ref())
            .with("tool_name", call.name.clone())
            .with("tool_input", shown_input(host, call))
            .and(rest);
        let subject = Some(call.name.clone());
        let told = tell(host, Telling { event, subject, agent: chat.lane(), input });
        is_stopped = note_stop(chat, &told);
        book::hooks(host, chat, &told);
        for context in told.asides() {
            chat.pending.context(context);
        }
        host.show(&told, effect(&told));
    }
    (done.text().to_owned(), is_stopped)
}

fn before(host: &mut Host<'_>, chat: &Conversation, call: &Call) -> Told {
    let event = "PreToolUse";
    let input = host
        .input(event, Shared::Turn, chat.agent.as_ref())
        .with("tool_name", call.name.clone())
        .with("tool_input", shown_input(host, call))
        .with("tool_use_id", call.id.clone());
    tell(host, Telling { event, subject: Some(call.name.clone()), agent: chat.lane(), input })
}

/// The input as hooks receive it: with absolute paths and defaults.
fn shown_input(host: &Host<'_>, call: &Call) -> Value {
    let mut input = call.input.clone();
    if let Some(path) = input.get("file_path").and_then(Value::as_str) {
        let absolute = host.cwd.join(path).to_string_lossy().into_owned();
        input["file_path"] = json!(absolute);
    }
    if call.name == "Edit" && input.get("replace_all").is_none() {
        input["replace_all"] = json!(false);
    }
    input
}

/// The event after a call and its additional fields. `None` if the call never ran.
fn after(call: &Call, done: &Done, took: u64) -> Option<(&'static str, Input)> {
    match done {
        Done::Ran { response, .. } => {
            let input = Input::default()
                .with("tool_response", response.clone())
                .with("tool_use_id", call.id.clone())
                .with("duration_ms", took);
            Some(("PostToolUse", input))
        }
        Done::Failed { text } => {
            let input = Input::default()
                .with("tool_use_id", call.id.clone())
                .with("error", text.clone())
                .with("is_interrupt", false)
                .with("duration_ms", took);
            Some(("PostToolUseFailure", input))
        }
        Done::Refused { .. } | Done::Denied { .. } | Done::Interrupted { .. } => None,
    }
}

fn effect(told: &Told) -> Effect {
    if let Some(stop) = told.stop() {
        return Effect::Stopped { reason: stop.reason.clone() };
    }
    let reasons = told.reasons();
    if !reasons.is_empty() {
        return Effect::Blocked { reasons };
    }
    match told.contexts() {
        contexts if contexts.is_empty() => Effect::Allowed,
        context => Effect::Continued { context },
    }
}

/// Queues the reasons of `continue: false` for the next prompt. Returns whether a hook ended the turn.
fn note_stop(chat: &mut Conversation, told: &Told) -> bool {
    // The client ignores `continue: false` after a failed call.
    if told.event() == "PostToolUseFailure" {
        return false;
    }
    for text in told.stops() {
        chat.pending.context(text);
    }
    told.stop().is_some()
}

fn execute(host: &mut Host<'_>, chat: &mut Conversation, call: &Call) -> Done {
    match call.name.as_str() {
        "Bash" if is_background(call, false) => background::shell(host, call),
        "Bash" => shell::run(host, call),
        "Write" => files::write(&host.cwd, &mut chat.seen, call),
        "Edit" => files::edit(&host.cwd, &chat.seen, call),
        "Read" => files::read(&host.cwd, &mut chat.seen, call),
        "Agent" if teammates::is_wanted(host, call) => teammates::start(host, chat, call),
        "Agent" if is_background(call, true) => background::agent(host, chat, call),
        "Agent" => agents::in_foreground(host, chat, call),
        "TaskCreate" => tasks::create(host, chat, call),
        "TaskUpdate" => tasks::update(host, chat, call),
        "TaskList" => tasks::list(host),
        name => {
            host.notice(format!("`{name}` is not simulated; the call gets a placeholder result"));
            Done::Ran { response: json!({}), text: format!("(`{name}` is not simulated)") }
        }
    }
}

fn is_background(call: &Call, usual: bool) -> bool {
    call.input.get("run_in_background").and_then(Value::as_bool).unwrap_or(usual)
}

fn finish(host: &mut Host<'_>, chat: &mut Conversation, call: &Call, done: &Done) {
    let text = done.text().to_owned();
    let is_error = !matches!(done, Done::Ran { .. });
    chat.turns += 1;
    chat.pending.tool(text.clone());
    book::tool(host, chat, call, done);
    host.emit(&Entry::Tool(Tool {
        agent: chat.lane(),
        name: call.name.clone(),
        input: call.input.clone(),
        result: text,
        is_error,
    }));
}

/// The result as hooks receive it. The report of a subagent is a list of blocks.
fn shown_result(call: &Call, text: &str) -> Value {
    let is_report =
        text.contains("[Subagent hand-back]") || text.starts_with("Async agent launched");
    if call.name == "Agent" && is_report {
        return json!([{"type": "text", "text": text}]);
    }
    json!(text)
}

/// Fires `PostToolBatch`, where a block has the same effect as `continue: false`. Returns whether a hook ended the turn.
fn batch(host: &mut Host<'_>, chat: &mut Conversation, calls: &[Call], results: &[Result]) -> bool {
    let event = "PostToolBatch";
    let listed = calls.iter().filter_map(|call| {
        let result = results.iter().find(|result| result.call.id == call.id)?;
        let mut input = call.input.clone();
        if call.name == "Edit" && input.get("replace_all").is_none() {
            input["replace_all"] = json!(false);
        }
        Some(json!({
            "tool_name": call.name,
            "tool_input": input,
            "tool_use_id": call.id,
            "tool_response": shown_result(call, &result.text),
        }))
    });
    let listed: Vec<Value> = listed.collect();
    let input = host.input(event, Shared::Turn, chat.agent.as_ref()).with("tool_calls", listed);
    let told = tell(host, Telling { event, subject: None, agent: chat.lane(), input });
    let Some(reason) = told.end_of_turn() else {
        for context in told.asides() {
            chat.pending.context(context);
        }
        host.show(&told, effect(&told));
        return false;
    };
    chat.pending.context(format!("{event} hook stopped continuation: {reason}"));
    host.show(&told, Effect::Stopped { reason: Some(reason) });
    true
}

/// The person presses Esc while a tool runs.
fn interrupted(
    host: &mut Host<'_>,
    chat: &mut Conversation,
    call: &Call,
    others: &[Call],
) -> Round {
    let told = before(host, chat, call);
    host.show(&told, effect(&told));
    if call.name == "Bash" {
        shell::begin(host, call);
    }
    let text = format!("{REJECTED}{STOPPED_RUNNING}");
    finish(host, chat, call, &Done::Interrupted { text });
    for other in others {
        finish(host, chat, other, &Done::Interrupted { text: REJECTED.to_owned() });
    }
    let text = "[Request interrupted by user for tool use]";
    let wrote = chat.transcript.interruption(text);
    host.wrote(wrote);
    chat.pending.text(text.to_owned());
    Round::Over(Over::error("aborted_tools", ""))
}

impl Told {
    /// The text that the model reads instead of a result, if hooks deny the call.
    pub(crate) fn denial(&self, name: &str) -> Option<String> {
        if let Some(answered) = self.blocks().last() {
            return Some(format!("{name} hook error: {}", answered.feedback()));
        }
        // A headless client cannot ask the person, so `ask` denies.
        let mut asked =
            self.answers.iter().filter_map(|answered| answered.answer.permission.as_ref());
        let asked = asked.find(|asked| asked.choice == Choice::Ask)?;
        let default = || format!("Hook {name} asked for confirmation for this tool");
        Some(asked.reason.clone().unwrap_or_else(default))
    }

    /// Whether a hook defers the call to the program that runs the client, and no hook denies it.
    fn is_deferred(&self) -> bool {
        let choices =
            self.answers.iter().filter_map(|answered| answered.answer.permission.as_ref());
        choices.map(|asked| asked.choice).max() == Some(Choice::Defer)
    }

    pub(crate) fn updated_input(&self) -> Option<Value> {
        self.answers.iter().rev().find_map(|answered| answered.answer.updated_input.clone())
    }
}
