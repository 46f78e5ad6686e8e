//! What people and agents said about a run while it went on.

use super::State;
use crate::facts::Declared;
use crate::record::{Dispute, Step, is_zero};
use crate::source::orchestrator::Condition;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// How much of what people and agents say is kept, the latest.
const HINTS: usize = 16;
const DISPUTES: usize = 64;

/// How far an orchestrated run says it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Way {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// What the agent says of its own conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<Condition>,
    /// From 1 to 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub complexity: Option<u8>,
    /// Who approved the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved_by: Option<String>,
    /// Searches of what is on record.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub recalled: u32,
    /// The last thing that was learned, by its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learned: Option<String>,
}

impl Way {
    pub(super) fn is_untrodden(&self) -> bool {
        *self == Self::default()
    }
}

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

    /// A person's word is something new.
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
                // What the agent waited for is there.
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
