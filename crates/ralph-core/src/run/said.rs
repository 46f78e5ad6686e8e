//! What people and agents do to a run while it is active: hints, disputes, orchestrator steps, and lists that do not
//! parse.

use super::State;
use crate::facts::Declared;
use crate::record::{Dispute, Step};
use crate::serde_skip::is_zero;
use crate::source::orchestrator::Condition;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// How many of the most recent hints and disputes are kept.
const HINTS: usize = 16;
const DISPUTES: usize = 64;

/// What the agent and a person have stated about an orchestrated run so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Way {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Conditions that the agent claims.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<Condition>,
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

impl Way {
    pub(super) fn is_untrodden(&self) -> bool {
        *self == Self::default()
    }
}

/// A list that does not parse, and for how many stops in a row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Garbling {
    pub file: String,
    pub stops: u32,
}

impl State {
    pub(super) fn told(&mut self, text: &str) {
        self.hints.push(text.into());
        if self.hints.len() > HINTS {
            self.hints.remove(0);
        }
        self.starts_anew();
    }

    /// Resets the detection of missing progress, after input from a person.
    pub(super) fn starts_anew(&mut self) {
        self.stale = 0;
        self.seen.clear();
        self.driving.starts_anew();
    }

    pub(super) fn stepped(&mut self, step: &Step) {
        match step {
            Step::Phase(phase) => self.way.phase = Some(phase.clone()),
            Step::Claims(condition) if self.way.claims.contains(condition) => {}
            Step::Claims(condition) => self.way.claims.push(*condition),
            Step::Withdraws(condition) => self.way.claims.retain(|known| known != condition),
            Step::Classified(complexity) => self.way.complexity = Some(*complexity),
            Step::Approved { by } => {
                self.way.approved_by = Some(by.clone());
                // The approval is what the agent was waiting for.
                self.declared.take_if(|declared| matches!(declared, Declared::Waiting { .. }));
                self.starts_anew();
            }
        }
    }

    pub(super) fn disputed(&mut self, dispute: &Dispute) {
        self.disputes.retain(|known| known.requirement != dispute.requirement);
        self.disputes.push(dispute.clone());
        if self.disputes.len() > DISPUTES {
            self.disputes.remove(0);
        }
    }

    pub(super) fn garbling(&mut self, files: &[String]) {
        let stops = |file: &String| {
            let known = self.garbled.iter().find(|known| known.file == *file);
            Garbling { file: file.clone(), stops: known.map_or(0, |known| known.stops) + 1 }
        };
        self.garbled = files.iter().map(stops).collect();
    }
}
