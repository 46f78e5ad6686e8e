//! Checks chunks over all layers: the gates they name exist, and the `after` of pipeline chunks forms no cycle.

use super::read::{Entry, PIPELINE, Problems};
use super::value::Value;
use super::{Source, apply};
use ralph_core::pipeline;
use ralph_core::policy::Chunk;
use ralph_core::text;

/// Maximum number of names shown of a cycle or of the known names.
const SHOWN: usize = 12;

pub(super) fn check(entries: &[Entry], sources: &[Source], problems: &mut Problems) {
    let mut check = Check { entries, sources, problems };
    for entry in entries.iter().filter(|entry| is_chunk(entry)) {
        check.gates(entry);
        if entry.table == PIPELINE {
            check.name(entry);
            check.after(entry);
        } else {
            check.demand(entry);
        }
    }
    check.circle();
}

fn is_chunk(entry: &Entry) -> bool {
    matches!(entry.table, "chunk" | PIPELINE)
}

struct Check<'a> {
    entries: &'a [Entry],
    sources: &'a [Source],
    problems: &'a mut Problems,
}

impl<'a> Check<'a> {
    fn all(&self, table: &'static str) -> impl Iterator<Item = &'a Entry> + use<'a> {
        self.entries.iter().filter(move |entry| entry.table == table)
    }

    fn gates(&mut self, chunk: &Entry) {
        for name in list(chunk, "gates") {
            if !self.all("gate").any(|gate| gate.name == *name) {
                let hint = suggested(name, self.all("gate"), "no gates are defined");
                self.tell(chunk, "gates", (format!("there is no gate named `{name}`"), hint));
            }
        }
    }

    /// Reports a name that a pipeline chunk shares with a `[[chunk]]`. Duplicates within a table of one file were reported
    /// when it was parsed.
    fn name(&mut self, chunk: &Entry) {
        if self.all("chunk").any(|other| other.name == chunk.name) {
            let message = format!("there is also a `[[chunk]]` named `{}`", chunk.name);
            let hint = "requirements of a chunk are reported by its name: rename one of the two";
            self.tell(chunk, "name", (message, hint.to_string()));
        }
    }

    fn after(&mut self, chunk: &Entry) {
        for name in list(chunk, "after") {
            if self.all(PIPELINE).any(|other| other.name == *name) {
                continue;
            }
            let message = format!("there is no `[[{PIPELINE}]]` named `{name}`");
            let hint = if self.all("chunk").any(|other| other.name == *name) {
                format!("`[[chunk]]` entries have no order: make `{name}` a `[[{PIPELINE}]]`")
            } else {
                let others = self.all(PIPELINE).filter(|other| other.name != chunk.name);
                suggested(name, others, "the pipeline has no other chunk")
            };
            self.tell(chunk, "after", (message, hint));
        }
    }

    fn demand(&mut self, chunk: &Entry) {
        let is_for_agents = |gate: &Entry| {
            list(gate, "on").iter().any(|moment| matches!(&**moment, "subagent" | "teammate"))
        };
        let has_own = !list(chunk, "gates").is_empty() || !list(chunk, "outputs").is_empty();
        if !has_own && !self.all("gate").any(is_for_agents) {
            let message = format!("chunk `{}` requires nothing", text::line(&chunk.name, 60));
            let hint = "add `gates = [\"tests\"]` or `outputs = [\"docs/parser.md\"]`".to_string();
            self.tell(chunk, "match", (message, hint));
        }
    }

    fn circle(&mut self) {
        let chunks: Vec<Chunk> = self.all(PIPELINE).map(apply::chunk).collect();
        let Some(circle) = pipeline::circle(&chunks) else { return };
        let names: Vec<&str> = circle.iter().map(|chunk| chunk.name.as_str()).collect();
        let Some(first) = self.all(PIPELINE).find(|entry| names.first() == Some(&&*entry.name))
        else {
            return;
        };
        let (message, hint) = match names.as_slice() {
            [one, _] => (
                format!("chunk `{one}` comes after itself"),
                "remove its own name from `after`".to_string(),
            ),
            _ => (
                format!("the pipeline has a cycle: `{}`", way(&names)),
                "each chunk waits for the next: remove one name from an `after`".to_string(),
            ),
        };
        self.tell(first, "after", (message, hint));
    }

    fn tell(&mut self, chunk: &Entry, key: &str, (message, hint): (String, String)) {
        let setting = chunk.settings.iter().find(|setting| setting.key == key);
        if let Some(setting) = setting
            && let Some(source) =
                self.sources.iter().find(|source| source.layer == setting.place.layer)
        {
            self.problems.add(source, setting.span.clone(), (message, Some(hint)));
        }
    }
}

fn list<'e>(entry: &'e Entry, key: &str) -> &'e [String] {
    let setting = entry.settings.iter().find(|setting| setting.key == key);
    match setting.map(|setting| &setting.value) {
        Some(Value::Texts(texts)) => texts,
        _ => &[],
    }
}

fn suggested<'e>(name: &str, known: impl Iterator<Item = &'e Entry>, none: &str) -> String {
    let known: Vec<&str> = known.map(|entry| entry.name.as_str()).collect();
    if let Some(near) = text::nearest(name, known.iter().copied()) {
        return format!("did you mean `{near}`?");
    }
    if known.is_empty() {
        return none.to_string();
    }
    let named: Vec<_> = known.iter().take(SHOWN).map(|name| format!("`{name}`")).collect();
    let more = known.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("known names: {}{more}", named.join(", "))
}

fn way(names: &[&str]) -> String {
    let (Some(last), true) = (names.last(), names.len() > SHOWN) else {
        return names.join(" → ");
    };
    let begins: Vec<&str> = names.iter().take(SHOWN - 2).copied().collect();
    format!("{} → … → {last}", begins.join(" → "))
}
