//! Deserializes JSON into the same tree as YAML, with keys in the order of the text.

use super::yaml::DataNode;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use std::fmt;

impl<'de> Deserialize<'de> for DataNode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(DataNodeVisitor)
    }
}

struct DataNodeVisitor;

impl<'de> Visitor<'de> for DataNodeVisitor {
    type Value = DataNode;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<DataNode, E> {
        Ok(DataNode::Text(value.to_string()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<DataNode, E> {
        Ok(DataNode::Text(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<DataNode, E> {
        Ok(DataNode::Text(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<DataNode, E> {
        Ok(DataNode::Text(serde_json::Value::from(value).to_string()))
    }

    fn visit_str<E>(self, value: &str) -> Result<DataNode, E> {
        Ok(DataNode::Text(value.to_string()))
    }

    fn visit_unit<E>(self) -> Result<DataNode, E> {
        Ok(DataNode::Text("null".to_string()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<DataNode, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(DataNode::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<DataNode, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(DataNode::Map(entries))
    }
}
