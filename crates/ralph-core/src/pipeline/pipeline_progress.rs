//! The progress of a pipeline, computed from the journal. Nothing is run or evaluated here.

use super::{join_names, layers};
use crate::part_stop::{self, AgentTally};
use crate::policy::Chunk;
use crate::record::{
    JournalEntry, PartKind, PartRecord, PartRule, PendingKind, ReportedStatus, RunChange,
    StopReport,
};
use crate::requirement::NOT_APPROVED;
use crate::run::PartState;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use serde::Serialize;

/// The state of a chunk, according to the last stop that reported on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChunkStatus {
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
    /// It is done, and a person has to approve it.
    AwaitsPerson,
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PipelineNode<'a> {
    pub chunk: &'a Chunk,
    /// Counted from 0.
    pub layer: usize,
    pub status: ChunkStatus,
    /// The reason for the status.
    pub note: String,
    pub waits_for: Vec<&'a str>,
    pub agents: AgentTally,
    /// Agents that were held, or wait for background work, and have not stopped since.
    pub working_agents: usize,
}

/// What is known about a run; empty if there is no run.
#[derive(Clone, Copy, Debug, Default)]
pub struct PipelineHistory<'a> {
    pub entries: &'a [JournalEntry],
    pub parts: &'a [PartState],
    pub now_ms: u64,
}

/// A pipeline's progress in one line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PipelineSummary<'a> {
    pub done: usize,
    pub total: usize,
    /// Chunks that can be worked on now.
    pub next: Vec<&'a str>,
}

#[derive(Clone, Debug)]
struct ChunkProgress {
    status: ChunkStatus,
    note: String,
}

/// Folds journal entries into the latest state of each chunk.
#[derive(Debug, Default)]
struct ProgressTracker {
    chunks: BTreeMap<String, ChunkProgress>,
    /// Ids of agents that are still working, with the name of their chunk.
    working_agents: BTreeMap<String, String>,
    /// Requirements that a person approved.
    approved: BTreeSet<String>,
    /// Waived requirements, with the time their waiver ends.
    waived_until: BTreeMap<String, u64>,
}

/// The state of every chunk according to the journal, ordered by layer.
pub fn pipeline_nodes<'a>(
    chunks: &'a [Chunk],
    history: &PipelineHistory<'_>,
) -> Vec<PipelineNode<'a>> {
    let mut sight = ProgressTracker::default();
    history.entries.iter().for_each(|entry| sight.apply(chunks, &entry.change));
    sight.waived_until.retain(|_, until_ms| *until_ms > history.now_ms);
    let mut nodes: Vec<PipelineNode<'a>> = Vec::new();
    for (layer, members) in layers(chunks).into_iter().enumerate() {
        for chunk in members {
            let node = sight.node(chunk, &nodes);
            let agents = part_stop::tally_agents(history.parts, Some(&chunk.name));
            nodes.push(PipelineNode { layer, agents, ..node });
        }
    }
    nodes
}

pub fn summarize_nodes<'a>(nodes: &[PipelineNode<'a>]) -> PipelineSummary<'a> {
    let is_next = |node: &&PipelineNode<'_>| {
        matches!(node.status, ChunkStatus::Failing | ChunkStatus::Unknown)
    };
    PipelineSummary {
        done: nodes.iter().filter(|node| node.status.is_done()).count(),
        total: nodes.len(),
        next: nodes.iter().filter(is_next).map(|node| node.chunk.name.as_str()).collect(),
    }
}

impl ProgressTracker {
    fn apply(&mut self, chunks: &[Chunk], change: &RunChange) {
        if let RunChange::Decided(decided) = change {
            decided.report.iter().for_each(|report| self.apply_report(chunks, report));
        } else if let RunChange::Restored(known) = change {
            known.state.report.iter().for_each(|report| self.apply_report(chunks, report));
        } else if let RunChange::Part(part) = change {
            self.apply_part(part);
        } else if let RunChange::Waived(waiver) = change {
            self.waived_until.insert(waiver.requirement.clone(), waiver.until_ms);
        } else if let RunChange::Approved(approval) = change {
            self.approved.insert(approval.requirement.clone());
        } else if let RunChange::WaiverRevoked { requirement } = change {
            self.waived_until.remove(requirement);
        }
    }

    fn apply_report(&mut self, chunks: &[Chunk], report: &StopReport) {
        self.working_agents.clear();
        for chunk in chunks {
            let name = chunk.requirement_name();
            let line = report.lines.iter().find(|line| line.name == name);
            let seen = if report.met.contains(&name) {
                ChunkProgress::new(ChunkStatus::Done, "")
            } else if let Some(line) = line {
                let at = match (line.standing, line.pending_kind()) {
                    // Its own state is not known, and its prerequisites may be done since.
                    (_, Some(PendingKind::NotReached)) => {
                        self.chunks.remove(&chunk.name);
                        continue;
                    }
                    (_, Some(PendingKind::AwaitsPerson)) => ChunkStatus::AwaitsPerson,
                    (_, Some(PendingKind::Running)) | (ReportedStatus::Pending, None) => {
                        ChunkStatus::Running
                    }
                    (ReportedStatus::Unmet | ReportedStatus::Advisory, None) => {
                        ChunkStatus::Failing
                    }
                    (ReportedStatus::Unknown, None) => ChunkStatus::Unknown,
                };
                ChunkProgress::new(at, &line.note)
            } else {
                // A report lists only the first unmet requirements, so a chunk missing from it is not done either.
                ChunkProgress::new(ChunkStatus::Failing, "not done")
            };
            self.chunks.insert(chunk.name.clone(), seen);
        }
    }

    fn apply_part(&mut self, part: &PartRecord) {
        let (Some(chunk), false) = (&part.chunk, part.who.kind == PartKind::Task) else { return };
        let at = match part.rule {
            PartRule::Verified => ChunkStatus::Done,
            PartRule::Unmeasured => ChunkStatus::Claimed,
            PartRule::Hold | PartRule::Spent => ChunkStatus::Failing,
            PartRule::Unknown => ChunkStatus::Unknown,
            PartRule::Waiting => ChunkStatus::Running,
        };
        if matches!(part.rule, PartRule::Hold | PartRule::Waiting) {
            self.working_agents.insert(part.who.id.clone(), chunk.clone());
        } else {
            self.working_agents.remove(&part.who.id);
        }
        let first = part.report.as_ref().and_then(|report| report.lines.first());
        let note = match (at, first) {
            (ChunkStatus::Failing, Some(line)) => format!("{}: {}", line.name, line.note),
            (ChunkStatus::Failing | ChunkStatus::Unknown | ChunkStatus::Running, _) => {
                part.because.clone()
            }
            _ => String::new(),
        };
        self.chunks.insert(chunk.clone(), ChunkProgress { status: at, note });
    }

    fn node<'a>(&self, chunk: &'a Chunk, earlier: &[PipelineNode<'a>]) -> PipelineNode<'a> {
        let is_over = |name: &str| {
            earlier.iter().any(|node| node.chunk.name == name && node.status.unblocks_others())
        };
        let mut waits_for: Vec<&str> =
            chunk.after.iter().map(String::as_str).filter(|name| !is_over(name)).collect();
        waits_for.dedup();
        let is_bare = chunk.gates.is_empty() && chunk.outputs.is_empty();
        let unseen = || ChunkProgress::new(ChunkStatus::Unknown, "not checked yet");
        let seen = match self.chunks.get(&chunk.name) {
            Some(seen) => seen.clone(),
            None => unseen(),
        };
        let ChunkProgress { status: at, note } = if !seen.status.is_done()
            && self.waived_until.contains_key(&chunk.requirement_name())
        {
            ChunkProgress::new(ChunkStatus::Waived, "")
        } else if waits_for.is_empty() && chunk.approval && seen.status.is_finished() {
            if self.approved.contains(&chunk.requirement_name()) {
                ChunkProgress::new(ChunkStatus::Done, "")
            } else {
                ChunkProgress::new(ChunkStatus::AwaitsPerson, NOT_APPROVED)
            }
        } else if waits_for.is_empty() && seen.status == ChunkStatus::Done && is_bare {
            ChunkProgress::new(ChunkStatus::Claimed, "")
        } else if waits_for.is_empty() {
            seen
        } else {
            ChunkProgress::new(
                ChunkStatus::Waits,
                &join_names(&waits_for, |name| (*name).to_string()),
            )
        };
        let working = self.working_agents.values().filter(|held| **held == chunk.name).count();
        PipelineNode {
            chunk,
            layer: 0,
            status: at,
            note,
            waits_for,
            agents: AgentTally::default(),
            working_agents: working,
        }
    }
}

impl ChunkProgress {
    fn new(at: ChunkStatus, note: &str) -> Self {
        Self { status: at, note: note.to_string() }
    }
}

impl ChunkStatus {
    pub const ALL: [Self; 8] = [
        Self::Done,
        Self::Claimed,
        Self::Waived,
        Self::Failing,
        Self::Running,
        Self::Waits,
        Self::AwaitsPerson,
        Self::Unknown,
    ];

    pub fn is_done(self) -> bool {
        matches!(self, Self::Done | Self::Claimed)
    }

    /// Whether its work is done, approved or not.
    fn is_finished(self) -> bool {
        self.is_done() || self == Self::AwaitsPerson
    }

    fn unblocks_others(self) -> bool {
        matches!(self, Self::Done | Self::Claimed | Self::Waived)
    }
}

impl core::fmt::Display for PipelineSummary<'_> {
    /// `2 of 5 done; next: parser, docs`
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(out, "{} of {} done", self.done, self.total)?;
        if self.next.is_empty() {
            return Ok(());
        }
        write!(out, "; next: {}", join_names(&self.next, |name| (*name).to_string()))
    }
}
