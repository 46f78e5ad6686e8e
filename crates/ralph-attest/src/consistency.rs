//! Whether the results in a statement can have led to its status. A genuine statement never contradicts itself: ralph
//! decides by the same results that it attests.

use crate::run_statement::{AttestedGate, AttestedStatus, RunPredicate};
use ralph_core::proof::ProofVerdict;
use ralph_core::status::RunStatus;
use ralph_core::text;

const MAX_NAME_CHARS: usize = 80;
const PASSED: &str = "passed";
/// Gates that ran on the base measure the tests, not the work.
const BASE_SITE: &str = "base";

impl RunPredicate {
    /// The first contradiction between the status and the results.
    pub fn find_contradiction(&self) -> Option<String> {
        let status = self.status;
        if let Some(accepted) = &self.accepted {
            let was = RunStatus::parse(&accepted.was);
            let is_possible = status == AttestedStatus::Verified
                && matches!(was, Some(RunStatus::Green | RunStatus::NeedsReview));
            return (!is_possible).then(|| "its acceptance does not fit its status".to_string());
        }
        if self.requirements.open > 0 {
            return Some(format!("{} requirements are not met", self.requirements.open));
        }
        let weakened = |gate: &AttestedGate| {
            status == AttestedStatus::Claimed
                && self.waivers.iter().any(|waiver| waiver.requirement == gate.name)
        };
        let failed = self.required_gates().find(|gate| gate.outcome != PASSED && !weakened(gate));
        if let Some(gate) = failed {
            return Some(format!("gate `{}` did not pass", clean_name(&gate.name)));
        }
        if status == AttestedStatus::Claimed {
            return None;
        }
        if self.tampered {
            return Some("files of ralph were edited during the run".to_string());
        }
        let is_required = |name: &str| self.required_gates().any(|gate| gate.name == name);
        if let Some(waiver) = self.waivers.iter().find(|waiver| is_required(&waiver.requirement)) {
            return Some(format!("gate `{}` was waived", clean_name(&waiver.requirement)));
        }
        let proved = self.proof.as_ref().map(|proof| proof.verdict);
        let fits = match status {
            AttestedStatus::Verified => matches!(proved, None | Some(ProofVerdict::Verified)),
            AttestedStatus::Green => proved == Some(ProofVerdict::Green),
            AttestedStatus::Claimed => true,
        };
        (!fits).then(|| "the proof has another verdict".to_string())
    }

    fn required_gates(&self) -> impl Iterator<Item = &AttestedGate> {
        self.gates.iter().filter(|gate| gate.required && gate.site != BASE_SITE)
    }
}

fn clean_name(name: &str) -> String {
    text::clean_line(name, MAX_NAME_CHARS)
}
