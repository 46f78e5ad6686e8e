//! Keys of `[runner]`: how `ralph run` drives an agent. A runner spends a person's money and rate limits, so only their
//! own file may set these.

use super::{ConfigKey, HOUR_MS, ValueKind};

const SECOND_MS: u64 = 1000;
const MAX_WAIT_MS: u64 = 31 * 24 * HOUR_MS;

pub(super) static RUNNER: &[ConfigKey] = &[
    ConfigKey {
        name: "sessions",
        kind: ValueKind::Choice(&["hybrid", "same-session", "fresh-per-feature"]),
        description: "When a fresh session takes over: `hybrid` when the context is nearly full, `same-session` never, `fresh-per-feature` also whenever another requirement is met.",
    },
    ConfigKey {
        name: "model",
        kind: ValueKind::Model,
        description: "The model that the agent starts with. Defaults to the agent's own choice.",
    },
    ConfigKey {
        name: "stronger_model",
        kind: ValueKind::Model,
        description: "The model to try when nothing else made progress.",
    },
    ConfigKey {
        name: "agent_arguments",
        kind: ValueKind::Arguments,
        description: "Words to add to the agent's command line.",
    },
    ConfigKey {
        name: "idle_after",
        kind: ValueKind::Duration { least_ms: 10 * SECOND_MS, most_ms: 24 * HOUR_MS },
        description: "An agent that is silent for this long is asked for a sign of life, and restarted after the same time again.",
    },
    ConfigKey {
        name: "question_after",
        kind: ValueKind::Duration { least_ms: 0, most_ms: MAX_WAIT_MS },
        description: "How long a question to you stays open before the run is parked.",
    },
    ConfigKey {
        name: "wait_for_limits",
        kind: ValueKind::Duration { least_ms: 0, most_ms: MAX_WAIT_MS },
        description: "How long a run may wait for the provider's limits to be lifted, all waits together; `0s` means not at all.",
    },
    ConfigKey {
        name: "max_resumes",
        kind: ValueKind::Count { least: 0, most: 1000 },
        description: "How many limits a run may wait for.",
    },
    ConfigKey {
        name: "limit_jitter",
        kind: ValueKind::Duration { least_ms: 0, most_ms: 24 * HOUR_MS },
        description: "The longest random delay between the end of a limit and the resumption of the run.",
    },
    ConfigKey {
        name: "quiet_hours",
        kind: ValueKind::Hours,
        description: "Local time of day, such as `\"22:00-06:00\"`, during which a run does not resume after a limit.",
    },
    ConfigKey {
        name: "max_window_share",
        kind: ValueKind::Share,
        description: "The share of the provider's usage window that a run may use after waiting for it, before it is parked.",
    },
    ConfigKey {
        name: "wait_for_errors",
        kind: ValueKind::Duration { least_ms: 0, most_ms: MAX_WAIT_MS },
        description: "How long a run may wait for a failing network or provider, all waits together; `0s` means not at all.",
    },
    ConfigKey {
        name: "worst_turn_usd",
        kind: ValueKind::Usd,
        description: "The assumed cost of a turn whose cost is unknown.",
    },
    ConfigKey {
        name: "max_cost_per_day_usd",
        kind: ValueKind::Usd,
        description: "How much all runs of a day may cost together; 0 means no limit.",
    },
];
