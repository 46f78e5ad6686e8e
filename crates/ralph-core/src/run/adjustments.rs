//! What people and agents do to a run while it is active: hints, disputes, orchestrator steps, and lists that do not
//! parse.

use super::RunState;
use crate::approval::PersonApproval;
use crate::facts::DeclaredPause;
use crate::record::{Dispute, OrchestratorStep};
use crate::serde_skip::is_zero;
use crate::source::orchestrator::OrchestratorCondition;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// How many of the most recent hints and disputes are kept.
const MAX_HINTS: usize = 16;
const MAX_DISPUTES: usize = 64;

/// What the agent and a person have stated about an orchestrated run so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrchestratorProgress {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Conditions that the agent claims.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<OrchestratorCondition>,
    /// From 1 to 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub complexity: Option<u8>,
    /// The person, or the agent, that approved the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved_by: Option<String>,
    /// How many searches there were.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub recalled: u32,
    /// The id of the last saved learning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learned: Option<String>,
}

impl OrchestratorProgress {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// A list that does not parse, and for how many stops in a row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnparsableList {
    pub file: String,
    pub stops: u32,
}

impl RunState {
    pub(super) fn add_hint(&mut self, text: &str) {
        self.hints.push(text.into());
        if self.hints.len() > MAX_HINTS {
            self.hints.remove(0);
        }
        self.reset_progress();
    }

    /// Resets the detection of missing progress, after input from a person.
    pub(super) fn reset_progress(&mut self) {
        self.stale = 0;
        self.seen.clear();
        self.driving.reset_progress();
    }

    pub(super) fn apply_step(&mut self, step: &OrchestratorStep) {
        match step {
            OrchestratorStep::Phase(phase) => self.way.phase = Some(phase.clone()),
            OrchestratorStep::Claims(condition) if self.way.claims.contains(condition) => {}
            OrchestratorStep::Claims(condition) => self.way.claims.push(*condition),
            OrchestratorStep::Withdraws(condition) => {
                self.way.claims.retain(|known| known != condition);
            }
            OrchestratorStep::Classified(complexity) => self.way.complexity = Some(*complexity),
            OrchestratorStep::Approved { by } => {
                self.way.approved_by = Some(by.clone());
                // The approval is what the agent was waiting for.
                self.declared.take_if(|declared| matches!(declared, DeclaredPause::Waiting { .. }));
                self.reset_progress();
            }
        }
    }

    /// Ends the wait for this approval, by a question or by a declared wait.
    pub(super) fn add_approval(&mut self, approval: &PersonApproval) {
        self.approvals.retain(|known| known.requirement != approval.requirement);
        self.approvals.push(approval.clone());
        self.declared.take_if(|declared| match declared {
            DeclaredPause::Approval(_) | DeclaredPause::Waiting { .. } => true,
            DeclaredPause::NeedsHuman(_) => false,
        });
        self.reset_progress();
    }

    pub(super) fn add_dispute(&mut self, dispute: &Dispute) {
        self.disputes.retain(|known| known.requirement != dispute.requirement);
        self.disputes.push(dispute.clone());
        if self.disputes.len() > MAX_DISPUTES {
            self.disputes.remove(0);
        }
    }

    pub(super) fn count_unparsable_lists(&mut self, files: &[String]) {
        let stops = |file: &String| {
            let known = self.garbled.iter().find(|known| known.file == *file);
            UnparsableList { file: file.clone(), stops: known.map_or(0, |known| known.stops) + 1 }
        };
        self.garbled = files.iter().map(stops).collect();
    }
}
