//! Removes what was decided to go. A crash at any point leaves something that the next cleaning recognises and removes:
//! a directory is first renamed into the trash, and everything in the trash goes.

use std::path::Path;
use std::time::Duration;

use ralph_core::id::{RunId, SessionId};
use ralph_core::retention::StoredState;
use ralph_git::ralph_refs::RalphRefs;
use ralph_git::worktree::{self, RemovalResult};
use ralph_home::faults::describe_error;
use ralph_home::paths::RalphHome;
use ralph_home::session_pointer;
use ralph_home::store::{self, StoreError};
use ralph_sys::clock::Deadline;
use ralph_sys::fs::{self, FileError, file_slot};

use crate::cleaning_worker::discard;

use super::inventory::{self, CleanTarget, StoredEntry};

const MAX_ENTRIES: usize = 100_000;
/// A run that is locked for longer is in use.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);

/// How far the removal is.
#[derive(Clone, Copy, Debug)]
pub struct RemovalProgress {
    pub done: usize,
    pub total: usize,
    pub bytes: u64,
}

#[derive(Debug, Default)]
pub struct RemovalSummary {
    pub removed: usize,
    pub bytes: u64,
    /// Entries that were left for the next cleaning when the time was over.
    pub postponed: usize,
    pub failed: Vec<RemovalFailure>,
}

#[derive(Debug)]
pub struct RemovalFailure {
    pub name: String,
    pub why: String,
}

/// The caller holds the lock of the cleaning.
pub fn remove_entries(
    home: &RalphHome,
    entries: &[&StoredEntry],
    deadline: &Deadline,
    watch: &mut dyn FnMut(RemovalProgress),
) -> RemovalSummary {
    let mut summary = RemovalSummary::default();
    for (done, entry) in entries.iter().enumerate() {
        if deadline.has_passed() {
            summary.postponed = entries.len() - done;
            break;
        }
        watch(RemovalProgress { done, total: entries.len(), bytes: summary.bytes });
        match remove_target(home, &entry.target, deadline) {
            Ok(()) => {
                summary.removed += 1;
                summary.bytes = summary.bytes.saturating_add(entry.item.bytes);
            }
            Err(why) => {
                summary.failed.push(RemovalFailure { name: entry.target.name(), why });
            }
        }
    }
    fs::remove_empty_dir(&home.trash()).ok();
    summary
}

fn remove_target(
    home: &RalphHome,
    target: &CleanTarget,
    deadline: &Deadline,
) -> Result<(), String> {
    let described = |done: Result<(), FileError>| done.map_err(|error| describe_error(&error));
    match target {
        CleanTarget::Run { id, project, sessions } => {
            let project = project.as_deref();
            remove_run(home, &RunRemoval { id, project, sessions }, deadline)
        }
        CleanTarget::OldCheckout(id) => {
            described(remove_directory(home, &home.run(id).old_checkout()))
        }
        CleanTarget::ProofDirectory(directory) => described(directory.remove()),
        CleanTarget::Worktree(id) => remove_worktree(home, id, deadline),
        CleanTarget::SessionNote(session) => {
            described(fs::remove_file(&home.session_note(session)))
        }
        CleanTarget::CacheEntry(path) => match file_slot::acquire(path, &|| false) {
            Ok(Some(slot)) => described(slot.remove()),
            Ok(None) => Err("a gate is using it".to_string()),
            Err(error) => Err(describe_error(&error)),
        },
        CleanTarget::File(path) => described(fs::remove_file(path)),
        CleanTarget::Directory(path) => described(fs::remove_own_dir_tree(path)),
        CleanTarget::Refs { project, run } => {
            let refs =
                RalphRefs::read(project, deadline).map_err(|error| describe_error(&error))?;
            let deleted = refs.delete(project, run, deadline);
            deleted.map(drop).map_err(|error| describe_error(&error))
        }
        CleanTarget::Nothing(_) => Ok(()),
    }
}

struct RunRemoval<'a> {
    id: &'a RunId,
    project: Option<&'a Path>,
    sessions: &'a [SessionId],
}

/// First the refs, which only the run's directory names; then the directory, at once; then what points to it.
fn remove_run(
    home: &RalphHome,
    removal: &RunRemoval<'_>,
    deadline: &Deadline,
) -> Result<(), String> {
    let RunRemoval { id, project, sessions } = *removal;
    let paths = home.run(id);
    if !fs::exists(paths.directory()) {
        return Ok(());
    }
    let lock = fs::acquire_lock(&paths.lock(), &Deadline::after(LOCK_TIMEOUT));
    let _lock = lock.map_err(|error| describe_error(&error))?;
    // A person may have resumed it while another was asked about it.
    match store::load_run(home, id) {
        Ok(opened) if !id.is_of_session() => {
            if inventory::retention_state(home, &opened) == StoredState::InUse {
                return Err("it is in use now".to_string());
            }
        }
        Ok(_) | Err(StoreError::NoSuchRun(_)) => {}
        Err(error) => return Err(describe_error(&error)),
    }
    if let Some(project) = project.filter(|project| fs::is_directory(project)) {
        let refs = RalphRefs::read(project, deadline).map_err(|error| describe_error(&error))?;
        let deleted = refs.delete(project, id.as_str(), deadline);
        deleted.map_err(|error| describe_error(&error))?;
    }
    let trash = discard(home, paths.directory()).map_err(|error| describe_error(&error))?;
    for session in sessions {
        // Without it the session has no run, which is what the end of the run meant.
        drop(session_pointer::remove_pointer(home, session, id, deadline));
    }
    for path in [home.heartbeat(id), home.tombstone(id.as_str())] {
        fs::remove_file(&path).ok();
    }
    trash
        .map_or(Ok(()), |trash| fs::remove_own_dir_tree(&trash))
        .map_err(|error| describe_error(&error))
}

/// Git checks again that nothing is lost.
fn remove_worktree(home: &RalphHome, id: &RunId, deadline: &Deadline) -> Result<(), String> {
    let opened = store::load_run(home, id).map_err(|error| describe_error(&error))?;
    let Some(worktree) = opened.run.drive.and_then(|drive| drive.worktree) else { return Ok(()) };
    match worktree::remove_worktree(home, &worktree, deadline) {
        Ok(RemovalResult::Removed | RemovalResult::BranchKept) => Ok(()),
        Ok(RemovalResult::Kept { why }) => Err(why),
        Err(error) => Err(describe_error(&error)),
    }
}

fn remove_directory(home: &RalphHome, directory: &Path) -> Result<(), FileError> {
    match discard(home, directory)? {
        Some(trash) => fs::remove_own_dir_tree(&trash),
        None => Ok(()),
    }
}

/// Removes what earlier cleanings discarded. Failures are left to the next one.
pub(super) fn empty_trash(home: &RalphHome) {
    // A link could lead anywhere.
    if !inventory::is_own_directory(&home.trash()) {
        return;
    }
    for name in fs::list_if_exists(&home.trash(), MAX_ENTRIES).unwrap_or_default() {
        fs::remove_own_dir_tree(&home.trash().join(name)).ok();
    }
    fs::remove_empty_dir(&home.trash()).ok();
}
