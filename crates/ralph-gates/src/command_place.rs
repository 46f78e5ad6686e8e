//! Where a command runs that measures the work of an agent without being part of it: that of a judge, or one that asks CI.

use std::fmt;
use std::path::PathBuf;

use ralph_core::policy::GateEnvironment;
use ralph_sys::proc::private_mounts::PrivateMounts;

#[derive(Clone, Debug)]
pub struct CommandPlace<'a> {
    pub directory: PathBuf,
    /// Directories that the command sees in place of others.
    pub mounts: Option<&'a PrivateMounts>,
    pub environment: &'a GateEnvironment,
    /// Why the command cannot run there.
    pub refusal: Option<String>,
}

/// A checkout in which commands run.
pub trait CommandCheckout: fmt::Debug + Sync {
    /// Where this command runs. `cwd` is its directory, relative to the project.
    fn place_command(&self, words: &[String], cwd: &str) -> CommandPlace<'_>;
}

impl<'a> CommandPlace<'a> {
    /// A directory as it is, with whatever anyone wrote there.
    pub fn in_directory(directory: impl Into<PathBuf>, environment: &'a GateEnvironment) -> Self {
        Self { directory: directory.into(), mounts: None, environment, refusal: None }
    }
}
