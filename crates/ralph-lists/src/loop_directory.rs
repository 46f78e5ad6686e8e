//! The names of the files in a loop directory, which other tools share with ralph.

/// Where a loop directory lies when `RALPH_LOOP_DIR` names none, relative to the project.
pub const DEFAULT_DIRECTORY: &str = ".claude/data/ralph-loops/current";
pub const FEATURES: &str = "feature_list.json";
pub const PROGRESS: &str = "progress.txt";
pub const LARGEST_LIST: usize = 32 * 1024 * 1024;
