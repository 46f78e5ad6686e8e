//! What the project's CI runs and with which variables, so that a proposal demands neither more nor less of the work.

use ralph_core::gate::GateInvocation;

use super::ci::CiScript;
use super::command_import::{canonical_command, is_visible};
use super::gate_draft::GateDraft;
use super::project_dir::DetectionNotes;
use super::shell_text::{self, CommandShape};
use super::yaml::DataNode;

/// Variables on which the results of tests and compilers depend. Others select caches, credentials or versions.
const IMPORTED_VARIABLES: [&str; 14] = [
    "FORCE_COLOR",
    "LANG",
    "LANGUAGE",
    "LC_ALL",
    "NODE_ENV",
    "NO_COLOR",
    "PYTHONHASHSEED",
    "PYTHONIOENCODING",
    "PYTHONUTF8",
    "PYTHONWARNINGS",
    "RUSTDOCFLAGS",
    "RUSTFLAGS",
    "RUST_BACKTRACE",
    "TZ",
];
const MAX_VALUE_BYTES: usize = 200;

/// A variable that CI sets to a fixed value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CiVariable {
    pub name: String,
    pub value: String,
    /// The file that sets it, relative to the project.
    pub source: String,
}

#[derive(Debug, Default)]
pub(super) struct CiFacts {
    /// The words of each command, without assignments before it.
    commands: Vec<Vec<String>>,
    variables: Vec<CiVariable>,
}

impl CiFacts {
    pub(super) fn add_script(&mut self, script: &CiScript<'_>) {
        for text in shell_text::split_commands(&script.text).unwrap_or_default() {
            if let CommandShape::Words(words) | CommandShape::Shell(words) =
                shell_text::command_shape(&text)
            {
                self.commands.push(words);
            }
        }
    }

    /// Reads a mapping of variables. An expression such as `${{ matrix.tz }}` or `$ZONE` has no fixed value.
    pub(super) fn add_variables(&mut self, source: &str, mapping: Option<&DataNode>) {
        for (name, value) in mapping.map(DataNode::entries).unwrap_or_default() {
            if let Some(value) = value.text() {
                self.add_variable(source, name, value);
            }
        }
    }

    /// Reads variables as Travis has them: `TZ=UTC LANG=C`.
    pub(super) fn add_assignments(&mut self, source: &str, line: &str) {
        let quotes = ['"', '\''];
        for (name, value) in line.split_whitespace().filter_map(|word| word.split_once('=')) {
            let bare = value.trim_matches(quotes);
            // A blank inside of quotes.
            if !bare.contains(quotes) && value.starts_with(quotes) == value.ends_with(quotes) {
                self.add_variable(source, name, bare);
            }
        }
    }

    fn add_variable(&mut self, source: &str, name: &str, value: &str) {
        let is_fixed = value.len() <= MAX_VALUE_BYTES
            && !value.contains('$')
            && is_visible(value)
            && IMPORTED_VARIABLES.contains(&name);
        if is_fixed {
            self.variables.push(CiVariable {
                name: name.to_string(),
                value: value.to_string(),
                source: source.to_string(),
            });
        }
    }

    fn commands_of(&self, canonical: &str) -> impl Iterator<Item = &Vec<String>> {
        self.commands.iter().filter(move |words| {
            let names: Vec<&str> = words.iter().map(String::as_str).collect();
            canonical_command(&names) == canonical
        })
    }

    fn runs(&self, canonical: &str) -> bool {
        self.commands_of(canonical).next().is_some()
    }

    fn runs_program(&self, program: &str) -> bool {
        self.commands.iter().any(|words| words.first().is_some_and(|first| first == program))
    }

    /// The variables that have one value in all of CI. Jobs that differ in one test the difference.
    pub(super) fn agreed_variables(&self, notes: &mut DetectionNotes) -> Vec<CiVariable> {
        let mut agreed: Vec<CiVariable> = Vec::new();
        for variable in &self.variables {
            let CiVariable { name, source, .. } = variable;
            let mut same = self.variables.iter().filter(|other| other.name == *name);
            if same.any(|other| other.value != variable.value) {
                notes.add(&format!("`{source}`: `{name}` has several values in CI; none is set"));
            } else if !agreed.iter().any(|other| other.name == *name) {
                agreed.push(variable.clone());
            }
        }
        agreed
    }

    /// Leaves out checks of Rust code that CI does not do, and flags that make them stricter. Without knowledge of CI, a
    /// warning is a warning.
    pub(super) fn fit_rust_gates(&self, drafts: &mut Vec<GateDraft>, notes: &mut DetectionNotes) {
        let is_known = self.runs_program("cargo")
            && !["make", "just", "task"].iter().any(|program| self.runs_program(program));
        for (canonical, file) in [("cargo clippy", "clippy"), ("cargo fmt", "rustfmt")] {
            let is_proposed = |draft: &GateDraft| {
                draft.stack == "rust" && draft.covers.iter().any(|one| one == canonical)
            };
            if is_known && !self.runs(canonical) && drafts.iter().any(is_proposed) {
                drafts.retain(|draft| !is_proposed(draft));
                notes.add(&format!("CI does not run `{canonical}`, so {file} is not proposed"));
            }
        }
        let denies = |word: &String| matches!(word.as_str(), "-Dwarnings" | "--deny=warnings");
        let denies_pair = |pair: &[String]| matches!(pair, [flag, what] if (flag == "-D" || flag == "--deny") && what == "warnings");
        let is_strict = self
            .commands_of("cargo clippy")
            .any(|words| words.iter().any(denies) || words.windows(2).any(denies_pair));
        if is_strict {
            return;
        }
        for draft in drafts.iter_mut().filter(|draft| draft.stack == "rust") {
            if let GateInvocation::Argv(words) = &mut draft.gate.command
                && words.ends_with(&["--".into(), "-D".into(), "warnings".into()])
            {
                words.truncate(words.len() - 3);
            }
        }
    }
}
