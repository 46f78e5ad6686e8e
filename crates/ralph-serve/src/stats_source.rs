//! Reads the figures over all runs: the stats, and the metrics for a scraper.

use crate::history_source::REFRESH_TIMEOUT;
use crate::server_state::ServerState;
use ralph_deck::IndexCoverage;
use ralph_deck::page::metrics::{metric_families, prometheus_text};
use ralph_deck::page::stats::{self, StatsPage, StatsScope};
use ralph_deck::stats_source::{self, StatsData};
use ralph_sys::clock::{self, Deadline};

/// The stats over all projects.
#[derive(Debug)]
pub(crate) struct LoadedStats {
    pub(crate) page: StatsPage,
    /// Whether every journal was read in time.
    pub(crate) coverage: IndexCoverage,
}

pub(crate) fn load_stats(state: &ServerState) -> Option<LoadedStats> {
    let deadline = Deadline::after(REFRESH_TIMEOUT);
    let (rows, coverage) = stats_source::load_rows(&state.home, &deadline).ok()?;
    let StatsData { rows, settings, applied } = StatsData::load(&state.home, &rows, None).ok()?;
    let scope = StatsScope::default();
    let page = stats::stats_page(rows, scope, &settings, &applied, clock::now_ms());
    Some(LoadedStats { page, coverage })
}

/// The metrics as text, and whether every journal was read in time.
pub(crate) fn load_metrics(state: &ServerState) -> Option<(String, IndexCoverage)> {
    let deadline = Deadline::after(REFRESH_TIMEOUT);
    let (rows, coverage) = stats_source::load_rows(&state.home, &deadline).ok()?;
    Some((prometheus_text(&metric_families(rows)), coverage))
}
