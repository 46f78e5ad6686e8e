//! The order in which gates run: the fast gates stage by stage, then the slow ones.

use crate::gate::Gate;
use crate::requirement::{PendingReason, RequirementStage};
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// Whether a gate runs with the others, or only once nothing else is open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateTier {
    #[default]
    Fast,
    Slow,
}

/// The place of a gate in the order. Gates of one batch run in parallel; the next batch starts when every required gate
/// of the earlier ones has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GateBatch {
    pub tier: GateTier,
    pub stage: RequirementStage,
}

impl GateTier {
    pub const ALL: [Self; 2] = [Self::Fast, Self::Slow];

    pub fn name(self) -> &'static str {
        match self {
            Self::Fast => "fast",
            Self::Slow => "slow",
        }
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires this signature")]
    pub(crate) fn is_fast(&self) -> bool {
        *self == Self::Fast
    }
}

impl GateBatch {
    /// All batches, the first one first.
    pub fn all() -> Vec<Self> {
        let batches = |tier| RequirementStage::GATE_STAGES.map(|stage| Self { tier, stage });
        GateTier::ALL.into_iter().flat_map(batches).collect()
    }

    /// Why a gate of this batch does not run while a gate of `earlier` is open.
    pub fn wait_reason(self, earlier: Self) -> PendingReason {
        if self.tier == earlier.tier {
            earlier.stage.wait_reason()
        } else {
            PendingReason::comes_after("the fast gates")
        }
    }
}

impl Gate {
    pub fn batch(&self) -> GateBatch {
        GateBatch { tier: self.tier, stage: self.stage }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_gates_come_after_every_fast_stage() {
        let batches = GateBatch::all();
        assert!(batches.is_sorted());
        let [first, .., last] = batches.as_slice() else { panic!("there are eight batches") };
        assert_eq!(first.tier, GateTier::Fast);
        let fast_adversarial = GateBatch { tier: GateTier::Fast, ..*last };
        let slow_correctness = GateBatch { tier: GateTier::Slow, ..*first };
        assert!(fast_adversarial < slow_correctness);
        let reasons = [
            last.wait_reason(*first),
            last.wait_reason(slow_correctness),
            fast_adversarial.wait_reason(*first),
        ];
        assert_eq!(
            reasons.each_ref().map(PendingReason::why),
            [
                "comes after the fast gates",
                "comes after correctness has passed",
                "comes after correctness has passed",
            ]
        );
    }
}
