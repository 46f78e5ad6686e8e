//! Checks chunks over all layers: the gates they name exist, and the `after` of pipeline chunks forms no cycle.

use super::keys::{CHUNK, EntryTable, GATE, PIPELINE_CHUNK};
use super::parse::{ConfigEntry, ConfigProblems};
use super::value::ConfigValue;
use super::{ConfigDraft, ConfigSource};
use ralph_core::pipeline;
use ralph_core::text;

/// Maximum number of names shown of a cycle or of the known names.
const MAX_SHOWN_NAMES: usize = 12;

pub(super) fn check_chunks(
    entries: &[ConfigEntry],
    sources: &[ConfigSource],
    problems: &mut ConfigProblems,
) {
    let mut check = ChunkChecker { entries, sources, problems };
    for entry in entries.iter().filter(|entry| is_chunk(entry)) {
        check.check_gates(entry);
        if entry.is_in(&PIPELINE_CHUNK) {
            check.check_name(entry);
            check.check_after(entry);
        } else {
            check.check_not_empty(entry);
        }
    }
    check.check_cycle();
}

fn is_chunk(entry: &ConfigEntry) -> bool {
    entry.is_in(&CHUNK) || entry.is_in(&PIPELINE_CHUNK)
}

struct ChunkChecker<'a> {
    entries: &'a [ConfigEntry],
    sources: &'a [ConfigSource],
    problems: &'a mut ConfigProblems,
}

impl<'a> ChunkChecker<'a> {
    fn entries_of(
        &self,
        table: &'static EntryTable,
    ) -> impl Iterator<Item = &'a ConfigEntry> + use<'a> {
        self.entries.iter().filter(move |entry| entry.is_in(table))
    }

    fn check_gates(&mut self, chunk: &ConfigEntry) {
        for name in text_list(chunk, "gates") {
            if !self.entries_of(&GATE).any(|gate| gate.name == *name) {
                let hint = suggest_name(name, self.entries_of(&GATE), "no gates are defined");
                self.add_problem(chunk, "gates", format!("there is no gate named `{name}`"), hint);
            }
        }
    }

    /// Reports a name that a pipeline chunk shares with a `[[chunk]]`. Duplicates within a table of one file were reported
    /// when it was parsed.
    fn check_name(&mut self, chunk: &ConfigEntry) {
        if self.entries_of(&CHUNK).any(|other| other.name == chunk.name) {
            let message = format!("there is also a `[[chunk]]` named `{}`", chunk.name);
            let hint = "requirements of a chunk are reported by its name: rename one of the two";
            self.add_problem(chunk, "name", message, hint.to_string());
        }
    }

    fn check_after(&mut self, chunk: &ConfigEntry) {
        for name in text_list(chunk, "after") {
            if self.entries_of(&PIPELINE_CHUNK).any(|other| other.name == *name) {
                continue;
            }
            let message = format!("there is no `[[pipeline.chunk]]` named `{name}`");
            let hint = if self.entries_of(&CHUNK).any(|other| other.name == *name) {
                format!("`[[chunk]]` entries have no order: make `{name}` a `[[pipeline.chunk]]`")
            } else {
                let others =
                    self.entries_of(&PIPELINE_CHUNK).filter(|other| other.name != chunk.name);
                suggest_name(name, others, "the pipeline has no other chunk")
            };
            self.add_problem(chunk, "after", message, hint);
        }
    }

    fn check_not_empty(&mut self, chunk: &ConfigEntry) {
        let is_for_agents = |gate: &ConfigEntry| {
            text_list(gate, "on").iter().any(|moment| matches!(&**moment, "subagent" | "teammate"))
        };
        let has_own =
            !text_list(chunk, "gates").is_empty() || !text_list(chunk, "outputs").is_empty();
        if !has_own && !self.entries_of(&GATE).any(is_for_agents) {
            let message = format!("chunk `{}` requires nothing", text::clean_line(&chunk.name, 60));
            let hint = "add `gates = [\"tests\"]` or `outputs = [\"docs/parser.md\"]`".to_string();
            self.add_problem(chunk, "match", message, hint);
        }
    }

    fn check_cycle(&mut self) {
        let entries: Vec<_> = self.entries_of(&PIPELINE_CHUNK).cloned().collect();
        let chunks = ConfigDraft::build(&[], &entries).policy.pipeline;
        let Some(circle) = pipeline::find_cycle(&chunks) else { return };
        let names: Vec<&str> = circle.iter().map(|chunk| chunk.name.as_str()).collect();
        let Some(first) =
            self.entries_of(&PIPELINE_CHUNK).find(|entry| names.first() == Some(&&*entry.name))
        else {
            return;
        };
        let (message, hint) = match names.as_slice() {
            [one, _] => (
                format!("chunk `{one}` comes after itself"),
                "remove its own name from `after`".to_string(),
            ),
            _ => (
                format!("the pipeline has a cycle: `{}`", format_cycle(&names)),
                "each chunk waits for the next: remove one name from an `after`".to_string(),
            ),
        };
        self.add_problem(first, "after", message, hint);
    }

    fn add_problem(&mut self, chunk: &ConfigEntry, key: &str, message: String, hint: String) {
        let setting = chunk.settings.iter().find(|setting| setting.key == key);
        if let Some(setting) = setting
            && let Some(source) =
                self.sources.iter().find(|source| source.layer == setting.location.layer)
        {
            self.problems.add(source, setting.span.clone(), message, Some(hint));
        }
    }
}

fn text_list<'e>(entry: &'e ConfigEntry, key: &str) -> &'e [String] {
    let setting = entry.settings.iter().find(|setting| setting.key == key);
    match setting.map(|setting| &setting.value) {
        Some(ConfigValue::Texts(texts, _)) => texts,
        _ => &[],
    }
}

fn suggest_name<'e>(
    name: &str,
    known: impl Iterator<Item = &'e ConfigEntry>,
    none: &str,
) -> String {
    let known: Vec<&str> = known.map(|entry| entry.name.as_str()).collect();
    if let Some(near) = text::nearest(name, known.iter().copied()) {
        return format!("did you mean `{near}`?");
    }
    if known.is_empty() {
        return none.to_string();
    }
    let named: Vec<_> =
        known.iter().take(MAX_SHOWN_NAMES).map(|name| format!("`{name}`")).collect();
    let more = known.len().saturating_sub(MAX_SHOWN_NAMES);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("known names: {}{more}", named.join(", "))
}

fn format_cycle(names: &[&str]) -> String {
    let (Some(last), true) = (names.last(), names.len() > MAX_SHOWN_NAMES) else {
        return names.join(" → ");
    };
    let begins: Vec<&str> = names.iter().take(MAX_SHOWN_NAMES - 2).copied().collect();
    format!("{} → … → {last}", begins.join(" → "))
}
