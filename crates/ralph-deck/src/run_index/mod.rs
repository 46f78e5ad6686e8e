//! The run index: what the screens and `ralph sql` show of all runs, without reading all journals.
//!
//! It is a cache over the journals of runs and of sessions without a run, and can be deleted at any time. A refresh reads
//! only what was appended since. A line is parsed as far as the index needs it; the hash chain of a journal is not
//! checked here, so nothing in the index is evidence. Only `ralph why` and `ralph report`
//! read the whole journal and check it.

mod detail_views;
mod run_filter;
mod run_queries;
mod run_refresh;
mod run_rows;
mod run_tables;
mod sql_session;
mod stats_queries;

use crate::index::IndexCoverage;
use crate::index_file::{IndexFile, IndexStorage, IndexedWork};
use detail_views::QueryDeadline;
use ralph_core::id::RunId;
use ralph_home::paths::RalphHome;
use ralph_sys::clock::Deadline;
use rusqlite::Connection;
use std::time::Duration;

pub use run_filter::{FilterError, RunFilter};
pub use run_queries::{IndexedGate, IndexedPage, IndexedRequirement, IndexedRun, PageKey};
pub use sql_session::{SqlCell, SqlError, SqlSession, schema_text};

/// How long one query may take. All runs of a large home take less than a second.
const QUERY_TIMEOUT: Duration = Duration::from_secs(20);
/// How many instructions of the database run before the time is checked: about a millisecond.
const STEPS_PER_CHECK: i32 = 20_000;

/// Not even an index in memory could be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the index of runs")]
pub struct RunIndexError(#[from] rusqlite::Error);

/// An open index. It shows the runs as of the last [`refresh`](Self::refresh).
#[derive(Debug)]
pub struct RunIndex {
    home: RalphHome,
    file: IndexFile,
    connection: Connection,
    storage: IndexStorage,
    /// When the current query has to end.
    deadline: QueryDeadline,
}

/// Ends queries of this connection at the deadline.
fn limit_time(
    mut connection: Connection,
    deadline: &QueryDeadline,
) -> rusqlite::Result<Connection> {
    let deadline = QueryDeadline::clone(deadline);
    let is_late = move || detail_views::is_late(&deadline);
    connection.progress_handler(STEPS_PER_CHECK, Some(is_late))?;
    Ok(connection)
}

impl RunIndex {
    /// Opens the index without reading any journal. If it cannot be written, a copy in memory is used from then on.
    pub fn open(home: &RalphHome) -> Result<Self, RunIndexError> {
        let file = IndexFile {
            path: home.run_index(),
            lock: home.run_index_lock(),
            layout: &run_tables::RUN_LAYOUT,
        };
        let IndexedWork { connection, storage, .. } = file.with_index(|_| Ok(()))?;
        let deadline = QueryDeadline::default();
        let connection = limit_time(connection, &deadline)?;
        Ok(Self { home: home.clone(), file, connection, storage, deadline })
    }

    /// Opens the index and reads what was appended to journals, until the deadline.
    pub fn open_refreshed(
        home: &RalphHome,
        deadline: &Deadline,
    ) -> Result<(Self, IndexCoverage), RunIndexError> {
        let mut index = Self::open(home)?;
        let coverage = index.refresh(deadline)?;
        Ok((index, coverage))
    }

    /// Reads what was appended to journals since the last refresh, until the deadline.
    pub fn refresh(&mut self, deadline: &Deadline) -> Result<IndexCoverage, RunIndexError> {
        let Self { home, file, connection, storage, deadline: query_deadline } = self;
        if *storage == IndexStorage::InMemory {
            if let Ok(mut query_deadline) = query_deadline.lock() {
                *query_deadline = None;
            }
            return Ok(run_refresh::refresh_runs(connection, home, deadline)?);
        }
        // The file is opened again, because it may have been deleted or replaced.
        let work =
            |connection: &mut Connection| run_refresh::refresh_runs(connection, home, deadline);
        let IndexedWork { done, connection, storage } = file.with_index(work)?;
        (self.connection, self.storage) = (limit_time(connection, &self.deadline)?, storage);
        Ok(done)
    }

    /// Turns the index into one that answers SQL, with the runs as of the last refresh. Nothing can be written with it.
    pub fn into_sql(self) -> Result<SqlSession, RunIndexError> {
        let connection = match self.storage {
            IndexStorage::OnDisk => self.file.open_read_only()?,
            IndexStorage::InMemory => self.connection,
        };
        Ok(SqlSession::new(connection, &self.home)?)
    }

    pub fn storage(&self) -> IndexStorage {
        self.storage
    }

    /// Runs that have not ended: those that need a person first, then by the time of their last entry, latest first.
    pub fn waiting_and_working(&self) -> Result<Vec<IndexedRun>, RunIndexError> {
        self.answer(run_queries::open_runs)
    }

    /// A page of the history, latest first. Without a filter, only runs that have ended.
    pub fn ended_page(
        &self,
        filter: &RunFilter,
        before: Option<&PageKey>,
        limit: usize,
    ) -> Result<IndexedPage, RunIndexError> {
        self.answer(|connection| run_queries::history_page(connection, filter, before, limit))
    }

    /// How many runs all pages of the filter have.
    pub fn count(&self, filter: &RunFilter) -> Result<u64, RunIndexError> {
        self.answer(|connection| run_queries::count_runs(connection, filter))
    }

    /// The directories of all projects with runs.
    pub fn projects(&self) -> Result<Vec<String>, RunIndexError> {
        self.answer(run_queries::list_projects)
    }

    /// What the runs of these projects cost on a day, such as `2026-11-15`, in millionths of a dollar.
    pub fn spent_on_day(&self, day: &str, projects: &[String]) -> Result<u64, RunIndexError> {
        self.answer(|connection| run_queries::spent_on_day(connection, day, projects))
    }

    pub fn run(&self, run: &RunId) -> Result<Option<IndexedRun>, RunIndexError> {
        self.answer(|connection| run_queries::find_run(connection, run))
    }

    /// The requirements of a run that were open at least once, those that held most stops first.
    pub fn requirements_of(&self, run: &RunId) -> Result<Vec<IndexedRequirement>, RunIndexError> {
        self.answer(|connection| run_queries::run_requirements(connection, run))
    }

    /// The gates of a run, the slowest first.
    pub fn gates_of(&self, run: &RunId) -> Result<Vec<IndexedGate>, RunIndexError> {
        self.answer(|connection| run_queries::run_gates(connection, run))
    }

    /// Runs a query of ralph's own, for a limited time: the file may have been prepared to take forever.
    fn answer<T>(
        &self,
        query: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, RunIndexError> {
        if let Ok(mut deadline) = self.deadline.lock() {
            *deadline = Some(Deadline::after(QUERY_TIMEOUT));
        }
        Ok(query(&self.connection)?)
    }
}

#[cfg(test)]
mod sample_journals;
#[cfg(test)]
mod tests;
