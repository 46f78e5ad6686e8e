//! Background commands: the agent may stop while they run, and is woken when they are done.

use super::FakeClientError;
use super::inbox::InboxEvent;
use super::process::{FakeClientProcess, PromptPriority, QueuedPrompt, TurnBreak};
use crate::client_ids;
use crate::simulator::tool_calls::{ToolInvocation, ToolOutcome, shell_tool};
use ralph_sys::clock::{self, Deadline};
use ralph_sys::fs::{self, SharedFileMode};
use ralph_sys::proc::cancel::CancelToken;
use ralph_sys::proc::job::{JobEnd, JobResult};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

const MAX_RUN_TIME: Duration = Duration::from_mins(10);

pub(super) struct BackgroundCommand {
    id: String,
    run_id: String,
    /// The id of the tool call that started it.
    call_id: String,
    command: String,
    description: String,
    output: PathBuf,
    cancel: Arc<CancelToken>,
}

impl FakeClientProcess<'_> {
    pub(super) fn start_background_command(
        &mut self,
        call: &ToolInvocation,
    ) -> Result<ToolOutcome, TurnBreak> {
        let order = self.shell_launch(call)?;
        let cancel = CancelToken::new().map(Arc::new);
        let cancel = cancel.map_err(|error| TurnBreak::Error(FakeClientError::Cancel(error)))?;
        let id = client_ids::new_task_id();
        let (bell, theirs, named) = (self.inbox.sender(), Arc::clone(&cancel), id.clone());
        std::thread::spawn(move || {
            let finished =
                shell_tool::supervise_command(&order, Deadline::after(MAX_RUN_TIME), &theirs);
            bell.send(InboxEvent::Task(named, Box::new(finished)));
        });
        let text = |name: &str| call.input.get(name).and_then(Value::as_str).map(str::to_owned);
        let command = text("command").unwrap_or_default();
        let task = BackgroundCommand {
            run_id: client_ids::new_agent_id(),
            call_id: call.id.clone(),
            description: text("description").unwrap_or_else(|| command.clone()),
            command,
            output: self.session_directory().join("tasks").join(format!("{id}.output")),
            cancel,
            id,
        };
        let response = json!({
            "stdout": "",
            "stderr": "",
            "interrupted": false,
            "isImage": false,
            "noOutputExpected": false,
            "backgroundTaskId": task.id,
        });
        let text = format!(
            "Command running in background with ID: {}. Output is being written to: {}. You will be notified when it \
             completes. To check interim output, use Read on that file path.",
            task.id,
            task.output.display()
        );
        let started = json!({
            "type": "system",
            "subtype": "task_started",
            "task_id": task.id,
            "run_id": task.run_id,
            "tool_use_id": task.call_id,
            "description": task.description,
            "is_backgrounded": true,
            "task_type": "local_bash",
        });
        self.tasks.push(task);
        self.write_task_list()?;
        self.write_message(started)?;
        Ok(ToolOutcome::Ran { response, text })
    }

    fn write_task_list(&mut self) -> Result<(), TurnBreak> {
        let tasks = self.tasks.iter().map(|task| {
            json!({
                "task_id": task.id,
                "run_id": task.run_id,
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
        let listed = self.tasks.iter().map(|task| {
            json!({
                "id": task.id,
                "type": "shell",
                "status": "running",
                "description": task.description,
                "command": task.command,
            })
        });
        listed.collect()
    }

    /// Reports a finished command and queues its notification as a separate turn.
    pub(super) fn report_finished_task(
        &mut self,
        id: &str,
        finished: &JobResult,
    ) -> Result<(), TurnBreak> {
        let Some(place) = self.tasks.iter().position(|task| task.id == id) else { return Ok(()) };
        let task = self.tasks.remove(place);
        let bytes = [finished.output.head.as_slice(), &finished.output.tail].concat();
        task.output.parent().map_or(Ok(()), fs::create_private_dir)?;
        fs::replace_with_mode(&task.output, &bytes, SharedFileMode::Ordinary)?;
        let BackgroundCommand { description, output, call_id: call, run_id: run, .. } = &task;
        let (status, how) = match finished.end {
            JobEnd::Exited(0) => ("completed", "completed (exit code 0)".to_owned()),
            JobEnd::Exited(code) => ("failed", format!("failed with exit code {code}")),
            JobEnd::Signalled(_)
            | JobEnd::TimedOut
            | JobEnd::Cancelled
            | JobEnd::CouldNotStart(_)
            | JobEnd::Lost => ("killed", "was killed".to_owned()),
        };
        let summary = format!("Background command \"{description}\" {how}");
        self.write_message(json!({
            "type": "system",
            "subtype": "task_updated",
            "task_id": id,
            "run_id": run,
            "patch": {"status": status, "end_time": clock::now_ms()},
        }))?;
        self.write_message(json!({
            "type": "system",
            "subtype": "task_notification",
            "task_id": id,
            "run_id": run,
            "tool_use_id": call,
            "status": status,
            "output_file": output.to_string_lossy(),
            "summary": summary,
        }))?;
        self.write_task_list()?;
        let text = format!(
            "<task-notification>\n<task-id>{id}</task-id>\n<tool-use-id>{call}</tool-use-id>\n<output-file>{}\
             </output-file>\n<status>{status}</status>\n<summary>{summary}</summary>\n</task-notification>",
            output.display()
        );
        let task = Some(run.clone());
        self.queue.push_back(QueuedPrompt {
            text,
            priority: PromptPriority::Later,
            task_run_id: task,
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
