//! Separate checkouts that no agent works in: the base of the run, and a clean checkout of the candidate.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Contract;
use super::look::Candidate;
use super::work::Where;
use ralph_gates::gates::key::globs_of;
use ralph_git::checkpoint::{
    Checkout, Checkpoint, CheckpointError, Leftovers, Repository, Verification,
};
use ralph_git::git;
use ralph_sys::clock::Deadline;
use ralph_sys::fs;

/// A worker may take this long to write out a large tree.
const PATIENCE: Duration = Duration::from_mins(5);
/// Installed dependencies. Gates need them, but they are not part of the work, so checkouts link to them.
const INSTALLED: [&str; 3] = ["node_modules", ".venv", "venv"];

/// A checkout and the path of the project in it. The checkout is locked until this is dropped.
#[derive(Debug)]
pub(super) struct Site {
    pub project: PathBuf,
    _checkout: Checkout,
}

/// The project directory in the run's checkout, whether or not the checkout exists.
pub(super) fn project(contract: &Contract<'_>) -> PathBuf {
    contract.world.home.run(&contract.run.id).checkout().join(below(contract))
}

/// The path of the project relative to the root of its work tree.
fn below(contract: &Contract<'_>) -> PathBuf {
    let root = git::root(contract.project());
    let below =
        root.and_then(|root| contract.project().strip_prefix(root).ok().map(Path::to_path_buf));
    below.unwrap_or_default()
}

/// Identifies the content of a checkout of the base.
pub(super) fn base_content(contract: &Contract<'_>) -> Option<[u8; 32]> {
    let base = contract.seal.base.as_ref()?;
    Some(content(contract, &["base", &base.commit]))
}

/// Identifies the content of a checkout of the candidate.
pub(super) fn content_of(
    contract: &Contract<'_>,
    site: Where,
    candidate: &Candidate,
) -> Option<[u8; 32]> {
    let base = contract.seal.base.as_ref()?;
    let tree = blake3::Hash::from_bytes(candidate.tree).to_hex();
    Some(content(contract, &[site.name(), &base.commit, tree.as_str()]))
}

fn content(contract: &Contract<'_>, parts: &[&str]) -> [u8; 32] {
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
pub(super) fn base(contract: &Contract<'_>) -> Result<Site, CheckpointError> {
    let deadline = Deadline::after(PATIENCE);
    let repository = open(contract, &deadline)?;
    let first = first(contract, &repository, &deadline)?;
    site(contract, &repository, &Mix { of: &first, with: &first, paths: &|_| false }, &deadline)
}

/// Checks out the candidate with the protected files of the base, or the base with the tests of the candidate.
pub(super) fn of(
    contract: &Contract<'_>,
    site: Where,
    candidate: &Checkpoint,
) -> Result<Site, CheckpointError> {
    let deadline = Deadline::after(PATIENCE);
    let repository = open(contract, &deadline)?;
    let first = first(contract, &repository, &deadline)?;
    let policy = &contract.seal.policy;
    let (protected, tests) = (globs_of(&policy.protect.paths), globs_of(&policy.tests.paths));
    let is_protected = |path: &Path| protected.is_match(path);
    let is_test = |path: &Path| {
        tests.is_match(path) || path.to_str().is_some_and(ralph_check::holds_only_tests)
    };
    let mix = match site {
        Where::Tree | Where::Clean => Mix { of: candidate, with: &first, paths: &is_protected },
        Where::Red => Mix { of: &first, with: candidate, paths: &is_test },
    };
    self::site(contract, &repository, &mix, &deadline)
}

/// A tree with some paths taken from another tree.
struct Mix<'a> {
    of: &'a Checkpoint,
    with: &'a Checkpoint,
    /// Matches paths relative to the project.
    paths: &'a dyn Fn(&Path) -> bool,
}

/// Finds the base checkpoint. Fails if it is not the commit that was sealed.
pub(super) fn first(
    contract: &Contract<'_>,
    repository: &Repository,
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

pub(super) fn open(
    contract: &Contract<'_>,
    deadline: &Deadline,
) -> Result<Repository, CheckpointError> {
    let world = contract.world;
    let repository = Repository::open(&world.home, &contract.run.id, contract.project(), deadline)?;
    Ok(if world.env.is_rehearsal() { repository.rehearsing() } else { repository })
}

fn site(
    contract: &Contract<'_>,
    repository: &Repository,
    mix: &Mix<'_>,
    deadline: &Deadline,
) -> Result<Site, CheckpointError> {
    let below = below(contract);
    let is_taken =
        |path: &OsStr| Path::new(path).strip_prefix(&below).is_ok_and(|path| (mix.paths)(path));
    let links = links(contract, &below);
    let verification = Verification {
        candidate: mix.of,
        base: mix.with,
        is_protected: &is_taken,
        links: &links,
        // Files that an earlier gate compiled from other sources would count as part of the tree.
        leftovers: Leftovers::Remove,
    };
    let checkout = repository.checkout(&verification, deadline)?;
    Ok(Site { project: checkout.dir.join(&below), _checkout: checkout })
}

/// Directories to link into the checkout, relative to the root of the work tree.
fn links(contract: &Contract<'_>, below: &Path) -> Vec<PathBuf> {
    let named = &contract.seal.policy.verify.link;
    let there = |name: &Path| fs::is_directory(&contract.project().join(name));
    let links = if named.is_empty() {
        INSTALLED.iter().map(PathBuf::from).filter(|name| there(name)).collect::<Vec<_>>()
    } else {
        named.iter().map(PathBuf::from).collect()
    };
    links.into_iter().map(|name| below.join(name)).collect()
}
