//! Gates: commands of the user whose results are evidence. This module defines a gate and its result; the `ralph-gates`
//! crate runs them.

mod finding_limits;
mod gate_order;
mod gate_report;
mod report_format;

use crate::ci_query::CiQuery;
use crate::coverage::{CoverageConditions, MeasuredCoverage};
use crate::requirement::{
    EvidenceKind, Finding, PendingReason, Requirement, RequirementFailure, RequirementStage,
    RequirementStatus, RequirementWeight,
};
use crate::test_cases::TestCases;
use crate::units;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

pub use finding_limits::{FindingLimits, SeverityCounts, TOO_MANY_RULE};
pub use gate_order::{GateBatch, GateTier};
pub use report_format::ReportFormat;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gate {
    /// Unique in its policy: 1 to 60 letters, digits, `-`, `_` or `.`
    pub name: String,
    pub stage: RequirementStage,
    pub command: GateInvocation,
    /// Working directory relative to the project; empty is the project itself.
    pub cwd: String,
    pub timeout_ms: u64,
    /// Globs of the files it reads. If empty, any change of the tree runs it again.
    pub paths: Vec<String>,
    /// Globs: the gate applies only if a matching file was changed since the run began. If empty, it always applies.
    pub when: Vec<String>,
    pub on: Vec<GateTrigger>,
    /// It applies only to runs of at least this complexity, from 0 to 10.
    pub min_complexity: u8,
    pub weight: RequirementWeight,
    pub report: ReportFormat,
    pub min_tests: MinTests,
    pub rerun: RerunPolicy,
    /// Environment variables it gets in addition to those every gate gets.
    pub env: Vec<String>,
    /// Globs of its test files, in addition to those recognised by name. Not serialised if empty, so that gates of
    /// older policies keep their seal and their cached results.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tests: Vec<String>,
    /// Globs of the files that its report consists of, relative to its directory. Only files that were written while it
    /// ran count. Not serialised if empty, as `tests`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub report_files: Vec<String>,
    /// Whether it takes part in the proof of a run, see [`crate::proof`].
    #[serde(default = "default_proof", skip_serializing_if = "is_default_proof")]
    pub proof: bool,
    /// Set for a gate of `[[ci]]`: the checks of the commit are its evidence, and `command` only stands for the queries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ci: Option<CiQuery>,
    #[serde(default, skip_serializing_if = "GateTier::is_fast")]
    pub tier: GateTier,
    #[serde(default, skip_serializing_if = "CoverageConditions::is_default")]
    pub coverage: CoverageConditions,
    /// How many findings it may have.
    #[serde(default, skip_serializing_if = "FindingLimits::is_empty")]
    pub limits: FindingLimits,
}

fn default_proof() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires this signature")]
fn is_default_proof(proof: &bool) -> bool {
    *proof
}

impl Gate {
    /// A required gate that runs `command` in the project at every stop and looks for findings in its output.
    pub fn new(name: impl Into<String>, command: GateInvocation) -> Self {
        Self {
            name: name.into(),
            stage: RequirementStage::Correctness,
            command,
            cwd: String::new(),
            timeout_ms: 5 * 60 * 1000,
            paths: Vec::new(),
            when: Vec::new(),
            on: vec![GateTrigger::Stop],
            min_complexity: 0,
            weight: RequirementWeight::Required,
            report: ReportFormat::default(),
            min_tests: MinTests::default(),
            rerun: RerunPolicy::default(),
            env: Vec::new(),
            tests: Vec::new(),
            report_files: Vec::new(),
            proof: true,
            ci: None,
            tier: GateTier::default(),
            coverage: CoverageConditions::default(),
            limits: FindingLimits::default(),
        }
    }

    /// The gate without its conditions on coverage. They are about the work as a whole, and say nothing where old tests
    /// run on new code.
    #[must_use]
    pub fn without_coverage_conditions(&self) -> Self {
        Self { coverage: CoverageConditions::default(), ..self.clone() }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateInvocation {
    /// A program and its arguments. `{report}` in an argument is replaced by the path that the report is read from.
    Argv(Vec<String>),
    /// A line for `/bin/sh -c`, written by the person as `shell = "…"`. Nothing is ever substituted in it; the report's
    /// path is in the shell's variable `RALPH_REPORT`, which the programs of the line do not inherit.
    Shell(String),
}

/// What happens to failures that existed before the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BaselineMode {
    /// They must be fixed too; they are only labelled.
    #[default]
    Block,
    /// They are reported but do not hold the agent; new failures do.
    Ratchet,
}

/// The events at which a gate runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateTrigger {
    Stop,
    Subagent,
    Task,
    Teammate,
}

/// How many tests must run for the result to count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MinTests {
    /// At least one, if the output counts tests at all.
    #[default]
    Some,
    /// At least as many as at the base of the run.
    Baseline,
    AtLeast(u32),
}

/// Whether a failure is confirmed by a second run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RerunPolicy {
    /// Only if tests failed: compilers and linters are not flaky.
    #[default]
    Tests,
    Always,
    Never,
}

/// The result of a gate. Only `Failed` is work for the agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateOutcome {
    Passed,
    Failed,
    Unknown(UnknownReason),
}

/// Why a gate neither passed nor failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnknownReason {
    /// It could not be run or crashed: no such program, killed, an unreadable report.
    Error(String),
    Timeout {
        after_ms: u64,
        /// What was still to come, if ralph waited for others: the checks of a CI provider.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        pending: String,
    },
    /// It ran without a usable result: every test was skipped, an empty report.
    Inconclusive(String),
    /// Its runner worked and found no tests. It proves nothing, but writing tests is work for the agent.
    NoTests(String),
    /// The CI provider does not have the work: it is not committed or not pushed. It proves nothing, but publishing it is
    /// work for the agent.
    Unpublished(String),
    /// Its stage was not reached.
    Skipped(String),
    /// No person has approved it.
    Untrusted,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestCounts {
    pub run: u32,
    pub failed: u32,
    pub skipped: u32,
}

/// The result of one execution of a gate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateReport {
    pub name: String,
    pub outcome: GateOutcome,
    /// The first findings, those that are shown.
    pub findings: Vec<Finding>,
    /// The other findings. They count in a comparison with the base.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub more_findings: Vec<Finding>,
    /// The total number of findings.
    pub finding_count: u32,
    /// Part of the output was not read, and there may be findings in it.
    #[serde(default, skip_serializing_if = "crate::serde_skip::is_false")]
    pub has_gaps: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tests: Option<TestCounts>,
    /// The tests by name, if the runner names any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cases: Option<TestCases>,
    /// The lines that its tests run, if it measures that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coverage: Option<Box<MeasuredCoverage>>,
    /// The exit code; `None` if it did not run to completion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<i32>,
    pub steadiness: ResultStability,
    pub took_ms: u64,
    pub at_ms: u64,
    /// Path of the log with its full output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
}

/// Whether a result was confirmed by a second run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResultStability {
    /// It ran once.
    #[default]
    Once,
    /// It failed twice on the same tree.
    Confirmed,
    /// It failed and then passed on the same tree.
    Flaky,
}

/// What was parsed from a gate's report or output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParsedReport {
    /// At most [`MAX_FINDINGS`].
    pub findings: Vec<Finding>,
    /// The other findings, unless there are too many to keep.
    pub more_findings: Vec<Finding>,
    pub finding_count: u32,
    /// Part of the output was not read, and there may be findings in it.
    pub has_gaps: bool,
    pub tests: Option<TestCounts>,
    /// The tests by name, if the runner names any.
    pub cases: Option<TestCases>,
    /// The lines that tests run, in a format that reports them.
    pub coverage: Option<Box<MeasuredCoverage>>,
    pub severities: SeverityCounts,
    /// Set if the result is not reliable, with the reason: empty, truncated, another format, "no tests found".
    pub doubt: Option<String>,
}

/// How many findings of one execution are shown. The log has all of them.
pub const MAX_FINDINGS: usize = 200;

impl GateOutcome {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Unknown(unknown) => unknown.name(),
        }
    }
}

impl UnknownReason {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Error(_) => "error",
            Self::Timeout { .. } => "timeout",
            Self::Inconclusive(_) | Self::NoTests(_) | Self::Unpublished(_) => "inconclusive",
            Self::Skipped(_) => "skipped",
            Self::Untrusted => "untrusted",
        }
    }

    /// `timed out after 5 min`, `` `build` still pending after 5 min ``, `no tests ran`
    pub fn describe(&self) -> String {
        match self {
            Self::Error(why)
            | Self::Inconclusive(why)
            | Self::NoTests(why)
            | Self::Unpublished(why)
            | Self::Skipped(why) => why.clone(),
            Self::Timeout { after_ms, pending } => {
                let after = units::format_duration(*after_ms);
                if pending.is_empty() {
                    format!("timed out after {after}")
                } else {
                    format!("{pending} still pending after {after}")
                }
            }
            Self::Untrusted => "not approved yet".to_string(),
        }
    }

    pub fn timeout(after_ms: u64) -> Self {
        Self::Timeout { after_ms, pending: String::new() }
    }

    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::Timeout { .. })
    }
}

impl ResultStability {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires this signature")]
    pub(crate) fn is_single(&self) -> bool {
        *self == Self::Once
    }
}

impl GateTrigger {
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
    /// Whether it takes part in a proof, of a run and by hand.
    pub fn takes_part_in_proof(&self) -> bool {
        self.proof && self.weight == RequirementWeight::Required
    }

    /// The command as a person would type it. For display only.
    pub fn command_line(&self) -> String {
        match &self.command {
            GateInvocation::Shell(line) => line.clone(),
            GateInvocation::Argv(words) => {
                words.iter().map(|word| shell_quote(word)).collect::<Vec<_>>().join(" ")
            }
        }
    }

    /// The requirement that a result of this gate amounts to.
    pub fn requirement(&self, report: &GateReport, baseline: BaselineMode) -> Requirement {
        let standing = match &report.outcome {
            GateOutcome::Passed => RequirementStatus::Met(EvidenceKind::Measured),
            GateOutcome::Failed if baseline == BaselineMode::Ratchet && report.is_preexisting() => {
                RequirementStatus::Met(EvidenceKind::Measured)
            }
            GateOutcome::Failed => RequirementStatus::Unmet(report.failure()),
            GateOutcome::Unknown(unknown) => match unknown {
                UnknownReason::Skipped(why) => {
                    RequirementStatus::Pending(PendingReason::NotReached(why.clone()))
                }
                UnknownReason::NoTests(why) => {
                    let next = format!("Write tests that `{}` runs", self.name);
                    return self.requirement_without_result(report, why, next);
                }
                UnknownReason::Unpublished(why) => {
                    let next = "Commit the work and push the commit".to_string();
                    return self.requirement_without_result(report, why, next);
                }
                UnknownReason::Error(_)
                | UnknownReason::Inconclusive(_)
                | UnknownReason::Timeout { .. }
                | UnknownReason::Untrusted => RequirementStatus::Unknown(unknown.describe()),
            },
        };
        self.requirement_with(standing)
    }

    /// The requirement that a result of this check of a goal or list item amounts to. The work may have to write what the
    /// check names, so a command that ran and did not find it has failed.
    pub fn check_requirement(&self, report: &GateReport) -> Requirement {
        match &report.outcome {
            GateOutcome::Unknown(UnknownReason::Error(why)) if report.lacks_named_file() => {
                let failure = RequirementFailure {
                    log: report.log.clone(),
                    ..RequirementFailure::new(why.clone())
                };
                self.requirement_with(RequirementStatus::Unmet(failure))
            }
            GateOutcome::Passed | GateOutcome::Failed | GateOutcome::Unknown(_) => {
                self.requirement(report, BaselineMode::Block)
            }
        }
    }

    /// The requirement of a gate without a result, where the agent can fix that: no tests, or unpublished work.
    fn requirement_without_result(
        &self,
        report: &GateReport,
        why: &str,
        next: String,
    ) -> Requirement {
        let failure = RequirementFailure {
            summary: why.to_string(),
            unlisted: 0,
            findings: Vec::new(),
            quote: None,
            log: report.log.clone(),
        };
        let requirement = self.requirement_with(RequirementStatus::Unmet(failure));
        Requirement { next, ..requirement }
    }

    /// The gate's requirement with this status, and the next step that goes with it.
    pub fn requirement_with(&self, standing: RequirementStatus) -> Requirement {
        let next = match &standing {
            RequirementStatus::Met(_)
            | RequirementStatus::Pending(PendingReason::NotReached(_)) => String::new(),
            RequirementStatus::Unmet(_) => format!("Make {} pass", self.name),
            RequirementStatus::Unknown(_) => {
                format!(
                    "If your changes broke {}, fix it; otherwise leave it to a person",
                    self.name
                )
            }
            RequirementStatus::Pending(
                PendingReason::Running(_) | PendingReason::AwaitsPerson(_),
            ) => "Wait for the gates with `ralph wait`".to_string(),
        };
        Requirement {
            name: self.name.clone(),
            stage: self.stage,
            status: standing,
            weight: self.weight,
            next,
        }
    }
}

/// Quotes a word for a POSIX shell, if necessary.
pub fn shell_quote(word: &str) -> String {
    // Some shells expand `{a,b}` and `{1..9}`.
    let has_braces = word.contains('{') && (word.contains(',') || word.contains(".."));
    let is_plain = !word.is_empty()
        && !has_braces
        && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_./=:,@%+{}".contains(&byte));
    if is_plain { word.to_string() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}
