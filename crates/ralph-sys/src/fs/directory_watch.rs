//! Waits until an entry of a set of directories changes.
//!
//! The set may change while another thread waits. Where the system reports no changes, or refuses to watch one of the
//! directories, the wait ends every second, as if something had changed.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::os;
use crate::proc::cancel::CancelToken;
use crate::proc::wait::wait_readable;

/// How often the wait ends if changes cannot be reported.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// A wait has a limit like every other; when it has passed, the wait begins again.
const WAIT_LIMIT: Duration = Duration::from_hours(1);

/// What ended a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchOutcome {
    /// Something changed, or may have.
    Changed,
    Cancelled,
}

#[derive(Debug)]
pub struct DirectoryWatch {
    notifier: Option<OwnedFd>,
    watched: Mutex<WatchedDirectories>,
}

#[derive(Debug, Default)]
struct WatchedDirectories {
    descriptors: BTreeMap<PathBuf, i32>,
    /// Some directory of the set is not watched.
    is_incomplete: bool,
}

impl DirectoryWatch {
    /// Watches nothing yet.
    pub fn new() -> Self {
        Self { notifier: os::open_directory_notifier(), watched: Mutex::default() }
    }

    /// Watches exactly these directories from now on.
    pub fn set_directories(&self, directories: &BTreeSet<PathBuf>) {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(notifier) = &self.notifier else {
            watched.is_incomplete = !directories.is_empty();
            return;
        };
        watched.descriptors.retain(|path, descriptor| {
            let stays = directories.contains(path);
            if !stays {
                os::unwatch_directory(notifier, *descriptor);
            }
            stays
        });
        watched.is_incomplete = false;
        for path in directories {
            // A directory that was replaced has a new descriptor, so known paths are added again too.
            match os::watch_directory(notifier, path) {
                Ok(descriptor) => drop(watched.descriptors.insert(path.clone(), descriptor)),
                // A directory that does not exist yet is created in one that is watched.
                Err(_) => watched.is_incomplete |= crate::fs::exists(path),
            }
        }
    }

    /// Returns when an entry changed, or on cancellation.
    pub fn wait(&self, cancel: &CancelToken) -> WatchOutcome {
        loop {
            if cancel.is_cancelled() {
                return WatchOutcome::Cancelled;
            }
            let polls = self.watched.lock().unwrap_or_else(PoisonError::into_inner).is_incomplete;
            let limit = if polls { POLL_INTERVAL } else { WAIT_LIMIT };
            let notifier = self.notifier.as_ref().map(AsFd::as_fd);
            let [cancelled, changed] =
                wait_readable([Some(cancel.wake_descriptor()), notifier], limit);
            if cancelled {
                return WatchOutcome::Cancelled;
            }
            if let (Some(notifier), true) = (&self.notifier, changed) {
                os::discard_directory_events(notifier);
            }
            if changed || polls {
                return WatchOutcome::Changed;
            }
        }
    }
}

impl Default for DirectoryWatch {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::{Durability, append, replace};
    use std::sync::Arc;

    #[test]
    fn a_change_in_a_watched_directory_ends_the_wait_and_others_do_not() {
        let directory = tempfile::tempdir().unwrap();
        let (inside, outside) = (directory.path().join("a"), directory.path().join("b"));
        for path in [&inside, &outside] {
            crate::fs::create_private_dir(path).unwrap();
        }
        let watch = DirectoryWatch::new();
        watch.set_directories(&BTreeSet::from([inside.clone(), directory.path().join("later")]));
        let cancel = Arc::new(CancelToken::new().unwrap());
        replace(&outside.join("journal"), b"1", Durability::Cached).unwrap();
        append(&inside.join("journal"), b"1", Durability::Cached).unwrap();
        assert_eq!(watch.wait(&cancel), WatchOutcome::Changed);
        watch.set_directories(&BTreeSet::new());
        append(&inside.join("journal"), b"2", Durability::Cached).unwrap();
        // The events of a set that is no longer watched may still be queued.
        let waiting = Arc::clone(&cancel);
        let thread =
            std::thread::spawn(move || while watch.wait(&waiting) == WatchOutcome::Changed {});
        cancel.cancel();
        thread.join().unwrap();
    }
}
