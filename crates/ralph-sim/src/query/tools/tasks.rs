//! The session's task list. Hooks may block the creation and the completion of tasks.

use super::{Call, Done};
use crate::query::conversation::Conversation;
use crate::query::hooks::{Telling, tell};
use crate::query::host::{Host, Shared};
use crate::timeline::Effect;
use serde_json::{Value, json};

/// The variable that enables the task tools for newer models.
const VARIABLE: &str = "CLAUDE_CODE_ENABLE_TODO_TOOLS";
const OLDER_MODELS: [&str; 2] = ["-4-5", "-4-1"];

#[derive(Debug, Default)]
pub(in crate::query) struct Tasks {
    list: Vec<Task>,
    count: u32,
}

#[derive(Clone, Debug)]
struct Task {
    id: String,
    subject: String,
    description: String,
    status: String,
}

/// The client's message for a task tool that is disabled.
pub(super) fn refusal(host: &mut Host<'_>, call: &Call) -> Option<String> {
    let name = &call.name;
    let model = host.scenario.client.model.as_deref().unwrap_or_default();
    let is_older = OLDER_MODELS.iter().any(|part| model.contains(part));
    let is_ours = matches!(name.as_str(), "TaskCreate" | "TaskUpdate" | "TaskList");
    if !is_ours || is_older || host.variable(VARIABLE).is_some_and(|value| value == "1") {
        return None;
    }
    Some(format!(
        "<tool_use_error>Error: No such tool available: {name}. {name} is disabled for this session, in subagents as well \
         as here.</tool_use_error>"
    ))
}

fn field<'a>(call: &'a Call, name: &str) -> &'a str {
    call.input.get(name).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn create(host: &mut Host<'_>, chat: &Conversation, call: &Call) -> Done {
    host.tasks.count += 1;
    let task = Task {
        id: host.tasks.count.to_string(),
        subject: field(call, "subject").to_owned(),
        description: field(call, "description").to_owned(),
        status: "pending".to_owned(),
    };
    if let Some(objection) = objection(host, chat, "TaskCreated", &task) {
        return Done::Failed { text: objection.trim_end().to_owned() };
    }
    let Task { id, subject, description, .. } = &task;
    let response = json!({"task": {"id": id, "subject": subject, "description": description}});
    let text = format!("Task #{id} created successfully: {subject}");
    host.tasks.list.push(task);
    Done::Ran { response, text }
}

pub(super) fn update(host: &mut Host<'_>, chat: &Conversation, call: &Call) -> Done {
    let id = field(call, "taskId");
    let Some(task) = host.tasks.list.iter().find(|task| task.id == id).cloned() else {
        return Done::Failed { text: "Task not found".to_owned() };
    };
    let status = call.input.get("status").and_then(Value::as_str).unwrap_or(&task.status);
    if status == "completed"
        && let Some(objection) = objection(host, chat, "TaskCompleted", &task)
    {
        let response =
            json!({"success": false, "taskId": id, "updatedFields": [], "error": objection});
        return Done::Ran { response, text: objection };
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
    Done::Ran { response, text: format!("Updated task #{id} status") }
}

pub(super) fn list(host: &Host<'_>) -> Done {
    let tasks = host.tasks.list.iter().map(|task| {
        json!({"id": task.id, "subject": task.subject, "status": task.status, "blockedBy": []})
    });
    let lines = host.tasks.list.iter();
    let lines = lines.map(|task| format!("#{} [{}] {}", task.id, task.status, task.subject));
    let text = lines.collect::<Vec<_>>().join("\n");
    let text = if text.is_empty() { "No tasks found".to_owned() } else { text };
    Done::Ran { response: json!({"tasks": tasks.collect::<Vec<_>>()}), text }
}

/// Fires a task event and returns the objection of a hook, if any.
fn objection(
    host: &mut Host<'_>,
    chat: &Conversation,
    event: &'static str,
    task: &Task,
) -> Option<String> {
    let input = host
        .input(event, Shared::Neither, chat.agent.as_ref())
        .with("task_id", task.id.clone())
        .with("task_subject", task.subject.clone())
        .with("task_description", task.description.clone());
    let told = tell(host, Telling { event, subject: None, agent: chat.lane(), input });
    let reasons = told.reasons();
    let effect = if reasons.is_empty() { Effect::Allowed } else { Effect::Blocked { reasons } };
    host.show(&told, effect);
    told.objection()
}
