//! Reads the goal of a run. An agent gets the whole goal or none of it: a part would be another goal.

use crate::paths::RalphHome;
use ralph_core::id::RunId;
use ralph_core::input_bounds::MAX_GOAL_BYTES;
use ralph_core::record::RunRecord;
use ralph_sys::fs::{self, FileError};
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum GoalFileError {
    #[error("the goal of run `{run}` cannot be read")]
    Unreadable { run: RunId, source: FileError },
    #[error(
        "the goal of run `{run}` is not the one it started with: `{}` has {found} bytes, not {expected}",
        path.display()
    )]
    Changed { run: RunId, path: PathBuf, found: usize, expected: u64 },
}

/// The whole goal; empty if the run has none.
pub fn read_goal(home: &RalphHome, run: &RunRecord) -> Result<Vec<u8>, GoalFileError> {
    if run.goal_bytes == 0 {
        return Ok(Vec::new());
    }
    let (path, id) = (home.run(&run.id).goal(), run.id.clone());
    let goal = fs::read(&path, MAX_GOAL_BYTES)
        .map_err(|source| GoalFileError::Unreadable { run: id.clone(), source })?;
    if goal.len() as u64 != run.goal_bytes {
        let (found, expected) = (goal.len(), run.goal_bytes);
        return Err(GoalFileError::Changed { run: id, path, found, expected });
    }
    Ok(goal)
}
