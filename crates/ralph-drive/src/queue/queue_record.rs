//! The append-only record of a queue, from which work resumes after a crash.
//!
//! It holds only which run belongs to which task and how the task ended. Cost and state of a run are in the run's own
//! journal.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ralph_core::id::RunId;
use ralph_core::text;
use ralph_home::paths::RalphHome;
use ralph_home::store::StoreError;
use ralph_sys::clock::{self, Deadline};
use ralph_sys::fs::{self, Durability, FileError, FileLock, LockError};
use serde::{Deserialize, Serialize};

use super::{QueueTaskEnd, QueueTaskEnding};

const VERSION: u8 = 1;
const LARGEST: usize = 64 * 1024 * 1024;
const MAX_WHY_CHARS: usize = 2_000;
/// A process that was just killed may still hold the lock.
const PATIENCE: Duration = Duration::from_secs(3);
const ID_LENGTH: usize = 7;

/// Identifies a queue by its file and its project, so that the same file is the same queue.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueueId(String);

impl QueueId {
    pub fn for_queue(source: &Path, project: &Path) -> Self {
        let mut hasher = blake3::Hasher::new();
        for path in [source, project] {
            let bytes = path.as_os_str().as_encoded_bytes();
            hasher.update(&u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_le_bytes());
            hasher.update(bytes);
        }
        let hex = hasher.finalize().to_hex();
        Self(format!("q{}", hex.get(..ID_LENGTH).unwrap_or_default()))
    }

    /// `None` if the text cannot be the id of a queue.
    pub fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix(['q', 'Q'])?;
        let is_id = rest.len() == ID_LENGTH && rest.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_id.then(|| Self(text.to_ascii_lowercase()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[derive(Debug, thiserror::Error)]
pub enum QueueRecordError {
    #[error("queue `{0}` is already running")]
    Busy(String),
    #[error("`{}` was written by a newer ralph", .0.display())]
    Newer(PathBuf),
    #[error(transparent)]
    File(#[from] FileError),
    #[error("cannot read a run of the queue")]
    Run(#[from] StoreError),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct QueueRecordLine {
    v: u8,
    at_ms: u64,
    #[serde(flatten)]
    entry: QueueRecordEntry,
}

/// An event in the record of a queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueRecordEntry {
    /// The queue was started or resumed.
    Opened(QueueOpening),
    /// Written before the task is started.
    Started {
        task: String,
        asks: String,
        terms: String,
        /// The run that is resumed; the id of a new run is not known yet.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        run: Option<RunId>,
    },
    /// The run that was created for the task.
    Runs { task: String, run: RunId },
    Ended {
        task: String,
        #[serde(flatten)]
        end: QueueTaskEnd,
    },
    /// No task is running any more.
    Closed {},
}

/// How the person started the queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueOpening {
    pub source: PathBuf,
    pub project: PathBuf,
    /// The command-line arguments that resume it.
    pub arguments: Vec<String>,
}

/// The state of a queue, folded from its record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueHistory {
    pub opening: Option<QueueOpening>,
    /// Total time that the queue was running.
    pub worked_ms: u64,
    pub tasks: BTreeMap<String, QueueTaskHistory>,
}

/// The last attempt at a task, and all of its runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueTaskHistory {
    pub asks: String,
    pub terms: String,
    pub run: Option<RunId>,
    pub runs: Vec<RunId>,
    /// When it was last started.
    pub since_ms: u64,
    /// `None` while it runs, or if the process that ran the queue was killed.
    pub end: Option<QueueTaskEnd>,
}

impl QueueTaskHistory {
    pub fn has_landed(&self) -> bool {
        self.end.as_ref().is_some_and(|end| end.how == QueueTaskEnding::Landed)
    }
}

/// The record of a queue, locked by the one process that runs it.
#[derive(Debug)]
pub struct QueueRecord {
    directory: PathBuf,
    _lock: FileLock,
}

impl QueueRecord {
    pub fn open(home: &RalphHome, id: &QueueId) -> Result<(Self, QueueHistory), QueueRecordError> {
        let directory = home.queues().join(id.as_str());
        fs::create_private_dir(&directory)?;
        let lock = match fs::acquire_lock(&directory.join("lock"), &Deadline::after(PATIENCE)) {
            Ok(lock) => lock,
            Err(LockError::Busy { .. }) => {
                return Err(QueueRecordError::Busy(id.as_str().to_owned()));
            }
            Err(LockError::File(error)) => return Err(error.into()),
        };
        let path = directory.join("queue.jsonl");
        let bytes = fs::read_if_exists(&path, LARGEST)?.unwrap_or_default();
        let past = fold_history(&bytes).ok_or_else(|| QueueRecordError::Newer(path.clone()))?;
        // Terminates a torn line, which a killed process may have left.
        if !bytes.is_empty() && !bytes.ends_with(b"\n") {
            fs::append(&path, b"\n", Durability::Cached)?;
        }
        Ok((Self { directory, _lock: lock }, past))
    }

    /// Reads the record without locking it.
    pub fn read(home: &RalphHome, id: &QueueId) -> Result<Option<QueueHistory>, QueueRecordError> {
        let path = home.queues().join(id.as_str()).join("queue.jsonl");
        let Some(bytes) = fs::read_if_exists(&path, LARGEST)? else { return Ok(None) };
        fold_history(&bytes).map(Some).ok_or(QueueRecordError::Newer(path))
    }

    /// Appends an entry and syncs it before the caller acts on it.
    pub fn append(&self, entry: QueueRecordEntry) -> Result<(), FileError> {
        let path = self.directory.join("queue.jsonl");
        let line =
            QueueRecordLine { v: VERSION, at_ms: clock::now_ms(), entry: bound_entry(entry) };
        let Ok(mut line) = serde_json::to_vec(&line) else {
            return Err(FileError::refused(&path, "it cannot be serialised as JSON"));
        };
        line.push(b'\n');
        fs::append(&path, &line, Durability::Synced).map(drop)
    }

    /// A file for a task, such as its goal or the stderr of its process. The task's name was validated when the queue
    /// was read.
    pub fn task_file(&self, task: &str, what: &str) -> PathBuf {
        self.directory.join(format!("{task}.{what}"))
    }
}

fn bound_entry(entry: QueueRecordEntry) -> QueueRecordEntry {
    match entry {
        QueueRecordEntry::Ended { task, end } => {
            let why = text::clean_line(&end.why, MAX_WHY_CHARS);
            QueueRecordEntry::Ended { task, end: QueueTaskEnd { why, ..end } }
        }
        other @ (QueueRecordEntry::Opened(_)
        | QueueRecordEntry::Started { .. }
        | QueueRecordEntry::Runs { .. }
        | QueueRecordEntry::Closed {}) => other,
    }
}

/// `None` if a line has a newer version. Unreadable lines are skipped: at worst a task runs again.
fn fold_history(bytes: &[u8]) -> Option<QueueHistory> {
    #[derive(Deserialize)]
    struct QueueLineVersion {
        v: u8,
    }
    let mut past = QueueHistory::default();
    let mut stretch: Option<(u64, u64)> = None;
    let worked =
        |stretch: Option<(u64, u64)>| stretch.map_or(0, |(from, to)| to.saturating_sub(from));
    for line in bytes.split(|byte| *byte == b'\n') {
        if serde_json::from_slice::<QueueLineVersion>(line).is_ok_and(|line| line.v > VERSION) {
            return None;
        }
        let Ok(QueueRecordLine { at_ms, entry, .. }) = serde_json::from_slice(line) else {
            continue;
        };
        if let QueueRecordEntry::Opened(opening) = entry {
            past.worked_ms = past.worked_ms.saturating_add(worked(stretch));
            stretch = Some((at_ms, at_ms));
            past.opening = Some(opening);
            continue;
        }
        if let Some((_, to)) = &mut stretch {
            *to = at_ms.max(*to);
        }
        past.apply(at_ms, entry);
    }
    past.worked_ms = past.worked_ms.saturating_add(worked(stretch));
    Some(past)
}

impl QueueHistory {
    fn apply(&mut self, at_ms: u64, entry: QueueRecordEntry) {
        match entry {
            QueueRecordEntry::Started { task, asks, terms, run } => {
                let tried = self.tasks.entry(task).or_default();
                let mut runs = std::mem::take(&mut tried.runs);
                // For a resumed run there is no `Runs` entry.
                runs.extend(run.clone().filter(|run| !runs.contains(run)));
                *tried = QueueTaskHistory { asks, terms, run, runs, since_ms: at_ms, end: None };
            }
            QueueRecordEntry::Runs { task, run } => {
                let tried = self.tasks.entry(task).or_default();
                if !tried.runs.contains(&run) {
                    tried.runs.push(run.clone());
                }
                tried.run = Some(run);
            }
            QueueRecordEntry::Ended { task, end } => {
                self.tasks.entry(task).or_default().end = Some(end);
            }
            QueueRecordEntry::Opened(_) | QueueRecordEntry::Closed {} => {}
        }
    }
}
