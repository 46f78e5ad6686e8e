//! The chunks of a pipeline, their order, and the state of each.

use crate::wording;
use ralph_core::pipeline::{self, ChunkStatus, PipelineHistory, PipelineNode};
use ralph_core::policy::Chunk;
use ralph_home::paths::RalphHome;
use ralph_home::store::LoadedRun;
use ralph_hook::overview::{self, RunView};
use ralph_sys::clock;
use serde::Serialize;

#[derive(Debug, Serialize)]
pub struct PipelineView<'a> {
    pub v: u8,
    /// Absent if the pipeline comes from the policy and no run has it yet.
    pub run: Option<&'a str>,
    pub status: Option<&'static str>,
    pub done: usize,
    pub total: usize,
    pub next: Vec<&'a str>,
    pub chunks: Vec<PipelineChunkView<'a>>,
}

#[derive(Debug, Serialize)]
pub struct PipelineChunkView<'a> {
    pub name: &'a str,
    /// From 1. A chunk comes after chunks of earlier layers only.
    pub layer: usize,
    pub state: ChunkStatus,
    pub note: &'a str,
    pub after: &'a [String],
    pub waits_for: &'a [&'a str],
    pub r#match: &'a str,
    pub gates: &'a [String],
    pub outputs: &'a [String],
    /// Whether a person has to approve it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub approval: bool,
    pub agents: ChunkAgentsView,
}

#[derive(Debug, Serialize)]
pub struct ChunkAgentsView {
    pub verified: usize,
    pub total: usize,
    /// Agents that were held and are still working.
    pub running: usize,
}

/// The view of the pipeline of a run, or of a policy that no run has yet.
pub fn pipeline_view<'a>(
    nodes: &'a [PipelineNode<'_>],
    run: Option<&'a RunView>,
) -> PipelineView<'a> {
    let summary = pipeline::summarize_nodes(nodes);
    PipelineView {
        v: 1,
        run: run.map(|view| view.opened.run.id.as_str()),
        status: run.map(|view| wording::standing(&view.opened.state, view.phase)),
        done: summary.done,
        total: summary.total,
        next: summary.next,
        chunks: nodes.iter().map(chunk_view).collect(),
    }
}

/// The progress of a run's pipeline on one line; `None` if it has none.
pub fn pipeline_summary(home: &RalphHome, opened: &LoadedRun) -> Option<String> {
    let chunks = sealed_chunks(opened);
    if chunks.is_empty() {
        return None;
    }
    Some(format!("pipeline {}", pipeline::summarize_nodes(&pipeline_nodes(home, opened, chunks))))
}

/// The chunks of the pipeline that the run was sealed with.
pub fn sealed_chunks(opened: &LoadedRun) -> &[Chunk] {
    opened.run.seal.as_ref().map_or(&[], |seal| &seal.policy.pipeline)
}

/// The chunks with their state in the run.
pub fn pipeline_nodes<'a>(
    home: &RalphHome,
    opened: &LoadedRun,
    chunks: &'a [Chunk],
) -> Vec<PipelineNode<'a>> {
    // An unreadable journal counts as empty; `ralph status` and `ralph why` report it.
    let entries = overview::run_history(home, &opened.run.id).map(|read| read.entries);
    let entries = entries.unwrap_or_default();
    let now_ms = clock::now_ms();
    pipeline::pipeline_nodes(
        chunks,
        &PipelineHistory { entries: &entries, parts: &opened.state.parts, now_ms },
    )
}

/// The state of a chunk in words.
pub fn state_text(node: &PipelineNode<'_>) -> String {
    let with = |word: &str| match &*node.note {
        "" => word.to_string(),
        why => format!("{word} ({why})"),
    };
    let state = match node.status {
        ChunkStatus::Done => "done".to_string(),
        ChunkStatus::Claimed => "done, claimed by its agent".to_string(),
        ChunkStatus::Waived => "waived by a person".to_string(),
        ChunkStatus::Failing => with("failing"),
        ChunkStatus::Running => with("running"),
        ChunkStatus::Unknown => with("unknown"),
        ChunkStatus::Waits => format!("waits for {}", node.note),
        ChunkStatus::AwaitsPerson => "waits for a person's approval".to_string(),
    };
    match node.working_agents {
        0 => state,
        agents => format!("running: {}; {state}", wording::count_noun(agents, "agent")),
    }
}

fn chunk_view<'a>(node: &'a PipelineNode<'_>) -> PipelineChunkView<'a> {
    let PipelineNode { chunk, layer, status: at, note, waits_for, agents, working_agents: working } =
        node;
    PipelineChunkView {
        name: &chunk.name,
        layer: layer + 1,
        state: *at,
        note: if *at == ChunkStatus::Waits { "" } else { note },
        after: &chunk.after,
        waits_for,
        r#match: &chunk.r#match,
        gates: &chunk.gates,
        outputs: &chunk.outputs,
        approval: chunk.approval,
        agents: ChunkAgentsView { verified: agents.verified, total: agents.all, running: *working },
    }
}
