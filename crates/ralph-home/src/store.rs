//! Runs on disk. `journal.jsonl` is authoritative; `run.json` and `state.json` are derived from it.
//!
//! [`load_run`] takes no lock and repairs nothing. [`transact`] does both: it locks the run, makes the derived files
//! agree with the journal again, and appends one entry.

use crate::journal::{self, Break};
use crate::paths::{Home, RunPaths};
use ralph_core::id::RunId;
use ralph_core::record::{Change, Entry, Restored, Run, VERSION};
use ralph_core::run::State;
use ralph_sys::clock::Deadline;
use ralph_sys::fs::{self, Durability, FileError, Lock, LockError};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

const LARGEST_RUN: usize = 1024 * 1024;
const LARGEST_STATE: usize = 16 * 1024 * 1024;
const LARGEST_COUNT: usize = 64;
const LARGEST_ENTRY: usize = 4 * 1024 * 1024;

/// `state.json` is written at every nth entry. Replaying the entries in between is cheaper than replacing a file each
/// time.
const STATE_EVERY: u64 = 8;

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error("timed out before the answer was ready")]
    OutOfTime,
    #[error("there is no run `{0}`")]
    NoSuchRun(String),
    #[error("`{}` was written by a newer ralph (format {version})", path.display())]
    Newer { path: PathBuf, version: u8 },
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
    state: State,
}

/// A run, and what the next transaction has to repair in its files.
#[derive(Clone, Debug)]
pub struct Opened {
    pub run: Run,
    pub state: State,
    /// One line that describes an edit of the run's files by anything but ralph.
    pub tampering: Option<String>,
    position: Position,
    repair: Repair,
}

/// End of the journal's intact part.
#[derive(Clone, Debug)]
struct Position {
    head: String,
    length: u64,
    last_start: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Repair {
    Nothing,
    /// The journal is intact; the derived files are written again.
    Rewrite,
    /// The journal is damaged; it is quarantined and a new one starts with the state.
    Restart,
}

/// Loads a run without locking it. A run whose files disagree is repaired in memory only.
pub fn load(home: &Home, id: &RunId) -> Result<Opened, StoreError> {
    let paths = home.run(id);
    let run_bytes = fs::read_opt(&paths.run(), LARGEST_RUN)?;
    let state_bytes = fs::read_opt(&paths.state(), LARGEST_STATE)?;
    let file: Option<StateFile> =
        state_bytes.as_deref().and_then(|bytes| serde_json::from_slice(bytes).ok());
    newer(&paths, [run_bytes.as_deref(), state_bytes.as_deref()])?;
    if let (Some(run_bytes), Some(file)) = (&run_bytes, &file)
        && journal::hash(run_bytes) == file.seal
        && let Ok(run) = serde_json::from_slice(run_bytes)
        && let Some(opened) = follow(&paths, run, file)
    {
        return Ok(opened);
    }
    reconcile(&paths, run_bytes.as_deref(), file)
}

/// The normal case: the state is up to date with the journal, or a few entries behind. `None` if anything disagrees.
fn follow(paths: &RunPaths, run: Run, file: &StateFile) -> Option<Opened> {
    let Ok(bytes) = fs::read_range(&paths.journal(), file.last_start, journal::LARGEST) else {
        return None;
    };
    let known =
        usize::try_from(file.journal_length.saturating_sub(file.last_start)).unwrap_or(usize::MAX);
    let (last, rest) = bytes.split_at_checked(known)?;
    let counted = serde_json::from_slice::<Counted>(last).is_ok_and(|last| {
        last.seq.saturating_add(1) == file.state.seq
            && last.iteration == file.state.iteration
            && last.after == hash_of(&file.state)
    });
    if !counted || journal::hash(last) != file.head {
        return None;
    }
    let read = journal::parse(rest, file.journal_length, &file.head);
    let mut state = file.state.clone();
    read.entries.iter().for_each(|entry| state.apply(entry));
    if count(paths) > state.iteration {
        return None;
    }
    match read.broken {
        Some(Break::Chain { .. }) => None,
        Some(Break::Torn) | None => Some(Opened {
            run,
            state,
            tampering: None,
            position: Position {
                head: read.head,
                length: read.end,
                last_start: if read.entries.is_empty() { file.last_start } else { read.last_start },
            },
            repair: if read.broken.is_some() { Repair::Rewrite } else { Repair::Nothing },
        }),
    }
}

/// The fields of an entry that are needed to check that the state agrees with it.
#[derive(Deserialize)]
struct Counted {
    seq: u64,
    iteration: u32,
    after: String,
}

/// Loads a run whose files disagree. The highest count wins, so that damaging a file gains no iterations.
fn reconcile(
    paths: &RunPaths,
    run_bytes: Option<&[u8]>,
    file: Option<StateFile>,
) -> Result<Opened, StoreError> {
    let read = match journal::read(&paths.journal()) {
        Ok(read) => Some(read),
        Err(error) if error.is_missing() => None,
        Err(error) => return Err(error.into()),
    };
    if run_bytes.is_none() && read.is_none() {
        let name = paths.directory().file_name().unwrap_or_default();
        return Err(StoreError::NoSuchRun(name.to_string_lossy().into_owned()));
    }
    let run: Option<Run> = run_bytes.and_then(|bytes| serde_json::from_slice(bytes).ok());
    let count = count(paths);
    let rebuilt = rebuild(read.as_ref(), run.as_ref(), file.as_ref());
    let is_whole = rebuilt.is_some();
    if let Some(opened) = rebuilt.filter(|opened| count <= opened.state.iteration) {
        return Ok(opened);
    }
    salvage(read.as_ref(), run, file)
        .map(|mut opened| {
            if is_whole {
                opened.tampering = Some("`count` is higher than the journal's count".to_string());
            }
            opened.state.iteration = opened.state.iteration.max(count);
            opened
        })
        .ok_or_else(|| StoreError::Unreadable { path: paths.journal() })
}

fn hash_of(state: &State) -> String {
    journal::hash(&serde_json::to_vec(state).unwrap_or_default())
}

/// The iterations in `count`, or 0 if it is unreadable. It is written after the journal, so a crash never leaves it
/// ahead.
fn count(paths: &RunPaths) -> u32 {
    let text = fs::read_opt(&paths.count(), LARGEST_COUNT).ok().flatten().unwrap_or_default();
    std::str::from_utf8(&text).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

/// Rebuilds the state from an intact journal. `None` if it is not intact, or if `state.json` counts more iterations.
fn rebuild(
    read: Option<&journal::Read>,
    run: Option<&Run>,
    file: Option<&StateFile>,
) -> Option<Opened> {
    let read = read.filter(|read| !matches!(read.broken, Some(Break::Chain { .. })))?;
    let (sealed, state) = State::replay(&read.entries)?;
    if file.is_some_and(|file| file.state.iteration > state.iteration) {
        return None;
    }
    let tampering = match (run, file) {
        (Some(run), _) if *run != sealed => Some("`run.json` was changed after the start"),
        (_, Some(file)) if !is_prefix(file, &read.entries) => {
            Some("`state.json` does not agree with the journal")
        }
        (None | Some(_), None | Some(_)) => None,
    };
    let position =
        Position { head: read.head.clone(), length: read.end, last_start: read.last_start };
    let tampering = tampering.map(str::to_string);
    Some(Opened { run: sealed, state, tampering, position, repair: Repair::Rewrite })
}

/// Rebuilds the state from whatever is left. Entries beyond a broken link may have been edited, but the iterations they
/// count still count.
fn salvage(
    read: Option<&journal::Read>,
    run: Option<Run>,
    file: Option<StateFile>,
) -> Option<Opened> {
    let replayed = read.and_then(|read| State::replay(&read.entries));
    let (run, mut state) = match (replayed, file, run) {
        (Some((run, state)), Some(file), _) if file.state.seq > state.seq => (run, file.state),
        (Some(replayed), _, _) => replayed,
        (None, Some(file), Some(run)) => (run, file.state),
        (None, ..) => return None,
    };
    for entry in read.into_iter().flat_map(|read| read.entries.iter().chain(&read.beyond)) {
        if entry.seq >= state.seq {
            state.apply(entry);
        }
        state.iteration = state.iteration.max(entry.iteration);
    }
    let position = Position { head: String::new(), length: 0, last_start: 0 };
    let tampering = Some("`journal.jsonl` is damaged or missing".to_string());
    Some(Opened { run, state, tampering, position, repair: Repair::Restart })
}

/// Whether the file holds the state after some entry of the journal. A crash leaves such an older state; any other
/// difference is an edit.
fn is_prefix(file: &StateFile, entries: &[Entry]) -> bool {
    let hash = hash_of(&file.state);
    entries.iter().any(|entry| entry.seq.saturating_add(1) == file.state.seq && entry.after == hash)
}

/// Fails if a newer ralph wrote the run. It writes its version into all three files, so a newer version in only one of
/// them is an edit.
fn newer(paths: &RunPaths, files: [Option<&[u8]>; 2]) -> Result<(), StoreError> {
    #[derive(Deserialize)]
    struct Versioned {
        v: u8,
    }
    let version = |bytes: &[u8]| {
        serde_json::from_slice::<Versioned>(bytes).map_or(0, |versioned| versioned.v)
    };
    if files.into_iter().flatten().all(|bytes| version(bytes) <= VERSION) {
        return Ok(());
    }
    let journal = fs::read_range(&paths.journal(), 0, LARGEST_ENTRY)?;
    let first = journal.split(|byte| *byte == b'\n').next().map_or(0, version);
    if first > VERSION {
        return Err(StoreError::Newer { path: paths.journal(), version: first });
    }
    Ok(())
}

/// What [`transact`] does under the lock, and the value it returns.
#[derive(Debug)]
pub enum Step<T> {
    Write { change: Change, durability: Durability, answer: T },
    Leave(T),
}

/// The run to lock, and the deadline for it.
#[derive(Clone, Copy, Debug)]
pub struct Transaction<'a> {
    pub home: &'a Home,
    pub run: &'a RunId,
    pub deadline: Deadline,
    /// A copy loaded earlier. It is used instead of loading again if the journal has not grown since.
    pub seen: Option<&'a Opened>,
}

/// Locks the run, repairs its files if necessary, and appends the entry that `step` returns, if any.
pub fn transact<T>(
    transaction: &Transaction<'_>,
    step: impl FnOnce(&Opened) -> Step<T>,
) -> Result<T, StoreError> {
    let paths = transaction.home.run(transaction.run);
    let _lock: Lock = fs::lock(&paths.lock(), &transaction.deadline)?;
    let mut opened = match transaction.seen {
        Some(seen) if is_current(&paths, seen) => seen.clone(),
        Some(_) | None => load(transaction.home, transaction.run)?,
    };
    mend(&paths, &mut opened)?;
    match step(&opened) {
        Step::Leave(answer) => Ok(answer),
        Step::Write { change, durability, answer } => {
            append(&paths, &mut opened, change, durability)?;
            Ok(answer)
        }
    }
}

fn is_current(paths: &RunPaths, seen: &Opened) -> bool {
    seen.repair == Repair::Nothing
        && fs::stat(&paths.journal()).is_some_and(|stat| stat.len == seen.position.length)
}

fn mend(paths: &RunPaths, opened: &mut Opened) -> Result<(), StoreError> {
    match opened.repair {
        Repair::Nothing => return Ok(()),
        Repair::Rewrite => {
            quarantine_unreadable(paths)?;
            // A torn last line was never acted on. If it stayed, the next line would be appended to it.
            fs::truncate(&paths.journal(), opened.position.length)?;
            write_run(paths, &opened.run)?;
            write_state(paths, opened, Durability::Cached)?;
        }
        Repair::Restart => {
            quarantine_unreadable(paths)?;
            if fs::exists(&paths.journal()) {
                fs::quarantine(&paths.journal(), ralph_sys::clock::now_ms())?;
            }
            write_run(paths, &opened.run)?;
            let change = Change::Restored(Box::new(Restored {
                run: opened.run.clone(),
                state: opened.state.clone(),
            }));
            append(paths, opened, change, Durability::Synced)?;
        }
    }
    opened.repair = Repair::Nothing;
    Ok(())
}

fn quarantine_unreadable(paths: &RunPaths) -> Result<(), StoreError> {
    let stamp = ralph_sys::clock::now_ms();
    let garbled = |bytes: &Option<Vec<u8>>, parses: fn(&[u8]) -> bool| {
        bytes.as_deref().is_some_and(|bytes| !parses(bytes))
    };
    if garbled(&fs::read_opt(&paths.state(), LARGEST_STATE)?, |bytes| {
        serde_json::from_slice::<StateFile>(bytes).is_ok()
    }) {
        fs::quarantine(&paths.state(), stamp)?;
    }
    if garbled(&fs::read_opt(&paths.run(), LARGEST_RUN)?, |bytes| {
        serde_json::from_slice::<Run>(bytes).is_ok()
    }) {
        fs::quarantine(&paths.run(), stamp)?;
    }
    Ok(())
}

fn write_run(paths: &RunPaths, run: &Run) -> Result<(), StoreError> {
    let bytes = run_bytes(run);
    if fs::read_opt(&paths.run(), LARGEST_RUN)?.as_deref() != Some(&bytes) {
        fs::replace(&paths.run(), &bytes, Durability::Synced)?;
    }
    Ok(())
}

fn run_bytes(run: &Run) -> Vec<u8> {
    let mut bytes = serde_json::to_vec_pretty(run).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

fn append(
    paths: &RunPaths,
    opened: &mut Opened,
    change: Change,
    durability: Durability,
) -> Result<(), StoreError> {
    let mut entry = Entry {
        v: VERSION,
        seq: opened.state.seq,
        at_ms: ralph_sys::clock::now_ms(),
        prev: opened.position.head.clone(),
        iteration: 0,
        after: String::new(),
        change,
    };
    let mut after = opened.state.clone();
    after.apply(&entry);
    entry.iteration = after.iteration;
    entry.after = hash_of(&after);
    let line = journal::line(&entry);
    if let Err(error) = fs::append(&paths.journal(), &line, durability) {
        // A full disk can leave a partial line. Remove it now; later it would look like a crash.
        drop(fs::truncate(&paths.journal(), opened.position.length));
        return Err(error.into());
    }
    opened.position = Position {
        head: journal::hash(&line),
        length: opened.position.length + line.len() as u64,
        last_start: opened.position.length,
    };
    opened.state = after;
    drop(fs::overwrite(&paths.count(), format!("{:010}\n", opened.state.iteration).as_bytes()));
    // From here on the entry counts. A load catches up from the journal, so the state need not be written every time,
    // and an error in writing it can be ignored.
    if durability == Durability::Synced || entry.seq.is_multiple_of(STATE_EVERY) {
        drop(write_state(paths, opened, durability));
    }
    Ok(())
}

fn write_state(paths: &RunPaths, opened: &Opened, durability: Durability) -> Result<(), FileError> {
    let file = StateFile {
        v: VERSION,
        head: opened.position.head.clone(),
        last_start: opened.position.last_start,
        journal_length: opened.position.length,
        seal: journal::hash(&run_bytes(&opened.run)),
        state: opened.state.clone(),
    };
    let bytes = serde_json::to_vec(&file).unwrap_or_default();
    fs::replace(&paths.state(), &bytes, durability)
}

/// Files that are written beside a run when it is created.
#[derive(Clone, Copy, Debug, Default)]
pub struct Papers<'a> {
    pub goal: &'a [u8],
    /// Copies of the run's lists.
    pub lists: &'a [Vec<u8>],
}

/// Creates the run's directory and its first journal entry. Returns `false` if the id is taken.
pub fn create(
    home: &Home,
    run: &Run,
    papers: &Papers<'_>,
    deadline: &Deadline,
) -> Result<bool, StoreError> {
    let paths = home.run(&run.id);
    fs::create_dir(paths.directory())?;
    let _lock = fs::lock(&paths.lock(), deadline)?;
    if fs::exists(&paths.journal()) {
        return Ok(false);
    }
    fs::replace(&paths.goal(), papers.goal, Durability::Synced)?;
    for (number, list) in papers.lists.iter().enumerate() {
        let path = paths.list(number);
        path.parent().map_or(Ok(()), fs::create_dir)?;
        fs::replace(&path, list, Durability::Synced)?;
    }
    write_run(&paths, run)?;
    let position = Position { head: String::new(), length: 0, last_start: 0 };
    let state = State::new(run);
    let mut opened =
        Opened { run: run.clone(), state, tampering: None, position, repair: Repair::Nothing };
    append(&paths, &mut opened, Change::Started(Box::new(run.clone())), Durability::Synced)?;
    Ok(true)
}

/// Ids of all runs. Entries of the directory that are not run ids are skipped.
pub fn list(home: &Home) -> Result<Vec<RunId>, FileError> {
    const MOST: usize = 100_000;
    let names = match fs::list(&home.runs(), MOST) {
        Ok(names) => names,
        Err(error) if error.is_missing() => Vec::new(),
        Err(error) => return Err(error),
    };
    Ok(names.iter().filter_map(|name| RunId::parse(name.to_str()?)).collect())
}
