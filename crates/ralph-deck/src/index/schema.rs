//! The tables of the index and its version.

use rusqlite::{Connection, Transaction};

/// Raised with every change of the tables or their contents: an index of another version is rebuilt.
const FORMAT: i64 = 1;

/// Words are stemmed, so that `failing` finds `failed`; accents are ignored.
const CREATE_TABLES: &str = "
CREATE TABLE project (id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE);
CREATE TABLE source (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    owner TEXT NOT NULL,
    length INTEGER NOT NULL,
    modified_ns INTEGER NOT NULL,
    inode INTEGER NOT NULL,
    beside_ns INTEGER NOT NULL,
    has_ended INTEGER NOT NULL
);
CREATE TABLE past (source INTEGER PRIMARY KEY REFERENCES source (id), told TEXT NOT NULL);
CREATE TABLE record (
    id INTEGER PRIMARY KEY,
    source INTEGER NOT NULL REFERENCES source (id),
    kind TEXT NOT NULL,
    run TEXT,
    project INTEGER NOT NULL REFERENCES project (id),
    at_ms INTEGER NOT NULL,
    path TEXT NOT NULL,
    line INTEGER
);
CREATE INDEX record_of_source ON record (source);
CREATE INDEX record_by_kind ON record (project, kind);
CREATE VIRTUAL TABLE words USING fts5 (title, body, tokenize = 'porter unicode61 remove_diacritics 2');
";

/// In an order that respects foreign keys.
const DROP_TABLES: &str = "
DROP TABLE words;
DROP TABLE record;
DROP TABLE past;
DROP TABLE source;
DROP TABLE project;
";

/// `secure_delete` overwrites deleted text instead of leaving it in unused pages.
const PRAGMAS: &str = "
PRAGMA secure_delete = ON;
PRAGMA journal_mode = TRUNCATE;
PRAGMA synchronous = NORMAL;
PRAGMA temp_store = MEMORY;
PRAGMA trusted_schema = OFF;
";

/// Whether an index file can be used as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IndexLayout {
    Ours,
    Absent,
    /// Another version of the index, or a foreign database.
    Other,
}

pub(super) fn set_pragmas(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(PRAGMAS)
}

pub(super) fn check_layout(connection: &Connection) -> rusqlite::Result<IndexLayout> {
    let format: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    Ok(match (format, tables) {
        (FORMAT, 1..) => IndexLayout::Ours,
        (0, 0) => IndexLayout::Absent,
        _ => IndexLayout::Other,
    })
}

/// Empties the index. Dropping the tables is far cheaper than deleting the records one by one.
pub(super) fn recreate_tables(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    transaction.execute_batch(DROP_TABLES)?;
    transaction.execute_batch(CREATE_TABLES)
}

pub(super) fn create_tables(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    transaction.execute_batch(CREATE_TABLES)?;
    transaction.pragma_update(None, "user_version", FORMAT)?;
    transaction.commit()
}
