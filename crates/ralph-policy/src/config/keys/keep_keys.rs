//! Keys of `[keep]`: how long ralph keeps its own files. They are the person's, of all projects, so only their own file
//! may set these: a repository could have records removed that a person still needs.

use super::{ConfigKey, HOUR_MS, ValueKind};

const MAX_RUNS: u32 = 100_000;
const MAX_CACHE_MIB: u32 = 1024 * 1024;
const BYTES_PER_MIB: u64 = 1024 * 1024;
/// Anything shorter could remove what is still in use.
const LEAST_AGE_MS: u64 = HOUR_MS;
const MAX_AGE_MS: u64 = 3650 * 24 * HOUR_MS;

pub(super) static KEEP: &[ConfigKey] = &[
    ConfigKey {
        name: "runs",
        kind: ValueKind::Count {
            least: 0,
            most: MAX_RUNS,
            set: |draft, count| draft.keep.max_runs = count,
        },
        description: "How many ended runs of a project are kept, the newest first. Runs that need a person or may still be accepted do not count.",
    },
    ConfigKey {
        name: "age",
        kind: ValueKind::Duration {
            least_ms: LEAST_AGE_MS,
            most_ms: MAX_AGE_MS,
            set: |draft, ms| draft.keep.max_age_ms = ms,
        },
        description: "How long ended runs, records of sessions and results of gates are kept after their last use.",
    },
    ConfigKey {
        name: "cache_mib",
        kind: ValueKind::Count {
            least: 0,
            most: MAX_CACHE_MIB,
            set: |draft, mib| draft.keep.max_cache_bytes = u64::from(mib) * BYTES_PER_MIB,
        },
        description: "How many MiB of results and logs of gates are kept; those that were not used for the longest time go first.",
    },
];
