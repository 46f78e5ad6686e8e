//! What a project demands: the meaning of `ralph.toml`, not its text. Sealed into a run when it starts.

use crate::gate::Gate;
use crate::limits::Limits;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    pub limits: Limits,
    pub baseline: Baseline,
    pub change: Change,
    pub on_tampering: OnTampering,
    pub gates: Vec<Gate>,
    /// What came later than the format is left out while it says nothing: a seal of an older ralph keeps its hash.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chunks: Vec<Chunk>,
    /// `[[pipeline.chunk]]`: chunks that all have to be done.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pipeline: Vec<Chunk>,
    #[serde(default, skip_serializing_if = "Approver::is_person")]
    pub plan_approver: Approver,
    pub lines: Lines,
    pub protect: Protect,
    pub tests: TestIntegrity,
    pub verify: Verify,
    pub environment: Environment,
}

/// What becomes of failures that were there before the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnTampering {
    /// Keep holding the agent; the run then ends `needs_review` instead of `verified`.
    Block,
    /// End the run with `needs_review` at once.
    EndInReview,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Baseline {
    /// They have to be fixed as well; the label is for information.
    #[default]
    Block,
    /// They are told and not held for; anything new is.
    Ratchet,
}

/// Whether a run that left everything as it was can be done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    #[default]
    Required,
    Optional,
}

/// `[[chunk]]`: what a subagent or teammate has to have done before it may stop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunk {
    pub name: String,
    /// A type of agents or the name of a teammate; `*` and `?` stand for any characters and for one.
    pub r#match: String,
    /// Names of gates.
    pub gates: Vec<String>,
    /// Globs from the project; a file of each has to come of the work.
    pub outputs: Vec<String>,
    /// How often one agent may be held before it is let go, unverified.
    pub max_holds: u32,
    /// Names of chunks of the pipeline that have to be done before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
}

/// Who may say that a plan is good, in a run that works in phases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Approver {
    #[default]
    Person,
    Agent,
}

impl Approver {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires this signature")]
    fn is_person(&self) -> bool {
        *self == Self::Person
    }
}

/// `[lines]`: instant checks over added lines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lines {
    pub forbid: Vec<LineCheck>,
    /// Patterns of the person's own.
    pub patterns: Vec<LinePattern>,
    /// Globs of files that are not looked at.
    pub exclude: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LineCheck {
    Todo,
    Placeholder,
    DebugPrint,
    Debugger,
    SkippedTest,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinePattern {
    pub name: String,
    /// A regular expression.
    pub pattern: String,
    pub message: String,
    /// Globs; empty is every text file.
    pub paths: Vec<String>,
}

/// `[protect]`: what the agent may not change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Protect {
    pub paths: Vec<String>,
    #[serde(default, skip_serializing_if = "Objection::is_deny")]
    pub guard: Objection,
}

/// What becomes of a tool call that would touch what is not the agent's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Objection {
    #[default]
    Deny,
    /// The person decides, where there is one to ask.
    Ask,
    /// It is found out at the stop.
    Off,
}

impl Objection {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires this signature")]
    fn is_deny(&self) -> bool {
        *self == Self::Deny
    }
}

/// `[tests]`: what must not get weaker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestIntegrity {
    pub integrity: Guard,
    #[serde(default)]
    pub red_first: RedFirst,
    /// Globs of test files beside those known by their names.
    pub paths: Vec<String>,
}

/// Whether a new test has to be seen failing without the change it tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RedFirst {
    #[default]
    Optional,
    Required,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Guard {
    /// Weaker tests hold the agent.
    #[default]
    Block,
    /// They are told.
    Advise,
    Off,
}

/// `[verify]`: what has to happen before the word `verified` is used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verify {
    pub checkout: Checkout,
    /// Ignored directories that a clean checkout gets a link to: `node_modules`.
    pub link: Vec<String>,
    #[serde(default, skip_serializing_if = "Claims::are_claims")]
    pub claims: Claims,
}

/// What a ticked item without a check of its own is worth when every required gate passes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Claims {
    /// Somebody's word: the run ends `claimed`.
    #[default]
    Claimed,
    /// The person is content with gates beside it: the run ends `verified`.
    WithGates,
}

impl Claims {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires this signature")]
    fn are_claims(&self) -> bool {
        *self == Self::Claimed
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Checkout {
    /// The gates' results on the work tree are enough, unless a runner drives.
    #[default]
    Auto,
    /// Every gate passes once more in a clean checkout of the candidate, with protected files as at the base.
    Clean,
    Tree,
}

/// `[environment]`: what gates see of the person's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    /// Names beside the ones every gate gets. A secret has to be named here to be seen.
    pub pass: Vec<String>,
    pub set: Vec<(String, String)>,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            limits: Limits::DEFAULT,
            baseline: Baseline::default(),
            change: Change::default(),
            on_tampering: OnTampering::Block,
            gates: Vec::new(),
            chunks: Vec::new(),
            pipeline: Vec::new(),
            plan_approver: Approver::default(),
            lines: Lines::default(),
            protect: Protect::default(),
            tests: TestIntegrity::default(),
            verify: Verify::default(),
            environment: Environment::default(),
        }
    }
}

impl LineCheck {
    pub const ALL: [Self; 5] =
        [Self::Todo, Self::Placeholder, Self::DebugPrint, Self::Debugger, Self::SkippedTest];

    pub fn name(self) -> &'static str {
        match self {
            Self::Todo => "todo",
            Self::Placeholder => "placeholder",
            Self::DebugPrint => "debug-print",
            Self::Debugger => "debugger",
            Self::SkippedTest => "skipped-test",
        }
    }
}
