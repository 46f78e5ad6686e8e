//! What gates see of a checkout.
//!
//! Where the system allows it, the checkout is mounted in place of the project's work tree, for the gates alone, and the
//! installed packages are copy-on-write views. Then every absolute path works as it does in the project: editable
//! installations, scripts of virtual environments, packages of a workspace, settings. Nothing that a gate writes
//! reaches the project. Environments outside of the work tree are
//! copy-on-write views too. Elsewhere the gates run in the checkout's own path,
//! with a copy of the installed packages.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use ralph_core::gate::Gate;
use ralph_core::proof::ProofStep;
use ralph_home::paths::RalphHome;
use ralph_sys::env::Env;
use ralph_sys::fs::{self, ConfinedDir};
use ralph_sys::proc::cancel::CancelToken;
use ralph_sys::proc::private_mounts::{self, BindMount, OverlayMount, PrivateMounts};

use crate::environment_roots::{EnvironmentRoot, environment_roots};
use crate::installed_packages::{CopyLimits, DEPENDENCY_DIRECTORIES, PackageCopy, copy_packages};
use crate::proof_directory::{ProofDirectory, StepDirectories};
use crate::prove::{ProofError, ProofRequest};

/// Why no gate can run in a checkout of a run that began where checkouts could be mounted.
const MOUNTS_LOST: &str = "checkouts cannot be mounted here, but could be when the run began: continue where it was started, or start a new run";

#[derive(Debug)]
pub(crate) struct CheckoutView {
    /// Where the gates find the project.
    pub project: PathBuf,
    /// `None` if they run in the checkout's own path.
    pub mounts: Option<PrivateMounts>,
    /// Installed packages that gates can change.
    pub unprotected: Vec<EnvironmentRoot>,
    /// Why no gate can run in it.
    pub refusal: Option<String>,
}

impl CheckoutView {
    /// Prepares a checkout, whose root is `tree`, so that gates find the installed packages in it.
    pub(crate) fn prepare(
        request: &ProofRequest<'_>,
        directories: &StepDirectories,
        tree: &Path,
    ) -> Result<Self, ProofError> {
        let root = request.repository.root();
        if !is_mounted(request) {
            if request.must_mount {
                return Ok(Self::refused(request, tree));
            }
            let limits = CopyLimits::PACKAGES;
            let copied = copy_packages(root, tree, &package_directories(request), limits)?;
            return Ok(Self {
                project: tree.join(request.project_below()),
                mounts: None,
                // Programs that know the absolute path of the project still find the originals.
                unprotected: all_environments(request),
                refusal: match copied {
                    PackageCopy::Complete => None,
                    PackageCopy::TooLarge(name) => Some(describe_refusal(&name)),
                },
            });
        }
        let mut mounts = PrivateMounts::default();
        for name in shared_directories(request) {
            let Some(original) = fs::resolve(&root.join(&name)) else { continue };
            let inside = ConfinedDir::open(tree)?;
            // What the checkout contains itself stays.
            if fs::is_directory(&original) && inside.stat(&name)?.is_none() {
                inside.create_dir(&name)?;
                add_overlay(&mut mounts, directories, original, tree.join(name))?;
            }
        }
        let unprotected = overlay_outside(request, directories, &mut mounts)?;
        mounts.binds.push(BindMount { source: tree.to_owned(), at: root.to_owned() });
        let (project, mounts) = (request.project.to_owned(), Some(mounts));
        Ok(Self { project, mounts, unprotected, refusal: None })
    }

    /// Programs that name files of the project by absolute path would read those of the work tree.
    fn refused(request: &ProofRequest<'_>, tree: &Path) -> Self {
        Self {
            project: tree.join(request.project_below()),
            mounts: None,
            unprotected: Vec::new(),
            refusal: Some(MOUNTS_LOST.to_string()),
        }
    }
}

fn describe_refusal(name: &Path) -> String {
    let CopyLimits { files, bytes } = CopyLimits::PACKAGES;
    format!(
        "`{}` is too large to be copied into a checkout: more than {files} files or {} GiB",
        name.display(),
        bytes / (1024 * 1024 * 1024)
    )
}

fn add_overlay(
    mounts: &mut PrivateMounts,
    directories: &StepDirectories,
    original: PathBuf,
    at: PathBuf,
) -> Result<(), ProofError> {
    let changes = directories.overlays.join(mounts.overlays.len().to_string());
    fs::create_private_dir(&changes)?;
    mounts.overlays.push(OverlayMount { original, changes, at });
    Ok(())
}

pub(crate) fn all_environments(request: &ProofRequest<'_>) -> Vec<EnvironmentRoot> {
    let gates: Vec<Gate> = request.gates.iter().map(|gate| (*gate).clone()).collect();
    environment_roots(request.project, request.links, &gates, request.env, request.path)
}

/// Adds views of the environments outside of the work tree, and returns those that cannot have one.
fn overlay_outside(
    request: &ProofRequest<'_>,
    directories: &StepDirectories,
    mounts: &mut PrivateMounts,
) -> Result<Vec<EnvironmentRoot>, ProofError> {
    let root = request.repository.root();
    let needed = [root, request.directory.root(), request.home.root()].map(resolve_or_keep);
    let mut unprotected = Vec::new();
    for environment in all_environments(request) {
        let original = resolve_or_keep(&environment.path);
        if original.starts_with(&needed[0]) {
            continue;
        }
        let is_apart = !needed.iter().any(|path| path.starts_with(&original));
        if is_apart && private_mounts::can_mount_path(&original) {
            add_overlay(mounts, directories, original.clone(), original)?;
        } else {
            unprotected.push(environment);
        }
    }
    Ok(unprotected)
}

fn resolve_or_keep(path: &Path) -> PathBuf {
    fs::resolve(path).unwrap_or_else(|| path.to_owned())
}

/// Mounts with which gates run in the project as it is, while nothing that they write reaches it. `None` where the system
/// does not allow them.
pub fn project_mounts(request: &ProofRequest<'_>) -> Result<Option<PrivateMounts>, ProofError> {
    let root = request.repository.root();
    if !is_mounted(request) || !private_mounts::can_mount_path(root) {
        return Ok(None);
    }
    let directories = request.directory.step(ProofStep::Before, root)?;
    let mut mounts = PrivateMounts::default();
    add_overlay(&mut mounts, &directories, root.to_owned(), root.to_owned())?;
    overlay_outside(request, &directories, &mut mounts)?;
    Ok(Some(mounts))
}

/// Whether checkouts are mounted in place of the work tree.
pub(crate) fn is_mounted(request: &ProofRequest<'_>) -> bool {
    let ProofRequest { home, env, directory, .. } = *request;
    can_mount_over(request.repository.root(), home, env, directory)
}

/// Whether checkouts can be mounted in place of this work tree. A run that begins where they can uses only such checkouts.
pub fn can_mount_checkouts(root: &Path, home: &RalphHome, env: &Env, cancel: &CancelToken) -> bool {
    let directory = ProofDirectory::create(home, env, root, cancel);
    directory.is_ok_and(|directory| can_mount_over(root, home, env, &directory))
}

/// What the gates need outside of the work tree must stay visible.
fn can_mount_over(root: &Path, home: &RalphHome, env: &Env, directory: &ProofDirectory) -> bool {
    let own_home = env.home();
    let mut needed =
        [directory.root(), home.root()].into_iter().chain(own_home.as_deref()).map(resolve_or_keep);
    let is_apart = !needed.any(|path| path.starts_with(root));
    private_mounts::can_mount_path(root) && is_apart && directory.supports_mounts()
}

/// The directories of the work tree that are not in a checkout but that gates need, relative to it: installed packages,
/// and those that the search path or the policy's variables name.
fn shared_directories(request: &ProofRequest<'_>) -> Vec<PathBuf> {
    let root = request.repository.root();
    let mut found = package_directories(request);
    let search_path = request.path.map(OsStr::to_owned).or_else(|| request.env.search_path());
    let mut searched: Vec<PathBuf> = search_path.iter().flat_map(std::env::split_paths).collect();
    for (_, value) in &request.environment.set {
        searched.extend(std::env::split_paths(value));
    }
    let below_root = searched.iter().filter_map(|path| path.strip_prefix(root).ok());
    for path in below_root.filter(|path| !path.as_os_str().is_empty()) {
        if !found.iter().any(|known| path.starts_with(known)) {
            found.push(path.to_owned());
        }
    }
    found
}

/// The directories with installed packages, relative to the work tree.
fn package_directories(request: &ProofRequest<'_>) -> Vec<PathBuf> {
    let (root, below) = (request.repository.root(), request.project_below());
    let mut found: Vec<PathBuf> = request.links.iter().map(|name| below.join(name)).collect();
    // Runners look for packages beside their working directory, and above it.
    let directories = request.gates.iter().map(|gate| below.join(&gate.cwd));
    for directory in directories.chain([below.clone()]) {
        for above in directory.ancestors() {
            found.extend(DEPENDENCY_DIRECTORIES.iter().map(|name| above.join(name)));
        }
    }
    found.sort();
    found.dedup();
    found.retain(|path| fs::is_directory(&root.join(path)));
    found
}
