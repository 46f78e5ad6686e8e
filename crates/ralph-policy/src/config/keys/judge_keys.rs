//! Keys of `[[judge]]`.

use super::{ConfigKey, EntryTable, MAX_GATE_TIMEOUT_MS, ValueKind};
use crate::config::apply::{normalize_path, set_choice};
use crate::config::judge_check::empty_judge;
use ralph_core::judge::JudgeKind;
use ralph_core::requirement::RequirementWeight;
use std::mem;

/// The most tokens that one verdict may use.
const MAX_JUDGE_TOKENS: u32 = 10_000_000;
const MAX_REVIEWERS: u32 = 9;

pub(in crate::config) static JUDGE: EntryTable = EntryTable {
    path: "judge",
    keys: JUDGE_KEYS,
    required: &["name", "kind", "backend"],
    is_user_only: false,
    add: |draft| {
        let judge = mem::replace(&mut draft.judge, empty_judge());
        draft.policy.judges.push(judge);
    },
};

static JUDGE_KEYS: &[ConfigKey] = &[
    ConfigKey {
        name: "name",
        kind: ValueKind::Name(|draft, text| draft.judge.name = text.to_string()),
        description: "Unique, also among gates; 1 to 60 characters of `A-Z a-z 0-9 . _ -`.",
    },
    ConfigKey {
        name: "kind",
        kind: ValueKind::Choice(JudgeKind::NAMES, |draft, text| {
            set_choice(&mut draft.judge.kind, text);
        }),
        description: "The question that it answers. `prompt`: does the change meet the goal, asked once, in one prompt? `agent`: the same, by an agent that reads files. `adversarial`: can several reviewers refute the work? `plan`: does the work match the plan? `goal`: is a goal met that no test measures? `amended`: did the goal ask for the changes to existing tests, or were tests amended to pass?",
    },
    ConfigKey {
        name: "backend",
        kind: ValueKind::Backend(|draft, backend| draft.judge.backend = backend.clone()),
        description: "What gives the verdict: `{ command = [\"./judge\"] }` gets the case as JSON on stdin and prints a verdict as JSON, `{ host = \"claude\", model = \"…\" }` is the client without hooks and with tools that only read, `{ http = \"https://…\", key = \"ANTHROPIC_API_KEY\", model = \"…\", api = \"anthropic\" }` an endpoint (`api` is `anthropic` or `openai`; `key` names the environment variable with the key).",
    },
    ConfigKey {
        name: "prompt",
        kind: ValueKind::File(|draft, path| {
            draft.judge.prompt_file = Some(normalize_path(path));
        }),
        description: "A text file inside the project with your own instructions, in place of those of the kind; every kind can have one. Its content is part of what you approve.",
    },
    ConfigKey {
        name: "max_tokens",
        kind: ValueKind::Count {
            least: 1,
            most: MAX_JUDGE_TOKENS,
            set: |draft, count| draft.judge.max_tokens = u64::from(count),
        },
        description: "Input and output tokens that one verdict may use, over all its calls.",
    },
    ConfigKey {
        name: "timeout",
        kind: ValueKind::Duration {
            least_ms: 1,
            most_ms: MAX_GATE_TIMEOUT_MS,
            set: |draft, ms| draft.judge.timeout_ms = ms,
        },
        description: "A judge that takes longer gives no verdict. At most `24h`.",
    },
    ConfigKey {
        name: "reviewers",
        kind: ValueKind::Count {
            least: 1,
            most: MAX_REVIEWERS,
            set: |draft, count| draft.judge.reviewers = u8::try_from(count).unwrap_or(u8::MAX),
        },
        description: "How many independent reviewers an `adversarial` judge asks. A finding stands once another one confirms it.",
    },
    ConfigKey {
        name: "required",
        kind: ValueKind::Flag(|draft, flag| {
            draft.judge.weight =
                if flag { RequirementWeight::Required } else { RequirementWeight::Advisory };
        }),
        description: "`false` makes the judge advisory: its verdict is reported but holds no agent.",
    },
    ConfigKey {
        name: "counts",
        kind: ValueKind::Flag(|draft, flag| draft.judge.counts = flag),
        description: "Whether its verdict counts as much as a test. `true` lets a judge of kind `goal` confirm a goal that no test measures, so that the run ends `verified` instead of `green`.",
    },
    ConfigKey {
        name: "tests",
        kind: ValueKind::Flag(|draft, flag| draft.judge.tests = flag),
        description: "`true` runs the tests that the reviewers of an `adversarial` judge write, in a checkout of the change: a finding also stands if its test fails. This is code that a model wrote, and it runs with your rights, isolated like a gate in a checkout.",
    },
    ConfigKey {
        name: "when",
        kind: ValueKind::Selection(|draft, texts| draft.judge.when = texts.to_vec()),
        description: "The judge is asked only if the run has changed one of these files. A glob after `!` excludes files. Empty means always.",
    },
    ConfigKey {
        name: "min_complexity",
        kind: ValueKind::Count {
            least: 0,
            most: 10,
            set: |draft, count| draft.judge.min_complexity = u8::try_from(count).unwrap_or(u8::MAX),
        },
        description: "The judge is asked only about runs that are at least this complex.",
    },
];
