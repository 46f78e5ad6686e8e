//! Watches what the open pages depend on.
//!
//! One thread waits for changes in the directories of the open pages. Without open pages nothing is watched.

use ralph_home::paths::RalphHome;
use ralph_sys::clock;
use ralph_sys::fs::{self, DirectoryWatch, WatchOutcome};
use ralph_sys::proc::cancel::CancelToken;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// Events that follow each other closely are one change.
const MERGE_DELAY: Duration = Duration::from_millis(20);
const MAX_STREAMS: usize = 24;

/// Knows which directories the open pages depend on, and tells the pages about changes.
#[derive(Debug)]
pub(crate) struct LiveHub {
    watch: Arc<DirectoryWatch>,
    /// Directories by stream.
    wanted: Arc<Mutex<BTreeMap<u64, BTreeSet<PathBuf>>>>,
    changes: Arc<watch::Sender<u64>>,
    is_over: Arc<watch::Sender<bool>>,
    streams: Arc<Semaphore>,
    always: [PathBuf; 2],
}

impl LiveHub {
    pub(crate) fn new(home: &RalphHome) -> Self {
        Self {
            watch: Arc::new(DirectoryWatch::new()),
            wanted: Arc::default(),
            changes: Arc::new(watch::Sender::new(1)),
            is_over: Arc::new(watch::Sender::new(false)),
            streams: Arc::new(Semaphore::new(MAX_STREAMS)),
            always: [home.root().to_path_buf(), home.runs()],
        }
    }

    /// Starts the thread that waits for changes and for the end.
    pub(crate) fn start_watching(&self, cancel: Arc<CancelToken>) -> io::Result<()> {
        let (watch, changes, is_over) =
            (Arc::clone(&self.watch), Arc::clone(&self.changes), Arc::clone(&self.is_over));
        std::thread::Builder::new().name("changes".to_string()).spawn(move || {
            while watch.wait(&cancel) == WatchOutcome::Changed {
                changes.send_modify(|count| *count += 1);
                clock::sleep(MERGE_DELAY);
            }
            is_over.send_replace(true);
        })?;
        Ok(())
    }

    /// Ends when the server was cancelled.
    pub(crate) async fn wait_for_end(&self) {
        let mut is_over = self.is_over.subscribe();
        let _sender_lives = is_over.wait_for(|is_over| *is_over).await;
    }

    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    pub(crate) fn end(&self) -> watch::Receiver<bool> {
        self.is_over.subscribe()
    }

    /// A place for one more open page; `None` if there are too many.
    pub(crate) fn open_stream(&self) -> Option<StreamInterest> {
        let slot = Arc::clone(&self.streams).try_acquire_owned().ok()?;
        Some(StreamInterest {
            id: clock::nonce(),
            wanted: Arc::clone(&self.wanted),
            watch: Arc::clone(&self.watch),
            always: self.always.clone(),
            _slot: slot,
        })
    }
}

/// One open page. Its directories are watched until it is dropped.
#[derive(Debug)]
pub(crate) struct StreamInterest {
    id: u64,
    wanted: Arc<Mutex<BTreeMap<u64, BTreeSet<PathBuf>>>>,
    watch: Arc<DirectoryWatch>,
    always: [PathBuf; 2],
    _slot: OwnedSemaphorePermit,
}

impl StreamInterest {
    /// Watches these directories, the home, and that of the runs. Returns whether they are others than before.
    pub(crate) fn set_directories(&self, mut directories: BTreeSet<PathBuf>) -> bool {
        directories.extend(self.always.iter().cloned());
        // One that does not exist yet cannot be watched. The first run makes that of the runs, which changes the home.
        directories.retain(|path| fs::exists(path));
        let mut wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = wanted.get(&self.id) != Some(&directories);
        if is_new {
            wanted.insert(self.id, directories);
            self.watch.set_directories(&wanted.values().flatten().cloned().collect());
        }
        is_new
    }
}

impl Drop for StreamInterest {
    fn drop(&mut self) {
        let mut wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        wanted.remove(&self.id);
        self.watch.set_directories(&wanted.values().flatten().cloned().collect());
    }
}
