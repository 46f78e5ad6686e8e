//! The run index: what the screens and `ralph sql` show of all runs, without reading all journals.
//!
//! It is a cache over the journals of runs and of sessions without a run, and can be deleted at any time. A refresh reads
//! only what was appended since. A line is parsed as far as the index needs it; the hash chain of a journal is not
//! checked here, so nothing in the index is evidence. `ralph verify` and `ralph why` read the journal itself.

mod day_tally;
mod detail_views;
mod gate_tally;
mod journal_line;
mod journal_reader;
mod requirement_history;
mod run_filter;
mod run_queries;
mod run_refresh;
mod run_rows;
mod run_tables;
mod run_tally;
mod spend_tally;
mod sql_session;
mod stats_queries;

use crate::index::IndexCoverage;
use crate::index_file::{IndexFile, IndexStorage, IndexedWork};
use ralph_core::id::RunId;
use ralph_home::paths::RalphHome;
use ralph_sys::clock::Deadline;
use rusqlite::Connection;

pub use run_filter::{FilterError, RunFilter};
pub use run_queries::{IndexedGate, IndexedPage, IndexedRequirement, IndexedRun, PageKey};
pub use sql_session::{SqlCell, SqlError, SqlSession, schema_text};

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
        Ok(Self { home: home.clone(), file, connection, storage })
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
        let Self { home, file, connection, storage } = self;
        if *storage == IndexStorage::InMemory {
            return Ok(run_refresh::refresh_runs(connection, home, deadline)?);
        }
        // The file is opened again, because it may have been deleted or replaced.
        let work =
            |connection: &mut Connection| run_refresh::refresh_runs(connection, home, deadline);
        let IndexedWork { done, connection, storage } = file.with_index(work)?;
        (self.connection, self.storage) = (connection, storage);
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
        Ok(run_queries::open_runs(&self.connection)?)
    }

    /// A page of the history, latest first. Without a filter, only runs that have ended.
    pub fn ended_page(
        &self,
        filter: &RunFilter,
        before: Option<&PageKey>,
        limit: usize,
    ) -> Result<IndexedPage, RunIndexError> {
        Ok(run_queries::history_page(&self.connection, filter, before, limit)?)
    }

    /// How many runs all pages of the filter have.
    pub fn count(&self, filter: &RunFilter) -> Result<u64, RunIndexError> {
        Ok(run_queries::count_runs(&self.connection, filter)?)
    }

    /// The directories of all projects with runs.
    pub fn projects(&self) -> Result<Vec<String>, RunIndexError> {
        Ok(run_queries::list_projects(&self.connection)?)
    }

    /// What the runs of these projects cost on a day, such as `2026-11-15`, in millionths of a dollar.
    pub fn spent_on_day(&self, day: &str, projects: &[String]) -> Result<u64, RunIndexError> {
        Ok(run_queries::spent_on_day(&self.connection, day, projects)?)
    }

    pub fn run(&self, run: &RunId) -> Result<Option<IndexedRun>, RunIndexError> {
        Ok(run_queries::find_run(&self.connection, run)?)
    }

    /// The requirements of a run that were open at least once, those that held most stops first.
    pub fn requirements_of(&self, run: &RunId) -> Result<Vec<IndexedRequirement>, RunIndexError> {
        Ok(run_queries::run_requirements(&self.connection, run)?)
    }

    /// The gates of a run, the slowest first.
    pub fn gates_of(&self, run: &RunId) -> Result<Vec<IndexedGate>, RunIndexError> {
        Ok(run_queries::run_gates(&self.connection, run)?)
    }
}

#[cfg(test)]
mod sample_journals;
#[cfg(test)]
mod tests;
