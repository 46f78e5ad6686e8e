//! Constructors that leave optional fields empty, so that a new field needs its default in one place only.

use super::{
    DecisionRule, FORMAT_VERSION, HostName, OnTampering, RunId, RunLimits, RunOrigin, RunRecord,
    StopOutcome, StopRecord, TranscriptReading,
};
use crate::drive::RunWorktree;
use crate::status::RunStatus;
use alloc::string::String;
use alloc::vec::Vec;

impl RunRecord {
    /// Whether work with this final status is merged.
    pub fn allows_merge(&self, status: RunStatus) -> bool {
        let accept = self.seal.as_ref().map(|seal| seal.policy.verify.accept).unwrap_or_default();
        accept.includes(status)
    }

    /// The run's own work tree; `None` if it works in the project itself.
    pub fn worktree(&self) -> Option<&RunWorktree> {
        self.drive.as_ref()?.worktree.as_ref()
    }

    /// A run without a session, goal, lists or policy, with the default limits.
    pub fn new(id: RunId, project: String, started_ms: u64) -> Self {
        Self {
            v: FORMAT_VERSION,
            id,
            owner: None,
            started_ms,
            project,
            origin: RunOrigin::Started,
            first_iteration: 0,
            limits: RunLimits::DEFAULT,
            features: Vec::new(),
            promise: None,
            checklist: false,
            goal_bytes: 0,
            goal_hash: None,
            title: String::new(),
            on_tampering: OnTampering::Block,
            prompt: None,
            listed: Vec::new(),
            lists: Vec::new(),
            tasks: false,
            phases: false,
            transcript_length: 0,
            process: None,
            seal: None,
            drive: None,
            host: HostName::DEFAULT,
            prices: Vec::new(),
        }
    }
}

impl StopRecord {
    pub(crate) fn is_held_for_proof(&self) -> bool {
        self.rule == DecisionRule::Proof && matches!(self.outcome, StopOutcome::Blocked { .. })
    }

    /// Whether the agent was let go because a person has to approve something. The answer to a question of the agent comes
    /// before any evidence is gathered, so it has no report.
    pub fn awaits_approval(&self) -> bool {
        self.rule == DecisionRule::NeedsHuman
            && self.outcome == StopOutcome::Allowed
            && self.report.is_some()
    }

    /// A stop of which only the decision is known.
    pub fn new(rule: DecisionRule, outcome: StopOutcome, because: String) -> Self {
        Self {
            rule,
            outcome,
            because,
            mark: None,
            delivery: None,
            report: None,
            observed: None,
            process: None,
            tampering: None,
            background: None,
            in_a_row: 0,
            prompt_hold: 0,
            garbled: Vec::new(),
            remedy: None,
            proof: None,
            gates: Vec::new(),
            judged: None,
            judges: Vec::new(),
            judge_spending: None,
            cost: None,
            awaited_tree: None,
            arrived_ms: None,
            took_ms: 0,
        }
    }
}

impl TranscriptReading {
    /// How full the context is, in thousandths; `None` if unknown.
    pub fn context_permille(&self) -> Option<u16> {
        let permille =
            self.context_tokens?.saturating_mul(1000).checked_div(self.context_window?)?;
        Some(u16::try_from(permille).unwrap_or(u16::MAX))
    }
}
