//! One-line summaries of tool calls.

use ralph_core::redact::Redactor;
use ralph_core::text;
use ralph_host::stream::ToolGist;
use std::path::Path;

const LONGEST: usize = 160;

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
        let command = |text: &str| ToolGist::Command(text.to_owned());
        let path = |text: &str| ToolGist::Path(text.to_owned());
        let long = format!("{}…", "x".repeat(LONGEST - 1));
        for (gist, expected) in [
            (command("cargo test\n"), "cargo test"),
            (command("cd x &&\n make"), "cd x && …"),
            (command("echo a\u{1b}[2Kb\u{202e}"), "echo a\\u{1b}[2Kb\\u{202e}"),
            (command(""), ""),
            (command(&"x".repeat(4000)), long.as_str()),
            (path("/home/me/p/src/a.rs"), "src/a.rs"),
            (path("/home/me/p"), "/home/me/p"),
            (path("/home/me/pp/a"), "/home/me/pp/a"),
            (ToolGist::Text("fn \\w+".to_owned()), "fn \\w+"),
            (
                command("curl -H 'Authorization: Bearer abcdefghijklmnop' x"),
                "curl -H 'Authorization: [redacted]' x",
            ),
        ] {
            let line = describe_call(&gist, Path::new("/home/me/p"), &Redactor::default());
            assert_eq!(line, expected, "{gist:?}");
        }
    }
}
