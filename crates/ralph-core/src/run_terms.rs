//! The terms that a person sets for a new run: goal, limits, lists. Flags, slash commands and queue files all state
//! them in this form.

use crate::gate::Gate;
use crate::input_bounds::MAX_GOAL_BYTES;
use crate::limits::LimitOverrides;
use crate::policy::MergeThreshold;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunTerms {
    /// Byte for byte as given. Empty if lists or the project's gates are all there is to do.
    pub goal: Vec<u8>,
    pub limits: LimitOverrides,
    pub lists: RequestedLists,
    /// The text that ends the run when a message closes with it.
    pub promise: Option<String>,
    /// The stated complexity of the work, from 0 to 10.
    pub complexity: Option<u8>,
    /// Whether the agent must report phases.
    pub phases: bool,
    /// Globs of test files that the goal asks to change.
    pub may_change: Vec<String>,
    /// The least status with which the work is merged.
    pub accept: Option<MergeThreshold>,
    /// Commands that a person typed for this run only. They become gates of the sealed policy; no file of a repository
    /// may state them.
    pub checks: Vec<Gate>,
}

/// The lists whose items must all be completed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestedLists {
    /// Directories with `feature_list.json`.
    pub features: Vec<String>,
    /// Markdown files with items.
    pub plans: Vec<String>,
    /// The newest task list in the conversation.
    pub checklist: bool,
    /// The client's own task list.
    pub tasks: bool,
}

impl RequestedLists {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A goal above [`MAX_GOAL_BYTES`]. It is rejected, because an agent must receive the whole goal or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GoalTooLong;

impl GoalTooLong {
    /// What to do instead.
    pub const HINT: &str = "put long material into files of the project and name them in the goal";
}

impl fmt::Display for GoalTooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the goal is longer than {} MiB", MAX_GOAL_BYTES / (1024 * 1024))
    }
}

impl core::error::Error for GoalTooLong {}

pub fn check_goal_length(goal: &[u8]) -> Result<(), GoalTooLong> {
    if goal.len() > MAX_GOAL_BYTES { Err(GoalTooLong) } else { Ok(()) }
}
