//! Background tasks: the agent may stop while they run, and is notified when they are done.

use super::tool_invocation::{ToolInvocation, ToolOutcome};
use crate::client_ids;
use ralph_sys::fs::{self, FileError, SharedFileMode};
use ralph_sys::proc::job::{JobEnd, JobResult};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Timeout of a background command.
pub(crate) const MAX_COMMAND_TIME: Duration = Duration::from_mins(10);

#[derive(Clone, Debug)]
pub(crate) struct BackgroundTask {
    pub(crate) id: String,
    /// The id of the tool call that started it.
    pub(crate) call_id: String,
    pub(crate) description: String,
    /// The file for its output.
    pub(crate) output: PathBuf,
}

/// How a background command ended.
pub(crate) struct FinishedCommand {
    pub(crate) status: &'static str,
    pub(crate) summary: String,
}

impl BackgroundTask {
    /// A command, whose output goes to a file in `directory`.
    pub(crate) fn command(call: &ToolInvocation, directory: &Path) -> Self {
        let id = client_ids::new_task_id();
        let described = [call.text("description"), call.text("command")];
        let description = described.into_iter().find(|text| !text.is_empty()).unwrap_or_default();
        Self {
            call_id: call.id.clone(),
            description: description.to_owned(),
            output: output_path(directory, &id),
            id,
        }
    }

    /// The result of the call that started a command.
    pub(crate) fn command_started(&self) -> ToolOutcome {
        let response = json!({
            "stdout": "",
            "stderr": "",
            "interrupted": false,
            "isImage": false,
            "noOutputExpected": false,
            "backgroundTaskId": self.id,
        });
        let text = format!(
            "Command running in background with ID: {}. Output is being written to: {}. You will be notified when it \
             completes. To check interim output, use Read on that file path.",
            self.id,
            self.output.display()
        );
        ToolOutcome::Ran { response, text }
    }

    /// Its entry in the `background_tasks` field of `Stop`.
    pub(crate) fn stop_entry(&self, kind: &str) -> Value {
        json!({
            "id": self.id,
            "type": kind,
            "status": "running",
            "description": self.description,
        })
    }

    /// The entry of a command.
    pub(crate) fn command_entry(&self, command: &str) -> Value {
        let mut entry = self.stop_entry("shell");
        entry["command"] = json!(command);
        entry
    }

    /// Writes the output of a command to its file. A command without a result counts as killed.
    pub(crate) fn finish_command(
        &self,
        finished: Option<&JobResult>,
    ) -> Result<FinishedCommand, FileError> {
        if let Some(finished) = finished {
            let text = [finished.output.head.as_slice(), &finished.output.tail].concat();
            self.output.parent().map_or(Ok(()), fs::create_private_dir)?;
            fs::replace_with_mode(&self.output, &text, SharedFileMode::Ordinary)?;
        }
        let (status, how) = match finished.map(|finished| &finished.end) {
            Some(JobEnd::Exited(0)) => ("completed", "completed (exit code 0)".to_owned()),
            Some(JobEnd::Exited(code)) => ("failed", format!("failed with exit code {code}")),
            Some(
                JobEnd::Signalled(_)
                | JobEnd::TimedOut
                | JobEnd::Cancelled
                | JobEnd::CouldNotStart(_)
                | JobEnd::Lost,
            )
            | None => ("killed", "was killed".to_owned()),
        };
        let summary = format!("Background command \"{}\" {how}", self.description);
        Ok(FinishedCommand { status, summary })
    }

    /// The message that wakes the agent. `result` is XML: the status, a summary, and more.
    pub(crate) fn notification(&self, result: &str) -> String {
        format!(
            "<task-notification>\n<task-id>{}</task-id>\n<tool-use-id>{}</tool-use-id>\n<output-file>{}</output-file>\n\
             {result}\n</task-notification>",
            self.id,
            self.call_id,
            self.output.display()
        )
    }
}

impl FinishedCommand {
    pub(crate) fn to_xml(&self) -> String {
        format!("<status>{}</status>\n<summary>{}</summary>", self.status, self.summary)
    }
}

pub(crate) fn output_path(directory: &Path, id: &str) -> PathBuf {
    directory.join("tasks").join(format!("{id}.output"))
}
