//! Reads an existing transcript to continue it, or to copy its conversation for a fork.

use super::totals::Totals;
use ralph_sys::fs::{self, FileError, Lines};
use ralph_sys::tail;
use serde::Deserialize;
use std::path::Path;

/// Bytes read at a time, many times the size of the longest line (a tool result).
const STEP: usize = 16 * 1024 * 1024;

#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) chain: Option<String>,
    pub(super) turns: u64,
    pub(super) last_prompt: String,
    pub(super) totals: Totals,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Known {
    #[serde(rename = "type")]
    kind: String,
    uuid: Option<String>,
    turn_position: Option<Position>,
    last_prompt: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Position {
    turn_index: u64,
}

pub(super) fn find(path: &Path) -> Result<Found, FileError> {
    let mut found = Found::default();
    if fs::exists(path) {
        each_line(path, |line| {
            let Ok(known) = serde_json::from_slice::<Known>(line) else { return Ok(()) };
            found.chain = known.uuid.or(found.chain.take());
            found.turns = known.turn_position.map_or(found.turns, |at| at.turn_index);
            if let Some(last) = known.last_prompt {
                found.last_prompt = last;
            }
            if known.kind == "cost-state" {
                found.totals = serde_json::from_slice(line).unwrap_or_default();
            }
            Ok(())
        })?;
    }
    Ok(found)
}

/// Copies the conversation under another session id, without the client's own records.
pub(super) fn copy(from: &Path, to: &Path, (old, new): (&str, &str)) -> Result<(), FileError> {
    let mut lines = Lines::open(to)?;
    let (old, new) = (format!("\"sessionId\":\"{old}\""), format!("\"sessionId\":\"{new}\""));
    each_line(from, |line| {
        let Ok(known) = serde_json::from_slice::<Known>(line) else { return Ok(()) };
        if known.uuid.is_none() {
            return Ok(());
        }
        lines.add(String::from_utf8_lossy(line).replace(&old, &new).as_bytes())
    })
}

fn each_line(
    path: &Path,
    mut visit: impl FnMut(&[u8]) -> Result<(), FileError>,
) -> Result<(), FileError> {
    let mut from = 0;
    loop {
        let chunk = tail::forward(path, from, STEP)?;
        for line in chunk.lines() {
            visit(line)?;
        }
        if chunk.end == from {
            return Ok(());
        }
        from = chunk.end;
    }
}
