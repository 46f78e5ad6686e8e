//! Loads what the screens show.

use crate::watch_effect::{LoadRequest, LoadedPage};
use ralph_core::id::RunId;
use ralph_core::redact::Redactor;
use ralph_core::text;
use ralph_deck::page::{
    BoardClock, BoardPage, CheckpointReadError, CheckpointReader, HistoryError, HistoryPage,
    RunPage, projects_in, stop_reason,
};
use ralph_deck::run_index::{RunIndex, RunIndexError};
use ralph_home::faults::describe_error;
use ralph_home::paths::RalphHome;
use ralph_hook::overview;
use ralph_hook::project_scope::ProjectScope;
use ralph_sys::clock::{self, Deadline};
use ralph_sys::env::Env;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

/// How long one look at the journals may take. What is left is read at the next one.
const REFRESH_TIMEOUT: Duration = Duration::from_secs(3);
const GIT_TIMEOUT: Duration = Duration::from_secs(20);
/// How long git may take to list the changed files for the page of a run, which is read anew at every event.
const FILES_TIMEOUT: Duration = Duration::from_secs(2);
const EARLIER_RUNS: usize = 100;
const LONGEST_ERROR: usize = 300;

/// Reads the pages of one home.
#[derive(Debug)]
pub struct WatchPages {
    env: Env,
    home: RalphHome,
    /// Only the runs of this project.
    scope: Option<ProjectScope>,
    index: RunIndex,
    seen_ms: u64,
}

impl WatchPages {
    /// `seen_ms` is since when ended runs are shown.
    pub fn open(
        env: Env,
        home: RalphHome,
        scope: Option<ProjectScope>,
        seen_ms: u64,
    ) -> Result<Self, RunIndexError> {
        let index = RunIndex::open(&home)?;
        Ok(Self { env, home, scope, index, seen_ms })
    }

    pub fn load(&mut self, request: &LoadRequest) -> LoadedPage {
        let loaded = match request {
            LoadRequest::Board => self.load_board(),
            LoadRequest::Run(run) => self.load_run(run),
            LoadRequest::Earlier { filter, before } => {
                return self.load_earlier(filter, before.as_deref());
            }
            LoadRequest::Reason { run, seq } => self.load_reason(run, *seq),
            LoadRequest::Files(run) => {
                let files = self.checkpoints(run).and_then(|reader| reader.changed_since_start());
                Ok(LoadedPage::Files { run: run.clone(), files: files.map_err(|why| show(&why)) })
            }
            LoadRequest::Checkpoints(run) => {
                let checkpoints = self.checkpoints(run).and_then(|reader| reader.list());
                let checkpoints = checkpoints.map_err(|why| show(&why));
                Ok(LoadedPage::Checkpoints { run: run.clone(), checkpoints })
            }
            LoadRequest::CheckpointFiles { run, number } => self
                .checkpoints(run)
                .and_then(|reader| reader.changed_by(*number))
                .map(|files| LoadedPage::CheckpointFiles { run: run.clone(), files })
                .map_err(|why| show(&why)),
            LoadRequest::Comparison { run, from, to, path } => {
                let redactor = Redactor::new(self.env.secrets());
                let compare =
                    |reader: CheckpointReader| reader.compare_file(*from, *to, path, &redactor);
                let compared = self.checkpoints(run).and_then(compare);
                let page = compared.map(|comparison| LoadedPage::Comparison {
                    run: run.clone(),
                    from: *from,
                    to: *to,
                    comparison,
                });
                page.map_err(|why| show(&why))
            }
        };
        loaded.unwrap_or_else(LoadedPage::Failed)
    }

    fn load_board(&mut self) -> Result<LoadedPage, String> {
        self.index.refresh(&Deadline::after(REFRESH_TIMEOUT)).map_err(|why| show(&why))?;
        let clock = BoardClock { seen_ms: self.seen_ms, now_ms: clock::now_ms() };
        let board =
            BoardPage::load(&self.env, &self.home, &self.index, self.scope.as_ref(), &clock);
        board.map(|board| LoadedPage::Board(Box::new(board))).map_err(|why| show(&why))
    }

    fn load_run(&self, run: &RunId) -> Result<LoadedPage, String> {
        let deadline = Deadline::after(FILES_TIMEOUT);
        let page = RunPage::load(&self.env, &self.home, run, clock::now_ms(), &deadline);
        page.map(|page| LoadedPage::Run(Box::new(page))).map_err(|why| show(&why))
    }

    fn load_earlier(&self, filter: &str, before: Option<&str>) -> LoadedPage {
        let projects = self.scope.as_ref().map(|scope| projects_in(&self.index, scope));
        let projects = match projects.transpose() {
            Ok(projects) => projects,
            Err(why) => return LoadedPage::Failed(show(&why)),
        };
        let page = HistoryPage::load_within(
            &self.index,
            projects.as_deref(),
            filter,
            before,
            EARLIER_RUNS,
            clock::now_ms(),
        );
        match page {
            Ok(page) => LoadedPage::Earlier {
                filter: filter.to_string(),
                is_first: before.is_none(),
                rows: page.rows,
                total: page.total,
                next: page.next,
            },
            Err(HistoryError::Filter(why)) => {
                LoadedPage::FilterRefused { filter: filter.to_string(), why: show(&why) }
            }
            Err(why @ (HistoryError::Index(_) | HistoryError::Key(_))) => {
                LoadedPage::Failed(show(&why))
            }
        }
    }

    fn load_reason(&self, run: &RunId, seq: u64) -> Result<LoadedPage, String> {
        let history = overview::run_history(&self.home, run).map_err(|why| show(&why))?;
        let text = stop_reason(&history.entries, seq);
        Ok(LoadedPage::Reason { run: run.clone(), seq, text })
    }

    fn checkpoints(&self, run: &RunId) -> Result<CheckpointReader, CheckpointReadError> {
        CheckpointReader::open(&self.home, run, Deadline::after(GIT_TIMEOUT))
    }

    pub(crate) fn home(&self) -> &RalphHome {
        &self.home
    }
}

/// The directories whose changes matter: those of the runs in progress, and where new runs and queues appear.
pub(crate) fn watched_directories<'a>(
    home: &RalphHome,
    runs: impl Iterator<Item = &'a RunId>,
) -> BTreeSet<PathBuf> {
    let mut directories: BTreeSet<PathBuf> =
        runs.map(|run| home.run(run).directory().to_path_buf()).collect();
    directories.extend([home.root().to_path_buf(), home.runs(), home.queues()]);
    directories
}

fn show(error: &dyn std::error::Error) -> String {
    text::clean_line(&describe_error(error), LONGEST_ERROR)
}
