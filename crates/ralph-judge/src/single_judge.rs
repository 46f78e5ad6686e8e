//! A judge with one verdict: one call, or two if an agent judge asks for gates.

use crate::answer_parser::ParsedReply;
use crate::case_text::{CaseQuestion, QuestionRole};
use crate::judge_call::VerdictCalls;
use crate::{JudgeOpinion, JudgeStep};
use ralph_core::judge::{JudgeAnswer, JudgeKind, JudgeOutcome, JudgeVerdict};
use ralph_core::requirement::FindingSeverity;

/// Below this, the verdict `met` is a guess.
const MIN_CONFIDENCE: f64 = 0.5;

pub(crate) fn ask_once(session: &mut VerdictCalls<'_>) -> JudgeOpinion {
    let mut question = CaseQuestion::new(QuestionRole::Verdict);
    if session.request.judge.kind == JudgeKind::Agent {
        question.gates = session.request.support.gate_names();
    }
    let mut reply = session.ask(&question, &JudgeStep::Verdict);
    if let Ok(ParsedReply::Gates(names)) = &reply {
        if question.gates.is_empty() {
            return JudgeOpinion::unknown("it asked for gates instead of giving a verdict");
        }
        question.gate_results = run_gates(session, &question.gates, names);
        question.gates.clear();
        reply = session.ask(&question, &JudgeStep::Verdict);
    }
    match reply {
        Ok(ParsedReply::Answer { answer, malformed, unread, .. }) => {
            weigh_answer(session, answer, malformed, unread)
        }
        Ok(ParsedReply::Gates(_)) => JudgeOpinion::unknown("it asked for gates twice"),
        Err(why) => JudgeOpinion::unknown(why),
    }
}

fn run_gates(
    session: &VerdictCalls<'_>,
    known: &[String],
    names: &[String],
) -> Vec<ralph_core::judge::CaseEvidence> {
    let mut results = Vec::new();
    for name in known.iter().filter(|name| names.contains(name)) {
        if session.cancel.is_cancelled() || session.deadline.has_passed() {
            break;
        }
        session.request.support.report_progress(&JudgeStep::Gate(name));
        let result = session.request.support.run_gate(name, session.deadline);
        results.push(result.unwrap_or_else(|| ralph_core::judge::CaseEvidence {
            requirement: name.clone(),
            result: "no result".to_string(),
        }));
    }
    results
}

/// Checks the findings of an answer and draws the conclusion.
pub(crate) fn weigh_answer(
    session: &VerdictCalls<'_>,
    answer: JudgeAnswer,
    malformed: u32,
    unread: u32,
) -> JudgeOpinion {
    // Before the quotes are checked: a judge that reports an error does not think that the work is done, however badly it is
    // quoted. A malformed finding may be one.
    let is_error = |severity: FindingSeverity| severity == FindingSeverity::Error;
    let has_error =
        malformed > 0 || answer.findings.iter().any(|finding| is_error(finding.severity));
    let checked = session.quoted_files().check_findings(answer.findings);
    let misquoted =
        u32::try_from(checked.dropped.len()).unwrap_or(u32::MAX).saturating_add(malformed);
    let is_guess = answer.confidence.is_some_and(|confidence| confidence < MIN_CONFIDENCE);
    let unknown = |why: String| JudgeOutcome::Unknown { why };
    let outcome = match answer.verdict {
        JudgeVerdict::Met if has_error => {
            unknown("it answered met and reported an error".to_string())
        }
        // One of them may be an error.
        JudgeVerdict::Met if unread > 0 => {
            unknown("it answered met and reported more findings than are read".to_string())
        }
        JudgeVerdict::Met if is_guess => {
            unknown("it answered met with little confidence".to_string())
        }
        JudgeVerdict::Met => JudgeOutcome::Met,
        // Without a finding that holds, there is nothing that the agent could correct.
        JudgeVerdict::Unmet if checked.kept.is_empty() && misquoted == 0 => {
            unknown("it answered unmet without a finding".to_string())
        }
        JudgeVerdict::Unmet if checked.kept.is_empty() => {
            let quotes = match misquoted {
                1 => "its finding has no valid quote".to_string(),
                count => format!("none of its {count} findings has a valid quote"),
            };
            unknown(format!("it answered unmet, but {quotes}"))
        }
        JudgeVerdict::Unmet => JudgeOutcome::Unmet,
        JudgeVerdict::Impossible => JudgeOutcome::Impossible,
        JudgeVerdict::Unsure => unknown("it is unsure".to_string()),
    };
    let reason = answer.reason.map(|reason| session.safe_reason(&reason));
    let dropped = checked.dropped;
    JudgeOpinion { reason, dropped, misquoted, unread, ..JudgeOpinion::new(outcome, checked.kept) }
}
