//! The model's answers in the format of the Messages API. The simulator and the model server share this code, so both
//! produce the same ids, tool calls and stop reasons.

use crate::scenario::{ScriptedToolCall, ScriptedTurn};
use serde_json::{Value, json};
use std::path::Path;

/// The `description` of a shell command; the client requires one.
const COMMAND_DESCRIPTION: &str = "Run a command";
/// Length of a subagent's title, in characters.
const TITLE_LENGTH: usize = 30;

/// The client's name for the tool, and its input. Relative paths are resolved against the project.
pub fn tool_use(call: &ScriptedToolCall, project: &Path) -> (String, Value) {
    let place = |path: &str| project.join(path).to_string_lossy().into_owned();
    let (name, input) = match call {
        ScriptedToolCall::Bash { command, background } => {
            let mut input = json!({"command": command, "description": COMMAND_DESCRIPTION});
            if *background {
                input["run_in_background"] = json!(true);
            }
            ("Bash", input)
        }
        ScriptedToolCall::Write { path, text } => {
            ("Write", json!({"file_path": place(path), "content": text}))
        }
        ScriptedToolCall::Edit { path, old, new } => {
            ("Edit", json!({"file_path": place(path), "old_string": old, "new_string": new}))
        }
        ScriptedToolCall::Read { path } => ("Read", json!({"file_path": place(path)})),
        ScriptedToolCall::Agent { prompt, kind, background } => {
            let input = json!({
                "description": subagent_title(prompt),
                "prompt": prompt,
                "subagent_type": kind,
                "run_in_background": background,
            });
            ("Agent", input)
        }
        ScriptedToolCall::Other { name, input } => (name.as_str(), input.clone()),
    };
    (name.to_owned(), input)
}

/// The title of a subagent: the beginning of its task.
pub fn subagent_title(task: &str) -> String {
    task.lines().next().unwrap_or_default().chars().take(TITLE_LENGTH).collect()
}

/// The id of the answer to a request. Requests are counted from 1.
pub fn message_id(request: u64) -> String {
    format!("msg_sim_{request:06}")
}

/// The id of a request.
pub fn request_id(request: u64) -> String {
    format!("req_sim_{request:06}")
}

/// The id of a tool call, made of the number of the request and the index of the call within the answer.
pub fn tool_use_id(request: u64, place: usize) -> String {
    format!("toolu_sim_{request:04}_{place:02}")
}

/// The content blocks of an answer.
pub fn content_blocks(turn: &ScriptedTurn, request: u64, project: &Path) -> Vec<Value> {
    let text = (!turn.text.is_empty()).then(|| json!({"type": "text", "text": turn.text}));
    let calls = turn.tools.iter().enumerate().map(|(place, call)| {
        let (name, input) = tool_use(call, project);
        let id = tool_use_id(request, place);
        json!({"type": "tool_use", "id": id, "name": name, "input": input})
    });
    text.into_iter().chain(calls).collect()
}

/// The `stop_reason` of the answer: the scripted one, or the usual one for its content.
pub fn stop_reason(turn: &ScriptedTurn) -> &str {
    let usual = if turn.tools.is_empty() { "end_turn" } else { "tool_use" };
    turn.stop_reason.as_deref().unwrap_or(usual)
}

/// The text of a message's content: a string, or its text blocks joined by newlines.
pub(crate) fn content_text(content: &Value) -> Option<String> {
    match content {
        Value::String(text) => Some(text.clone()),
        Value::Array(blocks) => {
            let texts: Vec<_> = blocks
                .iter()
                .filter(|block| block["type"] == "text")
                .filter_map(|block| block["text"].as_str())
                .collect();
            (!texts.is_empty()).then(|| texts.join("\n"))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_every_call_to_the_clients_tool_name_and_input() {
        let calls = [
            ScriptedToolCall::Bash { command: "make".to_owned(), background: false },
            ScriptedToolCall::Bash { command: "make serve".to_owned(), background: true },
            ScriptedToolCall::Write { path: "a/b.txt".to_owned(), text: "x\n".to_owned() },
            ScriptedToolCall::Edit {
                path: "/etc/hosts".to_owned(),
                old: "a".to_owned(),
                new: "b".to_owned(),
            },
            ScriptedToolCall::Read { path: "a".to_owned() },
            ScriptedToolCall::Agent {
                prompt: "Count the files below `src`, all of them\nand report".to_owned(),
                kind: "Explore".to_owned(),
                background: true,
            },
            ScriptedToolCall::Other {
                name: "TaskUpdate".to_owned(),
                input: json!({"taskId": "1"}),
            },
        ];
        let lines = calls.iter().map(|call| {
            let (name, input) = tool_use(call, Path::new("/project"));
            format!("{name} {input}")
        });
        insta::assert_snapshot!(lines.collect::<Vec<_>>().join("\n"), @r#"
        Bash {"command":"make","description":"Run a command"}
        Bash {"command":"make serve","description":"Run a command","run_in_background":true}
        Write {"content":"x\n","file_path":"/project/a/b.txt"}
        Edit {"file_path":"/etc/hosts","new_string":"b","old_string":"a"}
        Read {"file_path":"/project/a"}
        Agent {"description":"Count the files below `src`, a","prompt":"Count the files below `src`, all of them\nand report","run_in_background":true,"subagent_type":"Explore"}
        TaskUpdate {"taskId":"1"}
        "#);
        assert_eq!(message_id(7), "msg_sim_000007");
        assert_eq!(tool_use_id(12, 3), "toolu_sim_0012_03");
    }
}
