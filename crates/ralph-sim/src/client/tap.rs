//! A hook of ours on every event: it keeps what hooks are given, and is in nobody's way.
//!
//! It answers with an object that means nothing to the client and names what it kept, so that an answer among the
//! client's lines leads to the input. Of some events the client prints nothing; those are told by the tap alone.

use super::ClientError;
use crate::scenario::EVENTS;
use crate::stage::Stage;
use ralph_exec::fs::{self, Mode};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The names begin with the time in nanoseconds. What it says about a compaction is heard
/// by the model.
const SCRIPT: &str = r#"#!/bin/sh
taps="${0%/*}/taps"
name=$(date +%s%N)-$$
cat > "$taps/$name.tmp" && mv "$taps/$name.tmp" "$taps/$name.json"
[ "$1" = PreCompact ] || [ "$1" = PostCompact ] || printf '{"tap":"%s"}' "$name"
exit 0
"#;
const LARGEST_SETTINGS: usize = 4 * 1024 * 1024;
const LARGEST_INPUT: usize = 64 * 1024 * 1024;
const MOST: usize = 1_000_000;
/// The events whose hooks the client runs without a word.
const SILENT: [&str; 8] = [
    "PreCompact",
    "PostCompact",
    "SessionEnd",
    "StopFailure",
    "TaskCreated",
    "TaskCompleted",
    "TeammateIdle",
    "Notification",
];

#[derive(Debug)]
pub(super) struct Tap {
    pub(super) program: PathBuf,
    /// What the client gets as `--settings`.
    pub(super) settings: PathBuf,
    directory: PathBuf,
    taken: BTreeSet<String>,
}

/// What the hooks of one event were given.
#[derive(Clone, Debug)]
pub(super) struct Input {
    pub(super) at_ns: u64,
    pub(super) event: String,
    pub(super) value: Value,
}

impl Tap {
    /// Lays it beside the hooks of the flag layer.
    pub(super) fn lay(stage: &Stage) -> Result<Self, ClientError> {
        let program = stage.root.join("tap");
        let directory = stage.root.join("taps");
        let settings = stage.root.join("tapped.json");
        fs::create_dir(&directory)?;
        fs::put(&program, SCRIPT.as_bytes(), Mode::Program)?;
        let mut own = match &stage.flag {
            Some(path) => read_settings(path)?,
            None => Map::new(),
        };
        let hooks = own.entry("hooks").or_insert_with(|| json!({}));
        for event in EVENTS {
            let handler = json!({"type": "command", "command": program, "args": [event]});
            let group = json!({"hooks": [handler]});
            match hooks.get_mut(event).and_then(Value::as_array_mut) {
                Some(groups) => groups.push(group),
                None => hooks[event] = json!([group]),
            }
        }
        fs::put(&settings, Value::Object(own).to_string().as_bytes(), Mode::Ordinary)?;
        Ok(Self { program, settings, directory, taken: BTreeSet::new() })
    }

    /// The input that an answer of the tap names.
    pub(super) fn named_by(&mut self, stdout: &str) -> Option<Input> {
        let answer: Value = serde_json::from_str(stdout).ok()?;
        let name = format!("{}.json", answer.get("tap")?.as_str()?);
        let input = self.read(&name)?;
        self.taken.insert(name);
        Some(input)
    }

    /// The inputs of silent events that were not told before, in order.
    pub(super) fn silent(&mut self) -> Vec<Input> {
        let names = fs::list(&self.directory, MOST).unwrap_or_default();
        let names = names.iter().filter_map(|name| name.to_str());
        let new: Vec<String> =
            names.filter(|name| !self.taken.contains(*name)).map(str::to_owned).collect();
        let mut inputs = Vec::new();
        for name in new {
            if let Some(input) = self.read(&name)
                && SILENT.contains(&input.event.as_str())
            {
                inputs.push(input);
                self.taken.insert(name);
            }
        }
        inputs
    }

    /// A text without what the client says about the tap: the hooks of a compaction are listed to the model.
    pub(super) fn leave_out(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for event in ["PreCompact", "PostCompact"] {
            let mention =
                format!("{event} [{} {event}] completed successfully", self.program.display());
            for with_space in [format!("\n{mention}"), format!(" {mention}"), mention] {
                text = text.replace(&with_space, "");
            }
        }
        text
    }

    /// Whether there is an input of this silent event that was not told before.
    pub(super) fn has_kept(&self, event: &str) -> bool {
        let names = fs::list(&self.directory, MOST).unwrap_or_default();
        let mut names = names.iter().filter_map(|name| name.to_str());
        names.any(|name| {
            !self.taken.contains(name) && self.read(name).is_some_and(|input| input.event == event)
        })
    }

    fn read(&self, name: &str) -> Option<Input> {
        let is_plain = |byte: u8| byte.is_ascii_digit() || byte == b'-';
        let stem = name.strip_suffix(".json").filter(|stem| stem.bytes().all(is_plain))?;
        let at_ns = stem.split_once('-')?.0.parse().ok()?;
        let bytes = fs::read(&self.directory.join(name), LARGEST_INPUT).ok()?;
        let value: Value = serde_json::from_slice(&bytes).ok()?;
        let event = value.get("hook_event_name")?.as_str()?.to_owned();
        Some(Input { at_ns, event, value })
    }
}

pub(super) fn read_settings(path: &Path) -> Result<Map<String, Value>, ClientError> {
    let bytes = fs::read(path, LARGEST_SETTINGS)?;
    match serde_json::from_slice(&bytes) {
        Ok(Value::Object(settings)) if settings.get("hooks").is_none_or(Value::is_object) => {
            Ok(settings)
        }
        _ => Err(ClientError::Settings(path.to_owned())),
    }
}
