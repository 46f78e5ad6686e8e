//! The tables of the index and its version.

use crate::index_file::IndexLayout;
use rusqlite::Transaction;

pub(super) const RECALL_LAYOUT: IndexLayout =
    IndexLayout { format: 1, create_tables: CREATE_TABLES };

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

/// Empties the index. Dropping the tables is far cheaper than deleting the records one by one.
pub(super) fn recreate_tables(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    transaction.execute_batch(DROP_TABLES)?;
    transaction.execute_batch(CREATE_TABLES)
}
