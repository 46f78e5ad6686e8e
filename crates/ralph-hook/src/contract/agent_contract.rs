//! Requirements for subagents, teammates and tasks, and the chunks they worked on at the run's own stop.

use std::path::{Path, PathBuf};

use ralph_core::gate::{Gate, GateTrigger};
use ralph_core::part_stop::{self, AgentTally};
use ralph_core::policy::{Chunk, Policy};
use ralph_core::record::PartKind;
use ralph_core::requirement::{
    EvidenceKind, OLD_FAILURES_REQUIREMENT, Requirement, RequirementFailure, RequirementStatus,
};

use super::gate_query::{self, GateQuery, WorkerWait};
use super::gate_worker::GateSite;
use super::pipeline_contract::{self, PipelineSite};
use super::{
    ContractContext, LINES_REQUIREMENT, MAX_ROUNDS, change_summary, contract_requirement,
    unknown_requirement,
};
use ralph_gates::gates::result_key::{PathGlobs, compile_globs};
use ralph_gates::gates::{ContentView, GateContent};
use ralph_git::git;
use ralph_git::tree::{TreeEntryMode, WorkTreeListing};
use ralph_home::faults::describe_error;
use ralph_sys::fs::{self, FileKind};

/// An output file is empty if it has only white space up to this size.
const MAX_INSPECTED_BYTES: usize = 64 * 1024;

/// The moment and the chunk that determine what an agent must satisfy.
#[derive(Clone, Copy, Debug)]
pub struct AgentDemand<'a> {
    pub moment: GateTrigger,
    pub chunk: Option<&'a Chunk>,
}

impl AgentDemand<'_> {
    fn asks(&self, gate: &Gate) -> bool {
        gate.on.contains(&self.moment)
            || self.chunk.is_some_and(|chunk| chunk.gates.contains(&gate.name))
    }

    /// A subagent answers only for its chunk; tasks and teammates also answer for added lines.
    fn asks_lines(&self, policy: &Policy) -> bool {
        let has_checks = !policy.lines.forbid.is_empty() || !policy.lines.patterns.is_empty();
        has_checks && matches!(self.moment, GateTrigger::Task | GateTrigger::Teammate)
    }

    /// Whether the policy demands anything at this moment.
    pub fn is_empty(&self, policy: &Policy) -> bool {
        self.chunk.is_none()
            && !self.asks_lines(policy)
            && !policy.gates.iter().any(|gate| self.asks(gate))
    }
}

/// Judges an agent on the current tree. Other agents may change the tree meanwhile; then unknown results are judged
/// again, unless a requirement is already known to be unmet.
pub fn judge_agent(contract: &ContractContext<'_>, demand: &AgentDemand<'_>) -> Vec<Requirement> {
    let mut requirements = Vec::new();
    for _ in 0..MAX_ROUNDS {
        let (found, listing) = judge_agent_once(contract, demand);
        requirements = found;
        let is_settled = requirements.iter().any(Requirement::is_unmet)
            || !requirements.iter().any(Requirement::is_unknown)
            || requirements.iter().any(Requirement::is_running);
        let moved = || {
            super::current_tree_mark(contract)
                != listing.as_ref().map(WorkTreeListing::content_and_commit_mark)
        };
        if is_settled || contract.world.answer_deadline.has_passed() || !moved() {
            break;
        }
    }
    requirements
}

fn judge_agent_once(
    contract: &ContractContext<'_>,
    demand: &AgentDemand<'_>,
) -> (Vec<Requirement>, Option<WorkTreeListing>) {
    let exclude = contract.exclude();
    let place = contract.gate_place(GateContent::Tree { exclude: &exclude });
    let listing = match ContentView::read(&place) {
        Ok(ContentView::Tree(listing)) => listing.into_owned(),
        Ok(ContentView::Checkout(_)) => return (Vec::new(), None),
        Err(error) => {
            return (vec![unknown_requirement("work tree", &describe_error(&error))], None);
        }
    };
    let look = change_summary::summarise_change(contract, &listing);
    let mut requirements = Vec::new();
    if demand.asks_lines(&contract.seal.policy) {
        let counts = |one: &&Requirement| one.name == LINES_REQUIREMENT || one.is_unknown();
        requirements.extend(look.requirements.iter().filter(counts).cloned());
    }
    if let Some(chunk) = demand.chunk {
        requirements.extend(output_requirements(contract, chunk, &listing, &look.touched));
    }
    let wanted = gate_query::select_gates(contract, &look.touched, &|gate| demand.asks(gate));
    let query = GateQuery {
        contract,
        wanted: &wanted,
        place: &place,
        site: GateSite::Tree,
        listing: Some(&listing),
        wait: WorkerWait::UntilAnswer,
        changed: contract.seal.base.as_ref().map(|_| look.changed_lines.as_slice()),
    };
    requirements.extend(gate_query::gate_requirements(&query).requirements);
    if let Some(chunk) = demand.chunk.filter(|chunk| !chunk.after.is_empty()) {
        let site = PipelineSite { query: &query, listing: &listing, touched: &look.touched };
        // An agent that started too early must learn that first.
        requirements
            .splice(0..0, pipeline_contract::predecessor_requirements(&site, chunk, &requirements));
    }
    requirements.sort_by_key(|one| one.stage);
    (requirements, Some(listing))
}

/// The chunks that an agent worked on in this run.
#[derive(Debug)]
pub(super) struct WorkedChunks<'a>(Vec<(AgentDemand<'a>, AgentTally)>);

impl<'a> WorkedChunks<'a> {
    pub(super) fn from_contract(contract: &ContractContext<'a>) -> Self {
        let had_agents = |chunk: &'a Chunk| {
            let is_its = |name: &Option<String>| name.as_deref() == Some(chunk.name.as_str());
            let last = contract.parts.iter().rev().find(|part| is_its(&part.chunk))?;
            let moment = moment_of_kind(last.who.kind);
            let tally = part_stop::tally_agents(contract.parts, Some(&chunk.name));
            Some((AgentDemand { moment, chunk: Some(chunk) }, tally))
        };
        Self(contract.seal.policy.chunks.iter().filter_map(had_agents).collect())
    }

    pub(super) fn asks(&self, gate: &Gate) -> bool {
        self.0.iter().any(|(demand, _)| demand.asks(gate))
    }

    /// The gate results of the stop, plus one requirement for each chunk. Findings that the stop reports are not
    /// repeated in a chunk.
    pub(super) fn requirements(
        &self,
        contract: &ContractContext<'_>,
        listing: &WorkTreeListing,
        touched: &[String],
        results: Vec<Requirement>,
    ) -> Vec<Requirement> {
        let gates = &contract.seal.policy.gates;
        let of_stop = |one: &Requirement| {
            let name = one.name.strip_suffix(" (flaky)").unwrap_or(&one.name);
            one.name == OLD_FAILURES_REQUIREMENT
                || gates
                    .iter()
                    .any(|gate| gate.name == name && gate.on.contains(&GateTrigger::Stop))
        };
        let mut weighed = Vec::new();
        for (demand, tally) in &self.0 {
            let Some(chunk) = demand.chunk else { continue };
            let asked = |one: &&Requirement| {
                gates.iter().any(|gate| gate.name == one.name && demand.asks(gate))
            };
            let mut demands: Vec<Requirement> = results
                .iter()
                .filter(asked)
                .map(|one| if of_stop(one) { without_findings(one) } else { one.clone() })
                .collect();
            demands.extend(output_requirements(contract, chunk, listing, touched));
            weighed.extend(part_stop::chunk_requirement(chunk, &demands, *tally));
        }
        let mut requirements: Vec<_> = results.into_iter().filter(of_stop).collect();
        requirements.append(&mut weighed);
        requirements
    }
}

pub(super) fn moment_of_kind(kind: PartKind) -> GateTrigger {
    match kind {
        PartKind::Subagent => GateTrigger::Subagent,
        PartKind::Teammate => GateTrigger::Teammate,
        PartKind::Task => GateTrigger::Task,
    }
}

pub(super) fn without_findings(one: &Requirement) -> Requirement {
    let standing = match &one.status {
        RequirementStatus::Unmet(failure) => {
            RequirementStatus::Unmet(RequirementFailure::new(failure.summary.clone()))
        }
        standing @ (RequirementStatus::Met(_)
        | RequirementStatus::Unknown(_)
        | RequirementStatus::Pending(_)) => standing.clone(),
    };
    Requirement { status: standing, ..one.clone() }
}

/// The state of an output file, from worst to best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum OutputState {
    Missing,
    Untouched,
    Empty,
    Written,
}

pub(super) fn output_requirements(
    contract: &ContractContext<'_>,
    chunk: &Chunk,
    listing: &WorkTreeListing,
    touched: &[String],
) -> Vec<Requirement> {
    let found = |glob: &String| {
        let globs = compile_globs(std::slice::from_ref(glob));
        let listed = matching_files(contract, listing, &globs);
        let is_touched = |path: &Path| {
            contract.seal.base.is_none() || touched.iter().any(|one| Path::new(one) == path)
        };
        let among = |path: &PathBuf| output_state(contract, path, is_touched(path));
        let nearest = listed.iter().map(among).max().unwrap_or(OutputState::Missing);
        // A literal path may be ignored by git; then only its modification time shows that it is new.
        let is_unlisted = nearest == OutputState::Missing && is_literal_path(glob);
        output_requirement(
            glob,
            if is_unlisted { ignored_output_state(contract, Path::new(glob)) } else { nearest },
        )
    };
    chunk.outputs.iter().map(found).collect()
}

/// Files of the tree that match, relative to the project.
fn matching_files(
    contract: &ContractContext<'_>,
    listing: &WorkTreeListing,
    globs: &PathGlobs,
) -> Vec<PathBuf> {
    let below = contract.project().strip_prefix(&listing.root).unwrap_or(Path::new(""));
    let files = listing.entries.iter().filter(|entry| match entry.mode {
        TreeEntryMode::File | TreeEntryMode::Executable => true,
        TreeEntryMode::Symlink | TreeEntryMode::Repository => false,
    });
    files
        .filter_map(|entry| Path::new(&entry.path).strip_prefix(below).ok())
        .filter(|path| globs.is_match(path))
        .map(Path::to_path_buf)
        .collect()
}

fn output_state(contract: &ContractContext<'_>, path: &Path, is_touched: bool) -> OutputState {
    let whole = contract.project().join(path);
    let Some(stat) = fs::stat_no_follow(&whole).filter(|stat| stat.kind == FileKind::File) else {
        return OutputState::Missing;
    };
    let is_new = contract.seal.base.is_some() || is_newer_than_run(contract, &stat);
    let has_text = || {
        let looked = fs::read_range(&whole, 0, MAX_INSPECTED_BYTES).unwrap_or_default();
        looked.len() == MAX_INSPECTED_BYTES || looked.iter().any(|byte| !byte.is_ascii_whitespace())
    };
    match is_touched && is_new {
        false => OutputState::Untouched,
        true if has_text() => OutputState::Written,
        true => OutputState::Empty,
    }
}

fn ignored_output_state(contract: &ContractContext<'_>, path: &Path) -> OutputState {
    let whole = contract.project().join(path);
    let Some(stat) = fs::stat_no_follow(&whole) else { return OutputState::Missing };
    let is_inside = fs::resolve(&whole).is_some_and(|real| real.starts_with(contract.project()));
    if is_inside {
        output_state(contract, path, is_newer_than_run(contract, &stat))
    } else {
        OutputState::Missing
    }
}

fn is_newer_than_run(contract: &ContractContext<'_>, stat: &fs::FileStat) -> bool {
    stat.modified_ns / 1_000_000 >= contract.run.started_ms
}

fn is_literal_path(glob: &str) -> bool {
    !glob.contains(['*', '?', '[', '{', '\\'])
}

fn output_requirement(glob: &str, nearest: OutputState) -> Requirement {
    let why = match nearest {
        OutputState::Written => {
            return contract_requirement(
                &format!("output {glob}"),
                RequirementStatus::Met(EvidenceKind::Measured),
                "",
            );
        }
        OutputState::Missing if is_literal_path(glob) => "there is no such file",
        OutputState::Missing => "no file matches",
        OutputState::Untouched => "it has not changed since the run began",
        OutputState::Empty => "it is empty",
    };
    let what = if is_literal_path(glob) { "Write" } else { "Write a file that matches" };
    let next = format!("{what} `{glob}`");
    let failure = RequirementFailure::new(why.to_string());
    contract_requirement(&format!("output {glob}"), RequirementStatus::Unmet(failure), &next)
}

/// Whether the agent worked in a different work tree than the one that is judged.
pub fn is_other_work_tree(project: &Path, cwd: &Path) -> bool {
    let Some(theirs) = git::work_tree_root(cwd) else { return false };
    git::work_tree_root(project).is_some_and(|ours| ours != theirs)
}
