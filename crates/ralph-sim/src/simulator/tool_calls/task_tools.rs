//! The session's task list. Hooks may block the creation and the completion of tasks.

use crate::client_rules::event_outcome::DispatchedEvent;
use crate::client_rules::hook_input::SharedInputFields;
use crate::client_rules::tool_invocation::{ToolInvocation, ToolOutcome};
use crate::simulator::client_process::SimulatedClient;
use crate::simulator::conversation::SimulatedConversation;
use crate::simulator::hook_dispatch::fire_event;
use serde_json::{Value, json};

/// The variable that enables the task tools for newer models.
const TASK_TOOLS_VARIABLE: &str = "CLAUDE_CODE_ENABLE_TODO_TOOLS";
const OLDER_MODELS: [&str; 2] = ["-4-5", "-4-1"];

#[derive(Debug, Default)]
pub(in crate::simulator) struct SimulatedTaskList {
    list: Vec<SimulatedTask>,
    count: u32,
}

#[derive(Clone, Debug)]
struct SimulatedTask {
    id: String,
    subject: String,
    description: String,
    status: String,
}

/// The client's message for a task tool that is disabled.
pub(super) fn task_tool_refusal(
    host: &mut SimulatedClient<'_>,
    call: &ToolInvocation,
) -> Option<String> {
    let name = &call.name;
    let model = host.scenario.client.model.as_deref().unwrap_or_default();
    let is_older = OLDER_MODELS.iter().any(|part| model.contains(part));
    let is_ours = matches!(name.as_str(), "TaskCreate" | "TaskUpdate" | "TaskList");
    if !is_ours || is_older || host.variable(TASK_TOOLS_VARIABLE).is_some_and(|value| value == "1")
    {
        return None;
    }
    Some(format!(
        "<tool_use_error>Error: No such tool available: {name}. {name} is disabled for this session, in subagents as well \
         as here.</tool_use_error>"
    ))
}

pub(super) fn create_task(
    host: &mut SimulatedClient<'_>,
    chat: &SimulatedConversation,
    call: &ToolInvocation,
) -> ToolOutcome {
    host.tasks.count += 1;
    let task = SimulatedTask {
        id: host.tasks.count.to_string(),
        subject: call.text("subject").to_owned(),
        description: call.text("description").to_owned(),
        status: "pending".to_owned(),
    };
    if let Some(objection) = fire_task_event(host, chat, "TaskCreated", &task) {
        return ToolOutcome::Failed { text: objection.trim_end().to_owned() };
    }
    let SimulatedTask { id, subject, description, .. } = &task;
    let response = json!({"task": {"id": id, "subject": subject, "description": description}});
    let text = format!("Task #{id} created successfully: {subject}");
    host.tasks.list.push(task);
    ToolOutcome::Ran { response, text }
}

pub(super) fn update_task(
    host: &mut SimulatedClient<'_>,
    chat: &SimulatedConversation,
    call: &ToolInvocation,
) -> ToolOutcome {
    let id = call.text("taskId");
    let Some(task) = host.tasks.list.iter().find(|task| task.id == id).cloned() else {
        return ToolOutcome::Failed { text: "Task not found".to_owned() };
    };
    let status = call.input.get("status").and_then(Value::as_str).unwrap_or(&task.status);
    if status == "completed"
        && let Some(objection) = fire_task_event(host, chat, "TaskCompleted", &task)
    {
        let response =
            json!({"success": false, "taskId": id, "updatedFields": [], "error": objection});
        return ToolOutcome::Ran { response, text: objection };
    }
    let response = json!({
        "success": true,
        "taskId": id,
        "updatedFields": ["status"],
        "statusChange": {"from": task.status, "to": status},
    });
    if let Some(task) = host.tasks.list.iter_mut().find(|task| task.id == id) {
        status.clone_into(&mut task.status);
    }
    ToolOutcome::Ran { response, text: format!("Updated task #{id} status") }
}

pub(super) fn list_tasks(host: &SimulatedClient<'_>) -> ToolOutcome {
    let tasks = host.tasks.list.iter().map(|task| {
        json!({"id": task.id, "subject": task.subject, "status": task.status, "blockedBy": []})
    });
    let lines = host.tasks.list.iter();
    let lines = lines.map(|task| format!("#{} [{}] {}", task.id, task.status, task.subject));
    let text = lines.collect::<Vec<_>>().join("\n");
    let text = if text.is_empty() { "No tasks found".to_owned() } else { text };
    ToolOutcome::Ran { response: json!({"tasks": tasks.collect::<Vec<_>>()}), text }
}

/// Fires a task event and returns the objection of a hook, if any.
fn fire_task_event(
    host: &mut SimulatedClient<'_>,
    chat: &SimulatedConversation,
    event: &'static str,
    task: &SimulatedTask,
) -> Option<String> {
    let input = host
        .hook_input(event, SharedInputFields::Neither, chat.agent.as_ref())
        .with("task_id", task.id.clone())
        .with("task_subject", task.subject.clone())
        .with("task_description", task.description.clone());
    let outcome =
        fire_event(host, DispatchedEvent { event, subject: None, agent: chat.lane(), input });
    host.emit_hook(&outcome, outcome.block_effect());
    outcome.task_objection()
}
