//! Judges: reviewers whose structured verdict on the change is evidence. This module defines a judge, the case it is
//! given and its result; the `ralph-judge` crate asks it.
//!
//! A verdict is an opinion, not a measurement. Judges run last, when every deterministic requirement is met, and see
//! facts that ralph gathered, never the agent's messages.

use crate::requirement::{FindingSeverity, RequirementWeight};
use crate::serde_skip::is_false;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// `[[judge]]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judge {
    /// Unique among the gates and judges of its policy.
    pub name: String,
    pub kind: JudgeKind,
    pub backend: JudgeBackend,
    /// The instructions of the user, which replace the preset of the kind. Read from a file when the policy is
    /// approved, and sealed with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// The file that `prompt` was read from, relative to the project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_file: Option<String>,
    /// Input and output tokens that one verdict may use, over all its calls.
    pub max_tokens: u64,
    /// Time for one verdict, over all its calls.
    pub timeout_ms: u64,
    /// How many independent reviewers an adversarial judge asks.
    pub reviewers: u8,
    pub weight: RequirementWeight,
    /// Whether a run whose goal only this judge confirms may end `verified`.
    pub counts: bool,
    /// Whether tests that adversarial reviewers write are run, in a checkout of the candidate.
    #[serde(default, skip_serializing_if = "is_false")]
    pub tests: bool,
    /// Globs: it applies only if a matching file was changed since the run began. If empty, it always applies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub when: Vec<String>,
    /// It applies only to runs of at least this complexity, from 0 to 10.
    pub min_complexity: u8,
}

impl Judge {
    /// Whether it gets the files of the candidate besides its case.
    pub fn reads_files(&self) -> bool {
        match self.backend {
            JudgeBackend::Command(_) => true,
            JudgeBackend::Host(_) | JudgeBackend::Http(_) => self.kind == JudgeKind::Agent,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JudgeKind {
    /// One call with the whole case.
    #[default]
    Prompt,
    /// May read files and run the trusted gates in a checkout of the candidate.
    Agent,
    /// Several reviewers who try to refute the work. A finding counts once another reviewer confirms it, or a test that
    /// shows it fails on the candidate.
    Adversarial,
    /// Whether the work matches the plan, step by step.
    Plan,
    /// Whether the goal is met, where no test can measure it.
    Goal,
    /// Whether the goal asked for the changes to existing tests.
    Amended,
}

/// The program or service that gives the verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JudgeBackend {
    /// Gets the [`JudgeCase`] as JSON on stdin and prints a [`JudgeAnswer`] as JSON on stdout.
    Command(Vec<String>),
    /// The command-line program of a host, headless: without hooks, with tools that only read.
    Host(JudgeHost),
    Http(JudgeEndpoint),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JudgeHost {
    /// `claude`
    pub host: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JudgeEndpoint {
    /// `https`, or `http` on the loopback interface.
    pub url: String,
    /// The environment variable that holds the key. The key itself is never stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    pub model: String,
    pub api: JudgeApi,
}

/// The wire format of an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JudgeApi {
    /// `POST …/v1/messages`
    #[default]
    Anthropic,
    /// `POST …/v1/chat/completions`
    OpenAi,
}

/// What a judge is given: facts only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JudgeCase {
    pub v: u8,
    pub judge: String,
    pub kind: JudgeKind,
    pub goal: String,
    /// What the run must fulfil, as it was sealed when the run began.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub contract: Vec<ContractItem>,
    /// The requirements that ralph measured, with their evidence.
    pub evidence: Vec<CaseEvidence>,
    /// Unified diff from the base of the run, without test files.
    pub diff: String,
    /// Unified diff of test files and test settings.
    pub test_diff: String,
    /// The plan, for [`JudgeKind::Plan`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// Files that were left out of the diffs because of their size or because they are binary.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub omitted: Vec<String>,
    /// Files of whose changed lines something was removed because it looks like a secret.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub redacted: Vec<RedactedFile>,
}

/// A required gate, or a required item of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContractItem {
    pub kind: ContractKind,
    /// `suite`, `feature 4`
    pub name: String,
    /// What is to be done; empty for a gate.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<String>,
    /// The command that measures it; `None` for a claim, and for a gate that asks a CI provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

impl ContractItem {
    pub fn new(kind: ContractKind) -> Self {
        Self { kind, name: String::new(), text: String::new(), steps: Vec::new(), command: None }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ContractKind {
    Gate,
    Feature,
    PlanStep,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RedactedFile {
    pub file: String,
    /// How many places were removed.
    pub places: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaseEvidence {
    pub requirement: String,
    /// One line: `passed, 148 tests`.
    pub result: String,
}

/// A judge's answer as it sent it. Foreign text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JudgeAnswer {
    pub verdict: JudgeVerdict,
    #[serde(default)]
    pub findings: Vec<JudgeFinding>,
    /// From 0 to 1.
    #[serde(default)]
    pub confidence: Option<f64>,
    /// Why, in its own words. No quote backs it, so it is shown and decides nothing.
    #[serde(default)]
    pub reason: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JudgeVerdict {
    Met,
    Unmet,
    /// The goal cannot be met as stated.
    Impossible,
    Unsure,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JudgeFinding {
    pub file: String,
    #[serde(default)]
    pub line: Option<u32>,
    pub claim: String,
    #[serde(default)]
    pub severity: FindingSeverity,
    /// Text of the file that the claim is about. A finding whose quote is not in the file is dropped.
    #[serde(default)]
    pub quote: String,
    /// A test that shows the claim, from an adversarial reviewer. It is never run in the work tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<ReviewTest>,
    /// The test that fails because of it, and how. Never taken from an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown_by: Option<String>,
}

/// A test file that a reviewer wrote. Foreign text, and the path is not checked yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReviewTest {
    pub path: String,
    pub content: String,
}

/// The result of one verdict, which may take several calls. Stored in the cache and, summarised, in the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JudgeResult {
    pub judge: String,
    pub outcome: JudgeOutcome,
    /// The findings that stand: their quotes are in the files, and adversarial ones are confirmed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<JudgeFinding>,
    /// Why, in its own words: cleaned, redacted and not checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Findings that were dropped, cleaned and redacted: the first few.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dropped: Vec<DroppedFinding>,
    /// How many findings were dropped because their quote is not in the file.
    #[serde(default)]
    pub misquoted: u32,
    /// How many findings of an adversarial judge no other reviewer confirmed.
    #[serde(default)]
    pub unconfirmed: u32,
    /// How many findings were beyond the limit of one answer, and not read.
    #[serde(default)]
    pub unread: u32,
    /// Why tests of reviewers were not accepted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rejected_tests: Vec<String>,
    /// Files of the change that the judge was not shown, or only in part.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unseen: Vec<String>,
    /// Hash of the instructions and the case.
    pub prompt_hash: String,
    /// As the backend named it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    pub usage: JudgeUsage,
    pub took_ms: u64,
    /// Whether it was known before, so that it cost nothing now.
    #[serde(default)]
    pub cached: bool,
}

/// A finding that does not count. A person may want to read it; the agent never does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DroppedFinding {
    pub file: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    pub claim: String,
    pub why: DropReason,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DropReason {
    /// Its path is absolute, or leads out of the project.
    BadPath,
    NoQuote,
    Misquoted,
    Unconfirmed,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum JudgeOutcome {
    Met,
    Unmet,
    Impossible,
    /// Unsure, disagreement, a timeout, a refusal, an answer that cannot be parsed: never met.
    Unknown {
        why: String,
    },
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JudgeUsage {
    pub calls: u32,
    pub input_tokens: u64,
    pub output_tokens: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub micro_usd: Option<u64>,
    /// Whether a part of the cost is estimated, because a call did not report what it used.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_estimated: bool,
}
