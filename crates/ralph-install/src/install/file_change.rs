//! Changes to files of other programs: shown first, then made together, and recorded so that they can be undone.

use std::path::{Path, PathBuf};
use std::time::Duration;

use imara_diff::{Algorithm, BasicLineDiffPrinter, Diff, InternedInput, UnifiedDiffConfig};

use super::InstallError;
use super::install_record::{self, InstallRecord};
use super::settings_layers::MAX_SETTINGS_BYTES;
use ralph_home::paths::RalphHome;
use ralph_sys::clock::Deadline;
use ralph_sys::fs;

const INSTALL_LOCK_TIMEOUT: Duration = Duration::from_secs(10);
const OWNER_WRITE_MODE: u32 = 0o200;

/// The current and the new content of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstallChange {
    pub path: PathBuf,
    pub current_content: Option<Vec<u8>>,
    pub new_content: Option<Vec<u8>>,
    pub(super) memory: RecordUpdate,
}

/// How the change affects the installation record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RecordUpdate {
    Keep {
        record: Box<InstallRecord>,
        before: Option<Vec<u8>>,
    },
    /// The change undoes an installation; directories that it created are removed if empty.
    Forget {
        made_directories: usize,
    },
}

impl InstallChange {
    /// Refuses a read-only file before the person is asked.
    pub(super) fn checked(self) -> Result<Self, InstallError> {
        if self.is_visible() && is_read_only(&self.path) {
            Err(InstallError::ReadOnly(self.path))
        } else {
            Ok(self)
        }
    }

    /// Whether the file itself changes, and not only the record.
    pub fn is_visible(&self) -> bool {
        self.current_content != self.new_content
    }

    /// A unified diff. It contains foreign text: clean it before printing it to a terminal.
    pub fn diff(&self) -> String {
        unified_diff(&self.path, self.current_content.as_deref(), self.new_content.as_deref())
    }
}

/// A unified diff of two contents of a file. It contains foreign text: clean it before printing it to a terminal.
pub fn unified_diff(path: &Path, now: Option<&[u8]>, then: Option<&[u8]>) -> String {
    let text =
        |bytes: Option<&[u8]>| String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned();
    let (old, new) = (text(now), text(then));
    let input = InternedInput::new(&*old, &*new);
    let diff = Diff::compute(Algorithm::Histogram, &input);
    let printer = BasicLineDiffPrinter(&input.interner);
    let hunks = diff.unified_diff(&printer, UnifiedDiffConfig::default(), &input);
    let name = |bytes: Option<&[u8]>| match bytes {
        Some(_) => path.display().to_string(),
        None => "/dev/null".to_string(),
    };
    format!("--- {}\n+++ {}\n{hunks}", name(now), name(then))
}

/// The current content of a file to change; `None` if it does not exist.
pub(super) fn read_current(path: &Path) -> Result<Option<Vec<u8>>, InstallError> {
    let content = fs::read_if_exists(path, MAX_SETTINGS_BYTES)?;
    if content.is_none() && fs::stat_no_follow(path).is_some() {
        return Err(InstallError::BrokenLink(path.to_path_buf()));
    }
    Ok(content)
}

/// A read-only file is respected even where ralph could replace it.
fn is_read_only(path: &Path) -> bool {
    fs::stat(path).is_some_and(|stat| stat.mode & OWNER_WRITE_MODE == 0)
}

/// The number of parent directories that do not exist yet.
pub(super) fn missing_directories(path: &Path) -> usize {
    path.ancestors().skip(1).take_while(|directory| !fs::exists(directory)).count()
}

/// Makes all changes, if every file still has the content that was shown.
pub fn apply_changes(home: &RalphHome, changes: &[InstallChange]) -> Result<(), InstallError> {
    if changes.is_empty() {
        return Ok(());
    }
    fs::create_private_dir(&home.install_records())?;
    let _lock = fs::acquire_lock(
        &home.install_records().join("lock"),
        &Deadline::after(INSTALL_LOCK_TIMEOUT),
    )?;
    for change in changes {
        if read_current(&change.path)? != change.current_content {
            return Err(InstallError::Changed(change.path.clone()));
        }
    }
    for (n, change) in changes.iter().enumerate() {
        apply_change(home, change).map_err(|error| match n {
            0 => error,
            _ => InstallError::PartlyWritten(Box::new(error)),
        })?;
    }
    Ok(())
}

fn apply_change(home: &RalphHome, change: &InstallChange) -> Result<(), InstallError> {
    match &change.memory {
        RecordUpdate::Keep { record, before } => {
            install_record::save_record(home, &change.path, record, before.as_deref())?;
            write_file_change(change)
        }
        RecordUpdate::Forget { made_directories } => {
            write_file_change(change)?;
            for directory in change.path.ancestors().skip(1).take(*made_directories) {
                fs::remove_empty_dir(directory)?;
            }
            Ok(install_record::remove_record(home, &change.path)?)
        }
    }
}

fn write_file_change(change: &InstallChange) -> Result<(), InstallError> {
    let path = &change.path;
    match (&change.current_content, &change.new_content) {
        _ if !change.is_visible() => Ok(()),
        (Some(_), Some(bytes)) => Ok(fs::replace_user_file(path, bytes)?),
        (_, None) => Ok(fs::remove_file(path)?),
        (None, Some(bytes)) => {
            if let Some(directory) = path.parent() {
                fs::create_user_dir(directory)?;
            }
            if fs::create_new_user_file(path, bytes)? {
                Ok(())
            } else {
                Err(InstallError::Changed(path.clone()))
            }
        }
    }
}
