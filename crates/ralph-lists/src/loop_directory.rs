//! Names of the files in a loop directory, which ralph shares with other tools.

/// The directory of all loops, relative to the project.
pub const LOOPS_DIR: &str = ".claude/data/ralph-loops";
/// The loop directory if `RALPH_LOOP_DIR` is not set, relative to the project.
pub const DEFAULT_DIRECTORY: &str = ".claude/data/ralph-loops/current";
/// The file with the instructions for the agent.
pub const PROMPT_FILE: &str = "RALPH_PROMPT.md";
pub const FEATURES_FILE: &str = "feature_list.json";
pub const PROGRESS_FILE: &str = "progress.txt";
