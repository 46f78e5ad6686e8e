//! Directories that a job sees in place of others. Nothing it writes there reaches the originals.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::cancel::CancelToken;
use super::job::{JobEnd, JobSpec, run_job};
use crate::clock::Deadline;
use crate::env;

const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// Mounts that exist for one job and its processes, in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrivateMounts {
    pub overlays: Vec<OverlayMount>,
    pub binds: Vec<BindMount>,
}

/// A view of a directory in which changes are kept elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OverlayMount {
    pub original: PathBuf,
    /// A private directory for the changes, on a file system that can hold the upper layer of an overlay.
    pub changes: PathBuf,
    /// An existing directory.
    pub at: PathBuf,
}

/// A directory at another path, with everything that is mounted below it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BindMount {
    pub source: PathBuf,
    pub at: PathBuf,
}

/// Whether a directory with this path can be part of a mount. The protocol with the process that mounts has no room for
/// other names.
pub fn can_mount_path(path: &Path) -> bool {
    path.to_str().is_some()
}

/// Whether the system lets this user mount directories privately. `scratch` is an empty private directory.
pub fn are_available(scratch: &Path, cancel: &CancelToken) -> bool {
    let [original, changes, at] = ["original", "changes", "at"].map(|name| scratch.join(name));
    if ![&original, &changes, &at].iter().all(|path| crate::fs::create_private_dir(path).is_ok()) {
        return false;
    }
    let mounts = PrivateMounts {
        overlays: vec![OverlayMount { original, changes, at: at.clone() }],
        binds: vec![BindMount { source: at.clone(), at }],
    };
    let finished = run_job(&JobSpec {
        program: &env::own_executable(),
        argv: &["/bin/sh", "-c", ":"].map(Into::into),
        mounts: Some(&mounts),
        deadline: Deadline::after(PROBE_TIMEOUT),
        ..JobSpec::with_defaults(cancel)
    });
    matches!(finished.end, JobEnd::Exited(0))
}
