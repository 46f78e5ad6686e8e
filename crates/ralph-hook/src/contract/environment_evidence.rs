//! The installed packages of a run: recorded when it starts, and compared when its work is proved.

use std::ffi::OsStr;

use ralph_core::proof::ProofVerdict;
use ralph_core::text;

use super::{ContractContext, outside_links};
use ralph_gates::gates::result_cache::ResultCache;
use ralph_gates::gates::result_key::ResultKey;
use ralph_proof::dependency_changes::{DependencyChanges, NPM_LOCKS};
use ralph_proof::environment_changes::{
    ChangedInstalledFile, compare_records, describe_packages, unexplained_packages,
};
use ralph_proof::environment_record::{
    EnvironmentRecord, RecordLimits, changed_since, list_environment, record_environment,
};
use ralph_proof::environment_roots::{EnvironmentRoot, environment_roots};
use ralph_proof::installed_environments::InstalledEnvironments;
use ralph_proof::tree_changes::TreeChanges;
use ralph_sys::fs;

const MAX_LOCK_BYTES: usize = 64 * 1024 * 1024;
const MAX_NAMED: usize = 3;
const MAX_PATH_CHARS: usize = 120;

/// The installed packages now.
#[derive(Debug)]
pub(super) struct InstalledState {
    roots: Vec<EnvironmentRoot>,
    comparison: EnvironmentComparison,
    /// The tracked links whose targets outside of the project changed.
    changed_links: Vec<String>,
}

#[derive(Debug)]
enum EnvironmentComparison {
    Recorded {
        before: Box<EnvironmentRecord>,
        now: Box<EnvironmentRecord>,
    },
    /// There is no record, because the run began without one or has too many files. Names the first files that changed
    /// since the run began.
    Unrecorded(Vec<String>),
    Unlistable,
}

/// Records the installed packages, unless the run has a record already.
pub(super) fn record_packages(
    contract: &ContractContext<'_>,
    cache: &ResultCache,
    limits: &RecordLimits,
) {
    let key = record_key(contract);
    if cache.read_note(&key).is_some() {
        return;
    }
    let (roots, started_ms) = (find_roots(contract), contract.run.started_ms);
    // Without a record, the times of the last changes are compared instead.
    if let Ok(record) = record_environment(&roots, contract.project(), started_ms, limits)
        && let Ok(bytes) = serde_json::to_vec(&record)
    {
        drop(cache.write_note(&key, &bytes));
    }
}

fn find_roots(contract: &ContractContext<'_>) -> Vec<EnvironmentRoot> {
    let policy = &contract.seal.policy;
    let env = &contract.world.env;
    let path = contract.seal.path.as_deref().map(OsStr::new);
    environment_roots(contract.project(), &policy.verify.link, &policy.gates, env, path)
}

/// Names the first packages that changed since then; `None` if none did.
pub(super) fn packages_changed_since(
    contract: &ContractContext<'_>,
    since_ms: u64,
) -> Option<String> {
    let changed = changed_since(&find_roots(contract), contract.project(), since_ms, MAX_NAMED);
    changed.ok().filter(|changed| !changed.is_empty()).map(|changed| name_paths(&changed))
}

fn record_key(contract: &ContractContext<'_>) -> ResultKey {
    contract.run_note_key("installed packages")
}

impl InstalledState {
    pub(super) fn read(contract: &ContractContext<'_>, cache: &ResultCache) -> Self {
        let (roots, project) = (find_roots(contract), contract.project());
        let record = cache.read_note(&record_key(contract));
        let before: Option<EnvironmentRecord> =
            record.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let since_ms = contract.run.started_ms;
        let comparison = if let Some(before) = before {
            let now = list_environment(&roots, project, &before);
            now.map(|now| EnvironmentComparison::Recorded {
                before: Box::new(before),
                now: Box::new(now),
            })
        } else {
            let changed = changed_since(&roots, project, since_ms, MAX_NAMED);
            changed.map(EnvironmentComparison::Unrecorded)
        };
        let comparison = comparison.unwrap_or(EnvironmentComparison::Unlistable);
        let changed_links = outside_links::changed_links(contract);
        let changed_links = changed_links.into_iter().map(ToString::to_string).collect();
        Self { roots, comparison, changed_links }
    }

    /// Identifies the installed packages. Without a record of them, a proof is not `verified` after a change, so that
    /// the content need not be identified.
    pub(super) fn content_mark(&self) -> [u8; 32] {
        let packages = self.package_mark();
        if self.changed_links.is_empty() {
            return packages;
        }
        let links = self.changed_links.join("\0");
        blake3::keyed_hash(&packages, links.as_bytes()).into()
    }

    fn package_mark(&self) -> [u8; 32] {
        match &self.comparison {
            EnvironmentComparison::Recorded { now, .. } => now.content_mark(),
            EnvironmentComparison::Unrecorded(changed) => {
                blake3::hash(changed.join("\0").as_bytes()).into()
            }
            EnvironmentComparison::Unlistable => [0xff; 32],
        }
    }

    /// The best verdicts that a proof can have because of files outside of the work, and why. `compare_trees` compares the
    /// base with the candidate, and is called only if packages changed.
    pub(super) fn doubts<E>(
        &self,
        contract: &ContractContext<'_>,
        compare_trees: impl FnOnce() -> Result<TreeChanges, E>,
    ) -> Result<Vec<(ProofVerdict, String)>, E> {
        let mut doubts = self.package_doubts(contract, compare_trees)?;
        if !self.changed_links.is_empty() {
            let why = outside_links::describe_links(&self.changed_links);
            doubts.push((ProofVerdict::Green, why));
        }
        Ok(doubts)
    }

    fn package_doubts<E>(
        &self,
        contract: &ContractContext<'_>,
        compare_trees: impl FnOnce() -> Result<TreeChanges, E>,
    ) -> Result<Vec<(ProofVerdict, String)>, E> {
        let (before, now) = match &self.comparison {
            EnvironmentComparison::Recorded { before, now } => (before, now),
            EnvironmentComparison::Unrecorded(changed) if changed.is_empty() => {
                return Ok(Vec::new());
            }
            EnvironmentComparison::Unrecorded(changed) => {
                let what = "installed packages changed, and there is no record of them from the start of the run";
                let why = format!("{what}: {}", name_paths(changed));
                return Ok(vec![(ProofVerdict::Green, why)]);
            }
            EnvironmentComparison::Unlistable => {
                let why = "the installed packages cannot be compared with the start of the run: too many files, or one that cannot be read";
                return Ok(vec![(ProofVerdict::Green, why.to_string())]);
            }
        };
        let mut doubts = Vec::new();
        let changed = compare_records(before, now);
        if !changed.is_empty() {
            let project = contract.project();
            let environments = InstalledEnvironments { roots: &self.roots, project, before, now };
            let why = explain_changes(&environments, &changed, &compare_trees()?);
            doubts.extend(why.map(|why| (ProofVerdict::NeedsReview, why)));
        }
        let created = before.roots_created(now);
        if !created.is_empty() {
            let why = format!(
                "packages were installed during the run, so there is nothing to compare them with: {}",
                name_paths(&created)
            );
            doubts.push((ProofVerdict::Green, why));
        }
        Ok(doubts)
    }
}

fn name_paths(paths: &[String]) -> String {
    let names: Vec<String> =
        paths.iter().take(MAX_NAMED).map(|path| text::clean_line(path, MAX_PATH_CHARS)).collect();
    names.join(", ")
}

fn explain_changes(
    environments: &InstalledEnvironments<'_>,
    files: &[ChangedInstalledFile],
    changes: &TreeChanges,
) -> Option<String> {
    let mut dependencies = DependencyChanges::find(changes);
    let is_lock_touched =
        changes.all.iter().any(|change| NPM_LOCKS.contains(&change.path.as_str()));
    if !is_lock_touched {
        let locks = NPM_LOCKS.iter().map(|name| environments.project.join(name));
        for bytes in locks.filter_map(|path| fs::read(&path, MAX_LOCK_BYTES).ok()) {
            dependencies = dependencies.with_unchanged_lock(&String::from_utf8_lossy(&bytes));
        }
    }
    let packages = unexplained_packages(files, &dependencies, &environments.package_facts(files));
    (!packages.is_empty()).then(|| describe_packages(&packages))
}
