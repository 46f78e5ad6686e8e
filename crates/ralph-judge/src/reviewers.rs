//! Several independent reviewers. A finding stands if two of them raise it, if another one confirms it, or if a test
//! shows it.

use crate::answer_parser::ParsedReply;
use crate::case_text::{CaseClaim, CaseQuestion, QuestionRole};
use crate::judge_call::VerdictCalls;
use crate::single_judge::weigh_answer;
use crate::{JudgeOpinion, JudgeStep, TestTrial};
use ralph_core::judge::{DropReason, DroppedFinding, JudgeFinding, JudgeOutcome, JudgeVerdict};
use ralph_core::requirement::FindingSeverity;
use ralph_core::text::{self, count_noun};

/// Findings of two reviewers this many lines apart are about the same place.
const NEARBY_LINES: u32 = 3;
/// Every confirmation is a call, so only the first findings are put to another reviewer.
const MAX_CONFIRMATIONS: usize = 5;
/// Every test runs a gate up to three times, so only the first ones of a verdict are tried.
const MAX_TESTS: usize = 3;
const MAX_TRIAL_CHARS: usize = 300;

struct RaisedFinding {
    finding: JudgeFinding,
    /// How many reviewers raised it.
    raised_by: u32,
    last_reviewer: u8,
}

pub(crate) fn ask_reviewers(session: &mut VerdictCalls<'_>) -> JudgeOpinion {
    let of = session.request.judge.reviewers.max(1);
    let mut raised: Vec<RaisedFinding> = Vec::new();
    let (mut outcomes, mut reasons) = (Vec::new(), Vec::new());
    let (mut misquoted, mut unread, mut badly_quoted) = (0_u32, 0_u32, Vec::new());
    for number in 1..=of {
        let opinion = ask_reviewer(session, number, of);
        // No reviewer can be asked, so this reason is the whole story.
        if session.ledger.usage.calls == 0 {
            return opinion;
        }
        misquoted = misquoted.saturating_add(opinion.misquoted);
        unread = unread.saturating_add(opinion.unread);
        badly_quoted.extend(opinion.dropped);
        for finding in opinion.findings {
            add_finding(&mut raised, finding, number);
        }
        reasons.push(opinion.reason);
        outcomes.push(opinion.outcome);
    }
    let ConfirmedFindings { standing, mut dropped, rejected_tests } =
        confirm_findings(session, raised);
    let unconfirmed = u32::try_from(dropped.len()).unwrap_or(u32::MAX);
    // These come last: a model that invents quotes must not hide what another one found.
    dropped.extend(badly_quoted);
    let outcome = if standing.iter().any(|finding| finding.severity != FindingSeverity::Note) {
        JudgeOutcome::Unmet
    } else {
        joint_outcome(&outcomes)
    };
    // That of the first reviewer with this verdict.
    let reason = outcomes.iter().zip(reasons).find_map(|(one, it)| it.filter(|_| *one == outcome));
    let findings = standing;
    JudgeOpinion {
        outcome,
        findings,
        reason,
        dropped,
        misquoted,
        unconfirmed,
        unread,
        rejected_tests,
    }
}

fn ask_reviewer(session: &mut VerdictCalls<'_>, number: u8, of: u8) -> JudgeOpinion {
    let mut question = CaseQuestion::new(QuestionRole::Reviewer { number, of });
    question.wants_tests = session.request.support.runs_tests();
    match session.ask(&question, &JudgeStep::Reviewer { number, of }) {
        Ok(ParsedReply::Answer { answer, malformed, unread, .. }) => {
            weigh_answer(session, answer, malformed, unread)
        }
        Ok(ParsedReply::Gates(_)) => JudgeOpinion::unknown("it asked for gates"),
        Err(why) => JudgeOpinion::unknown(why),
    }
}

/// Adds a finding, or counts it if another reviewer raised it already.
fn add_finding(raised: &mut Vec<RaisedFinding>, finding: JudgeFinding, reviewer: u8) {
    let same = raised.iter_mut().find(|one| is_same_place(&one.finding, &finding));
    match same {
        Some(one) if one.last_reviewer == reviewer => {}
        Some(one) => {
            one.raised_by += 1;
            one.last_reviewer = reviewer;
        }
        None => raised.push(RaisedFinding { finding, raised_by: 1, last_reviewer: reviewer }),
    }
}

fn is_same_place(one: &JudgeFinding, other: &JudgeFinding) -> bool {
    one.file == other.file
        && match (one.line, other.line) {
            (Some(line), Some(near)) => line.abs_diff(near) <= NEARBY_LINES,
            (_, _) => {
                !one.quote.is_empty()
                    && one.quote.split_whitespace().eq(other.quote.split_whitespace())
            }
        }
}

/// What is left of the findings of all reviewers.
#[derive(Default)]
struct ConfirmedFindings {
    standing: Vec<JudgeFinding>,
    /// Those that no other reviewer confirmed.
    dropped: Vec<DroppedFinding>,
    rejected_tests: Vec<String>,
}

/// Notes are neither confirmed nor counted.
fn confirm_findings(
    session: &mut VerdictCalls<'_>,
    raised: Vec<RaisedFinding>,
) -> ConfirmedFindings {
    let mut confirmed = ConfirmedFindings::default();
    let (mut asked, mut tried) = (0, 0);
    let mut raised = raised;
    raised.sort_by_key(|one| one.finding.severity != FindingSeverity::Error);
    for RaisedFinding { mut finding, raised_by, .. } in raised {
        if finding.severity == FindingSeverity::Note {
            continue;
        }
        if raised_by == 1 && finding.test.is_some() && tried < MAX_TESTS {
            tried += 1;
            try_own_test(session, &mut finding, &mut confirmed.rejected_tests);
        }
        let stands = raised_by > 1
            || finding.shown_by.is_some()
            || asked < MAX_CONFIRMATIONS && {
                asked += 1;
                is_confirmed(session, &finding)
            };
        if stands {
            confirmed.standing.push(finding);
        } else {
            let files = session.quoted_files();
            confirmed.dropped.push(files.dropped_finding(&finding, DropReason::Unconfirmed));
        }
    }
    confirmed
}

/// Runs the test of a finding, and notes in the finding that it fails.
fn try_own_test(
    session: &VerdictCalls<'_>,
    finding: &mut JudgeFinding,
    rejected: &mut Vec<String>,
) {
    let support = session.request.support;
    let is_over = session.cancel.is_cancelled() || session.deadline.has_passed();
    let Some(test) = finding.test.clone().filter(|_| support.runs_tests() && !is_over) else {
        return;
    };
    support.report_progress(&JudgeStep::Test(&test.path));
    // What a test prints may contain anything that it can read.
    let safe = |foreign: &str| {
        text::clean_line(&session.redactor.redact(&text::clean(foreign)), MAX_TRIAL_CHARS)
    };
    match support.try_test(finding, &test, session.deadline) {
        TestTrial::Fails(how) => finding.shown_by = Some(safe(&how)),
        TestTrial::Passes => {}
        TestTrial::Rejected(why) => rejected.push(safe(&format!("{}: {why}", test.path))),
    }
}

fn is_confirmed(session: &mut VerdictCalls<'_>, finding: &JudgeFinding) -> bool {
    let excerpt = session.quoted_files().excerpt(finding);
    let claim = CaseClaim { finding: finding.clone(), excerpt };
    let question = CaseQuestion::new(QuestionRole::Confirm(Box::new(claim)));
    let step = JudgeStep::Confirmation { file: &finding.file, line: finding.line };
    match session.ask(&question, &step) {
        Ok(ParsedReply::Answer { answer, .. }) => answer.verdict == JudgeVerdict::Unmet,
        Ok(ParsedReply::Gates(_)) | Err(_) => false,
    }
}

/// The verdict of reviewers none of whose findings stands: theirs, if all of them agree.
fn joint_outcome(outcomes: &[JudgeOutcome]) -> JudgeOutcome {
    if outcomes.iter().all(|outcome| *outcome == JudgeOutcome::Met) {
        return JudgeOutcome::Met;
    }
    if outcomes.iter().all(|outcome| *outcome == JudgeOutcome::Impossible) {
        return JudgeOutcome::Impossible;
    }
    let reasons = outcomes.iter().filter_map(|outcome| match outcome {
        JudgeOutcome::Unknown { why } => Some(why.as_str()),
        JudgeOutcome::Met | JudgeOutcome::Unmet | JudgeOutcome::Impossible => None,
    });
    let first_reason = reasons.clone().next();
    let count = |wanted: &JudgeOutcome| outcomes.iter().filter(|one| *one == wanted).count();
    let verdicts = [
        (count(&JudgeOutcome::Met), "met"),
        (count(&JudgeOutcome::Unmet), "unmet"),
        (count(&JudgeOutcome::Impossible), "impossible"),
    ];
    let verdicts = verdicts.into_iter().filter(|(count, _)| *count > 0);
    let separator = if verdicts.clone().count() > 1 { " disagree:" } else { "," };
    let missing = Some((reasons.count(), "without a verdict")).filter(|(count, _)| *count > 0);
    let parts: Vec<_> =
        verdicts.chain(missing).map(|(count, what)| format!("{count} {what}")).collect();
    let reason = first_reason.map(|why| format!(": {why}")).unwrap_or_default();
    let reviewers = count_noun(outcomes.len() as u64, "reviewer");
    let why =
        format!("{reviewers}{separator} {}{reason}; no finding was confirmed", parts.join(", "));
    JudgeOutcome::Unknown { why }
}
