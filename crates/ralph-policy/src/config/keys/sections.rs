//! Keys of the sections except `[runner]`; those of `[[…]]` entries are in `entry_keys`.

use super::{ConfigKey, HOUR_MS, PATTERN, PIPELINE_CHUNK, ValueKind};
use crate::config::apply::{parse_choices, set_choice, unless_zero};
use crate::notify_config::NotifyChannel;
use ralph_core::policy::OnTampering;
use ralph_core::status::RunStatus;

pub(super) static SESSION: &[ConfigKey] = &[
    ConfigKey {
        name: "gates",
        kind: ValueKind::Choice(&["goal", "every"], |draft, text| {
            set_choice(&mut draft.policy.session.gates, text);
        }),
        description: "Which sessions the gates hold: `goal` only those with a run, `every` also a session without one, if its work makes a gate worse.",
    },
    ConfigKey {
        name: "holds",
        kind: ValueKind::Count {
            least: 1,
            most: 20,
            set: |draft, count| draft.policy.session.holds = count,
        },
        description: "How often a session without a run is held for one prompt; then the agent may stop, and you see what still fails.",
    },
    ConfigKey {
        name: "slow",
        kind: ValueKind::Duration {
            least_ms: 1_000,
            most_ms: 24 * HOUR_MS,
            set: |draft, ms| draft.policy.session.slow_ms = ms,
        },
        description: "A stop of a session without a run does not wait longer than this for its gates: they continue in the background, and a failure holds the next stop.",
    },
];

pub(super) static RUN: &[ConfigKey] = &[
    ConfigKey {
        name: "max_iterations",
        kind: ValueKind::Count {
            least: 0,
            most: 1_000_000,
            set: |draft, count| draft.policy.limits.max_iterations = unless_zero(count),
        },
        description: "How often the agent may be held; 0 means no limit.",
    },
    ConfigKey {
        name: "min_iterations",
        kind: ValueKind::Count {
            least: 0,
            most: 1_000_000,
            set: |draft, count| draft.policy.limits.min_iterations = count,
        },
        description: "How often the agent is held at least, to polish, even if every requirement is met.",
    },
    ConfigKey {
        name: "max_duration",
        kind: ValueKind::Duration {
            least_ms: 0,
            most_ms: 365 * 24 * HOUR_MS,
            set: |draft, ms| draft.policy.limits.max_duration_ms = unless_zero(ms),
        },
        description: "How long the run may take; `0s` means no limit.",
    },
    ConfigKey {
        name: "max_cost_usd",
        kind: ValueKind::Usd(|draft, micro| {
            draft.policy.limits.max_cost_micro_usd = unless_zero(micro);
        }),
        description: "How much the session may cost from the start of the run on, subagents included; 0 means no limit.",
    },
    ConfigKey {
        name: "max_tokens",
        kind: ValueKind::Count {
            least: 0,
            most: 4_000_000_000,
            set: |draft, count| draft.policy.limits.max_tokens = unless_zero(count.into()),
        },
        description: "How many tokens, including cached ones, all sessions that `ralph run` drives may use together; 0 means no limit.",
    },
    ConfigKey {
        name: "stuck_after",
        kind: ValueKind::Count {
            least: 2,
            most: 1000,
            set: |draft, count| draft.policy.limits.stuck_after = count,
        },
        description: "The run ends at this many consecutive stops with the same files and failures, the first of them included.",
    },
    ConfigKey {
        name: "handover_at",
        kind: ValueKind::Share(|draft, permille| {
            draft.policy.limits.handover_at_permille = permille;
        }),
        description: "The used share of the context at which a runner starts a fresh session.",
    },
    ConfigKey {
        name: "baseline",
        kind: ValueKind::Choice(&["block", "ratchet"], |draft, text| {
            set_choice(&mut draft.policy.baseline, text);
        }),
        description: "Failures that existed before the run: `block` holds the agent for them too, `ratchet` only for new ones.",
    },
    ConfigKey {
        name: "change",
        kind: ValueKind::Choice(&["required", "optional"], |draft, text| {
            set_choice(&mut draft.policy.change, text);
        }),
        description: "Whether a run has to change something to be done.",
    },
    ConfigKey {
        name: "on_tampering",
        kind: ValueKind::Choice(&["block", "review"], |draft, text| {
            draft.policy.on_tampering =
                if text == "review" { OnTampering::EndInReview } else { OnTampering::Block };
        }),
        description: "When ralph's files, the policy or protected files were changed: `block` keeps holding and never verifies, `review` ends the run for review.",
    },
];

pub(super) static LINES: &[ConfigKey] = &[
    ConfigKey {
        name: "forbid",
        kind: ValueKind::Choices(
            &["todo", "placeholder", "debug-print", "debugger", "skipped-test"],
            |draft, texts| draft.policy.lines.forbid = parse_choices(texts),
        ),
        description: "Built-in checks to apply.",
    },
    ConfigKey {
        name: "exclude",
        kind: ValueKind::Globs(|draft, texts| draft.policy.lines.exclude = texts.to_vec()),
        description: "Files that are not checked.",
    },
    ConfigKey {
        name: "pattern",
        kind: ValueKind::NamedEntries(&PATTERN),
        description: "A check of your own. Requires `name` and `pattern`.",
    },
];

pub(super) static PIPELINE: &[ConfigKey] = &[ConfigKey {
    name: "chunk",
    kind: ValueKind::NamedEntries(&PIPELINE_CHUNK),
    description: "One chunk. Requires `name`. The first one that matches an agent applies to it, before any `[[chunk]]`.",
}];

pub(super) static PROTECT: &[ConfigKey] = &[
    ConfigKey {
        name: "guard",
        kind: ValueKind::Choice(&["deny", "ask", "off"], |draft, text| {
            set_choice(&mut draft.policy.protect.guard, text);
        }),
        description: "Tool calls that would change what the agent may not change: `deny` refuses them, `ask` asks you, `off` lets them through, to be detected at the stop.",
    },
    ConfigKey {
        name: "paths",
        kind: ValueKind::Globs(|draft, texts| draft.policy.protect.paths = texts.to_vec()),
        description: "Files that the agent may not change.",
    },
];

pub(super) static TESTS: &[ConfigKey] = &[
    ConfigKey {
        name: "integrity",
        kind: ValueKind::Choice(&["block", "advise", "off"], |draft, text| {
            set_choice(&mut draft.policy.tests.integrity, text);
        }),
        description: "Removed, skipped or emptied tests, where no proof decides about them: `block` holds the agent, `advise` only reports them, `off` does not check.",
    },
    ConfigKey {
        name: "red_first",
        kind: ValueKind::Choice(&["optional", "required"], |draft, text| {
            set_choice(&mut draft.policy.tests.red_first, text);
        }),
        description: "`required`: at least one new test has to fail at the base of the run, by an assertion.",
    },
    ConfigKey {
        name: "paths",
        kind: ValueKind::Globs(|draft, texts| draft.policy.tests.paths = texts.to_vec()),
        description: "Test files in addition to those recognized by name.",
    },
    ConfigKey {
        name: "harness",
        kind: ValueKind::Globs(|draft, texts| draft.policy.tests.harness = texts.to_vec()),
        description: "Files that decide how tests run, such as runner settings and scripts, in addition to those recognized by name.",
    },
];

pub(super) static VERIFY: &[ConfigKey] = &[
    ConfigKey {
        name: "checkout",
        kind: ValueKind::Choice(&["auto", "clean", "tree"], |draft, text| {
            set_choice(&mut draft.policy.verify.checkout, text);
        }),
        description: "`clean`: every gate has to pass again in a clean checkout; `tree`: the work tree is enough; `auto`: `clean` if a runner drives the agent.",
    },
    ConfigKey {
        name: "link",
        kind: ValueKind::Directories(|draft, texts| draft.policy.verify.link = texts.to_vec()),
        description: "Ignored directories that gates need in checkouts, besides `node_modules`, `.venv` and `venv`.",
    },
    ConfigKey {
        name: "claims",
        kind: ValueKind::Choice(&["claimed", "with_gates"], |draft, text| {
            set_choice(&mut draft.policy.verify.claims, text);
        }),
        description: "Ticked list items without a check, when every required gate passes: with `claimed` the run ends `claimed`, with `with_gates` it can end `verified`.",
    },
    ConfigKey {
        name: "proof",
        kind: ValueKind::Choice(&["full", "tell", "off"], |draft, text| {
            set_choice(&mut draft.policy.verify.proof, text);
        }),
        description: "Old tests on the new code and new tests on the old code: `full` runs them before a run ends and lets them decide its status, `tell` only reports them, `off` does not run them.",
    },
    ConfigKey {
        name: "accept",
        kind: ValueKind::Choice(&["verified", "green"], |draft, text| {
            set_choice(&mut draft.policy.verify.accept, text);
        }),
        description: "The lowest final status with which a queue or `ralph run --worktree` merges the work.",
    },
    ConfigKey {
        name: "may_change",
        kind: ValueKind::Globs(|draft, texts| draft.policy.verify.may_change = texts.to_vec()),
        description: "Test files that the goal asks to change. Their old version is not run on the new code.",
    },
];

pub(super) static ORCHESTRATOR: &[ConfigKey] = &[
    ConfigKey {
        name: "plan",
        kind: ValueKind::Choice(&["person", "agent"], |draft, text| {
            set_choice(&mut draft.policy.plan_approver, text);
        }),
        description: "Who may approve the plan of an orchestrated run.",
    },
    ConfigKey {
        name: "approvals",
        kind: ValueKind::Choices(
            &["clarify", "classify", "implement", "validate", "retrospect"],
            |draft, texts| draft.policy.phase_approvals = parse_choices(texts),
        ),
        description: "Phases that a person has to approve with `ralph approve`, besides the plan.",
    },
];

pub(super) static ENVIRONMENT: &[ConfigKey] = &[
    ConfigKey {
        name: "ci",
        kind: ValueKind::Flag(|draft, flag| draft.policy.environment.ci = flag),
        description: "Whether gates get `CI=true`, so that tools neither prompt nor wait for changes. Otherwise `CI` is set only by `set`, or by your own environment if `pass` names it.",
    },
    ConfigKey {
        name: "pass",
        kind: ValueKind::VariableNames(|draft, texts| {
            draft.policy.environment.pass = texts.to_vec();
        }),
        description: "Variables that every gate gets in addition to the usual ones. Secrets are passed only if named here.",
    },
    ConfigKey {
        name: "set",
        kind: ValueKind::Variables(|draft, name, text| {
            draft.policy.environment.set.push((name.to_string(), text.to_string()));
        }),
        description: "Variables to set, with their values.",
    },
];

/// In `notify.on`: not a status of a run.
const QUESTION_EVENT: &str = "question";

pub(super) static NOTIFY: &[ConfigKey] = &[
    ConfigKey {
        name: "bell",
        kind: ValueKind::Flag(|draft, flag| {
            draft.notify.channels.extend(flag.then_some(NotifyChannel::Bell));
        }),
        description: "Ring the terminal bell.",
    },
    ConfigKey {
        name: "desktop",
        kind: ValueKind::Flag(|draft, flag| {
            draft.notify.channels.extend(flag.then_some(NotifyChannel::Desktop));
        }),
        description: "Show a desktop notification with `notify-send` or `osascript`, if there is one.",
    },
    ConfigKey {
        name: "command",
        kind: ValueKind::Argv(|draft, argv| {
            draft.notify.channels.push(NotifyChannel::Command(argv.to_vec()));
        }),
        description: "A program and its arguments, started in your home directory. It gets the message as JSON on stdin, and its parts in `RALPH_MESSAGE`, `RALPH_STATUS`, `RALPH_TITLE` and `RALPH_RUN`.",
    },
    ConfigKey {
        name: "webhook",
        kind: ValueKind::Url(|draft, url| {
            draft.notify.channels.push(NotifyChannel::Webhook(url.to_string()));
        }),
        description: "A URL to which `curl` posts the message, as JSON.",
    },
    ConfigKey {
        name: "on",
        kind: ValueKind::Choices(
            &[
                "verified",
                "green",
                "claimed",
                "exhausted",
                "stuck",
                "needs_human",
                "needs_review",
                "gate_broken",
                "rate_limited",
                "overridden",
                "crashed",
                QUESTION_EVENT,
            ],
            |draft, names| {
                draft.notify.notifies_questions = names.iter().any(|name| name == QUESTION_EVENT);
                draft.notify.statuses =
                    names.iter().filter_map(|name| RunStatus::parse(name)).collect();
            },
        ),
        description: "The final statuses to notify about, and `question` for a question that a run waits for. A run that a person cancels sends nothing.",
    },
];

pub(super) static EXPORT: &[ConfigKey] = &[ConfigKey {
    name: "otlp",
    kind: ValueKind::Endpoint(|draft, url| draft.otlp_endpoint = Some(url.to_string())),
    description: "The address of an OpenTelemetry collector, such as `http://127.0.0.1:4318`. Every run that ends is sent to it, as a trace and metrics; see [statistics](stats.md#opentelemetry).",
}];
