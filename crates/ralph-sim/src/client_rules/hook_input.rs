//! The JSON that a hook reads on standard input, with its fields in the client's order.

use crate::transcript::EFFORT;
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::path::Path;

/// Which of the shared input fields an event has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SharedInputFields {
    /// `permission_mode` and `effort`
    Turn,
    /// `permission_mode`
    Mode,
    /// `effort`
    Effort,
    Neither,
}

/// A subagent as named in the input of hooks.
#[derive(Clone, Debug)]
pub(crate) struct SubagentIdentity {
    pub(crate) id: String,
    pub(crate) kind: String,
}

/// The values of the fields that the inputs of all events have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HookInputContext<'a> {
    pub(crate) session: &'a str,
    pub(crate) transcript: &'a Path,
    pub(crate) cwd: &'a Path,
    pub(crate) prompt_id: Option<&'a str>,
    pub(crate) permission_mode: &'a str,
    pub(crate) agent: Option<&'a SubagentIdentity>,
}

impl HookInputContext<'_> {
    /// The first fields of the input of an event.
    pub(crate) fn input(&self, event: &str, shared: SharedInputFields) -> HookInput {
        let path = |path: &Path| path.to_string_lossy().into_owned();
        let has_mode = matches!(shared, SharedInputFields::Turn | SharedInputFields::Mode);
        let has_effort = matches!(shared, SharedInputFields::Turn | SharedInputFields::Effort);
        HookInput::default()
            .with("session_id", self.session)
            .with("transcript_path", path(self.transcript))
            .with("cwd", path(self.cwd))
            .with_opt("prompt_id", self.prompt_id)
            .with_opt("permission_mode", has_mode.then_some(self.permission_mode))
            .with_opt("agent_id", self.agent.map(|agent| agent.id.clone()))
            .with_opt("agent_type", self.agent.map(|agent| agent.kind.clone()))
            .with_opt("effort", has_effort.then(|| json!({"level": EFFORT})))
            .with("hook_event_name", event)
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct HookInput(Vec<(Cow<'static, str>, Value)>);

impl HookInput {
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.0.push((Cow::Borrowed(name), value.into()));
        self
    }

    pub(crate) fn with_opt(self, name: &'static str, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    pub(crate) fn append(mut self, more: Self) -> Self {
        self.0.extend(more.0);
        self
    }

    pub(crate) fn to_line(&self) -> Vec<u8> {
        // Serializing JSON values cannot fail.
        let mut bytes = serde_json::to_vec(self).unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }

    pub(crate) fn to_value(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}

impl From<Map<String, Value>> for HookInput {
    fn from(fields: Map<String, Value>) -> Self {
        Self(fields.into_iter().map(|(name, value)| (Cow::Owned(name), value)).collect())
    }
}

impl Serialize for HookInput {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}
