//! The tools of Claude Code's agent.

use crate::profile::ToolVocabulary;
use crate::tool_effect::{FileAccess, ToolEffect};
use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec;
use serde::Deserialize;
use serde_json::value::RawValue;

pub(super) const TOOLS: ToolVocabulary =
    ToolVocabulary { parse_call, edit_tools: &["Edit", "MultiEdit", "NotebookEdit", "Write"] };

/// Tools that change no file. Any other tool may, also one that this version does not know.
pub(super) const READING_TOOLS: [&str; 16] = [
    "AskUserQuestion",
    "BashOutput",
    "ExitPlanMode",
    "Glob",
    "Grep",
    "LS",
    "ListMcpResourcesTool",
    "NotebookRead",
    "Read",
    "ReadMcpResourceTool",
    "TaskGet",
    "TaskList",
    "TodoWrite",
    "ToolSearch",
    "WebFetch",
    "WebSearch",
];

/// The relevant inputs, unparsed, so that an unexpected type in one does not affect the others.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ToolInputWire<'a> {
    #[serde(borrow)]
    command: Option<&'a RawValue>,
    #[serde(borrow)]
    file_path: Option<&'a RawValue>,
    #[serde(borrow)]
    notebook_path: Option<&'a RawValue>,
    #[serde(borrow)]
    path: Option<&'a RawValue>,
    #[serde(borrow)]
    source: Option<&'a RawValue>,
    #[serde(borrow)]
    destination: Option<&'a RawValue>,
    #[serde(borrow)]
    prompt: Option<&'a RawValue>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    #[serde(borrow)]
    skill: Option<&'a RawValue>,
}

#[derive(Clone, Copy)]
enum ToolKind {
    Shell,
    WritesFile,
    ReadsFile,
    SendsPrompt,
    /// A tool of an MCP server. Its name suggests whether it changes files.
    McpTool,
}

fn tool_kind(tool: &str) -> Option<ToolKind> {
    Some(match tool {
        "Bash" | "Monitor" => ToolKind::Shell,
        "Write" | "Edit" | "MultiEdit" | "NotebookEdit" => ToolKind::WritesFile,
        "Read" | "NotebookRead" | "Grep" => ToolKind::ReadsFile,
        "Skill" | "SlashCommand" | "Agent" | "Task" | "CronCreate" | "ScheduleWakeup"
        | "SendMessage" | "RemoteTrigger" | "TaskCreate" => ToolKind::SendsPrompt,
        _ if tool.starts_with("mcp__") => ToolKind::McpTool,
        _ => return None,
    })
}

fn parse_call<'a>(tool: &str, input: &'a RawValue) -> Option<ToolEffect<'a>> {
    let kind = tool_kind(tool)?;
    let input: ToolInputWire<'_> = serde_json::from_str(input.get()).ok()?;
    Some(match kind {
        ToolKind::Shell => ToolEffect::RunsScript(read_string(input.command)?),
        ToolKind::WritesFile => {
            let path = read_string(input.file_path).or_else(|| read_string(input.notebook_path))?;
            ToolEffect::TouchesFiles { paths: vec![path], access: FileAccess::Write }
        }
        ToolKind::ReadsFile => {
            let path = read_string(input.file_path).or_else(|| read_string(input.path))?;
            ToolEffect::TouchesFiles { paths: vec![path], access: FileAccess::Read }
        }
        ToolKind::SendsPrompt => {
            let texts = [input.prompt, input.command, input.message];
            ToolEffect::SendsPrompt {
                skill: read_string(input.skill),
                texts: texts.into_iter().filter_map(read_string).collect(),
            }
        }
        ToolKind::McpTool => mcp_effect(tool, &input),
    })
}

fn mcp_effect<'a>(tool: &str, input: &ToolInputWire<'a>) -> ToolEffect<'a> {
    if let Some(script) = read_string(input.command) {
        return ToolEffect::RunsScript(script);
    }
    let changes = ["write", "edit", "create", "move", "delete", "remove", "append", "rename"];
    let name = tool.rsplit("__").next().unwrap_or_default();
    let changes_files = changes.iter().any(|word| name.contains(word));
    let paths = [input.path, input.file_path, input.source, input.destination];
    ToolEffect::TouchesFiles {
        paths: paths.into_iter().filter_map(read_string).collect(),
        access: if changes_files { FileAccess::Remove } else { FileAccess::Read },
    }
}

fn read_string(field: Option<&RawValue>) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    struct RawJsonText<'a>(#[serde(borrow)] Cow<'a, str>);
    let raw = field?.get();
    match serde_json::from_str(raw) {
        Ok(RawJsonText(text)) => Some(text),
        // An unpaired surrogate is not valid text, but the rest must still be judged.
        Err(_) if raw.starts_with('"') => {
            let whole = raw.replace("\\ud", "\\u00d").replace("\\uD", "\\u00d");
            serde_json::from_str(&whole).ok().map(|text: String| Cow::Owned(text))
        }
        Err(_) => None,
    }
}
