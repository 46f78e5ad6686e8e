//! Names and limits of the files in a loop directory, which ralph shares with other tools.

/// The loop directory if `RALPH_LOOP_DIR` is not set, relative to the project.
pub const DEFAULT_DIRECTORY: &str = ".claude/data/ralph-loops/current";
pub const FEATURES: &str = "feature_list.json";
pub const PROGRESS: &str = "progress.txt";
/// Maximum size of a list, in bytes.
pub const LARGEST_LIST: usize = 32 * 1024 * 1024;
