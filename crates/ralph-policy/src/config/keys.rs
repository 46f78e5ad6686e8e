//! The table of keys that a policy file may have. The parser, the JSON schema and the reference in `docs/` are derived
//! from it.

mod checks;
mod runner;

/// One key of a table.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// One or two sentences for the reference.
    pub(super) about: &'static str,
}

/// The kind of value that a key takes.
#[derive(Debug)]
pub(super) enum Kind {
    Table(&'static [Key]),
    /// A table that only the person's own file may have: with it a repository could run programs or send data.
    Own(&'static [Key]),
    /// `[[…]]`, each with a `name`; a later layer replaces the whole entry of the same name.
    Named(&'static [Key]),
    /// A table of environment variables.
    Variables,
    Flag,
    Count {
        least: u32,
        most: u32,
    },
    /// US dollars.
    Amount,
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
    Tests,
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
    Address,
}

use checks::{ENVIRONMENT, LINES, NOTIFY, ORCHESTRATOR, PROTECT, TESTS, VERIFY};
use runner::RUNNER;

const HOUR: u64 = 60 * 60 * 1000;

/// The longest timeout that a gate may have.
pub const LONGEST_GATE_MS: u64 = 24 * HOUR;

pub(super) static ROOT: &[Key] = &[
    Key { name: "run", kind: Kind::Table(RUN), about: "Limits of a run, and what counts as done." },
    Key {
        name: "gate",
        kind: Kind::Named(GATE),
        about: "A command whose result is evidence. Requires `name`, and either `run` or `shell`.",
    },
    Key {
        name: "chunk",
        kind: Kind::Named(CHUNK),
        about: "What a subagent or teammate must have done before it may stop. Requires `match`; the first chunk that matches applies.",
    },
    Key {
        name: "pipeline",
        kind: Kind::Table(PIPELINE),
        about: "Chunks that must all be done before the run is; each may depend on others.",
    },
    Key {
        name: "lines",
        kind: Kind::Table(LINES),
        about: "Instant checks of added lines; other lines are not checked.",
    },
    Key { name: "protect", kind: Kind::Table(PROTECT), about: "What the agent may not change." },
    Key { name: "tests", kind: Kind::Table(TESTS), about: "Tests must not get weaker." },
    Key {
        name: "verify",
        kind: Kind::Table(VERIFY),
        about: "What must happen before a run ends `verified`.",
    },
    Key {
        name: "orchestrator",
        kind: Kind::Table(ORCHESTRATOR),
        about: "Runs that work in phases.",
    },
    Key {
        name: "environment",
        kind: Kind::Table(ENVIRONMENT),
        about: "Which environment variables gates get.",
    },
    Key {
        name: "runner",
        kind: Kind::Own(RUNNER),
        about: "How `ralph run` drives an agent. Allowed only in your own `~/.ralph/config.toml`.",
    },
    Key {
        name: "notify",
        kind: Kind::Own(NOTIFY),
        about: "How you are notified when a run ends. Allowed only in your own `~/.ralph/config.toml`.",
    },
];

static RUN: &[Key] = &[
    Key {
        name: "max_iterations",
        kind: Kind::Count { least: 0, most: 1_000_000 },
        about: "How often the agent may be held; 0 means no limit.",
    },
    Key {
        name: "min_iterations",
        kind: Kind::Count { least: 0, most: 1_000_000 },
        about: "How often the agent is held at least, to polish, even if every requirement is met.",
    },
    Key {
        name: "max_duration",
        kind: Kind::Duration { least_ms: 0, most_ms: 365 * 24 * HOUR },
        about: "How long the run may take; `0s` means no limit.",
    },
    Key {
        name: "max_cost_usd",
        kind: Kind::Amount,
        about: "How much the session may cost, metered from the host's records; 0 means no limit.",
    },
    Key {
        name: "max_tokens",
        kind: Kind::Count { least: 0, most: 4_000_000_000 },
        about: "How many tokens, including cached ones, all sessions that `ralph run` drives may use together; 0 means no limit.",
    },
    Key {
        name: "stuck_after",
        kind: Kind::Count { least: 2, most: 1000 },
        about: "The run ends after this many consecutive stops without progress.",
    },
    Key {
        name: "handover_at",
        kind: Kind::Share,
        about: "The used share of the context at which a runner starts a fresh session.",
    },
    Key {
        name: "baseline",
        kind: Kind::Choice(&["block", "ratchet"]),
        about: "Failures that existed before the run: `block` holds the agent for them too, `ratchet` only for new ones.",
    },
    Key {
        name: "change",
        kind: Kind::Choice(&["required", "optional"]),
        about: "Whether a run has to change something to be done.",
    },
    Key {
        name: "on_tampering",
        kind: Kind::Choice(&["block", "review"]),
        about: "When ralph's files, the policy or protected files were changed: `block` keeps holding and never verifies, `review` ends the run for review.",
    },
];

static GATE: &[Key] = &[
    Key {
        name: "name",
        kind: Kind::Name,
        about: "Unique; 1 to 60 characters of `A-Z a-z 0-9 . _ -`.",
    },
    Key {
        name: "stage",
        kind: Kind::Choice(&["correctness", "quality", "security", "adversarial"]),
        about: "A stage runs once the stage before it has passed.",
    },
    Key {
        name: "run",
        kind: Kind::Argv,
        about: "The program and its arguments. `{report}` is replaced with the path of the file that the report is read from.",
    },
    Key {
        name: "shell",
        kind: Kind::Shell,
        about: "Instead of `run`: a command line for `/bin/sh -c`. Nothing is substituted in it; the report's path is in `$RALPH_REPORT`.",
    },
    Key {
        name: "cwd",
        kind: Kind::Directory,
        about: "The working directory, relative to the project.",
    },
    Key {
        name: "timeout",
        kind: Kind::Duration { least_ms: 1, most_ms: LONGEST_GATE_MS },
        about: "A gate that takes longer is stopped and gives no result. At most `24h`.",
    },
    Key {
        name: "paths",
        kind: Kind::Globs,
        about: "The files it reads: once it has passed, it is not run again until one of them changes. Empty means all files.",
    },
    Key {
        name: "when",
        kind: Kind::Globs,
        about: "The gate counts only once the run has changed one of these files. Empty means always.",
    },
    Key {
        name: "on",
        kind: Kind::Choices(&["stop", "subagent", "task", "teammate"]),
        about: "The events at which it runs.",
    },
    Key {
        name: "min_complexity",
        kind: Kind::Count { least: 0, most: 10 },
        about: "The gate counts only for runs that are at least this complex.",
    },
    Key {
        name: "required",
        kind: Kind::Flag,
        about: "`false` makes the gate advisory: its result is reported but holds no agent.",
    },
    Key {
        name: "report",
        kind: Kind::Choice(&[
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
        about: "The format of its report; with `none` only the exit code counts.",
    },
    Key {
        name: "min_tests",
        kind: Kind::Tests,
        about: "How many tests must run: a number, `baseline` for no fewer than at the start, or `some` for at least one if the report counts tests.",
    },
    Key {
        name: "rerun",
        kind: Kind::Choice(&["tests", "always", "never"]),
        about: "Which failures must occur twice to count.",
    },
    Key {
        name: "env",
        kind: Kind::VariableNames,
        about: "Environment variables it gets in addition to those that every gate gets.",
    },
];

static CHUNK: &[Key] = &[
    Key {
        name: "name",
        kind: Kind::Name,
        about: "Unique; 1 to 60 characters of `A-Z a-z 0-9 . _ -`. Defaults to the value of `match`.",
    },
    Key {
        name: "match",
        kind: Kind::Wildcard,
        about: "The type of the subagents, or the name of the teammate; `*` matches anything, `?` one character.",
    },
    Key {
        name: "gates",
        kind: Kind::Names,
        about: "Names of gates that must pass, regardless of their `on`.",
    },
    Key {
        name: "outputs",
        kind: Kind::Globs,
        about: "For each glob there must be a non-empty file that was created or changed since the run began.",
    },
    Key {
        name: "max_holds",
        kind: Kind::Count { least: 1, most: 100 },
        about: "How often one agent is held in a row; after that it may stop, unverified.",
    },
];

static PIPELINE: &[Key] = &[Key {
    name: "chunk",
    kind: Kind::Named(PIPELINE_CHUNK),
    about: "One chunk. Requires `name`. The first one that matches an agent applies to it, before any `[[chunk]]`.",
}];

static PIPELINE_CHUNK: &[Key] = &[
    Key {
        name: "name",
        kind: Kind::Name,
        about: "Unique, also among `[[chunk]]`; 1 to 60 characters of `A-Z a-z 0-9 . _ -`.",
    },
    Key {
        name: "match",
        kind: Kind::Wildcard,
        about: "The type of the subagents, or the name of the teammate; `*` matches anything, `?` one character. Defaults to the name.",
    },
    Key {
        name: "gates",
        kind: Kind::Names,
        about: "Names of gates that must pass, regardless of their `on`.",
    },
    Key {
        name: "outputs",
        kind: Kind::Globs,
        about: "For each glob there must be a non-empty file that was created or changed since the run began.",
    },
    Key {
        name: "max_holds",
        kind: Kind::Count { least: 1, most: 100 },
        about: "How often one agent is held in a row; after that it may stop, unverified.",
    },
    Key {
        name: "after",
        kind: Kind::Names,
        about: "Names of pipeline chunks that must be done first.",
    },
];

/// The keys of the table at `path` (`gate`, `pipeline.chunk`).
pub(super) fn table(path: &str) -> &'static [Key] {
    path.split('.').fold(ROOT, |keys, name| {
        keys.iter().find(|key| key.name == name).map_or(&[], |key| key.kind.keys())
    })
}

impl Key {
    /// `[run]`, `[[gate]]`
    pub(super) fn heading(&self) -> String {
        if let Kind::Named(_) = self.kind {
            format!("[[{}]]", self.name)
        } else {
            format!("[{}]", self.name)
        }
    }
}

impl Kind {
    pub(super) fn keys(&self) -> &'static [Key] {
        match self {
            Self::Table(keys) | Self::Own(keys) | Self::Named(keys) => keys,
            Self::Variables
            | Self::Flag
            | Self::Count { .. }
            | Self::Amount
            | Self::Share
            | Self::Duration { .. }
            | Self::Name
            | Self::Names
            | Self::Wildcard
            | Self::Choice(_)
            | Self::Choices(_)
            | Self::Tests
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
            | Self::Address => &[],
        }
    }

    /// Describes the expected value, for a hint.
    pub(super) fn expected(&self) -> String {
        match self {
            Self::Table(_) | Self::Own(_) => "expected a table".to_string(),
            Self::Named(_) => "write one `[[…]]` per entry".to_string(),
            Self::Variables => {
                "expected a table of variables: `set = { LANG = \"C\" }`".to_string()
            }
            Self::Flag => "expected `true` or `false`".to_string(),
            Self::Count { least, most } => {
                format!("expected a whole number from {least} to {most}")
            }
            Self::Amount => "expected an amount such as `20` or `1.50`".to_string(),
            Self::Share => "expected a number above 0 and up to 1, such as `0.8`".to_string(),
            Self::Duration { most_ms: LONGEST_GATE_MS, .. } => {
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
            Self::Choice(choices) => format!("expected one of {}", list(choices)),
            Self::Choices(choices) => format!("expected a list of any of {}", list(choices)),
            Self::Tests => "expected `\"baseline\"`, `\"some\"` or a whole number".to_string(),
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
            Self::Address => "expected a URL such as `\"https://example.org/hook\"`".to_string(),
        }
    }
}

fn list(choices: &[&str]) -> String {
    choices.iter().map(|choice| format!("`\"{choice}\"`")).collect::<Vec<_>>().join(", ")
}
