//! Measures the current work tree by the policy that is sealed into a run.
//!
//! Checks run in order of cost: the change alone, then cached gate results, then the gates themselves. Gates run in a
//! separate process, so that they can continue after the host's deadline.

mod agent_contract;
mod base_checkpoint;
mod base_checks;
mod baseline;
mod change_checks;
mod change_condition;
mod change_summary;
mod checkout_results;
mod coverage_evidence;
mod environment_evidence;
pub mod gate_log;
mod gate_query;
pub mod gate_worker;
mod gate_writes;
mod judge_case;
mod judge_evidence;
mod judge_meter;
mod judge_support;
mod judge_worker;
mod judged_contract;
mod listing_notes;
mod outside_links;
mod pipeline_contract;
mod project_base;
mod proof_evidence;
mod proof_sides;
mod red_first;
mod seal;
mod sealed_programs;
mod sealed_variables;
mod session_contract;
mod shown_section;
mod slow_gates;

use std::borrow::Cow;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use ralph_core::approval::PersonApproval;
use ralph_core::coverage::ChangedLines;
use ralph_core::facts::{StopDriver, TreeIdentity};
use ralph_core::gate::{Gate, GateTrigger};
use ralph_core::policy::OnTampering;
use ralph_core::policy::{ChangePolicy, CheckoutMode};
use ralph_core::record::{GateRecord, JudgedContent, PolicySeal, RunRecord, StopReport, Waiver};
use ralph_core::requirement::{
    EvidenceKind, Finding, Requirement, RequirementFailure, RequirementStage, RequirementStatus,
    RequirementWeight,
};
use ralph_core::run::PartState;
use ralph_core::text;
use ralph_core::waiver;

use agent_contract::WorkedChunks;
use change_summary::CandidateCheckpoint;
use gate_query::{GateQuery, MeasuredGates, WorkerWait};
use gate_worker::GateSite;
use pipeline_contract::{MeasuredPipeline, PipelineSite};
use ralph_gates::gates::result_key::ResultKey;
use ralph_gates::gates::{ContentView, GateContent, GateContext};
use ralph_git::tree::{AbsentPaths, WorkTreeListing};
use ralph_home::faults::describe_error;
use ralph_home::world::World;
use ralph_lists::run_lists;

/// The requirements of every run with a policy.
pub const CONTRACT_REQUIREMENTS: [&str; 6] =
    ["a change", "policy", "tools", "nothing hidden", "protected files", "test integrity"];

pub use agent_contract::{AgentDemand, is_other_work_tree, judge_agent};
pub use base_checks::{BaseChecks, await_base_checks, read_base_checks};
pub use change_checks::{change_requirements, read_changes};
pub use judge_case::{ComparedTrees, MISSING_PLAN, ManualCase, PLAN_FILE};
pub use judge_evidence::{
    JudgeBudget, JudgeMode, add_judge_requirements, has_required_judge, must_improve_proof,
};
pub use judge_meter::judge_spending;
pub use judge_support::{CandidateCheckouts, CheckoutSupport};
pub use judge_worker::{JUDGE_BASE_LABEL, checkout_for_judge, gets_candidate};
pub use proof_evidence::{ProofEvidence, class_rules, gather_proof, start_base_measurement};
pub use seal::{
    SealError, SealRequest, holding_differences, load_default_policy, load_project_policy,
    seal_policy,
};
pub use sealed_programs::use_sealed_git;
pub use session_contract::{judge_session, seal_session};
pub use slow_gates::{ci_requirements, waiting_ci_requirements};

/// How often the tree is measured again because it changed meanwhile.
const MAX_ROUNDS: usize = 3;

const MAX_WRITTEN_CHARS: usize = 120;

/// Name of the requirement from `[lines]`.
pub(crate) const LINES_REQUIREMENT: &str = "added lines";

/// A run with a sealed policy, and everything needed to measure it.
#[derive(Clone, Copy, Debug)]
pub struct ContractContext<'a> {
    pub world: &'a World,
    pub run: &'a RunRecord,
    pub seal: &'a PolicySeal,
    /// Blocks charged so far.
    pub iteration: u32,
    /// What the last stop found; `None` at the first one.
    pub last_report: Option<&'a StopReport>,
    /// Subagents, teammates and tasks that were judged so far.
    pub parts: &'a [PartState],
    pub checks: &'a ListChecks,
    /// Requirements that a person has waived.
    pub waivers: &'a [Waiver],
    /// What a person approved so far.
    pub approvals: &'a [PersonApproval],
    /// The commit of the target branch that a proof compares with; `None` for the base of the run.
    pub proof_base: Option<&'a str>,
}

/// Checks of list items. Each runs like a gate and counts for its item alone.
#[derive(Clone, Debug, Default)]
pub struct ListChecks {
    /// The checks to run now.
    pub due: Vec<Gate>,
    /// One gate for each program that any check runs.
    pub programs: Vec<Gate>,
}

/// What checks and gates measured on one state of the tree.
#[derive(Debug, Default)]
pub struct MeasuredContract {
    pub requirements: Vec<Requirement>,
    /// Whether one of them is open and not waived.
    pub holds: bool,
    /// Results of list checks, under the names of the checks.
    pub checks: Vec<Requirement>,
    /// The results of gates that were used, for the journal.
    pub records: Vec<GateRecord>,
    /// Paths that differ from the base, relative to the project.
    pub touched: Vec<String>,
    /// The forbidden change, in one line, if the policy asks for a review by a person.
    pub tampering: Option<String>,
    /// Identity of the measured tree; `None` if the tree could not be listed.
    mark: Option<u64>,
    /// The same without what gates had written into the tree before.
    mark_without_gate_writes: Option<u64>,
    candidate: Option<CandidateCheckpoint>,
    /// Names of tests that the base does not have.
    new_tests: Vec<String>,
    changed_lines: Vec<ChangedLines>,
}

/// Measures one state of the tree. Gates take time, so before a tree is called good it is listed again and must be
/// unchanged.
pub fn measure_contract(contract: &ContractContext<'_>) -> MeasuredContract {
    let measured = measure_until_stable(contract);
    let holds = measured.requirements.iter().any(|one| contract.holds(one));
    MeasuredContract { holds, ..measured }
}

fn measure_until_stable(contract: &ContractContext<'_>) -> MeasuredContract {
    let mut measured = measure_once(contract);
    for _ in 0..MAX_ROUNDS {
        let mut all = measured.requirements.iter().chain(&measured.checks);
        if all.any(|one| contract.holds(one)) || is_tree_unchanged(contract, &measured) {
            return measured;
        }
        measured = measure_once(contract);
    }
    measured
        .requirements
        .push(unknown_requirement("work tree", "it keeps changing while it is judged"));
    measured
}

fn is_tree_unchanged(contract: &ContractContext<'_>, measured: &MeasuredContract) -> bool {
    let now = current_tree_mark(contract);
    now.is_some() && now == measured.mark
}

/// The identity of the current tree; `None` if it cannot be listed.
fn current_tree_mark(contract: &ContractContext<'_>) -> Option<u64> {
    let exclude = contract.exclude();
    match ContentView::read(&contract.gate_place(GateContent::Tree { exclude: &exclude })) {
        Ok(ContentView::Tree(listing)) => Some(listing.content_and_commit_mark()),
        Ok(ContentView::Checkout(_)) | Err(_) => None,
    }
}

/// A file that was on disk when the run began and that a sparse checkout leaves out now was deleted.
pub(crate) fn delete_newly_absent<'a>(
    run: &RunRecord,
    listing: &'a WorkTreeListing,
) -> Cow<'a, WorkTreeListing> {
    let base = run.seal.as_ref().and_then(|seal| seal.base.as_ref());
    match base.and_then(|base| base.absent.as_ref()) {
        Some(absent) if !listing.absent.is_empty() => {
            let mut listing = listing.clone();
            listing.delete_newly_absent(&AbsentPaths(absent.clone()));
            Cow::Owned(listing)
        }
        Some(_) | None => Cow::Borrowed(listing),
    }
}

fn measure_once(contract: &ContractContext<'_>) -> MeasuredContract {
    let exclude = contract.exclude();
    let place = contract.gate_place(GateContent::Tree { exclude: &exclude });
    let listing = match ContentView::read(&place) {
        Ok(ContentView::Tree(listing)) => listing.into_owned(),
        Ok(ContentView::Checkout(_)) => return MeasuredContract::without_tree(Vec::new()),
        Err(error) => {
            return MeasuredContract::without_tree(vec![unknown_requirement(
                "work tree",
                &describe_error(&error),
            )]);
        }
    };
    // Read before the gates run: they may write a file again, and then its earlier content is not known.
    let mark_without_gate_writes = Some(gate_writes::mark_without_gate_writes(contract, &listing));
    let look = change_summary::summarise_change(contract, &listing);
    let mut requirements: Vec<_> = change_requirement(contract, &listing).into_iter().collect();
    let mut guards = seal::seal_requirements(contract, &look);
    guards.push(change_checks::hidden_files_requirement(contract.project(), &look.unfingerprinted));
    let now_ms = contract.world.arrived_ms;
    guards.extend(waiver::remove_waived_findings(look.requirements, contract.waivers, now_ms));
    let tampering = describe_tampering(contract, &guards);
    requirements.append(&mut guards);
    let chunks = WorkedChunks::from_contract(contract);
    let asks = |gate: &Gate| gate.on.contains(&GateTrigger::Stop) || chunks.asks(gate);
    let wanted = gate_query::select_gates(contract, &look.touched, &asks);
    let (wanted, slow) = slow_gates::split_slow_gates(wanted);
    // Without git there is no base, so the changed lines are not known.
    let changed = contract.seal.base.as_ref().map(|_| look.changed_lines.as_slice());
    let query = GateQuery {
        contract,
        wanted: &wanted,
        place: &place,
        site: GateSite::Tree,
        listing: Some(&listing),
        wait: WorkerWait::UntilAnswer,
        changed,
    };
    let MeasuredGates { requirements: mut results, mut records, .. } =
        gate_query::gate_requirements(&query);
    let site = PipelineSite { query: &query, listing: &listing, touched: &look.touched };
    let pipeline = pipeline_contract::measure_pipeline(&site, &results);
    let checked = gate_query::list_check_requirements(&query, &pipeline);
    let MeasuredPipeline { requirements: mut weighed, records: of_chunks, .. } = pipeline;
    records.extend(of_chunks);
    let checks = checked.requirements;
    records.extend(checked.records);
    let open =
        slow_gates::slow_gate_blocker(contract, &[&requirements, &weighed, &results, &checks]);
    let last = slow_gates::slow_gate_requirements(&GateQuery { wanted: &slow, ..query }, open);
    records.extend(last.records);
    results.extend(last.requirements);
    requirements.append(&mut weighed);
    requirements.extend(chunks.requirements(contract, &listing, &look.touched, results));
    requirements.extend(base_checks::base_checks_requirement(contract));
    // The first open requirement becomes the agent's next step.
    requirements.sort_by_key(|one| one.stage);
    let (candidate, new_tests, touched) = (look.candidate, look.new_tests, look.touched);
    let mark = Some(listing.content_and_commit_mark());
    let holds = false;
    MeasuredContract {
        requirements,
        holds,
        checks,
        records,
        touched,
        tampering,
        mark,
        mark_without_gate_writes,
        candidate,
        new_tests,
        changed_lines: look.changed_lines,
    }
}

/// What the agent changed that the policy protects, if the policy asks for a person's review of it.
fn describe_tampering(contract: &ContractContext<'_>, guards: &[Requirement]) -> Option<String> {
    match contract.seal.policy.on_tampering {
        OnTampering::Block => None,
        OnTampering::EndInReview => guards.iter().find_map(describe_breach),
    }
}

/// The checks that need checkouts. Run only when everything else is met, before a run may end `verified`.
pub fn confirm_in_checkouts(
    contract: &ContractContext<'_>,
    measured: &MeasuredContract,
) -> (Vec<Requirement>, Vec<GateRecord>) {
    let mut records = Vec::new();
    let Some(candidate) = &measured.candidate else { return (Vec::new(), records) };
    let policy = &contract.seal.policy;
    let has_counted =
        |gate: &Gate| measured.has_counted(contract, gate) && !contract.is_waived(&gate.name);
    let mut wanted = gate_query::select_gates(contract, &measured.touched, &has_counted);
    let mut found =
        red_first::red_first_requirement(contract, candidate, &wanted, &measured.new_tests);
    wanted.extend(contract.checks.due.iter().filter(|gate| !contract.is_waived(&gate.name)));
    let is_clean = match policy.verify.checkout {
        CheckoutMode::Clean => true,
        // A runner verifies in a clean checkout once the agent's process is gone.
        CheckoutMode::Auto => {
            let driver = contract.world.driven.map(|driven| driven.driver);
            matches!(driver, Some(StopDriver::RunnerAlone | StopDriver::RunnerLanding))
        }
        CheckoutMode::Tree => false,
    };
    if is_clean {
        let clean = clean_checkout_requirements(contract, candidate, &wanted, measured);
        found.extend(clean.requirements);
        records.extend(clean.records);
    }
    if !found.is_empty() && !is_tree_unchanged(contract, measured) {
        found.push(unknown_requirement("work tree", "it changed while it was verified"));
    }
    (found, records)
}

/// Runs every gate again in a clean checkout, with protected files as at the base.
fn clean_checkout_requirements(
    contract: &ContractContext<'_>,
    candidate: &CandidateCheckpoint,
    wanted: &[&Gate],
    measured: &MeasuredContract,
) -> MeasuredGates {
    let Some(content) = checkout_results::present_content(contract, GateSite::Clean, candidate)
    else {
        return MeasuredGates::default();
    };
    let place = contract.gate_place(GateContent::Checkout(content));
    let measured = gate_query::gate_requirements(&GateQuery {
        contract,
        wanted,
        place: &place,
        site: GateSite::Clean,
        listing: None,
        wait: WorkerWait::UntilAnswer,
        changed: Some(&measured.changed_lines),
    });
    let rename =
        |one: Requirement| Requirement { name: checkout_requirement_name(&one.name), ..one };
    let requirements = measured.requirements.into_iter().map(rename).collect();
    MeasuredGates { requirements, ..measured }
}

/// The name of a gate's requirement in a clean checkout.
pub fn checkout_requirement_name(gate: &str) -> String {
    format!("{gate} (clean checkout)")
}

/// Requires that the tree differs from the base: an agent that changed nothing is not done.
fn change_requirement(
    contract: &ContractContext<'_>,
    listing: &WorkTreeListing,
) -> Option<Requirement> {
    let base = contract.seal.base.as_ref()?;
    if contract.seal.policy.change == ChangePolicy::Optional {
        return None;
    }
    let now = listing.identity();
    let unchanged = "the work tree has not changed since the run began";
    let unmet = if now == base.identity {
        Some(unchanged.to_string())
    } else {
        gate_writes::only_gates_changed(contract, listing, &base.identity).map(|written| {
            let names = text::clean_line(&written.join(", "), MAX_WRITTEN_CHARS);
            format!("{unchanged}, apart from files that gates wrote: {names}")
        })
    };
    let standing = match unmet {
        Some(summary) => RequirementStatus::Unmet(RequirementFailure::new(summary)),
        None => RequirementStatus::Met(EvidenceKind::Measured),
    };
    // A pipeline names a more specific next step.
    let has_pipeline = !contract.seal.policy.pipeline.is_empty();
    let next = if has_pipeline || matches!(standing, RequirementStatus::Met(_)) {
        ""
    } else {
        "Do the work"
    };
    Some(contract_requirement("a change", standing, next))
}

/// Describes a failed guard in one line.
fn describe_breach(requirement: &Requirement) -> Option<String> {
    let RequirementStatus::Unmet(failure) = &requirement.status else { return None };
    let first = failure.findings.first().map(describe_finding).unwrap_or_default();
    requirement.is_required().then(|| format!("{}: {}{first}", requirement.name, failure.summary))
}

fn describe_finding(finding: &Finding) -> String {
    match &finding.place {
        Some(place) => format!(" (`{}`: {})", place.file, finding.message),
        None => format!(" ({})", finding.message),
    }
}

fn contract_requirement(name: &str, standing: RequirementStatus, next: &str) -> Requirement {
    Requirement {
        name: name.to_string(),
        stage: RequirementStage::Correctness,
        status: standing,
        weight: RequirementWeight::Required,
        next: next.to_string(),
    }
}

fn unknown_requirement(name: &str, why: &str) -> Requirement {
    contract_requirement(name, RequirementStatus::Unknown(why.to_string()), "")
}

impl MeasuredContract {
    /// Whether the result of the gate is a requirement, by itself or as part of a chunk.
    fn has_counted(&self, contract: &ContractContext<'_>, gate: &Gate) -> bool {
        self.requirements.iter().any(|one| one.name == gate.name)
            || contract.seal.policy.pipeline.iter().any(|chunk| chunk.gates.contains(&gate.name))
    }

    /// The content that was judged; `None` without git.
    pub fn judged_content(&self) -> Option<&JudgedContent> {
        self.candidate.as_ref().map(|candidate| &candidate.content)
    }

    pub fn tree_identity(&self) -> TreeIdentity {
        self.mark.map_or(TreeIdentity::Unknown, TreeIdentity::Known)
    }

    pub fn identity_without_gate_writes(&self) -> TreeIdentity {
        self.mark_without_gate_writes.map_or(TreeIdentity::Unknown, TreeIdentity::Known)
    }

    fn without_tree(requirements: Vec<Requirement>) -> Self {
        Self { requirements, ..Self::default() }
    }
}

impl<'a> ContractContext<'a> {
    /// The directory of the policy.
    pub fn project(&self) -> &'a Path {
        Path::new(&self.seal.project)
    }

    /// Whether the requirement is open and not waived.
    pub(crate) fn holds(&self, requirement: &Requirement) -> bool {
        waiver::blocks_end(requirement, self.waivers, self.world.arrived_ms)
    }

    fn is_waived(&self, name: &str) -> bool {
        waiver::find_waiver(name, self.waivers, self.world.arrived_ms).is_some()
    }

    /// Whether this is a gate of the policy rather than a check of a list.
    pub(crate) fn is_of_policy(&self, gate: &Gate) -> bool {
        self.seal.policy.gates.iter().any(|known| known.name == gate.name)
    }

    /// Paths outside the judged work, such as lists that ralph itself writes to.
    pub(crate) fn exclude(&self) -> Vec<PathBuf> {
        run_lists::excluded_paths(&self.world.home, self.run)
    }

    /// The key of a note that belongs to this run.
    fn run_note_key(&self, label: &str) -> ResultKey {
        let mut hasher = blake3::Hasher::new();
        hasher.update(label.as_bytes());
        hasher.update(&[0]);
        hasher.update(self.run.id.as_str().as_bytes());
        ResultKey(hasher.finalize().into())
    }

    pub(crate) fn gate_place<'b>(&'b self, content: GateContent<'b>) -> GateContext<'b> {
        GateContext {
            home: &self.world.home,
            env: &self.world.env,
            project: self.project(),
            content,
            environment: &self.seal.policy.environment,
            path: self.seal.path.as_deref().map(OsStr::new),
            mounts: None,
            ci_base: self.seal.base.as_ref().map(|base| base.commit.as_str()),
            deadline: self.world.answer_deadline,
        }
    }
}
