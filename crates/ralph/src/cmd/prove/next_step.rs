//! The next step after a proof, with the command to copy.

use super::ProveArgs;
use ralph_core::gate::{GateOutcome, shell_quote};
use ralph_core::proof::{ProofStep, ProofVerdict};
use ralph_deck::wording::safe_line;
use ralph_proof::{ProofReport, StepOutcome};

/// Whether a gate fails on the change as it does in the base.
fn has_old_failures(report: &ProofReport) -> bool {
    let now = report.steps.iter().find(|step| step.step == ProofStep::Now);
    match now.map(|step| &step.outcome) {
        Some(StepOutcome::Ran { reports, .. }) => {
            reports.iter().any(|gate| gate.outcome == GateOutcome::Failed)
        }
        Some(StepOutcome::SameAs(_) | StepOutcome::NotNeeded) | None => false,
    }
}

/// The command as it was given, which also accepts `green`.
fn accepting_command(args: &ProveArgs) -> String {
    let mut words = vec!["ralph".to_string(), "prove".to_string()];
    words.extend(args.range.clone());
    words.extend(args.gates.iter().flat_map(|gate| ["--gate".to_string(), gate.clone()]));
    let allowed = args.may_change.iter();
    words.extend(allowed.flat_map(|glob| ["--may-change".to_string(), glob.clone()]));
    words.extend(["--accept".to_string(), "green".to_string()]);
    let quoted: Vec<String> = words.iter().map(|word| shell_quote(word)).collect();
    safe_line(&quoted.join(" "))
}

pub(super) fn next_step(report: &ProofReport, args: &ProveArgs) -> Option<String> {
    let accept = accepting_command(args);
    let proof = &report.proof;
    Some(match proof.verdict {
        ProofVerdict::NeedsReview if proof.broken.is_empty() => {
            "review the change: the lines marked `?` show why its tests do not settle it"
                .to_string()
        }
        ProofVerdict::NeedsReview => {
            "make the old tests pass, or review whether the change should break them".to_string()
        }
        ProofVerdict::Green if proof.doubts.is_empty() => format!(
            "add a test that fails without the change, or review the change and run `{accept}`"
        ),
        ProofVerdict::Green if has_old_failures(report) => format!(
            "fix the old failures, or review the change and run `{accept}`; a run measures old failures in the project itself"
        ),
        ProofVerdict::Green => {
            format!("resolve the doubts marked `?`, or review the change and run `{accept}`")
        }
        ProofVerdict::Verified | ProofVerdict::Failed => return None,
    })
}
