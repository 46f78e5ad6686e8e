//! Reads the host's transcript, from the offset of the last stop onwards and never from the beginning.

use crate::cost_meter::MeteredCost;
use ralph_core::digest64::Digest64;
use ralph_core::event::StopEvent;
use ralph_core::facts::StopDelivery;
use ralph_core::record::TranscriptReading;
use ralph_core::run::RunState;
use ralph_home::host_env;
use ralph_home::world::World;
use ralph_host::HostProfile;
use ralph_host::transcript_summary::{LastAssistantMessage, TranscriptSummary};
use ralph_sys::fs;
use ralph_sys::tail::{self, TailWindow};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// How far back the first read of a transcript goes. A task list further back than that is stale anyway.
const FIRST_READ_BYTES: u64 = 1024 * 1024;
const FIRST_READ_BYTES_FOR_CHECKLIST: u64 = 8 * 1024 * 1024;
const BACKWARD_STEP: usize = 128 * 1024;

/// The transcript as it was at one stop.
#[derive(Debug)]
pub struct TranscriptSnapshot {
    pub observed: Option<TranscriptReading>,
    pub last: Option<LastAssistantMessage>,
    /// `None` without a prompt id, which is needed to recognise a repeated delivery.
    pub delivery: Option<StopDelivery>,
    pub tools: TranscriptToolUse,
    pub has_queued_input: bool,
    /// Metered by `cost_meter`, apart from the rest.
    pub cost: Option<MeteredCost>,
}

/// Whether the agent has used a tool since the last stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TranscriptToolUse {
    Used,
    None,
    Unknown,
}

/// Reads what the transcript adds to the event. A missing, truncated or lagging transcript is not an error; the facts
/// it would add are absent.
pub fn read_transcript(
    world: &World,
    stop: &StopEvent,
    before: Option<&TranscriptReading>,
    wants_checklist: bool,
) -> TranscriptSnapshot {
    let said = stop.last_message.as_deref().unwrap_or_default();
    let delivery = stop.prompt.as_deref().map(|prompt| StopDelivery {
        stop: Digest64::of_parts(&[
            prompt.as_bytes(),
            said.as_bytes(),
            &[u8::from(stop.continuing)],
        ])
        .0,
        length: None,
        arrived_ms: world.arrived_ms,
    });
    let found = stop.transcript.as_deref().and_then(|path| resolve_transcript(world, path));
    let found = found.and_then(|path| Some((fs::stat(&path)?, path)));
    let Some((stat, path)) = found.filter(|(stat, _)| stat.kind == fs::FileKind::File) else {
        return TranscriptSnapshot {
            observed: None,
            last: None,
            delivery,
            tools: TranscriptToolUse::Unknown,
            has_queued_input: false,
            cost: None,
        };
    };
    let before = before.filter(|before| before.inode == stat.inode && before.offset <= stat.len);
    let mut seen = TranscriptSummary::default();
    seen.queue.old = before.map_or(0, |before| before.queued);
    let offset = match before {
        Some(before) if stat.len - before.offset <= FIRST_READ_BYTES_FOR_CHECKLIST => {
            read_forward(world.host, &path, before.offset, stat.len, &mut seen)
        }
        Some(_) | None => {
            read_backward(world.host, &path, stat.len, wants_checklist, &mut seen);
            stat.len
        }
    };
    let tools = match before {
        None if !seen.saw_blocked_stop => TranscriptToolUse::Unknown,
        Some(_) | None if seen.tool_calls == 0 => TranscriptToolUse::None,
        Some(_) | None => TranscriptToolUse::Used,
    };
    let kept = before.cloned().unwrap_or_default();
    let observed = TranscriptReading {
        inode: stat.inode,
        offset,
        context_tokens: seen.context_tokens.or(kept.context_tokens),
        context_window: seen.context_window.or(kept.context_window),
        cost_micro_usd: kept.cost_micro_usd,
        first_cost_micro_usd: kept.first_cost_micro_usd,
        checklist: if wants_checklist { seen.checklist.take().or(kept.checklist) } else { None },
        // A queued message starts the next turn by itself. One that did not was never there, so it is waited for once.
        queued: if seen.queue.has_waiting_message() { 0 } else { seen.queue.len() },
    };
    let has_queued_input = seen.queue.has_waiting_message();
    let delivery = delivery.map(|delivery| StopDelivery { length: Some(stat.len), ..delivery });
    TranscriptSnapshot {
        observed: Some(observed),
        last: seen.last_assistant,
        delivery,
        tools,
        has_queued_input,
        cost: None,
    }
}

/// The length of the transcript that an event names; 0 without one.
pub fn transcript_length(transcript: Option<&str>) -> u64 {
    transcript.and_then(|path| fs::stat(path.as_ref())).map_or(0, |stat| stat.len)
}

/// Whether the agent may have changed a file since this offset of the transcript. Only a transcript that is complete up
/// to the agent's last message shows that it did not.
pub fn may_have_written(world: &World, stop: &StopEvent, from: u64) -> bool {
    let Some(seen) = read_since(world, stop.transcript.as_deref(), from) else { return true };
    let is_complete = seen
        .last_assistant
        .is_some_and(|last| last.text.is_some() && last.text == stop.last_message);
    seen.writing_calls > 0 || !is_complete
}

/// Whether the transcript shows a tool that may write since this offset. Without a transcript there is none.
pub fn has_writing_calls(world: &World, transcript: Option<&str>, from: u64) -> bool {
    read_since(world, transcript, from).is_some_and(|seen| seen.writing_calls > 0)
}

/// `None` if there is no transcript, or too much of it to read while the host waits.
fn read_since(world: &World, transcript: Option<&str>, from: u64) -> Option<TranscriptSummary> {
    let path = transcript.and_then(|path| resolve_transcript(world, path))?;
    let stat = fs::stat(&path)?;
    let is_readable = stat.kind == fs::FileKind::File
        && from <= stat.len
        && stat.len - from <= FIRST_READ_BYTES_FOR_CHECKLIST;
    if !is_readable {
        return None;
    }
    let mut seen = TranscriptSummary::default();
    read_forward(world.host, &path, from, stat.len, &mut seen);
    Some(seen)
}

/// Interruptions that the host recorded in the transcript since the last stop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TurnInterruptions {
    pub interrupted: bool,
    pub overridden: bool,
    /// The offset up to which the transcript was read.
    pub seen: u64,
}

/// Reads interruptions since the last stop. Returns the default if there is no transcript, or too much of it to read
/// while the host waits.
pub fn read_interruptions(
    world: &World,
    transcript: Option<&str>,
    state: &RunState,
) -> TurnInterruptions {
    let found = transcript.and_then(|path| resolve_transcript(world, path));
    let Some((stat, path)) = found.and_then(|path| Some((fs::stat(&path)?, path))) else {
        return TurnInterruptions::default();
    };
    let known = state.observed.as_ref().filter(|observed| observed.inode == stat.inode);
    let from = known.map_or(0, |observed| observed.offset).max(state.heeded);
    if stat.kind != fs::FileKind::File
        || from > stat.len
        || stat.len - from > FIRST_READ_BYTES_FOR_CHECKLIST
    {
        return TurnInterruptions::default();
    }
    let mut seen = TranscriptSummary::default();
    // The next event continues after the last complete line, because the host may still be writing the one after it.
    let end = read_forward(world.host, &path, from, stat.len, &mut seen);
    TurnInterruptions { interrupted: seen.interrupted, overridden: seen.overridden, seen: end }
}

/// Resolves the path that the event names. Only a file inside the host's own directory is trusted.
pub fn resolve_transcript(world: &World, transcript: &str) -> Option<PathBuf> {
    let path = fs::resolve(transcript.as_ref())?;
    let root = fs::resolve(&host_env::host_config_dir(&world.env, world.host)?)?;
    path.starts_with(root).then_some(path)
}

fn read_forward(
    host: &HostProfile,
    path: &Path,
    from: u64,
    end: u64,
    seen: &mut TranscriptSummary,
) -> u64 {
    let mut offset = from;
    while offset < end {
        let Ok(chunk) = tail::read_lines_from(
            path,
            offset,
            usize::try_from(FIRST_READ_BYTES_FOR_CHECKLIST).unwrap_or(usize::MAX),
        ) else {
            break;
        };
        for line in chunk.lines() {
            seen.add((host.parse_transcript_line)(line));
        }
        if chunk.end == offset {
            break;
        }
        offset = chunk.end;
    }
    offset
}

fn read_backward(
    host: &HostProfile,
    path: &Path,
    end: u64,
    wants_checklist: bool,
    seen: &mut TranscriptSummary,
) {
    let most = if wants_checklist { FIRST_READ_BYTES_FOR_CHECKLIST } else { FIRST_READ_BYTES };
    let mut newest_first = Vec::new();
    let mut found = TranscriptSummary::default();
    let visit =
        tail::visit_lines_backward(path, &TailWindow { end, step: BACKWARD_STEP, most }, |line| {
            let line = (host.parse_transcript_line)(line);
            found.add(line.clone());
            newest_first.push(line);
            let listed = !wants_checklist || found.checklist.is_some();
            if found.context_tokens.is_some() && listed {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
    // An unreadable part adds nothing.
    drop(visit);
    newest_first.into_iter().rev().for_each(|line| seen.add(line));
}
