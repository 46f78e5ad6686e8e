//! Installs ralph into an agent's settings, and removes it again without leaving anything behind.
//!
//! [`install_plan`] computes the changes, and [`file_change::apply_changes`] makes them. [`settings_edit`] is the core:
//! it maps the bytes of a settings file to the bytes with ralph, and back.

pub mod file_change;
pub mod foreign_setups;
pub mod install_notes;
pub mod install_plan;
mod install_record;
mod jsonc;
pub mod native_judge;
pub mod program_link;
pub mod program_path;
mod proposed_policy;
pub mod registration;
mod settings_document;
pub mod settings_edit;
pub mod settings_layers;
pub mod slash_commands;

use std::path::PathBuf;

pub use jsonc::SettingsTextError;

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
        fault: SettingsTextError,
    },
    #[error("ralph's record of the files it changed cannot be read")]
    DamagedRecord(#[source] FileError),
    #[error("`{}` was written by another version of ralph", .0.display())]
    OtherRecordVersion(PathBuf),
    #[error("`{}` is read-only", .0.display())]
    ReadOnly(PathBuf),
    #[error("`{}` is a broken symlink", .0.display())]
    BrokenLink(PathBuf),
    #[error("`{}` changed after it was shown", .0.display())]
    Changed(PathBuf),
    #[error("only some of the changes were written")]
    PartlyWritten(#[source] Box<InstallError>),
    #[error(transparent)]
    Program(#[from] program_path::ProgramPathError),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Trust(#[from] TrustError),
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(transparent)]
    File(#[from] FileError),
}
