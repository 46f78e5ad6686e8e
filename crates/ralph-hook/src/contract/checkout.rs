//! Places where nobody works: the base of the run, and a clean checkout of what the agent wants to stop with.

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

/// Writing out a large tree takes a while, and a worker has it.
const PATIENCE: Duration = Duration::from_mins(5);
/// What is installed beside the sources is needed to run anything, and is not part of the work.
const INSTALLED: [&str; 3] = ["node_modules", ".venv", "venv"];

/// A checkout and where the project is in it. Nobody else uses the place until this is dropped.
#[derive(Debug)]
pub(super) struct Site {
    pub project: PathBuf,
    _checkout: Checkout,
}

/// Where checkouts of the run are, whether or not there is one.
pub(super) fn project(contract: &Contract<'_>) -> PathBuf {
    contract.world.home.run(&contract.run.id).checkout().join(below(contract))
}

/// The project within its work tree.
fn below(contract: &Contract<'_>) -> PathBuf {
    let root = git::root(contract.project());
    let below =
        root.and_then(|root| contract.project().strip_prefix(root).ok().map(Path::to_path_buf));
    below.unwrap_or_default()
}

pub(super) fn base_content(contract: &Contract<'_>) -> Option<[u8; 32]> {
    let base = contract.seal.base.as_ref()?;
    Some(content(contract, &["base", &base.commit]))
}

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

pub(super) fn base(contract: &Contract<'_>) -> Result<Site, CheckpointError> {
    let deadline = Deadline::after(PATIENCE);
    let repository = open(contract, &deadline)?;
    let first = first(contract, &repository, &deadline)?;
    site(contract, &repository, &Mix { of: &first, with: &first, paths: &|_| false }, &deadline)
}

/// A checkout of what the agent wants to stop with, or of the base with the tests that it wrote.
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

/// A tree in which some paths are as in another one.
struct Mix<'a> {
    of: &'a Checkpoint,
    with: &'a Checkpoint,
    /// From the project.
    paths: &'a dyn Fn(&Path) -> bool,
}

/// The base, and no other that somebody put in its place.
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
        // What an earlier gate left there, compiled from other sources, would be as good as part of the tree.
        leftovers: Leftovers::Remove,
    };
    let checkout = repository.checkout(&verification, deadline)?;
    Ok(Site { project: checkout.dir.join(&below), _checkout: checkout })
}

/// From the root of the work tree.
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
