//! The tools `Write`, `Edit` and `Read`.

use super::patch;
use super::tool_invocation::{ToolInvocation, ToolOutcome};
use ralph_sys::fs::{self, FileError, SharedFileMode};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const MAX_FILE_BYTES: usize = 16 * 1024 * 1024;
const EMPTY_FILE_WARNING: &str =
    "<system-reminder>Warning: the file exists but the contents are empty.</system-reminder>";
const CURRENT_STATE_NOTE: &str =
    " (file state is current in your context — no need to Read it back)";

/// Files whose current content the model has read.
pub(crate) type SeenFiles = BTreeSet<PathBuf>;

fn absolute_path(cwd: &Path, call: &ToolInvocation) -> PathBuf {
    cwd.join(call.text("file_path"))
}

fn read_text(path: &Path) -> Result<Option<String>, FileError> {
    Ok(fs::read_if_exists(path, MAX_FILE_BYTES)?
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

fn file_failure(error: &FileError) -> ToolOutcome {
    let cause = std::error::Error::source(error);
    let text = cause.map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"));
    ToolOutcome::Failed { text }
}

/// The error for an edit that cannot be applied. The client rejects it before any hook fires.
pub(crate) fn edit_refusal(cwd: &Path, call: &ToolInvocation) -> Option<String> {
    if call.name != "Edit" {
        return None;
    }
    let refuse = |text: String| Some(format!("<tool_use_error>{text}</tool_use_error>"));
    if call.text("old_string") == call.text("new_string") {
        return refuse(
            "No changes to make: old_string and new_string are exactly the same.".to_owned(),
        );
    }
    let Ok(Some(text)) = read_text(&absolute_path(cwd, call)) else {
        let cwd = cwd.display();
        return refuse(format!(
            "File does not exist. Note: your current working directory is {cwd}."
        ));
    };
    let old = call.text("old_string");
    match text.matches(old).count() {
        _ if old.is_empty() => None,
        0 => refuse(format!("String to replace not found in file.\nString: {old}")),
        1 => None,
        _ if replaces_all(call) => None,
        count => refuse(format!(
            "Found {count} matches of the string to replace, but replace_all is false. To replace all occurrences, set \
             replace_all to true. To replace only one occurrence, please provide more context to uniquely identify the \
             instance.\nString: {old}"
        )),
    }
}

fn replaces_all(call: &ToolInvocation) -> bool {
    call.input.get("replace_all").and_then(Value::as_bool).unwrap_or_default()
}

pub(crate) fn write_file(cwd: &Path, seen: &mut SeenFiles, call: &ToolInvocation) -> ToolOutcome {
    let path = absolute_path(cwd, call);
    let content = call.text("content");
    let before = match read_text(&path) {
        Ok(before) => before,
        Err(error) => return file_failure(&error),
    };
    let directory = path.parent().map_or(Ok(()), fs::create_private_dir);
    if let Err(error) = directory.and_then(|()| write_keeping_mode(&path, content)) {
        return file_failure(&error);
    }
    seen.insert(path);
    // Results report the path as the model wrote it.
    let name = call.text("file_path");
    let (kind, text) = match &before {
        None => ("create", format!("File created successfully at: {name}{CURRENT_STATE_NOTE}")),
        Some(_) => (
            "update",
            format!("The file {name} has been updated successfully.{CURRENT_STATE_NOTE}"),
        ),
    };
    let hunks = before
        .as_deref()
        .map(|before| patch::structured_patch(before, content))
        .unwrap_or_default();
    let response = json!({
        "type": kind,
        "filePath": name,
        "content": content,
        "structuredPatch": hunks,
        "originalFile": before,
        "userModified": false,
    });
    ToolOutcome::Ran { response, text }
}

pub(crate) fn edit_file(cwd: &Path, seen: &SeenFiles, call: &ToolInvocation) -> ToolOutcome {
    let path = absolute_path(cwd, call);
    let before = match read_text(&path) {
        Ok(before) => before.unwrap_or_default(),
        Err(error) => return file_failure(&error),
    };
    let (old, new) = (call.text("old_string"), call.text("new_string"));
    let after =
        if replaces_all(call) { before.replace(old, new) } else { before.replacen(old, new, 1) };
    if let Err(error) = write_keeping_mode(&path, &after) {
        return file_failure(&error);
    }
    // Results report the path as the model wrote it.
    let name = call.text("file_path");
    let mut response = json!({
        "filePath": name,
        "oldString": old,
        "newString": new,
        "originalFile": before,
        "structuredPatch": patch::structured_patch(&before, &after),
        "userModified": false,
        "replaceAll": replaces_all(call),
    });
    let was_seen = seen.contains(&path);
    if !was_seen {
        response["contentNotInModelContext"] = json!(true);
    }
    let note = if was_seen { CURRENT_STATE_NOTE } else { "" };
    ToolOutcome::Ran {
        response,
        text: format!("The file {name} has been updated successfully.{note}"),
    }
}

/// Writes a file and keeps its executable bit.
fn write_keeping_mode(path: &Path, text: &str) -> Result<(), FileError> {
    let is_program = fs::stat(path).is_some_and(|found| found.mode & 0o111 != 0);
    fs::replace_with_mode(
        path,
        text.as_bytes(),
        if is_program { SharedFileMode::Executable } else { SharedFileMode::Ordinary },
    )
}

pub(crate) fn read_file(cwd: &Path, seen: &mut SeenFiles, call: &ToolInvocation) -> ToolOutcome {
    let path = absolute_path(cwd, call);
    let text = match read_text(&path) {
        Ok(Some(text)) => text.replace("\r\n", "\n"),
        Ok(None) => {
            let cwd = cwd.display();
            let text =
                format!("File does not exist. Note: your current working directory is {cwd}.");
            return ToolOutcome::Failed { text };
        }
        Err(error) => return file_failure(&error),
    };
    seen.insert(path);
    let number = |name: &str| {
        let value = call.input.get(name).and_then(Value::as_u64);
        value.and_then(|value| usize::try_from(value).ok())
    };
    let start = number("offset").unwrap_or(1).max(1);
    let lines: Vec<&str> = text.split('\n').collect();
    let most = number("limit").unwrap_or(2000);
    let shown: Vec<&str> = lines.iter().skip(start - 1).take(most).copied().collect();
    let numbered = shown.iter().enumerate().map(|(at, line)| format!("{}\t{line}", start + at));
    let numbered: Vec<String> = numbered.collect();
    let response = json!({
        "type": "text",
        "file": {
            "filePath": call.text("file_path"),
            "content": shown.join("\n"),
            "numLines": shown.len(),
            "startLine": start,
            "totalLines": lines.len(),
        },
    });
    let shown = if text.is_empty() { EMPTY_FILE_WARNING.to_owned() } else { numbered.join("\n") };
    ToolOutcome::Ran { response, text: shown }
}
