//! What a hook reads on standard input, with its fields in the client's order.

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;

#[derive(Clone, Debug, Default)]
pub(super) struct Input(Vec<(&'static str, Value)>);

impl Input {
    pub(super) fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.0.push((name, value.into()));
        self
    }

    pub(super) fn with_some(self, name: &'static str, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    pub(super) fn and(mut self, more: Self) -> Self {
        self.0.extend(more.0);
        self
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        // Strings, numbers and lists of them always become JSON.
        let mut bytes = serde_json::to_vec(self).unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }

    pub(super) fn value(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}

impl Serialize for Input {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}
