//! Names and limits of the files in a loop directory, which ralph shares with other tools.

/// The loop directory if `RALPH_LOOP_DIR` is not set, relative to the project.
pub const DEFAULT_DIRECTORY: &str = ".claude/data/ralph-loops/current";
pub const FEATURES_FILE: &str = "feature_list.json";
pub const PROGRESS_FILE: &str = "progress.txt";
/// Maximum size of a list, in bytes.
pub const MAX_LIST_BYTES: usize = 32 * 1024 * 1024;
