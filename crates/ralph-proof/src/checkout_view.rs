//! What gates see of a checkout.
//!
//! Where the system allows it, the checkout is mounted in place of the project's work tree, for the gates alone, and the
//! installed packages are copy-on-write views. Then every absolute path works as it does in the project: editable
//! installations, scripts of virtual environments, packages of a workspace, settings. And nothing that a gate writes
//! reaches the project. Elsewhere the gates run in the checkout's own path, with links to the installed packages.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use ralph_core::proof::ProofStep;
use ralph_sys::fs::{self, ConfinedDir};
use ralph_sys::proc::private_mounts::{BindMount, OverlayMount, PrivateMounts};

use crate::installed_packages::{DEPENDENCY_DIRECTORIES, link_packages};
use crate::proof_directory::StepDirectories;
use crate::prove::{ProofError, ProofRequest};

#[derive(Debug)]
pub(crate) struct CheckoutView {
    /// Where the gates find the project.
    pub project: PathBuf,
    /// `None` if they run in the checkout's own path.
    pub mounts: Option<PrivateMounts>,
}

impl CheckoutView {
    /// Prepares a checkout, whose root is `tree`, so that gates find the installed packages in it.
    pub(crate) fn prepare(
        request: &ProofRequest<'_>,
        directories: &StepDirectories,
        tree: &Path,
    ) -> Result<Self, ProofError> {
        let in_tree = tree.join(request.project_below());
        if !is_mounted(request) {
            let names = package_directories(request);
            let names: Vec<&str> = names.iter().filter_map(|name| name.to_str()).collect();
            link_packages(request.repository.root(), tree, &names)?;
            return Ok(Self { project: in_tree, mounts: None });
        }
        let root = request.repository.root();
        let mut mounts = PrivateMounts::default();
        for (number, name) in shared_directories(request).into_iter().enumerate() {
            let Some(original) = fs::resolve(&root.join(&name)) else { continue };
            let inside = ConfinedDir::open(tree)?;
            // What the checkout contains itself stays.
            if fs::is_directory(&original) && inside.stat(&name)?.is_none() {
                inside.create_dir(&name)?;
                let changes = directories.overlays.join(number.to_string());
                fs::create_private_dir(&changes)?;
                mounts.overlays.push(OverlayMount { original, changes, at: tree.join(name) });
            }
        }
        mounts.binds.push(BindMount { source: tree.to_owned(), at: root.to_owned() });
        Ok(Self { project: request.project.to_owned(), mounts: Some(mounts) })
    }
}

/// Mounts with which gates run in the project as it is, while nothing that they write reaches it. `None` where the system
/// does not allow them.
pub fn project_mounts(request: &ProofRequest<'_>) -> Result<Option<PrivateMounts>, ProofError> {
    if !is_mounted(request) {
        return Ok(None);
    }
    let root = request.repository.root();
    let directories = request.directory.step(ProofStep::Before, root)?;
    let overlay = OverlayMount {
        original: root.to_owned(),
        changes: directories.overlays,
        at: root.to_owned(),
    };
    Ok(Some(PrivateMounts { overlays: vec![overlay], binds: Vec::new() }))
}

/// Whether checkouts are mounted in place of the work tree. What the gates need outside of it must stay visible.
pub(crate) fn is_mounted(request: &ProofRequest<'_>) -> bool {
    let root = request.repository.root();
    let home = request.env.home();
    let mut needed = [request.directory.root(), request.home.root()]
        .into_iter()
        .chain(home.as_deref())
        .map(|path| fs::resolve(path).unwrap_or_else(|| path.to_owned()));
    // The protocol with the process that mounts has no room for other names.
    let is_text = root.to_str().is_some() && request.directory.root().to_str().is_some();
    let is_apart = !needed.any(|path| path.starts_with(root));
    is_text && is_apart && request.directory.supports_mounts(request.cancel)
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
