//! What follows from the proof of a run whose requirements are all met.

use super::judge_rows::JudgedGoal;
use super::run_rows::{RunStop, hold_agent, limit};
use super::{StopDecision, reason};
use crate::ending::JUDGED_MET_PREFIX;
use crate::facts::{StopDriver, StopEvidence};
use crate::policy::ProofMode;
use crate::proof::{Proof, ProofVerdict};
use crate::record::DecisionRule;
use crate::run::RunState;
use crate::status::RunStatus;
use crate::waiver;
use alloc::format;
use alloc::string::{String, ToString};

const MAX_REASON_CHARS: usize = 300;

/// The end of a run in which everything is measured and met. A proof that is not `verified` holds the agent once, so
/// that it can restore or add tests, unless that cannot help, and then decides the status. `met` is the text about the met requirements.
pub(super) fn conclude_proof(stop: &RunStop<'_>, met: String) -> StopDecision {
    let goal = JudgedGoal::find(stop);
    // The agent cannot change the command of a check, so it is not held for it.
    let verified = |because: String| match (&stop.evidence.unsealed, &goal) {
        (Some(why), _) => {
            let why = reason::safe_line(why, 400, stop.context.redactor);
            stop.end(DecisionRule::Proof, RunStatus::Green, format!("{why}; {because}"))
        }
        (None, Some(goal)) if stop.evidence.judging.is_goal_judged_only && !goal.counts() => {
            end_judged(stop, goal, &because)
        }
        (None, _) => stop.end(DecisionRule::Verified, RunStatus::Verified, because),
    };
    let is_driven = stop.case.facts.driver == StopDriver::Runner;
    let proof = match (&stop.evidence.proof, proof_mode(stop)) {
        (None, ProofMode::Tell) | (_, ProofMode::Off) => return verified(met),
        (Some(proof), ProofMode::Tell) => {
            return verified(format!("{met}; {}", excuse_waived(stop, proof).describe()));
        }
        // The runner proves the work when the agent's process has exited.
        (None, ProofMode::Full) if is_driven => return verified(met),
        (None, ProofMode::Full) => Proof::unavailable("the proof did not run".to_string()),
        (Some(proof), ProofMode::Full) => excuse_waived(stop, proof),
    };
    let proof = &proof;
    if proof.verdict == ProofVerdict::Verified {
        return verified(format!("{met}; {}", proof.describe()));
    }
    let is_last = proof.is_final || stop.state.held_for_proof || limit(stop).is_some();
    if !is_last && !is_driven {
        return hold_for_proof(stop, proof);
    }
    let status = match proof.verdict {
        ProofVerdict::Verified | ProofVerdict::Green => RunStatus::Green,
        ProofVerdict::NeedsReview | ProofVerdict::Failed => RunStatus::NeedsReview,
    };
    let because = reason::safe_line(&proof.describe(), 400, stop.context.redactor);
    match &goal {
        Some(goal) if status == RunStatus::Green && goal.counts() => {
            let counted = format!("the judge {} counts as the measure of the goal", goal.names());
            return verified(format!("{counted}; {because}; {met}"));
        }
        Some(goal) if status == RunStatus::Green => {
            return end_judged(stop, goal, &format!("{because}; {met}"));
        }
        Some(_) | None => {}
    }
    let says =
        agent_reason(stop).map_or_else(String::new, |why| format!("; the agent says: “{why}”"));
    stop.end(DecisionRule::Proof, status, format!("{because}; {met}{says}"))
}

/// The end of a run whose goal only a judge confirms.
fn end_judged(stop: &RunStop<'_>, goal: &JudgedGoal<'_>, because: &str) -> StopDecision {
    let because = format!("{JUDGED_MET_PREFIX}{}; {because}", goal.names());
    stop.end(DecisionRule::Proof, RunStatus::Green, because)
}

fn proof_mode(stop: &RunStop<'_>) -> ProofMode {
    stop.run.seal.as_ref().map_or(ProofMode::Off, |seal| seal.policy.verify.proof)
}

fn excuse_waived(stop: &RunStop<'_>, proof: &Proof) -> Proof {
    proof.without_waived(|test| {
        waiver::is_test_waived(test, &stop.state.waivers, stop.case.facts.now_ms)
    })
}

/// Whether there is a proof of what this stop judges, and it holds.
pub(super) fn has_proof_that_holds(stop: &RunStop<'_>) -> bool {
    let proof = stop.evidence.proof.as_ref();
    proof.is_some_and(|proof| excuse_waived(stop, proof).verdict == ProofVerdict::Verified)
}

/// Whether a proof holds the agent before its end is decided, so that neither CI nor a judge is asked yet.
pub fn holds_for_proof(proof: &Proof, mode: ProofMode, state: &RunState, now_ms: u64) -> bool {
    let excused = proof.without_waived(|test| waiver::is_test_waived(test, &state.waivers, now_ms));
    mode == ProofMode::Full
        && excused.verdict != ProofVerdict::Verified
        && !excused.is_final
        && !state.held_for_proof
}

/// Holds the agent for the proof although CI or judges are still to be asked.
pub(super) fn hold_before_asking(stop: &RunStop<'_>) -> Option<StopDecision> {
    let proof = excuse_waived(stop, stop.evidence.proof.as_ref()?);
    Some(hold_for_proof(stop, &proof))
}

/// The end of the agent's message after a hold that asked for a reason, for the person who decides.
fn agent_reason(stop: &RunStop<'_>) -> Option<String> {
    let message = stop.case.stop.last_message.as_deref().filter(|_| stop.state.held_for_proof)?;
    let last = message.rsplit("\n\n").map(str::trim).find(|one| !one.is_empty())?;
    Some(reason::safe_line(last, MAX_REASON_CHARS, stop.context.redactor))
}

fn hold_for_proof(stop: &RunStop<'_>, proof: &Proof) -> StopDecision {
    let mut evidence: StopEvidence = stop.evidence.clone();
    evidence.requirements.push(proof.requirement());
    let report = reason::build_stop_report(&evidence.requirements, stop.context.redactor);
    let held = RunStop { evidence: &evidence, report: &report, ..*stop };
    let decision = hold_agent(&held);
    let because = reason::safe_line(&proof.describe(), 400, stop.context.redactor);
    StopDecision { rule: DecisionRule::Proof, because, report: Some(report), ..decision }
}
