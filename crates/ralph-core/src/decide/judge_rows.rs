//! Rows and texts about judges: reviewers whose verdict is asked for when everything else is met.

use super::proof_rows;
use super::run_rows::{RunStop, limit};
use super::{StopDecision, reason};
use crate::judge::{Judge, JudgeKind};
use crate::judge_requirement::quote_reason;
use crate::record::{DecisionRule, Dispute, JudgeRecord, describe_unseen};
use crate::requirement::{EvidenceKind, Requirement, RequirementStatus};
use crate::run::RunState;
use crate::status::RunStatus;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

const MAX_WHY_CHARS: usize = 300;
const MAX_UNSEEN_CHARS: usize = 400;

/// A proof that the agent can still improve holds it before CI or a judge is asked: CI takes long, judges cost money, and
/// tests are better evidence.
pub(super) fn proof_first(stop: &RunStop<'_>) -> Option<StopDecision> {
    if !stop.evidence.waits_for_proof || stop.tampering().is_some() {
        return None;
    }
    limit(stop).or_else(|| proof_rows::hold_before_asking(stop))
}

/// A required judge says that the goal cannot be met as stated. Only a person can change the goal.
pub(super) fn impossible_goal(stop: &RunStop<'_>) -> Option<StopDecision> {
    if stop.tampering().is_some() {
        return None;
    }
    let records = &stop.evidence.judging.records;
    let is_open = |record: &&JudgeRecord| {
        stop.required().any(|one| one.name == record.name && one.is_unmet())
    };
    let record = records.iter().find(|record| record.is_impossible() && is_open(record))?;
    let redactor = stop.context.redactor;
    let name = reason::safe_line(&record.name, reason::MAX_NAME_CHARS, redactor);
    let why = match (&record.why, &record.reason) {
        (Some(why), _) => format!(": {}", reason::safe_line(why, MAX_WHY_CHARS, redactor)),
        (None, Some(said)) => {
            let said = reason::safe_line(said, MAX_WHY_CHARS, redactor);
            format!(": {}", quote_reason(&said, MAX_WHY_CHARS))
        }
        (None, None) => String::new(),
    };
    let because = format!("the judge {name} says that the goal cannot be met as stated{why}");
    Some(stop.end(DecisionRule::NeedsHuman, RunStatus::NeedsHuman, because))
}

/// The disputes that still stand. One about a judge stands only if the judge raises a finding again that it raised before:
/// the agent did not dispute findings that it has not seen.
pub(super) fn standing_disputes<'a>(
    state: &'a RunState,
    records: &[JudgeRecord],
) -> Vec<&'a Dispute> {
    let is_new = |dispute: &Dispute| {
        let record = records.iter().find(|record| record.name == dispute.requirement);
        record.is_some_and(|record| {
            !record.raised.is_empty() && !state.judges.has_raised_before(record)
        })
    };
    state.disputes.iter().filter(|dispute| !is_new(dispute)).collect()
}

/// `, 1 of them by the judge review`, with the files that it was not shown; empty without one.
pub(super) fn judged_suffix(stop: &RunStop<'_>) -> String {
    let judged: Vec<&Requirement> = stop.required().filter(|one| is_judged(one)).collect();
    let safe_name = |one: &&Requirement| reason::safe_name(one, stop.context.redactor);
    let names: Vec<_> = judged.iter().map(safe_name).collect();
    let records = stop.evidence.judging.records.iter();
    let records = records.filter(|record| judged.iter().any(|one| one.name == record.name));
    let unseen = |verb: &str| match describe_unseen(records) {
        Some(unseen) => {
            format!(
                ", which {verb} {}",
                reason::safe_line(&unseen, MAX_UNSEEN_CHARS, stop.context.redactor)
            )
        }
        None => String::new(),
    };
    match names.as_slice() {
        [] => String::new(),
        [name] => format!(", 1 of them by the judge {name}{}", unseen("was")),
        names => {
            let count = names.len();
            format!(", {count} of them by the judges {}{}", names.join(", "), unseen("were"))
        }
    }
}

/// `; the advisory judge review says that it is not met: add.sh:1: negative numbers are lost`; empty without one. Nothing
/// else would tell the person: such a judge holds nothing.
pub(super) fn advice_suffix(stop: &RunStop<'_>) -> String {
    let redactor = stop.context.redactor;
    let records = &stop.evidence.judging.records;
    // A waiver is named by itself, and an advisory `impossible` has no consequence.
    let objects = |one: &Requirement| {
        let is_waived = stop.state.waivers.iter().any(|waiver| waiver.requirement == one.name);
        !is_waived
            && !records.iter().any(|record| record.name == one.name && record.is_impossible())
    };
    let advice = stop.evidence.requirements.iter().filter_map(|one| match &one.status {
        RequirementStatus::Unmet(failure)
            if !one.is_required() && one.stage.judge_kind().is_some() && objects(one) =>
        {
            let name = reason::safe_name(one, redactor);
            let what = match failure.findings.first() {
                Some(first) => reason::describe_finding(first, redactor),
                None => reason::safe_line(&failure.summary, MAX_WHY_CHARS, redactor),
            };
            Some(format!("; the advisory judge {name} says that it is not met: {what}"))
        }
        RequirementStatus::Unmet(_)
        | RequirementStatus::Met(_)
        | RequirementStatus::Unknown(_)
        | RequirementStatus::Pending(_) => None,
    });
    advice.collect()
}

fn is_judged(requirement: &Requirement) -> bool {
    requirement.status == RequirementStatus::Met(EvidenceKind::Judged)
}

/// The required judges of kind `goal` that say that the goal is met.
pub(super) struct JudgedGoal<'a> {
    judges: Vec<&'a Judge>,
}

impl<'a> JudgedGoal<'a> {
    pub(super) fn find(stop: &RunStop<'a>) -> Option<Self> {
        let policy = &stop.run.seal.as_ref()?.policy;
        let is_met = |judge: &&Judge| {
            judge.kind == JudgeKind::Goal
                && stop.required().any(|one| one.name == judge.name && is_judged(one))
        };
        let judges: Vec<&Judge> = policy.judges.iter().filter(is_met).collect();
        (!judges.is_empty()).then_some(Self { judges })
    }

    /// Whether the policy lets a judge confirm the goal.
    pub(super) fn counts(&self) -> bool {
        self.judges.iter().any(|judge| judge.counts)
    }

    /// `goal-review`
    pub(super) fn names(&self) -> String {
        let names: Vec<&str> = self.judges.iter().map(|judge| judge.name.as_str()).collect();
        names.join(", ")
    }
}
