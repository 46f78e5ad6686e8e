//! The private directory of one proof: one checkout per step, each with a home and a temporary directory of its own.
//!
//! Its path has no hidden component, because some programs treat files below one differently, and its name cannot be
//! predicted. It is outside the work tree, of which checkouts are no part. It is removed when the proof ends; what a
//! killed process left behind is removed by the next proof.

use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};

use ralph_core::proof::ProofStep;
use ralph_core::record::ProcessIdentity;
use ralph_git::git;
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
const LAST_BASE: &str = "/tmp";
const NAME_DIGITS: usize = 16;
const MAX_RECORDS: usize = 10_000;
const MAX_RECORD_BYTES: usize = 64 * 1024;

#[derive(Debug)]
pub struct ProofDirectory {
    root: PathBuf,
    record: PathBuf,
    supports_mounts: bool,
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
    /// `project` is where the checkouts must not be: they would be part of the work tree.
    pub fn create(
        home: &RalphHome,
        env: &Env,
        project: &Path,
        cancel: &CancelToken,
    ) -> Result<Self, FileError> {
        Self::create_where(home, env, project, &|probe| {
            private_mounts::are_available(probe, cancel)
        })
    }

    /// Takes the first directory for temporary files in which mounts work, so that no `TMPDIR` keeps checkouts from being
    /// mounted. If they work in none, the first.
    fn create_where(
        home: &RalphHome,
        env: &Env,
        project: &Path,
        has_mounts: &dyn Fn(&Path) -> bool,
    ) -> Result<Self, FileError> {
        remove_abandoned(home);
        let work_tree = git::work_tree_root(project).unwrap_or(project);
        let mut first = None;
        for base in base_directories(env, work_tree) {
            let created = Self::create_in(home, &base, has_mounts);
            if created.as_ref().is_ok_and(|directory| directory.supports_mounts) {
                return created;
            }
            first.get_or_insert(created);
        }
        let why = "no directory for temporary files is outside the project; set `TMPDIR`";
        first.unwrap_or_else(|| Err(FileError::refused(work_tree, why)))
    }

    fn create_in(
        home: &RalphHome,
        base: &Path,
        has_mounts: &dyn Fn(&Path) -> bool,
    ) -> Result<Self, FileError> {
        let name = format!("{:016x}", clock::nonce());
        let root = base.join(&name);
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
        let supports_mounts =
            private_mounts::can_mount_path(&root) && has_mounts(&root.join("probe"));
        Ok(Self { root, record, supports_mounts })
    }

    /// Whether the system lets this user mount checkouts in place of the project.
    pub(crate) fn supports_mounts(&self) -> bool {
        self.supports_mounts
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

/// The directory of a proof that is running, or whose process was killed.
#[derive(Clone, Debug)]
pub struct ListedProofDirectory {
    pub path: PathBuf,
    pub is_abandoned: bool,
    record: PathBuf,
}

impl ListedProofDirectory {
    /// The record stays if the directory does, so that the next attempt finds it.
    pub fn remove(&self) -> Result<(), FileError> {
        fs::remove_own_dir_tree(&self.path)?;
        fs::remove_file(&self.record)
    }
}

/// Every directory of a proof that a record names. A record that ralph did not write is left out: it could name any
/// directory.
pub fn list_recorded_directories(home: &RalphHome) -> Vec<ListedProofDirectory> {
    let names = fs::list_if_exists(&home.proof_records(), MAX_RECORDS).unwrap_or_default();
    let read = |name: &OsString| {
        let record = home.proof_records().join(name);
        let content: ProofDirectoryRecord =
            fs::read_json(&record, MAX_RECORD_BYTES).ok().flatten()?;
        let is_ours = is_directory_name(name)
            && content.path.is_absolute()
            && content.path.file_name() == Some(name)
            && fs::is_owned_by_us(&content.path) != Some(false);
        let is_abandoned = process_identity::check_liveness(&content.process) == Liveness::Dead;
        is_ours.then_some(ListedProofDirectory { path: content.path, is_abandoned, record })
    };
    names.iter().filter_map(read).collect()
}

/// Names are random, so that no directory of a person has one.
fn is_directory_name(name: &OsStr) -> bool {
    let is_digit = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
    name.len() == NAME_DIGITS && name.as_encoded_bytes().iter().all(is_digit)
}

fn remove_abandoned(home: &RalphHome) {
    for directory in list_recorded_directories(home).iter().filter(|one| one.is_abandoned) {
        drop(directory.remove());
    }
}

/// The directories for temporary files outside the work tree and without a hidden component.
fn base_directories(env: &Env, work_tree: &Path) -> Vec<PathBuf> {
    let work_tree = fs::resolve(work_tree).unwrap_or_else(|| work_tree.to_owned());
    let named = [env.temporary_dir(), PathBuf::from(DEFAULT_BASE), PathBuf::from(LAST_BASE)];
    let is_usable = |path: &PathBuf| !has_hidden_component(path) && !path.starts_with(&work_tree);
    let mut found: Vec<PathBuf> = Vec::new();
    for path in named.iter().filter(|path| is_usable(path)).filter_map(|path| fs::resolve(path)) {
        if is_usable(&path) && !found.contains(&path) {
            found.push(path);
        }
    }
    found
}

fn has_hidden_component(path: &Path) -> bool {
    let is_hidden = |part: Component<'_>| matches!(part, Component::Normal(name) if name.as_encoded_bytes().starts_with(b"."));
    path.components().any(is_hidden)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::{MetadataExt, symlink};

    /// R-V1g: a checkout has a plain path, outside the work tree, which only its owner can enter.
    #[test]
    fn checkouts_are_private_and_outside_the_work_tree() {
        let directory = tempfile::Builder::new().prefix("plain").tempdir_in("/tmp").unwrap();
        let root = fs::resolve(directory.path()).unwrap();
        let work_tree = root.join("work");
        for path in ["work/.git/HEAD", "work/project/tmp", "work/tmp", "temporary", ".hidden/tmp"] {
            std::fs::create_dir_all(root.join(path)).unwrap();
        }
        symlink(root.join("work/tmp"), root.join("link")).unwrap();
        symlink(root.join(".hidden/tmp"), root.join("plain")).unwrap();
        let home = RalphHome::new(root.join("home"));
        for (temporary, expected) in [
            ("temporary", Some("temporary")),
            ("work/project/tmp", None),
            ("work/tmp", None),
            ("work", None),
            ("link", None),
            (".hidden/tmp", None),
            ("plain", None),
            ("missing", None),
        ] {
            let value = root.join(temporary);
            let pairs = [("TMPDIR", value.to_str().unwrap())];
            let env = Env::from_pairs(pairs, None, Vec::new());
            let project = work_tree.join("project");
            let created = ProofDirectory::create_where(&home, &env, &project, &|_| true).unwrap();
            let expected = expected.map_or_else(
                || fs::resolve(Path::new(DEFAULT_BASE)).unwrap(),
                |path| root.join(path),
            );
            assert_eq!(created.root().parent(), Some(&*expected), "{temporary}");
            let mode = std::fs::metadata(created.root()).unwrap().mode();
            assert_eq!(mode & 0o777, 0o700, "{temporary}");
            let step = created.step(ProofStep::Now, &work_tree).unwrap();
            for path in [&step.tree, &step.home, &step.temporary, &step.build, &step.overlays] {
                assert!(!has_hidden_component(path), "{}", path.display());
                assert!(path.starts_with(created.root()), "{}", path.display());
            }
        }
    }

    /// A `TMPDIR` in which nothing can be mounted is used only if that is so everywhere.
    #[test]
    fn checkouts_are_where_they_can_be_mounted() {
        let directory = tempfile::Builder::new().prefix("plain").tempdir_in("/tmp").unwrap();
        let root = fs::resolve(directory.path()).unwrap();
        let home = RalphHome::new(root.join("home"));
        let own = root.join("own");
        fs::create_private_dir(&own).unwrap();
        let env = Env::from_pairs([("TMPDIR", &own)], None, Vec::new());
        let default = fs::resolve(Path::new(DEFAULT_BASE)).unwrap();
        for (is_own_usable, is_default_usable, expected) in
            [(true, true, &own), (false, true, &default), (false, false, &own)]
        {
            let has_mounts = |probe: &Path| {
                if probe.starts_with(&own) {
                    is_own_usable
                } else {
                    is_default_usable && probe.starts_with(&default)
                }
            };
            let created =
                ProofDirectory::create_where(&home, &env, &root.join("work"), &has_mounts).unwrap();
            assert_eq!(created.root().parent(), Some(&**expected));
            assert_eq!(created.supports_mounts(), is_own_usable || is_default_usable);
            let kept: Vec<PathBuf> =
                list_recorded_directories(&home).into_iter().map(|one| one.path).collect();
            assert_eq!(kept, [created.root()]);
        }
        let no_text = root.join(OsStr::from_bytes(b"a\xffb"));
        fs::create_private_dir(&no_text).unwrap();
        let env = Env::from_pairs([("TMPDIR", &no_text)], None, Vec::new());
        let created = ProofDirectory::create_where(&home, &env, &root.join("work"), &|_| true);
        assert_eq!(created.unwrap().root().parent(), Some(&*default));
    }

    /// A record with a name or a path that ralph would not choose cannot make it remove anything.
    #[test]
    fn only_directories_with_a_random_name_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let home = RalphHome::new(directory.path().join("home"));
        std::fs::create_dir_all(home.proof_records()).unwrap();
        let dead = ProcessIdentity { pid: u32::MAX, started: 1 };
        for (record, path, is_removed) in [
            ("Documents", "Documents", false),
            ("0123456789abcde", "0123456789abcde", false),
            ("0123456789abcdeF", "0123456789abcdeF", false),
            ("0123456789abcdef", "other", false),
            ("fedcba9876543210", "fedcba9876543210", true),
        ] {
            let path = directory.path().join(path);
            std::fs::create_dir_all(&path).unwrap();
            let content = ProofDirectoryRecord { path: path.clone(), process: dead };
            let record = home.proof_records().join(record);
            let bytes = fs::encode_json(&record, &content).unwrap();
            fs::replace(&record, &bytes, Durability::Cached).unwrap();
            remove_abandoned(&home);
            assert_eq!((!path.exists(), !record.exists()), (is_removed, is_removed), "{path:?}");
        }
    }

    /// Nothing is outside the root directory.
    #[test]
    fn a_project_that_contains_everything_has_no_checkouts() {
        let env = Env::from_pairs([("TMPDIR", "/tmp")], None, Vec::new());
        assert_eq!(base_directories(&env, Path::new("/")), Vec::<PathBuf>::new());
    }
}
