//! Reads the history and the figures over all runs from the index.

use crate::server_state::ServerState;
use ralph_core::status::RunStatus;
use ralph_deck::page::RunStanding;
use ralph_deck::run_index::{
    FilterError, GateInsight, HistoryFilter, IndexedRun, InsightScope, PageKey, RequirementInsight,
    RunIndex, StatusCount, WeekInsight,
};
use ralph_sys::clock::{self, Deadline};
use serde::Serialize;
use std::time::Duration;

const RUNS_PER_PAGE: usize = 50;
/// How long a page waits for new journal lines to be indexed. What is missing then comes with the next page.
const REFRESH_TIMEOUT: Duration = Duration::from_secs(5);
const MAX_WEEKS: usize = 12;
const MAX_ROWS: usize = 20;

/// A page of the history.
#[derive(Debug)]
pub(crate) struct HistoryPage {
    pub(crate) now_ms: u64,
    pub(crate) query: String,
    /// Why the filter cannot be used.
    pub(crate) mistake: Option<FilterError>,
    pub(crate) runs: Vec<IndexedRun>,
    pub(crate) count: u64,
    pub(crate) statuses: Vec<StatusCount>,
    /// Where the next page begins.
    pub(crate) next: Option<String>,
}

/// Figures over all runs.
#[derive(Debug)]
pub(crate) struct InsightsPage {
    pub(crate) statuses: Vec<StatusCount>,
    pub(crate) weeks: Vec<WeekInsight>,
    pub(crate) requirements: Vec<RequirementInsight>,
    pub(crate) gates: Vec<GateInsight>,
}

/// A run of the history in JSON.
#[derive(Debug, Serialize)]
pub(crate) struct HistoryRunView<'a> {
    run: &'a str,
    status: &'a str,
    title: &'a str,
    project: &'a str,
    started_ms: u64,
    ended_ms: Option<u64>,
    because: &'a str,
    iteration: u32,
    ran_ms: u64,
    micro_usd: Option<u64>,
    met: u32,
    required: u32,
}

#[derive(Debug, Serialize)]
pub(crate) struct HistoryView<'a> {
    v: u8,
    runs: Vec<HistoryRunView<'a>>,
    /// For `before`.
    next: Option<&'a str>,
}

impl HistoryPage {
    pub(crate) fn view(&self) -> HistoryView<'_> {
        let runs = self.runs.iter().map(|run| HistoryRunView {
            run: run.id.as_str(),
            status: &run.status,
            title: &run.title,
            project: &run.project,
            started_ms: run.started_ms,
            ended_ms: run.ended_ms,
            because: &run.because,
            iteration: run.iteration,
            ran_ms: run.ran_ms,
            micro_usd: run.micro_usd,
            met: run.met,
            required: run.required,
        });
        HistoryView { v: 1, runs: runs.collect(), next: self.next.as_deref() }
    }
}

fn open_index(state: &ServerState) -> Option<RunIndex> {
    let mut index = RunIndex::open(&state.home).ok()?;
    index.refresh(&Deadline::after(REFRESH_TIMEOUT)).ok()?;
    Some(index)
}

/// The runs of a filter, latest first. A filter with a mistake finds nothing and says so.
pub(crate) fn load_history(
    state: &ServerState,
    query: &str,
    before: Option<&str>,
) -> Option<HistoryPage> {
    let now_ms = clock::now_ms();
    let mut page = HistoryPage {
        now_ms,
        query: ralph_core::text::clean_line(query, 300),
        mistake: None,
        runs: Vec::new(),
        count: 0,
        statuses: Vec::new(),
        next: None,
    };
    let filter = match HistoryFilter::parse(&page.query, now_ms) {
        Ok(filter) => filter,
        Err(mistake) => return Some(HistoryPage { mistake: Some(mistake), ..page }),
    };
    let index = open_index(state)?;
    let before = before.and_then(PageKey::parse);
    let found = index.ended_page(&filter, before.as_ref(), RUNS_PER_PAGE).ok()?;
    page.count = index.count(&filter).ok()?;
    page.statuses = index.status_counts(&filter).ok()?;
    page.runs = found.runs;
    page.next = found.next.map(|key| key.to_string());
    Some(page)
}

pub(crate) fn load_insights(state: &ServerState) -> Option<InsightsPage> {
    let index = open_index(state)?;
    let scope = InsightScope::default();
    let mut page = InsightsPage {
        statuses: index.status_counts(&HistoryFilter::default()).ok()?,
        weeks: index.week_insights(&scope).ok()?,
        requirements: index.requirement_insights(&scope).ok()?,
        gates: index.gate_insights(&scope).ok()?,
    };
    page.weeks.truncate(MAX_WEEKS);
    page.requirements.truncate(MAX_ROWS);
    page.gates.truncate(MAX_ROWS);
    Some(page)
}

/// The standing that the index recorded.
pub(crate) fn indexed_standing(run: &IndexedRun) -> RunStanding {
    let status = RunStatus::ALL.into_iter().find(|status| status.name() == run.status);
    match (run.phase.as_str(), status) {
        ("parked", Some(status)) => RunStanding::Parked(status),
        (_, Some(status)) => RunStanding::Ended(status),
        (_, None) => RunStanding::ALL
            .into_iter()
            .find(|standing| standing.name() == run.status)
            .unwrap_or(RunStanding::Working),
    }
}
