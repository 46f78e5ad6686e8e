//! How `ralph run` drives an agent. It spends a person's money and limits, so it is theirs to say.

use super::{HOUR, Key, Kind};

const SECOND: u64 = 1000;
const LONGEST_WAIT: u64 = 31 * 24 * HOUR;

pub(super) static RUNNER: &[Key] = &[
    Key {
        name: "sessions",
        kind: Kind::Choice(&["hybrid", "same-session", "fresh-per-feature"]),
        about: "When a fresh session takes over: `hybrid` when the context is nearly full, `same-session` never, `fresh-per-feature` also when something more is met.",
    },
    Key {
        name: "model",
        kind: Kind::Model,
        about: "The model that the agent starts with. Without it, the agent's own choice.",
    },
    Key {
        name: "stronger_model",
        kind: Kind::Model,
        about: "Tried when nothing else moved the work.",
    },
    Key {
        name: "agent_arguments",
        kind: Kind::Arguments,
        about: "What is added to the agent's command line.",
    },
    Key {
        name: "idle_after",
        kind: Kind::Duration { least_ms: 10 * SECOND, most_ms: 24 * HOUR },
        about: "An agent that nothing is heard of for this long is asked whether it is there, and after as long again restarted.",
    },
    Key {
        name: "question_after",
        kind: Kind::Duration { least_ms: 0, most_ms: LONGEST_WAIT },
        about: "How long a question to you stays open before the run is parked.",
    },
    Key {
        name: "wait_for_limits",
        kind: Kind::Duration { least_ms: 0, most_ms: LONGEST_WAIT },
        about: "How long a run may wait for limits of the provider to be lifted, all waits together; `0s` is not at all.",
    },
    Key {
        name: "max_resumes",
        kind: Kind::Count { least: 0, most: 1000 },
        about: "How many limits a run may wait for.",
    },
    Key {
        name: "limit_jitter",
        kind: Kind::Duration { least_ms: 0, most_ms: 24 * HOUR },
        about: "How long after a limit is lifted the run goes on at the latest; when, is left to chance.",
    },
    Key {
        name: "quiet_hours",
        kind: Kind::Hours,
        about: "Hours of your day, such as `\"22:00-06:00\"`, in which no limit that was lifted is used.",
    },
    Key {
        name: "max_window_share",
        kind: Kind::Share,
        about: "How much of the provider's window a run that waited for it may use before it is parked.",
    },
    Key {
        name: "wait_for_errors",
        kind: Kind::Duration { least_ms: 0, most_ms: LONGEST_WAIT },
        about: "How long a run may wait for a network or a provider that fails, all waits together; `0s` is not at all.",
    },
    Key {
        name: "worst_turn_usd",
        kind: Kind::Amount,
        about: "What a turn is taken to cost when nobody tells.",
    },
    Key {
        name: "max_cost_per_day_usd",
        kind: Kind::Amount,
        about: "How much all runs of a day may spend together; 0 is without limit.",
    },
];
