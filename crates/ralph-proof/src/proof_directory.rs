//! The private directory of one proof: four checkouts, each with a home and a temporary directory of its own.
//!
//! Its path has no hidden component, because some programs treat files below one differently, and its name cannot be
//! predicted. It is removed when the proof ends; what a killed process left behind is removed by the next proof.

use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;

use ralph_core::proof::ProofStep;
use ralph_core::record::ProcessIdentity;
use ralph_home::paths::RalphHome;
use ralph_sys::clock;
use ralph_sys::env::Env;
use ralph_sys::fs::{self, Durability, FileError};
use ralph_sys::proc::cancel::CancelToken;
use ralph_sys::proc::private_mounts;
use ralph_sys::process_identity::{self, Liveness};
use serde::{Deserialize, Serialize};

/// On disk rather than in memory, unlike `/tmp` on many systems.
const DEFAULT_BASE: &str = "/var/tmp";
const MAX_RECORDS: usize = 10_000;
const MAX_RECORD_BYTES: usize = 64 * 1024;

#[derive(Debug)]
pub struct ProofDirectory {
    root: PathBuf,
    record: PathBuf,
    supports_mounts: OnceLock<bool>,
}

/// The directories of one checkout.
#[derive(Clone, Debug)]
pub struct StepDirectories {
    /// The work tree. Its name is that of the project's work tree, on which some tests depend.
    pub tree: PathBuf,
    pub home: PathBuf,
    pub temporary: PathBuf,
    /// Build results, shared by the two checkouts with the same code.
    pub build: PathBuf,
    /// Changes that gates make to installed packages.
    pub overlays: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct ProofDirectoryRecord {
    path: PathBuf,
    process: ProcessIdentity,
}

impl ProofDirectory {
    pub fn create(home: &RalphHome, env: &Env) -> Result<Self, FileError> {
        remove_abandoned(home);
        let name = format!("{:016x}", clock::nonce());
        let root = base_directory(env).join(&name);
        let record = home.proof_records().join(&name);
        let process = process_identity::identify_process(std::process::id());
        let process = process.unwrap_or(ProcessIdentity { pid: std::process::id(), started: 0 });
        fs::create_private_dir(&home.proof_records())?;
        let content = ProofDirectoryRecord { path: root.clone(), process };
        fs::replace(&record, &fs::encode_json(&record, &content)?, Durability::Cached)?;
        fs::create_private_dir(&root)?;
        if fs::is_owned_by_us(&root) != Some(true) {
            return Err(FileError::refused(&root, "it belongs to another user"));
        }
        Ok(Self { root, record, supports_mounts: OnceLock::new() })
    }

    /// Whether the system lets this user mount checkouts in place of the project.
    pub(crate) fn supports_mounts(&self, cancel: &CancelToken) -> bool {
        let probe = self.root.join("probe");
        *self.supports_mounts.get_or_init(|| private_mounts::are_available(&probe, cancel))
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    fn build_directory(&self, step: ProofStep) -> PathBuf {
        self.root.join(if step.has_new_code() { "build-new" } else { "build-old" })
    }

    /// Removes the build results that steps with the same code share.
    pub(crate) fn remove_build(&self, step: ProofStep) -> Result<(), FileError> {
        fs::remove_own_dir_tree(&self.build_directory(step))
    }

    /// The directories of a step, empty.
    pub fn step(&self, step: ProofStep, name: &Path) -> Result<StepDirectories, FileError> {
        let own = self.root.join(step.name());
        let directories = StepDirectories {
            tree: own.join(name.file_name().unwrap_or("project".as_ref())),
            home: own.join("home"),
            temporary: own.join("tmp"),
            build: self.build_directory(step),
            overlays: own.join("packages"),
        };
        let StepDirectories { home, temporary, overlays, .. } = &directories;
        for empty in [home, temporary, overlays] {
            fs::remove_own_dir_tree(empty)?;
            fs::create_private_dir(empty)?;
        }
        Ok(directories)
    }
}

impl Drop for ProofDirectory {
    fn drop(&mut self) {
        // The record stays if the directory does, so that the next proof tries again.
        if fs::remove_own_dir_tree(&self.root).is_ok() {
            drop(fs::remove_file(&self.record));
        }
    }
}

fn remove_abandoned(home: &RalphHome) {
    let records = fs::list_if_exists(&home.proof_records(), MAX_RECORDS).unwrap_or_default();
    for name in records {
        let file = home.proof_records().join(name);
        let Ok(Some(record)) = fs::read_json::<ProofDirectoryRecord>(&file, MAX_RECORD_BYTES)
        else {
            continue;
        };
        let is_abandoned = process_identity::check_liveness(&record.process) == Liveness::Dead;
        let is_ours = record.path.file_name() == file.file_name();
        if is_abandoned && is_ours && fs::remove_own_dir_tree(&record.path).is_ok() {
            drop(fs::remove_file(&file));
        }
    }
}

/// The first directory for temporary files without a hidden component.
fn base_directory(env: &Env) -> PathBuf {
    let wanted = env.temporary_dir();
    let named = [wanted, PathBuf::from(DEFAULT_BASE)];
    let usable = named.iter().filter(|path| !has_hidden_component(path));
    let found =
        usable.filter_map(|path| fs::resolve(path)).find(|path| !has_hidden_component(path));
    found.unwrap_or_else(|| PathBuf::from("/tmp"))
}

fn has_hidden_component(path: &Path) -> bool {
    let is_hidden = |part: Component<'_>| matches!(part, Component::Normal(name) if name.as_encoded_bytes().starts_with(b"."));
    path.components().any(is_hidden)
}
