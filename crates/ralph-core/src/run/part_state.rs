//! Subagents, teammates and tasks of a run, as of their last stops.

use super::RunState;
use crate::record::{DeliveryId, PartIdentity, PartKind, PartRecord, PartRule};
use alloc::string::String;
use serde::{Deserialize, Serialize};

/// How many of the most recent subagents, teammates and tasks it remembers.
const MAX_PARTS: usize = 200;

/// For how many of them the reason is kept, to answer a second delivery of the same stop.
const MAX_ANSWERED_PARTS: usize = 8;

/// A subagent, teammate or task after its last stop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartState {
    pub who: PartIdentity,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk: Option<String>,
    pub rule: PartRule,
    /// Holds in a row. Reset when the part is verified.
    pub holds: u32,
    pub delivery: DeliveryId,
    pub at_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
}

impl RunState {
    pub fn find_part(&self, kind: PartKind, id: &str) -> Option<&PartState> {
        self.parts.iter().find(|part| part.who.kind == kind && part.who.id == id)
    }

    pub(super) fn apply_part(&mut self, part: &PartRecord, at_ms: u64) {
        if part.tampering.is_some() {
            self.tampered = true;
        }
        let is_it =
            |known: &PartState| known.who.kind == part.who.kind && known.who.id == part.who.id;
        let before = self.parts.iter().position(is_it).map(|at| self.parts.remove(at).holds);
        let before = before.unwrap_or(0);
        self.parts.push(PartState {
            who: part.who.clone(),
            chunk: part.chunk.clone(),
            rule: part.rule,
            holds: match part.rule {
                PartRule::Hold => before.saturating_add(1),
                PartRule::Verified => 0,
                PartRule::Waiting | PartRule::Unmeasured | PartRule::Unknown | PartRule::Spent => {
                    before
                }
            },
            delivery: part.delivery,
            at_ms,
            answer: part.reason.clone(),
        });
        if self.parts.len() > MAX_PARTS {
            self.parts.remove(0);
        }
        for old in self.parts.iter_mut().rev().skip(MAX_ANSWERED_PARTS) {
            old.answer = None;
        }
    }
}
