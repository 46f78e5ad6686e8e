//! Answers SQL queries that a person types, on a connection that can only read.

use super::detail_views::{self, DETAIL_VIEWS, QueryDeadline};
use super::run_tables;
use ralph_home::paths::RalphHome;
use ralph_sys::clock::Deadline;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, Row};
use std::ops::ControlFlow;
use std::time::Duration;

/// Bounds a value that a query builds, and with it how long one function call takes: the time is not checked during it.
const MAX_VALUE_BYTES: i32 = 256 * 1024;
/// A pattern is compared at every position of a value.
const MAX_PATTERN_BYTES: i32 = 1_000;
/// A row with one such value takes about twenty instructions, and milliseconds.
const STEPS_PER_CHECK: i32 = 200;
/// Of longer values, only the beginning is returned: no row with many of them may fill the memory.
const MAX_RETURNED_BYTES: usize = 64 * 1024;
const PRAGMAS: &str = "
PRAGMA temp_store = MEMORY;
PRAGMA trusted_schema = OFF;
PRAGMA hard_heap_limit = 1073741824;
";
/// The internal table holds nothing that is worth a query, and may change at any time.
const INTERNAL_TABLE: &str = "journal";

/// A connection to the index that answers queries and changes nothing.
#[derive(Debug)]
pub struct SqlSession {
    connection: Connection,
    deadline: QueryDeadline,
}

/// A value of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum SqlCell {
    Null,
    Integer(i64),
    Real(f64),
    Text(String),
    /// Bytes, which a query can only have built itself.
    Blob(Vec<u8>),
}

#[derive(Debug, thiserror::Error)]
pub enum SqlError {
    #[error("there is no query")]
    Empty,
    #[error("only one query at a time can be answered")]
    SeveralQueries,
    #[error("the query is not allowed: only `SELECT` is")]
    NotAllowed,
    #[error("the index was deleted meanwhile; run the query again")]
    IndexReplaced,
    #[error("the query took longer than {} s", .0.as_secs())]
    TimedOut(Duration),
    #[error("{0}")]
    Wrong(String),
}

/// The tables and views with their columns.
pub fn schema_text() -> String {
    let mut out = run_tables::documented_tables().trim().to_string();
    out.push_str("\n\n-- Views that read the journals of the runs you ask for, so name a `run` where you can.\n");
    for view in &DETAIL_VIEWS {
        out.push_str(&format!("CREATE VIEW {} (\n    run,\n", view.name));
        for (at, (column, meaning)) in view.columns.iter().enumerate() {
            let comma = if at + 1 == view.columns.len() { "" } else { "," };
            let column = format!("{column}{comma}");
            let line = match *meaning {
                "" => format!("    {column}\n"),
                meaning => format!("    {column:<22}-- {meaning}\n"),
            };
            out.push_str(&line);
        }
        out.push_str(");\n");
    }
    out
}

impl SqlSession {
    pub(super) fn new(mut connection: Connection, home: &RalphHome) -> rusqlite::Result<Self> {
        let deadline = QueryDeadline::default();
        connection.execute_batch(PRAGMAS)?;
        detail_views::create_views(&connection, home, &deadline)?;
        connection.execute_batch("PRAGMA query_only = ON")?;
        connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)?;
        connection.set_limit(Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, MAX_PATTERN_BYTES)?;
        connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
        let watched = deadline.clone();
        let is_late = move || detail_views::is_late(&watched);
        connection.progress_handler(STEPS_PER_CHECK, Some(is_late))?;
        connection.authorizer(Some(authorize))?;
        Ok(Self { connection, deadline })
    }

    /// Runs one query. `each` gets the columns and a row, and may end the query.
    pub fn query(
        &mut self,
        sql: &str,
        timeout: Duration,
        each: impl FnMut(&[String], Vec<SqlCell>) -> ControlFlow<()>,
    ) -> Result<Vec<String>, SqlError> {
        if let Ok(mut deadline) = self.deadline.lock() {
            *deadline = Some(Deadline::after(timeout));
        }
        self.answer(sql, each).map_err(|error| match error {
            SqlFault::Sqlite(error) => describe_fault(&error, timeout),
            SqlFault::Other(error) => error,
        })
    }

    fn answer(
        &self,
        sql: &str,
        mut each: impl FnMut(&[String], Vec<SqlCell>) -> ControlFlow<()>,
    ) -> Result<Vec<String>, SqlFault> {
        let mut statement = self.connection.prepare(sql)?;
        let columns = column_names(&statement);
        if columns.is_empty() {
            let is_empty = sql.trim_matches(|c: char| c.is_whitespace() || c == ';').is_empty();
            // `VACUUM INTO` is the one statement that the authorizer sees only when it runs.
            let error = if is_empty { SqlError::Empty } else { SqlError::NotAllowed };
            return Err(SqlFault::Other(error));
        }
        let mut rows = statement.raw_query();
        while let Some(row) = rows.next()? {
            let cells = (0..columns.len()).map(|at| read_cell(row, at));
            let cells = cells.collect::<rusqlite::Result<Vec<_>>>()?;
            if each(&columns, cells).is_break() {
                break;
            }
        }
        Ok(columns)
    }
}

enum SqlFault {
    Sqlite(rusqlite::Error),
    Other(SqlError),
}

impl From<rusqlite::Error> for SqlFault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

/// The names of the columns. One that occurs twice gets a number, so that each can be a field of an object.
fn column_names(statement: &rusqlite::Statement<'_>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in statement.column_names() {
        let mut unique = name.to_string();
        let mut number = 2;
        while names.contains(&unique) {
            unique = format!("{name}_{number}");
            number += 1;
        }
        names.push(unique);
    }
    names
}

fn read_cell(row: &Row<'_>, at: usize) -> rusqlite::Result<SqlCell> {
    Ok(match row.get_ref(at)? {
        ValueRef::Null => SqlCell::Null,
        ValueRef::Integer(number) => SqlCell::Integer(number),
        ValueRef::Real(number) => SqlCell::Real(number),
        ValueRef::Text(text) => {
            SqlCell::Text(String::from_utf8_lossy(beginning(text)).into_owned())
        }
        ValueRef::Blob(bytes) => SqlCell::Blob(beginning(bytes).to_vec()),
    })
}

fn beginning(bytes: &[u8]) -> &[u8] {
    bytes.get(..MAX_RETURNED_BYTES).unwrap_or(bytes)
}

/// Allows what reads, and denies everything else.
fn authorize(context: AuthContext<'_>) -> Authorization {
    let is_allowed = if let AuthAction::Read { table_name, .. } = context.action {
        table_name != INTERNAL_TABLE
    } else {
        let (select, recursive) = (AuthAction::Select, AuthAction::Recursive);
        let is_function = matches!(context.action, AuthAction::Function { .. });
        is_function || context.action == select || context.action == recursive
    };
    if is_allowed { Authorization::Allow } else { Authorization::Deny }
}

fn describe_fault(error: &rusqlite::Error, timeout: Duration) -> SqlError {
    if matches!(error, rusqlite::Error::MultipleStatement) {
        return SqlError::SeveralQueries;
    }
    match error.sqlite_error_code() {
        Some(ErrorCode::AuthorizationForStatementDenied) => SqlError::NotAllowed,
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen) => SqlError::IndexReplaced,
        Some(ErrorCode::OperationInterrupted) => SqlError::TimedOut(timeout),
        _ => SqlError::Wrong(error.to_string()),
    }
}
