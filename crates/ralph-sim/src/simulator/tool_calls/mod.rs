//! Runs the tool calls of one answer, with the hooks before and after them.

pub(crate) mod file_tools;
mod patch;
pub(crate) mod shell_tool;
mod task_tools;
pub(crate) mod tool_schema;

use super::background_work;
use super::client_process::{SharedInputFields, SimulatedClient};
use super::conversation::{PromptOutcome, SimulatedConversation};
use super::event_outcome::EventOutcome;
use super::hook_dispatch::{DispatchedEvent, fire_event};
use super::hook_input::HookInput;
use super::subagents;
use super::teammates;
use super::transcript_log;
use crate::hook_answer::PermissionChoice;
use crate::model_answer;
use crate::scenario::{ScriptedTurn, TurnInterrupt};
use crate::timeline::{HookEffect, TimelineEntry, TimelineTool};
use ralph_sys::clock::Stopwatch;
use serde_json::{Value, json};

pub(super) use task_tools::SimulatedTaskList;

pub(crate) const REJECTED_TEXT: &str = "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file \
    edit, the new_string was NOT written to the file). STOP what you are doing and wait for the user to tell you how to \
    proceed.";
pub(crate) const STOPPED_WHILE_RUNNING_TEXT: &str = " Correction to the text above: this call was stopped while running, not refused before it \
    ran. It may have run in part or in full, and its changes may have been written. No permission prompt was involved. Work \
    it started elsewhere (a remote command, a background process) may still be running, so check before starting the same \
    work again. The instruction to stop and wait still stands.";

/// Whether the model gets another request after a round of tool calls.
pub(super) enum ToolRoundOutcome {
    Continue,
    Finished(PromptOutcome),
}

/// One tool call: name, input and id.
#[derive(Clone, Debug)]
pub(crate) struct ToolInvocation {
    pub(crate) name: String,
    pub(crate) input: Value,
    pub(crate) id: String,
}

/// The outcome of a tool call.
pub(crate) enum ToolOutcome {
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

impl ToolOutcome {
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
struct ToolResultText {
    call: ToolInvocation,
    text: String,
}

pub(super) fn run_calls(
    host: &mut SimulatedClient<'_>,
    chat: &mut SimulatedConversation,
    turn: &ScriptedTurn,
) -> ToolRoundOutcome {
    let project = host.stage.project.clone();
    let request = host.requests;
    let calls = turn.tools.iter().enumerate().map(|(index, call)| {
        let (name, input) = model_answer::tool_use(call, &project);
        let name = if name == "Task" { "Agent".to_owned() } else { name };
        ToolInvocation { name, input, id: model_answer::tool_use_id(request, index) }
    });
    let calls: Vec<ToolInvocation> = calls.collect();
    let mut results = Vec::new();
    let mut is_stopped = false;
    let mut known = Vec::new();
    for call in &calls {
        match tool_schema::call_error(call).or_else(|| task_tools::task_tool_refusal(host, call)) {
            Some(text) => {
                finish_call(host, chat, call, &ToolOutcome::Refused { text: text.clone() });
                results.push(ToolResultText { call: call.clone(), text });
            }
            None => known.push(call.clone()),
        }
    }
    let mut rest = known.as_slice();
    while let Some((first, _)) = rest.split_first() {
        if turn.interrupt == TurnInterrupt::Tools {
            return interrupt_calls(host, chat, first, rest.get(1..).unwrap_or_default());
        }
        // The client runs `Read` and `Agent` calls concurrently, and others one after another.
        let is_free = |call: &&ToolInvocation| matches!(call.name.as_str(), "Read" | "Agent");
        let together = rest.iter().take_while(is_free).count().max(1);
        let (now, later) = rest.split_at(together);
        rest = later;
        let admitted: Vec<CallAdmission> =
            now.iter().map(|call| admit_call(host, chat, call)).collect();
        for (call, admitted) in now.iter().zip(admitted) {
            let (text, stopped) = match admitted {
                CallAdmission::Deferred => {
                    return ToolRoundOutcome::Finished(PromptOutcome::new("tool_deferred", ""));
                }
                CallAdmission::Rejected { text, is_stopped } => (text, is_stopped),
                CallAdmission::Allowed(input, is_stopped, outcome) => {
                    let call = ToolInvocation { input, ..call.clone() };
                    let (text, also) = run_call(host, chat, &call, &outcome);
                    (text, is_stopped || also)
                }
            };
            is_stopped |= stopped;
            results.push(ToolResultText { call: call.clone(), text });
        }
    }
    if is_stopped || fire_tool_batch(host, chat, &calls, &results) {
        return ToolRoundOutcome::Finished(PromptOutcome::new("hook_stopped", ""));
    }
    if chat.agent.is_none() {
        background_work::report_finished_commands(host, chat);
    }
    ToolRoundOutcome::Continue
}

/// The decision of the `PreToolUse` hooks.
enum CallAdmission {
    /// The call may run: its input, whether a hook ends the turn, and the hook answers.
    Allowed(Value, bool, EventOutcome),
    Rejected {
        text: String,
        is_stopped: bool,
    },
    /// Left to the program that runs the client. Here there is none.
    Deferred,
}

fn admit_call(
    host: &mut SimulatedClient<'_>,
    chat: &mut SimulatedConversation,
    call: &ToolInvocation,
) -> CallAdmission {
    if let Some(text) = file_tools::edit_refusal(&host.cwd, call) {
        finish_call(host, chat, call, &ToolOutcome::Refused { text: text.clone() });
        return CallAdmission::Rejected { text, is_stopped: false };
    }
    let outcome = fire_pre_tool_use(host, chat, call);
    transcript_log::record_hooks(host, chat, &outcome);
    let name = format!("PreToolUse:{}", call.name);
    let is_stopped = queue_stop_texts(chat, &outcome);
    if let Some(text) = outcome.denial_text(&name) {
        let reasons = vec![text.clone()];
        host.emit_hook(&outcome, HookEffect::Blocked { reasons });
        finish_call(host, chat, call, &ToolOutcome::Denied { text: text.clone() });
        for context in outcome.side_texts() {
            chat.pending.add_context(context);
        }
        return CallAdmission::Rejected { text, is_stopped };
    }
    host.emit_hook(&outcome, tool_event_effect(&outcome));
    if outcome.is_deferred() {
        return CallAdmission::Deferred;
    }
    let Some(input) = outcome.updated_input() else {
        return CallAdmission::Allowed(call.input.clone(), is_stopped, outcome);
    };
    let rewritten = ToolInvocation { input, ..call.clone() };
    match tool_schema::missing_fields_error(&rewritten) {
        None => CallAdmission::Allowed(rewritten.input, is_stopped, outcome),
        Some(issues) => {
            let text = format!(
                "PreToolUse hook for {} returned updatedInput that failed schema validation: {issues}\nThe tool input from \
                 the model was valid; the hook's rewrite of it was not.",
                call.name
            );
            finish_call(host, chat, &rewritten, &ToolOutcome::Refused { text: text.clone() });
            CallAdmission::Rejected { text, is_stopped }
        }
    }
}

/// Runs a call and fires the event after it. Returns the text for the model, and whether a hook ended the turn.
fn run_call(
    host: &mut SimulatedClient<'_>,
    chat: &mut SimulatedConversation,
    call: &ToolInvocation,
    outcome: &EventOutcome,
) -> (String, bool) {
    let watch = Stopwatch::start();
    let done = execute_tool(host, chat, call);
    let took = u64::try_from(watch.elapsed().as_millis()).unwrap_or(u64::MAX);
    finish_call(host, chat, call, &done);
    for context in outcome.side_texts() {
        chat.pending.add_context(context);
    }
    let mut is_stopped = false;
    if let Some((event, rest)) = event_after_call(call, &done, took) {
        let input = host
            .hook_input(event, SharedInputFields::Turn, chat.agent.as_ref())
            .with("tool_name", call.name.clone())
            .with("tool_input", hook_tool_input(host, call))
            .append(rest);
        let subject = Some(call.name.clone());
        let outcome =
            fire_event(host, DispatchedEvent { event, subject, agent: chat.lane(), input });
        is_stopped = queue_stop_texts(chat, &outcome);
        transcript_log::record_hooks(host, chat, &outcome);
        for context in outcome.side_texts() {
            chat.pending.add_context(context);
        }
        host.emit_hook(&outcome, tool_event_effect(&outcome));
    }
    (done.text().to_owned(), is_stopped)
}

fn fire_pre_tool_use(
    host: &mut SimulatedClient<'_>,
    chat: &SimulatedConversation,
    call: &ToolInvocation,
) -> EventOutcome {
    let event = "PreToolUse";
    let input = host
        .hook_input(event, SharedInputFields::Turn, chat.agent.as_ref())
        .with("tool_name", call.name.clone())
        .with("tool_input", hook_tool_input(host, call))
        .with("tool_use_id", call.id.clone());
    fire_event(
        host,
        DispatchedEvent { event, subject: Some(call.name.clone()), agent: chat.lane(), input },
    )
}

/// The input as hooks receive it: with absolute paths and defaults.
fn hook_tool_input(host: &SimulatedClient<'_>, call: &ToolInvocation) -> Value {
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
fn event_after_call(
    call: &ToolInvocation,
    done: &ToolOutcome,
    took: u64,
) -> Option<(&'static str, HookInput)> {
    match done {
        ToolOutcome::Ran { response, .. } => {
            let input = HookInput::default()
                .with("tool_response", response.clone())
                .with("tool_use_id", call.id.clone())
                .with("duration_ms", took);
            Some(("PostToolUse", input))
        }
        ToolOutcome::Failed { text } => {
            let input = HookInput::default()
                .with("tool_use_id", call.id.clone())
                .with("error", text.clone())
                .with("is_interrupt", false)
                .with("duration_ms", took);
            Some(("PostToolUseFailure", input))
        }
        ToolOutcome::Refused { .. }
        | ToolOutcome::Denied { .. }
        | ToolOutcome::Interrupted { .. } => None,
    }
}

fn tool_event_effect(outcome: &EventOutcome) -> HookEffect {
    if let Some(stop) = outcome.continue_false() {
        return HookEffect::Stopped { reason: stop.reason.clone() };
    }
    let reasons = outcome.reasons();
    if !reasons.is_empty() {
        return HookEffect::Blocked { reasons };
    }
    match outcome.contexts() {
        contexts if contexts.is_empty() => HookEffect::Allowed,
        context => HookEffect::Continued { context },
    }
}

/// Queues the reasons of `continue: false` for the next prompt. Returns whether a hook ended the turn.
fn queue_stop_texts(chat: &mut SimulatedConversation, outcome: &EventOutcome) -> bool {
    // The client ignores `continue: false` after a failed call.
    if outcome.event() == "PostToolUseFailure" {
        return false;
    }
    for text in outcome.stop_texts() {
        chat.pending.add_context(text);
    }
    outcome.continue_false().is_some()
}

fn execute_tool(
    host: &mut SimulatedClient<'_>,
    chat: &mut SimulatedConversation,
    call: &ToolInvocation,
) -> ToolOutcome {
    match call.name.as_str() {
        "Bash" if is_background(call, false) => background_work::start_command(host, call),
        "Bash" => shell_tool::run_command(host, call),
        "Write" => file_tools::write_file(&host.cwd, &mut chat.seen, call),
        "Edit" => file_tools::edit_file(&host.cwd, &chat.seen, call),
        "Read" => file_tools::read_file(&host.cwd, &mut chat.seen, call),
        "Agent" if teammates::is_teammate_call(host, call) => {
            teammates::spawn_teammate(host, chat, call)
        }
        "Agent" if is_background(call, true) => background_work::start_agent(host, chat, call),
        "Agent" => subagents::run_in_foreground(host, chat, call),
        "TaskCreate" => task_tools::create_task(host, chat, call),
        "TaskUpdate" => task_tools::update_task(host, chat, call),
        "TaskList" => task_tools::list_tasks(host),
        name => {
            host.notice(format!("`{name}` is not simulated; the call gets a placeholder result"));
            ToolOutcome::Ran { response: json!({}), text: format!("(`{name}` is not simulated)") }
        }
    }
}

fn is_background(call: &ToolInvocation, usual: bool) -> bool {
    call.input.get("run_in_background").and_then(Value::as_bool).unwrap_or(usual)
}

fn finish_call(
    host: &mut SimulatedClient<'_>,
    chat: &mut SimulatedConversation,
    call: &ToolInvocation,
    done: &ToolOutcome,
) {
    let text = done.text().to_owned();
    let is_error = !matches!(done, ToolOutcome::Ran { .. });
    chat.turns += 1;
    chat.pending.add_tool_result(text.clone());
    transcript_log::record_tool_result(host, chat, call, done);
    host.emit(&TimelineEntry::Tool(TimelineTool {
        agent: chat.lane(),
        name: call.name.clone(),
        input: call.input.clone(),
        result: text,
        is_error,
    }));
}

/// The result as hooks receive it. The report of a subagent is a list of blocks.
fn hook_tool_response(call: &ToolInvocation, text: &str) -> Value {
    let is_report =
        text.contains("[Subagent hand-back]") || text.starts_with("Async agent launched");
    if call.name == "Agent" && is_report {
        return json!([{"type": "text", "text": text}]);
    }
    json!(text)
}

/// Fires `PostToolBatch`, where a block has the same effect as `continue: false`. Returns whether a hook ended the
/// turn.
fn fire_tool_batch(
    host: &mut SimulatedClient<'_>,
    chat: &mut SimulatedConversation,
    calls: &[ToolInvocation],
    results: &[ToolResultText],
) -> bool {
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
            "tool_response": hook_tool_response(call, &result.text),
        }))
    });
    let listed: Vec<Value> = listed.collect();
    let input = host
        .hook_input(event, SharedInputFields::Turn, chat.agent.as_ref())
        .with("tool_calls", listed);
    let outcome =
        fire_event(host, DispatchedEvent { event, subject: None, agent: chat.lane(), input });
    let Some(reason) = outcome.turn_end_reason() else {
        for context in outcome.side_texts() {
            chat.pending.add_context(context);
        }
        host.emit_hook(&outcome, tool_event_effect(&outcome));
        return false;
    };
    chat.pending.add_context(format!("{event} hook stopped continuation: {reason}"));
    host.emit_hook(&outcome, HookEffect::Stopped { reason: Some(reason) });
    true
}

/// The person presses Esc while a tool runs.
fn interrupt_calls(
    host: &mut SimulatedClient<'_>,
    chat: &mut SimulatedConversation,
    call: &ToolInvocation,
    others: &[ToolInvocation],
) -> ToolRoundOutcome {
    let outcome = fire_pre_tool_use(host, chat, call);
    host.emit_hook(&outcome, tool_event_effect(&outcome));
    if call.name == "Bash" {
        shell_tool::run_until_interrupted(host, call);
    }
    let text = format!("{REJECTED_TEXT}{STOPPED_WHILE_RUNNING_TEXT}");
    finish_call(host, chat, call, &ToolOutcome::Interrupted { text });
    for other in others {
        finish_call(
            host,
            chat,
            other,
            &ToolOutcome::Interrupted { text: REJECTED_TEXT.to_owned() },
        );
    }
    let text = "[Request interrupted by user for tool use]";
    let wrote = chat.transcript.write_interruption(text);
    host.note_write(wrote);
    chat.pending.add_user_text(text.to_owned());
    ToolRoundOutcome::Finished(PromptOutcome::error("aborted_tools", ""))
}

impl EventOutcome {
    /// The text that the model reads instead of a result, if hooks deny the call.
    pub(crate) fn denial_text(&self, name: &str) -> Option<String> {
        if let Some(answered) = self.blocking_answers().last() {
            return Some(format!("{name} hook error: {}", answered.feedback()));
        }
        // A headless client cannot ask the person, so `ask` denies.
        let mut asked =
            self.answers.iter().filter_map(|answered| answered.answer.permission.as_ref());
        let asked = asked.find(|asked| asked.choice == PermissionChoice::Ask)?;
        let default = || format!("Hook {name} asked for confirmation for this tool");
        Some(asked.reason.clone().unwrap_or_else(default))
    }

    /// Whether a hook defers the call to the program that runs the client, and no hook denies it.
    fn is_deferred(&self) -> bool {
        let choices =
            self.answers.iter().filter_map(|answered| answered.answer.permission.as_ref());
        choices.map(|asked| asked.choice).max() == Some(PermissionChoice::Defer)
    }

    pub(crate) fn updated_input(&self) -> Option<Value> {
        self.answers.iter().rev().find_map(|answered| answered.answer.updated_input.clone())
    }
}
