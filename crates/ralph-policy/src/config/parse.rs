//! Parses one policy file into settings and collects every problem in it.
//!
//! Merging the layers is in the parent module, checking a single value in `value`.

use super::judge_backend::BACKEND_HINT;
use super::keys::{CHUNK, ConfigKey, EntryTable, PIPELINE_CHUNK, ROOT, SetVariable, ValueKind};
use super::value::{self, ConfigValue};
use super::{ConfigLayer, ConfigLocation, ConfigProblem, ConfigSource};
use ralph_core::text;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

/// Maximum number of entries in a table such as `[[gate]]`; more are taken for a mistake.
pub(super) const MAX_ENTRIES: usize = 200;
pub(super) const MAX_VARIABLES: usize = 200;
/// Only this many problems are kept; the rest are counted.
const MAX_PROBLEMS: usize = 20;
/// Names of ralph's own requirements that a gate could otherwise take. A report that `policy` is met must not be
/// ambiguous.
const RESERVED_GATE_NAMES: [&str; 9] = [
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
const PLAN_APPROVAL_HINT: &str =
    "leave it out: the plan always needs an approval; `plan = \"person\"` says by whom";
/// The shortest prefix for which a key is suggested: `max_cost` suggests `max_cost_usd`, `m` nothing.
const MIN_PREFIX_LEN: usize = 3;

/// A value with its key and where it was set.
#[derive(Clone, Debug)]
pub(super) struct ConfigSetting {
    /// `run.max_iterations`; within an entry only `timeout`.
    pub(super) key: String,
    pub(super) value: ConfigValue,
    pub(super) location: ConfigLocation,
    pub(super) span: Range<usize>,
}

/// One `[[gate]]`, `[[chunk]]`, `[[pipeline.chunk]]` or `[[lines.pattern]]`.
#[derive(Clone, Debug)]
pub(super) struct ConfigEntry {
    pub(super) table: &'static EntryTable,
    pub(super) name: String,
    pub(super) settings: Vec<ConfigSetting>,
}

impl ConfigEntry {
    pub(super) fn is_in(&self, table: &EntryTable) -> bool {
        self.table.path == table.path
    }
}

/// The settings of one file.
#[derive(Debug, Default)]
pub(super) struct ParsedLayer {
    pub(super) settings: Vec<ConfigSetting>,
    pub(super) entries: Vec<ConfigEntry>,
}

/// The problems of all layers.
#[derive(Debug, Default)]
pub(super) struct ConfigProblems {
    pub(super) first: Vec<ConfigProblem>,
    pub(super) more: usize,
}

impl ConfigProblems {
    pub(super) fn add(
        &mut self,
        source: &ConfigSource,
        span: Range<usize>,
        message: String,
        hint: Option<String>,
    ) {
        if self.first.len() >= MAX_PROBLEMS {
            self.more += 1;
            return;
        }
        let problem = ConfigProblem {
            path: source.path.clone(),
            source: source.text.clone(),
            span,
            message,
            hint,
        };
        // Two layers of the parser may report the same mistake.
        if !self.first.contains(&problem) {
            self.first.push(problem);
        }
    }
}

struct LayerParser<'a> {
    source: &'a ConfigSource,
    line_starts: Vec<usize>,
    problems: &'a mut ConfigProblems,
    layer: ParsedLayer,
}

pub(super) fn parse_layer(source: &ConfigSource, problems: &mut ConfigProblems) -> ParsedLayer {
    let before = problems.first.len();
    let (document, errors) = DeTable::parse_recoverable(&source.text);
    for error in &errors {
        let span = error.span().unwrap_or(0..0);
        problems.add(source, span, text::clean_line(error.message(), 200), None);
    }
    let line_starts = source.text.match_indices('\n').map(|(at, _)| at + 1).collect();
    let mut reader = LayerParser {
        source,
        line_starts,
        problems: &mut *problems,
        layer: ParsedLayer::default(),
    };
    // A document recovered from syntax errors would give spurious problems.
    if errors.is_empty() {
        reader.parse_root(document.get_ref());
    }
    let sheet = reader.layer;
    // Report problems from top to bottom.
    if let Some(found) = problems.first.get_mut(before..) {
        found.sort_by_key(|problem| problem.span.start);
    }
    sheet
}

impl LayerParser<'_> {
    fn parse_root(&mut self, document: &DeTable) {
        for (name, found) in fields_in_source_order(document) {
            let Some(key) = self.find_key(ROOT, "", name) else { continue };
            if key.kind.is_user_only() && self.source.layer == ConfigLayer::Project {
                let message = format!("`{}` cannot be set by a project", key.heading());
                let hint = "it can run programs, send data, spend money or remove files on your behalf: set it in your own `~/.ralph/config.toml`";
                self.add_problem(name.span(), message, hint.to_string());
            } else if let ValueKind::NamedEntries(table) = key.kind {
                self.parse_entries(table, found);
            } else {
                self.parse_table(key, found);
            }
        }
    }

    /// Reads a table such as `[run]`.
    fn parse_table(&mut self, section: &'static ConfigKey, found: &Spanned<DeValue>) {
        let DeValue::Table(table) = found.get_ref() else {
            let hint = format!("write it as `[{}]`", section.name);
            return self.add_problem(
                found.span(),
                format!("`{}` must be a table", section.name),
                hint,
            );
        };
        for (name, found) in fields_in_source_order(table) {
            let Some(key) = self.find_key(section.kind.keys(), section.name, name) else {
                continue;
            };
            let path = format!("{}.{}", section.name, key.name);
            if let ValueKind::NamedEntries(table) = key.kind {
                self.parse_entries(table, found);
            } else if let ValueKind::Variables(set) = key.kind {
                self.parse_variables(&path, found, set);
            } else if let Some(setting) = self.parse_setting(&key.kind, &path, &path, found) {
                self.layer.settings.push(setting);
            }
        }
    }

    /// Reads an array of tables such as `[[gate]]`.
    fn parse_entries(&mut self, entries: &'static EntryTable, found: &Spanned<DeValue>) {
        let table = entries.path;
        let hint = format!("write one `[[{table}]]` per entry");
        let DeValue::Array(items) = found.get_ref() else {
            return self.add_problem(
                found.span(),
                format!("`{table}` must be a list of tables"),
                hint,
            );
        };
        if items.len() > MAX_ENTRIES {
            let message = format!("more than {MAX_ENTRIES} `[[{table}]]` entries");
            let is_mergeable = table.ends_with("chunk") || table == "price";
            let hint = if is_mergeable {
                "merge some of them"
            } else {
                "combine several checks in one command"
            };
            return self.add_problem(found.span(), message, hint.to_string());
        }
        for item in items {
            if let DeValue::Table(fields) = item.get_ref() {
                self.parse_entry(entries, fields, item.span());
            } else {
                let message = format!("`{table}` must be a list of tables");
                self.add_problem(item.span(), message, hint.clone());
            }
        }
    }

    fn parse_entry(&mut self, entries: &'static EntryTable, fields: &DeTable, span: Range<usize>) {
        let table = entries.path;
        let mut settings = Vec::new();
        for (name, found) in fields_in_source_order(fields) {
            let Some(key) = self.find_key(entries.keys, table, name) else { continue };
            let path = format!("{table}.{}", key.name);
            settings.extend(self.parse_setting(&key.kind, &path, key.name, found));
        }
        let has = |name: &str| fields.iter().any(|(key, _)| key.get_ref() == name);
        let by = |key: &str| settings.iter().find(|setting| setting.key == key);
        let named = by("name").or_else(|| by("match")).or_else(|| by("model"));
        let name = named.and_then(|setting| {
            let ConfigValue::Text(name, _) = &setting.value else { return None };
            Some((name.clone(), setting.span.clone()))
        });
        // The built-in entries are only templates, without names or commands.
        if self.source.layer != ConfigLayer::BuiltIn {
            self.check_required_keys(table, &has, span);
            if let Some((name, span)) =
                name.as_ref().filter(|_| matches!(table, "gate" | "judge" | "ci"))
                && RESERVED_GATE_NAMES.iter().any(|own| own.eq_ignore_ascii_case(name))
            {
                let message = format!("`{table}.name` cannot be `\"{name}\"`");
                let hint = format!(
                    "ralph uses that name for a requirement of its own: try `\"{name}-{table}\"`"
                );
                self.add_problem(span.clone(), message, hint);
            }
            if let Some((name, span)) = &name
                && self
                    .layer
                    .entries
                    .iter()
                    .any(|entry| entry.is_in(entries) && entry.name == *name)
            {
                let message = format!("there is already a `[[{table}]]` named `{name}`");
                self.add_problem(
                    span.clone(),
                    message,
                    "names must be unique within a file".to_string(),
                );
            }
        }
        let name = name.map_or_else(String::new, |(name, _)| name);
        self.layer.entries.push(ConfigEntry { table: entries, name, settings });
    }

    /// Reports missing and conflicting keys of an entry.
    fn check_required_keys(&mut self, table: &str, has: &dyn Fn(&str) -> bool, span: Range<usize>) {
        let mut missing = |key: &str, hint: &str| {
            self.add_problem(
                span.clone(),
                format!("`[[{table}]]` is missing `{key}`"),
                hint.to_string(),
            );
        };
        if table == "price" {
            let lacking = ["model", "input", "output"].into_iter().filter(|key| !has(key));
            lacking.for_each(|key| missing(key, "name the model and its prices in US dollars per million tokens: `model = \"my-model\"`, `input = 1.50`, `output = 7.50`"));
            return;
        }
        if table != "chunk" && !has("name") {
            missing("name", "give it a short name, such as `name = \"tests\"`");
        }
        if table == "judge" {
            if !has("kind") {
                missing("kind", "say what it is asked, such as `kind = \"adversarial\"`");
            }
            if !has("backend") {
                missing("backend", BACKEND_HINT);
            }
            return;
        }
        match (table, has("run"), has("shell")) {
            ("gate", false, false) => {
                missing("run", "add the command: `run = [\"npm\", \"test\"]`");
            }
            ("gate", true, true) => {
                let message = "`[[gate]]` has both `run` and `shell`".to_string();
                self.add_problem(span, message, "keep one of them".to_string());
            }
            ("ci", ..) if !has("provider") => {
                missing("provider", "say where the checks run: `provider = \"github\"`");
            }
            ("chunk", ..) if !has("match") => {
                missing("match", "say which agents it applies to: `match = \"implementer*\"`");
            }
            ("lines.pattern", ..) if !has("pattern") => {
                missing("pattern", "add the regular expression: `pattern = \"console\\\\.log\"`");
            }
            _ => {}
        }
    }

    fn parse_variables(&mut self, path: &str, found: &Spanned<DeValue>, set: SetVariable) {
        let DeValue::Table(table) = found.get_ref() else {
            return self.add_problem(
                found.span(),
                format!("`{path}` must be a table"),
                ValueKind::Variables(set).expected(),
            );
        };
        if table.len() > MAX_VARIABLES {
            let message = format!("`{path}` has more than {MAX_VARIABLES} variables");
            return self.add_problem(
                found.span(),
                message,
                "set them in a script instead".to_string(),
            );
        }
        for (name, found) in fields_in_source_order(table) {
            let path = format!("{path}.{}", text::clean_line(name.get_ref(), 100));
            match value::parse_variable(name.get_ref(), found, set) {
                Ok(value) => {
                    let setting = self.locate(path, value, found.span());
                    self.layer.settings.push(setting);
                }
                Err(wrong) => {
                    self.add_problem(wrong.span, format!("`{path}` {}", wrong.message), wrong.hint);
                }
            }
        }
    }

    /// Reads a value. Problems name its full `path`; it is stored under `key`.
    fn parse_setting(
        &mut self,
        kind: &ValueKind,
        path: &str,
        key: &str,
        found: &Spanned<DeValue>,
    ) -> Option<ConfigSetting> {
        match value::parse_value(kind, found) {
            Ok(value) => Some(self.locate(key.to_string(), value, found.span())),
            Err(wrongs) => {
                for wrong in wrongs {
                    let is_plan = self.source.text.get(wrong.span.clone()) == Some("\"plan\"");
                    let hint = if path == "orchestrator.approvals" && is_plan {
                        PLAN_APPROVAL_HINT.to_string()
                    } else {
                        wrong.hint
                    };
                    self.add_problem(wrong.span, format!("`{path}` {}", wrong.message), hint);
                }
                None
            }
        }
    }

    fn locate(&self, key: String, value: ConfigValue, span: Range<usize>) -> ConfigSetting {
        let line = self.line_starts.partition_point(|start| *start <= span.start) + 1;
        let place = ConfigLocation {
            layer: self.source.layer,
            line: u32::try_from(line).unwrap_or(u32::MAX),
        };
        ConfigSetting { key, value, location: place, span }
    }

    /// Finds a key by name; an unknown one is a problem.
    fn find_key(
        &mut self,
        keys: &'static [ConfigKey],
        table: &str,
        name: &Spanned<DeString>,
    ) -> Option<&'static ConfigKey> {
        let written: &str = name.get_ref();
        let known = keys.iter().find(|key| key.name == written);
        if known.is_none() {
            let message = format!("unknown key `{}`", text::clean_line(written, 60));
            // A project's file must not be offered keys that it may not set.
            let is_offered = |key: &&ConfigKey| {
                !key.kind.is_user_only() || self.source.layer != ConfigLayer::Project
            };
            let keys: Vec<&ConfigKey> = keys.iter().filter(is_offered).collect();
            self.add_problem(name.span(), message, suggest_key(&keys, table, written));
        }
        known
    }

    fn add_problem(&mut self, span: Range<usize>, message: String, hint: String) {
        self.problems.add(self.source, span, message, Some(hint));
    }
}

fn suggest_key(keys: &[&ConfigKey], table: &str, written: &str) -> String {
    let is_of_pipeline = || PIPELINE_CHUNK.keys.iter().any(|key| key.name == written);
    if table == CHUNK.path && is_of_pipeline() {
        return format!("only a `[[{}]]` has it", PIPELINE_CHUNK.path);
    }
    if let Some(hint) = explain_misplaced_key(table, written) {
        return hint.to_string();
    }
    let near = text::nearest(written, keys.iter().map(|key| key.name));
    let begun = || {
        keys.iter()
            .map(|key| key.name)
            .find(|name| written.len() >= MIN_PREFIX_LEN && name.starts_with(written))
    };
    let near = near.or_else(begun);
    if let Some(key) = keys.iter().find(|key| Some(key.name) == near) {
        let name = if table.is_empty() { key.heading() } else { key.name.to_string() };
        return format!("did you mean `{name}`?");
    }
    let has = |section: &&&ConfigKey| section.kind.keys().iter().any(|key| key.name == written);
    if let Some(home) = keys.iter().find(has).filter(|_| table.is_empty()) {
        return format!("it belongs under `{}`", home.heading());
    }
    let known = keys.iter().map(|key| format!("`{}`", key.name)).collect::<Vec<_>>().join(", ");
    format!("known keys: {known}")
}

/// Keys that people write for settings with another name or place.
fn explain_misplaced_key(table: &str, written: &str) -> Option<&'static str> {
    match written {
        "judge" if !table.is_empty() => Some(
            "a `[[judge]]` of `kind = \"goal\"` counts as the measure of the goal with `counts = true`",
        ),
        "approval" if table == "orchestrator" => {
            Some("name the phases that a person approves: `approvals = [\"implement\"]`")
        }
        "approval" => Some(
            "a chunk has it, in `[[pipeline.chunk]]`; for phases write `approvals = [\"implement\"]` under `[orchestrator]`",
        ),
        _ => None,
    }
}

type TomlField<'a, 'i> = (&'a Spanned<DeString<'i>>, &'a Spanned<DeValue<'i>>);

/// Fields in source order, so that problems are reported from top to bottom.
fn fields_in_source_order<'a, 'i>(table: &'a DeTable<'i>) -> Vec<TomlField<'a, 'i>> {
    let mut fields: Vec<_> = table.iter().collect();
    fields.sort_by_key(|(key, _)| key.span().start);
    fields
}
