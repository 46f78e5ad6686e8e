//! The progress of a pipeline, computed from the journal. Nothing is run or evaluated here.

use super::{layers, name, named};
use crate::chunk::{self, Tally};
use crate::policy::Chunk;
use crate::record::{Change, Entry, Known, Part, PartKind, PartRule, Report};
use crate::run::PartState;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use serde::Serialize;

/// The state of a chunk, according to the last stop that reported on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Where {
    Done,
    /// An agent finished it, but nothing measures it.
    Claimed,
    /// A person waived it.
    Waived,
    Failing,
    /// A gate, or background work of its agent, is still running.
    Running,
    /// It depends on chunks that are not done.
    Waits,
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node<'a> {
    pub chunk: &'a Chunk,
    /// Counted from 0.
    pub layer: usize,
    pub at: Where,
    /// The reason for the status.
    pub note: String,
    pub waits_for: Vec<&'a str>,
    pub agents: Tally,
    /// Agents that were held, or wait for background work, and have not stopped since.
    pub working: usize,
}

/// What is known about a run; empty if there is no run.
#[derive(Clone, Copy, Debug, Default)]
pub struct History<'a> {
    pub entries: &'a [Entry],
    pub parts: &'a [PartState],
    pub now_ms: u64,
}

/// A pipeline's progress in one line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary<'a> {
    pub done: usize,
    pub total: usize,
    /// Chunks that can be worked on now.
    pub next: Vec<&'a str>,
}

#[derive(Clone, Debug)]
struct Seen {
    at: Where,
    note: String,
}

/// Folds journal entries into the latest state of each chunk.
#[derive(Debug, Default)]
struct Sight {
    seen: BTreeMap<String, Seen>,
    /// Ids of agents that are still working, with the name of their chunk.
    working: BTreeMap<String, String>,
    /// Waived requirements, with the time their waiver ends.
    waived: BTreeMap<String, u64>,
}

/// The state of every chunk according to the journal, ordered by layer.
pub fn nodes<'a>(chunks: &'a [Chunk], history: &History<'_>) -> Vec<Node<'a>> {
    let mut sight = Sight::default();
    history.entries.iter().for_each(|entry| sight.take_in(chunks, &entry.change));
    sight.waived.retain(|_, until_ms| *until_ms > history.now_ms);
    let mut nodes: Vec<Node<'a>> = Vec::new();
    for (layer, members) in layers(chunks).into_iter().enumerate() {
        for chunk in members {
            let node = sight.node(chunk, &nodes);
            let agents = chunk::tally(history.parts, Some(&chunk.name));
            nodes.push(Node { layer, agents, ..node });
        }
    }
    nodes
}

pub fn summary<'a>(nodes: &[Node<'a>]) -> Summary<'a> {
    let is_next = |node: &&Node<'_>| matches!(node.at, Where::Failing | Where::Unknown);
    Summary {
        done: nodes.iter().filter(|node| node.at.is_done()).count(),
        total: nodes.len(),
        next: nodes.iter().filter(is_next).map(|node| node.chunk.name.as_str()).collect(),
    }
}

impl Sight {
    fn take_in(&mut self, chunks: &[Chunk], change: &Change) {
        if let Change::Decided(decided) = change {
            decided.report.iter().for_each(|report| self.reported(chunks, report));
        } else if let Change::Restored(known) = change {
            known.state.report.iter().for_each(|report| self.reported(chunks, report));
        } else if let Change::Part(part) = change {
            self.parted(part);
        } else if let Change::Waived(waiver) = change {
            self.waived.insert(waiver.requirement.clone(), waiver.until_ms);
        } else if let Change::Insisted { requirement } = change {
            self.waived.remove(requirement);
        }
    }

    fn reported(&mut self, chunks: &[Chunk], report: &Report) {
        self.working.clear();
        for chunk in chunks {
            let name = name(chunk);
            let line = report.lines.iter().find(|line| line.name == name);
            let seen = if report.met.contains(&name) {
                Seen::new(Where::Done, "")
            } else if let Some(line) = line {
                let at = match line.standing {
                    Known::Unmet | Known::Advisory => Where::Failing,
                    Known::Unknown => Where::Unknown,
                    Known::Pending => Where::Running,
                };
                Seen::new(at, &line.note)
            } else {
                // A report lists only the first unmet requirements, so a chunk missing from it is not done either.
                Seen::new(Where::Failing, "not done")
            };
            self.seen.insert(chunk.name.clone(), seen);
        }
    }

    fn parted(&mut self, part: &Part) {
        let (Some(chunk), false) = (&part.chunk, part.who.kind == PartKind::Task) else { return };
        let at = match part.rule {
            PartRule::Verified => Where::Done,
            PartRule::Unmeasured => Where::Claimed,
            PartRule::Hold | PartRule::Spent => Where::Failing,
            PartRule::Unknown => Where::Unknown,
            PartRule::Waiting => Where::Running,
        };
        if matches!(part.rule, PartRule::Hold | PartRule::Waiting) {
            self.working.insert(part.who.id.clone(), chunk.clone());
        } else {
            self.working.remove(&part.who.id);
        }
        let first = part.report.as_ref().and_then(|report| report.lines.first());
        let note = match (at, first) {
            (Where::Failing, Some(line)) => format!("{}: {}", line.name, line.note),
            (Where::Failing | Where::Unknown | Where::Running, _) => part.because.clone(),
            _ => String::new(),
        };
        self.seen.insert(chunk.clone(), Seen { at, note });
    }

    fn node<'a>(&self, chunk: &'a Chunk, earlier: &[Node<'a>]) -> Node<'a> {
        let is_over = |name: &str| {
            earlier.iter().any(|node| node.chunk.name == name && node.at.lets_others_begin())
        };
        let mut waits_for: Vec<&str> =
            chunk.after.iter().map(String::as_str).filter(|name| !is_over(name)).collect();
        waits_for.dedup();
        let is_bare = chunk.gates.is_empty() && chunk.outputs.is_empty();
        let unseen = || Seen::new(Where::Unknown, "not checked yet");
        let seen = match self.seen.get(&chunk.name) {
            // The report is older than the completion of its prerequisites, so its own state is not known.
            Some(seen) if seen.at == Where::Running && seen.note.starts_with("comes after") => {
                unseen()
            }
            Some(seen) => seen.clone(),
            None => unseen(),
        };
        let Seen { at, note } = if !seen.at.is_done() && self.waived.contains_key(&name(chunk)) {
            Seen::new(Where::Waived, "")
        } else if waits_for.is_empty() && seen.at == Where::Done && is_bare {
            Seen::new(Where::Claimed, "")
        } else if waits_for.is_empty() {
            seen
        } else {
            Seen::new(Where::Waits, &named(&waits_for, |name| (*name).to_string()))
        };
        let working = self.working.values().filter(|held| **held == chunk.name).count();
        Node { chunk, layer: 0, at, note, waits_for, agents: Tally::default(), working }
    }
}

impl Seen {
    fn new(at: Where, note: &str) -> Self {
        Self { at, note: note.to_string() }
    }
}

impl Where {
    pub const ALL: [Self; 7] = [
        Self::Done,
        Self::Claimed,
        Self::Waived,
        Self::Failing,
        Self::Running,
        Self::Waits,
        Self::Unknown,
    ];

    pub fn is_done(self) -> bool {
        matches!(self, Self::Done | Self::Claimed)
    }

    fn lets_others_begin(self) -> bool {
        matches!(self, Self::Done | Self::Claimed | Self::Waived)
    }
}

impl core::fmt::Display for Summary<'_> {
    /// `2 of 5 done; next: parser, docs`
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(out, "{} of {} done", self.done, self.total)?;
        if self.next.is_empty() {
            return Ok(());
        }
        write!(out, "; next: {}", named(&self.next, |name| (*name).to_string()))
    }
}
