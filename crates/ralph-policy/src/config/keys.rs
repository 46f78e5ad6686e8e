//! The table of keys that a policy file may have. The parser, the JSON schema and the reference in `docs/` are derived
//! from it, and each key carries how its value is set: a new setting is one row here and its use.
//! Default values are in `defaults.toml`.

mod ci_keys;
mod entry_keys;
mod judge_keys;
mod keep_keys;
mod memory_keys;
mod price_keys;
mod runner_keys;
mod sections;

use super::apply::ConfigDraft;
use super::judge_backend::BACKEND_HINT;
use super::value::{DIRECTORY_HINT, FILE_HINT, MAX_NAME_BYTES, MAX_WILDCARD_BYTES};
pub(super) use ci_keys::CI;
pub(super) use entry_keys::{CHUNK, GATE, PATTERN, PIPELINE_CHUNK};
pub(super) use judge_keys::JUDGE;
use keep_keys::KEEP;
use memory_keys::MEMORY;
use price_keys::PRICE;
use ralph_core::judge::JudgeBackend;
use runner_keys::RUNNER;
use sections::{
    ENVIRONMENT, EXPORT, LINES, NOTIFY, ORCHESTRATOR, PIPELINE, PROTECT, RUN, SESSION, TESTS,
    VERIFY,
};

/// One key of a table.
#[derive(Debug)]
pub(super) struct ConfigKey {
    pub(super) name: &'static str,
    pub(super) kind: ValueKind,
    /// One or two sentences for the reference.
    pub(super) description: &'static str,
}

/// An array of tables such as `[[gate]]`, each with a `name`, or something else that identifies it.
#[derive(Debug)]
pub(super) struct EntryTable {
    /// `gate`, `ci`, `chunk`, `pipeline.chunk`, `lines.pattern` or `price`.
    pub(super) path: &'static str,
    pub(super) keys: &'static [ConfigKey],
    /// Keys that every entry must have.
    pub(super) required: &'static [&'static str],
    /// Whether only the person's own file may have it.
    pub(super) is_user_only: bool,
    /// Adds the entry whose keys were set to the policy.
    pub(super) add: fn(&mut ConfigDraft),
}

pub(super) type SetFlag = fn(&mut ConfigDraft, bool);
pub(super) type SetCount = fn(&mut ConfigDraft, u32);
pub(super) type SetShare = fn(&mut ConfigDraft, u16);
/// Sets a number of milliseconds or of millionths of a dollar.
pub(super) type SetAmount = fn(&mut ConfigDraft, u64);
pub(super) type SetText = fn(&mut ConfigDraft, &str);
pub(super) type SetTexts = fn(&mut ConfigDraft, &[String]);
/// Sets the variable of a name to a text.
pub(super) type SetVariable = fn(&mut ConfigDraft, &str, &str);

pub(super) type SetBackend = fn(&mut ConfigDraft, &JudgeBackend);

/// The kind of value that a key takes, and how it is set.
#[derive(Debug)]
pub(super) enum ValueKind {
    Table(&'static [ConfigKey]),
    /// A table that only the person's own file may have: with it a repository could run programs or send data.
    UserOnly(&'static [ConfigKey]),
    /// A later layer replaces the whole entry of the same name.
    NamedEntries(&'static EntryTable),
    /// A table of environment variables.
    Variables(SetVariable),
    Flag(SetFlag),
    Count {
        least: u32,
        most: u32,
        set: SetCount,
    },
    /// US dollars.
    Usd(SetAmount),
    /// More than 0 and at most 1.
    Share(SetShare),
    /// From 0 to 100, with two digits after the point.
    Percent(SetShare),
    Duration {
        least_ms: u64,
        most_ms: u64,
        set: SetAmount,
    },
    /// 1 to 60 letters, digits, `.`, `_` and `-`.
    Name(SetText),
    Names(SetTexts),
    /// A name that may contain `*` and `?`.
    Wildcard(SetText),
    Choice(&'static [&'static str], SetText),
    Choices(&'static [&'static str], SetTexts),
    /// `baseline`, `some` or a number.
    MinTests {
        count: SetCount,
        text: SetText,
    },
    Argv(SetTexts),
    /// A line for `/bin/sh`.
    Shell(SetText),
    Text(SetText),
    Regex(SetText),
    Globs(SetTexts),
    /// Globs, some of which may exclude files with a leading `!`.
    Selection(SetTexts),
    /// A directory inside the project, or `.`
    Directory(SetText),
    /// A file inside the project.
    File(SetText),
    Directories(SetTexts),
    VariableNames(SetTexts),
    /// Words added to a command line.
    Arguments(SetTexts),
    /// A model name as the agent's command line takes it.
    Model(SetText),
    /// `22:00-06:00`
    Hours(SetText),
    /// An `https://` URL. Knowing it may be enough to post there, so it is never shown in full.
    Url(SetText),
    /// An `https://` or `http://` address of a service, without credentials in it.
    Endpoint(SetText),
    /// What gives the verdict of a judge.
    Backend(SetBackend),
}

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
        name: "session",
        kind: ValueKind::Table(SESSION),
        description: "Sessions without a run.",
    },
    ConfigKey {
        name: "gate",
        kind: ValueKind::NamedEntries(&GATE),
        description: "A command whose result is evidence. Requires `name`, and either `run` or `shell`.",
    },
    ConfigKey {
        name: "judge",
        kind: ValueKind::NamedEntries(&JUDGE),
        description: "A reviewer whose verdict on the change is evidence, asked when everything else is met. Requires `name`, `kind` and `backend`. See [judges](judges.md).",
    },
    ConfigKey {
        name: "ci",
        kind: ValueKind::NamedEntries(&CI),
        description: "Checks of the commit at a CI provider, see [CI](ci.md). Requires `name` and `provider`. It comes after all gates, checks and the proof; only judges come later.",
    },
    ConfigKey {
        name: "chunk",
        kind: ValueKind::NamedEntries(&CHUNK),
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
        name: "memory",
        kind: ValueKind::Table(MEMORY),
        description: "What ralph learns from runs, and which sessions get it, see [memory](memory.md).",
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
    ConfigKey {
        name: "export",
        kind: ValueKind::UserOnly(EXPORT),
        description: "Where runs are sent to. Allowed only in your own `~/.ralph/config.toml`.",
    },
    ConfigKey {
        name: "keep",
        kind: ValueKind::UserOnly(KEEP),
        description: "How long ralph keeps its own files, see [cleaning](cleaning.md). Allowed only in your own `~/.ralph/config.toml`.",
    },
    ConfigKey {
        name: "price",
        kind: ValueKind::NamedEntries(&PRICE),
        description: "What a model costs, in US dollars per million tokens, where the built-in prices are wrong or missing. Requires `model`, `input` and `output`. Allowed only in your own `~/.ralph/config.toml`.",
    },
];

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
    /// Whether only the person's own file may have it.
    pub(super) fn is_user_only(&self) -> bool {
        if let Self::NamedEntries(table) = self {
            table.is_user_only
        } else {
            matches!(self, Self::UserOnly(_))
        }
    }

    pub(super) fn keys(&self) -> &'static [ConfigKey] {
        if let Self::Table(keys) | Self::UserOnly(keys) = self {
            keys
        } else if let Self::NamedEntries(table) = self {
            table.keys
        } else {
            &[]
        }
    }

    /// Describes the expected value, for a hint.
    pub(super) fn expected(&self) -> String {
        match self {
            Self::Table(_) | Self::UserOnly(_) => "expected a table".to_string(),
            Self::NamedEntries(_) => "write one `[[…]]` per entry".to_string(),
            Self::Variables(_) => {
                "expected a table of variables: `set = { LANG = \"C\" }`".to_string()
            }
            Self::Flag(_) => "expected `true` or `false`".to_string(),
            Self::Count { least, most, .. } => {
                format!("expected a whole number from {least} to {most}")
            }
            Self::Usd(_) => "expected an amount such as `20` or `1.50`".to_string(),
            Self::Share(_) => "expected a number above 0 and up to 1, such as `0.8`".to_string(),
            Self::Percent(_) => "expected a percentage such as `80` or `79.5`".to_string(),
            Self::Duration { most_ms: MAX_GATE_TIMEOUT_MS, .. } => {
                "expected a duration such as `\"90s\"` or `\"5m\"`, at most `\"24h\"`".to_string()
            }
            Self::Duration { .. } => {
                "expected a duration such as `\"90m\"` or `\"8h\"`".to_string()
            }
            Self::Name(_) => {
                format!("expected 1 to {MAX_NAME_BYTES} letters, digits, `.`, `_` and `-`")
            }
            Self::Names(_) => "expected a list of names: `[\"tests\"]`".to_string(),
            Self::Wildcard(_) => {
                format!(
                    "expected 1 to {MAX_WILDCARD_BYTES} bytes on one line, such as `\"implementer*\"`"
                )
            }
            Self::Choice(choices, _) => format!("expected one of {}", quoted_list(choices)),
            Self::Choices(choices, _) => {
                format!("expected a list of any of {}", quoted_list(choices))
            }
            Self::MinTests { .. } => {
                "expected `\"baseline\"`, `\"some\"` or a whole number".to_string()
            }
            Self::Argv(_) => {
                "expected a list of words: `[\"npx\", \"tsc\", \"--noEmit\"]`".to_string()
            }
            Self::Shell(_) => {
                "expected a command line: `shell = \"make lint | tee log\"`".to_string()
            }
            Self::Text(_) => "expected a string".to_string(),
            Self::Regex(_) => "expected a regular expression".to_string(),
            Self::Globs(_) => "expected a list of globs: `[\"src/**/*.ts\"]`".to_string(),
            Self::Selection(_) => {
                "expected a list of globs: `[\"src/**/*.ts\", \"!src/gen/**\"]`".to_string()
            }
            Self::Directory(_) => DIRECTORY_HINT.to_string(),
            Self::File(_) => FILE_HINT.to_string(),
            Self::Directories(_) => "expected a list of directories inside the project".to_string(),
            Self::VariableNames(_) => {
                "expected a list of variable names such as `[\"DATABASE_URL\"]`".to_string()
            }
            Self::Arguments(_) => "expected a list of words: `[\"--verbose\"]`".to_string(),
            Self::Model(_) => {
                format!(
                    "expected 1 to {MAX_WILDCARD_BYTES} printable characters without spaces, not starting with `-`"
                )
            }
            Self::Hours(_) => {
                "expected two different times of day, such as `\"22:00-06:00\"`".to_string()
            }
            Self::Endpoint(_) => "expected a URL such as `\"http://127.0.0.1:4318\"`".to_string(),
            Self::Backend(_) => BACKEND_HINT.to_string(),
            Self::Url(_) => "expected a URL such as `\"https://example.org/hook\"`".to_string(),
        }
    }
}

fn quoted_list(choices: &[&str]) -> String {
    choices.iter().map(|choice| format!("`\"{choice}\"`")).collect::<Vec<_>>().join(", ")
}
