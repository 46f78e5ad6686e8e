//! Limits on foreign input that more than one module enforces. A limit that only one module needs stays beside its use.

/// A goal, whether typed, read from a file or imported. An agent receives the whole goal or none: nothing is cut.
pub const MAX_GOAL_BYTES: usize = 2 * 1024 * 1024;
/// `feature_list.json` and `progress.txt`.
pub const MAX_LIST_BYTES: usize = 32 * 1024 * 1024;
/// Features or items of one list.
pub const MAX_LIST_ITEMS: usize = 20_000;
/// A settings file of a host.
pub const MAX_SETTINGS_BYTES: usize = 4 * 1024 * 1024;
/// `ralph.toml` and `config.toml`.
pub const MAX_POLICY_BYTES: usize = 1024 * 1024;
/// One event on the standard input of a hook.
pub const MAX_EVENT_BYTES: usize = 32 * 1024 * 1024;
/// One line of a host's output stream.
pub const MAX_STREAM_LINE_BYTES: usize = 16 * 1024 * 1024;
/// A path, as the kernel accepts it.
pub const MAX_PATH_BYTES: usize = 4096;
