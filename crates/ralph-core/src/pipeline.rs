//! The user's chunk pipeline: the order in which its chunks can be done, the requirement each chunk adds to a stop, and
//! the next step for the agent. A single chunk's contract is in [`crate::part_stop`].

mod pipeline_progress;

use crate::approval::{self, PersonApproval};
use crate::part_stop;
use crate::policy::Chunk;
use crate::record::{PartKind, PartRule};
use crate::requirement::{
    EvidenceKind, PendingReason, Requirement, RequirementFailure, RequirementStage,
    RequirementStatus, RequirementWeight,
};
use crate::run::PartState;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

pub use pipeline_progress::{
    ChunkStatus, PipelineHistory, PipelineNode, PipelineSummary, pipeline_nodes, summarize_nodes,
};

/// How many chunks a sentence names; the others are counted as "and 4 more".
const MAX_NAMED: usize = 6;

/// A chunk of the pipeline and the requirement that it adds to a stop.
#[derive(Clone, Debug)]
pub struct JudgedChunk<'a> {
    pub chunk: &'a Chunk,
    pub requirement: Requirement,
    /// Whether the next step is to give the chunk to an agent, because nothing measures it.
    pub needs_agent: bool,
}

/// Sorts chunks topologically: the chunks of a layer depend on earlier layers only, and keep the order of the file.
/// Chunks in a cycle, or behind one, form the last layer. Dependencies on unknown names are ignored.
pub fn layers(chunks: &[Chunk]) -> Vec<Vec<&Chunk>> {
    let names: BTreeSet<&str> = chunks.iter().map(|chunk| chunk.name.as_str()).collect();
    let mut placed: BTreeSet<&str> = BTreeSet::new();
    let mut rest: Vec<&Chunk> = chunks.iter().collect();
    let mut layers = Vec::new();
    while !rest.is_empty() {
        let is_free = |chunk: &&Chunk| {
            let before = chunk.after.iter().map(String::as_str);
            before.filter(|name| names.contains(name)).all(|name| placed.contains(name))
        };
        let (free, bound): (Vec<&Chunk>, Vec<&Chunk>) = rest.into_iter().partition(is_free);
        if free.is_empty() {
            layers.push(bound);
            break;
        }
        placed.extend(free.iter().map(|chunk| chunk.name.as_str()));
        layers.push(free);
        rest = bound;
    }
    layers
}

/// The first dependency cycle, starting and ending with the same chunk.
pub fn find_cycle(chunks: &[Chunk]) -> Option<Vec<&Chunk>> {
    let mut bound: BTreeMap<&str, &Chunk> =
        chunks.iter().map(|chunk| (chunk.name.as_str(), chunk)).collect();
    loop {
        let free: Vec<&str> = bound
            .iter()
            .filter(|(_, chunk)| !chunk.after.iter().any(|name| bound.contains_key(name.as_str())))
            .map(|(name, _)| *name)
            .collect();
        if free.is_empty() {
            break;
        }
        bound.retain(|name, _| !free.contains(name));
    }
    // Every remaining chunk depends on another remaining chunk, so following the dependencies closes a cycle.
    let mut at = *chunks.iter().find_map(|chunk| bound.get(chunk.name.as_str()))?;
    let mut path: Vec<&Chunk> = Vec::new();
    loop {
        if let Some(start) = path.iter().position(|seen| seen.name == at.name) {
            let mut cycle = path.split_off(start);
            cycle.push(at);
            return Some(cycle);
        }
        path.push(at);
        at = at.after.iter().find_map(|name| bound.get(name.as_str()))?;
    }
}

/// All direct and transitive prerequisites of a chunk, without the chunk itself.
pub fn prerequisites<'a>(chunks: &'a [Chunk], chunk: &Chunk) -> Vec<Chunk> {
    let known: BTreeMap<&str, &'a Chunk> =
        chunks.iter().map(|chunk| (chunk.name.as_str(), chunk)).collect();
    let mut found: BTreeSet<&str> = BTreeSet::new();
    let mut open: Vec<&str> = chunk.after.iter().map(String::as_str).collect();
    while let Some(name) = open.pop() {
        if let Some(next) = known.get(name)
            && next.name != chunk.name
            && found.insert(next.name.as_str())
        {
            open.extend(next.after.iter().map(String::as_str));
        }
    }
    chunks.iter().filter(|chunk| found.contains(chunk.name.as_str())).cloned().collect()
}

/// Judges a chunk whose prerequisites are done. A chunk that nothing measures is done once an agent of its own finished,
/// which is only a claim.
pub fn judge_ready_chunk<'a>(
    chunk: &'a Chunk,
    demands: &[Requirement],
    parts: &[PartState],
) -> JudgedChunk<'a> {
    let tally = part_stop::tally_agents(parts, Some(&chunk.name));
    let is_own = |one: &Requirement| {
        let is_output = |glob: &String| one.name.strip_prefix("output ") == Some(glob);
        chunk.gates.contains(&one.name) || chunk.outputs.iter().any(is_output)
    };
    let is_measured = demands.iter().any(|one| one.is_required() && is_own(one));
    match part_stop::chunk_requirement(chunk, demands, tally) {
        Some(requirement) if is_measured || requirement.is_open() => {
            JudgedChunk { chunk, requirement, needs_agent: false }
        }
        Some(_) | None => judge_unmeasured_chunk(chunk, parts),
    }
}

/// The chunk, which is not done before a person approved it if its policy asks for that.
#[must_use]
pub fn with_approval<'a>(judged: JudgedChunk<'a>, approvals: &[PersonApproval]) -> JudgedChunk<'a> {
    let requirement = approval::require_chunk_approval(judged.chunk, judged.requirement, approvals);
    JudgedChunk { requirement, ..judged }
}

fn judge_unmeasured_chunk<'a>(chunk: &'a Chunk, parts: &[PartState]) -> JudgedChunk<'a> {
    let has_finished = |part: &PartState| {
        part.chunk.as_ref() == Some(&chunk.name)
            && part.who.kind != PartKind::Task
            && matches!(part.rule, PartRule::Verified | PartRule::Unmeasured)
    };
    // A chunk that only a person judges needs no agent of its own, and the approval is its evidence.
    if chunk.approval {
        let status = RequirementStatus::Met(EvidenceKind::Measured);
        let requirement = build_requirement(chunk, status, String::new());
        return JudgedChunk { chunk, requirement, needs_agent: false };
    }
    let needs_agent = !parts.iter().any(has_finished);
    let requirement = if needs_agent {
        let why = "nothing measures it, and no agent for it has finished yet".to_string();
        let next = format!("Give chunk `{}` to {}", chunk.name, describe_agent(chunk));
        build_requirement(chunk, RequirementStatus::Unmet(RequirementFailure::new(why)), next)
    } else {
        build_requirement(chunk, RequirementStatus::Met(EvidenceKind::Claimed), String::new())
    };
    JudgedChunk { chunk, requirement, needs_agent }
}

/// Judges a chunk that waits for prerequisites.
pub fn judge_waiting_chunk<'a>(chunk: &'a Chunk, undone: &[&str]) -> JudgedChunk<'a> {
    let why = PendingReason::comes_after(join_names(undone, ToString::to_string));
    let status = RequirementStatus::Pending(why);
    let requirement = build_requirement(chunk, status, String::new());
    JudgedChunk { chunk, requirement, needs_agent: false }
}

/// The requirement that a prerequisite adds to the contract of an agent that works on a later chunk.
pub fn prerequisite_requirement(chunk: &Chunk, earlier: &JudgedChunk<'_>) -> Requirement {
    let known = &earlier.requirement;
    let (this, that) = (&chunk.name, &earlier.chunk.name);
    let undone = |why: &str| {
        let summary = format!("`{this}` comes after `{that}`, which is not done: {why}");
        RequirementStatus::Unmet(RequirementFailure::new(summary))
    };
    let standing = match &known.status {
        RequirementStatus::Met(evidence) => RequirementStatus::Met(*evidence),
        RequirementStatus::Unmet(failure) => undone(&failure.summary),
        RequirementStatus::Pending(
            PendingReason::NotReached(why) | PendingReason::AwaitsPerson(why),
        ) => undone(&format!("it {why}")),
        RequirementStatus::Pending(PendingReason::Running(why)) => {
            RequirementStatus::Pending(PendingReason::Running(format!("`{that}`: {why}")))
        }
        RequirementStatus::Unknown(why) => RequirementStatus::Unknown(format!("`{that}`: {why}")),
    };
    let next = match &standing {
        RequirementStatus::Unmet(_) if known.next.is_empty() => {
            format!("Get chunk `{that}` done first")
        }
        RequirementStatus::Unmet(_) => format!("Get chunk `{that}` done first: {}", known.next),
        RequirementStatus::Met(_)
        | RequirementStatus::Unknown(_)
        | RequirementStatus::Pending(_) => String::new(),
    };
    Requirement { name: format!("after {that}"), ..build_requirement(chunk, standing, next) }
}

/// Adds next steps to the chunks' requirements. If several chunks can be started, the first one's next step names all
/// of them, so that the agent works on them in parallel.
pub fn add_next_steps(judged: Vec<JudgedChunk<'_>>) -> Vec<Requirement> {
    let open: Vec<&Chunk> =
        judged.iter().filter(|one| one.requirement.is_unmet()).map(|one| one.chunk).collect();
    let mut parallel = (open.len() > 1).then(|| parallel_next_step(&open));
    let with_next = |one: JudgedChunk<'_>| {
        let next = match parallel.take_if(|_| one.requirement.is_unmet()) {
            Some(all) => all,
            None => single_next_step(&one),
        };
        Requirement { next, ..one.requirement }
    };
    judged.into_iter().map(with_next).collect()
}

fn parallel_next_step(open: &[&Chunk]) -> String {
    let chunks = join_names(open, |chunk| format!("`{}`", chunk.name));
    let agents = join_names(open, |chunk| format!("`{}`", chunk.r#match));
    let types = if open.len() <= MAX_NAMED { format!(" (types: {agents})") } else { String::new() };
    format!(
        "Do chunks {chunks}. They do not depend on each other: give each to its own subagent, in parallel{types}"
    )
}

fn single_next_step(judged: &JudgedChunk<'_>) -> String {
    let JudgedChunk { chunk, requirement, needs_agent } = judged;
    let next = &requirement.next;
    if !requirement.is_unmet() || *needs_agent || next.is_empty() {
        return next.clone();
    }
    format!("Do chunk `{}`, yourself or with {}: {next}", chunk.name, describe_agent(chunk))
}

fn describe_agent(chunk: &Chunk) -> String {
    let how = if chunk.r#match.contains(['*', '?']) { "whose type matches" } else { "of type" };
    format!("a subagent {how} `{}`", chunk.r#match)
}

/// `a, b and c`; beyond a few `a, b, c and 4 more`.
fn join_names<T>(all: &[T], name: impl Fn(&T) -> String) -> String {
    let mut names: Vec<String> = all.iter().take(MAX_NAMED).map(name).collect();
    let more = all.len().saturating_sub(MAX_NAMED);
    if more > 0 {
        names.push(format!("{more} more"));
    }
    match names.split_last() {
        None => String::new(),
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
    }
}

fn build_requirement(chunk: &Chunk, standing: RequirementStatus, next: String) -> Requirement {
    Requirement {
        name: chunk.requirement_name(),
        stage: RequirementStage::Correctness,
        status: standing,
        weight: RequirementWeight::Required,
        next,
    }
}
