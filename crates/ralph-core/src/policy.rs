//! A project's policy: the content of `ralph.toml` after parsing. It is sealed into a run when the run starts. Reading
//! the file is up to the `ralph-policy` crate.

use crate::gate::{BaselineMode, Gate};
use crate::judge::Judge;
use crate::limits::RunLimits;
use crate::source::orchestrator::OrchestratorPhase;
use crate::status::RunStatus;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    pub limits: RunLimits,
    pub baseline: BaselineMode,
    pub change: ChangePolicy,
    pub on_tampering: OnTampering,
    pub gates: Vec<Gate>,
    /// Fields that were added later are left out while they have their default, so that a seal written by an older
    /// ralph keeps its hash.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chunks: Vec<Chunk>,
    /// `[[pipeline.chunk]]`: chunks that must all be done.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pipeline: Vec<Chunk>,
    #[serde(default, skip_serializing_if = "PlanApprover::is_person")]
    pub plan_approver: PlanApprover,
    /// Phases of an orchestrated run that a person has to approve, besides the plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phase_approvals: Vec<OrchestratorPhase>,
    pub lines: LinePolicy,
    pub protect: ProtectPolicy,
    pub tests: TestPolicy,
    pub verify: VerifyPolicy,
    pub environment: GateEnvironment,
    #[serde(default, skip_serializing_if = "SessionGatePolicy::is_default")]
    pub session: SessionGatePolicy,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub judges: Vec<Judge>,
    #[serde(default, skip_serializing_if = "MemoryPolicy::is_default")]
    pub memory: MemoryPolicy,
}

/// `[memory]`: what ralph remembers of runs, and which sessions get it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryPolicy {
    /// Whether lessons are derived from a run when it ends.
    pub learn: bool,
    /// Whether sessions without a run get lessons and notes too.
    pub sessions: bool,
    /// The most that an agent gets at once, in characters; 0 for nothing.
    pub max_chars: u32,
}

impl Default for MemoryPolicy {
    fn default() -> Self {
        Self { learn: true, sessions: false, max_chars: 2_000 }
    }
}

impl MemoryPolicy {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// `[session]`: what holds sessions without a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionGatePolicy {
    pub gates: SessionGates,
    /// How often one prompt is held at most.
    pub holds: u32,
    /// A stop does not wait longer than this for its gates; they continue in the background.
    pub slow_ms: u64,
}

/// Which sessions the gates hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionGates {
    /// Those with a run only.
    #[default]
    Goal,
    /// Every session of the project.
    Every,
}

impl Default for SessionGatePolicy {
    fn default() -> Self {
        Self { gates: SessionGates::default(), holds: 3, slow_ms: 60_000 }
    }
}

impl SessionGatePolicy {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// What happens when the agent changed the policy, protected files or ralph's own files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnTampering {
    /// Keep holding the agent; the run then ends `needs_review` instead of `verified`.
    Block,
    /// End the run with `needs_review` at once.
    EndInReview,
}

/// Whether a run must change the work tree to end successfully.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangePolicy {
    #[default]
    Required,
    Optional,
}

/// `[[chunk]]`: what a subagent or teammate must have done before it may stop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunk {
    pub name: String,
    /// An agent type or a teammate's name; `*` matches any characters and `?` exactly one.
    pub r#match: String,
    /// Names of gates.
    pub gates: Vec<String>,
    /// Globs relative to the project. The work must produce a file for each.
    pub outputs: Vec<String>,
    /// How often one agent is held before it may stop unverified.
    pub max_holds: u32,
    /// Names of pipeline chunks that must be done first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
    /// Whether a person has to approve the finished chunk.
    #[serde(default, skip_serializing_if = "crate::serde_skip::is_false")]
    pub approval: bool,
}

/// The party that approves the plan of an orchestrated run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanApprover {
    #[default]
    Person,
    Agent,
}

impl PlanApprover {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires this signature")]
    fn is_person(&self) -> bool {
        *self == Self::Person
    }
}

/// `[lines]`: fast checks of added lines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinePolicy {
    pub forbid: Vec<LineCheck>,
    /// The user's own patterns.
    pub patterns: Vec<LinePattern>,
    /// Globs of files to skip.
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
    /// Globs; if empty, all text files.
    pub paths: Vec<String>,
}

/// `[protect]`: files the agent must not change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProtectPolicy {
    pub paths: Vec<String>,
    #[serde(default, skip_serializing_if = "GuardAction::is_deny")]
    pub guard: GuardAction,
}

/// What happens to a tool call that would change a protected file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GuardAction {
    #[default]
    Deny,
    /// The person decides, if one is present.
    Ask,
    /// The call is allowed; the change is detected at the next stop.
    Off,
}

impl GuardAction {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires this signature")]
    fn is_deny(&self) -> bool {
        *self == Self::Deny
    }
}

/// `[tests]`: how the test suite is protected from being weakened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestPolicy {
    pub integrity: IntegrityMode,
    #[serde(default)]
    pub red_first: RedFirst,
    /// Globs of test files in addition to those recognised by name.
    pub paths: Vec<String>,
    /// Globs of files that decide how tests run, in addition to those recognised by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub harness: Vec<String>,
}

/// Whether a new test must fail without the change it tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RedFirst {
    #[default]
    Optional,
    Required,
}

/// How weakened tests are treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IntegrityMode {
    /// They hold the agent.
    #[default]
    Block,
    /// They are only reported.
    Advise,
    Off,
}

/// `[verify]`: what is required for a run to end `verified`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifyPolicy {
    pub checkout: CheckoutMode,
    /// Ignored directories that gates need in checkouts, besides `node_modules`, `.venv` and `venv`.
    pub link: Vec<String>,
    #[serde(default, skip_serializing_if = "ClaimPolicy::are_claims")]
    pub claims: ClaimPolicy,
    #[serde(default, skip_serializing_if = "ProofMode::is_full")]
    pub proof: ProofMode,
    #[serde(default, skip_serializing_if = "MergeThreshold::is_verified")]
    pub accept: MergeThreshold,
    /// Globs of test files that the goal asks to change: their new version counts as the old one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub may_change: Vec<String>,
}

/// Whether a run has to prove that its tests notice the work, see [`crate::proof`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProofMode {
    /// The outcome of the proof decides the final status.
    #[default]
    Full,
    /// The outcome is reported and decides nothing.
    Tell,
    Off,
}

impl ProofMode {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires this signature")]
    fn is_full(&self) -> bool {
        *self == Self::Full
    }
}

/// The lowest final status with which the work of a separate work tree is merged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MergeThreshold {
    #[default]
    Verified,
    Green,
}

impl MergeThreshold {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires this signature")]
    fn is_verified(&self) -> bool {
        *self == Self::Verified
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Verified => "verified",
            Self::Green => "green",
        }
    }

    pub fn includes(self, status: RunStatus) -> bool {
        status == RunStatus::Verified || self == Self::Green && status == RunStatus::Green
    }
}

/// What a ticked item without its own check counts for when every required gate passes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimPolicy {
    /// Only a claim: the run ends `claimed`.
    #[default]
    Claimed,
    /// The passing gates back it: the run ends `verified`.
    WithGates,
}

impl ClaimPolicy {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires this signature")]
    fn are_claims(&self) -> bool {
        *self == Self::Claimed
    }
}

/// Where gates must pass for a run to end `verified`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckoutMode {
    /// `Clean` for a driven run, `Tree` otherwise.
    #[default]
    Auto,
    /// In a clean checkout of the result too, with protected files as at the base.
    Clean,
    /// In the work tree only.
    Tree,
}

/// `[environment]`: which of the person's environment variables gates see.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateEnvironment {
    /// Names in addition to those every gate gets. Secrets are passed only if named here.
    pub pass: Vec<String>,
    pub set: Vec<(String, String)>,
    /// Whether gates get `CI=true`. Not serialised if so, so that policies of older versions stay byte-identical.
    #[serde(
        default = "crate::serde_skip::always",
        skip_serializing_if = "crate::serde_skip::is_true"
    )]
    pub ci: bool,
}

impl Default for GateEnvironment {
    fn default() -> Self {
        Self { pass: Vec::new(), set: Vec::new(), ci: true }
    }
}

/// The start of the names of chunks' requirements.
const CHUNK_PREFIX: &str = "chunk ";

impl Chunk {
    /// The name of its requirement.
    pub fn requirement_name(&self) -> String {
        format!("{CHUNK_PREFIX}{}", self.name)
    }

    /// Whether a requirement of this name is that of a chunk.
    pub(crate) fn is_requirement_name(name: &str) -> bool {
        Self::name_in_requirement(name).is_some()
    }

    /// The chunk whose requirement has this name.
    pub(crate) fn name_in_requirement(name: &str) -> Option<&str> {
        name.strip_prefix(CHUNK_PREFIX)
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            limits: RunLimits::DEFAULT,
            baseline: BaselineMode::default(),
            change: ChangePolicy::default(),
            on_tampering: OnTampering::Block,
            gates: Vec::new(),
            chunks: Vec::new(),
            pipeline: Vec::new(),
            plan_approver: PlanApprover::default(),
            phase_approvals: Vec::new(),
            lines: LinePolicy::default(),
            protect: ProtectPolicy::default(),
            tests: TestPolicy::default(),
            verify: VerifyPolicy::default(),
            environment: GateEnvironment::default(),
            session: SessionGatePolicy::default(),
            judges: Vec::new(),
            memory: MemoryPolicy::default(),
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
