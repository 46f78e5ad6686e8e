//! Reads an existing transcript to continue it, or to copy its conversation for a fork.

use super::session_totals::SessionTotals;
use ralph_sys::fs::{self, FileError, LineAppender};
use ralph_sys::tail;
use serde::Deserialize;
use std::path::Path;

/// Bytes read at a time, many times the size of the longest line (a tool result).
const CHUNK_BYTES: usize = 16 * 1024 * 1024;

#[derive(Debug, Default)]
pub(super) struct ResumePoint {
    pub(super) last_uuid: Option<String>,
    pub(super) turns: u64,
    pub(super) last_prompt: String,
    pub(super) totals: SessionTotals,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResumeLineWire {
    #[serde(rename = "type")]
    kind: String,
    uuid: Option<String>,
    turn_position: Option<ResumePositionWire>,
    last_prompt: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResumePositionWire {
    turn_index: u64,
}

pub(super) fn read_resume_point(path: &Path) -> Result<ResumePoint, FileError> {
    let mut found = ResumePoint::default();
    if fs::exists(path) {
        visit_lines(path, |line| {
            let Ok(known) = serde_json::from_slice::<ResumeLineWire>(line) else { return Ok(()) };
            found.last_uuid = known.uuid.or(found.last_uuid.take());
            found.turns = known.turn_position.map_or(found.turns, |at| at.turn_index);
            if let Some(last) = known.last_prompt {
                found.last_prompt = last;
            }
            // Totals in an unknown form leave the earlier ones in place.
            if known.kind == "cost-state"
                && let Ok(totals) = serde_json::from_slice(line)
            {
                found.totals = totals;
            }
            Ok(())
        })?;
    }
    Ok(found)
}

/// Copies the conversation under another session id, without the client's own records.
pub(super) fn copy_conversation(
    from: &Path,
    to: &Path,
    old_id: &str,
    new_id: &str,
) -> Result<(), FileError> {
    let mut lines = LineAppender::open(to)?;
    let field = |id: &str| format!("\"sessionId\":\"{id}\"");
    let (old, new) = (field(old_id), field(new_id));
    visit_lines(from, |line| {
        let Ok(known) = serde_json::from_slice::<ResumeLineWire>(line) else { return Ok(()) };
        if known.uuid.is_none() {
            return Ok(());
        }
        lines.append_line(String::from_utf8_lossy(line).replace(&old, &new).as_bytes())
    })
}

fn visit_lines(
    path: &Path,
    mut visit: impl FnMut(&[u8]) -> Result<(), FileError>,
) -> Result<(), FileError> {
    let mut from = 0;
    loop {
        let chunk = tail::read_lines_from(path, from, CHUNK_BYTES)?;
        for line in chunk.lines() {
            visit(line)?;
        }
        if chunk.end == from {
            return Ok(());
        }
        from = chunk.end;
    }
}
