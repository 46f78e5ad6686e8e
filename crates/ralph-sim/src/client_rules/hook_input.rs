//! The JSON that a hook reads on standard input, with its fields in the client's order.

use crate::client_ids;
use crate::hook_settings::EvaluatorKind;
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

/// Prefix of the id of an agent that answers a hook.
const HOOK_AGENT_PREFIX: &str = "hook-agent-";
/// The mode of such an agent: a call that would need a permission is denied.
const HOOK_AGENT_MODE: &str = "dontAsk";

impl SubagentIdentity {
    /// An agent that answers a hook. It has no type.
    pub(crate) fn new_hook_agent() -> Self {
        let id = format!("{HOOK_AGENT_PREFIX}{}", client_ids::new_uuid());
        Self { id, kind: String::new() }
    }

    pub(crate) fn is_hook_agent(&self) -> bool {
        is_hook_agent_id(&self.id)
    }

    /// The timeline lane of its conversation.
    pub(crate) fn lane(&self) -> &str {
        if self.is_hook_agent() { EvaluatorKind::Agent.lane() } else { &self.kind }
    }
}

pub(crate) fn is_hook_agent_id(id: &str) -> bool {
    id.starts_with(HOOK_AGENT_PREFIX)
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
        let is_hook_agent = self.agent.is_some_and(SubagentIdentity::is_hook_agent);
        let mode = if is_hook_agent { HOOK_AGENT_MODE } else { self.permission_mode };
        // A nameless agent has a type at its stops only.
        let kind = self.agent.map(|agent| agent.kind.clone());
        let kind = kind.filter(|kind| !kind.is_empty() || event == "SubagentStop");
        let has_effort = matches!(shared, SharedInputFields::Turn | SharedInputFields::Effort);
        HookInput::default()
            .with("session_id", self.session)
            .with("transcript_path", path(self.transcript))
            .with("cwd", path(self.cwd))
            .with_opt("prompt_id", self.prompt_id)
            .with_opt("permission_mode", has_mode.then_some(mode))
            .with_opt("agent_id", self.agent.map(|agent| agent.id.clone()))
            .with_opt("agent_type", kind)
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
