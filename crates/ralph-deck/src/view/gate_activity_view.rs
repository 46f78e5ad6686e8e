//! The gates that run now, and how far a proof has come.

use ralph_hook::contract::gate_log::{GateActivity, StepActivity};
use serde::Serialize;

/// The running gates, and the running steps of a proof.
#[derive(Debug, Serialize)]
pub struct ActivityView<'a> {
    pub gates: Vec<&'a str>,
    pub running: Vec<ActiveGateView<'a>>,
    pub proof: Vec<StepActivityView>,
}

#[derive(Debug, Serialize)]
pub struct ActiveGateView<'a> {
    pub gate: &'a str,
    pub elapsed_ms: Option<u64>,
    pub usual_ms: Option<u64>,
    /// The current step of a judge.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<&'a str>,
}

#[derive(Debug, Serialize)]
pub struct StepActivityView {
    pub step: &'static str,
    pub done: Option<usize>,
    pub of: Option<usize>,
}

pub(super) fn activity_view(activity: &GateActivity, now_ms: u64) -> ActivityView<'_> {
    let step = |StepActivity { step, done, of }: &StepActivity| StepActivityView {
        step: step.name(),
        done: *done,
        of: *of,
    };
    let running = activity.gates.iter().map(|gate| ActiveGateView {
        gate: &gate.name,
        elapsed_ms: gate.since_ms.map(|since| now_ms.saturating_sub(since)),
        usual_ms: gate.usual_ms,
        step: gate.step.as_deref(),
    });
    ActivityView {
        gates: activity.gates.iter().map(|gate| gate.name.as_str()).collect(),
        running: running.collect(),
        proof: activity.proof.iter().map(step).collect(),
    }
}
