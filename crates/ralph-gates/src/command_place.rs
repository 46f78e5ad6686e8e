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
    /// The checkout that the directory is part of.
    pub checkout: Option<&'a dyn CommandCheckout>,
}

/// A checkout in which commands run.
pub trait CommandCheckout: fmt::Debug + Sync {
    /// Where this command runs. `cwd` is its directory, relative to the project.
    fn place_command(&self, words: &[String], cwd: &str) -> CommandPlace<'_>;

    /// How installed packages have changed since the checkout was made, as the reason why an answer from there does not
    /// count.
    fn describe_package_change(&self) -> Option<String>;
}

impl<'a> CommandPlace<'a> {
    /// See [`CommandCheckout::describe_package_change`].
    pub fn describe_package_change(&self) -> Option<String> {
        self.checkout?.describe_package_change()
    }

    /// A directory as it is, with whatever anyone wrote there.
    pub fn in_directory(directory: impl Into<PathBuf>, environment: &'a GateEnvironment) -> Self {
        Self {
            directory: directory.into(),
            mounts: None,
            environment,
            refusal: None,
            checkout: None,
        }
    }
}
