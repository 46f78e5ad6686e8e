//! Opens the index file under a lock, and falls back to a copy in memory.

use super::schema::{self, IndexLayout};
use crate::recall_context::RecallContext;
use ralph_sys::clock::Deadline;
use ralph_sys::fs::{self, Durability, FileLock};
use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long to wait for another process; after that the index on disk is not used.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
/// Busy timeout, in case another program such as `sqlite3` has the file open.
const BUSY_TIMEOUT: Duration = Duration::from_millis(500);
const ALL_PAGES: i32 = -1;

/// Where the searched index was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexStorage {
    OnDisk,
    /// It could not be written, or another process held it for too long, so the refresh is lost.
    InMemory,
}

/// Runs `work` on the index. `work` is called again with another connection if the first one fails.
pub(super) fn with_index<T>(
    context: &RecallContext,
    work: impl Fn(&mut Connection) -> rusqlite::Result<T>,
) -> rusqlite::Result<(T, IndexStorage)> {
    if let Some(lock) = lock_index(context) {
        let done = work_on_disk(&context.home.recall_index(), &work);
        drop(lock);
        if let Ok(done) = done {
            return Ok((done, IndexStorage::OnDisk));
        }
    }
    if let Ok(mut connection) = copy_to_memory(&context.home.recall_index())
        && let Ok(done) = work(&mut connection)
    {
        return Ok((done, IndexStorage::InMemory));
    }
    let mut connection = Connection::open_in_memory()?;
    schema::create_tables(&mut connection)?;
    Ok((work(&mut connection)?, IndexStorage::InMemory))
}

fn lock_index(context: &RecallContext) -> Option<FileLock> {
    fs::create_private_dir(&context.home.index()).ok()?;
    fs::acquire_lock(&context.home.recall_lock(), &Deadline::after(LOCK_TIMEOUT)).ok()
}

fn work_on_disk<T>(
    path: &Path,
    work: impl Fn(&mut Connection) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    let attempt = || work(&mut open_index(path)?);
    match attempt() {
        Err(error) if is_damage(&error) && remove_index(path) => attempt(),
        done => done,
    }
}

fn open_index(path: &Path) -> rusqlite::Result<Connection> {
    // Created by us, so that only the user may read it; SQLite gives its journal the same permissions.
    if fs::stat_no_follow(path).is_none() {
        fs::append(path, b"", Durability::Cached).map_err(|_| cannot_open())?;
    }
    if fs::stat_no_follow(path).is_none_or(|stat| stat.kind != fs::FileKind::File) {
        return Err(cannot_open());
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    schema::set_pragmas(&connection)?;
    match schema::check_layout(&connection)? {
        IndexLayout::Ours => Ok(connection),
        IndexLayout::Absent => schema::create_tables(&mut connection).map(|()| connection),
        IndexLayout::Other => Err(foreign_index()),
    }
}

/// A copy of the index in memory.
fn copy_to_memory(path: &Path) -> rusqlite::Result<Connection> {
    if fs::stat(path).is_none_or(|stat| stat.kind != fs::FileKind::File) {
        return Err(cannot_open());
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let disk = Connection::open_with_flags(path, flags)?;
    disk.busy_timeout(BUSY_TIMEOUT)?;
    if schema::check_layout(&disk)? != IndexLayout::Ours {
        return Err(foreign_index());
    }
    let mut memory = Connection::open_in_memory()?;
    let copied = Backup::new(&disk, &mut memory)?.step(ALL_PAGES)?;
    if copied == StepResult::Done {
        Ok(memory)
    } else {
        Err(sqlite_failure(rusqlite::ffi::SQLITE_BUSY))
    }
}

/// Whether rebuilding would help: a damaged page, a missing table, a row of the wrong shape.
fn is_damage(error: &rusqlite::Error) -> bool {
    !matches!(
        error.sqlite_error_code(),
        Some(
            ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::PermissionDenied
                | ErrorCode::OutOfMemory
                | ErrorCode::ReadOnly
                | ErrorCode::SystemIoFailure
                | ErrorCode::DiskFull
                | ErrorCode::CannotOpen
        )
    )
}

fn remove_index(path: &Path) -> bool {
    let beside = |ending: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(ending);
        PathBuf::from(name)
    };
    let paths = ["-journal", "-wal", "-shm", ""].map(beside);
    paths.iter().all(|path| fs::stat_no_follow(path).is_none() || fs::remove_file(path).is_ok())
}

fn cannot_open() -> rusqlite::Error {
    sqlite_failure(rusqlite::ffi::SQLITE_CANTOPEN)
}

fn foreign_index() -> rusqlite::Error {
    sqlite_failure(rusqlite::ffi::SQLITE_NOTADB)
}

fn sqlite_failure(code: i32) -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None)
}
