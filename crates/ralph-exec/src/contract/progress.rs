//! Which gates are at work, told to whoever watches a run from another process.

use crate::fs::{self, Durability};
use crate::gates::{Seen, Source};
use crate::paths::Home;
use ralph_core::id::RunId;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// More than one look at the gates ever writes.
const LARGEST: u64 = 1024 * 1024;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "at", rename_all = "snake_case")]
pub enum Progress {
    Started { gate: String },
    Ended { gate: String, outcome: String, took_ms: u64 },
}

#[derive(Debug)]
pub(super) struct Log(PathBuf);

impl Log {
    pub(super) fn of(home: &Home, run: &RunId) -> Self {
        let path = home.run(run).progress();
        if fs::stat(&path).is_some_and(|stat| stat.len > LARGEST) {
            // Whoever watches has seen it.
            drop(fs::overwrite(&path, b""));
        }
        Self(path)
    }

    pub(super) fn note(&self, seen: Seen<'_>) {
        let progress = match seen {
            Seen::Ended(ran) if ran.source != Source::Fresh => return,
            Seen::Started(gate) => Progress::Started { gate: gate.name.clone() },
            Seen::Ended(ran) => Progress::Ended {
                gate: ran.gate.name.clone(),
                outcome: ran.report.outcome.name().to_string(),
                took_ms: ran.report.took_ms,
            },
        };
        let mut line = serde_json::to_vec(&progress).unwrap_or_default();
        line.push(b'\n');
        // A view for people; nothing depends on it.
        drop(fs::append(&self.0, &line, Durability::Cached));
    }
}

/// What was told since `offset`, and how far that goes. A file that became shorter began anew.
pub fn since(home: &Home, run: &RunId, offset: u64) -> (Vec<Progress>, u64) {
    let path = home.run(run).progress();
    let Some(stat) = fs::stat(&path) else { return (Vec::new(), 0) };
    let from = if stat.len < offset { 0 } else { offset };
    let most = usize::try_from(LARGEST).unwrap_or(usize::MAX);
    let bytes = fs::read_range(&path, from, most).unwrap_or_default();
    let whole = memchr::memrchr(b'\n', &bytes).map_or(0, |end| end + 1);
    let lines = bytes.get(..whole).unwrap_or_default();
    let told =
        lines.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok());
    (told.collect(), from.saturating_add(u64::try_from(whole).unwrap_or(0)))
}
