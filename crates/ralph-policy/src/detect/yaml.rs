//! YAML as a bounded tree of text, lists and maps.
//!
//! The parser yields events; this module limits nesting and the size of expanded aliases, so that a few hundred bytes
//! cannot become gigabytes.

use std::collections::BTreeMap;

use granit_parser::{Event, Parser, Tag};

const MAX_YAML_BYTES: usize = 256 * 1024;
const MAX_YAML_DEPTH: usize = 64;
/// Maximum size of expanded aliases: the bytes of text, plus sixteen per node.
const ALIAS_BUDGET: usize = 2 * 1024 * 1024;

/// A YAML or JSON value; every scalar is kept as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DataNode {
    Text(String),
    List(Vec<DataNode>),
    Map(Vec<(String, DataNode)>),
}

/// A collection that has not ended yet.
struct OpenCollection {
    node: DataNode,
    /// The key whose value comes next.
    key: Option<String>,
    anchor: usize,
    cost: usize,
    /// Has a custom tag (`!reference`) whose value is defined elsewhere.
    is_foreign: bool,
}

impl DataNode {
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.entries().iter().find(|(name, _)| name == key).map(|(_, node)| node)
    }

    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::List(_) | Self::Map(_) => None,
        }
    }

    pub fn entries(&self) -> &[(String, Self)] {
        match self {
            Self::Map(entries) => entries,
            Self::Text(_) | Self::List(_) => &[],
        }
    }

    pub fn items(&self) -> &[Self] {
        match self {
            Self::List(items) => items,
            Self::Text(_) | Self::Map(_) => &[],
        }
    }

    /// The text of a scalar, or of every scalar in a list, at any depth.
    pub fn texts(&self) -> Vec<&str> {
        match self {
            Self::Text(text) => vec![text],
            Self::List(items) => items.iter().flat_map(Self::texts).collect(),
            Self::Map(_) => Vec::new(),
        }
    }
}

/// Parses the first document; the error is the reason as text.
pub fn parse_yaml(text: &str) -> Result<DataNode, &'static str> {
    if text.len() > MAX_YAML_BYTES {
        return Err("it is too large");
    }
    let mut anchors: BTreeMap<usize, (DataNode, usize)> = BTreeMap::new();
    let mut open: Vec<OpenCollection> = Vec::new();
    let mut budget = ALIAS_BUDGET;
    for event in Parser::new_from_str(text) {
        let (event, _) = event.map_err(|_| "it is not valid YAML")?;
        let (node, cost, anchor) = match event {
            Event::SequenceStart(_, anchor, tag) => {
                open_collection(&mut open, DataNode::List(Vec::new()), anchor, tag.as_deref())?;
                continue;
            }
            Event::MappingStart(_, anchor, tag) => {
                open_collection(&mut open, DataNode::Map(Vec::new()), anchor, tag.as_deref())?;
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(ended) = open.pop() else { return Err("it is not valid YAML") };
                let node = if ended.is_foreign { DataNode::List(Vec::new()) } else { ended.node };
                (apply_merge_keys(node), ended.cost, ended.anchor)
            }
            Event::Scalar(text, _, anchor, _) => {
                let cost = 16 + text.len();
                (DataNode::Text(text.into_owned()), cost, anchor)
            }
            Event::Alias(id) => {
                let Some((node, cost)) = anchors.get(&id) else {
                    return Err("an alias refers to itself");
                };
                budget = budget.checked_sub(*cost).ok_or("its aliases expand too far")?;
                (node.clone(), *cost, 0)
            }
            Event::DocumentEnd | Event::StreamEnd => break,
            Event::UnresolvedAlias(_) => return Err("it uses an undefined alias"),
            // Events without content, including those of future versions of the parser.
            Event::StreamStart | Event::DocumentStart(..) | Event::Anchor(..) | _ => continue,
        };
        if anchor > 0 {
            budget = budget.checked_sub(cost).ok_or("its aliases expand too far")?;
            anchors.insert(anchor, (node.clone(), cost));
        }
        match open.last_mut() {
            Some(parent) => add_child(parent, node, cost),
            None => return Ok(node),
        }
    }
    Err("it is empty")
}

fn open_collection(
    open: &mut Vec<OpenCollection>,
    node: DataNode,
    anchor: usize,
    tag: Option<&Tag>,
) -> Result<(), &'static str> {
    if open.len() == MAX_YAML_DEPTH {
        return Err("it is nested too deeply");
    }
    let is_foreign = tag.is_some_and(|tag| !tag.is_yaml_core_schema());
    open.push(OpenCollection { node, key: None, anchor, cost: 16, is_foreign });
    Ok(())
}

fn add_child(parent: &mut OpenCollection, node: DataNode, cost: usize) {
    parent.cost = parent.cost.saturating_add(cost);
    match &mut parent.node {
        DataNode::List(items) => items.push(node),
        DataNode::Map(entries) => match parent.key.take() {
            Some(key) => entries.push((key, node)),
            // A key that is a list or a map is of no use here; its value gets an empty key.
            None => parent.key = Some(node.text().unwrap_or_default().to_string()),
        },
        DataNode::Text(_) => {}
    }
}

/// Applies merge keys: `<<: *defaults` adds entries whose keys the map lacks.
fn apply_merge_keys(node: DataNode) -> DataNode {
    let DataNode::Map(entries) = node else { return node };
    if !entries.iter().any(|(key, _)| key == "<<") {
        return DataNode::Map(entries);
    }
    let (defaults, mut own): (Vec<_>, Vec<_>) = entries.into_iter().partition(|(k, _)| k == "<<");
    for (_, node) in defaults {
        let sources = match node {
            DataNode::List(items) => items,
            DataNode::Map(_) | DataNode::Text(_) => vec![node],
        };
        for (key, value) in sources.iter().flat_map(DataNode::entries) {
            if !own.iter().any(|(known, _)| known == key) {
                own.push((key.clone(), value.clone()));
            }
        }
    }
    DataNode::Map(own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;

    #[test]
    fn anchors_merge_keys_and_custom_tags_are_handled() {
        let node = parse_yaml(
            "base: &base {image: a, script: [x]}\njob:\n  <<: *base\n  image: b\nother:\n  script: !reference [.setup, script]\n",
        )
        .unwrap();
        let job = node.get("job").unwrap();
        assert_eq!(job.get("image").and_then(DataNode::text), Some("b"));
        assert_eq!(job.get("script").unwrap().texts(), ["x"]);
        assert_eq!(node.get("other").unwrap().get("script").unwrap().texts(), [""; 0]);
    }

    #[test]
    fn flow_collections_may_span_lines() {
        let matrix = "a:\n  b: [\n    { \"os\": \"x\", \"name\": \"y\" },\n  ]\n  c: d\n";
        assert_eq!(
            parse_yaml(matrix).unwrap().get("a").unwrap().get("c").and_then(DataNode::text),
            Some("d")
        );
    }

    #[test]
    fn expansion_bombs_are_rejected() {
        let mut laughs = String::from("a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n");
        for level in 1..12 {
            let below = vec![format!("*a{}", level - 1); 9].join(", ");
            writeln!(laughs, "a{level}: &a{level} [{below}]").unwrap();
        }
        for (text, expected) in [
            (laughs, "its aliases expand too far"),
            (
                format!("a: &a {}\nb: [{}]", "x".repeat(100_000), "*a, ".repeat(1000)),
                "its aliases expand too far",
            ),
            ("[".repeat(100_000), "it is not valid YAML"),
            ("? ".repeat(100_000), "it is nested too deeply"),
            ("- ".repeat(100_000), "it is nested too deeply"),
            ("{".repeat(1000), "it is not valid YAML"),
            ("x".repeat(MAX_YAML_BYTES + 1), "it is too large"),
            ("a: &a [*a]".to_string(), "an alias refers to itself"),
            ("a: [".to_string(), "it is not valid YAML"),
            ("\u{0}\u{1}".to_string(), "it is not valid YAML"),
            (String::new(), "it is empty"),
        ] {
            let shown: String = text.chars().take(20).collect();
            assert_eq!(parse_yaml(&text).err(), Some(expected), "{shown}");
        }
    }
}
