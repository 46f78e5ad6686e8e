//! Stops at which the agent can only wait.

use super::run_rows::RunStop;
use crate::digest64::Digest64;
use crate::facts::TreeIdentity;
use crate::reason::WaitRestart;
use crate::requirement_tally::awaits_results_only;

impl RunStop<'_> {
    /// Whether the agent can only wait for gates and judges, and a time limit bounds the wait.
    pub(super) fn awaits_results_only(&self) -> bool {
        awaits_results_only(&self.evidence.requirements)
            && self.limits().max_duration_ms.is_some()
            && self.tampering().is_none()
    }

    /// Why the results that the agent should only have waited for start anew. A tree that cannot be identified counts as
    /// changed, also from another one.
    pub(super) fn restarted_wait(&self) -> Option<WaitRestart> {
        let before = self.state.awaited_tree.filter(|_| self.awaits_results_only())?;
        if self.digest_without_gate_writes() != Some(before) {
            return Some(WaitRestart::FilesChanged);
        }
        self.evidence.has_lost_worker.then_some(WaitRestart::WorkerLost)
    }

    pub(super) fn digest_without_gate_writes(&self) -> Option<Digest64> {
        match self.evidence.tree_without_gate_writes {
            TreeIdentity::Known(tree) => Some(Digest64(tree)),
            TreeIdentity::Unknown => None,
        }
    }
}
