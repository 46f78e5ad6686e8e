//! A summary of the change, computed once for each state of the tree and cached.

use ralph_core::coverage::ChangedLines;
use ralph_core::record::{JudgedContent, RunOrigin};
use ralph_core::requirement::{
    EvidenceKind, Finding, QuotedText, Requirement, RequirementFailure, RequirementStage,
    RequirementStatus, RequirementWeight,
};
use serde::{Deserialize, Serialize};

use super::{ContractContext, base_checkpoint, change_checks, coverage_evidence};
use ralph_gates::gates::result_cache::ResultCache;
use ralph_gates::gates::result_key::ResultKey;
use ralph_git::checkpoint::{
    Checkpoint, CheckpointError, CheckpointReason, CheckpointRepository, CheckpointSnapshot,
};
use ralph_git::tree::WorkTreeListing;
use ralph_home::faults::describe_error;
use ralph_proof::dependency_changes::DependencyChanges;
use ralph_proof::tree_changes::ComparedCheckpoints;

/// Increased when summaries that an older version cached must no longer be used.
const SUMMARY_FORMAT: u8 = 8;

/// Everything that depends only on the base, the policy and the tree.
#[derive(Clone, Debug)]
pub(super) struct ChangeSummary {
    /// Paths that differ from the base, relative to the project.
    pub touched: Vec<String>,
    /// Those that may exist on disk although the tree does not contain them.
    pub unfingerprinted: Vec<String>,
    /// Whether manifests or lock files declare other dependencies than at the base.
    pub declares_dependencies: bool,
    /// Names of tests that the base does not have.
    pub new_tests: Vec<String>,
    /// The lines that the run changed, if a gate compares its coverage with them.
    pub changed_lines: Vec<ChangedLines>,
    pub requirements: Vec<Requirement>,
    pub candidate: Option<CandidateCheckpoint>,
}

/// The checkpoint of the tree that the agent wants to stop with.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct CandidateCheckpoint {
    pub content: JudgedContent,
    pub tree: [u8; 32],
}

impl CandidateCheckpoint {
    pub(super) fn new(repository: &CheckpointRepository, checkpoint: &Checkpoint) -> Self {
        let content = JudgedContent {
            checkpoint: checkpoint.number,
            commit: repository.hex(&checkpoint.commit),
            tree: repository.hex(&checkpoint.tree),
        };
        Self { content, tree: checkpoint.tree.0 }
    }
}

/// Returns the cached summary of this tree, or computes it.
pub(super) fn summarise_change(
    contract: &ContractContext<'_>,
    listing: &WorkTreeListing,
) -> ChangeSummary {
    if contract.seal.base.is_none() {
        // Without git there is no base to compare with; gates still run.
        return ChangeSummary::without_base(Vec::new());
    }
    let cache = ResultCache::open(&contract.world.home).ok();
    let key = summary_key(contract, listing);
    let known = cache.as_ref().and_then(|cache| cache.read_note(&key));
    if let Some(note) =
        known.and_then(|bytes| serde_json::from_slice::<CachedChangeSummary>(&bytes).ok())
    {
        return note.into();
    }
    match compute_summary(contract, listing) {
        Ok(look) => {
            // An unknown result may become known next time, so it is not cached.
            if !look.requirements.iter().any(Requirement::is_unknown)
                && let (Some(cache), Ok(bytes)) =
                    (cache, serde_json::to_vec(&CachedChangeSummary::from(&look)))
            {
                drop(cache.write_note(&key, &bytes));
            }
            look
        }
        Err(error) => ChangeSummary::without_base(vec![super::unknown_requirement(
            "checkpoint",
            &describe_error(&error),
        )]),
    }
}

fn summary_key(contract: &ContractContext<'_>, listing: &WorkTreeListing) -> ResultKey {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&[SUMMARY_FORMAT]);
    hasher.update(&listing.fingerprint());
    let sealed = serde_json::to_vec(contract.seal).unwrap_or_default();
    hasher.update(blake3::hash(&sealed).as_bytes());
    // A checkpoint belongs to one run.
    hasher.update(contract.run.id.as_str().as_bytes());
    ResultKey(hasher.finalize().into())
}

/// The checkpoint of a tree that is judged.
pub(super) struct StopCheckpoint {
    pub repository: CheckpointRepository,
    pub now: Checkpoint,
    /// The earliest checkpoint of the run, if it was read anyway.
    first: Option<Checkpoint>,
}

/// Checkpoints the tree before it is judged, so that no work of the agent is lost.
pub(super) fn checkpoint_tree(
    contract: &ContractContext<'_>,
    listing: &WorkTreeListing,
) -> Result<StopCheckpoint, CheckpointError> {
    let world = contract.world;
    let deadline = world.step_deadline();
    let repository = base_checkpoint::open_repository(contract, &deadline)?;
    let exclude = contract.exclude();
    let why = CheckpointReason::Iteration(contract.iteration.saturating_add(1));
    let listing = &*super::delete_newly_absent(contract.run, listing);
    let snapshot = CheckpointSnapshot { listing, excluded: &exclude, reason: why };
    if world.env.is_rehearsal() {
        let now = repository.capture_present(&snapshot, &deadline)?;
        return Ok(StopCheckpoint { repository, now, first: None });
    }
    let created = repository.create(&snapshot, &deadline)?;
    Ok(StopCheckpoint { repository, now: created.checkpoint, first: Some(created.first) })
}

fn compute_summary(
    contract: &ContractContext<'_>,
    listing: &WorkTreeListing,
) -> Result<ChangeSummary, CheckpointError> {
    let StopCheckpoint { repository, now, first } = checkpoint_tree(contract, listing)?;
    let deadline = contract.world.step_deadline();
    let first = match first {
        Some(first) if first.number == 0 && contract.run.origin != RunOrigin::Session => {
            base_checkpoint::confirm_base(contract, &repository, first, &deadline)?
        }
        Some(_) | None => base_checkpoint::find_base(contract, &repository, &deadline)?,
    };
    let (policy, project) = (&contract.seal.policy, contract.project());
    let compared = ComparedCheckpoints { base: &first, now: &now };
    let changes = change_checks::read_changes(policy, &repository, compared, project, &deadline)?;
    let elusive = changes.all.iter().filter(|change| change.is_unfingerprinted);
    Ok(ChangeSummary {
        touched: changes.all.iter().map(|change| change.path.clone()).collect(),
        unfingerprinted: elusive.map(|change| change.path.clone()).collect(),
        declares_dependencies: !DependencyChanges::find(&changes).is_empty(),
        new_tests: change_checks::find_new_tests(policy, &changes),
        changed_lines: coverage_evidence::find_changed_lines(policy, &changes),
        requirements: change_checks::change_requirements(policy, &changes),
        candidate: Some(CandidateCheckpoint::new(&repository, &now)),
    })
}

impl ChangeSummary {
    fn without_base(requirements: Vec<Requirement>) -> Self {
        let (touched, elusive, new_tests) = (Vec::new(), Vec::new(), Vec::new());
        Self {
            touched,
            unfingerprinted: elusive,
            declares_dependencies: false,
            new_tests,
            changed_lines: Vec::new(),
            requirements,
            candidate: None,
        }
    }
}

#[derive(Serialize, Deserialize)]
struct CachedChangeSummary {
    touched: Vec<String>,
    elusive: Vec<String>,
    declares_dependencies: bool,
    new_tests: Vec<String>,
    changed_lines: Vec<ChangedLines>,
    checks: Vec<CachedRequirement>,
    candidate: Option<CandidateCheckpoint>,
}

/// A requirement in the cache: met if it has no summary.
#[derive(Serialize, Deserialize)]
struct CachedRequirement {
    name: String,
    stage: RequirementStage,
    weight: RequirementWeight,
    next: String,
    summary: Option<String>,
    findings: Vec<Finding>,
    unlisted: usize,
    quote: Option<(String, String)>,
}

impl From<&ChangeSummary> for CachedChangeSummary {
    fn from(look: &ChangeSummary) -> Self {
        let check = |one: &Requirement| {
            let failure = match &one.status {
                RequirementStatus::Unmet(failure) => Some(failure.clone()),
                RequirementStatus::Met(_)
                | RequirementStatus::Unknown(_)
                | RequirementStatus::Pending(_) => None,
            };
            let RequirementFailure { findings, unlisted, quote, .. } =
                failure.clone().unwrap_or_default();
            CachedRequirement {
                name: one.name.clone(),
                stage: one.stage,
                weight: one.weight,
                next: one.next.clone(),
                summary: failure.map(|failure| failure.summary),
                findings,
                unlisted,
                quote: quote.map(|QuotedText { label, text }| (label, text)),
            }
        };
        Self {
            touched: look.touched.clone(),
            elusive: look.unfingerprinted.clone(),
            declares_dependencies: look.declares_dependencies,
            new_tests: look.new_tests.clone(),
            changed_lines: look.changed_lines.clone(),
            checks: look.requirements.iter().map(check).collect(),
            candidate: look.candidate.clone(),
        }
    }
}

impl From<CachedChangeSummary> for ChangeSummary {
    fn from(note: CachedChangeSummary) -> Self {
        let requirement = |check: CachedRequirement| {
            let quote = check.quote.map(|(label, text)| QuotedText { label, text });
            let standing = match check.summary {
                None => RequirementStatus::Met(EvidenceKind::Measured),
                Some(summary) => {
                    let CachedRequirement { findings, unlisted, .. } = check;
                    RequirementStatus::Unmet(RequirementFailure {
                        summary,
                        findings,
                        unlisted,
                        quote,
                        log: None,
                    })
                }
            };
            let CachedRequirement { name, stage, weight, next, .. } = check;
            Requirement { name, stage, status: standing, weight, next }
        };
        Self {
            touched: note.touched,
            unfingerprinted: note.elusive,
            declares_dependencies: note.declares_dependencies,
            new_tests: note.new_tests,
            changed_lines: note.changed_lines,
            requirements: note.checks.into_iter().map(requirement).collect(),
            candidate: note.candidate,
        }
    }
}
