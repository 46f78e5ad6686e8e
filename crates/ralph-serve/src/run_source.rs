//! Reads one run, its checkpoints and its changes.

use crate::change_totals::ChangeTotals;
use crate::server_state::ServerState;
use ralph_core::id::RunId;
use ralph_core::redact::Redactor;
use ralph_core::run::RunPhase;
use ralph_core::text;
use ralph_deck::page::{
    self, CheckpointDiff, CheckpointReader, CheckpointRow, EarlierLines, FileComparison, RunPage,
};
use ralph_home::store;
use ralph_hook::{control, overview};
use ralph_sys::clock::{self, Deadline};
use ralph_sys::fs;
use std::time::Duration;

/// How long git may take for a page.
pub(crate) const GIT_TIMEOUT: Duration = Duration::from_secs(20);

/// How long git may take to list the changed files for the page itself, which is drawn anew at every event.
const FILES_TIMEOUT: Duration = Duration::from_secs(2);

const LONGEST_LINE: usize = 300;

/// A run with what the page of a run shows beside its journal.
#[derive(Debug)]
pub(crate) struct RunDetails {
    pub(crate) page: RunPage,
    pub(crate) waivers: Vec<ActiveWaiver>,
    pub(crate) checkpoints: Vec<CheckpointRow>,
    /// `None` without two checkpoints, or if git cannot compare them.
    pub(crate) changed: Option<ChangeTotals>,
    pub(crate) has_ended: bool,
}

/// A waiver that has not ended.
#[derive(Clone, Debug)]
pub(crate) struct ActiveWaiver {
    pub(crate) requirement: String,
    pub(crate) by: String,
    pub(crate) why: String,
    pub(crate) until_ms: u64,
}

/// Two checkpoints and the files that differ.
#[derive(Debug)]
pub(crate) struct RunComparison {
    pub(crate) checkpoints: Vec<CheckpointRow>,
    pub(crate) changed: CheckpointDiff,
    /// The files that are shown line by line.
    pub(crate) files: Vec<FileComparison>,
}

/// What a comparison is asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct ComparisonQuery {
    pub(crate) from: Option<u32>,
    pub(crate) to: Option<u32>,
    pub(crate) path: Option<String>,
}

/// `None` if there is no such run or it cannot be read.
pub(crate) fn load_run(state: &ServerState, run: &RunId) -> Option<RunDetails> {
    let home = &state.home;
    if !fs::exists(home.run(run).directory()) {
        return None;
    }
    let now_ms = clock::now_ms();
    let page =
        RunPage::load(&state.env, home, run, now_ms, &Deadline::after(FILES_TIMEOUT)).ok()?;
    let opened = store::load_run(home, run).ok()?;
    let active = opened.state.waivers.iter().filter(|waiver| waiver.until_ms > now_ms);
    let line = |foreign: &str| text::clean_line(foreign, LONGEST_LINE);
    let waivers = active.map(|waiver| ActiveWaiver {
        requirement: line(&waiver.requirement),
        by: line(&waiver.by),
        why: line(&waiver.why),
        until_ms: waiver.until_ms,
    });
    let waivers = waivers.collect();
    let has_ended = matches!(control::effective_phase(home, &opened), RunPhase::Ended(_));
    let reader = open_checkpoints(state, run);
    let checkpoints = reader.as_ref().and_then(|reader| reader.list().ok()).unwrap_or_default();
    let changed = state.changes.totals(run, &checkpoints, || {
        let changed = reader.as_ref()?.changed_since_start().ok()?;
        Some(ChangeTotals::from(&changed))
    });
    Some(RunDetails { page, waivers, checkpoints, changed, has_ended })
}

/// The lines of a run that its page leaves out. `None` if there is no such run or it cannot be read.
pub(crate) fn load_earlier_lines(
    state: &ServerState,
    run: &RunId,
    before: u64,
    most: usize,
) -> Option<EarlierLines> {
    let history = overview::run_history(&state.home, run).ok()?;
    Some(page::earlier_lines(&history.entries, before, most))
}

fn open_checkpoints(state: &ServerState, run: &RunId) -> Option<CheckpointReader> {
    CheckpointReader::open(&state.home, run, Deadline::after(GIT_TIMEOUT)).ok()
}

/// Files that are shown on one page if none is named.
const MAX_SHOWN_FILES: usize = 3;

/// Compares two checkpoints: the first and the last unless others are named. `None` if there are none.
pub(crate) fn compare_checkpoints(
    state: &ServerState,
    run: &RunId,
    query: &ComparisonQuery,
) -> Option<RunComparison> {
    let reader = open_checkpoints(state, run)?;
    let changed = reader.changed_between(query.from, query.to).ok()?;
    let named: Vec<String> = match &query.path {
        Some(path) => vec![path.clone()],
        None => changed.files.iter().take(MAX_SHOWN_FILES).map(|file| file.path.clone()).collect(),
    };
    let redactor = Redactor::new(state.env.secrets());
    let files = named
        .iter()
        .filter_map(|path| reader.compare_file(changed.from, changed.to, path, &redactor).ok())
        .collect();
    Some(RunComparison { checkpoints: reader.list().ok()?, changed, files })
}
