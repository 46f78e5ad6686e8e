//! Adds tables to the text of a policy and keeps every byte that a person wrote.

use crate::detect::ProposedGate;
use crate::detect::render_policy::{render_gate, render_sessions};
use ralph_core::policy::SessionGates;

const NEW_POLICY: &str = "\
# Nothing in this file runs until a person approves it with `ralph trust`.
";

/// The text with the gate as its last table; a whole new policy if there is no text. Whether the result is valid, for
/// example because `gate` was an inline array, is up to `config::load_with_text`.
pub fn add_gate(text: Option<&str>, proposal: &ProposedGate) -> String {
    append_table(text.unwrap_or(NEW_POLICY), &render_gate(&proposal.gate))
}

/// The text with a choice of the sessions that its gates hold, as its last table.
pub fn add_sessions(text: &str, sessions: SessionGates) -> String {
    append_table(text, &render_sessions(sessions))
}

fn append_table(text: &str, table: &str) -> String {
    let line_end = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let mut out = text.to_string();
    if !out.is_empty() && !out.ends_with('\n') {
        out.push_str(line_end);
    }
    if !out.is_empty() {
        out.push_str(line_end);
    }
    out.push_str(&table.replace('\n', line_end));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detect::typed_command::{TypedCommand, typed_gate};
    use ralph_sys::env::Env;
    use std::path::Path;

    fn added(text: Option<&str>) -> String {
        let env = Env::from_pairs([("PATH", "/bin")], None, Vec::new());
        let typed = TypedCommand { command: "sh test.sh", name: None, stage: None };
        add_gate(text, &typed_gate(Path::new("/"), &env, typed).unwrap())
    }

    #[test]
    fn a_gate_is_added_and_nothing_else_changes() {
        insta::assert_snapshot!(added(None), @r#"
        # Nothing in this file runs until a person approves it with `ralph trust`.

        [[gate]]
        name = "test"
        stage = "correctness"
        run = ["sh", "test.sh"]
        timeout = "10m"
        "#);
        let texts = [
            "# mine\n[[gate]]\nname='a' # odd\nrun = ['true']\n\n[lines]\nforbid = []\n# end",
            "[limits]\r\nmax_iterations = 3\r\n",
            "",
        ];
        for text in texts {
            let new = added(Some(text));
            assert!(new.starts_with(text), "{new}");
            let table: toml::Table = new.parse().unwrap();
            let before: toml::Table = text.parse().unwrap();
            let gates = |table: &toml::Table| {
                table.get("gate").and_then(toml::Value::as_array).map_or(0, Vec::len)
            };
            assert_eq!(gates(&table), gates(&before) + 1, "{new}");
            assert_eq!(text.contains("\r\n"), new.contains("\r\n"), "{new:?}");
            assert_eq!(new.matches('\n').count(), new.lines().count(), "{new:?}");
        }
    }
}
