//! The tools of an agent that answers a hook: it reports its verdict by a tool call, and asks for no permission.

use super::tool_invocation::{ToolInvocation, ToolOutcome};
use super::tool_schema;
use crate::hook_answer::json_type;
use serde_json::json;
use std::path::{Component, Path};

pub(crate) const VERDICT_TOOL: &str = "StructuredOutput";
/// The message after an answer without a tool call. The client asks once.
pub(crate) const VERDICT_REMINDER: &str = "[structured-output-enforce] You MUST call the StructuredOutput tool to complete this request. Call this \
    tool now.";
const VERDICT_RECEIPT: &str = "Structured output provided successfully";

/// The tools that the client offers, beside those that load others.
const OFFERED_TOOLS: [&str; 8] =
    ["Bash", "Edit", "ListAgents", "Read", "Skill", VERDICT_TOOL, "ToolSearch", "Write"];

/// Commands that were observed to run without a permission. The client knows more.
const READING_COMMANDS: [&str; 6] = ["cat", "echo", "grep", "ls", "sleep", "true"];

/// The client's message for an invalid call.
pub(crate) fn hook_agent_call_error(call: &ToolInvocation) -> Option<String> {
    let name = call.name.as_str();
    if !OFFERED_TOOLS.contains(&name) {
        return Some(format!(
            "<tool_use_error>Error: No such tool available: {name}. {name} is not among the tools available here. Continue \
             with the tools you have.</tool_use_error>"
        ));
    }
    if name != VERDICT_TOOL {
        return tool_schema::call_error(call);
    }
    let issues: Vec<String> = [("ok", "boolean"), ("reason", "string"), ("impossible", "boolean")]
        .into_iter()
        .filter_map(|(field, wanted)| verdict_issue(call, field, wanted))
        .collect();
    let issues = tool_schema::format_issues(call, &issues)?;
    Some(format!("<tool_use_error>InputValidationError: {issues}</tool_use_error>"))
}

fn verdict_issue(call: &ToolInvocation, field: &str, wanted: &str) -> Option<String> {
    match call.input.get(field) {
        None if field == "ok" => Some(format!("The required parameter `{field}` is missing")),
        None => None,
        given if json_type(given) == wanted => None,
        given => Some(format!(
            "The parameter `{field}` type is expected as `{wanted}` but provided as `{}`",
            json_type(given)
        )),
    }
}

/// The result of a verdict.
pub(crate) fn accept_verdict() -> ToolOutcome {
    ToolOutcome::Ran { response: json!(VERDICT_RECEIPT), text: VERDICT_RECEIPT.to_owned() }
}

/// The client's message for a call that would need a permission. Only a hook can give it.
pub(crate) fn permission_denial(
    call: &ToolInvocation,
    project: &Path,
    transcript: &Path,
) -> Option<String> {
    let is_permitted = match call.name.as_str() {
        "Read" => is_readable(&project.join(call.text("file_path")), project, transcript),
        "Bash" => is_reading_command(call.text("command")),
        "Write" | "Edit" => false,
        _ => true,
    };
    (!is_permitted).then(|| {
        format!(
            "Permission to use {} has been denied because Claude Code is running in don't ask mode. IMPORTANT: You *may* \
             attempt to accomplish this action using other tools that might naturally be used to accomplish this goal, \
             e.g. using head instead of cat. But you *should not* attempt to work around this denial in malicious ways, \
             e.g. do not use your ability to run tests to execute non-test actions. You should only try to work around \
             this restriction in reasonable ways that do not attempt to bypass the intent behind this denial. If you \
             believe this capability is essential to complete the user's request, STOP and explain to the user what you \
             were trying to do and why you need this permission. Let the user decide how to proceed.",
            call.name
        )
    })
}

/// An agent may read the project and the transcript of the session.
fn is_readable(path: &Path, project: &Path, transcript: &Path) -> bool {
    let is_plain = path.components().all(|part| part != Component::ParentDir);
    is_plain && (path.starts_with(project) || path == transcript)
}

fn is_reading_command(command: &str) -> bool {
    if command.trim().is_empty() || command.contains(['>', '<', '`', '$', '(', '\n']) {
        return false;
    }
    command.split(['|', '&', ';']).map(str::trim).filter(|part| !part.is_empty()).all(|part| {
        let mut words = part.split_whitespace();
        match words.next() {
            Some("git") => words.next() == Some("status"),
            Some(program) => READING_COMMANDS.contains(&program),
            None => false,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn call(name: &str, input: Value) -> ToolInvocation {
        ToolInvocation { name: name.to_owned(), input, id: "t".to_owned() }
    }

    /// As observed in the client: reading is free, everything else is denied without a question.
    #[test]
    fn only_reading_needs_no_permission() {
        let (project, transcript) = (Path::new("/p"), Path::new("/home/s.jsonl"));
        let is_denied = |name: &str, input: Value| {
            permission_denial(&call(name, input), project, transcript).is_some()
        };
        for command in ["cat app.py", "ls", "cat app.py | grep b", "echo a && echo b", "git status"]
        {
            assert!(!is_denied("Bash", json!({"command": command})), "{command}");
        }
        for command in ["sh app.py", "echo hacked > app.py; pwd", "python3 -c 1", "", "git push"] {
            assert!(is_denied("Bash", json!({"command": command})), "{command}");
        }
        for path in ["app.py", "/p/a/b", "/home/s.jsonl"] {
            assert!(!is_denied("Read", json!({"file_path": path})), "{path}");
        }
        for path in ["/etc/hostname", "../secret", "/p/../etc/hostname", "/home/other.jsonl"] {
            assert!(is_denied("Read", json!({"file_path": path})), "{path}");
        }
        assert!(is_denied("Write", json!({"file_path": "/p/new.txt", "content": "x"})));
        assert!(!is_denied(VERDICT_TOOL, json!({"ok": true})));
    }

    #[test]
    fn a_verdict_needs_its_types() {
        let error = |input: Value| hook_agent_call_error(&call(VERDICT_TOOL, input));
        assert_eq!(error(json!({"ok": false, "reason": "no", "impossible": true})), None);
        let text = |issue: &str| {
            Some(format!(
                "<tool_use_error>InputValidationError: StructuredOutput failed due to the following issue:\n{issue}\
                 </tool_use_error>"
            ))
        };
        let wrong = "The parameter `ok` type is expected as `boolean` but provided as `string`";
        assert_eq!(error(json!({"ok": "no"})), text(wrong));
        assert_eq!(error(json!({})), text("The required parameter `ok` is missing"));
        let agent = hook_agent_call_error(&call("Agent", json!({}))).unwrap();
        assert!(agent.contains("Agent is not among the tools available here"), "{agent}");
    }
}
