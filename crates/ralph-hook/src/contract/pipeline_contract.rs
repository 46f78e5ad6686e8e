//! Judges the chunks of the policy's pipeline on the current tree. Chunks whose predecessors are not done are skipped,
//! because their gates would only fail.

use std::collections::BTreeMap;

use ralph_core::gate::{Gate, GateBatch, GateTrigger};
use ralph_core::pipeline::{self, JudgedChunk};
use ralph_core::policy::Chunk;
use ralph_core::record::GateRecord;
use ralph_core::requirement::{Requirement, RequirementStatus};
use ralph_core::run::PartState;
use ralph_core::waiver;

use super::ContractContext;
use super::agent_contract::{self, output_requirements, without_findings};
use super::gate_query::{self, GateQuery, MeasuredGates};
use ralph_git::tree::WorkTreeListing;
use ralph_sys::clock;

/// The tree that is judged, and its changed paths.
#[derive(Clone, Copy, Debug)]
pub(super) struct PipelineSite<'a> {
    pub query: &'a GateQuery<'a>,
    pub listing: &'a WorkTreeListing,
    pub touched: &'a [String],
}

/// The requirements of the whole pipeline.
#[derive(Debug)]
pub(super) struct MeasuredPipeline {
    /// One for each chunk, in an order that respects their dependencies.
    pub requirements: Vec<Requirement>,
    /// Whether a worker is still running.
    pub is_busy: bool,
    /// The results that were used, for the journal.
    pub records: Vec<GateRecord>,
}

/// Judges the whole pipeline. `results` has the gate results of the stop itself.
pub(super) fn measure_pipeline(
    site: &PipelineSite<'_>,
    results: &[Requirement],
) -> MeasuredPipeline {
    let mut asking = PipelineEvaluation::new(site, results);
    let weighed = asking.judge_chunks(&site.query.contract.seal.policy.pipeline);
    MeasuredPipeline {
        requirements: pipeline::add_next_steps(weighed),
        is_busy: asking.is_busy,
        records: asking.records,
    }
}

/// The predecessors of an agent's chunk, each as a requirement for the agent.
pub(super) fn predecessor_requirements(
    site: &PipelineSite<'_>,
    chunk: &Chunk,
    results: &[Requirement],
) -> Vec<Requirement> {
    let before = pipeline::prerequisites(&site.query.contract.seal.policy.pipeline, chunk);
    let weighed = PipelineEvaluation::new(site, results).judge_chunks(&before);
    let counts = |one: &&JudgedChunk<'_>| {
        chunk.after.contains(&one.chunk.name)
            && !is_chunk_waived(site.query.contract, &one.requirement)
    };
    let near = weighed.iter().filter(counts);
    near.map(|one| pipeline::prerequisite_requirement(chunk, one)).collect()
}

/// Runs each gate once, however many chunks name it.
struct PipelineEvaluation<'a> {
    site: &'a PipelineSite<'a>,
    /// Results by gate name. Findings that the stop already reports are left out.
    known: BTreeMap<String, Requirement>,
    /// Whether a worker is running. Starting another one would stop it.
    is_busy: bool,
    records: Vec<GateRecord>,
}

impl<'a> PipelineEvaluation<'a> {
    fn new(site: &'a PipelineSite<'a>, results: &[Requirement]) -> Self {
        let settled = results.iter().filter(|one| !one.is_pending());
        let known = settled.map(|one| (one.name.clone(), without_findings(one))).collect();
        let is_busy = results.iter().any(Requirement::is_running);
        Self { site, known, is_busy, records: Vec::new() }
    }

    fn judge_chunks<'c>(&mut self, chunks: &'c [Chunk]) -> Vec<JudgedChunk<'c>> {
        let contract = self.site.query.contract;
        let mut over: Vec<&str> = Vec::new();
        let mut weighed = Vec::new();
        for layer in pipeline::layers(chunks) {
            let undone = |chunk: &'c Chunk| -> Vec<&'c str> {
                let names = chunk.after.iter().map(String::as_str);
                names.filter(|name| !over.contains(name)).collect()
            };
            let ready: Vec<&Chunk> =
                layer.iter().copied().filter(|chunk| undone(chunk).is_empty()).collect();
            self.run_gates(&ready);
            let judged: Vec<JudgedChunk<'c>> = layer
                .iter()
                .map(|chunk| match undone(chunk).as_slice() {
                    [] => self.judge_ready_chunk(contract, chunk),
                    undone => pipeline::judge_waiting_chunk(chunk, undone),
                })
                .collect();
            let is_over = |one: &Requirement| {
                matches!(one.status, RequirementStatus::Met(_)) || is_chunk_waived(contract, one)
            };
            over.extend(
                judged
                    .iter()
                    .filter(|one| is_over(&one.requirement))
                    .map(|one| one.chunk.name.as_str()),
            );
            weighed.extend(judged);
        }
        weighed
    }

    /// Runs gates stage by stage for all ready chunks together, so that failing tests of one chunk do not keep another
    /// from its lint stage.
    fn run_gates(&mut self, ready: &[&Chunk]) {
        let PipelineSite { query, touched, .. } = *self.site;
        for batch in GateBatch::all() {
            let live: Vec<ChunkDemand<'_>> = ready
                .iter()
                .map(|chunk| ChunkDemand::for_chunk(query.contract, chunk))
                .filter(|demand| self.open_before(demand, batch).is_none())
                .collect();
            let asks = |gate: &Gate| {
                gate.batch() == batch
                    && !self.known.contains_key(&gate.name)
                    && live.iter().any(|demand| demand.asks(gate))
            };
            let wanted = gate_query::select_gates(query.contract, touched, &asks);
            if wanted.is_empty() {
                continue;
            }
            let results = if self.is_busy {
                wanted
                    .iter()
                    .map(|gate| gate_query::running_requirement(gate, "waits for its turn"))
                    .collect()
            } else {
                let batch_query = GateQuery { wanted: &wanted, ..*query };
                let MeasuredGates { requirements, records, .. } =
                    gate_query::gate_requirements(&batch_query);
                self.records.extend(records);
                requirements
            };
            self.is_busy |= results.iter().any(Requirement::is_running);
            self.known.extend(results.into_iter().map(|one| (one.name.clone(), one)));
        }
    }

    /// The first batch before this one in which a gate of the chunk is open.
    fn open_before(&self, demand: &ChunkDemand<'_>, batch: GateBatch) -> Option<GateBatch> {
        let is_open = |gate: &&Gate| {
            let known = self.known.get(&gate.name);
            gate.batch() < batch && demand.asks(gate) && known.is_some_and(Requirement::is_open)
        };
        let gates = &self.site.query.contract.seal.policy.gates;
        gates.iter().filter(is_open).map(Gate::batch).min()
    }

    fn judge_ready_chunk<'c>(
        &self,
        contract: &ContractContext<'_>,
        chunk: &'c Chunk,
    ) -> JudgedChunk<'c> {
        let demand = ChunkDemand::for_chunk(contract, chunk);
        let PipelineSite { listing, touched, .. } = *self.site;
        let mut demands = Vec::new();
        for gate in gate_query::select_gates(contract, touched, &|gate| demand.asks(gate)) {
            demands.extend(self.known.get(&gate.name).cloned().or_else(|| {
                let earlier = self.open_before(&demand, gate.batch())?;
                let why = gate.batch().wait_reason(earlier);
                Some(gate.requirement_with(RequirementStatus::Pending(why)))
            }));
        }
        demands.sort_by_key(|one| one.stage);
        demands.extend(output_requirements(contract, chunk, listing, touched));
        let judged = pipeline::judge_ready_chunk(chunk, &demands, contract.parts);
        pipeline::with_approval(judged, contract.approvals)
    }
}

fn is_chunk_waived(contract: &ContractContext<'_>, one: &Requirement) -> bool {
    waiver::find_waiver(&one.name, contract.waivers, clock::now_ms()).is_some()
}

/// A chunk with its own gates and those of the moment at which its last agent was judged.
struct ChunkDemand<'a> {
    chunk: &'a Chunk,
    moment: Option<GateTrigger>,
}

impl<'a> ChunkDemand<'a> {
    fn for_chunk(contract: &ContractContext<'_>, chunk: &'a Chunk) -> Self {
        let is_its = |part: &&PartState| part.chunk.as_ref() == Some(&chunk.name);
        let last = contract.parts.iter().rev().find(is_its);
        Self { chunk, moment: last.map(|part| agent_contract::moment_of_kind(part.who.kind)) }
    }

    fn asks(&self, gate: &Gate) -> bool {
        self.chunk.gates.contains(&gate.name)
            || self.moment.is_some_and(|moment| gate.on.contains(&moment))
    }
}
