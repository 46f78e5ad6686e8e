//! One-line summaries of tool calls.

use super::json_fields;
use ralph_core::redact::Redactor;
use ralph_core::text;
use std::path::Path;

const LONGEST: usize = 160;
/// Longer than the summary, so that a secret is redacted as a whole before the text is cut.
const KEPT: usize = 4000;

/// The part of a tool call that a person wants to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolGist {
    Command(String),
    Path(String),
    Text(String),
}

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

/// The first line of a command, a path relative to the project, or the beginning of the input.
pub fn describe_call(gist: &ToolGist, project: &Path, redactor: &Redactor) -> String {
    match gist {
        ToolGist::Command(command) => {
            let command = redactor.redact(command);
            let mut lines = command.trim().lines();
            let first = text::reveal(lines.next().unwrap_or_default());
            let more = if lines.next().is_some() { " …" } else { "" };
            text::clean_line(&format!("{first}{more}"), LONGEST)
        }
        ToolGist::Path(path) => {
            let path = Path::new(path);
            let below = path.strip_prefix(project).unwrap_or(path);
            let below = if below.as_os_str().is_empty() { path } else { below };
            text::clean_line(&redactor.redact(&below.to_string_lossy()), LONGEST)
        }
        ToolGist::Text(said) => text::clean_line(&redactor.redact(said), LONGEST),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tool_calls_are_summarised_in_one_line() {
        for (tool, input, expected) in [
            ("Bash", r#"{"command":"cargo test\n","description":"d"}"#, "cargo test"),
            ("Bash", r#"{"command":"cd x &&\n make"}"#, "cd x && …"),
            ("Bash", r#"{"command":"echo a\u001b[2Kb\u202e"}"#, "echo a\\u{1b}[2Kb\\u{202e}"),
            ("Bash", r#"{"command":7}"#, r#"{"command":7}"#),
            ("Bash", "", ""),
            ("Write", r#"{"file_path":"/home/me/p/src/a.rs","content":"x"}"#, "src/a.rs"),
            ("Read", r#"{"file_path":"/home/me/p"}"#, "/home/me/p"),
            ("Read", r#"{"file_path":"/home/me/pp/a"}"#, "/home/me/pp/a"),
            ("NotebookEdit", r#"{"notebook_path":"/home/me/p/n.ipynb"}"#, "n.ipynb"),
            ("Grep", r#"{"pattern":"fn \\w+","path":"src"}"#, "fn \\w+"),
            ("Agent", r#"{"description":"look it over","prompt":"long"}"#, "look it over"),
            ("mcp__x__y", r#"{"a":{"b":[1,2]}}"#, r#"{"a":{"b":[1,2]}}"#),
            (
                "WebSearch",
                r#"{"query":"half \ud83d a face"}"#,
                "half \u{fffd}\u{fffd}\u{fffd} a face",
            ),
            (
                "Bash",
                r#"{"command":"curl -H 'Authorization: Bearer abcdefghijklmnop' x"}"#,
                "curl -H 'Authorization: [redacted]' x",
            ),
        ] {
            let gist = parse_gist(tool, input);
            let line = describe_call(&gist, Path::new("/home/me/p"), &Redactor::default());
            assert_eq!(line, expected, "{tool} {input}");
        }
        let long = format!(r#"{{"command":"{}"}}"#, "x".repeat(1_000_000));
        let line = describe_call(&parse_gist("Bash", &long), Path::new("/p"), &Redactor::default());
        assert_eq!(line, format!("{}…", "x".repeat(LONGEST - 1)));
    }
}
