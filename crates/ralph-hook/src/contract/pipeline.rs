//! Judges the chunks of the policy's pipeline on the current tree. Chunks whose predecessors are not done are skipped,
//! because their gates would only fail.

use std::collections::BTreeMap;

use ralph_core::gate::{Gate, Moment};
use ralph_core::pipeline;
use ralph_core::policy::Chunk;
use ralph_core::requirement::{Pending, Requirement, Stage, Standing};
use ralph_core::run::PartState;
use ralph_core::waiver;

use super::Contract;
use super::gates::{self, Inquiry};
use super::part::{self, briefly, outputs};
use ralph_git::tree::Listing;
use ralph_sys::clock;

/// The tree that is judged, and its changed paths.
#[derive(Clone, Copy, Debug)]
pub(super) struct Site<'a> {
    pub inquiry: &'a Inquiry<'a>,
    pub listing: &'a Listing,
    pub touched: &'a [String],
}

/// The requirements of the whole pipeline.
#[derive(Debug)]
pub(super) struct Weighed {
    /// One for each chunk, in an order that respects their dependencies.
    pub requirements: Vec<Requirement>,
    /// Whether a worker is still running.
    pub is_busy: bool,
}

/// Judges the whole pipeline. `results` has the gate results of the stop itself.
pub(super) fn weigh(site: &Site<'_>, results: &[Requirement]) -> Weighed {
    let mut asking = Asking::new(site, results);
    let weighed = asking.weigh(&site.inquiry.contract.seal.policy.pipeline);
    Weighed { requirements: pipeline::guided(weighed), is_busy: asking.is_busy }
}

/// The predecessors of an agent's chunk, each as a requirement for the agent.
pub(super) fn earlier(site: &Site<'_>, chunk: &Chunk, results: &[Requirement]) -> Vec<Requirement> {
    let before = pipeline::before(&site.inquiry.contract.seal.policy.pipeline, chunk);
    let weighed = Asking::new(site, results).weigh(&before);
    let counts = |(one, requirement): &&(&Chunk, Requirement)| {
        chunk.after.contains(&one.name) && !is_waived(site.inquiry.contract, requirement)
    };
    let near = weighed.iter().filter(counts);
    near.map(|(one, requirement)| pipeline::after(chunk, (one, requirement))).collect()
}

/// Runs each gate once, however many chunks name it.
struct Asking<'a> {
    site: &'a Site<'a>,
    /// Results by gate name. Findings that the stop already reports are left out.
    known: BTreeMap<String, Requirement>,
    /// Whether a worker is running. Starting another one would stop it.
    is_busy: bool,
}

impl<'a> Asking<'a> {
    fn new(site: &'a Site<'a>, results: &[Requirement]) -> Self {
        let settled = results.iter().filter(|one| !one.is_pending());
        let known = settled.map(|one| (one.name.clone(), briefly(one))).collect();
        Self { site, known, is_busy: results.iter().any(Requirement::is_running) }
    }

    fn weigh<'c>(&mut self, chunks: &'c [Chunk]) -> Vec<(&'c Chunk, Requirement)> {
        let contract = self.site.inquiry.contract;
        let mut over: Vec<&str> = Vec::new();
        let mut weighed = Vec::new();
        for layer in pipeline::layers(chunks) {
            let undone = |chunk: &'c Chunk| -> Vec<&'c str> {
                let names = chunk.after.iter().map(String::as_str);
                names.filter(|name| !over.contains(name)).collect()
            };
            let ready: Vec<&Chunk> =
                layer.iter().copied().filter(|chunk| undone(chunk).is_empty()).collect();
            self.ask(&ready);
            let judged: Vec<(&'c Chunk, Requirement)> = layer
                .iter()
                .map(|chunk| match undone(chunk).as_slice() {
                    [] => (*chunk, self.requirement(contract, chunk)),
                    undone => (*chunk, pipeline::waits(chunk, undone)),
                })
                .collect();
            let is_over = |one: &Requirement| {
                matches!(one.standing, Standing::Met(_)) || is_waived(contract, one)
            };
            over.extend(
                judged.iter().filter(|(_, one)| is_over(one)).map(|(chunk, _)| chunk.name.as_str()),
            );
            weighed.extend(judged);
        }
        weighed
    }

    /// Runs gates stage by stage for all ready chunks together, so that failing tests of one chunk do not keep another
    /// from its lint stage.
    fn ask(&mut self, ready: &[&Chunk]) {
        let Site { inquiry, touched, .. } = *self.site;
        for stage in Stage::OF_GATES {
            let live: Vec<Demand<'_>> = ready
                .iter()
                .map(|chunk| Demand::of(inquiry.contract, chunk))
                .filter(|demand| self.open_before(demand, stage).is_none())
                .collect();
            let asks = |gate: &Gate| {
                gate.stage == stage
                    && !self.known.contains_key(&gate.name)
                    && live.iter().any(|demand| demand.asks(gate))
            };
            let wanted = gates::wanted(inquiry.contract, touched, &asks);
            if wanted.is_empty() {
                continue;
            }
            let results = if self.is_busy {
                wanted.iter().map(|gate| gates::running(gate, "waits for its turn")).collect()
            } else {
                gates::told(&Inquiry { wanted: &wanted, ..*inquiry })
            };
            self.is_busy |= results.iter().any(Requirement::is_running);
            self.known.extend(results.into_iter().map(|one| (one.name.clone(), one)));
        }
    }

    /// The first stage before this one in which a gate of the chunk is open.
    fn open_before(&self, demand: &Demand<'_>, stage: Stage) -> Option<Stage> {
        let is_open = |gate: &&Gate| {
            let known = self.known.get(&gate.name);
            gate.stage < stage && demand.asks(gate) && known.is_some_and(Requirement::is_open)
        };
        let gates = &self.site.inquiry.contract.seal.policy.gates;
        gates.iter().filter(is_open).map(|gate| gate.stage).min()
    }

    fn requirement(&self, contract: &Contract<'_>, chunk: &Chunk) -> Requirement {
        let demand = Demand::of(contract, chunk);
        let Site { listing, touched, .. } = *self.site;
        let mut demands = Vec::new();
        for gate in gates::wanted(contract, touched, &|gate| demand.asks(gate)) {
            demands.extend(self.known.get(&gate.name).cloned().or_else(|| {
                let earlier = self.open_before(&demand, gate.stage)?;
                let why = format!("comes after {} has passed", earlier.name());
                Some(gate.standing(Standing::Pending(Pending::NotReached(why))))
            }));
        }
        demands.sort_by_key(|one| one.stage);
        demands.extend(outputs(contract, chunk, (listing, touched)));
        pipeline::requirement(chunk, &demands, contract.parts)
    }
}

fn is_waived(contract: &Contract<'_>, one: &Requirement) -> bool {
    waiver::of(&one.name, contract.waivers, clock::now_ms()).is_some()
}

/// A chunk with its own gates and those of the moment at which its last agent was judged.
struct Demand<'a> {
    chunk: &'a Chunk,
    moment: Option<Moment>,
}

impl<'a> Demand<'a> {
    fn of(contract: &Contract<'_>, chunk: &'a Chunk) -> Self {
        let is_its = |part: &&PartState| part.chunk.as_ref() == Some(&chunk.name);
        let last = contract.parts.iter().rev().find(is_its);
        Self { chunk, moment: last.map(|part| part::moment(part.who.kind)) }
    }

    fn asks(&self, gate: &Gate) -> bool {
        self.chunk.gates.contains(&gate.name)
            || self.moment.is_some_and(|moment| gate.on.contains(&moment))
    }
}
