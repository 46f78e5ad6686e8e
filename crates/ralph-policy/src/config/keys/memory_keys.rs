//! Keys of `[memory]`: what ralph learns from runs, and which sessions get it.

use super::{ConfigKey, ValueKind};

/// More would displace what the agent needs for its work.
const MAX_CHARS: u32 = 8_000;

pub(super) static MEMORY: &[ConfigKey] = &[
    ConfigKey {
        name: "learn",
        kind: ValueKind::Flag(|draft, flag| draft.policy.memory.learn = flag),
        description: "Whether ralph derives lessons from a run when it ends: what held it, what fixed it, what did not help.",
    },
    ConfigKey {
        name: "sessions",
        kind: ValueKind::Flag(|draft, flag| draft.policy.memory.sessions = flag),
        description: "Whether sessions without a run get matching lessons and notes with a prompt, each once. Requires an approved policy.",
    },
    ConfigKey {
        name: "max_chars",
        kind: ValueKind::Count {
            least: 0,
            most: MAX_CHARS,
            set: |draft, count| draft.policy.memory.max_chars = count,
        },
        description: "How many characters of lessons and notes an agent gets at once; 0 gives it none.",
    },
];
