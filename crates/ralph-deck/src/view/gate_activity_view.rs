//! The gates that run now, and how far a proof has come.

use ralph_hook::contract::gate_log::{GateActivity, StepActivity};
use serde::Serialize;

/// The running gates, and the running steps of a proof.
#[derive(Debug, Serialize)]
pub struct ActivityView<'a> {
    pub gates: &'a [String],
    pub proof: Vec<StepActivityView>,
}

#[derive(Debug, Serialize)]
pub struct StepActivityView {
    pub step: &'static str,
    pub done: Option<usize>,
    pub of: Option<usize>,
}

pub(super) fn activity_view(activity: &GateActivity) -> ActivityView<'_> {
    let step = |StepActivity { step, done, of }: &StepActivity| StepActivityView {
        step: step.name(),
        done: *done,
        of: *of,
    };
    let proof = activity.proof.iter().map(step).collect();
    ActivityView { gates: &activity.gates, proof }
}
