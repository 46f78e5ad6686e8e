//! Background commands, and the lines that report them to the driver.

use super::FakeClientError;
use super::inbox::InboxEvent;
use super::process::{FakeClientProcess, PromptPriority, QueuedPrompt, TurnBreak};
use crate::client_ids;
use crate::client_rules::background_task::{BackgroundTask, MAX_COMMAND_TIME};
use crate::client_rules::shell_tool;
use crate::client_rules::tool_invocation::{ToolInvocation, ToolOutcome};
use ralph_sys::clock::{self, Deadline};
use ralph_sys::proc::cancel::CancelToken;
use ralph_sys::proc::job::JobResult;
use serde_json::{Value, json};
use std::sync::Arc;

pub(super) struct BackgroundCommand {
    task: BackgroundTask,
    run_id: String,
    command: String,
    cancel: Arc<CancelToken>,
}

impl FakeClientProcess<'_> {
    pub(super) fn start_background_command(
        &mut self,
        call: &ToolInvocation,
    ) -> Result<ToolOutcome, TurnBreak> {
        let launch = self.shell_launch(call)?;
        let cancel = CancelToken::new().map(Arc::new).map_err(FakeClientError::Cancel)?;
        let task = BackgroundTask::command(call, &self.session_directory());
        let (inbox, theirs, id) = (self.inbox.sender(), Arc::clone(&cancel), task.id.clone());
        std::thread::spawn(move || {
            let deadline = Deadline::after(MAX_COMMAND_TIME);
            let finished = shell_tool::supervise_command(&launch, deadline, &theirs);
            inbox.send(InboxEvent::Task(id, Box::new(finished)));
        });
        let run_id = client_ids::new_agent_id();
        let outcome = task.command_started();
        let started = json!({
            "type": "system",
            "subtype": "task_started",
            "task_id": task.id,
            "run_id": run_id,
            "tool_use_id": task.call_id,
            "description": task.description,
            "is_backgrounded": true,
            "task_type": "local_bash",
        });
        let command = call.text("command").to_owned();
        self.tasks.push(BackgroundCommand { task, run_id, command, cancel });
        self.write_task_list()?;
        self.write_message(started)?;
        Ok(outcome)
    }

    fn write_task_list(&mut self) -> Result<(), TurnBreak> {
        let tasks = self.tasks.iter().map(|BackgroundCommand { task, run_id, .. }| {
            json!({
                "task_id": task.id,
                "run_id": run_id,
                "task_type": "local_bash",
                "description": task.description,
            })
        });
        let tasks: Vec<Value> = tasks.collect();
        self.write_message(
            json!({"type": "system", "subtype": "background_tasks_changed", "tasks": tasks}),
        )
    }

    /// The `background_tasks` field of `Stop`.
    pub(super) fn background_tasks_json(&self) -> Vec<Value> {
        self.tasks.iter().map(|started| started.task.command_entry(&started.command)).collect()
    }

    /// Reports a finished command and queues its notification as a separate turn.
    pub(super) fn report_finished_task(
        &mut self,
        id: &str,
        finished: &JobResult,
    ) -> Result<(), TurnBreak> {
        let Some(place) = self.tasks.iter().position(|started| started.task.id == id) else {
            return Ok(());
        };
        let BackgroundCommand { task, run_id, .. } = self.tasks.remove(place);
        let ended = task.finish_command(Some(finished))?;
        self.write_message(json!({
            "type": "system",
            "subtype": "task_updated",
            "task_id": id,
            "run_id": run_id,
            "patch": {"status": ended.status, "end_time": clock::now_ms()},
        }))?;
        self.write_message(json!({
            "type": "system",
            "subtype": "task_notification",
            "task_id": id,
            "run_id": run_id,
            "tool_use_id": task.call_id,
            "status": ended.status,
            "output_file": task.output.to_string_lossy(),
            "summary": ended.summary,
        }))?;
        self.write_task_list()?;
        self.queue.push_back(QueuedPrompt {
            text: task.notification(&ended.to_xml()),
            priority: PromptPriority::Later,
            task_run_id: Some(run_id),
            id: None,
        });
        Ok(())
    }

    /// Cancels all background commands, as when the process exits.
    pub(super) fn cancel_tasks(&mut self) {
        for task in self.tasks.drain(..) {
            task.cancel.cancel();
        }
    }
}

/// The `subagent_stats` of a result. All are zero, because the fake client runs no subagents.
pub(super) fn empty_subagent_stats() -> Value {
    json!({
        "spawned": 0,
        "requested": {"background": 0, "foreground": 0, "unset": 0},
        "started_in_background": 0,
        "max_depth": 0,
        "spawned_by_subagents": 0,
        "completed": 0,
        "failed": 0,
        "killed": {"parent": 0, "user": 0, "system": 0},
        "refused": {"depth_limit": 0, "concurrency_limit": 0, "budget": 0},
        "by_type": {},
    })
}
