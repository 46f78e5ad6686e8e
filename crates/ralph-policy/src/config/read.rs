//! Parses one policy file into settings and collects every problem in it.
//!
//! Merging the layers is in the parent module, checking a single value in `value`.

use super::keys::{Key, Kind, ROOT};
use super::value::{self, Value};
use super::{Layer, Place, Problem, Source};
use ralph_core::text;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

/// Maximum number of entries in a table such as `[[gate]]`; more are taken for a mistake.
pub(super) const MOST_ENTRIES: usize = 200;
pub(super) const MOST_VARIABLES: usize = 200;
/// Only this many problems are kept; the rest are counted.
const MOST_PROBLEMS: usize = 20;
/// Names of ralph's own requirements that a gate could otherwise take. A report that `policy` is met must not be
/// ambiguous.
const OWN_NAMES: [&str; 9] = [
    "checklist",
    "checkpoint",
    "goal",
    "loop",
    "orchestrator",
    "policy",
    "promise",
    "tasks",
    "tools",
];
pub(super) const PIPELINE: &str = "pipeline.chunk";
const PATTERN: &str = "lines.pattern";
/// The shortest prefix for which a key is suggested: `max_cost` suggests `max_cost_usd`, `m` nothing.
const SHORTEST_BEGINNING: usize = 3;

/// A value with its key and where it was set.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    /// `run.max_iterations`; within an entry only `timeout`.
    pub(super) key: String,
    pub(super) value: Value,
    pub(super) place: Place,
    pub(super) span: Range<usize>,
}

/// One `[[gate]]`, `[[chunk]]`, `[[pipeline.chunk]]` or `[[lines.pattern]]`.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// `gate`, `chunk`, `pipeline.chunk` or `lines.pattern`.
    pub(super) table: &'static str,
    pub(super) name: String,
    pub(super) settings: Vec<Setting>,
}

/// The settings of one file.
#[derive(Debug, Default)]
pub(super) struct Sheet {
    pub(super) settings: Vec<Setting>,
    pub(super) entries: Vec<Entry>,
}

/// The problems of all layers.
#[derive(Debug, Default)]
pub(super) struct Problems {
    pub(super) first: Vec<Problem>,
    pub(super) more: usize,
}

impl Problems {
    pub(super) fn add(
        &mut self,
        source: &Source,
        span: Range<usize>,
        text: (String, Option<String>),
    ) {
        if self.first.len() >= MOST_PROBLEMS {
            self.more += 1;
            return;
        }
        let (message, hint) = text;
        let problem =
            Problem { path: source.path.clone(), source: source.text.clone(), span, message, hint };
        // Two layers of the parser may report the same mistake.
        if !self.first.contains(&problem) {
            self.first.push(problem);
        }
    }
}

struct Reader<'a> {
    source: &'a Source,
    line_starts: Vec<usize>,
    problems: &'a mut Problems,
    sheet: Sheet,
}

pub(super) fn read(source: &Source, problems: &mut Problems) -> Sheet {
    let before = problems.first.len();
    let (document, errors) = DeTable::parse_recoverable(&source.text);
    for error in &errors {
        let span = error.span().unwrap_or(0..0);
        problems.add(source, span, (text::line(error.message(), 200), None));
    }
    let line_starts = source.text.match_indices('\n').map(|(at, _)| at + 1).collect();
    let mut reader =
        Reader { source, line_starts, problems: &mut *problems, sheet: Sheet::default() };
    // A document recovered from syntax errors would give spurious problems.
    if errors.is_empty() {
        reader.root(document.get_ref());
    }
    let sheet = reader.sheet;
    // Report problems from top to bottom.
    if let Some(found) = problems.first.get_mut(before..) {
        found.sort_by_key(|problem| problem.span.start);
    }
    sheet
}

impl Reader<'_> {
    fn root(&mut self, document: &DeTable) {
        for (name, found) in in_order(document) {
            let Some(key) = self.known(ROOT, "", name) else { continue };
            if let Kind::Named(keys) = key.kind {
                self.entries(key.name, keys, found);
            } else if matches!(key.kind, Kind::Own(_)) && self.source.layer == Layer::Project {
                let message = format!("`{}` cannot be set by a project", key.heading());
                let hint = "it can run programs, send data or spend money on your behalf: set it in your own `~/.ralph/config.toml`";
                self.problem(name.span(), message, hint.to_string());
            } else {
                self.table(key, found);
            }
        }
    }

    /// Reads a table such as `[run]`.
    fn table(&mut self, section: &'static Key, found: &Spanned<DeValue>) {
        let DeValue::Table(table) = found.get_ref() else {
            let hint = format!("write it as `[{}]`", section.name);
            return self.problem(found.span(), format!("`{}` must be a table", section.name), hint);
        };
        for (name, found) in in_order(table) {
            let Some(key) = self.known(section.kind.keys(), section.name, name) else { continue };
            let path = format!("{}.{}", section.name, key.name);
            if let Kind::Named(keys) = key.kind {
                let within = if section.name == "pipeline" { PIPELINE } else { PATTERN };
                self.entries(within, keys, found);
            } else if let Kind::Variables = key.kind {
                self.variables(&path, found);
            } else if let Some(setting) = self.setting(&key.kind, (&path, &path), found) {
                self.sheet.settings.push(setting);
            }
        }
    }

    /// Reads an array of tables such as `[[gate]]`.
    fn entries(&mut self, table: &'static str, keys: &'static [Key], found: &Spanned<DeValue>) {
        let hint = format!("write one `[[{table}]]` per entry");
        let DeValue::Array(items) = found.get_ref() else {
            return self.problem(found.span(), format!("`{table}` must be a list of tables"), hint);
        };
        if items.len() > MOST_ENTRIES {
            let message = format!("more than {MOST_ENTRIES} `[[{table}]]` entries");
            let is_chunks = table.ends_with("chunk");
            let hint = if is_chunks {
                "merge some of them"
            } else {
                "combine several checks in one command"
            };
            return self.problem(found.span(), message, hint.to_string());
        }
        for item in items {
            if let DeValue::Table(fields) = item.get_ref() {
                self.entry((table, keys), fields, item.span());
            } else {
                let message = format!("`{table}` must be a list of tables");
                self.problem(item.span(), message, hint.clone());
            }
        }
    }

    fn entry(
        &mut self,
        kind: (&'static str, &'static [Key]),
        fields: &DeTable,
        span: Range<usize>,
    ) {
        let (table, keys) = kind;
        let mut settings = Vec::new();
        for (name, found) in in_order(fields) {
            let Some(key) = self.known(keys, table, name) else { continue };
            let path = format!("{table}.{}", key.name);
            settings.extend(self.setting(&key.kind, (&path, key.name), found));
        }
        let has = |name: &str| fields.iter().any(|(key, _)| key.get_ref() == name);
        let by = |key: &str| settings.iter().find(|setting| setting.key == key);
        let named = by("name").or_else(|| by("match"));
        let name = named.and_then(|setting| match &setting.value {
            Value::Text(name) => Some((name.clone(), setting.span.clone())),
            Value::Flag(_)
            | Value::Count(_)
            | Value::MicroUsd(_)
            | Value::Permille(_)
            | Value::DurationMs(_)
            | Value::Texts(_)
            | Value::Address(_) => None,
        });
        // The built-in entries are only templates, without names or commands.
        if self.source.layer != Layer::BuiltIn {
            self.complete(table, &has, span);
            if let Some((name, span)) = name.as_ref().filter(|_| table == "gate")
                && OWN_NAMES.iter().any(|own| own.eq_ignore_ascii_case(name))
            {
                let message = format!("`gate.name` cannot be `\"{name}\"`");
                let hint = format!(
                    "ralph uses that name for a requirement of its own: try `\"{name}-gate\"`"
                );
                self.problem(span.clone(), message, hint);
            }
            if let Some((name, span)) = &name
                && self
                    .sheet
                    .entries
                    .iter()
                    .any(|entry| entry.table == table && entry.name == *name)
            {
                let message = format!("there is already a `[[{table}]]` named `{name}`");
                self.problem(
                    span.clone(),
                    message,
                    "names must be unique within a file".to_string(),
                );
            }
        }
        let name = name.map_or_else(String::new, |(name, _)| name);
        self.sheet.entries.push(Entry { table, name, settings });
    }

    /// Reports missing and conflicting keys of an entry.
    fn complete(&mut self, table: &str, has: &dyn Fn(&str) -> bool, span: Range<usize>) {
        let mut missing = |key: &str, hint: &str| {
            self.problem(
                span.clone(),
                format!("`[[{table}]]` is missing `{key}`"),
                hint.to_string(),
            );
        };
        if table != "chunk" && !has("name") {
            missing("name", "give it a short name, such as `name = \"tests\"`");
        }
        match (table, has("run"), has("shell")) {
            ("gate", false, false) => {
                missing("run", "add the command: `run = [\"npm\", \"test\"]`");
            }
            ("gate", true, true) => {
                let message = "`[[gate]]` has both `run` and `shell`".to_string();
                self.problem(span, message, "keep one of them".to_string());
            }
            ("chunk", ..) if !has("match") => {
                missing("match", "say which agents it applies to: `match = \"implementer*\"`");
            }
            (PATTERN, ..) if !has("pattern") => {
                missing("pattern", "add the regular expression: `pattern = \"console\\\\.log\"`");
            }
            _ => {}
        }
    }

    fn variables(&mut self, path: &str, found: &Spanned<DeValue>) {
        let DeValue::Table(table) = found.get_ref() else {
            return self.problem(
                found.span(),
                format!("`{path}` must be a table"),
                Kind::Variables.expected(),
            );
        };
        if table.len() > MOST_VARIABLES {
            let message = format!("`{path}` has more than {MOST_VARIABLES} variables");
            return self.problem(found.span(), message, "set them in a script instead".to_string());
        }
        for (name, found) in in_order(table) {
            let path = format!("{path}.{}", text::line(name.get_ref(), 100));
            match value::variable(name.get_ref(), found) {
                Ok(value) => {
                    let setting = self.placed(path, value, found.span());
                    self.sheet.settings.push(setting);
                }
                Err(wrong) => {
                    self.problem(wrong.span, format!("`{path}` {}", wrong.says), wrong.hint);
                }
            }
        }
    }

    /// Reads a value. `names` are the full name, for problems, and the key to store it under.
    fn setting(
        &mut self,
        kind: &Kind,
        names: (&str, &str),
        found: &Spanned<DeValue>,
    ) -> Option<Setting> {
        match value::read(kind, found) {
            Ok(value) => Some(self.placed(names.1.to_string(), value, found.span())),
            Err(wrongs) => {
                for wrong in wrongs {
                    self.problem(wrong.span, format!("`{}` {}", names.0, wrong.says), wrong.hint);
                }
                None
            }
        }
    }

    fn placed(&self, key: String, value: Value, span: Range<usize>) -> Setting {
        let line = self.line_starts.partition_point(|start| *start <= span.start) + 1;
        let place =
            Place { layer: self.source.layer, line: u32::try_from(line).unwrap_or(u32::MAX) };
        Setting { key, value, place, span }
    }

    /// Finds a key by name; an unknown one is a problem.
    fn known(
        &mut self,
        keys: &'static [Key],
        table: &str,
        name: &Spanned<DeString>,
    ) -> Option<&'static Key> {
        let written: &str = name.get_ref();
        let known = keys.iter().find(|key| key.name == written);
        if known.is_none() {
            let message = format!("unknown key `{}`", text::line(written, 60));
            // A project's file must not be offered keys that it may not set.
            let is_offered = |key: &&Key| {
                !matches!(key.kind, Kind::Own(_)) || self.source.layer != Layer::Project
            };
            let keys: Vec<&Key> = keys.iter().filter(is_offered).collect();
            self.problem(name.span(), message, suggest(&keys, table, written));
        }
        known
    }

    fn problem(&mut self, span: Range<usize>, message: String, hint: String) {
        self.problems.add(self.source, span, (message, Some(hint)));
    }
}

fn suggest(keys: &[&Key], table: &str, written: &str) -> String {
    let near = text::nearest(written, keys.iter().map(|key| key.name));
    let begun = || {
        keys.iter()
            .map(|key| key.name)
            .find(|name| written.len() >= SHORTEST_BEGINNING && name.starts_with(written))
    };
    let near = near.or_else(begun);
    if let Some(key) = keys.iter().find(|key| Some(key.name) == near) {
        let name = if table.is_empty() { key.heading() } else { key.name.to_string() };
        return format!("did you mean `{name}`?");
    }
    let has = |section: &&&Key| section.kind.keys().iter().any(|key| key.name == written);
    if let Some(home) = keys.iter().find(has).filter(|_| table.is_empty()) {
        return format!("it belongs under `{}`", home.heading());
    }
    let known = keys.iter().map(|key| format!("`{}`", key.name)).collect::<Vec<_>>().join(", ");
    format!("known keys: {known}")
}

type Field<'a, 'i> = (&'a Spanned<DeString<'i>>, &'a Spanned<DeValue<'i>>);

/// Fields in source order, so that problems are reported from top to bottom.
fn in_order<'a, 'i>(table: &'a DeTable<'i>) -> Vec<Field<'a, 'i>> {
    let mut fields: Vec<_> = table.iter().collect();
    fields.sort_by_key(|(key, _)| key.span().start);
    fields
}
