//! Extracts from a tool's input what the tool would touch. Tool names are those of Claude Code.

use super::denial_text::deny;
use super::guarded_path::PathUse;
use super::loosening::{is_person_command, person_command};
use super::shell_state::{ShellState, TOKEN_BUDGET, judge_shell_script};
use super::word_expansion::WordSpelling;
use super::{DeniedCall, GuardContext, GuardScope, GuardTarget, GuardedCall, prescan};
use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use core::cell::Cell;
use serde::Deserialize;
use serde_json::value::RawValue;

/// Longer commands are judged by their beginning.
const MAX_COMMAND_BYTES: usize = 2 << 20;

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

enum GuardedToolKind {
    Shell,
    WritesFile,
    ReadsFile,
    /// Starts a conversation or sends a message to one.
    SendsPrompt,
    /// A tool of an MCP server. Its name suggests whether it changes files.
    McpTool,
}

fn guarded_tool_kind(tool: &str) -> Option<GuardedToolKind> {
    Some(match tool {
        "Bash" | "Monitor" => GuardedToolKind::Shell,
        "Write" | "Edit" | "MultiEdit" | "NotebookEdit" => GuardedToolKind::WritesFile,
        "Read" | "NotebookRead" | "Grep" => GuardedToolKind::ReadsFile,
        "Skill" | "SlashCommand" | "Agent" | "Task" | "CronCreate" | "ScheduleWakeup"
        | "SendMessage" | "RemoteTrigger" | "TaskCreate" => GuardedToolKind::SendsPrompt,
        _ if tool.starts_with("mcp__") => GuardedToolKind::McpTool,
        _ => return None,
    })
}

pub(super) fn judge_tool_call(
    call: &GuardedCall<'_>,
    ground: &GuardContext<'_>,
) -> Option<DeniedCall> {
    let kind = guarded_tool_kind(call.tool)?;
    let input: ToolInputWire<'_> = serde_json::from_str(call.input.get()).ok()?;
    let tool = call.tool;
    match kind {
        GuardedToolKind::Shell => judge_command_text(&read_string(input.command)?, ground),
        GuardedToolKind::WritesFile => {
            let path = read_string(input.file_path).or_else(|| read_string(input.notebook_path))?;
            judge_file((&path, PathUse::Write), tool, ground)
        }
        GuardedToolKind::ReadsFile => {
            let path = read_string(input.file_path).or_else(|| read_string(input.path))?;
            judge_file((&path, PathUse::Read), tool, ground)
        }
        GuardedToolKind::SendsPrompt => judge_prompt(&input, tool, ground),
        GuardedToolKind::McpTool => {
            if let Some(script) = read_string(input.command) {
                return judge_command_text(&script, ground);
            }
            let changes =
                ["write", "edit", "create", "move", "delete", "remove", "append", "rename"];
            let name = tool.rsplit("__").next().unwrap_or_default();
            let touch = if changes.iter().any(|word| name.contains(word)) {
                PathUse::Remove
            } else {
                PathUse::Read
            };
            [input.path, input.file_path, input.source, input.destination]
                .into_iter()
                .filter_map(read_string)
                .find_map(|path| judge_file((&path, touch), tool, ground))
        }
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

fn judge_command_text(script: &str, ground: &GuardContext<'_>) -> Option<DeniedCall> {
    let end = script.len().min(MAX_COMMAND_BYTES);
    let end = (0..=end).rev().find(|end| script.is_char_boundary(*end))?;
    let script = script.get(..end)?;
    if !prescan::needs_parsing(script) {
        return None;
    }
    judge_shell_script(script, &mut ShellState::new(ground, &Cell::new(TOKEN_BUDGET)))
}

fn judge_file(
    (path, touch): (&str, PathUse),
    tool: &str,
    ground: &GuardContext<'_>,
) -> Option<DeniedCall> {
    let mut spelling = WordSpelling::literal(path);
    if let (Some(rest), Some(home)) = (path.strip_prefix("~/"), ground.user_home) {
        spelling = WordSpelling::literal(&format!("{home}/{rest}"));
    }
    ShellState::new(ground, &Cell::new(TOKEN_BUDGET)).objection(touch, &[spelling], tool)
}

/// A skill or a prompt may be a command that only a person may give (R-S6b).
fn judge_prompt(
    input: &ToolInputWire<'_>,
    tool: &str,
    ground: &GuardContext<'_>,
) -> Option<DeniedCall> {
    if ground.scope == GuardScope::HomeOnly {
        return None;
    }
    let skill = read_string(input.skill)
        .filter(|skill| is_person_command(skill.trim().trim_start_matches('/')));
    let typed = || {
        [input.prompt, input.command, input.message]
            .into_iter()
            .filter_map(read_string)
            .find_map(|text| person_command(text.trim_start()).map(String::from))
    };
    let named = skill.map(String::from).or_else(typed)?;
    Some(deny(
        GuardTarget::PersonCommand,
        tool,
        &format!("/{}", named.trim().trim_start_matches('/')),
    ))
}
