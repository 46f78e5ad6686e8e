//! Installs ralph into an agent's settings, and removes it again without leaving anything behind.
//!
//! [`install_plan`] computes the changes, and [`file_change::apply_changes`] makes them. [`settings_edit`] is the core:
//! it maps the bytes of a settings file to the bytes with ralph, and back.

pub mod change;
pub mod command;
pub mod commands;
mod document;
pub mod edit;
pub mod foreign;
mod jsonc;
pub mod layers;
pub mod link;
pub mod notes;
pub mod plan;
mod record;
pub mod registration;

use std::path::PathBuf;

pub use jsonc::Fault;

use ralph_policy::config::ConfigError;
use ralph_policy::trust::TrustError;
use ralph_sys::fs::{FileError, LockError};

#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    #[error("cannot determine where the client's settings are")]
    NoHome,
    #[error("cannot edit `{}`", path.display())]
    Damaged {
        path: PathBuf,
        #[source]
        fault: Fault,
    },
    #[error("`{}` is read-only", .0.display())]
    ReadOnly(PathBuf),
    #[error("`{}` is a broken symlink", .0.display())]
    LeadsNowhere(PathBuf),
    #[error("`{}` changed after it was shown", .0.display())]
    Changed(PathBuf),
    #[error("only some of the changes were written")]
    Halfway(#[source] Box<InstallError>),
    #[error(transparent)]
    Program(#[from] command::ProgramError),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Trust(#[from] TrustError),
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(transparent)]
    File(#[from] FileError),
}
