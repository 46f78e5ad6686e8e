//! The one table of what a policy file may say. The reader, the schema and the reference follow it.

mod checks;
mod runner;

/// One key of a table.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// One sentence for the reference.
    pub(super) about: &'static str,
}

#[derive(Debug)]
pub(super) enum Kind {
    Table(&'static [Key]),
    /// A table that only the person's own file may have: a repository could run or send something by it.
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
    /// A name with `*` and `?` in it.
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
    /// A directory below the project, or `.`
    Directory,
    Directories,
    VariableNames,
    /// What is added to a command line, word by word.
    Arguments,
    /// What an agent calls a model.
    Model,
    /// `22:00-06:00`
    Hours,
    /// An `https://` address. Whoever knows it may be able to write there, so it is never shown whole.
    Address,
}

use checks::{ENVIRONMENT, LINES, NOTIFY, ORCHESTRATOR, PROTECT, TESTS, VERIFY};
use runner::RUNNER;

const HOUR: u64 = 60 * 60 * 1000;

/// The longest a gate may take.
pub const LONGEST_GATE_MS: u64 = 24 * HOUR;

pub(super) static ROOT: &[Key] = &[
    Key {
        name: "run",
        kind: Kind::Table(RUN),
        about: "What makes a run finite, and what counts as done.",
    },
    Key {
        name: "gate",
        kind: Kind::Named(GATE),
        about: "A command whose result is evidence. It needs `name`, and either `run` or `shell`.",
    },
    Key {
        name: "chunk",
        kind: Kind::Named(CHUNK),
        about: "What a subagent or teammate has to have done before it may stop. It needs `match`; the first one that fits counts.",
    },
    Key {
        name: "pipeline",
        kind: Kind::Table(PIPELINE),
        about: "Chunks that all have to be done before the run is, some of them after others.",
    },
    Key {
        name: "lines",
        kind: Kind::Table(LINES),
        about: "Instant checks over the lines that were added, and only over those.",
    },
    Key { name: "protect", kind: Kind::Table(PROTECT), about: "What the agent may not change." },
    Key { name: "tests", kind: Kind::Table(TESTS), about: "Tests must not get weaker." },
    Key {
        name: "verify",
        kind: Kind::Table(VERIFY),
        about: "What has to happen before a run is called verified.",
    },
    Key {
        name: "orchestrator",
        kind: Kind::Table(ORCHESTRATOR),
        about: "Runs that work in phases.",
    },
    Key {
        name: "environment",
        kind: Kind::Table(ENVIRONMENT),
        about: "What gates see of the environment.",
    },
    Key {
        name: "runner",
        kind: Kind::Own(RUNNER),
        about: "How `ralph run` drives an agent. Only in your own `~/.ralph/config.toml`.",
    },
    Key {
        name: "notify",
        kind: Kind::Own(NOTIFY),
        about: "Who is told when a run ends. Only in your own `~/.ralph/config.toml`.",
    },
];

static RUN: &[Key] = &[
    Key {
        name: "max_iterations",
        kind: Kind::Count { least: 0, most: 1_000_000 },
        about: "How often the agent may be held; 0 is without limit.",
    },
    Key {
        name: "min_iterations",
        kind: Kind::Count { least: 0, most: 1_000_000 },
        about: "How often the agent is held at least, to polish, even when everything is met.",
    },
    Key {
        name: "max_duration",
        kind: Kind::Duration { least_ms: 0, most_ms: 365 * 24 * HOUR },
        about: "How long the run may take; `0s` is without limit.",
    },
    Key {
        name: "max_cost_usd",
        kind: Kind::Amount,
        about: "How much the session may spend, metered from the host's records; 0 is without limit.",
    },
    Key {
        name: "max_tokens",
        kind: Kind::Count { least: 0, most: 4_000_000_000 },
        about: "How many tokens all sessions that `ralph run` drives may use together, with what comes from the cache; 0 is without limit.",
    },
    Key {
        name: "stuck_after",
        kind: Kind::Count { least: 2, most: 1000 },
        about: "The run ends when this many stops in a row brought nothing new.",
    },
    Key {
        name: "handover_at",
        kind: Kind::Share,
        about: "The share of the context from which a runner starts a fresh session.",
    },
    Key {
        name: "baseline",
        kind: Kind::Choice(&["block", "ratchet"]),
        about: "Failures from before the run: `block` holds for them too, `ratchet` only for new ones.",
    },
    Key {
        name: "change",
        kind: Kind::Choice(&["required", "optional"]),
        about: "Whether a run that changed nothing can be done.",
    },
    Key {
        name: "on_tampering",
        kind: Kind::Choice(&["block", "review"]),
        about: "When ralph's files, the policy or protected files were changed: hold on and never verify, or end in review.",
    },
];

static GATE: &[Key] = &[
    Key { name: "name", kind: Kind::Name, about: "Unique; 1 to 60 of `A-Z a-z 0-9 . _ -`." },
    Key {
        name: "stage",
        kind: Kind::Choice(&["correctness", "quality", "security", "adversarial"]),
        about: "A stage runs once the one before it holds.",
    },
    Key {
        name: "run",
        kind: Kind::Argv,
        about: "The program and its arguments. `{report}` stands for the file that the report is read from.",
    },
    Key {
        name: "shell",
        kind: Kind::Shell,
        about: "Instead of `run`: a line for `/bin/sh -c`. Nothing is put into it; the report's path is in `$RALPH_REPORT`.",
    },
    Key { name: "cwd", kind: Kind::Directory, about: "Where it runs, relative to the project." },
    Key {
        name: "timeout",
        kind: Kind::Duration { least_ms: 1, most_ms: LONGEST_GATE_MS },
        about: "After this long it has said neither yes nor no. At most `24h`.",
    },
    Key {
        name: "paths",
        kind: Kind::Globs,
        about: "What it reads: it is not run again while nothing of this changed since it passed. Empty is everything.",
    },
    Key {
        name: "when",
        kind: Kind::Globs,
        about: "It counts only once something of this was changed in the run. Empty is always.",
    },
    Key {
        name: "on",
        kind: Kind::Choices(&["stop", "subagent", "task", "teammate"]),
        about: "At which events it runs.",
    },
    Key {
        name: "min_complexity",
        kind: Kind::Count { least: 0, most: 10 },
        about: "It counts only for runs at least this complex.",
    },
    Key {
        name: "required",
        kind: Kind::Flag,
        about: "`false` is advisory: told, but nobody is held for it.",
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
        about: "How to read what it says; with `none` only the exit code counts.",
    },
    Key {
        name: "min_tests",
        kind: Kind::Tests,
        about: "How many tests have to run: a number, `baseline` for no fewer than at the start, `some` for at least one where tests are counted.",
    },
    Key {
        name: "rerun",
        kind: Kind::Choice(&["tests", "always", "never"]),
        about: "Which failures have to be seen twice to be believed.",
    },
    Key {
        name: "env",
        kind: Kind::VariableNames,
        about: "Variables it gets beside those every gate gets.",
    },
];

static CHUNK: &[Key] = &[
    Key {
        name: "name",
        kind: Kind::Name,
        about: "Unique; 1 to 60 of `A-Z a-z 0-9 . _ -`. Without it, what `match` says.",
    },
    Key {
        name: "match",
        kind: Kind::Wildcard,
        about: "The type of the subagents, or the name of the teammate; `*` is anything, `?` one character.",
    },
    Key {
        name: "gates",
        kind: Kind::Names,
        about: "Gates that have to pass, by name, whatever their `on` says.",
    },
    Key {
        name: "outputs",
        kind: Kind::Globs,
        about: "Of each, a file has to be there that is not empty and was made or changed since the run began.",
    },
    Key {
        name: "max_holds",
        kind: Kind::Count { least: 1, most: 100 },
        about: "How often one agent is held in a row; then it is let go, unverified.",
    },
];

static PIPELINE: &[Key] = &[Key {
    name: "chunk",
    kind: Kind::Named(PIPELINE_CHUNK),
    about: "One chunk. It needs `name`. Agents are held to the first one that fits them, before any `[[chunk]]`.",
}];

static PIPELINE_CHUNK: &[Key] = &[
    Key {
        name: "name",
        kind: Kind::Name,
        about: "Unique, also among `[[chunk]]`; 1 to 60 of `A-Z a-z 0-9 . _ -`.",
    },
    Key {
        name: "match",
        kind: Kind::Wildcard,
        about: "The type of the subagents, or the name of the teammate; `*` is anything, `?` one character. Without it, the name.",
    },
    Key {
        name: "gates",
        kind: Kind::Names,
        about: "Gates that have to pass, by name, whatever their `on` says.",
    },
    Key {
        name: "outputs",
        kind: Kind::Globs,
        about: "Of each, a file has to be there that is not empty and was made or changed since the run began.",
    },
    Key {
        name: "max_holds",
        kind: Kind::Count { least: 1, most: 100 },
        about: "How often one agent is held in a row; then it is let go, unverified.",
    },
    Key {
        name: "after",
        kind: Kind::Names,
        about: "Chunks of the pipeline that have to be done before, by name.",
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

    /// What may stand there, for a hint.
    pub(super) fn expected(&self) -> String {
        match self {
            Self::Table(_) | Self::Own(_) => "a table is needed".to_string(),
            Self::Named(_) => "write it as `[[…]]`, once for each".to_string(),
            Self::Variables => {
                "a table of variables is needed: `set = { LANG = \"C\" }`".to_string()
            }
            Self::Flag => "`true` or `false` is needed".to_string(),
            Self::Count { least, most } => {
                format!("a whole number from {least} to {most} is needed")
            }
            Self::Amount => "an amount such as `20` or `1.50` is needed".to_string(),
            Self::Share => "a number above 0 and up to 1 is needed, such as `0.8`".to_string(),
            Self::Duration { most_ms: LONGEST_GATE_MS, .. } => {
                "a duration such as `\"90s\"` or `\"5m\"` is needed, at most `\"24h\"`".to_string()
            }
            Self::Duration { .. } => {
                "a duration such as `\"90m\"` or `\"8h\"` is needed".to_string()
            }
            Self::Name => "1 to 60 letters, digits, `.`, `_` and `-` are needed".to_string(),
            Self::Names => "a list of names is needed: `[\"tests\"]`".to_string(),
            Self::Wildcard => {
                "1 to 200 bytes on one line are needed, such as `\"implementer*\"`".to_string()
            }
            Self::Choice(choices) => format!("it can be {}", list(choices)),
            Self::Choices(choices) => format!("a list of any of {} is needed", list(choices)),
            Self::Tests => "it can be `\"baseline\"`, `\"some\"` or a whole number".to_string(),
            Self::Argv => {
                "a list of words is needed: `[\"npx\", \"tsc\", \"--noEmit\"]`".to_string()
            }
            Self::Shell => {
                "the line itself is needed: `shell = \"make lint | tee log\"`".to_string()
            }
            Self::Text => "a text is needed".to_string(),
            Self::Regex => "a regular expression is needed".to_string(),
            Self::Globs => "a list of globs is needed: `[\"src/**/*.ts\"]`".to_string(),
            Self::Directory => "a directory below the project is needed, without `..`".to_string(),
            Self::Directories => "a list of directories below the project is needed".to_string(),
            Self::VariableNames => {
                "a list of names such as `[\"DATABASE_URL\"]` is needed".to_string()
            }
            Self::Arguments => "a list of words is needed: `[\"--verbose\"]`".to_string(),
            Self::Model => {
                "1 to 200 letters, digits and signs without a space are needed, no `-` first"
                    .to_string()
            }
            Self::Hours => {
                "two different times of a day are needed, such as `\"22:00-06:00\"`".to_string()
            }
            Self::Address => {
                "an address such as `\"https://example.org/hook\"` is needed".to_string()
            }
        }
    }
}

fn list(choices: &[&str]) -> String {
    choices.iter().map(|choice| format!("`\"{choice}\"`")).collect::<Vec<_>>().join(", ")
}
