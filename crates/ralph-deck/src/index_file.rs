//! Opens an index file under a lock, and falls back to a copy in memory.
//!
//! An index is a cache. One that is damaged, or of another version, is rebuilt. Only one process refreshes it at a time:
//! two that replace a damaged file could otherwise undo each other's changes.

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

/// Where an index is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexStorage {
    OnDisk,
    /// It could not be written, or another process held it for too long, so the refresh is lost.
    InMemory,
}

/// `secure_delete` overwrites deleted text instead of leaving it in unused pages.
const PRAGMAS: &str = "
PRAGMA secure_delete = ON;
PRAGMA journal_mode = TRUNCATE;
PRAGMA synchronous = NORMAL;
PRAGMA temp_store = MEMORY;
PRAGMA trusted_schema = OFF;
";

/// The tables of an index.
#[derive(Debug)]
pub(crate) struct IndexLayout {
    /// Raised with every change of the tables or their contents: an index of another version is rebuilt.
    pub format: i64,
    pub create_tables: &'static str,
}

/// A table, index, view or trigger, as the database describes it.
#[derive(Debug, PartialEq, Eq)]
struct SchemaItem {
    kind: String,
    name: String,
    sql: Option<String>,
}

fn read_schema(connection: &Connection) -> rusqlite::Result<Vec<SchemaItem>> {
    let mut statement =
        connection.prepare("SELECT type, name, sql FROM sqlite_schema ORDER BY type, name")?;
    let items = statement.query_map([], |row| {
        Ok(SchemaItem { kind: row.get(0)?, name: row.get(1)?, sql: row.get(2)? })
    })?;
    items.collect()
}

/// An index: its file, the file that is locked while it is refreshed, and its tables.
#[derive(Clone, Debug)]
pub(crate) struct IndexFile {
    pub path: PathBuf,
    pub lock: PathBuf,
    pub layout: &'static IndexLayout,
}

/// What was done on an index, and the connection it was done with.
pub(crate) struct IndexedWork<T> {
    pub done: T,
    pub connection: Connection,
    pub storage: IndexStorage,
}

/// Whether an index file can be used as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LayoutMatch {
    Ours,
    Absent,
    /// Another version of the index, or a foreign database.
    Other,
}

impl IndexFile {
    /// Runs `work` on the index. `work` is called again with another connection if the first one fails.
    pub(crate) fn with_index<T>(
        &self,
        work: impl Fn(&mut Connection) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<IndexedWork<T>> {
        if let Some(lock) = self.lock() {
            let done = self.work_on_disk(&work);
            drop(lock);
            if let Ok((done, connection)) = done {
                return Ok(IndexedWork { done, connection, storage: IndexStorage::OnDisk });
            }
        }
        let storage = IndexStorage::InMemory;
        if let Ok(mut connection) = self.copy_to_memory()
            && let Ok(done) = work(&mut connection)
        {
            return Ok(IndexedWork { done, connection, storage });
        }
        let mut connection = Connection::open_in_memory()?;
        self.layout.create(&mut connection)?;
        let done = work(&mut connection)?;
        Ok(IndexedWork { done, connection, storage })
    }

    /// Whether the index is in a directory of ralph's own. A link could lead to files that a refresh must not change.
    fn has_own_directory(&self) -> bool {
        let directory = self.path.parent().and_then(fs::stat_no_follow);
        directory.is_some_and(|stat| stat.kind == fs::FileKind::Directory)
    }

    fn lock(&self) -> Option<FileLock> {
        fs::create_private_dir(self.lock.parent()?).ok()?;
        if !self.has_own_directory() {
            return None;
        }
        fs::acquire_lock(&self.lock, &Deadline::after(LOCK_TIMEOUT)).ok()
    }

    fn work_on_disk<T>(
        &self,
        work: impl Fn(&mut Connection) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<(T, Connection)> {
        let attempt = || {
            let mut connection = self.open()?;
            Ok((work(&mut connection)?, connection))
        };
        match attempt() {
            Err(error) if is_damage(&error) && remove_index(&self.path) => attempt(),
            done => done,
        }
    }

    fn open(&self) -> rusqlite::Result<Connection> {
        let path = &self.path;
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
        connection.execute_batch(PRAGMAS)?;
        match self.layout.check(&connection)? {
            LayoutMatch::Ours => Ok(connection),
            LayoutMatch::Absent => self.layout.create(&mut connection).map(|()| connection),
            LayoutMatch::Other => Err(foreign_index()),
        }
    }

    /// A connection that cannot write.
    pub(crate) fn open_read_only(&self) -> rusqlite::Result<Connection> {
        let is_file =
            fs::stat_no_follow(&self.path).is_some_and(|stat| stat.kind == fs::FileKind::File);
        if !is_file || !self.has_own_directory() {
            return Err(cannot_open());
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.path, flags)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        if self.layout.check(&connection)? == LayoutMatch::Ours {
            Ok(connection)
        } else {
            Err(foreign_index())
        }
    }

    /// A copy of the index in memory.
    fn copy_to_memory(&self) -> rusqlite::Result<Connection> {
        let disk = self.open_read_only()?;
        let mut memory = Connection::open_in_memory()?;
        let copied = Backup::new(&disk, &mut memory)?.step(ALL_PAGES)?;
        if copied == StepResult::Done {
            Ok(memory)
        } else {
            Err(sqlite_failure(rusqlite::ffi::SQLITE_BUSY))
        }
    }
}

impl IndexLayout {
    fn check(&self, connection: &Connection) -> rusqlite::Result<LayoutMatch> {
        let format: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
        let schema = read_schema(connection)?;
        Ok(if format == self.format && schema == self.expected_schema()? {
            LayoutMatch::Ours
        } else if format == 0 && schema.is_empty() {
            LayoutMatch::Absent
        } else {
            LayoutMatch::Other
        })
    }

    /// What a new index has. A view or trigger that is not ours could run anything whenever a table is read or written.
    fn expected_schema(&self) -> rusqlite::Result<Vec<SchemaItem>> {
        let connection = Connection::open_in_memory()?;
        connection.execute_batch(self.create_tables)?;
        read_schema(&connection)
    }

    fn create(&self, connection: &mut Connection) -> rusqlite::Result<()> {
        let transaction = connection.transaction()?;
        transaction.execute_batch(self.create_tables)?;
        transaction.pragma_update(None, "user_version", self.format)?;
        transaction.commit()
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
