//! JSON and YAML of other tools as one tree, with access that keeps track of unread entries.

use ralph_core::source::Garbled;

use ralph_policy::detect::yaml;
pub(super) use ralph_policy::detect::yaml::Node;

/// Maximum length of a text on one line, in characters.
const LONGEST_INLINE: usize = 4000;

pub(super) fn json(text: &str) -> Result<Node, String> {
    if text.trim().is_empty() {
        return Err("it is empty".to_string());
    }
    serde_json::from_str(text).map_err(|error| Garbled::from(error).why)
}

pub(super) fn yaml(text: &str) -> Result<Node, String> {
    yaml::read(text).map_err(ToString::to_string)
}

/// The entries of a map that have not been taken yet.
pub(super) struct Fields<'n>(Vec<(&'n str, &'n Node)>);

impl<'n> Fields<'n> {
    pub(super) fn of(node: &'n Node) -> Self {
        Self(node.entries().iter().map(|(key, node)| (key.as_str(), node)).collect())
    }

    /// Takes the first non-empty entry with one of these names. `acceptanceCriteria` and `acceptance_criteria` are the same
    /// name.
    pub(super) fn take(&mut self, names: &[&str]) -> Option<&'n Node> {
        for name in names {
            let at = self.0.iter().position(|(key, node)| is_same(key, name) && !is_nothing(node));
            if let Some(at) = at {
                return Some(self.0.remove(at).1);
            }
        }
        None
    }

    /// The entry that [`Self::take`] would take.
    pub(super) fn peek(&self, names: &[&str]) -> Option<&'n Node> {
        names.iter().find_map(|name| {
            let mut found = self.0.iter().filter(|(key, _)| is_same(key, name));
            found.find(|(_, node)| !is_nothing(node)).map(|(_, node)| *node)
        })
    }

    /// Like [`Self::take`], but also returns the key as it is written.
    pub(super) fn entry(&mut self, name: &str) -> Option<(&'n str, &'n Node)> {
        let at = self.0.iter().position(|(key, node)| is_same(key, name) && !is_nothing(node))?;
        Some(self.0.remove(at))
    }

    /// Like [`Self::take`], but only takes a text.
    pub(super) fn text(&mut self, names: &[&str]) -> Option<&'n str> {
        for name in names {
            let at = self.0.iter().position(|(key, node)| {
                is_same(key, name) && !is_nothing(node) && node.text().is_some()
            });
            if let Some(at) = at {
                return self.0.remove(at).1.text();
            }
        }
        None
    }

    /// Like [`Self::take`], but only takes a positive whole number.
    pub(super) fn number(&mut self, names: &[&str]) -> Option<u32> {
        for name in names {
            let number =
                |node: &Node| node.text()?.trim().parse::<u32>().ok().filter(|number| *number > 0);
            let at =
                self.0.iter().position(|(key, node)| is_same(key, name) && number(node).is_some());
            if let Some(at) = at {
                return number(self.0.remove(at).1);
            }
        }
        None
    }

    /// The remaining non-empty entries.
    pub(super) fn rest(self) -> impl Iterator<Item = (&'n str, &'n Node)> {
        self.0.into_iter().filter(|(_, node)| !is_nothing(node))
    }
}

fn is_same(one: &str, other: &str) -> bool {
    let plain = |text: &str| -> String {
        text.chars()
            .filter(char::is_ascii_alphanumeric)
            .map(|char| char.to_ascii_lowercase())
            .collect()
    };
    plain(one) == plain(other)
}

/// Whether a node is empty or `null`.
pub(super) fn is_nothing(node: &Node) -> bool {
    match node {
        Node::Text(text) => matches!(text.trim(), "" | "null" | "~"),
        Node::List(items) => items.iter().all(is_nothing),
        Node::Map(entries) => entries.iter().all(|(_, node)| is_nothing(node)),
    }
}

/// Renders a node for people: items with dashes, entries with colons, nested values indented.
pub(super) fn shown(node: &Node) -> String {
    let mut out = String::new();
    show(node, 0, &mut out);
    out.trim_end().to_string()
}

fn show(node: &Node, depth: usize, out: &mut String) {
    let indent = "  ".repeat(depth);
    match node {
        Node::Text(text) => {
            for line in text.lines() {
                out.push_str(&format!("{indent}{line}\n"));
            }
        }
        Node::List(items) => {
            for item in items {
                let mut inner = String::new();
                show(item, depth.saturating_add(1), &mut inner);
                out.push_str(&format!("{indent}- {}\n", inner.trim()));
            }
        }
        Node::Map(entries) => {
            for (key, value) in entries {
                label(&format!("{indent}{key}:"), value, depth, out);
            }
        }
    }
}

fn label(label: &str, node: &Node, depth: usize, out: &mut String) {
    match node.text().filter(|text| !text.contains('\n')) {
        Some(text) => out.push_str(format!("{label} {text}").trim_end()),
        None => out.push_str(label),
    }
    out.push('\n');
    if node.text().is_none_or(|text| text.contains('\n')) {
        show(node, depth.saturating_add(1), out);
    }
}

/// Renders a node on one line.
pub(super) fn inline(node: &Node) -> String {
    match node {
        Node::Text(text) => text.trim().to_string(),
        Node::List(items) => items.iter().map(inline).collect::<Vec<_>>().join(", "),
        Node::Map(entries) => {
            let parts = entries.iter().map(|(key, node)| format!("{key}: {}", inline(node)));
            parts.collect::<Vec<_>>().join("; ")
        }
    }
}

/// The items of a list as texts, or the single text in place of a list.
pub(super) fn lines(node: &Node) -> Vec<String> {
    let items = match node {
        Node::List(items) => items.as_slice(),
        Node::Text(_) | Node::Map(_) => std::slice::from_ref(node),
    };
    let texts = items.iter().filter(|item| !is_nothing(item)).map(inline);
    texts.map(|text| ralph_core::text::cut(&text, LONGEST_INLINE)).collect()
}

/// The line of the first occurrence of a key, counted from 1.
pub(super) fn line_of(text: &str, key: &str) -> Option<u32> {
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
        let node = json(r#"{"b": 1, "a": [true, null, 1.50, -2], "b": "\ud83d\ude00"}"#).unwrap();
        insta::assert_snapshot!(shown(&node), @"
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
            assert_eq!(json(text).unwrap_err(), expected, "{text}");
        }
        let deep = "[".repeat(100_000);
        assert_eq!(json(&deep).unwrap_err(), "line 1, column 128: recursion limit exceeded");
    }

    #[test]
    fn spellings_of_a_key_are_equal_and_lines_are_found() {
        let text = "# c\nmax_iterations: 5\nnested:\n  - completionPromise: X\nMaxIterations: 0\n";
        let node = yaml(text).unwrap();
        let mut fields = Fields::of(&node);
        assert_eq!(fields.number(&["maxIterations"]), Some(5));
        assert_eq!(fields.number(&["maxIterations"]), None, "0 is not a limit");
        let rest: Vec<_> = fields.rest().map(|(key, node)| (key, inline(node))).collect();
        assert_eq!(
            rest,
            [("nested", "completionPromise: X".to_string()), ("MaxIterations", "0".to_string())]
        );
        for (key, line) in [("completionPromise", Some(4)), ("nested", Some(3)), ("none", None)] {
            assert_eq!(line_of(text, key), line, "{key}");
        }
        assert_eq!(line_of("{\n  \"a\": 1, \"b\": 2\n}", "a"), Some(2));
        assert_eq!(line_of("export A=1", "A"), Some(1));
    }
}
