//! The part of a run's state that its judges change: their cost, and the findings that they raised.

use super::{RunState, Spending};
use crate::digest64::Digest64;
use crate::record::{JudgeRecord, StopRecord};
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// How many findings of the verdicts before the last are recognised.
const MAX_EARLIER: usize = 64;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JudgeState {
    /// The cost of all judges of the run. It never goes down.
    #[serde(default, skip_serializing_if = "Spending::is_zero")]
    pub spent: Spending,
    /// The last verdict of each judge, to notice that it raises a finding again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub last: Vec<LastVerdict>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastVerdict {
    pub judge: String,
    /// Hash of the instructions and the case.
    pub prompt: String,
    /// Digests of the findings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub raised: Vec<Digest64>,
    /// Digests of other findings, of the verdicts before it. Older versions did not record them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<Digest64>,
}

impl LastVerdict {
    fn new(record: &JudgeRecord, before: Option<Self>) -> Self {
        let raised = record.raised.clone();
        let before = before.map(|before| [before.earlier, before.raised].concat());
        let mut earlier = before.unwrap_or_default();
        earlier.retain(|known| !raised.contains(known));
        earlier.drain(..earlier.len().saturating_sub(MAX_EARLIER));
        Self { judge: record.name.clone(), prompt: record.prompt_hash.clone(), raised, earlier }
    }
}

impl JudgeState {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn apply_stop(&mut self, decided: &StopRecord) {
        if let Some(spent) = decided.judge_spending {
            self.spent = self.spent.highest(spent);
        }
        for record in decided.judges.iter().filter(|record| !record.prompt_hash.is_empty()) {
            let known = self.last.iter().position(|known| known.judge == record.name);
            let before = known.map(|position| self.last.remove(position));
            self.last.push(LastVerdict::new(record, before));
        }
    }

    /// Whether the judge raised one of these findings at a verdict before, too.
    pub fn has_raised_before(&self, record: &JudgeRecord) -> bool {
        let known = self.last.iter().find(|known| known.judge == record.name);
        let mut before =
            known.into_iter().flat_map(|known| known.raised.iter().chain(&known.earlier));
        before.any(|one| record.raised.contains(one))
    }

    /// Whether a stop has seen a finding of the judge.
    pub fn has_raised(&self, judge: &str) -> bool {
        let mut known = self.last.iter().filter(|known| known.judge == judge);
        known.any(|known| !known.raised.is_empty() || !known.earlier.is_empty())
    }

    /// Whether a stop has already used the verdict of this judge about this prompt.
    pub fn has_seen(&self, judge: &str, prompt_hash: &str) -> bool {
        self.last.iter().any(|known| known.judge == judge && known.prompt == prompt_hash)
    }
}

impl Spending {
    /// The larger of both, figure by figure. Recorded costs never shrink.
    pub fn highest(self, other: Self) -> Self {
        Self {
            micro_usd: self.micro_usd.max(other.micro_usd),
            tokens: self.tokens.max(other.tokens),
        }
    }

    /// A cost that may be unknown, with this spending added. Known spending makes the sum known.
    pub fn added_to(self, micro_usd: Option<u64>) -> Option<u64> {
        match (micro_usd, self.micro_usd) {
            (None, 0) => None,
            (known, own) => Some(known.unwrap_or(0).saturating_add(own)),
        }
    }
}

impl RunState {
    /// The cost of a driven run: its sessions, gates and judges.
    pub fn total_spent(&self) -> Spending {
        self.driving.spent().plus(self.judges.spent)
    }
}
