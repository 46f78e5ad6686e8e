//! Reads one run, its checkpoints and its changes.

use crate::server_state::ServerState;
use ralph_core::id::RunId;
use ralph_core::run::RunPhase;
use ralph_core::text;
use ralph_deck::page::{ChangedFiles, FileComparison, RunPage};
use ralph_git::checkpoint::{Checkpoint, CheckpointRepository};
use ralph_home::run_process;
use ralph_home::store;
use ralph_hook::control;
use ralph_sys::clock::{self, Deadline};
use ralph_sys::fs;
use std::path::PathBuf;
use std::time::Duration;

/// How long git may take for a page.
const GIT_TIMEOUT: Duration = Duration::from_secs(20);

const LONGEST_LINE: usize = 300;

/// A run with what the page of a run shows beside its journal.
#[derive(Debug)]
pub(crate) struct RunDetails {
    pub(crate) page: RunPage,
    pub(crate) waivers: Vec<ActiveWaiver>,
    pub(crate) checkpoints: Vec<CheckpointChoice>,
    pub(crate) has_ended: bool,
    /// Whether a runner has to be started for it to continue, which needs a terminal.
    pub(crate) needs_runner: bool,
}

/// A waiver that has not ended.
#[derive(Clone, Debug)]
pub(crate) struct ActiveWaiver {
    pub(crate) requirement: String,
    pub(crate) by: String,
    pub(crate) why: String,
    pub(crate) until_ms: u64,
}

/// A checkpoint in a list.
#[derive(Clone, Debug)]
pub(crate) struct CheckpointChoice {
    pub(crate) number: u32,
    pub(crate) at_ms: u64,
    pub(crate) reason: String,
}

/// Two checkpoints and the files that differ.
#[derive(Debug)]
pub(crate) struct RunComparison {
    pub(crate) checkpoints: Vec<CheckpointChoice>,
    pub(crate) changed: ChangedFiles,
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
    let page = RunPage::load(home, run, now_ms).ok()?;
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
    let needs_runner = opened.run.drive.is_some() && !run_process::may_be_driven(home, run);
    let checkpoints = open_repository(state, run)
        .and_then(|(repository, deadline)| repository.list(&deadline).ok())
        .map(|found| found.iter().map(CheckpointChoice::of).collect());
    Some(RunDetails {
        page,
        waivers,
        checkpoints: checkpoints.unwrap_or_default(),
        has_ended,
        needs_runner,
    })
}

fn open_repository(state: &ServerState, run: &RunId) -> Option<(CheckpointRepository, Deadline)> {
    let deadline = Deadline::after(GIT_TIMEOUT);
    let project = PathBuf::from(store::load_run(&state.home, run).ok()?.run.project);
    let repository = CheckpointRepository::open(&state.home, run, &project, &deadline).ok()?;
    Some((repository, deadline))
}

/// Files that are shown on one page if none is named.
const MAX_SHOWN_FILES: usize = 3;

/// Compares two checkpoints: the first and the last unless others are named. `None` if there are not two.
pub(crate) fn compare_checkpoints(
    state: &ServerState,
    run: &RunId,
    query: &ComparisonQuery,
) -> Option<RunComparison> {
    let (repository, deadline) = open_repository(state, run)?;
    let found = repository.list(&deadline).ok()?;
    let by_number = |number: Option<u32>| found.iter().find(|one| Some(one.number) == number);
    let from = by_number(query.from).or_else(|| found.first().filter(|_| query.from.is_none()))?;
    let to = by_number(query.to).or_else(|| found.last().filter(|_| query.to.is_none()))?;
    let changed = ChangedFiles::load(&repository, from, to, &deadline).ok()?;
    let named: Vec<String> = match &query.path {
        Some(path) => vec![path.clone()],
        None => changed.files.iter().take(MAX_SHOWN_FILES).map(|file| file.path.clone()).collect(),
    };
    let files = named
        .iter()
        .filter_map(|path| FileComparison::load(&repository, from, to, path, &deadline).ok()?)
        .collect();
    let checkpoints = found.iter().map(CheckpointChoice::of).collect();
    Some(RunComparison { checkpoints, changed, files })
}

impl CheckpointChoice {
    fn of(checkpoint: &Checkpoint) -> Self {
        Self {
            number: checkpoint.number,
            at_ms: checkpoint.at_ms,
            reason: ralph_deck::wording::safe_line(&checkpoint.reason.to_string()),
        }
    }
}
