//! The JSON that a hook reads on standard input, with its fields in the client's order.

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value};
use std::borrow::Cow;

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

    pub(super) fn append(mut self, more: Self) -> Self {
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
