//! Refreshes the run index: reads what was appended to journals, and drops the runs that were removed.
//!
//! All cores read journals; this thread alone writes, in one transaction.

use super::run_rows::RunWriter;
use crate::index::IndexCoverage;
use ralph_core::id::RunId;
use ralph_home::paths::RalphHome;
use ralph_home::store;
use ralph_sys::clock::Deadline;
use ralph_sys::fs;
use ralph_tally::{JournalCursor, ReaderBuffers, RunTally};
use rusqlite::{Connection, OptionalExtension, TransactionBehavior};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, SyncSender};
use std::thread;

/// More threads than this gain nothing: one thread writes.
const MAX_READERS: usize = 16;
/// How many journals are read ahead of the writer.
const READ_AHEAD: usize = 64;

/// A journal to read.
struct StaleJournal {
    run: RunId,
    modified_ns: u64,
    known: Option<(JournalCursor, RunTally)>,
    is_indexed: bool,
}

/// A journal that was read.
pub(super) struct ReadJournal {
    pub run: RunId,
    pub position: JournalCursor,
    pub tally: RunTally,
    /// The tally to continue from; `None` once the run has ended. The few lines that may follow an end are not worth
    /// the space: then the journal is read again.
    pub stored: Option<Vec<u8>>,
    pub is_indexed: bool,
}

pub(super) fn refresh_runs(
    connection: &mut Connection,
    home: &RalphHome,
    deadline: &Deadline,
) -> rusqlite::Result<IndexCoverage> {
    let mut known = indexed_journals(connection)?;
    // If the runs cannot be listed, nothing is known about them and everything is kept.
    let Ok(runs) = store::list_records(home) else { return Ok(IndexCoverage::Partial) };
    let mut stale = Vec::new();
    for run in runs {
        // Without a journal there is nothing to show; a run that was indexed is dropped below.
        let Some(stat) = fs::stat(&home.run(&run).journal()) else { continue };
        let known = known.remove(run.as_str());
        if known.as_ref().is_some_and(|position| position.is_current(&stat)) {
            continue;
        }
        let is_indexed = known.is_some();
        let known = match known {
            Some(position) => stored_tally(connection, &run)?.map(|tally| (position, tally)),
            None => None,
        };
        stale.push(StaleJournal { run, modified_ns: stat.modified_ns, known, is_indexed });
    }
    let gone = known.into_keys().collect::<Vec<_>>();
    if stale.is_empty() && gone.is_empty() {
        return Ok(IndexCoverage::Whole);
    }
    // Newest first, in case the time limit is reached.
    stale.sort_unstable_by_key(|stale| std::cmp::Reverse(stale.modified_ns));
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut writer = RunWriter::new(&transaction)?;
    for run in gone {
        writer.drop_run(&run)?;
    }
    let coverage = read_stale(home, stale, deadline, &mut writer)?;
    drop(writer);
    transaction.commit()?;
    Ok(coverage)
}

fn indexed_journals(connection: &Connection) -> rusqlite::Result<HashMap<String, JournalCursor>> {
    let columns = "run, inode, length, modified_ns, read_to, tail";
    let mut statement = connection.prepare(&format!("SELECT {columns} FROM journal"))?;
    let rows = statement.query_map([], |row| {
        let position = JournalCursor {
            inode: row.get::<_, i64>(1)?.cast_unsigned(),
            length: row.get::<_, i64>(2)?.cast_unsigned(),
            modified_ns: row.get::<_, i64>(3)?.cast_unsigned(),
            read_to: row.get::<_, i64>(4)?.cast_unsigned(),
            tail: row.get(5)?,
        };
        Ok((row.get(0)?, position))
    })?;
    rows.collect()
}

fn stored_tally(connection: &Connection, run: &RunId) -> rusqlite::Result<Option<RunTally>> {
    let mut statement = connection.prepare_cached("SELECT tally FROM journal WHERE run = ?1")?;
    let stored: Option<Vec<u8>> =
        statement.query_row([run.as_str()], |row| row.get(0)).optional()?.flatten();
    Ok(stored.and_then(|stored| serde_json::from_slice(&stored).ok()))
}

fn read_stale(
    home: &RalphHome,
    stale: Vec<StaleJournal>,
    deadline: &Deadline,
    writer: &mut RunWriter<'_>,
) -> rusqlite::Result<IndexCoverage> {
    let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let readers = cores.min(MAX_READERS).min(stale.len());
    let queue: Vec<_> = stale.into_iter().map(|stale| std::sync::Mutex::new(Some(stale))).collect();
    let (next, is_late) = (AtomicUsize::new(0), AtomicBool::new(false));
    let read_on = |sender: SyncSender<ReadJournal>| {
        let mut buffers = ReaderBuffers::default();
        while let Some(slot) = queue.get(next.fetch_add(1, Ordering::Relaxed)) {
            if deadline.has_passed() {
                is_late.store(true, Ordering::Relaxed);
                return;
            }
            let stale = slot.lock().ok().and_then(|mut slot| slot.take());
            let read = stale.and_then(|stale| read_one(home, stale, &mut buffers));
            if read.is_some_and(|read| sender.send(read).is_err()) {
                return;
            }
        }
    };
    thread::scope(|scope| {
        let (sender, received) = mpsc::sync_channel(READ_AHEAD);
        for _ in 0..readers {
            let (sender, read_on) = (sender.clone(), &read_on);
            scope.spawn(move || read_on(sender));
        }
        drop(sender);
        received.into_iter().try_for_each(|read| writer.put_run(&read))
    })?;
    let is_late = is_late.load(Ordering::Relaxed);
    Ok(if is_late { IndexCoverage::Partial } else { IndexCoverage::Whole })
}

/// `None` if the journal cannot be read; `ralph status` reports that. The run is left as it was indexed.
fn read_one(
    home: &RalphHome,
    StaleJournal { run, known, is_indexed, .. }: StaleJournal,
    buffers: &mut ReaderBuffers,
) -> Option<ReadJournal> {
    let path = home.run(&run).journal();
    let (position, tally) = ralph_tally::read_journal(&path, known, buffers).ok()?;
    let stored = if tally.has_ended() { None } else { serde_json::to_vec(&tally).ok() };
    Some(ReadJournal { run, position, tally, stored, is_indexed })
}
