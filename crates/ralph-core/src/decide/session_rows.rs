//! The rows for a session without a run. The gates of the project hold a prompt a few times and then let the agent stop;
//! the record of the session never ends.

use super::run_rows::{self, RunStop};
use super::{StopDecision, allow};
use crate::reason;
use crate::record::DecisionRule;
use crate::requirement::{OLD_FAILURES_REQUIREMENT, Requirement, RequirementStatus};
use crate::text;
use crate::verdict::Verdict;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

const SHOWN_NAMES: usize = 3;
const MAX_WHY_CHARS: usize = 160;

pub(super) fn conclude(stop: &RunStop<'_>) -> StopDecision {
    hold_or_release(stop)
        .or_else(|| gates_running(stop))
        .or_else(|| no_result(stop))
        .unwrap_or_else(|| nothing_got_worse(stop))
}

fn hold_or_release(stop: &RunStop<'_>) -> Option<StopDecision> {
    let worse: Vec<&Requirement> = stop.required().filter(|one| one.is_unmet()).collect();
    if worse.is_empty() {
        return None;
    }
    let holds = stop.case.facts.prompt_holds;
    let most = stop.run.seal.as_ref().map_or(0, |seal| seal.policy.session.holds);
    if holds < most && stop.reached_block_cap().is_none() {
        return Some(run_rows::hold_agent(stop));
    }
    let held = match holds {
        0 => String::new(),
        1 => "held once, ".to_string(),
        times => format!("held {times} times, "),
    };
    let because = format!("{held}still failing: {}", describe_failures(stop, &worse));
    let notice = format!(
        "ralph: the agent may stop, but the work is worse than before: {because}\n\
         `ralph why {}` shows the details, `/ralph:goal …` holds the agent until they are fixed",
        stop.run.id
    );
    Some(allow_with(DecisionRule::Limit, because, notice))
}

/// The result of a slow gate holds the next stop.
fn gates_running(stop: &RunStop<'_>) -> Option<StopDecision> {
    let running: Vec<&Requirement> = stop.required().filter(|one| one.is_running()).collect();
    if running.is_empty() {
        return None;
    }
    let verb = if running.len() == 1 { "is" } else { "are" };
    let because = format!("{} {verb} still running", requirement_names(stop, &running));
    let notice = format!("ralph: {because}; a failure will hold the next stop");
    Some(allow_with(DecisionRule::Waiting, because, notice))
}

/// A gate without a result holds no stop: the agent may be unable to mend it. The person sees it when it appears.
fn no_result(stop: &RunStop<'_>) -> Option<StopDecision> {
    let first = stop.required().find(|one| one.is_open())?;
    let why = match &first.status {
        RequirementStatus::Unknown(why) => why.as_str(),
        RequirementStatus::Pending(pending) => pending.why(),
        RequirementStatus::Met(_) | RequirementStatus::Unmet(_) => return None,
    };
    let redactor = stop.context.redactor;
    let (name, why) =
        (reason::safe_name(first, redactor), reason::safe_line(why, MAX_WHY_CHARS, redactor));
    let because = format!("{name} gave no result: {why}");
    if is_known_already(stop) {
        return Some(allow(DecisionRule::GateBroken, because));
    }
    let notice = format!("ralph: {because}; it holds no stop until it works");
    Some(allow_with(DecisionRule::GateBroken, because, notice))
}

fn nothing_got_worse(stop: &RunStop<'_>) -> StopDecision {
    let count = stop.required().count();
    let gates = text::count_noun(count, "gate");
    let Some(old_failures) = describe_old_failures(stop) else {
        let because = format!("{gates} passed");
        let was_held = stop.case.facts.prompt_holds > 0;
        let notice = format!("ralph: fixed: {because}");
        return if was_held {
            allow_with(DecisionRule::Passed, because, notice)
        } else {
            allow(DecisionRule::Passed, because)
        };
    };
    let because = format!("nothing got worse; {old_failures}");
    if is_known_already(stop) {
        return allow(DecisionRule::Passed, because);
    }
    let notice = format!("ralph: {because}");
    allow_with(DecisionRule::Passed, because, notice)
}

/// `1 old failure remains: test_round`
fn describe_old_failures(stop: &RunStop<'_>) -> Option<String> {
    let mut requirements = stop.evidence.requirements.iter();
    let old = requirements.find(|one| one.name == OLD_FAILURES_REQUIREMENT)?;
    match &old.status {
        RequirementStatus::Unmet(failure) => {
            Some(reason::safe_line(&failure.summary, MAX_WHY_CHARS, stop.context.redactor))
        }
        RequirementStatus::Met(_)
        | RequirementStatus::Unknown(_)
        | RequirementStatus::Pending(_) => None,
    }
}

/// Whether the last judged stop of the session reported the same.
fn is_known_already(stop: &RunStop<'_>) -> bool {
    stop.state.report.as_ref().is_some_and(|before| before.lines == stop.report.lines)
}

fn allow_with(rule: DecisionRule, because: String, notice: String) -> StopDecision {
    StopDecision { verdict: Verdict::AllowWithNotice(notice), ..allow(rule, because) }
}

/// `tests (2 of 148 tests failed), lint (3 findings) and 1 more`
fn describe_failures(stop: &RunStop<'_>, failing: &[&Requirement]) -> String {
    let redactor = stop.context.redactor;
    let describe = |one: &&Requirement| {
        let name = reason::safe_name(one, redactor);
        match &one.status {
            RequirementStatus::Unmet(failure) => {
                format!("{name} ({})", reason::safe_line(&failure.summary, MAX_WHY_CHARS, redactor))
            }
            RequirementStatus::Met(_)
            | RequirementStatus::Unknown(_)
            | RequirementStatus::Pending(_) => name,
        }
    };
    join_some(failing.iter().map(describe), failing.len())
}

fn requirement_names(stop: &RunStop<'_>, all: &[&Requirement]) -> String {
    let redactor = stop.context.redactor;
    join_some(all.iter().map(|one| reason::safe_name(one, redactor)), all.len())
}

fn join_some(parts: impl Iterator<Item = String>, count: usize) -> String {
    let shown: Vec<String> = parts.take(SHOWN_NAMES).collect();
    match count.saturating_sub(SHOWN_NAMES) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
