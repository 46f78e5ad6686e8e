//! A summary of the change, computed once for each state of the tree and cached.

use ralph_core::requirement::{
    Evidence, Failure, Finding, Quote, Requirement, Stage, Standing, Weight,
};
use serde::{Deserialize, Serialize};

use super::changes::Changes;
use super::{Contract, checkout, checks};
use ralph_gates::gates::cache::Cache;
use ralph_gates::gates::key::Key;
use ralph_git::checkpoint::{Checkpoint, CheckpointError, Repository, Snapshot, Why};
use ralph_git::tree::Listing;
use ralph_home::faults::describe;

/// Increased when summaries that an older version cached must no longer be used.
const FORMAT: u8 = 2;

/// Everything that depends only on the base, the policy and the tree.
#[derive(Clone, Debug)]
pub(super) struct Look {
    /// Paths that differ from the base, relative to the project.
    pub touched: Vec<String>,
    /// Those that may exist on disk although the tree does not contain them.
    pub elusive: Vec<String>,
    /// Names of tests that the base does not have.
    pub new_tests: Vec<String>,
    pub requirements: Vec<Requirement>,
    pub candidate: Option<Candidate>,
}

/// The checkpoint of the tree that the agent wants to stop with.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Candidate {
    pub number: u32,
    pub tree: [u8; 32],
}

impl Candidate {
    pub(super) fn of(checkpoint: &Checkpoint) -> Self {
        Self { number: checkpoint.number, tree: checkpoint.tree.0 }
    }
}

/// Returns the cached summary of this tree, or computes it.
pub(super) fn at(contract: &Contract<'_>, listing: &Listing) -> Look {
    if contract.seal.base.is_none() {
        // Without git there is no base to compare with; gates still run.
        return Look::nothing(Vec::new());
    }
    let cache = Cache::open(&contract.world.home).ok();
    let key = key(contract, listing);
    let known = cache.as_ref().and_then(|cache| cache.note(&key));
    if let Some(note) = known.and_then(|bytes| serde_json::from_slice::<Note>(&bytes).ok()) {
        return note.into();
    }
    match looked(contract, listing) {
        Ok(look) => {
            // An unknown result may become known next time, so it is not cached.
            if !look.requirements.iter().any(Requirement::is_unknown)
                && let (Some(cache), Ok(bytes)) = (cache, serde_json::to_vec(&Note::from(&look)))
            {
                drop(cache.write_note(&key, &bytes));
            }
            look
        }
        Err(error) => Look::nothing(vec![super::untold("checkpoint", &describe(&error))]),
    }
}

fn key(contract: &Contract<'_>, listing: &Listing) -> Key {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&[FORMAT]);
    hasher.update(&listing.identity());
    let sealed = serde_json::to_vec(contract.seal).unwrap_or_default();
    hasher.update(blake3::hash(&sealed).as_bytes());
    // A checkpoint belongs to one run.
    hasher.update(contract.run.id.as_str().as_bytes());
    Key(hasher.finalize().into())
}

/// Checkpoints the tree before it is judged, so that no work of the agent is lost.
pub(super) fn checkpoint(
    contract: &Contract<'_>,
    listing: &Listing,
) -> Result<(Repository, Checkpoint), CheckpointError> {
    let world = contract.world;
    let deadline = world.deadline();
    let repository = checkout::open(contract, &deadline)?;
    let exclude = contract.exclude();
    let why = Why::Iteration(contract.iteration.saturating_add(1));
    let snapshot = Snapshot { listing, excluded: &exclude, why };
    let made = if world.env.is_rehearsal() {
        repository.present(&snapshot, &deadline)?
    } else {
        repository.make(&snapshot, &deadline)?.checkpoint
    };
    Ok((repository, made))
}

fn looked(contract: &Contract<'_>, listing: &Listing) -> Result<Look, CheckpointError> {
    let (repository, now) = checkpoint(contract, listing)?;
    let deadline = contract.world.deadline();
    let first = checkout::first(contract, &repository, &deadline)?;
    let changes = Changes::between(&repository, (&first, &now), contract.project(), &deadline)?;
    let policy = &contract.seal.policy;
    let elusive = changes.all.iter().filter(|change| change.is_elusive);
    Ok(Look {
        touched: changes.all.iter().map(|change| change.path.clone()).collect(),
        elusive: elusive.map(|change| change.path.clone()).collect(),
        new_tests: checks::new_tests(policy, &changes),
        requirements: checks::requirements(policy, &changes),
        candidate: Some(Candidate::of(&now)),
    })
}

impl Look {
    fn nothing(requirements: Vec<Requirement>) -> Self {
        let (touched, elusive, new_tests) = (Vec::new(), Vec::new(), Vec::new());
        Self { touched, elusive, new_tests, requirements, candidate: None }
    }
}

#[derive(Serialize, Deserialize)]
struct Note {
    touched: Vec<String>,
    elusive: Vec<String>,
    new_tests: Vec<String>,
    checks: Vec<Check>,
    candidate: Option<Candidate>,
}

/// A requirement in the cache: met if it has no summary.
#[derive(Serialize, Deserialize)]
struct Check {
    name: String,
    stage: Stage,
    weight: Weight,
    next: String,
    summary: Option<String>,
    findings: Vec<Finding>,
    unlisted: usize,
    quote: Option<(String, String)>,
}

impl From<&Look> for Note {
    fn from(look: &Look) -> Self {
        let check = |one: &Requirement| {
            let failure = match &one.standing {
                Standing::Unmet(failure) => Some(failure.clone()),
                Standing::Met(_) | Standing::Unknown(_) | Standing::Pending(_) => None,
            };
            let Failure { findings, unlisted, quote, .. } = failure.clone().unwrap_or_default();
            Check {
                name: one.name.clone(),
                stage: one.stage,
                weight: one.weight,
                next: one.next.clone(),
                summary: failure.map(|failure| failure.summary),
                findings,
                unlisted,
                quote: quote.map(|Quote { label, text }| (label, text)),
            }
        };
        Self {
            touched: look.touched.clone(),
            elusive: look.elusive.clone(),
            new_tests: look.new_tests.clone(),
            checks: look.requirements.iter().map(check).collect(),
            candidate: look.candidate,
        }
    }
}

impl From<Note> for Look {
    fn from(note: Note) -> Self {
        let requirement = |check: Check| {
            let quote = check.quote.map(|(label, text)| Quote { label, text });
            let standing = match check.summary {
                None => Standing::Met(Evidence::Measured),
                Some(summary) => {
                    let Check { findings, unlisted, .. } = check;
                    Standing::Unmet(Failure { summary, findings, unlisted, quote, log: None })
                }
            };
            let Check { name, stage, weight, next, .. } = check;
            Requirement { name, stage, standing, weight, next }
        };
        Self {
            touched: note.touched,
            elusive: note.elusive,
            new_tests: note.new_tests,
            requirements: note.checks.into_iter().map(requirement).collect(),
            candidate: note.candidate,
        }
    }
}
