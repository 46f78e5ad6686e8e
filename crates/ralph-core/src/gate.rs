//! A gate: a command of the user's whose result is evidence. What it is and how it ended, not how it is run.

use crate::limits;
use crate::policy::Baseline;
use crate::requirement::{
    Evidence, Failure, Finding, Pending, Requirement, Since, Stage, Standing, Weight,
};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gate {
    /// Unique in its policy: 1 to 60 letters, digits, `-`, `_` and `.`
    pub name: String,
    pub stage: Stage,
    pub command: Command,
    /// Where it runs, relative to the project; empty is the project itself.
    pub cwd: String,
    pub timeout_ms: u64,
    /// Globs of what it reads. Empty is everything: any change of the tree runs it again.
    pub paths: Vec<String>,
    /// Globs; the gate counts only once something they match was changed since the run began. Empty is always.
    pub when: Vec<String>,
    pub on: Vec<Moment>,
    /// It counts only for runs at least this complex, from 0 to 10.
    pub min_complexity: u8,
    pub weight: Weight,
    pub report: Format,
    pub min_tests: MinTests,
    pub rerun: Rerun,
    /// Variables it gets beside those every gate gets.
    pub env: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// A program and its arguments. `{report}` in one of them stands for the file that the report is read from.
    Argv(Vec<String>),
    /// A line for `/bin/sh -c`, because the person wrote `shell = "…"`. Nothing is ever put into it; the
    /// report's path is in `RALPH_REPORT`.
    Shell(String),
}

/// At which events it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Moment {
    Stop,
    Subagent,
    Task,
    Teammate,
}

/// How to read what it says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// Whatever can be recognised in the text of its output.
    #[default]
    Text,
    Junit,
    Sarif,
    CargoJson,
    EslintJson,
    GoTestJson,
    Tap,
    Pytest,
    Tsc,
    /// Only the exit code says something.
    None,
}

/// How many tests have to run for the result to count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MinTests {
    /// At least one, where tests are counted at all.
    #[default]
    Some,
    /// No fewer than at the base of the run.
    Baseline,
    AtLeast(u32),
}

/// Whether a failure has to be seen twice to be believed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rerun {
    /// When tests failed: compilers and linters do not flake.
    #[default]
    Tests,
    Always,
    Never,
}

/// How a gate ended. Only `Failed` is work for the agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Passed,
    Failed,
    Unknown(Unknown),
}

/// Why a gate says neither yes nor no.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unknown {
    /// It could not be run, or broke: no such program, killed, a report that cannot be read.
    Error(String),
    Timeout {
        after_ms: u64,
    },
    /// It ran and told nothing: no tests, an empty report.
    Inconclusive(String),
    /// Its turn did not come.
    Skipped(String),
    /// No person approved it.
    Untrusted,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tests {
    pub run: u32,
    pub failed: u32,
    pub skipped: u32,
}

/// What one run of a gate came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateReport {
    pub name: String,
    pub outcome: Outcome,
    /// The first of them.
    pub findings: Vec<Finding>,
    /// How many there were in all.
    pub finding_count: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tests: Option<Tests>,
    /// `None` when it was not run to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<i32>,
    pub steadiness: Steadiness,
    pub took_ms: u64,
    pub at_ms: u64,
    /// Where all of its output is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Steadiness {
    /// It was run once.
    #[default]
    Once,
    /// It failed twice on the same tree.
    Confirmed,
    /// It failed, and then passed on the same tree.
    Flaky,
}

/// What a report or an output told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// At most [`MOST_FINDINGS`].
    pub findings: Vec<Finding>,
    pub finding_count: u32,
    pub tests: Option<Tests>,
    /// Why it cannot be relied upon, if so: empty, cut off, not what it was said to be, "no tests found".
    pub doubt: Option<String>,
}

/// How many findings are kept of one run; the log has all of them.
pub const MOST_FINDINGS: usize = 200;

impl Outcome {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Unknown(unknown) => unknown.name(),
        }
    }
}

impl Unknown {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Error(_) => "error",
            Self::Timeout { .. } => "timeout",
            Self::Inconclusive(_) => "inconclusive",
            Self::Skipped(_) => "skipped",
            Self::Untrusted => "untrusted",
        }
    }
}

impl Format {
    pub const ALL: [Self; 10] = [
        Self::Text,
        Self::Junit,
        Self::Sarif,
        Self::CargoJson,
        Self::EslintJson,
        Self::GoTestJson,
        Self::Tap,
        Self::Pytest,
        Self::Tsc,
        Self::None,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Junit => "junit",
            Self::Sarif => "sarif",
            Self::CargoJson => "cargo-json",
            Self::EslintJson => "eslint-json",
            Self::GoTestJson => "go-test-json",
            Self::Tap => "tap",
            Self::Pytest => "pytest",
            Self::Tsc => "tsc",
            Self::None => "none",
        }
    }
}

impl Moment {
    pub const ALL: [Self; 4] = [Self::Stop, Self::Subagent, Self::Task, Self::Teammate];

    pub fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Subagent => "subagent",
            Self::Task => "task",
            Self::Teammate => "teammate",
        }
    }
}

impl Gate {
    /// The command as a person would type it, for showing only.
    pub fn shown(&self) -> String {
        match &self.command {
            Command::Shell(line) => line.clone(),
            Command::Argv(words) => {
                words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
            }
        }
    }

    /// What its result says about the work.
    pub fn requirement(&self, report: &GateReport, baseline: Baseline) -> Requirement {
        let standing = match &report.outcome {
            Outcome::Passed => Standing::Met(Evidence::Measured),
            Outcome::Failed if baseline == Baseline::Ratchet && report.is_old() => {
                Standing::Met(Evidence::Measured)
            }
            Outcome::Failed => Standing::Unmet(report.failure()),
            Outcome::Unknown(unknown) => match unknown {
                Unknown::Skipped(why) => Standing::Pending(Pending::NotReached(why.clone())),
                Unknown::Untrusted => Standing::Unknown("nobody approved it yet".to_string()),
                Unknown::Error(why) | Unknown::Inconclusive(why) => Standing::Unknown(why.clone()),
                Unknown::Timeout { after_ms } => {
                    Standing::Unknown(format!("timed out after {}", limits::duration(*after_ms)))
                }
            },
        };
        self.standing(standing)
    }

    pub fn standing(&self, standing: Standing) -> Requirement {
        let next = match &standing {
            Standing::Met(_) | Standing::Pending(Pending::NotReached(_)) => String::new(),
            Standing::Unmet(_) => format!("Make {} pass", self.name),
            Standing::Unknown(_) => {
                format!(
                    "If your changes broke {}, mend that; otherwise a person has to look",
                    self.name
                )
            }
            Standing::Pending(Pending::Running(_)) => {
                "Wait for the gates with `ralph gate wait`".to_string()
            }
        };
        Requirement {
            name: self.name.clone(),
            stage: self.stage,
            standing,
            weight: self.weight,
            next,
        }
    }
}

impl GateReport {
    /// A report of a gate that was not run.
    pub fn unknown(gate: &Gate, unknown: Unknown, at_ms: u64) -> Self {
        Self {
            name: gate.name.clone(),
            outcome: Outcome::Unknown(unknown),
            findings: Vec::new(),
            finding_count: 0,
            tests: None,
            exit: None,
            steadiness: Steadiness::Once,
            took_ms: 0,
            at_ms,
            log: None,
        }
    }

    /// Whether everything that failed had failed before the run, and all of it is listed.
    pub fn is_old(&self) -> bool {
        !self.findings.is_empty()
            && usize::try_from(self.finding_count) == Ok(self.findings.len())
            && self.findings.iter().all(|finding| finding.since == Since::PreExisting)
    }

    /// `2 of 148 tests failed`, `3 findings`, `exit code 1`.
    pub fn summary(&self) -> String {
        let counted = match (self.tests, self.finding_count) {
            (Some(Tests { run, failed, .. }), _) if failed > 0 => {
                format!("{failed} of {run} tests failed")
            }
            (_, 0) => match self.exit {
                Some(code) => format!("exit code {code}"),
                None => "failed".to_string(),
            },
            (_, 1) => "1 finding".to_string(),
            (_, count) => format!("{count} findings"),
        };
        let old = self.findings.iter().filter(|one| one.since == Since::PreExisting).count();
        if old == 0 { counted } else { format!("{counted}, {old} pre-existing") }
    }

    fn failure(&self) -> Failure {
        let mut findings = self.findings.clone();
        // What the run brought goes first: it is what the agent knows how to mend.
        findings.sort_by_key(|finding| finding.since == Since::PreExisting);
        let count = usize::try_from(self.finding_count).unwrap_or(usize::MAX);
        Failure {
            summary: self.summary(),
            unlisted: count.saturating_sub(findings.len()),
            findings,
            quote: None,
            log: self.log.clone(),
        }
    }
}

/// A word as one types it into a shell.
pub fn quoted(word: &str) -> String {
    let is_plain = !word.is_empty()
        && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_./=:,@%+{}".contains(&byte));
    if is_plain { word.to_string() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}
