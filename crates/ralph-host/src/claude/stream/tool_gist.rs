//! The part of a tool call that a person wants to read.

use super::json_fields;
use crate::stream::ToolGist;
use ralph_core::text;

/// Longer than the summary, so that a secret is redacted as a whole before the text is cut.
const KEPT: usize = 4000;

/// The fields of a tool's input that hold it, in order of preference.
fn gist_fields(tool: &str) -> &'static [&'static str] {
    match tool {
        "Bash" | "PowerShell" | "Monitor" => &["command"],
        "Read" | "Edit" | "MultiEdit" | "Write" | "NotebookEdit" => &["file_path", "notebook_path"],
        "Grep" | "Glob" => &["pattern"],
        "LS" => &["path"],
        "Agent" | "Task" => &["description"],
        "WebFetch" => &["url"],
        "WebSearch" | "ToolSearch" => &["query"],
        "Skill" => &["skill"],
        _ => &[],
    }
}

pub(super) fn parse_gist(tool: &str, input: &str) -> ToolGist {
    let found = json_fields::parse_object(input).and_then(|fields| {
        gist_fields(tool).iter().find_map(|key| Some((*key, fields.string(key)?)))
    });
    match found {
        Some(("command", text)) => ToolGist::Command(text::truncate(&text, KEPT)),
        Some(("file_path" | "notebook_path" | "path", text)) => {
            ToolGist::Path(text::truncate(&text, KEPT))
        }
        Some((_, text)) => ToolGist::Text(text::truncate(&text, KEPT)),
        None => ToolGist::Text(text::truncate(input, KEPT)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::borrow::ToOwned;
    use alloc::format;

    #[test]
    fn the_gist_of_a_call_depends_on_the_tool() {
        let command = |text: &str| ToolGist::Command(text.to_owned());
        let path = |text: &str| ToolGist::Path(text.to_owned());
        let text = |text: &str| ToolGist::Text(text.to_owned());
        for (tool, input, expected) in [
            ("Bash", r#"{"command":"cargo test\n","description":"d"}"#, command("cargo test\n")),
            ("Bash", r#"{"command":7}"#, text(r#"{"command":7}"#)),
            ("Bash", "", text("")),
            ("Write", r#"{"file_path":"/p/src/a.rs","content":"x"}"#, path("/p/src/a.rs")),
            ("NotebookEdit", r#"{"notebook_path":"/p/n.ipynb"}"#, path("/p/n.ipynb")),
            ("Grep", r#"{"pattern":"fn \\w+","path":"src"}"#, text("fn \\w+")),
            ("Agent", r#"{"description":"look it over","prompt":"long"}"#, text("look it over")),
            ("mcp__x__y", r#"{"a":{"b":[1,2]}}"#, text(r#"{"a":{"b":[1,2]}}"#)),
            (
                "WebSearch",
                r#"{"query":"half \ud83d a face"}"#,
                text("half \u{fffd}\u{fffd}\u{fffd} a face"),
            ),
        ] {
            assert_eq!(parse_gist(tool, input), expected, "{tool} {input}");
        }
        let long = format!(r#"{{"command":"{}"}}"#, "x".repeat(1_000_000));
        assert_eq!(
            parse_gist("Bash", &long),
            ToolGist::Command(format!("{}…", "x".repeat(KEPT - 1)))
        );
    }
}
