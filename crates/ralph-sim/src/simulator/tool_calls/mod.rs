//! Runs the tool calls of one answer, with the hooks before and after them.

pub(super) mod shell_calls;
mod task_tools;

use super::background_work;
use super::client_process::SimulatedClient;
use super::conversation::{PromptOutcome, SimulatedConversation};
use super::hook_dispatch::fire_event;
use super::subagents;
use super::teammates;
use crate::client_rules::event_outcome::{DispatchedEvent, EventOutcome};
use crate::client_rules::hook_input::SharedInputFields;
use crate::client_rules::tool_invocation::{ToolInvocation, ToolOutcome};
use crate::client_rules::transcript_records::{record_hooks, record_tool_result};
use crate::client_rules::{INTERRUPTED_TOOL_TEXT, file_tools, hook_agent_tools, tool_schema};
use crate::scenario::{ScriptedTurn, TurnInterrupt};
use crate::timeline::{HookEffect, TimelineEntry, TimelineTool};
use ralph_sys::clock::Stopwatch;
use serde_json::{Value, json};

pub(super) use task_tools::SimulatedTaskList;

/// Whether the model gets another request after a round of tool calls.
pub(super) enum ToolRoundOutcome {
    Continue,
    Finished(PromptOutcome),
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
    let calls = ToolInvocation::all_of(turn, host.requests, &host.stage.project);
    let mut results = Vec::new();
    let mut is_stopped = false;
    let mut known = Vec::new();
    for call in &calls {
        let refusal = if chat.is_hook_agent() {
            hook_agent_tools::hook_agent_call_error(call)
        } else {
            tool_schema::call_error(call).or_else(|| task_tools::task_tool_refusal(host, call))
        };
        match refusal {
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
            if chat.verdict.is_some() {
                // The client ends the agent at once, whatever else it called.
                return ToolRoundOutcome::Continue;
            }
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
    host.note_write(record_hooks(&mut chat.transcript, &outcome));
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
    host.emit_hook(&outcome, outcome.effect());
    if outcome.is_deferred() {
        return CallAdmission::Deferred;
    }
    if chat.is_hook_agent()
        && !outcome.is_permitted()
        && let Some(text) =
            hook_agent_tools::permission_denial(call, &host.stage.project, &host.transcript_path)
    {
        finish_call(host, chat, call, &ToolOutcome::Denied { text: text.clone() });
        return CallAdmission::Rejected { text, is_stopped };
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
    let took = watch.elapsed();
    finish_call(host, chat, call, &done);
    for context in outcome.side_texts() {
        chat.pending.add_context(context);
    }
    let mut is_stopped = false;
    if let Some((event, rest)) = call.event_after(&done, took) {
        let input = host
            .hook_input(event, SharedInputFields::Turn, chat.agent.as_ref())
            .with("tool_name", call.name.clone())
            .with("tool_input", call.hook_tool_input(&host.cwd))
            .append(rest);
        let subject = Some(call.name.clone());
        let outcome =
            fire_event(host, DispatchedEvent { event, subject, agent: chat.lane(), input });
        is_stopped = queue_stop_texts(chat, &outcome);
        host.note_write(record_hooks(&mut chat.transcript, &outcome));
        for context in outcome.side_texts() {
            chat.pending.add_context(context);
        }
        host.emit_hook(&outcome, outcome.effect());
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
        .with("tool_input", call.hook_tool_input(&host.cwd))
        .with("tool_use_id", call.id.clone());
    fire_event(
        host,
        DispatchedEvent { event, subject: Some(call.name.clone()), agent: chat.lane(), input },
    )
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
        "Bash" if call.is_background() == Some(true) => background_work::start_command(host, call),
        "Bash" => shell_calls::run_command(host, call),
        "Write" => file_tools::write_file(&host.cwd, &mut chat.seen, call),
        "Edit" => file_tools::edit_file(&host.cwd, &chat.seen, call),
        "Read" => file_tools::read_file(&host.cwd, &mut chat.seen, call),
        "Agent" if teammates::is_teammate_call(host, call) => {
            teammates::spawn_teammate(host, chat, call)
        }
        "Agent" if call.is_background() != Some(false) => {
            background_work::start_agent(host, chat, call)
        }
        "Agent" => subagents::run_in_foreground(host, chat, call),
        hook_agent_tools::VERDICT_TOOL => {
            chat.verdict = Some(call.input.clone());
            hook_agent_tools::accept_verdict()
        }
        "TaskCreate" => task_tools::create_task(host, chat, call),
        "TaskUpdate" => task_tools::update_task(host, chat, call),
        "TaskList" => task_tools::list_tasks(host),
        name => {
            host.notice(format!("`{name}` is not simulated; the call gets a placeholder result"));
            ToolOutcome::placeholder(name)
        }
    }
}

fn finish_call(
    host: &mut SimulatedClient<'_>,
    chat: &mut SimulatedConversation,
    call: &ToolInvocation,
    done: &ToolOutcome,
) {
    let text = done.text().to_owned();
    chat.pending.add_tool_result(text.clone());
    let wrote = record_tool_result(&mut chat.transcript, call, done, &host.cwd);
    host.note_write(wrote);
    host.emit(&TimelineEntry::Tool(TimelineTool {
        agent: chat.lane(),
        name: call.name.clone(),
        input: call.input.clone(),
        result: text,
        is_error: done.is_error(),
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
        Some(json!({
            "tool_name": call.name,
            "tool_input": call.input_with_defaults(),
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
        host.emit_hook(&outcome, outcome.effect());
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
    host.emit_hook(&outcome, outcome.effect());
    if call.name == "Bash" {
        shell_calls::run_until_interrupted(host, call);
    }
    let interrupted = std::iter::once(call).chain(others);
    for (call, done) in interrupted.zip(ToolOutcome::interrupted_calls()) {
        finish_call(host, chat, call, &done);
    }
    host.note_write(chat.transcript.write_interruption(INTERRUPTED_TOOL_TEXT));
    chat.pending.add_user_text(INTERRUPTED_TOOL_TEXT.to_owned());
    ToolRoundOutcome::Finished(PromptOutcome::error("aborted_tools", ""))
}
