//! Keys of `[runner]`: how `ralph run` drives an agent. A runner spends a person's money and rate limits, so only their
//! own file may set these.

use super::{ConfigKey, HOUR_MS, ValueKind};
use crate::config::apply::{set_choice, unless_zero};
use crate::config::value::parse_hours;

const SECOND_MS: u64 = 1000;
const MAX_WAIT_MS: u64 = 31 * 24 * HOUR_MS;

pub(super) static RUNNER: &[ConfigKey] = &[
    ConfigKey {
        name: "sessions",
        kind: ValueKind::Choice(&["hybrid", "same-session", "fresh-per-feature"], |draft, text| {
            set_choice(&mut draft.runner.sessions, text);
        }),
        description: "When a fresh session takes over: `hybrid` when the context is nearly full, `same-session` never, `fresh-per-feature` also whenever another requirement is met.",
    },
    ConfigKey {
        name: "model",
        kind: ValueKind::Model(|draft, text| draft.runner.model = Some(text.to_string())),
        description: "The model that the agent starts with. Defaults to the agent's own choice.",
    },
    ConfigKey {
        name: "stronger_model",
        kind: ValueKind::Model(|draft, text| draft.runner.stronger_model = Some(text.to_string())),
        description: "The model to try when nothing else made progress.",
    },
    ConfigKey {
        name: "agent_arguments",
        kind: ValueKind::Arguments(|draft, texts| draft.runner.arguments = texts.to_vec()),
        description: "Words to add to the agent's command line.",
    },
    ConfigKey {
        name: "idle_after",
        kind: ValueKind::Duration {
            least_ms: 10 * SECOND_MS,
            most_ms: 24 * HOUR_MS,
            set: |draft, ms| draft.runner.idle_ms = ms,
        },
        description: "An agent that is silent for this long is asked for a sign of life, and restarted after the same time again.",
    },
    ConfigKey {
        name: "question_after",
        kind: ValueKind::Duration {
            least_ms: 0,
            most_ms: MAX_WAIT_MS,
            set: |draft, ms| draft.runner.question_ms = ms,
        },
        description: "How long a question to you stays open before the run is parked.",
    },
    ConfigKey {
        name: "wait_for_limits",
        kind: ValueKind::Duration {
            least_ms: 0,
            most_ms: MAX_WAIT_MS,
            set: |draft, ms| draft.runner.waits.limit_ms = ms,
        },
        description: "How long a run may wait for the provider's limits to be lifted, all waits together; `0s` means not at all.",
    },
    ConfigKey {
        name: "max_resumes",
        kind: ValueKind::Count {
            least: 0,
            most: 1000,
            set: |draft, count| draft.runner.waits.resumes = count,
        },
        description: "How many limits a run may wait for.",
    },
    ConfigKey {
        name: "limit_jitter",
        kind: ValueKind::Duration {
            least_ms: 0,
            most_ms: 24 * HOUR_MS,
            set: |draft, ms| draft.runner.waits.jitter_ms = ms,
        },
        description: "The longest random delay between the end of a limit and the resumption of the run.",
    },
    ConfigKey {
        name: "quiet_hours",
        kind: ValueKind::Hours(|draft, text| draft.runner.waits.quiet = parse_hours(text)),
        description: "Local time of day, such as `\"22:00-06:00\"`, during which a run does not resume after a limit.",
    },
    ConfigKey {
        name: "max_window_share",
        kind: ValueKind::Share(|draft, permille| {
            draft.runner.waits.share_permille = Some(permille);
        }),
        description: "The share of the provider's usage window that a run may use after waiting for it, before it is parked.",
    },
    ConfigKey {
        name: "wait_for_errors",
        kind: ValueKind::Duration {
            least_ms: 0,
            most_ms: MAX_WAIT_MS,
            set: |draft, ms| draft.runner.waits.errors_ms = ms,
        },
        description: "How long a run may wait for a failing network or provider, all waits together; `0s` means not at all.",
    },
    ConfigKey {
        name: "worst_turn_usd",
        kind: ValueKind::Usd(|draft, micro| draft.runner.worst_turn_micro_usd = micro),
        description: "The assumed cost of a turn whose cost is unknown.",
    },
    ConfigKey {
        name: "max_cost_per_day_usd",
        kind: ValueKind::Usd(|draft, micro| draft.runner.day_micro_usd = unless_zero(micro)),
        description: "How much all runs of a day may cost together; 0 means no limit.",
    },
];
