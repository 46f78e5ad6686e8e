//! The table of keys that a policy file may have. The parser, the JSON schema and the reference in `docs/` are derived
//! from it.

mod runner_keys;
mod sections;

/// One key of a table.
#[derive(Debug)]
pub(super) struct ConfigKey {
    pub(super) name: &'static str,
    pub(super) kind: ValueKind,
    /// One or two sentences for the reference.
    pub(super) description: &'static str,
}

/// The kind of value that a key takes.
#[derive(Debug)]
pub(super) enum ValueKind {
    Table(&'static [ConfigKey]),
    /// A table that only the person's own file may have: with it a repository could run programs or send data.
    UserOnly(&'static [ConfigKey]),
    /// `[[…]]`, each with a `name`; a later layer replaces the whole entry of the same name.
    NamedEntries(&'static [ConfigKey]),
    /// A table of environment variables.
    Variables,
    Flag,
    Count {
        least: u32,
        most: u32,
    },
    /// US dollars.
    Usd,
    /// More than 0 and at most 1.
    Share,
    Duration {
        least_ms: u64,
        most_ms: u64,
    },
    /// 1 to 60 letters, digits, `.`, `_` and `-`.
    Name,
    Names,
    /// A name that may contain `*` and `?`.
    Wildcard,
    Choice(&'static [&'static str]),
    Choices(&'static [&'static str]),
    /// `baseline`, `some` or a number.
    MinTests,
    Argv,
    /// A line for `/bin/sh`.
    Shell,
    Text,
    Regex,
    Globs,
    /// A directory inside the project, or `.`
    Directory,
    Directories,
    VariableNames,
    /// Words added to a command line.
    Arguments,
    /// A model name as the agent's command line takes it.
    Model,
    /// `22:00-06:00`
    Hours,
    /// An `https://` URL. Knowing it may be enough to post there, so it is never shown in full.
    Url,
}

use runner_keys::RUNNER;
use sections::{ENVIRONMENT, LINES, NOTIFY, ORCHESTRATOR, PROTECT, TESTS, VERIFY};

const HOUR_MS: u64 = 60 * 60 * 1000;

/// The longest timeout that a gate may have.
pub const MAX_GATE_TIMEOUT_MS: u64 = 24 * HOUR_MS;

pub(super) static ROOT: &[ConfigKey] = &[
    ConfigKey {
        name: "run",
        kind: ValueKind::Table(RUN),
        description: "Limits of a run, and what counts as done.",
    },
    ConfigKey {
        name: "gate",
        kind: ValueKind::NamedEntries(GATE),
        description: "A command whose result is evidence. Requires `name`, and either `run` or `shell`.",
    },
    ConfigKey {
        name: "chunk",
        kind: ValueKind::NamedEntries(CHUNK),
        description: "What a subagent or teammate must have done before it may stop. Requires `match`; the first chunk that matches applies.",
    },
    ConfigKey {
        name: "pipeline",
        kind: ValueKind::Table(PIPELINE),
        description: "Chunks that must all be done before the run is; each may depend on others.",
    },
    ConfigKey {
        name: "lines",
        kind: ValueKind::Table(LINES),
        description: "Instant checks of added lines; other lines are not checked.",
    },
    ConfigKey {
        name: "protect",
        kind: ValueKind::Table(PROTECT),
        description: "What the agent may not change.",
    },
    ConfigKey {
        name: "tests",
        kind: ValueKind::Table(TESTS),
        description: "Tests must not get weaker.",
    },
    ConfigKey {
        name: "verify",
        kind: ValueKind::Table(VERIFY),
        description: "What must happen before a run ends `verified`.",
    },
    ConfigKey {
        name: "orchestrator",
        kind: ValueKind::Table(ORCHESTRATOR),
        description: "Runs that work in phases.",
    },
    ConfigKey {
        name: "environment",
        kind: ValueKind::Table(ENVIRONMENT),
        description: "Which environment variables gates get.",
    },
    ConfigKey {
        name: "runner",
        kind: ValueKind::UserOnly(RUNNER),
        description: "How `ralph run` drives an agent. Allowed only in your own `~/.ralph/config.toml`.",
    },
    ConfigKey {
        name: "notify",
        kind: ValueKind::UserOnly(NOTIFY),
        description: "How you are notified when a run ends. Allowed only in your own `~/.ralph/config.toml`.",
    },
];

static RUN: &[ConfigKey] = &[
    ConfigKey {
        name: "max_iterations",
        kind: ValueKind::Count { least: 0, most: 1_000_000 },
        description: "How often the agent may be held; 0 means no limit.",
    },
    ConfigKey {
        name: "min_iterations",
        kind: ValueKind::Count { least: 0, most: 1_000_000 },
        description: "How often the agent is held at least, to polish, even if every requirement is met.",
    },
    ConfigKey {
        name: "max_duration",
        kind: ValueKind::Duration { least_ms: 0, most_ms: 365 * 24 * HOUR_MS },
        description: "How long the run may take; `0s` means no limit.",
    },
    ConfigKey {
        name: "max_cost_usd",
        kind: ValueKind::Usd,
        description: "How much the session may cost, metered from the host's records; 0 means no limit.",
    },
    ConfigKey {
        name: "max_tokens",
        kind: ValueKind::Count { least: 0, most: 4_000_000_000 },
        description: "How many tokens, including cached ones, all sessions that `ralph run` drives may use together; 0 means no limit.",
    },
    ConfigKey {
        name: "stuck_after",
        kind: ValueKind::Count { least: 2, most: 1000 },
        description: "The run ends after this many consecutive stops without progress.",
    },
    ConfigKey {
        name: "handover_at",
        kind: ValueKind::Share,
        description: "The used share of the context at which a runner starts a fresh session.",
    },
    ConfigKey {
        name: "baseline",
        kind: ValueKind::Choice(&["block", "ratchet"]),
        description: "Failures that existed before the run: `block` holds the agent for them too, `ratchet` only for new ones.",
    },
    ConfigKey {
        name: "change",
        kind: ValueKind::Choice(&["required", "optional"]),
        description: "Whether a run has to change something to be done.",
    },
    ConfigKey {
        name: "on_tampering",
        kind: ValueKind::Choice(&["block", "review"]),
        description: "When ralph's files, the policy or protected files were changed: `block` keeps holding and never verifies, `review` ends the run for review.",
    },
];

static GATE: &[ConfigKey] = &[
    ConfigKey {
        name: "name",
        kind: ValueKind::Name,
        description: "Unique; 1 to 60 characters of `A-Z a-z 0-9 . _ -`.",
    },
    ConfigKey {
        name: "stage",
        kind: ValueKind::Choice(&["correctness", "quality", "security", "adversarial"]),
        description: "A stage runs once the stage before it has passed.",
    },
    ConfigKey {
        name: "run",
        kind: ValueKind::Argv,
        description: "The program and its arguments. `{report}` is replaced with the path of the file that the report is read from.",
    },
    ConfigKey {
        name: "shell",
        kind: ValueKind::Shell,
        description: "Instead of `run`: a command line for `/bin/sh -c`. Nothing is substituted in it; the report's path is in `$RALPH_REPORT`.",
    },
    ConfigKey {
        name: "cwd",
        kind: ValueKind::Directory,
        description: "The working directory, relative to the project.",
    },
    ConfigKey {
        name: "timeout",
        kind: ValueKind::Duration { least_ms: 1, most_ms: MAX_GATE_TIMEOUT_MS },
        description: "A gate that takes longer is stopped and gives no result. At most `24h`.",
    },
    ConfigKey {
        name: "paths",
        kind: ValueKind::Globs,
        description: "The files it reads: once it has passed, it is not run again until one of them changes. Empty means all files.",
    },
    ConfigKey {
        name: "when",
        kind: ValueKind::Globs,
        description: "The gate counts only once the run has changed one of these files. Empty means always.",
    },
    ConfigKey {
        name: "on",
        kind: ValueKind::Choices(&["stop", "subagent", "task", "teammate"]),
        description: "The events at which it runs.",
    },
    ConfigKey {
        name: "min_complexity",
        kind: ValueKind::Count { least: 0, most: 10 },
        description: "The gate counts only for runs that are at least this complex.",
    },
    ConfigKey {
        name: "required",
        kind: ValueKind::Flag,
        description: "`false` makes the gate advisory: its result is reported but holds no agent.",
    },
    ConfigKey {
        name: "report",
        kind: ValueKind::Choice(&[
            "text",
            "junit",
            "sarif",
            "cargo-json",
            "eslint-json",
            "go-test-json",
            "tap",
            "pytest",
            "tsc",
            "none",
        ]),
        description: "The format of its report; with `none` only the exit code counts.",
    },
    ConfigKey {
        name: "min_tests",
        kind: ValueKind::MinTests,
        description: "How many tests must run: a number, `baseline` for no fewer than at the start, or `some` for at least one if the report counts tests.",
    },
    ConfigKey {
        name: "rerun",
        kind: ValueKind::Choice(&["tests", "always", "never"]),
        description: "Which failures must occur twice to count.",
    },
    ConfigKey {
        name: "env",
        kind: ValueKind::VariableNames,
        description: "Environment variables it gets in addition to those that every gate gets.",
    },
];

static CHUNK: &[ConfigKey] = &[
    ConfigKey {
        name: "name",
        kind: ValueKind::Name,
        description: "Unique; 1 to 60 characters of `A-Z a-z 0-9 . _ -`. Defaults to the value of `match`.",
    },
    ConfigKey {
        name: "match",
        kind: ValueKind::Wildcard,
        description: "The type of the subagents, or the name of the teammate; `*` matches anything, `?` one character.",
    },
    ConfigKey {
        name: "gates",
        kind: ValueKind::Names,
        description: "Names of gates that must pass, regardless of their `on`.",
    },
    ConfigKey {
        name: "outputs",
        kind: ValueKind::Globs,
        description: "For each glob there must be a non-empty file that was created or changed since the run began.",
    },
    ConfigKey {
        name: "max_holds",
        kind: ValueKind::Count { least: 1, most: 100 },
        description: "How often one agent is held in a row; after that it may stop, unverified.",
    },
];

static PIPELINE: &[ConfigKey] = &[ConfigKey {
    name: "chunk",
    kind: ValueKind::NamedEntries(PIPELINE_CHUNK),
    description: "One chunk. Requires `name`. The first one that matches an agent applies to it, before any `[[chunk]]`.",
}];

static PIPELINE_CHUNK: &[ConfigKey] = &[
    ConfigKey {
        name: "name",
        kind: ValueKind::Name,
        description: "Unique, also among `[[chunk]]`; 1 to 60 characters of `A-Z a-z 0-9 . _ -`.",
    },
    ConfigKey {
        name: "match",
        kind: ValueKind::Wildcard,
        description: "The type of the subagents, or the name of the teammate; `*` matches anything, `?` one character. Defaults to the name.",
    },
    ConfigKey {
        name: "gates",
        kind: ValueKind::Names,
        description: "Names of gates that must pass, regardless of their `on`.",
    },
    ConfigKey {
        name: "outputs",
        kind: ValueKind::Globs,
        description: "For each glob there must be a non-empty file that was created or changed since the run began.",
    },
    ConfigKey {
        name: "max_holds",
        kind: ValueKind::Count { least: 1, most: 100 },
        description: "How often one agent is held in a row; after that it may stop, unverified.",
    },
    ConfigKey {
        name: "after",
        kind: ValueKind::Names,
        description: "Names of pipeline chunks that must be done first.",
    },
];

/// The keys of the table at `path` (`gate`, `pipeline.chunk`).
pub(super) fn keys_of_table(path: &str) -> &'static [ConfigKey] {
    path.split('.').fold(ROOT, |keys, name| {
        keys.iter().find(|key| key.name == name).map_or(&[], |key| key.kind.keys())
    })
}

impl ConfigKey {
    /// `[run]`, `[[gate]]`
    pub(super) fn heading(&self) -> String {
        if let ValueKind::NamedEntries(_) = self.kind {
            format!("[[{}]]", self.name)
        } else {
            format!("[{}]", self.name)
        }
    }
}

impl ValueKind {
    pub(super) fn keys(&self) -> &'static [ConfigKey] {
        match self {
            Self::Table(keys) | Self::UserOnly(keys) | Self::NamedEntries(keys) => keys,
            Self::Variables
            | Self::Flag
            | Self::Count { .. }
            | Self::Usd
            | Self::Share
            | Self::Duration { .. }
            | Self::Name
            | Self::Names
            | Self::Wildcard
            | Self::Choice(_)
            | Self::Choices(_)
            | Self::MinTests
            | Self::Argv
            | Self::Shell
            | Self::Text
            | Self::Regex
            | Self::Globs
            | Self::Directory
            | Self::Directories
            | Self::VariableNames
            | Self::Arguments
            | Self::Model
            | Self::Hours
            | Self::Url => &[],
        }
    }

    /// Describes the expected value, for a hint.
    pub(super) fn expected(&self) -> String {
        match self {
            Self::Table(_) | Self::UserOnly(_) => "expected a table".to_string(),
            Self::NamedEntries(_) => "write one `[[…]]` per entry".to_string(),
            Self::Variables => {
                "expected a table of variables: `set = { LANG = \"C\" }`".to_string()
            }
            Self::Flag => "expected `true` or `false`".to_string(),
            Self::Count { least, most } => {
                format!("expected a whole number from {least} to {most}")
            }
            Self::Usd => "expected an amount such as `20` or `1.50`".to_string(),
            Self::Share => "expected a number above 0 and up to 1, such as `0.8`".to_string(),
            Self::Duration { most_ms: MAX_GATE_TIMEOUT_MS, .. } => {
                "expected a duration such as `\"90s\"` or `\"5m\"`, at most `\"24h\"`".to_string()
            }
            Self::Duration { .. } => {
                "expected a duration such as `\"90m\"` or `\"8h\"`".to_string()
            }
            Self::Name => "expected 1 to 60 letters, digits, `.`, `_` and `-`".to_string(),
            Self::Names => "expected a list of names: `[\"tests\"]`".to_string(),
            Self::Wildcard => {
                "expected 1 to 200 bytes on one line, such as `\"implementer*\"`".to_string()
            }
            Self::Choice(choices) => format!("expected one of {}", quoted_list(choices)),
            Self::Choices(choices) => format!("expected a list of any of {}", quoted_list(choices)),
            Self::MinTests => "expected `\"baseline\"`, `\"some\"` or a whole number".to_string(),
            Self::Argv => {
                "expected a list of words: `[\"npx\", \"tsc\", \"--noEmit\"]`".to_string()
            }
            Self::Shell => "expected a command line: `shell = \"make lint | tee log\"`".to_string(),
            Self::Text => "expected a string".to_string(),
            Self::Regex => "expected a regular expression".to_string(),
            Self::Globs => "expected a list of globs: `[\"src/**/*.ts\"]`".to_string(),
            Self::Directory => "expected a directory inside the project, without `..`".to_string(),
            Self::Directories => "expected a list of directories inside the project".to_string(),
            Self::VariableNames => {
                "expected a list of variable names such as `[\"DATABASE_URL\"]`".to_string()
            }
            Self::Arguments => "expected a list of words: `[\"--verbose\"]`".to_string(),
            Self::Model => {
                "expected 1 to 200 printable characters without spaces, not starting with `-`"
                    .to_string()
            }
            Self::Hours => {
                "expected two different times of day, such as `\"22:00-06:00\"`".to_string()
            }
            Self::Url => "expected a URL such as `\"https://example.org/hook\"`".to_string(),
        }
    }
}

fn quoted_list(choices: &[&str]) -> String {
    choices.iter().map(|choice| format!("`\"{choice}\"`")).collect::<Vec<_>>().join(", ")
}
