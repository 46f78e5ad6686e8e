//! Reads the goal of a run. An agent gets the whole goal or none of it: a part would be another goal.

use crate::faults::describe_error;
use crate::journal;
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
        "the goal of run `{run}` is not the one it started with: `{}` was changed",
        path.display()
    )]
    Changed { run: RunId, path: PathBuf },
}

/// The whole goal; empty if the run has none.
pub fn read_goal(home: &RalphHome, run: &RunRecord) -> Result<Vec<u8>, GoalFileError> {
    if run.goal_bytes == 0 {
        return Ok(Vec::new());
    }
    let (path, id) = (home.run(&run.id).goal(), run.id.clone());
    let goal = fs::read(&path, MAX_GOAL_BYTES)
        .map_err(|source| GoalFileError::Unreadable { run: id.clone(), source })?;
    let is_same = run.goal_hash.as_ref().is_none_or(|hash| journal::hash_bytes(&goal) == *hash);
    if goal.len() as u64 != run.goal_bytes || !is_same {
        return Err(GoalFileError::Changed { run: id, path });
    }
    Ok(goal)
}

/// One line about a goal that is no longer the one of the start. The journal has only its hash, so it cannot be restored.
/// A run of an older version, without the hash, keeps its behaviour.
pub fn find_goal_edit(home: &RalphHome, run: &RunRecord) -> Option<String> {
    run.goal_hash.as_ref()?;
    match read_goal(home, run) {
        Ok(_) => None,
        Err(GoalFileError::Changed { .. }) => {
            Some("`goal.txt` was changed after the start".to_string())
        }
        Err(error @ GoalFileError::Unreadable { .. }) => Some(describe_error(&error)),
    }
}
