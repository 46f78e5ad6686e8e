//! Keys of `[[ci]]`.

use super::{ConfigKey, EntryTable, MAX_GATE_TIMEOUT_MS, ValueKind};
use crate::config::ci_draft::CiDraft;
use ralph_core::gate::GateInvocation;
use ralph_core::requirement::RequirementWeight;
use std::mem;

/// The shortest time between two queries of a provider.
const MIN_POLL_MS: u64 = 100;

pub(in crate::config) static CI: EntryTable = EntryTable {
    path: "ci",
    keys: CI_KEYS,
    required: &["name", "provider"],
    is_user_only: false,
    add: |draft| {
        let gate = mem::replace(&mut draft.ci, CiDraft::new()).complete();
        draft.policy.gates.push(gate);
    },
};

static CI_KEYS: &[ConfigKey] = &[
    ConfigKey {
        name: "name",
        kind: ValueKind::Name(|draft, text| draft.ci.gate.name = text.to_string()),
        description: "Unique, also among gates; 1 to 60 characters of `A-Z a-z 0-9 . _ -`.",
    },
    ConfigKey {
        name: "provider",
        kind: ValueKind::Choice(&["github", "gitlab", "command", "http"], |draft, text| {
            draft.ci.provider = text.to_string();
        }),
        description: "Where the state of the checks is read: with `gh`, with `glab`, with a command of yours, or as a JSON document at an address.",
    },
    ConfigKey {
        name: "repo",
        kind: ValueKind::Text(|draft, text| draft.ci.repo = text.to_string()),
        description: "For `github` and `gitlab`: the repository, as `owner/name`. It is never taken from a remote, which an agent can change.",
    },
    ConfigKey {
        name: "host",
        kind: ValueKind::Text(|draft, text| draft.ci.host = text.to_string()),
        description: "For `github` and `gitlab`: the server. Empty means `github.com` or `gitlab.com`.",
    },
    ConfigKey {
        name: "run",
        kind: ValueKind::Argv(|draft, words| {
            draft.ci.gate.command = GateInvocation::Argv(words.to_vec());
        }),
        description: "For `command`: the program and its arguments. It prints the state of the checks as JSON; `{commit}` is replaced with the id of the commit.",
    },
    ConfigKey {
        name: "url",
        kind: ValueKind::Text(|draft, text| draft.ci.url = text.to_string()),
        description: "For `http`: the address of the JSON document. `{commit}` is replaced with the id of the commit. `https` only, except for this machine.",
    },
    ConfigKey {
        name: "token",
        kind: ValueKind::Text(|draft, text| draft.ci.query.token = text.to_string()),
        description: "The environment variable with the token. Empty means the login of `gh` or `glab`, and none for an address. A command gets its variables from `env`.",
    },
    ConfigKey {
        name: "checks",
        kind: ValueKind::Arguments(|draft, texts| draft.ci.query.checks = texts.to_vec()),
        description: "The checks that must pass; `*` matches anything. Empty means those that the provider requires, or all if it requires none.",
    },
    ConfigKey {
        name: "branch",
        kind: ValueKind::Text(|draft, text| draft.ci.query.branch = text.to_string()),
        description: "For `github` without `checks`: the branch whose rules require checks. Empty means the default branch.",
    },
    ConfigKey {
        name: "statuses",
        kind: ValueKind::Flag(|draft, flag| draft.ci.query.statuses = flag),
        description: "`true` accepts commit statuses as a pass. Everyone who may push can set them, an agent with your login too.",
    },
    ConfigKey {
        name: "timeout",
        kind: ValueKind::Duration {
            least_ms: 1,
            most_ms: MAX_GATE_TIMEOUT_MS,
            set: |draft, ms| draft.ci.gate.timeout_ms = ms,
        },
        description: "How long to wait for the checks; then there is no result. At most `24h`.",
    },
    ConfigKey {
        name: "poll",
        kind: ValueKind::Duration {
            least_ms: MIN_POLL_MS,
            most_ms: MAX_GATE_TIMEOUT_MS,
            set: |draft, ms| draft.ci.query.poll_ms = ms,
        },
        description: "The time between the first two queries. It grows by half each time, up to a minute.",
    },
    ConfigKey {
        name: "start",
        kind: ValueKind::Duration {
            least_ms: 0,
            most_ms: MAX_GATE_TIMEOUT_MS,
            set: |draft, ms| draft.ci.query.start_ms = ms,
        },
        description: "Checks that have not appeared after this time count as absent.",
    },
    ConfigKey {
        name: "when",
        kind: ValueKind::Selection(|draft, texts| draft.ci.gate.when = texts.to_vec()),
        description: "It counts only once the run has changed one of these files. A glob after `!` excludes files. Empty means always.",
    },
    ConfigKey {
        name: "min_complexity",
        kind: ValueKind::Count {
            least: 0,
            most: 10,
            set: |draft, count| {
                draft.ci.gate.min_complexity = u8::try_from(count).unwrap_or(u8::MAX);
            },
        },
        description: "It counts only for runs that are at least this complex.",
    },
    ConfigKey {
        name: "required",
        kind: ValueKind::Flag(|draft, flag| {
            draft.ci.gate.weight =
                if flag { RequirementWeight::Required } else { RequirementWeight::Advisory };
        }),
        description: "`false` makes it advisory: its result is reported but holds no agent.",
    },
    ConfigKey {
        name: "env",
        kind: ValueKind::VariableNames(|draft, texts| draft.ci.gate.env = texts.to_vec()),
        description: "For `command`: environment variables it gets in addition to those that every gate gets.",
    },
];
