//! Runs on disk. `journal.jsonl` is authoritative; `run.json` and `state.json` are derived from it.
//!
//! [`load_run`] takes no lock and repairs nothing. [`transact`] does both: it locks the run, makes the derived files
//! agree with the journal again, and appends one entry.

use crate::journal::{self, JournalDamage};
use crate::paths::{RalphHome, RunPaths};
use ralph_core::id::RunId;
use ralph_core::record::{FORMAT_VERSION, JournalEntry, RestoredRun, RunChange, RunRecord};
use ralph_core::run::RunState;
use ralph_sys::clock::Deadline;
use ralph_sys::fs::{self, Durability, FileError, FileLock, LockError};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

pub(crate) const MAX_RUN_BYTES: usize = 1024 * 1024;
pub(crate) const MAX_STATE_BYTES: usize = 16 * 1024 * 1024;
const MAX_COUNT_BYTES: usize = 64;
const MAX_RUNS: usize = 100_000;

/// `state.json` is written at every nth entry. Replaying the entries in between is cheaper than replacing a file each
/// time.
const STATE_WRITE_INTERVAL: u64 = 8;

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error("timed out before the answer was ready")]
    TimedOut,
    #[error("there is no run `{0}`")]
    NoSuchRun(String),
    #[error("`{}` was written by a newer ralph (format {version})", path.display())]
    Newer { path: PathBuf, version: u64 },
    #[error("cannot read `{}` or rebuild it from the run's other files", path.display())]
    Unreadable { path: PathBuf },
}

/// Content of `state.json`: the state, and the position in the journal that it corresponds to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct StateFile {
    v: u8,
    /// Hash of the last journal line that is in the state.
    head: String,
    /// Offset of that line.
    last_start: u64,
    journal_length: u64,
    /// Hash of `run.json`.
    seal: String,
    state: RunState,
}

/// A run, and what the next transaction has to repair in its files.
#[derive(Clone, Debug)]
pub struct LoadedRun {
    pub run: RunRecord,
    pub state: RunState,
    /// One line that describes an edit of the run's files by anything but ralph.
    pub tampering: Option<String>,
    position: JournalPosition,
    repair: RunRepair,
}

/// End of the journal's intact part.
#[derive(Clone, Debug)]
struct JournalPosition {
    head: String,
    length: u64,
    last_start: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum RunRepair {
    NotNeeded,
    /// The journal is intact; the derived files are written again.
    RewriteDerived,
    /// The journal is damaged; it is quarantined and a new one starts with the state.
    RestartJournal,
}

/// Loads a run without locking it. A run whose files disagree is repaired in memory only.
pub fn load_run(home: &RalphHome, id: &RunId) -> Result<LoadedRun, StoreError> {
    let paths = home.run(id);
    let run_bytes = fs::read_if_exists(&paths.run_record(), MAX_RUN_BYTES)?;
    let state_bytes = fs::read_if_exists(&paths.state(), MAX_STATE_BYTES)?;
    let file: Option<StateFile> =
        state_bytes.as_deref().and_then(|bytes| serde_json::from_slice(bytes).ok());
    let count = read_count(&paths)?;
    if let (Some(run_bytes), Some(file)) = (&run_bytes, &file)
        && journal::hash_bytes(run_bytes) == file.seal
        && let Ok(run) = serde_json::from_slice(run_bytes)
        && let Some(opened) = load_from_state(&paths, run, file, count)
    {
        return Ok(opened);
    }
    reconcile_files(&paths, run_bytes.as_deref(), file, count)
}

/// The normal case: the state is up to date with the journal, or a few entries behind. `None` if anything disagrees.
fn load_from_state(
    paths: &RunPaths,
    run: RunRecord,
    file: &StateFile,
    count: u32,
) -> Option<LoadedRun> {
    let Ok(bytes) = fs::read_range(&paths.journal(), file.last_start, journal::MAX_JOURNAL_BYTES)
    else {
        return None;
    };
    let known =
        usize::try_from(file.journal_length.saturating_sub(file.last_start)).unwrap_or(usize::MAX);
    let (last, rest) = bytes.split_at_checked(known)?;
    let counted = serde_json::from_slice::<LastEntryWire>(last).is_ok_and(|last| {
        last.v <= FORMAT_VERSION.into()
            && last.seq.saturating_add(1) == file.state.seq
            && last.iteration == file.state.iteration
            && hash_state(&file.state).is_ok_and(|hash| last.after == hash)
    });
    if !counted || journal::hash_bytes(last) != file.head {
        return None;
    }
    let read = journal::parse_journal(rest, file.journal_length, &file.head);
    let mut state = file.state.clone();
    read.entries.iter().for_each(|entry| state.apply(entry));
    if count > state.iteration {
        return None;
    }
    match read.damage {
        Some(
            JournalDamage::BrokenChain { .. }
            | JournalDamage::NewerFormat { .. }
            | JournalDamage::Missing,
        ) => None,
        Some(JournalDamage::TornLine) | None => Some(LoadedRun {
            run,
            state,
            tampering: None,
            position: JournalPosition {
                head: read.head,
                length: read.end,
                last_start: if read.entries.is_empty() { file.last_start } else { read.last_start },
            },
            repair: if read.damage.is_some() {
                RunRepair::RewriteDerived
            } else {
                RunRepair::NotNeeded
            },
        }),
    }
}

/// The fields of an entry that are needed to check that the state agrees with it.
#[derive(Deserialize)]
struct LastEntryWire {
    v: u64,
    seq: u64,
    iteration: u32,
    after: String,
}

/// Loads a run whose files disagree. The highest count wins, so that damaging a file gains no iterations.
///
/// Fails if a newer ralph continued the journal. A newer version number in any other file alone counts as an edit.
fn reconcile_files(
    paths: &RunPaths,
    run_bytes: Option<&[u8]>,
    file: Option<StateFile>,
    count: u32,
) -> Result<LoadedRun, StoreError> {
    let read = match journal::read_journal(&paths.journal()) {
        Ok(read) => Some(read),
        Err(error) if error.is_missing() => None,
        Err(error) => return Err(error.into()),
    };
    if run_bytes.is_none() && read.is_none() {
        let name = paths.directory().file_name().unwrap_or_default();
        return Err(StoreError::NoSuchRun(name.to_string_lossy().into_owned()));
    }
    if let Some(JournalDamage::NewerFormat { version, .. }) =
        read.as_ref().and_then(|read| read.damage.as_ref())
    {
        return Err(StoreError::Newer { path: paths.journal(), version: *version });
    }
    let run: Option<RunRecord> = run_bytes.and_then(|bytes| serde_json::from_slice(bytes).ok());
    let rebuilt = rebuild_from_journal(read.as_ref(), run.as_ref(), file.as_ref());
    let is_whole = rebuilt.is_some();
    if let Some(opened) = rebuilt.filter(|opened| count <= opened.state.iteration) {
        return Ok(opened);
    }
    salvage_state(read.as_ref(), run, file)
        .map(|mut opened| {
            if is_whole {
                opened.tampering = Some("`count` is higher than the journal's count".to_string());
            }
            opened.state.iteration = opened.state.iteration.max(count);
            opened
        })
        .ok_or_else(|| StoreError::Unreadable { path: paths.journal() })
}

fn hash_state(state: &RunState) -> serde_json::Result<String> {
    Ok(journal::hash_bytes(&serde_json::to_vec(state)?))
}

/// The iterations in `count`, or 0 if it is missing or holds no number. It is written after the journal, so a crash
/// never leaves it ahead.
fn read_count(paths: &RunPaths) -> Result<u32, FileError> {
    let text = fs::read_if_exists(&paths.count(), MAX_COUNT_BYTES)?;
    let count = text.and_then(|text| str::from_utf8(&text).ok()?.trim().parse().ok());
    Ok(count.unwrap_or(0))
}

/// Rebuilds the state from an intact journal. `None` if it is not intact, or if `state.json` counts more iterations.
fn rebuild_from_journal(
    read: Option<&journal::JournalContents>,
    run: Option<&RunRecord>,
    file: Option<&StateFile>,
) -> Option<LoadedRun> {
    let read = read.filter(|read| matches!(read.damage, None | Some(JournalDamage::TornLine)))?;
    let (sealed, state) = RunState::replay(&read.entries)?;
    if file.is_some_and(|file| file.state.iteration > state.iteration) {
        return None;
    }
    let tampering = match (run, file) {
        (Some(run), _) if *run != sealed => Some("`run.json` was changed after the start"),
        (_, Some(file)) if !is_earlier_state(file, &read.entries) => {
            Some("`state.json` does not agree with the journal")
        }
        (None | Some(_), None | Some(_)) => None,
    };
    let position =
        JournalPosition { head: read.head.clone(), length: read.end, last_start: read.last_start };
    let tampering = tampering.map(str::to_string);
    Some(LoadedRun { run: sealed, state, tampering, position, repair: RunRepair::RewriteDerived })
}

/// Rebuilds the state from whatever is left. Entries beyond a broken link may have been edited, but the iterations they
/// count still count.
fn salvage_state(
    read: Option<&journal::JournalContents>,
    run: Option<RunRecord>,
    file: Option<StateFile>,
) -> Option<LoadedRun> {
    let replayed = read.and_then(|read| RunState::replay(&read.entries));
    let (run, mut state) = match (replayed, file, run) {
        (Some((run, state)), Some(file), _) if file.state.seq > state.seq => (run, file.state),
        (Some(replayed), _, _) => replayed,
        (None, Some(file), Some(run)) => (run, file.state),
        (None, ..) => return None,
    };
    for entry in read.into_iter().flat_map(|read| read.entries.iter().chain(&read.untrusted)) {
        if entry.seq >= state.seq {
            state.apply(entry);
        }
        state.iteration = state.iteration.max(entry.iteration);
    }
    let position = JournalPosition { head: String::new(), length: 0, last_start: 0 };
    let tampering = Some("`journal.jsonl` is damaged or missing".to_string());
    Some(LoadedRun { run, state, tampering, position, repair: RunRepair::RestartJournal })
}

/// Whether the file holds the state after some entry of the journal. A crash leaves such an older state; any other
/// difference is an edit.
fn is_earlier_state(file: &StateFile, entries: &[JournalEntry]) -> bool {
    let Ok(hash) = hash_state(&file.state) else { return false };
    entries.iter().any(|entry| entry.seq.saturating_add(1) == file.state.seq && entry.after == hash)
}

/// What [`transact`] does under the lock, and the value it returns.
#[derive(Debug)]
pub enum TransactionStep<T> {
    Write { change: RunChange, durability: Durability, answer: T },
    Leave(T),
}

/// The run to lock, and the deadline for it.
#[derive(Clone, Copy, Debug)]
pub struct RunTransaction<'a> {
    pub home: &'a RalphHome,
    pub run: &'a RunId,
    pub deadline: Deadline,
    /// The person whose action is recorded; `None` for events of agents and hosts.
    pub by: Option<&'a str>,
    /// A copy loaded earlier. It is used instead of loading again if the journal has not grown since.
    pub loaded: Option<&'a LoadedRun>,
}

/// Locks the run, repairs its files if necessary, and appends the entry that `step` returns, if any.
pub fn transact<T>(
    transaction: &RunTransaction<'_>,
    step: impl FnOnce(&LoadedRun) -> TransactionStep<T>,
) -> Result<T, StoreError> {
    let paths = transaction.home.run(transaction.run);
    let _lock: FileLock = fs::acquire_lock(&paths.lock(), &transaction.deadline)?;
    let mut opened = match transaction.loaded {
        Some(seen) if is_unchanged(&paths, seen) => seen.clone(),
        Some(_) | None => load_run(transaction.home, transaction.run)?,
    };
    repair_files(&paths, &mut opened)?;
    match step(&opened) {
        TransactionStep::Leave(answer) => Ok(answer),
        TransactionStep::Write { change, durability, answer } => {
            append_entry(&paths, &mut opened, change, transaction.by, durability)?;
            Ok(answer)
        }
    }
}

fn is_unchanged(paths: &RunPaths, seen: &LoadedRun) -> bool {
    seen.repair == RunRepair::NotNeeded
        && fs::stat(&paths.journal()).is_some_and(|stat| stat.len == seen.position.length)
}

fn repair_files(paths: &RunPaths, opened: &mut LoadedRun) -> Result<(), StoreError> {
    match opened.repair {
        RunRepair::NotNeeded => return Ok(()),
        RunRepair::RewriteDerived => {
            quarantine_unreadable(paths)?;
            // A torn last line was never acted on. If it stayed, the next line would be appended to it.
            fs::truncate(&paths.journal(), opened.position.length)?;
            write_run(paths, &opened.run)?;
            write_state(paths, opened, Durability::Cached)?;
        }
        RunRepair::RestartJournal => {
            quarantine_unreadable(paths)?;
            if fs::exists(&paths.journal()) {
                fs::quarantine(&paths.journal(), ralph_sys::clock::now_ms())?;
            }
            write_run(paths, &opened.run)?;
            let change = RunChange::Restored(Box::new(RestoredRun {
                run: opened.run.clone(),
                state: opened.state.clone(),
            }));
            append_entry(paths, opened, change, None, Durability::Synced)?;
        }
    }
    opened.repair = RunRepair::NotNeeded;
    Ok(())
}

fn quarantine_unreadable(paths: &RunPaths) -> Result<(), StoreError> {
    let stamp = ralph_sys::clock::now_ms();
    let garbled = |bytes: &Option<Vec<u8>>, parses: fn(&[u8]) -> bool| {
        bytes.as_deref().is_some_and(|bytes| !parses(bytes))
    };
    if garbled(&fs::read_if_exists(&paths.state(), MAX_STATE_BYTES)?, |bytes| {
        serde_json::from_slice::<StateFile>(bytes).is_ok()
    }) {
        fs::quarantine(&paths.state(), stamp)?;
    }
    if garbled(&fs::read_if_exists(&paths.run_record(), MAX_RUN_BYTES)?, |bytes| {
        serde_json::from_slice::<RunRecord>(bytes).is_ok()
    }) {
        fs::quarantine(&paths.run_record(), stamp)?;
    }
    Ok(())
}

fn write_run(paths: &RunPaths, run: &RunRecord) -> Result<(), StoreError> {
    let bytes = encode_run(paths, run)?;
    if fs::read_if_exists(&paths.run_record(), MAX_RUN_BYTES)?.as_deref() != Some(&bytes) {
        fs::replace(&paths.run_record(), &bytes, Durability::Synced)?;
    }
    Ok(())
}

fn encode_run(paths: &RunPaths, run: &RunRecord) -> Result<Vec<u8>, FileError> {
    let mut bytes = serde_json::to_vec_pretty(run)
        .map_err(|error| FileError::not_encodable(&paths.run_record(), error))?;
    bytes.push(b'\n');
    Ok(bytes)
}

fn append_entry(
    paths: &RunPaths,
    opened: &mut LoadedRun,
    change: RunChange,
    by: Option<&str>,
    durability: Durability,
) -> Result<(), StoreError> {
    let mut entry = JournalEntry {
        v: FORMAT_VERSION,
        seq: opened.state.seq,
        at_ms: ralph_sys::clock::now_ms(),
        prev: opened.position.head.clone(),
        iteration: 0,
        after: String::new(),
        change,
        by: by.map(str::to_string),
    };
    let mut after = opened.state.clone();
    after.apply(&entry);
    entry.iteration = after.iteration;
    entry.after =
        hash_state(&after).map_err(|error| FileError::not_encodable(&paths.journal(), error))?;
    let line = journal::encode_entry(&paths.journal(), &entry)?;
    if let Err(error) = fs::append(&paths.journal(), &line, durability) {
        // A full disk can leave a partial line. Remove it now; later it would look like a crash.
        drop(fs::truncate(&paths.journal(), opened.position.length));
        return Err(error.into());
    }
    opened.position = JournalPosition {
        head: journal::hash_bytes(&line),
        length: opened.position.length + line.len() as u64,
        last_start: opened.position.length,
    };
    opened.state = after;
    drop(fs::overwrite(&paths.count(), format!("{:010}\n", opened.state.iteration).as_bytes()));
    // From here on the entry counts. A load catches up from the journal, so the state need not be written every time,
    // and an error in writing it can be ignored.
    if durability == Durability::Synced || entry.seq.is_multiple_of(STATE_WRITE_INTERVAL) {
        drop(write_state(paths, opened, durability));
    }
    Ok(())
}

fn write_state(
    paths: &RunPaths,
    opened: &LoadedRun,
    durability: Durability,
) -> Result<(), FileError> {
    let file = StateFile {
        v: FORMAT_VERSION,
        head: opened.position.head.clone(),
        last_start: opened.position.last_start,
        journal_length: opened.position.length,
        seal: journal::hash_bytes(&encode_run(paths, &opened.run)?),
        state: opened.state.clone(),
    };
    fs::replace(&paths.state(), &fs::encode_json(&paths.state(), &file)?, durability)
}

/// Files that are written beside a run when it is created.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunFiles<'a> {
    pub goal: &'a [u8],
    /// Copies of the run's lists.
    pub lists: &'a [Vec<u8>],
}

/// Creates the run's directory and its first journal entry. Returns `false` if the id is taken.
pub fn create_run(
    home: &RalphHome,
    run: &RunRecord,
    papers: &RunFiles<'_>,
    deadline: &Deadline,
) -> Result<bool, StoreError> {
    let paths = home.run(&run.id);
    fs::create_private_dir(paths.directory())?;
    let _lock = fs::acquire_lock(&paths.lock(), deadline)?;
    if fs::exists(&paths.journal()) {
        return Ok(false);
    }
    fs::replace(&paths.goal(), papers.goal, Durability::Synced)?;
    for (number, list) in papers.lists.iter().enumerate() {
        let path = paths.list(number);
        path.parent().map_or(Ok(()), fs::create_private_dir)?;
        fs::replace(&path, list, Durability::Synced)?;
    }
    write_run(&paths, run)?;
    let position = JournalPosition { head: String::new(), length: 0, last_start: 0 };
    let state = RunState::new(run);
    let mut opened = LoadedRun {
        run: run.clone(),
        state,
        tampering: None,
        position,
        repair: RunRepair::NotNeeded,
    };
    append_entry(
        &paths,
        &mut opened,
        RunChange::Started(Box::new(run.clone())),
        None,
        Durability::Synced,
    )?;
    Ok(true)
}

/// Ids of all runs. Entries of the directory that are not run ids are skipped.
pub fn list_runs(home: &RalphHome) -> Result<Vec<RunId>, FileError> {
    Ok(list_records(home)?.filter(|id| !id.is_of_session()).collect())
}

/// Ids of the records of sessions without a run.
pub fn list_session_records(home: &RalphHome) -> Result<Vec<RunId>, FileError> {
    Ok(list_records(home)?.filter(RunId::is_of_session).collect())
}

/// Ids of all runs and of the records of sessions without a run.
pub fn list_records(home: &RalphHome) -> Result<impl Iterator<Item = RunId> + use<>, FileError> {
    let names = fs::list_if_exists(&home.runs(), MAX_RUNS)?;
    Ok(names.into_iter().filter_map(|name| RunId::parse(name.to_str()?)))
}
