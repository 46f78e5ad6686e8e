//! The tap: our own hook on every event, which stores the input of the event and affects nothing else.
//!
//! It answers with an object that the client ignores and that names the stored file, so that the answer in the client's
//! output leads to the input. For some events the client prints nothing; only the tap reveals those.

use super::{RealClientError, mask_port};
use crate::hook_settings::MAX_SETTINGS_BYTES;
use crate::scenario::SIMULATED_EVENTS;
use crate::scratch::ScratchProject;
use ralph_sys::clock::{self, Deadline};
use ralph_sys::fs::{self, SharedFileMode};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The script reads its input in a new session (`setsid`), because the client kills the remaining hooks as soon as
/// one of them has decided. At compactions it prints nothing, because the client passes that output to the model.
const TAP_SCRIPT: &str = r#"#!/bin/sh
name=$$
while [ -e "${0%/*}/taps/$name.json" ]; do name=$name-1; done
setsid sh -c 'cat > "$1.tmp" && mv "$1.tmp" "$1.json"' tap "${0%/*}/taps/$name"
[ "$1" = PreCompact ] || [ "$1" = PostCompact ] || printf '{"tap":"%s"}' "$name"
exit 0
"#;
/// How long to wait for an input that is still being written.
const WRITE_TIMEOUT: Duration = Duration::from_millis(500);
const POLL_INTERVAL: Duration = Duration::from_millis(10);
const MAX_INPUT_BYTES: usize = 64 * 1024 * 1024;
const MAX_INPUTS: usize = 1_000_000;
/// Events whose hooks the client runs without printing anything.
const SILENT_EVENTS: [&str; 8] = [
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
pub(super) struct HookTap {
    pub(super) program: PathBuf,
    /// The client's `--settings`.
    pub(super) settings: PathBuf,
    directory: PathBuf,
    /// Port of the model server.
    port: u16,
    /// Files that were already used.
    used_files: BTreeSet<String>,
}

/// The stored input of one event.
#[derive(Clone, Debug)]
pub(super) struct TappedInput {
    /// When it was written.
    pub(super) at_ns: u64,
    pub(super) event: String,
    pub(super) value: Value,
}

impl HookTap {
    /// Installs the tap in the flag settings, beside the hooks that are there.
    pub(super) fn install(stage: &ScratchProject, port: u16) -> Result<Self, RealClientError> {
        let program = stage.root.join("tap");
        let directory = stage.root.join("taps");
        let settings = stage.root.join("tapped.json");
        fs::create_private_dir(&directory)?;
        fs::replace_with_mode(&program, TAP_SCRIPT.as_bytes(), SharedFileMode::Executable)?;
        let mut own = match &stage.flag {
            Some(path) => read_settings(path)?,
            None => Map::new(),
        };
        let hooks = own.entry("hooks").or_insert_with(|| json!({}));
        for event in SIMULATED_EVENTS {
            let handler = json!({"type": "command", "command": program, "args": [event]});
            let group = json!({"hooks": [handler]});
            match hooks.get_mut(event).and_then(Value::as_array_mut) {
                Some(groups) => groups.push(group),
                None => hooks[event] = json!([group]),
            }
        }
        fs::replace_with_mode(
            &settings,
            Value::Object(own).to_string().as_bytes(),
            SharedFileMode::Ordinary,
        )?;
        Ok(Self { program, settings, directory, port, used_files: BTreeSet::new() })
    }

    /// The input that is named by an answer of the tap.
    pub(super) fn take_named(&mut self, stdout: &str) -> Option<TappedInput> {
        let answer: Value = serde_json::from_str(stdout).ok()?;
        let name = format!("{}.json", answer.get("tap")?.as_str()?);
        let input = self.read_input(&name)?;
        self.used_files.insert(name);
        Some(input)
    }

    /// The first unused input of this event that was written since then. Waits briefly, because the tap may still be
    /// writing when the client has continued.
    pub(super) fn take_unused(&mut self, event: &str, since_ns: u64) -> Option<TappedInput> {
        let bound = Deadline::after(WRITE_TIMEOUT);
        loop {
            let mut left = self.unused_inputs().into_iter();
            let is_it = |input: &TappedInput| input.event == event && input.at_ns >= since_ns;
            if let Some((name, input)) = left.find(|(_, input)| is_it(input)) {
                self.used_files.insert(name);
                return Some(input);
            }
            if bound.has_passed() {
                return None;
            }
            clock::sleep(POLL_INTERVAL);
        }
    }

    /// The unused inputs of [`SILENT_EVENTS`], in order.
    pub(super) fn take_silent(&mut self) -> Vec<TappedInput> {
        let left = self.unused_inputs().into_iter();
        let silent = left.filter(|(_, input)| SILENT_EVENTS.contains(&input.event.as_str()));
        let (names, inputs): (Vec<_>, Vec<_>) = silent.unzip();
        self.used_files.extend(names);
        inputs
    }

    /// Whether there is an unused input of this event.
    pub(super) fn has_unused(&self, event: &str) -> bool {
        self.unused_inputs().iter().any(|(_, input)| input.event == event)
    }

    fn unused_inputs(&self) -> Vec<(String, TappedInput)> {
        let names = fs::list(&self.directory, MAX_INPUTS).unwrap_or_default();
        let names = names.iter().filter_map(|name| name.to_str());
        let mut left: Vec<_> = names
            .filter(|name| !self.used_files.contains(*name))
            .filter_map(|name| Some((name.to_owned(), self.read_input(name)?)))
            .collect();
        left.sort_by_key(|(_, input)| input.at_ns);
        left
    }

    fn read_input(&self, name: &str) -> Option<TappedInput> {
        let is_plain = |byte: u8| byte.is_ascii_digit() || byte == b'-';
        name.strip_suffix(".json").filter(|stem| stem.bytes().all(is_plain))?;
        let path = self.directory.join(name);
        let at_ns = fs::stat(&path)?.modified_ns;
        let bytes = fs::read(&path, MAX_INPUT_BYTES).ok()?;
        let value: Value = serde_json::from_str(&mask_port(&bytes, self.port)).ok()?;
        let event = value.get("hook_event_name")?.as_str()?.to_owned();
        Some(TappedInput { at_ns, event, value })
    }
}

fn read_settings(path: &Path) -> Result<Map<String, Value>, RealClientError> {
    let bytes = fs::read(path, MAX_SETTINGS_BYTES)?;
    match serde_json::from_slice(&bytes) {
        Ok(Value::Object(settings)) if settings.get("hooks").is_none_or(Value::is_object) => {
            Ok(settings)
        }
        _ => Err(RealClientError::Settings(path.to_owned())),
    }
}
