//! Changes to files of other programs: shown first, then made together, and recorded so that they can be undone.

use std::path::{Path, PathBuf};
use std::time::Duration;

use imara_diff::{Algorithm, BasicLineDiffPrinter, Diff, InternedInput, UnifiedDiffConfig};

use super::InstallError;
use super::layers::LARGEST;
use super::record::{self, Record};
use ralph_home::paths::Home;
use ralph_sys::clock::Deadline;
use ralph_sys::fs::{self, Kind};

const PATIENCE: Duration = Duration::from_secs(10);
const OWNER_WRITES: u32 = 0o200;

/// The current and the new content of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub path: PathBuf,
    pub now: Option<Vec<u8>>,
    pub then: Option<Vec<u8>>,
    pub(super) memory: Memory,
}

/// How the change affects the installation record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Memory {
    Keep {
        record: Box<Record>,
        before: Option<Vec<u8>>,
    },
    /// The change undoes an installation; directories that it created are removed if empty.
    Forget {
        made_directories: usize,
    },
}

impl Change {
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
        self.now != self.then
    }

    /// A unified diff. It contains foreign text: clean it before printing it to a terminal.
    pub fn diff(&self) -> String {
        let text = |bytes: &Option<Vec<u8>>| {
            String::from_utf8_lossy(bytes.as_deref().unwrap_or_default()).into_owned()
        };
        let (now, then) = (text(&self.now), text(&self.then));
        let input = InternedInput::new(&*now, &*then);
        let diff = Diff::compute(Algorithm::Histogram, &input);
        let printer = BasicLineDiffPrinter(&input.interner);
        let hunks = diff.unified_diff(&printer, UnifiedDiffConfig::default(), &input);
        let name = |bytes: &Option<Vec<u8>>| match bytes {
            Some(_) => self.path.display().to_string(),
            None => "/dev/null".to_string(),
        };
        format!("--- {}\n+++ {}\n{hunks}", name(&self.now), name(&self.then))
    }
}

/// The current content of a file to change; `None` if it does not exist.
pub(super) fn look(path: &Path) -> Result<Option<Vec<u8>>, InstallError> {
    let Some(link) = fs::stat_link(path) else { return Ok(None) };
    if link.kind == Kind::Symlink && fs::stat(path).is_none() {
        return Err(InstallError::LeadsNowhere(path.to_path_buf()));
    }
    Ok(Some(fs::read(path, LARGEST)?))
}

/// A read-only file is respected even where ralph could replace it.
fn is_read_only(path: &Path) -> bool {
    fs::stat(path).is_some_and(|stat| stat.mode & OWNER_WRITES == 0)
}

/// The number of parent directories that do not exist yet.
pub(super) fn missing_directories(path: &Path) -> usize {
    path.ancestors().skip(1).take_while(|directory| !fs::exists(directory)).count()
}

/// Makes all changes, if every file still has the content that was shown.
pub fn apply(home: &Home, changes: &[Change]) -> Result<(), InstallError> {
    if changes.is_empty() {
        return Ok(());
    }
    fs::create_dir(&home.install())?;
    let _lock = fs::lock(&home.install().join("lock"), &Deadline::after(PATIENCE))?;
    for change in changes {
        if look(&change.path)? != change.now {
            return Err(InstallError::Changed(change.path.clone()));
        }
    }
    for (n, change) in changes.iter().enumerate() {
        make(home, change).map_err(|error| match n {
            0 => error,
            _ => InstallError::Halfway(Box::new(error)),
        })?;
    }
    Ok(())
}

fn make(home: &Home, change: &Change) -> Result<(), InstallError> {
    match &change.memory {
        Memory::Keep { record, before } => {
            record::keep(home, &change.path, record, before.as_deref())?;
            write(change)
        }
        Memory::Forget { made_directories } => {
            write(change)?;
            for directory in change.path.ancestors().skip(1).take(*made_directories) {
                fs::remove_empty_dir(directory)?;
            }
            Ok(record::forget(home, &change.path)?)
        }
    }
}

fn write(change: &Change) -> Result<(), InstallError> {
    let path = &change.path;
    match (&change.now, &change.then) {
        _ if !change.is_visible() => Ok(()),
        (Some(_), Some(bytes)) => Ok(fs::replace_keeping_mode(path, bytes)?),
        (_, None) => Ok(fs::remove_file(path)?),
        (None, Some(bytes)) => {
            if let Some(directory) = path.parent() {
                fs::create_dir_ordinary(directory)?;
            }
            if fs::create_new_ordinary(path, bytes)? {
                Ok(())
            } else {
                Err(InstallError::Changed(path.clone()))
            }
        }
    }
}
