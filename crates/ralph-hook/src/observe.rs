//! Reads the host's transcript, from the offset of the last stop onwards and never from the beginning.

use ralph_core::event::Stop;
use ralph_core::facts::{Delivery, Queued};
use ralph_core::mark::Mark;
use ralph_core::record::{Asked, Observed};
use ralph_core::run::State;
use ralph_home::world::World;
use ralph_host::claude::transcript::{self, LastAssistant};
use ralph_sys::fs;
use ralph_sys::tail::{self, Window};
use std::ops::ControlFlow;
use std::path::PathBuf;

/// How far back the first read of a transcript goes. A task list further back than that is stale anyway.
const FIRST_LOOK: u64 = 1024 * 1024;
const FIRST_LOOK_FOR_LIST: u64 = 8 * 1024 * 1024;
const STEP: usize = 128 * 1024;

/// The transcript as it was at one stop.
#[derive(Debug)]
pub struct Sight {
    pub observed: Option<Observed>,
    pub last: Option<LastAssistant>,
    /// `None` without a prompt id, which is needed to recognise a repeated delivery.
    pub delivery: Option<Delivery>,
    pub tools: Tools,
    pub queued: Queued,
}

/// Whether the agent has used a tool since the last stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tools {
    Used,
    None,
    Unknown,
}

/// Reads what the transcript adds to the event. A missing, truncated or lagging transcript is not an error; the facts
/// it would add are absent.
pub fn transcript(world: &World, stop: &Stop, before: Option<&Observed>, list: Asked) -> Sight {
    let said = stop.said.as_deref().unwrap_or_default();
    let delivery = stop.prompt.as_deref().map(|prompt| Delivery {
        stop: Mark::of(&[prompt.as_bytes(), said.as_bytes(), &[u8::from(stop.continuing)]]).0,
        length: None,
        arrived_ms: world.arrived_ms,
    });
    let found = stop.transcript.as_deref().and_then(|path| allowed(world, path));
    let found = found.and_then(|path| Some((fs::stat(&path)?, path)));
    let Some((stat, path)) = found.filter(|(stat, _)| stat.kind == fs::Kind::File) else {
        return Sight {
            observed: None,
            last: None,
            delivery,
            tools: Tools::Unknown,
            queued: Queued::Nothing,
        };
    };
    let before = before.filter(|before| before.inode == stat.inode && before.offset <= stat.len);
    let mut seen = transcript::Observed::default();
    seen.queue.old = before.map_or(0, |before| before.queued);
    let offset = match before {
        Some(before) if stat.len - before.offset <= FIRST_LOOK_FOR_LIST => {
            forward(&path, before.offset, stat.len, &mut seen)
        }
        Some(_) | None => {
            backward(&path, stat.len, list, &mut seen);
            stat.len
        }
    };
    let tools = match before {
        None if !seen.has_held => Tools::Unknown,
        Some(_) | None if seen.tool_calls == 0 => Tools::None,
        Some(_) | None => Tools::Used,
    };
    let kept = before.cloned().unwrap_or_default();
    let observed = Observed {
        inode: stat.inode,
        offset,
        context_tokens: seen.context_tokens.or(kept.context_tokens),
        context_window: seen.context_window.or(kept.context_window),
        cost_micro_usd: seen.cost_usd.map(micro).or(kept.cost_micro_usd),
        first_cost_micro_usd: kept.first_cost_micro_usd.or(seen.cost_usd.map(micro)),
        checklist: match list {
            Asked::Yes => seen.checklist.take().or(kept.checklist),
            Asked::No => None,
        },
        // A queued message starts the next turn by itself. One that did not was never there, so it is waited for once.
        queued: if seen.queue.is_waited_for() { 0 } else { seen.queue.len() },
    };
    let queued = if seen.queue.is_waited_for() { Queued::Something } else { Queued::Nothing };
    let delivery = delivery.map(|delivery| Delivery { length: Some(stat.len), ..delivery });
    Sight { observed: Some(observed), last: seen.last_assistant, delivery, tools, queued }
}

/// Interruptions that the host recorded in the transcript since the last stop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct News {
    pub interrupted: bool,
    pub overridden: bool,
    /// The offset up to which the transcript was read.
    pub seen: u64,
}

/// Reads interruptions since the last stop. Returns the default if there is no transcript, or too much of it to read
/// while the host waits.
pub fn news(world: &World, transcript: Option<&str>, state: &State) -> News {
    let found = transcript.and_then(|path| allowed(world, path));
    let Some((stat, path)) = found.and_then(|path| Some((fs::stat(&path)?, path))) else {
        return News::default();
    };
    let known = state.observed.as_ref().filter(|observed| observed.inode == stat.inode);
    let from = known.map_or(0, |observed| observed.offset).max(state.heeded);
    if stat.kind != fs::Kind::File || from > stat.len || stat.len - from > FIRST_LOOK_FOR_LIST {
        return News::default();
    }
    let mut seen = transcript::Observed::default();
    forward(&path, from, stat.len, &mut seen);
    News { interrupted: seen.interrupted, overridden: seen.overridden, seen: stat.len }
}

/// Resolves the path that the event names. Only a file inside the host's own directory is trusted.
fn allowed(world: &World, transcript: &str) -> Option<PathBuf> {
    let path = fs::resolve(transcript.as_ref())?;
    let root = fs::resolve(&world.env.claude_config_dir()?)?;
    path.starts_with(root).then_some(path)
}

fn forward(path: &std::path::Path, from: u64, end: u64, seen: &mut transcript::Observed) -> u64 {
    let mut offset = from;
    while offset < end {
        let Ok(chunk) =
            tail::forward(path, offset, usize::try_from(FIRST_LOOK_FOR_LIST).unwrap_or(usize::MAX))
        else {
            break;
        };
        for line in chunk.lines() {
            seen.add(transcript::observe(line));
        }
        if chunk.end == offset {
            break;
        }
        offset = chunk.end;
    }
    offset
}

fn backward(path: &std::path::Path, end: u64, list: Asked, seen: &mut transcript::Observed) {
    let most = if list == Asked::Yes { FIRST_LOOK_FOR_LIST } else { FIRST_LOOK };
    let mut newest_first = Vec::new();
    let mut found = transcript::Observed::default();
    let visit = tail::backward(path, &Window { end, step: STEP, most }, |line| {
        let line = transcript::observe(line);
        found.add(line.clone());
        newest_first.push(line);
        let listed = list == Asked::No || found.checklist.is_some();
        if found.context_tokens.is_some() && found.cost_usd.is_some() && listed {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    // An unreadable part adds nothing.
    drop(visit);
    newest_first.into_iter().rev().for_each(|line| seen.add(line));
}

fn micro(usd: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped to a range that a u64 holds"
    )]
    let micro = (usd * 1e6).clamp(0.0, 1e15) as u64;
    micro
}
