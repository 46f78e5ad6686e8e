//! The tools `Write`, `Edit` and `Read`.

use super::{Call, Done, patch};
use ralph_sys::fs::{self, FileError, Mode};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const LARGEST: usize = 16 * 1024 * 1024;
const EMPTY: &str =
    "<system-reminder>Warning: the file exists but the contents are empty.</system-reminder>";
const CURRENT: &str = " (file state is current in your context — no need to Read it back)";

/// Files whose current content the model has read.
pub(crate) type Seen = BTreeSet<PathBuf>;

fn path(cwd: &Path, call: &Call) -> PathBuf {
    cwd.join(string(call, "file_path"))
}

fn string<'a>(call: &'a Call, name: &str) -> &'a str {
    call.input.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The path as the model wrote it, which is also how results report it.
fn named(call: &Call) -> &str {
    string(call, "file_path")
}

fn text_of(path: &Path) -> Result<Option<String>, FileError> {
    Ok(fs::read_opt(path, LARGEST)?.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

fn failed(error: &FileError) -> Done {
    let cause = std::error::Error::source(error);
    let text = cause.map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"));
    Done::Failed { text }
}

/// The error for an edit that cannot be applied. The client rejects it before any hook fires.
pub(crate) fn refusal(cwd: &Path, call: &Call) -> Option<String> {
    if call.name != "Edit" {
        return None;
    }
    let refuse = |text: String| Some(format!("<tool_use_error>{text}</tool_use_error>"));
    if string(call, "old_string") == string(call, "new_string") {
        return refuse(
            "No changes to make: old_string and new_string are exactly the same.".to_owned(),
        );
    }
    let Ok(Some(text)) = text_of(&path(cwd, call)) else {
        let cwd = cwd.display();
        return refuse(format!(
            "File does not exist. Note: your current working directory is {cwd}."
        ));
    };
    let old = string(call, "old_string");
    match text.matches(old).count() {
        _ if old.is_empty() => None,
        0 => refuse(format!("String to replace not found in file.\nString: {old}")),
        1 => None,
        _ if is_for_all(call) => None,
        count => refuse(format!(
            "Found {count} matches of the string to replace, but replace_all is false. To replace all occurrences, set \
             replace_all to true. To replace only one occurrence, please provide more context to uniquely identify the \
             instance.\nString: {old}"
        )),
    }
}

fn is_for_all(call: &Call) -> bool {
    call.input.get("replace_all").and_then(Value::as_bool).unwrap_or_default()
}

pub(crate) fn write(cwd: &Path, seen: &mut Seen, call: &Call) -> Done {
    let path = path(cwd, call);
    let content = string(call, "content");
    let before = match text_of(&path) {
        Ok(before) => before,
        Err(error) => return failed(&error),
    };
    let directory = path.parent().map_or(Ok(()), fs::create_dir);
    if let Err(error) = directory.and_then(|()| put(&path, content)) {
        return failed(&error);
    }
    seen.insert(path);
    let name = named(call);
    let (kind, text) = match &before {
        None => ("create", format!("File created successfully at: {name}{CURRENT}")),
        Some(_) => ("update", format!("The file {name} has been updated successfully.{CURRENT}")),
    };
    let hunks = before.as_deref().map(|before| patch::hunks(before, content)).unwrap_or_default();
    let response = json!({
        "type": kind,
        "filePath": name,
        "content": content,
        "structuredPatch": hunks,
        "originalFile": before,
        "userModified": false,
    });
    Done::Ran { response, text }
}

pub(crate) fn edit(cwd: &Path, seen: &Seen, call: &Call) -> Done {
    let path = path(cwd, call);
    let before = match text_of(&path) {
        Ok(before) => before.unwrap_or_default(),
        Err(error) => return failed(&error),
    };
    let (old, new) = (string(call, "old_string"), string(call, "new_string"));
    let after =
        if is_for_all(call) { before.replace(old, new) } else { before.replacen(old, new, 1) };
    if let Err(error) = put(&path, &after) {
        return failed(&error);
    }
    let name = named(call);
    let mut response = json!({
        "filePath": name,
        "oldString": old,
        "newString": new,
        "originalFile": before,
        "structuredPatch": patch::hunks(&before, &after),
        "userModified": false,
        "replaceAll": is_for_all(call),
    });
    let was_seen = seen.contains(&path);
    if !was_seen {
        response["contentNotInModelContext"] = json!(true);
    }
    let note = if was_seen { CURRENT } else { "" };
    Done::Ran { response, text: format!("The file {name} has been updated successfully.{note}") }
}

/// Writes a file and keeps its executable bit.
fn put(path: &Path, text: &str) -> Result<(), FileError> {
    let is_program = fs::stat(path).is_some_and(|found| found.mode & 0o111 != 0);
    fs::put(path, text.as_bytes(), if is_program { Mode::Program } else { Mode::Ordinary })
}

pub(crate) fn read(cwd: &Path, seen: &mut Seen, call: &Call) -> Done {
    let path = path(cwd, call);
    let text = match text_of(&path) {
        Ok(Some(text)) => text.replace("\r\n", "\n"),
        Ok(None) => {
            let cwd = cwd.display();
            let text =
                format!("File does not exist. Note: your current working directory is {cwd}.");
            return Done::Failed { text };
        }
        Err(error) => return failed(&error),
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
            "filePath": named(call),
            "content": shown.join("\n"),
            "numLines": shown.len(),
            "startLine": start,
            "totalLines": lines.len(),
        },
    });
    let shown = if text.is_empty() { EMPTY.to_owned() } else { numbered.join("\n") };
    Done::Ran { response, text: shown }
}
