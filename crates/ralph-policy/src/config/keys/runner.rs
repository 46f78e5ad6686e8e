//! Keys of `[runner]`: how `ralph run` drives an agent. A runner spends a person's money and rate limits, so only their
//! own file may set these.

use super::{HOUR, Key, Kind};

const SECOND: u64 = 1000;
const LONGEST_WAIT: u64 = 31 * 24 * HOUR;

pub(super) static RUNNER: &[Key] = &[
    Key {
        name: "sessions",
        kind: Kind::Choice(&["hybrid", "same-session", "fresh-per-feature"]),
        about: "When a fresh session takes over: `hybrid` when the context is nearly full, `same-session` never, `fresh-per-feature` also whenever another requirement is met.",
    },
    Key {
        name: "model",
        kind: Kind::Model,
        about: "The model that the agent starts with. Defaults to the agent's own choice.",
    },
    Key {
        name: "stronger_model",
        kind: Kind::Model,
        about: "The model to try when nothing else made progress.",
    },
    Key {
        name: "agent_arguments",
        kind: Kind::Arguments,
        about: "Words to add to the agent's command line.",
    },
    Key {
        name: "idle_after",
        kind: Kind::Duration { least_ms: 10 * SECOND, most_ms: 24 * HOUR },
        about: "An agent that is silent for this long is asked for a sign of life, and restarted after the same time again.",
    },
    Key {
        name: "question_after",
        kind: Kind::Duration { least_ms: 0, most_ms: LONGEST_WAIT },
        about: "How long a question to you stays open before the run is parked.",
    },
    Key {
        name: "wait_for_limits",
        kind: Kind::Duration { least_ms: 0, most_ms: LONGEST_WAIT },
        about: "How long a run may wait for the provider's limits to be lifted, all waits together; `0s` means not at all.",
    },
    Key {
        name: "max_resumes",
        kind: Kind::Count { least: 0, most: 1000 },
        about: "How many limits a run may wait for.",
    },
    Key {
        name: "limit_jitter",
        kind: Kind::Duration { least_ms: 0, most_ms: 24 * HOUR },
        about: "The longest random delay between the end of a limit and the resumption of the run.",
    },
    Key {
        name: "quiet_hours",
        kind: Kind::Hours,
        about: "Local time of day, such as `\"22:00-06:00\"`, during which a run does not resume after a limit.",
    },
    Key {
        name: "max_window_share",
        kind: Kind::Share,
        about: "The share of the provider's usage window that a run may use after waiting for it, before it is parked.",
    },
    Key {
        name: "wait_for_errors",
        kind: Kind::Duration { least_ms: 0, most_ms: LONGEST_WAIT },
        about: "How long a run may wait for a failing network or provider, all waits together; `0s` means not at all.",
    },
    Key {
        name: "worst_turn_usd",
        kind: Kind::Amount,
        about: "The assumed cost of a turn whose cost is unknown.",
    },
    Key {
        name: "max_cost_per_day_usd",
        kind: Kind::Amount,
        about: "How much all runs of a day may cost together; 0 means no limit.",
    },
];
