//! What the derived files of a run say about it: enough to choose, among thousands of runs, those to load.

use crate::paths::RalphHome;
use crate::store::{MAX_RUN_BYTES, MAX_STATE_BYTES};
use ralph_core::id::RunId;
use ralph_core::run::RunPhase;
use ralph_sys::fs;
use ralph_sys::parallel;
use serde::Deserialize;

/// Fewer are read by this thread alone.
const PARALLEL_RUNS: usize = 500;

/// A run as `run.json` and `state.json` describe it, without the checks of [`load_run`](crate::store::load_run). It may
/// be forged, so it only spares views the runs that they would not show; whatever is shown or decided comes from the
/// loaded run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunOutline {
    /// The directory that it works in and, if that is a work tree of its own, the repository that the tree came from.
    pub directories: Vec<String>,
    pub phase: RunPhase,
    pub last_seen_ms: u64,
}

impl RunOutline {
    pub fn has_ended(&self) -> bool {
        matches!(self.phase, RunPhase::Ended(_))
    }
}

/// A run, with its outline if its files agree with the length of its journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutlinedRun {
    pub id: RunId,
    pub outline: Option<RunOutline>,
}

#[derive(Deserialize)]
struct RecordOutline {
    project: String,
    drive: Option<DriveOutline>,
}

#[derive(Deserialize)]
struct DriveOutline {
    worktree: Option<WorktreeOutline>,
}

#[derive(Deserialize)]
struct WorktreeOutline {
    from: String,
}

#[derive(Deserialize)]
struct StateFileOutline {
    journal_length: u64,
    state: StateOutline,
}

#[derive(Deserialize)]
struct StateOutline {
    phase: RunPhase,
    last_seen_ms: u64,
}

/// The runs with their outlines, in the given order.
pub fn read_outlines(home: &RalphHome, runs: Vec<RunId>) -> Vec<OutlinedRun> {
    let outlined = |id: RunId| OutlinedRun { outline: read_outline(home, &id), id };
    if runs.len() < PARALLEL_RUNS {
        return runs.into_iter().map(outlined).collect();
    }
    parallel::map_in_parallel(runs, outlined)
}

fn read_outline(home: &RalphHome, run: &RunId) -> Option<RunOutline> {
    let paths = home.run(run);
    let bytes = fs::read(&paths.state(), MAX_STATE_BYTES).ok()?;
    let StateFileOutline { journal_length, state } = serde_json::from_slice(&bytes).ok()?;
    // A longer journal has entries that the state does not have yet.
    if fs::stat(&paths.journal())?.len != journal_length {
        return None;
    }
    let bytes = fs::read(&paths.run_record(), MAX_RUN_BYTES).ok()?;
    let record: RecordOutline = serde_json::from_slice(&bytes).ok()?;
    let worktree = record.drive.and_then(|drive| drive.worktree);
    let directories = std::iter::once(record.project).chain(worktree.map(|tree| tree.from));
    Some(RunOutline {
        directories: directories.collect(),
        phase: state.phase,
        last_seen_ms: state.last_seen_ms,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{self, RunFiles, RunTransaction, TransactionStep};
    use ralph_core::drive::{DriveSettings, RunWorktree};
    use ralph_core::record::{RunChange, RunRecord};
    use ralph_sys::clock::Deadline;
    use ralph_sys::fs::Durability;
    use std::time::Duration;

    fn created(home: &RalphHome, id: &str, worktree: Option<RunWorktree>) -> RunId {
        let id = RunId::parse(id).unwrap();
        let mut record = RunRecord::new(id.clone(), "/srv/shop".to_string(), 1_000);
        record.drive = worktree
            .map(|tree| Box::new(DriveSettings { worktree: Some(tree), ..DriveSettings::DEFAULT }));
        let deadline = Deadline::after(Duration::from_mins(1));
        assert!(store::create_run(home, &record, &RunFiles::default(), &deadline).unwrap());
        id
    }

    /// An outline has what the loaded run has, and there is none where the state lags behind the journal or a file cannot
    /// be read: then the run is loaded.
    #[test]
    fn an_outline_agrees_with_the_loaded_run() {
        let directory = tempfile::tempdir().unwrap();
        let home = RalphHome::new(directory.path().to_path_buf());
        let tree = serde_json::json!({
            "path": "/srv/shop", "branch": "b", "from": "/srv/origin", "base": "c", "then": "merge",
        });
        let tree: RunWorktree = serde_json::from_value(tree).unwrap();
        let runs = [created(&home, "aaaa", None), created(&home, "bbbb", Some(tree))];
        let change = |run: &RunId, change: RunChange, durability| {
            let deadline = Deadline::after(Duration::from_mins(1));
            let transaction = RunTransaction { home: &home, run, deadline, by: None, loaded: None };
            store::transact(&transaction, |_| TransactionStep::Write {
                change,
                durability,
                answer: (),
            })
            .unwrap();
        };
        let outlines = || read_outlines(&home, runs.to_vec()).into_iter().map(|run| run.outline);
        change(&runs[0], RunChange::Paused, Durability::Synced);
        for (run, outline) in runs.iter().zip(outlines()) {
            let loaded = store::load_run(&home, run).unwrap();
            let outline = outline.unwrap();
            assert_eq!(
                (outline.phase, outline.last_seen_ms),
                (loaded.state.phase, loaded.state.last_seen_ms)
            );
        }
        let directories: Vec<_> = outlines().map(|outline| outline.unwrap().directories).collect();
        assert_eq!(directories, [vec!["/srv/shop"], vec!["/srv/shop", "/srv/origin"]]);
        // Ordinary entries reach the state only every few lines.
        change(&runs[0], RunChange::Anchored, Durability::Cached);
        fs::remove_file(&home.run(&runs[1]).run_record()).unwrap();
        assert_eq!(outlines().collect::<Vec<_>>(), [None, None]);
    }
}
