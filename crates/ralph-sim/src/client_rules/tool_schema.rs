//! Validates the input of tool calls. An invalid call never runs.

use super::tool_invocation::ToolInvocation;

/// Tools of the client that are not simulated: a call gets a placeholder result.
const UNSIMULATED_TOOLS: [&str; 18] = [
    "AskUserQuestion",
    "CronCreate",
    "CronDelete",
    "CronList",
    "EnterPlanMode",
    "ExitPlanMode",
    "Glob",
    "Grep",
    "ListAgents",
    "Monitor",
    "NotebookEdit",
    "ScheduleWakeup",
    "SendMessage",
    "Skill",
    "TodoWrite",
    "WebFetch",
    "WebSearch",
    "Workflow",
];

struct ToolInputSchema {
    required: &'static [&'static str],
    optional: &'static [&'static str],
}

fn input_schema(name: &str) -> Option<ToolInputSchema> {
    let (required, optional): (&'static [&'static str], &'static [&'static str]) = match name {
        "Bash" => (
            &["command"],
            &["description", "timeout", "run_in_background", "dangerouslyDisableSandbox"],
        ),
        "Write" => (&["file_path", "content"], &[]),
        "Edit" => (&["file_path", "old_string", "new_string"], &["replace_all"]),
        "Read" => (&["file_path"], &["offset", "limit", "pages"]),
        "Agent" => (
            &["description", "prompt"],
            &["subagent_type", "run_in_background", "model", "effort", "name", "isolation"],
        ),
        "TaskCreate" => (&["subject", "description"], &["activeForm", "metadata"]),
        "TaskUpdate" => (
            &["taskId"],
            &[
                "status",
                "subject",
                "description",
                "activeForm",
                "owner",
                "addBlocks",
                "addBlockedBy",
                "metadata",
            ],
        ),
        "TaskList" => (&[], &[]),
        "ToolSearch" => (&["query"], &["max_results"]),
        _ => return None,
    };
    Some(ToolInputSchema { required, optional })
}

/// The client's message for an invalid call.
pub(crate) fn call_error(call: &ToolInvocation) -> Option<String> {
    let name = call.name.as_str();
    if input_schema(name).is_none() && !UNSIMULATED_TOOLS.contains(&name) {
        return Some(format!(
            "<tool_use_error>Error: No such tool available: {name}</tool_use_error>"
        ));
    }
    let issues = input_issues(call)?;
    Some(format!("<tool_use_error>InputValidationError: {issues}</tool_use_error>"))
}

/// All problems with the input of a call.
fn input_issues(call: &ToolInvocation) -> Option<String> {
    let ToolInputSchema { required, optional } = input_schema(&call.name)?;
    let given = call.input.as_object().into_iter().flat_map(|input| input.keys());
    let unexpected = given
        .filter(|name| !required.contains(&name.as_str()) && !optional.contains(&name.as_str()))
        .map(|name| format!("An unexpected parameter `{name}` was provided"));
    let issues: Vec<String> = missing_fields(call).into_iter().chain(unexpected).collect();
    format_issues(call, &issues)
}

/// Missing fields of an input that a hook rewrote.
pub(crate) fn missing_fields_error(call: &ToolInvocation) -> Option<String> {
    format_issues(call, &missing_fields(call))
}

fn missing_fields(call: &ToolInvocation) -> Vec<String> {
    let required = input_schema(&call.name).map(|schema| schema.required).unwrap_or_default();
    let missing = required.iter().filter(|name| call.input.get(**name).is_none());
    missing.map(|name| format!("The required parameter `{name}` is missing")).collect()
}

pub(super) fn format_issues(call: &ToolInvocation, issues: &[String]) -> Option<String> {
    let what = match issues.len() {
        0 => return None,
        1 => "issue",
        _ => "issues",
    };
    Some(format!("{} failed due to the following {what}:\n{}", call.name, issues.join("\n")))
}
