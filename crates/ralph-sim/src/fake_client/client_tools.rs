//! Runs the tool calls of one answer, with hooks and permissions. The tools really run.

use super::inbox::InboxEvent;
use super::process::{FakeClientProcess, ReceivedInput, TurnBreak};
use super::turn_loop::{FakeTurn, FakeTurnOutcome, aborted_outcome, crash_at};
use super::{FakeClientError, permissions};
use crate::client_rules::hook_input::{HookInput, SharedInputFields};
use crate::client_rules::shell_tool::{self, ShellLaunch};
use crate::client_rules::tool_invocation::{ToolInvocation, ToolOutcome};
use crate::client_rules::transcript_records::{
    record_hooks, record_tool_result, written_tool_result,
};
use crate::client_rules::{INTERRUPTED_TOOL_TEXT, client_variables, file_tools, tool_schema};
use crate::scenario::{ScriptedTurn, TurnInterrupt, TurnPoint};
use permissions::{DenialSource, PermissionOutcome};
use ralph_sys::clock::{Deadline, Stopwatch};
use ralph_sys::fs;
use ralph_sys::proc::cancel::CancelToken;
use ralph_sys::proc::job::JobEnd;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;

/// A completed call: its outcome and its permission.
struct CompletedCall {
    call: ToolInvocation,
    done: ToolOutcome,
    granted: PermissionOutcome,
    took: Duration,
}

impl FakeClientProcess<'_> {
    /// Runs all calls. Returns `None` if the model gets another request.
    pub(super) fn run_tools(
        &mut self,
        turn: &mut FakeTurn,
        answer: &ScriptedTurn,
        number: u64,
    ) -> Result<Option<FakeTurnOutcome>, TurnBreak> {
        let calls = ToolInvocation::all_of(answer, number, &self.options.project);
        let mut is_stopped = false;
        for (place, call) in calls.iter().enumerate() {
            let rest = calls.get(place + 1..).unwrap_or_default();
            if answer.interrupt == TurnInterrupt::Tools {
                return self.abort_calls(turn, call, rest).map(Some);
            }
            let made = match self.run_call(turn, call) {
                Err(TurnBreak::Interrupted) => return self.abort_calls(turn, call, rest).map(Some),
                made => made?,
            };
            if rest.is_empty() {
                crash_at(turn.mishap, TurnPoint::Tools)?;
            }
            is_stopped |= self.fire_event_after_call(&made)?;
            self.write_tool_result(turn, &made)?;
        }
        Ok(is_stopped.then(|| FakeTurnOutcome::success("hook_stopped", "")))
    }

    /// Runs one call, if hooks and permissions allow it.
    fn run_call(
        &mut self,
        turn: &mut FakeTurn,
        call: &ToolInvocation,
    ) -> Result<CompletedCall, TurnBreak> {
        let made = |call: &ToolInvocation, done: ToolOutcome, granted: PermissionOutcome| {
            CompletedCall { call: call.clone(), done, granted, took: Duration::ZERO }
        };
        let refusal = self.unavailable_tool_error(call).or_else(|| tool_schema::call_error(call));
        if let Some(text) = refusal.or_else(|| file_tools::edit_refusal(&self.cwd, call)) {
            return Ok(made(call, ToolOutcome::Refused { text }, PermissionOutcome::NotChecked));
        }
        let event = "PreToolUse";
        let input = self.tool_input(event, call).with("tool_use_id", call.id.clone());
        let outcome = self.run_callbacks(event, Some(&call.name), input)?;
        self.write_system_messages(&outcome)?;
        if let Some(text) = outcome.denial_text(&format!("{event}:{}", call.name)) {
            turn.denials.push(denial_json(call));
            return Ok(made(call, ToolOutcome::Denied { text }, PermissionOutcome::NotChecked));
        }
        let input = outcome.updated_input().unwrap_or_else(|| call.input.clone());
        let mut call = ToolInvocation { input, ..call.clone() };
        let granted = self.request_permission(&call, &outcome)?;
        match &granted {
            PermissionOutcome::Denied { text, .. } => {
                turn.denials.push(denial_json(&call));
                let text = text.clone();
                return Ok(made(&call, ToolOutcome::Denied { text }, granted));
            }
            PermissionOutcome::Interrupted => return Err(TurnBreak::Interrupted),
            PermissionOutcome::ByDriver(Some(input)) => call.input = input.clone(),
            PermissionOutcome::ByDriver(None)
            | PermissionOutcome::ByMode
            | PermissionOutcome::NotChecked => {}
        }
        let watch = Stopwatch::start();
        let done = self.execute_tool(&call)?;
        Ok(CompletedCall { took: watch.elapsed(), ..made(&call, done, granted) })
    }

    /// The error for a tool that needs a permission prompt, if there is none.
    fn unavailable_tool_error(&self, call: &ToolInvocation) -> Option<String> {
        let name = &call.name;
        let is_asking = matches!(name.as_str(), "AskUserQuestion" | "ExitPlanMode");
        (is_asking && !self.options.flags.asks_driver).then(|| {
            format!(
                "<tool_use_error>Error: No such tool available: {name}. {name} is disabled for this session.\
                 </tool_use_error>"
            )
        })
    }

    fn execute_tool(&mut self, call: &ToolInvocation) -> Result<ToolOutcome, TurnBreak> {
        Ok(match call.name.as_str() {
            "Bash" if call.is_background() == Some(true) => self.start_background_command(call)?,
            "Bash" => self.run_command(call)?,
            "Write" => file_tools::write_file(&self.cwd, &mut self.seen, call),
            "Edit" => file_tools::edit_file(&self.cwd, &self.seen, call),
            "Read" => file_tools::read_file(&self.cwd, &mut self.seen, call),
            "AskUserQuestion" => permissions::question_result(&call.input),
            name => ToolOutcome::placeholder(name),
        })
    }

    pub(super) fn shell_launch(&self, call: &ToolInvocation) -> Result<ShellLaunch, TurnBreak> {
        let directory = self.session_directory();
        fs::create_private_dir(&directory)?;
        let cwd_file = directory.join(format!("cwd-{}", self.options.pid));
        let mut env = self.options.env.clone();
        let settings = self.load_settings().env;
        env.extend(settings.into_iter().map(|(name, value)| (name.into(), value.into())));
        env.extend(client_variables(&self.options.project, &self.session, Some(self.options.pid)));
        Ok(ShellLaunch {
            program: self.options.program.clone(),
            argv: shell_tool::command_argv(call, &cwd_file, &cwd_file.with_extension("env")),
            env,
            cwd: self.cwd.clone(),
            cwd_file,
        })
    }

    /// Runs a command and handles the driver's input meanwhile.
    fn run_command(&mut self, call: &ToolInvocation) -> Result<ToolOutcome, TurnBreak> {
        let launch = self.shell_launch(call)?;
        let cancel = CancelToken::new().map(Arc::new).map_err(FakeClientError::Cancel)?;
        let (inbox, theirs) = (self.inbox.sender(), Arc::clone(&cancel));
        let (cwd_file, limit) = (launch.cwd_file.clone(), shell_tool::command_timeout(call));
        std::thread::spawn(move || {
            let finished = shell_tool::supervise_command(&launch, Deadline::after(limit), &theirs);
            inbox.send(InboxEvent::Tool(Box::new(finished)));
        });
        let mut ends = None;
        let finished = loop {
            match self.receive(None) {
                Ok(ReceivedInput::Tool(finished)) => break finished,
                Ok(ReceivedInput::Interrupt) => {
                    ends.get_or_insert(TurnBreak::Interrupted);
                    cancel.cancel();
                }
                Ok(ReceivedInput::Task(id, finished)) => {
                    self.report_finished_task(&id, &finished)?;
                }
                Ok(
                    ReceivedInput::Handled
                    | ReceivedInput::Answer(..)
                    | ReceivedInput::Closed
                    | ReceivedInput::TimedOut,
                ) => {}
                Err(reason) => {
                    ends = Some(reason);
                    cancel.cancel();
                }
            }
        };
        let note = shell_tool::follow_cwd(&mut self.cwd, &self.options.project, &cwd_file);
        match ends {
            Some(reason) => Err(reason),
            None if matches!(finished.end, JobEnd::Lost) => {
                Ok(ToolOutcome::Failed { text: "Exit code 137".to_owned() })
            }
            None => Ok(shell_tool::command_outcome(&finished, note, call)),
        }
    }

    fn tool_input(&self, event: &str, call: &ToolInvocation) -> HookInput {
        self.hook_input(event, SharedInputFields::Turn)
            .with("tool_name", call.name.clone())
            .with("tool_input", call.hook_tool_input(&self.cwd))
    }

    /// Fires the event after a call. Returns whether a hook ended the turn.
    fn fire_event_after_call(&mut self, made: &CompletedCall) -> Result<bool, TurnBreak> {
        let CompletedCall { call, done, took, .. } = made;
        let Some((event, rest)) = call.event_after(done, *took) else { return Ok(false) };
        let input = self.tool_input(event, call).append(rest);
        let outcome = self.run_callbacks(event, Some(&call.name), input)?;
        self.write_system_messages(&outcome)?;
        record_hooks(self.transcript()?, &outcome)?;
        Ok(outcome.continue_false().is_some() && event == "PostToolUse")
    }

    fn write_tool_result(
        &mut self,
        turn: &mut FakeTurn,
        made: &CompletedCall,
    ) -> Result<(), TurnBreak> {
        let CompletedCall { call, done, granted, .. } = made;
        turn.num_turns += 1;
        let cwd = self.cwd.clone();
        record_tool_result(self.transcript()?, call, done, &cwd)?;
        let is_error = done.is_error();
        let mut block =
            json!({"type": "tool_result", "tool_use_id": call.id, "content": done.text()});
        if is_error || call.name == "Bash" {
            block["is_error"] = json!(is_error);
        }
        let result = json!(written_tool_result(call, done).structured_result());
        let mut more = Map::new();
        more.insert("tool_use_result".to_owned(), result);
        more.insert("tool_result_meta".to_owned(), json!([tool_result_meta(call, done, granted)]));
        self.write_user_line(&json!([block]), more)
    }

    /// Ends an interrupted turn: `call` was running, and `rest` had not started.
    fn abort_calls(
        &mut self,
        turn: &mut FakeTurn,
        call: &ToolInvocation,
        rest: &[ToolInvocation],
    ) -> Result<FakeTurnOutcome, TurnBreak> {
        let calls = std::iter::once(call).chain(rest);
        for (call, done) in calls.zip(ToolOutcome::interrupted_calls()) {
            let (call, granted) = (call.clone(), PermissionOutcome::NotChecked);
            let made = CompletedCall { call, done, granted, took: Duration::ZERO };
            self.write_tool_result(turn, &made)?;
        }
        turn.num_turns += 1;
        self.write_interruption(INTERRUPTED_TOOL_TEXT)?;
        Ok(aborted_outcome("aborted_tools", "tool_use"))
    }
}

/// An entry of `permission_denials` in the result.
fn denial_json(call: &ToolInvocation) -> Value {
    json!({"tool_name": call.name, "tool_use_id": call.id, "tool_input": call.input})
}

/// The metadata of a tool result: why the call ran or did not.
fn tool_result_meta(
    call: &ToolInvocation,
    done: &ToolOutcome,
    granted: &PermissionOutcome,
) -> Value {
    let mut meta = json!({"id": call.id});
    match (done, granted) {
        (ToolOutcome::Interrupted { .. }, _) => meta["non_execution_kind"] = json!("user-rejected"),
        (ToolOutcome::Denied { .. }, PermissionOutcome::Denied { by, .. }) => {
            let (kind, decision) = match by {
                DenialSource::NoPrompter => ("user-rejected", json!({"source": "config"})),
                DenialSource::Mode => {
                    ("permission-rule", json!({"source": "config", "reason_type": "mode"}))
                }
                DenialSource::Driver => ("permission-rule", json!({"source": "user_reject"})),
                DenialSource::Hook => ("permission-rule", json!({"source": "hook"})),
            };
            meta["non_execution_kind"] = json!(kind);
            meta["permission_decision"] = decision;
            meta["permission_decision"]["decision"] = json!("reject");
        }
        (ToolOutcome::Denied { .. }, _) => {
            meta["non_execution_kind"] = json!("permission-rule");
            meta["permission_decision"] =
                json!({"decision": "reject", "source": "hook", "reason_type": "hook"});
        }
        (ToolOutcome::Refused { .. }, _) => {}
        (_, PermissionOutcome::ByDriver(_)) => {
            meta["permission_decision"] = json!({"decision": "accept", "source": "user_temporary"});
        }
        (_, _) => {
            meta["permission_decision"] =
                json!({"decision": "accept", "source": "config", "reason_type": "mode"});
        }
    }
    meta
}
