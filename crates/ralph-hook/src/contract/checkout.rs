//! Separate checkouts that no agent works in: the base of the run, and a clean checkout of the candidate.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::ContractContext;
use super::change_summary::CandidateCheckpoint;
use super::gate_worker::GateSite;
use ralph_gates::gates::result_key::compile_globs;
use ralph_git::checkpoint::{
    CheckoutLeftovers, CheckoutRequest, Checkpoint, CheckpointError, CheckpointRepository,
    VerificationCheckout,
};
use ralph_git::git;
use ralph_proof::{ClassRules, DEPENDENCY_DIRECTORIES, FileClass, classify_file};
use ralph_sys::clock::Deadline;
use ralph_sys::fs;

/// A worker may take this long to write out a large tree.
pub(super) const CHECKOUT_TIMEOUT: Duration = Duration::from_mins(5);

/// A checkout and the path of the project in it. The checkout is locked until this is dropped.
#[derive(Debug)]
pub(super) struct CheckoutSite {
    pub project: PathBuf,
    _checkout: VerificationCheckout,
}

/// The project directory in the run's checkout, whether or not the checkout exists.
pub(super) fn checkout_project(contract: &ContractContext<'_>) -> PathBuf {
    contract.world.home.run(&contract.run.id).checkout().join(project_in_work_tree(contract))
}

/// The path of the project relative to the root of its work tree.
fn project_in_work_tree(contract: &ContractContext<'_>) -> PathBuf {
    let root = git::work_tree_root(contract.project());
    let below =
        root.and_then(|root| contract.project().strip_prefix(root).ok().map(Path::to_path_buf));
    below.unwrap_or_default()
}

/// Identifies the content of a checkout of the base.
pub(super) fn base_content_hash(contract: &ContractContext<'_>) -> Option<[u8; 32]> {
    let base = contract.seal.base.as_ref()?;
    Some(hash_content(contract, &["base", &base.commit]))
}

/// Identifies the content of a checkout of the candidate.
pub(super) fn candidate_content_hash(
    contract: &ContractContext<'_>,
    site: GateSite,
    candidate: &CandidateCheckpoint,
) -> Option<[u8; 32]> {
    let base = contract.seal.base.as_ref()?;
    let tree = blake3::Hash::from_bytes(candidate.tree).to_hex();
    Some(hash_content(contract, &[site.name(), &base.commit, tree.as_str()]))
}

fn hash_content(contract: &ContractContext<'_>, parts: &[&str]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    let policy = &contract.seal.policy;
    let all = parts.iter().copied().chain(policy.protect.paths.iter().map(String::as_str));
    for part in all.chain(policy.verify.link.iter().map(String::as_str)) {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    hasher.finalize().into()
}

/// Checks out the base.
pub(super) fn check_out_base(
    contract: &ContractContext<'_>,
) -> Result<CheckoutSite, CheckpointError> {
    let deadline = Deadline::after(CHECKOUT_TIMEOUT);
    let repository = open_repository(contract, &deadline)?;
    let first = find_base(contract, &repository, &deadline)?;
    check_out(
        contract,
        &repository,
        &CheckoutMix { of: &first, with: &first, paths: &|_| false },
        &deadline,
    )
}

/// Checks out the candidate with the protected files of the base, or the base with the tests of the candidate.
pub(super) fn check_out_candidate(
    contract: &ContractContext<'_>,
    site: GateSite,
    candidate: &Checkpoint,
) -> Result<CheckoutSite, CheckpointError> {
    let deadline = Deadline::after(CHECKOUT_TIMEOUT);
    let repository = open_repository(contract, &deadline)?;
    let first = find_base(contract, &repository, &deadline)?;
    let policy = &contract.seal.policy;
    let protected = compile_globs(&policy.protect.paths);
    // Files that gate commands name are harness, not tests, so they are not needed here.
    let rules = ClassRules::new(policy, Vec::new());
    let is_protected = |path: &Path| protected.is_match(path);
    let is_test = |path: &Path| {
        path.to_str().is_some_and(|path| classify_file(path, &rules).class == FileClass::Tests)
    };
    let mix = match site {
        GateSite::Tree | GateSite::Clean | GateSite::Proof | GateSite::Base => {
            CheckoutMix { of: candidate, with: &first, paths: &is_protected }
        }
        GateSite::Red => CheckoutMix { of: &first, with: candidate, paths: &is_test },
    };
    self::check_out(contract, &repository, &mix, &deadline)
}

/// A tree with some paths taken from another tree.
struct CheckoutMix<'a> {
    of: &'a Checkpoint,
    with: &'a Checkpoint,
    /// Matches paths relative to the project.
    paths: &'a dyn Fn(&Path) -> bool,
}

/// Finds the base checkpoint. Fails if it is not the commit that was sealed.
pub(super) fn find_base(
    contract: &ContractContext<'_>,
    repository: &CheckpointRepository,
    deadline: &Deadline,
) -> Result<Checkpoint, CheckpointError> {
    let first = repository.find(0, deadline)?;
    let sealed = contract.seal.base.as_ref().map(|base| base.commit.as_str());
    if sealed == Some(repository.hex(&first.commit).as_str()) {
        Ok(first)
    } else {
        Err(CheckpointError::Replaced { number: 0 })
    }
}

/// The base of a proof: the commit of the target branch that the work was merged with, or else the base of the run.
pub(super) fn find_proof_base(
    contract: &ContractContext<'_>,
    repository: &CheckpointRepository,
    deadline: &Deadline,
) -> Result<Checkpoint, CheckpointError> {
    let Some(commit) = contract.proof_base else {
        return find_base(contract, repository, deadline);
    };
    let target = repository.find_commit(commit, deadline)?;
    target.ok_or_else(|| CheckpointError::CommitMissing(commit.to_string()))
}

pub(super) fn open_repository(
    contract: &ContractContext<'_>,
    deadline: &Deadline,
) -> Result<CheckpointRepository, CheckpointError> {
    let world = contract.world;
    let repository =
        CheckpointRepository::open(&world.home, &contract.run.id, contract.project(), deadline)?;
    Ok(if world.env.is_rehearsal() { repository.for_comparison() } else { repository })
}

fn check_out(
    contract: &ContractContext<'_>,
    repository: &CheckpointRepository,
    mix: &CheckoutMix<'_>,
    deadline: &Deadline,
) -> Result<CheckoutSite, CheckpointError> {
    let below = project_in_work_tree(contract);
    let is_taken =
        |path: &OsStr| Path::new(path).strip_prefix(&below).is_ok_and(|path| (mix.paths)(path));
    let links = dependency_links(contract, &below);
    let verification = CheckoutRequest {
        candidate: mix.of,
        base: mix.with,
        is_protected: &is_taken,
        overlay: &[],
        links: &links,
        // Files that an earlier gate compiled from other sources would count as part of the tree.
        leftovers: CheckoutLeftovers::Remove,
    };
    let checkout = repository.checkout(&verification, deadline)?;
    Ok(CheckoutSite { project: checkout.dir.join(&below), _checkout: checkout })
}

/// Directories to link into the checkout, relative to the root of the work tree.
fn dependency_links(contract: &ContractContext<'_>, below: &Path) -> Vec<PathBuf> {
    let named = &contract.seal.policy.verify.link;
    let there = |name: &Path| fs::is_directory(&contract.project().join(name));
    let links = if named.is_empty() {
        DEPENDENCY_DIRECTORIES
            .iter()
            .map(PathBuf::from)
            .filter(|name| there(name))
            .collect::<Vec<_>>()
    } else {
        named.iter().map(PathBuf::from).collect()
    };
    links.into_iter().map(|name| below.join(name)).collect()
}
