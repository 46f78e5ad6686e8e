//! A hook of ours on every event: it keeps what hooks are given, and is in nobody's way.
//!
//! It answers with an object that means nothing to the client and names what it kept, so that an answer among the
//! client's lines leads to the input. Of some events the client prints nothing; those are told by the tap alone.

use super::{ClientError, without_port};
use crate::scenario::EVENTS;
use crate::stage::Stage;
use ralph_sys::clock::{self, Deadline};
use ralph_sys::fs::{self, Mode};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// It reads in a session of its own, because the client kills the hooks that are left when one of them has decided.
/// What it says about a compaction is heard by the model, so there it says nothing.
const SCRIPT: &str = r#"#!/bin/sh
name=$$
while [ -e "${0%/*}/taps/$name.json" ]; do name=$name-1; done
setsid sh -c 'cat > "$1.tmp" && mv "$1.tmp" "$1.json"' tap "${0%/*}/taps/$name"
[ "$1" = PreCompact ] || [ "$1" = PostCompact ] || printf '{"tap":"%s"}' "$name"
exit 0
"#;
/// How long an input may be on its way.
const LATE: Duration = Duration::from_millis(500);
const LOOK: Duration = Duration::from_millis(10);
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
    /// Of the model.
    port: u16,
    /// The files that were told of.
    taken: BTreeSet<String>,
}

/// What the hooks of one event were given.
#[derive(Clone, Debug)]
pub(super) struct Input {
    /// When it was written.
    pub(super) at_ns: u64,
    pub(super) event: String,
    pub(super) value: Value,
}

impl Tap {
    /// Lays it beside the hooks of the flag layer.
    pub(super) fn lay(stage: &Stage, port: u16) -> Result<Self, ClientError> {
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
        Ok(Self { program, settings, directory, port, taken: BTreeSet::new() })
    }

    /// The input that an answer of the tap names.
    pub(super) fn named_by(&mut self, stdout: &str) -> Option<Input> {
        let answer: Value = serde_json::from_str(stdout).ok()?;
        let name = format!("{}.json", answer.get("tap")?.as_str()?);
        let input = self.read(&name)?;
        self.taken.insert(name);
        Some(input)
    }

    /// The first input of this event that was written since then, and that no answer has named. It may still be
    /// on its way when the client has gone on.
    pub(super) fn unnamed(&mut self, event: &str, since_ns: u64) -> Option<Input> {
        let bound = Deadline::after(LATE);
        loop {
            let mut left = self.left().into_iter();
            let is_it = |input: &Input| input.event == event && input.at_ns >= since_ns;
            if let Some((name, input)) = left.find(|(_, input)| is_it(input)) {
                self.taken.insert(name);
                return Some(input);
            }
            if bound.is_over() {
                return None;
            }
            clock::pause(LOOK);
        }
    }

    /// The inputs of silent events that were not told before, in order.
    pub(super) fn silent(&mut self) -> Vec<Input> {
        let left = self.left().into_iter();
        let silent = left.filter(|(_, input)| SILENT.contains(&input.event.as_str()));
        let (names, inputs): (Vec<_>, Vec<_>) = silent.unzip();
        self.taken.extend(names);
        inputs
    }

    /// Whether there is an input of this event that was not told before.
    pub(super) fn has_kept(&self, event: &str) -> bool {
        self.left().iter().any(|(_, input)| input.event == event)
    }

    fn left(&self) -> Vec<(String, Input)> {
        let names = fs::list(&self.directory, MOST).unwrap_or_default();
        let names = names.iter().filter_map(|name| name.to_str());
        let mut left: Vec<_> = names
            .filter(|name| !self.taken.contains(*name))
            .filter_map(|name| Some((name.to_owned(), self.read(name)?)))
            .collect();
        left.sort_by_key(|(_, input)| input.at_ns);
        left
    }

    fn read(&self, name: &str) -> Option<Input> {
        let is_plain = |byte: u8| byte.is_ascii_digit() || byte == b'-';
        name.strip_suffix(".json").filter(|stem| stem.bytes().all(is_plain))?;
        let path = self.directory.join(name);
        let at_ns = fs::stat(&path)?.modified_ns;
        let bytes = fs::read(&path, LARGEST_INPUT).ok()?;
        let value: Value = serde_json::from_str(&without_port(&bytes, self.port)).ok()?;
        let event = value.get("hook_event_name")?.as_str()?.to_owned();
        Some(Input { at_ns, event, value })
    }
}

fn read_settings(path: &Path) -> Result<Map<String, Value>, ClientError> {
    let bytes = fs::read(path, LARGEST_SETTINGS)?;
    match serde_json::from_slice(&bytes) {
        Ok(Value::Object(settings)) if settings.get("hooks").is_none_or(Value::is_object) => {
            Ok(settings)
        }
        _ => Err(ClientError::Settings(path.to_owned())),
    }
}
