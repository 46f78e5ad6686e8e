//! Background commands: the agent may stop while they run, and is woken when they are done.

use super::PretendError;
use super::client::{Break, Client, Priority, Prompt};
use super::inbox::Event;
use crate::id;
use crate::query::tools::{Call, Done, shell};
use ralph_sys::clock::{self, Deadline};
use ralph_sys::fs::{self, Mode};
use ralph_sys::proc::cancel::Cancel;
use ralph_sys::proc::job::{Finished, How};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

const LONGEST: Duration = Duration::from_mins(10);

pub(super) struct Task {
    id: String,
    run: String,
    /// The id of the tool call that started it.
    call: String,
    command: String,
    description: String,
    output: PathBuf,
    cancel: Arc<Cancel>,
}

impl Client<'_> {
    pub(super) fn start_task(&mut self, call: &Call) -> Result<Done, Break> {
        let order = self.order(call)?;
        let cancel = Cancel::new().map(Arc::new);
        let cancel = cancel.map_err(|error| Break::Trouble(PretendError::Cancel(error)))?;
        let id = id::task();
        let (bell, theirs, named) = (self.inbox.bell(), Arc::clone(&cancel), id.clone());
        std::thread::spawn(move || {
            let finished = shell::supervise(&order, Deadline::after(LONGEST), &theirs);
            bell.ring(Event::Task(named, Box::new(finished)));
        });
        let text = |name: &str| call.input.get(name).and_then(Value::as_str).map(str::to_owned);
        let command = text("command").unwrap_or_default();
        let task = Task {
            run: id::agent(),
            call: call.id.clone(),
            description: text("description").unwrap_or_else(|| command.clone()),
            command,
            output: self.scratch().join("tasks").join(format!("{id}.output")),
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
            "run_id": task.run,
            "tool_use_id": task.call,
            "description": task.description,
            "is_backgrounded": true,
            "task_type": "local_bash",
        });
        self.tasks.push(task);
        self.tell_tasks()?;
        self.tell(started)?;
        Ok(Done::Ran { response, text })
    }

    fn tell_tasks(&mut self) -> Result<(), Break> {
        let tasks = self.tasks.iter().map(|task| {
            json!({
                "task_id": task.id,
                "run_id": task.run,
                "task_type": "local_bash",
                "description": task.description,
            })
        });
        let tasks: Vec<Value> = tasks.collect();
        self.tell(json!({"type": "system", "subtype": "background_tasks_changed", "tasks": tasks}))
    }

    /// The `background_tasks` field of `Stop`.
    pub(super) fn listed_tasks(&self) -> Vec<Value> {
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
    pub(super) fn note_task(&mut self, id: &str, finished: &Finished) -> Result<(), Break> {
        let Some(place) = self.tasks.iter().position(|task| task.id == id) else { return Ok(()) };
        let task = self.tasks.remove(place);
        let bytes = [finished.output.head.as_slice(), &finished.output.tail].concat();
        task.output.parent().map_or(Ok(()), fs::create_dir)?;
        fs::put(&task.output, &bytes, Mode::Ordinary)?;
        let Task { description, output, call, run, .. } = &task;
        let (status, how) = match finished.how {
            How::Exited(0) => ("completed", "completed (exit code 0)".to_owned()),
            How::Exited(code) => ("failed", format!("failed with exit code {code}")),
            How::Signalled(_)
            | How::TimedOut
            | How::Cancelled
            | How::CouldNotStart(_)
            | How::Lost => ("killed", "was killed".to_owned()),
        };
        let summary = format!("Background command \"{description}\" {how}");
        self.tell(json!({
            "type": "system",
            "subtype": "task_updated",
            "task_id": id,
            "run_id": run,
            "patch": {"status": status, "end_time": clock::now_ms()},
        }))?;
        self.tell(json!({
            "type": "system",
            "subtype": "task_notification",
            "task_id": id,
            "run_id": run,
            "tool_use_id": call,
            "status": status,
            "output_file": output.to_string_lossy(),
            "summary": summary,
        }))?;
        self.tell_tasks()?;
        let text = format!(
            "<task-notification>\n<task-id>{id}</task-id>\n<tool-use-id>{call}</tool-use-id>\n<output-file>{}\
             </output-file>\n<status>{status}</status>\n<summary>{summary}</summary>\n</task-notification>",
            output.display()
        );
        let task = Some(run.clone());
        self.queue.push_back(Prompt { text, priority: Priority::Later, task, id: None });
        Ok(())
    }

    /// Cancels all background commands, as when the process exits.
    pub(super) fn end_tasks(&mut self) {
        for task in self.tasks.drain(..) {
            task.cancel.wish();
        }
    }
}

/// The `subagent_stats` of a result. All are zero, because the fake client runs no subagents.
pub(super) fn subagent_stats() -> Value {
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
