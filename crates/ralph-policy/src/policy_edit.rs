//! Adds tables to the text of a policy, or changes one value, and keeps every other byte that a person wrote.

use crate::detect::ProposedGate;
use crate::detect::render_policy::{render_gate, render_sessions};
use ralph_core::policy::SessionGates;
use toml_edit::{DocumentMut, Item, Table, TableLike, Value};

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

/// The table that a changed value belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EditedTable<'a> {
    /// `[run]`; it is added if it is missing.
    Section(&'a str),
    /// The `[[gate]]` of this name.
    Gate(&'a str),
}

/// Why a value cannot be changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValueEditError {
    #[error("it is not valid TOML")]
    Syntax,
    #[error("it has no gate `{0}`")]
    NoGate(String),
    #[error("`{0}` is not a table")]
    NotATable(String),
}

/// The text with `key = value` in the table. `value` is TOML. Whether the result is a valid policy is up to
/// `config::load_with_text`.
pub fn set_value(
    text: &str,
    table: EditedTable<'_>,
    key: &str,
    value: &str,
) -> Result<String, ValueEditError> {
    let mut document: DocumentMut = text.parse().map_err(|_| ValueEditError::Syntax)?;
    let value: Value = value.parse().map_err(|_| ValueEditError::Syntax)?;
    match table {
        EditedTable::Section(name) => {
            let section = document.entry(name).or_insert_with(|| Item::Table(Table::new()));
            let section = section.as_table_like_mut();
            put_value(section.ok_or_else(|| ValueEditError::NotATable(name.into()))?, key, value);
        }
        EditedTable::Gate(name) => {
            let gates = document.get_mut("gate");
            let gate = gates.and_then(|gates| find_gate(gates, name));
            put_value(gate.ok_or_else(|| ValueEditError::NoGate(name.into()))?, key, value);
        }
    }
    let out = document.to_string();
    // The editor ends its own lines with `\n`.
    let has_windows_lines = text.contains("\r\n");
    Ok(if has_windows_lines { out.replace("\r\n", "\n").replace('\n', "\r\n") } else { out })
}

fn find_gate<'a>(gates: &'a mut Item, name: &str) -> Option<&'a mut dyn TableLike> {
    let is_named = |table: &dyn TableLike| {
        table.get("name").and_then(Item::as_str).is_some_and(|known| known == name)
    };
    match gates {
        Item::ArrayOfTables(tables) => {
            let table = tables.iter_mut().find(|table| is_named(*table))?;
            Some(table)
        }
        Item::Value(Value::Array(values)) => {
            let tables = values.iter_mut().filter_map(Value::as_inline_table_mut);
            let table = { tables }.find(|table| is_named(*table))?;
            Some(table)
        }
        Item::None | Item::Value(_) | Item::Table(_) => None,
    }
}

/// Replaces the value, or adds it as the last one. A comment behind the old value is kept.
fn put_value(table: &mut dyn TableLike, key: &str, mut value: Value) {
    match table.get_mut(key).and_then(Item::as_value_mut) {
        Some(known) => {
            *value.decor_mut() = known.decor().clone();
            *known = value;
        }
        None => drop(table.insert(key, Item::Value(value))),
    }
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

    #[test]
    fn one_value_changes_and_nothing_else() {
        const POLICY: &str = "\
# mine
[run]
max_iterations = 25 # enough

[[gate]]   # first
name='tsc'
run = ['npx',
  'tsc'] # odd

[[gate]]
name = \"e2e\"
run = ['./e2e.sh']
# end
";
        let gate = EditedTable::Gate("tsc");
        let edited = |text: &str, table, key, value| set_value(text, table, key, value).unwrap();
        insta::assert_snapshot!(edited(POLICY, gate, "on", "[\"stop\", \"task\"]"), @r#"
        # mine
        [run]
        max_iterations = 25 # enough

        [[gate]]   # first
        name='tsc'
        run = ['npx',
          'tsc'] # odd
        on = ["stop", "task"]

        [[gate]]
        name = "e2e"
        run = ['./e2e.sh']
        # end
        "#);
        insta::assert_snapshot!(edited(POLICY, EditedTable::Section("run"), "max_iterations", "37"), @r#"
        # mine
        [run]
        max_iterations = 37 # enough

        [[gate]]   # first
        name='tsc'
        run = ['npx',
          'tsc'] # odd

        [[gate]]
        name = "e2e"
        run = ['./e2e.sh']
        # end
        "#);
        insta::assert_snapshot!(edited("", EditedTable::Section("runner"), "wait_for_limits", "\"12h\""), @r#"
        [runner]
        wait_for_limits = "12h"
        "#);
        let inline = "gate = [{ name = 'a', run = ['true'] }]\n";
        insta::assert_snapshot!(edited(inline, EditedTable::Gate("a"), "rerun", "\"always\""), @r#"gate = [{ name = 'a', run = ['true'] , rerun = "always" }]"#);
        let windows = POLICY.replace('\n', "\r\n");
        let plain = edited(POLICY, gate, "rerun", "\"always\"");
        assert_eq!(edited(&windows, gate, "rerun", "\"always\""), plain.replace('\n', "\r\n"));
        // A value can be set back.
        let back = edited(
            &edited(POLICY, EditedTable::Section("run"), "max_iterations", "37"),
            EditedTable::Section("run"),
            "max_iterations",
            "25",
        );
        assert_eq!(back, POLICY);
    }

    #[test]
    fn a_value_without_a_place_is_an_error() {
        let cases = [
            ("gate = 1\n", EditedTable::Gate("a"), "it has no gate `a`"),
            ("[[gate]]\nname = 'b'\n", EditedTable::Gate("a"), "it has no gate `a`"),
            ("run = 1\n", EditedTable::Section("run"), "`run` is not a table"),
            ("[run\n", EditedTable::Section("run"), "it is not valid TOML"),
        ];
        for (text, table, expected) in cases {
            assert_eq!(set_value(text, table, "key", "1").unwrap_err().to_string(), expected);
        }
    }
}
