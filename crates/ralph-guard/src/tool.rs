//! Extracts from a tool's input what the tool would touch. Tool names are those of Claude Code.

use super::loosening::{is_persons, persons};
use super::place::Touch;
use super::walk::{BUDGET, Shell, walk};
use super::word::Spelling;
use super::wording::denied;
use super::{Call, Denied, Ground, Scope, What, scan};
use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use core::cell::Cell;
use serde::Deserialize;
use serde_json::value::RawValue;

/// Longer commands are judged by their beginning.
const LONGEST_COMMAND: usize = 2 << 20;

/// The relevant inputs, unparsed, so that an unexpected type in one does not affect the others.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Input<'a> {
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

enum Kind {
    Shell,
    Writes,
    Reads,
    /// Starts a conversation or sends a message to one.
    Speaks,
    /// A tool of an MCP server. Its name suggests whether it changes files.
    Foreign,
}

fn kind(tool: &str) -> Option<Kind> {
    Some(match tool {
        "Bash" | "Monitor" => Kind::Shell,
        "Write" | "Edit" | "MultiEdit" | "NotebookEdit" => Kind::Writes,
        "Read" | "NotebookRead" | "Grep" => Kind::Reads,
        "Skill" | "SlashCommand" | "Agent" | "Task" | "CronCreate" | "ScheduleWakeup"
        | "SendMessage" | "RemoteTrigger" | "TaskCreate" => Kind::Speaks,
        _ if tool.starts_with("mcp__") => Kind::Foreign,
        _ => return None,
    })
}

pub(super) fn judge(call: &Call<'_>, ground: &Ground<'_>) -> Option<Denied> {
    let kind = kind(call.tool)?;
    let input: Input<'_> = serde_json::from_str(call.input.get()).ok()?;
    let tool = call.tool;
    match kind {
        Kind::Shell => command(&string(input.command)?, ground),
        Kind::Writes => {
            let path = string(input.file_path).or_else(|| string(input.notebook_path))?;
            file((&path, Touch::Write), tool, ground)
        }
        Kind::Reads => {
            let path = string(input.file_path).or_else(|| string(input.path))?;
            file((&path, Touch::Read), tool, ground)
        }
        Kind::Speaks => speech(&input, tool, ground),
        Kind::Foreign => {
            if let Some(script) = string(input.command) {
                return command(&script, ground);
            }
            let changes =
                ["write", "edit", "create", "move", "delete", "remove", "append", "rename"];
            let name = tool.rsplit("__").next().unwrap_or_default();
            let touch = if changes.iter().any(|word| name.contains(word)) {
                Touch::Remove
            } else {
                Touch::Read
            };
            [input.path, input.file_path, input.source, input.destination]
                .into_iter()
                .filter_map(string)
                .find_map(|path| file((&path, touch), tool, ground))
        }
    }
}

fn string(field: Option<&RawValue>) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
    let raw = field?.get();
    match serde_json::from_str(raw) {
        Ok(Text(text)) => Some(text),
        // An unpaired surrogate is not valid text, but the rest must still be judged.
        Err(_) if raw.starts_with('"') => {
            let whole = raw.replace("\\ud", "\\u00d").replace("\\uD", "\\u00d");
            serde_json::from_str(&whole).ok().map(|text: String| Cow::Owned(text))
        }
        Err(_) => None,
    }
}

fn command(script: &str, ground: &Ground<'_>) -> Option<Denied> {
    let end = script.len().min(LONGEST_COMMAND);
    let end = (0..=end).rev().find(|end| script.is_char_boundary(*end))?;
    let script = script.get(..end)?;
    if !scan::is_worth_reading(script) {
        return None;
    }
    walk(script, &mut Shell::new(ground, &Cell::new(BUDGET)))
}

fn file((path, touch): (&str, Touch), tool: &str, ground: &Ground<'_>) -> Option<Denied> {
    let mut spelling = Spelling::of(path);
    if let (Some(rest), Some(home)) = (path.strip_prefix("~/"), ground.user_home) {
        spelling = Spelling::of(&format!("{home}/{rest}"));
    }
    Shell::new(ground, &Cell::new(BUDGET)).object(touch, &[spelling], tool)
}

/// A skill or a prompt may be a command that only a person may give (R-S6b).
fn speech(input: &Input<'_>, tool: &str, ground: &Ground<'_>) -> Option<Denied> {
    if ground.scope == Scope::HomeOnly {
        return None;
    }
    let skill =
        string(input.skill).filter(|skill| is_persons(skill.trim().trim_start_matches('/')));
    let typed = || {
        [input.prompt, input.command, input.message]
            .into_iter()
            .filter_map(string)
            .find_map(|text| persons(text.trim_start()).map(String::from))
    };
    let named = skill.map(String::from).or_else(typed)?;
    Some(denied(What::Channel, tool, &format!("/{}", named.trim().trim_start_matches('/'))))
}
