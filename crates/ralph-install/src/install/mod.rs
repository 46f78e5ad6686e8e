//! Puts ralph into an agent's settings, and takes it out again without a trace.
//!
//! [`plan`] says what would change, [`change::apply`] does it. [`edit`] is the heart: bytes to bytes, and back.

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
    #[error("it is not known where the settings are")]
    NoHome,
    #[error("cannot edit `{}`", path.display())]
    Damaged {
        path: PathBuf,
        #[source]
        fault: Fault,
    },
    #[error("`{}` is read-only", .0.display())]
    ReadOnly(PathBuf),
    #[error("`{}` is a link that leads nowhere", .0.display())]
    LeadsNowhere(PathBuf),
    #[error("`{}` was changed while you read", .0.display())]
    Changed(PathBuf),
    #[error("only a part was written")]
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
