//! JSON and YAML of other tools as one tree, with access that keeps track of unread entries.

use ralph_core::source::SourceError;

use ralph_policy::detect::yaml;
pub(super) use ralph_policy::detect::yaml::DataNode;

/// Maximum length of a text on one line, in characters.
const MAX_INLINE_CHARS: usize = 4000;

pub(super) fn parse_json_tree(text: &str) -> Result<DataNode, String> {
    if text.trim().is_empty() {
        return Err("it is empty".to_string());
    }
    serde_json::from_str(text).map_err(|error| SourceError::from(error).why)
}

pub(super) fn parse_yaml_tree(text: &str) -> Result<DataNode, String> {
    yaml::parse_yaml(text).map_err(ToString::to_string)
}

/// The entries of a map that have not been taken yet.
pub(super) struct UnreadFields<'n>(Vec<(&'n str, &'n DataNode)>);

impl<'n> UnreadFields<'n> {
    pub(super) fn from_node(node: &'n DataNode) -> Self {
        Self(node.entries().iter().map(|(key, node)| (key.as_str(), node)).collect())
    }

    /// Takes the first non-empty entry with one of these names. `acceptanceCriteria` and `acceptance_criteria` are the same
    /// name.
    pub(super) fn take(&mut self, names: &[&str]) -> Option<&'n DataNode> {
        for name in names {
            let at = self
                .0
                .iter()
                .position(|(key, node)| is_same_key(key, name) && !is_empty_node(node));
            if let Some(at) = at {
                return Some(self.0.remove(at).1);
            }
        }
        None
    }

    /// The entry that [`Self::take`] would take.
    pub(super) fn peek(&self, names: &[&str]) -> Option<&'n DataNode> {
        names.iter().find_map(|name| {
            let mut found = self.0.iter().filter(|(key, _)| is_same_key(key, name));
            found.find(|(_, node)| !is_empty_node(node)).map(|(_, node)| *node)
        })
    }

    /// Like [`Self::take`], but also returns the key as it is written.
    pub(super) fn take_entry(&mut self, name: &str) -> Option<(&'n str, &'n DataNode)> {
        let at =
            self.0.iter().position(|(key, node)| is_same_key(key, name) && !is_empty_node(node))?;
        Some(self.0.remove(at))
    }

    /// Like [`Self::take`], but only takes a text.
    pub(super) fn take_text(&mut self, names: &[&str]) -> Option<&'n str> {
        for name in names {
            let at = self.0.iter().position(|(key, node)| {
                is_same_key(key, name) && !is_empty_node(node) && node.text().is_some()
            });
            if let Some(at) = at {
                return self.0.remove(at).1.text();
            }
        }
        None
    }

    /// Like [`Self::take`], but only takes a positive whole number.
    pub(super) fn take_number(&mut self, names: &[&str]) -> Option<u32> {
        for name in names {
            let number = |node: &DataNode| {
                node.text()?.trim().parse::<u32>().ok().filter(|number| *number > 0)
            };
            let at = self
                .0
                .iter()
                .position(|(key, node)| is_same_key(key, name) && number(node).is_some());
            if let Some(at) = at {
                return number(self.0.remove(at).1);
            }
        }
        None
    }

    /// The remaining non-empty entries.
    pub(super) fn remaining(self) -> impl Iterator<Item = (&'n str, &'n DataNode)> {
        self.0.into_iter().filter(|(_, node)| !is_empty_node(node))
    }
}

fn is_same_key(one: &str, other: &str) -> bool {
    let plain = |text: &str| -> String {
        text.chars()
            .filter(char::is_ascii_alphanumeric)
            .map(|char| char.to_ascii_lowercase())
            .collect()
    };
    plain(one) == plain(other)
}

/// Whether a node is empty or `null`.
pub(super) fn is_empty_node(node: &DataNode) -> bool {
    match node {
        DataNode::Text(text) => matches!(text.trim(), "" | "null" | "~"),
        DataNode::List(items) => items.iter().all(is_empty_node),
        DataNode::Map(entries) => entries.iter().all(|(_, node)| is_empty_node(node)),
    }
}

/// Renders a node for people: items with dashes, entries with colons, nested values indented.
pub(super) fn render_node(node: &DataNode) -> String {
    let mut out = String::new();
    push_node(node, 0, &mut out);
    out.trim_end().to_string()
}

fn push_node(node: &DataNode, depth: usize, out: &mut String) {
    let indent = "  ".repeat(depth);
    match node {
        DataNode::Text(text) => {
            for line in text.lines() {
                out.push_str(&format!("{indent}{line}\n"));
            }
        }
        DataNode::List(items) => {
            for item in items {
                let mut inner = String::new();
                push_node(item, depth.saturating_add(1), &mut inner);
                out.push_str(&format!("{indent}- {}\n", inner.trim()));
            }
        }
        DataNode::Map(entries) => {
            for (key, value) in entries {
                push_labelled(&format!("{indent}{key}:"), value, depth, out);
            }
        }
    }
}

fn push_labelled(label: &str, node: &DataNode, depth: usize, out: &mut String) {
    match node.text().filter(|text| !text.contains('\n')) {
        Some(text) => out.push_str(format!("{label} {text}").trim_end()),
        None => out.push_str(label),
    }
    out.push('\n');
    if node.text().is_none_or(|text| text.contains('\n')) {
        push_node(node, depth.saturating_add(1), out);
    }
}

/// Renders a node on one line.
pub(super) fn render_inline(node: &DataNode) -> String {
    match node {
        DataNode::Text(text) => text.trim().to_string(),
        DataNode::List(items) => items.iter().map(render_inline).collect::<Vec<_>>().join(", "),
        DataNode::Map(entries) => {
            let parts = entries.iter().map(|(key, node)| format!("{key}: {}", render_inline(node)));
            parts.collect::<Vec<_>>().join("; ")
        }
    }
}

/// The items of a list as texts, or the single text in place of a list.
pub(super) fn text_items(node: &DataNode) -> Vec<String> {
    let items = match node {
        DataNode::List(items) => items.as_slice(),
        DataNode::Text(_) | DataNode::Map(_) => std::slice::from_ref(node),
    };
    let texts = items.iter().filter(|item| !is_empty_node(item)).map(render_inline);
    texts.map(|text| ralph_core::text::truncate(&text, MAX_INLINE_CHARS)).collect()
}

/// The line of the first occurrence of a key, counted from 1.
pub(super) fn line_of_key(text: &str, key: &str) -> Option<u32> {
    let is_there = |line: &str| {
        let line = line.trim_start().trim_start_matches("- ").trim_start_matches("export ");
        let line = line.trim_start_matches(['{', '[', ',', ' ']);
        let rest = match line.strip_prefix('"') {
            Some(quoted) => quoted.strip_prefix(key).and_then(|rest| rest.strip_prefix('"')),
            None => line.strip_prefix(key),
        };
        rest.is_some_and(|rest| rest.trim_start().starts_with([':', '=']))
    };
    let at = text.lines().position(is_there)?;
    u32::try_from(at.saturating_add(1)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_keeps_order_and_duplicate_keys() {
        let node = parse_json_tree(r#"{"b": 1, "a": [true, null, 1.50, -2], "b": "\ud83d\ude00"}"#)
            .unwrap();
        insta::assert_snapshot!(render_node(&node), @"
        b: 1
        a:
          - true
          - null
          - 1.5
          - -2
        b: 😀
        ");
        for (text, expected) in [
            ("", "it is empty"),
            ("{\"a\": [1,\n", "line 2, column 0: EOF while parsing a value"),
            ("{'a': 1}", "line 1, column 2: key must be a string"),
        ] {
            assert_eq!(parse_json_tree(text).unwrap_err(), expected, "{text}");
        }
        let deep = "[".repeat(100_000);
        assert_eq!(
            parse_json_tree(&deep).unwrap_err(),
            "line 1, column 128: recursion limit exceeded"
        );
    }

    #[test]
    fn spellings_of_a_key_are_equal_and_lines_are_found() {
        let text = "# c\nmax_iterations: 5\nnested:\n  - completionPromise: X\nMaxIterations: 0\n";
        let node = parse_yaml_tree(text).unwrap();
        let mut fields = UnreadFields::from_node(&node);
        assert_eq!(fields.take_number(&["maxIterations"]), Some(5));
        assert_eq!(fields.take_number(&["maxIterations"]), None, "0 is not a limit");
        let rest: Vec<_> =
            fields.remaining().map(|(key, node)| (key, render_inline(node))).collect();
        assert_eq!(
            rest,
            [("nested", "completionPromise: X".to_string()), ("MaxIterations", "0".to_string())]
        );
        for (key, line) in [("completionPromise", Some(4)), ("nested", Some(3)), ("none", None)] {
            assert_eq!(line_of_key(text, key), line, "{key}");
        }
        assert_eq!(line_of_key("{\n  \"a\": 1, \"b\": 2\n}", "a"), Some(2));
        assert_eq!(line_of_key("export A=1", "A"), Some(1));
    }
}
