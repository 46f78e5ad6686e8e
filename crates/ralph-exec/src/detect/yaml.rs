//! YAML as a bounded tree of text, lists and maps.
//!
//! The parser hands out events; depth and the size of what aliases expand to are counted here, so that a few
//! hundred bytes cannot become gigabytes.

use std::collections::BTreeMap;

use granit_parser::{Event, Parser};

const LARGEST_TEXT: usize = 256 * 1024;
const DEEPEST: usize = 64;
/// Bytes of text, and sixteen for every node.
const BUDGET: usize = 2 * 1024 * 1024;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    Text(String),
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
}

/// A collection that has not ended yet.
struct Open {
    node: Node,
    /// The key that waits for its value.
    key: Option<String>,
    anchor: usize,
    cost: usize,
    /// A tag of the tool's own (`!reference`): what it stands for is not here.
    is_foreign: bool,
}

impl Node {
    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        self.entries().iter().find(|(name, _)| name == key).map(|(_, node)| node)
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::List(_) | Self::Map(_) => None,
        }
    }

    pub(crate) fn entries(&self) -> &[(String, Self)] {
        match self {
            Self::Map(entries) => entries,
            Self::Text(_) | Self::List(_) => &[],
        }
    }

    pub(crate) fn items(&self) -> &[Self] {
        match self {
            Self::List(items) => items,
            Self::Text(_) | Self::Map(_) => &[],
        }
    }

    /// The text of a scalar, or of every scalar in a list of them, however deep.
    pub(crate) fn texts(&self) -> Vec<&str> {
        match self {
            Self::Text(text) => vec![text],
            Self::List(items) => items.iter().flat_map(Self::texts).collect(),
            Self::Map(_) => Vec::new(),
        }
    }
}

/// The first document, or why it is not read.
pub(crate) fn read(text: &str) -> Result<Node, &'static str> {
    if text.len() > LARGEST_TEXT {
        return Err("it is too large");
    }
    let mut anchors: BTreeMap<usize, (Node, usize)> = BTreeMap::new();
    let mut open: Vec<Open> = Vec::new();
    let mut budget = BUDGET;
    for event in Parser::new_from_str(text) {
        let (event, _) = event.map_err(|_| "it is not valid YAML")?;
        let (node, cost, anchor) = match event {
            Event::SequenceStart(_, anchor, tag) => {
                let is_foreign = tag.is_some_and(|tag| !tag.is_yaml_core_schema());
                start(&mut open, Node::List(Vec::new()), anchor, is_foreign)?;
                continue;
            }
            Event::MappingStart(_, anchor, tag) => {
                let is_foreign = tag.is_some_and(|tag| !tag.is_yaml_core_schema());
                start(&mut open, Node::Map(Vec::new()), anchor, is_foreign)?;
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(ended) = open.pop() else { return Err("it is not valid YAML") };
                let node = if ended.is_foreign { Node::List(Vec::new()) } else { ended.node };
                (merged(node), ended.cost, ended.anchor)
            }
            Event::Scalar(text, _, anchor, _) => {
                let cost = 16 + text.len();
                (Node::Text(text.into_owned()), cost, anchor)
            }
            Event::Alias(id) => {
                let Some((node, cost)) = anchors.get(&id) else {
                    return Err("it refers to itself");
                };
                budget = budget.checked_sub(*cost).ok_or("its aliases expand too far")?;
                (node.clone(), *cost, 0)
            }
            Event::DocumentEnd | Event::StreamEnd => break,
            Event::UnresolvedAlias(_) => return Err("it refers to what is not there"),
            // The parser may learn to tell more; what is not content does not matter here.
            Event::StreamStart | Event::DocumentStart(..) | Event::Anchor(..) | _ => continue,
        };
        if anchor > 0 {
            budget = budget.checked_sub(cost).ok_or("its aliases expand too far")?;
            anchors.insert(anchor, (node.clone(), cost));
        }
        match open.last_mut() {
            Some(parent) => put(parent, node, cost),
            None => return Ok(node),
        }
    }
    Err("it is empty")
}

fn start(
    open: &mut Vec<Open>,
    node: Node,
    anchor: usize,
    is_foreign: bool,
) -> Result<(), &'static str> {
    if open.len() == DEEPEST {
        return Err("it is nested too deep");
    }
    open.push(Open { node, key: None, anchor, cost: 16, is_foreign });
    Ok(())
}

fn put(parent: &mut Open, node: Node, cost: usize) {
    parent.cost = parent.cost.saturating_add(cost);
    match &mut parent.node {
        Node::List(items) => items.push(node),
        Node::Map(entries) => match parent.key.take() {
            Some(key) => entries.push((key, node)),
            // Nobody names a step by a list; the value that follows is found under no name.
            None => parent.key = Some(node.text().unwrap_or_default().to_string()),
        },
        Node::Text(_) => {}
    }
}

/// `<<: *defaults` adds what the map does not say itself.
fn merged(node: Node) -> Node {
    let Node::Map(entries) = node else { return node };
    if !entries.iter().any(|(key, _)| key == "<<") {
        return Node::Map(entries);
    }
    let (defaults, mut own): (Vec<_>, Vec<_>) = entries.into_iter().partition(|(k, _)| k == "<<");
    for (_, node) in defaults {
        let sources = match node {
            Node::List(items) => items,
            Node::Map(_) | Node::Text(_) => vec![node],
        };
        for (key, value) in sources.iter().flat_map(Node::entries) {
            if !own.iter().any(|(known, _)| known == key) {
                own.push((key.clone(), value.clone()));
            }
        }
    }
    Node::Map(own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;

    #[test]
    fn anchors_merges_and_own_tags_are_understood() {
        let node = read(
            "base: &base {image: a, script: [x]}\njob:\n  <<: *base\n  image: b\nother:\n  script: !reference [.setup, script]\n",
        )
        .unwrap();
        let job = node.get("job").unwrap();
        assert_eq!(job.get("image").and_then(Node::text), Some("b"));
        assert_eq!(job.get("script").unwrap().texts(), ["x"]);
        assert!(node.get("other").unwrap().get("script").unwrap().texts().is_empty());
    }

    #[test]
    fn what_github_runs_is_read() {
        let matrix = "a:\n  b: [\n    { \"os\": \"x\", \"name\": \"y\" },\n  ]\n  c: d\n";
        assert_eq!(
            read(matrix).unwrap().get("a").unwrap().get("c").and_then(Node::text),
            Some("d")
        );
    }

    #[test]
    fn bombs_are_refused() {
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
            ("? ".repeat(100_000), "it is nested too deep"),
            ("- ".repeat(100_000), "it is nested too deep"),
            ("{".repeat(1000), "it is not valid YAML"),
            ("x".repeat(LARGEST_TEXT + 1), "it is too large"),
            ("a: &a [*a]".to_string(), "it refers to itself"),
            ("a: [".to_string(), "it is not valid YAML"),
            ("\u{0}\u{1}".to_string(), "it is not valid YAML"),
            (String::new(), "it is empty"),
        ] {
            let shown: String = text.chars().take(20).collect();
            assert_eq!(read(&text).err(), Some(expected), "{shown}");
        }
    }
}
