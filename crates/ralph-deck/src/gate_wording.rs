//! Puts the results of gates into words.

use ralph_core::gate::{Gate, GateOutcome, GateReport, ResultStability, UnknownReason};
use ralph_core::record::RunRecord;
use ralph_core::text;
use ralph_hook::contract::gate_log::{ActiveGate, GateActivity, StepActivity};

use crate::wording::{self, FactMark, safe_line};

pub fn gate_mark(outcome: &GateOutcome) -> FactMark {
    match outcome {
        GateOutcome::Passed => FactMark::Good,
        GateOutcome::Failed => FactMark::Bad,
        GateOutcome::Unknown(UnknownReason::Skipped(_)) => FactMark::Neutral,
        GateOutcome::Unknown(_) => FactMark::Unclear,
    }
}

/// Why a gate did not pass, on one line.
pub fn gate_note(report: &GateReport) -> String {
    match &report.outcome {
        GateOutcome::Passed => String::new(),
        GateOutcome::Failed => report.summary(),
        GateOutcome::Unknown(unknown) => match unknown {
            UnknownReason::Skipped(why)
            | UnknownReason::NoTests(why)
            | UnknownReason::Unpublished(why) => safe_line(why),
            UnknownReason::Error(why) | UnknownReason::Inconclusive(why) => {
                format!("{}: {}", unknown.name(), safe_line(why))
            }
            UnknownReason::Timeout { .. } => safe_line(&unknown.describe()),
            UnknownReason::Untrusted => "not approved yet: run `ralph trust`".to_string(),
        },
    }
}

pub fn steadiness(report: &GateReport) -> &'static str {
    match report.steadiness {
        ResultStability::Once | ResultStability::Confirmed => "",
        ResultStability::Flaky => "flaky: it failed first and passed when run again",
    }
}

/// The commands that a person typed for this run only.
pub fn check_texts(run: &RunRecord) -> Vec<String> {
    let text = |check: &Gate| {
        let (name, command) = (safe_line(&check.name), safe_line(&check.command_line()));
        format!("{name}: `{command}`, for this run only")
    };
    let checks = run
        .seal
        .iter()
        .flat_map(|seal| seal.policy.gates.iter().filter(|gate| seal.is_check(&gate.name)));
    checks.map(text).collect()
}

/// `running tests 12 s of about 40 s, review 3.1 s (asking reviewer 2 of 3)`, or how far the proof is: `old tests on new code, 31 of 148`
pub fn activity(activity: &GateActivity, now_ms: u64) -> String {
    let GateActivity { gates, proof } = activity;
    let steps =
        proof.iter().map(|StepActivity { step, done, of }| step.describe_progress(*done, *of));
    match (gates.as_slice(), proof.as_slice()) {
        ([], []) => "preparing gates".to_string(),
        ([], _) => steps.collect::<Vec<_>>().join("; "),
        (gates, _) => {
            let gates: Vec<_> = gates.iter().map(|gate| active_gate(gate, now_ms)).collect();
            format!("running {}", gates.join(", "))
        }
    }
}

/// A gate that was this quick the last time, such as a question to CI, says nothing about how long it takes now.
pub const SHORTEST_USUAL_MS: u64 = 1000;

/// With it, the running judge still fits into the status line.
const LONGEST_STEP: usize = 60;

/// A log of a run may hold longer or other text than this ralph writes.
pub fn judge_step(step: &str) -> String {
    text::clean_line(step, LONGEST_STEP)
}

fn active_gate(ActiveGate { name, since_ms, usual_ms, step }: &ActiveGate, now_ms: u64) -> String {
    let took =
        since_ms.map(|since| format!(" {}", wording::short_duration(now_ms.saturating_sub(since))));
    let usual = usual_ms.filter(|ms| took.is_some() && *ms >= SHORTEST_USUAL_MS);
    let usual = usual.map(wording::short_duration);
    let usual = usual.map(|usual| format!(" of about {usual}"));
    let step = step.as_deref().map(|step| format!(" ({})", judge_step(step)));
    let times = took.into_iter().chain(usual).chain(step).collect::<String>();
    format!("{}{times}", safe_line(name))
}
