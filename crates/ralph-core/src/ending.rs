//! The one line that announces the end of a run, short enough to forward: the status, the reason, and what to do next.

use crate::id::RunId;
use crate::limits::{RUN_LIMITS, RunLimits};
use crate::record::RunRecord;
use crate::status::RunStatus;
use crate::text;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

const MAX_TITLE_CHARS: usize = 200;
/// Long enough for a proof, the met requirements and the agent's reason.
const MAX_REASON_CHARS: usize = 900;

/// Begins the reason of an end that rests on the verdict of a judge. The name of the judge and a semicolon follow.
pub(crate) const JUDGED_MET_PREFIX: &str = "judged met by ";

/// Follows the name of the requirement in the reason of a run that ended `gate_broken`.
pub(crate) const NO_RESULT_TWICE: &str = " gave no result twice in a row: ";

/// The requirement without a result, from the reason of a run that ended `gate_broken`.
pub fn broken_requirement(because: &str) -> Option<&str> {
    because.split_once(NO_RESULT_TWICE).map(|(name, _)| name)
}

/// The end of a run in one line.
///
/// ``verified: upgrade to axum 0.8 — all 9 requirements are met … (run k7f2); see `ralph why k7f2` ``
pub fn describe_end(
    status: RunStatus,
    run: &RunRecord,
    bounds: &RunLimits,
    because: &str,
) -> String {
    let reason = text::clean_line(split_judged(because).1, MAX_REASON_CHARS);
    let next = next_step(status, run, bounds, broken_requirement(&reason));
    describe_halt(status, run, because, &next)
}

/// As [`describe_end`], also for a run that was parked, with the next step that is given.
pub fn describe_halt(status: RunStatus, run: &RunRecord, because: &str, next: &str) -> String {
    let title = text::clean_line(&run.title, MAX_TITLE_CHARS);
    let title = if title.is_empty() { title } else { format!(": {title}") };
    let (judged, because) = split_judged(because);
    let because = text::clean_line(because, MAX_REASON_CHARS);
    format!("{}{judged}{title} — {because} (run {}); {next}", status.name(), run.id)
}

/// `green` alone would hide what the word rests on, so the judge is named beside it: `, judged met by review`
fn split_judged(because: &str) -> (String, &str) {
    let judges = because.strip_prefix(JUDGED_MET_PREFIX).and_then(|rest| rest.split_once("; "));
    match judges {
        Some((names, rest)) => (format!(", {JUDGED_MET_PREFIX}{names}"), rest),
        None => (String::new(), because),
    }
}

/// What a person should do about a run that has ended, with the command to copy. `bounds` are the limits in force at the
/// end, and `broken` is the requirement that gave no result, if the run ended because of one.
pub fn next_step(
    status: RunStatus,
    run: &RunRecord,
    bounds: &RunLimits,
    broken: Option<&str>,
) -> String {
    let id = &run.id;
    if run.drive.is_some()
        && let Some(next) = driven_next_step(status, run, broken)
    {
        return next;
    }
    match status {
        RunStatus::Verified => format!("see `ralph why {id}`"),
        // Without git there is no checkpoint to compare with.
        RunStatus::Green | RunStatus::NeedsReview
            if run.seal.as_ref().is_some_and(|seal| seal.base.is_none()) =>
        {
            format!(
                "review the change and run `ralph accept {id}`; with git, a run can prove its work"
            )
        }
        RunStatus::Green => format!(
            "review the change (`ralph checkpoint diff {id}`) and run `ralph accept {id}`, or start a new run that adds a test"
        ),
        RunStatus::Claimed
            if run.seal.as_ref().is_some_and(|seal| !seal.policy.gates.is_empty()) =>
        {
            format!("review it before you rely on it; `ralph why {id}` shows what was not measured")
        }
        RunStatus::Claimed => "review it before you rely on it; \
                            `ralph gate detect` proposes gates that could measure it"
            .into(),
        RunStatus::Exhausted => format!(
            "`ralph why {id}` shows what is open; to continue, run `/ralph:goal` in the session with a higher {}",
            options_to_raise(bounds)
        ),
        RunStatus::Stuck => format!(
            "`ralph why {id}` shows what it is stuck on; help with that, then run `/ralph:goal` again"
        ),
        RunStatus::NeedsHuman => format!(
            "answer in the session with `/ralph:goal` and what to do next, or close the run with `ralph cancel {id}`"
        ),
        RunStatus::NeedsReview if run.seal.is_some() => format!(
            "review the change before you keep it: `ralph checkpoint diff {id}`, `ralph why {id}`; \
             then `ralph accept {id}`, or undo it"
        ),
        RunStatus::NeedsReview => {
            format!(
                "review the change before you keep it; `ralph why {id}` shows what was detected, \
                 `ralph accept {id}` accepts it"
            )
        }
        RunStatus::GateBroken if run.seal.is_some() => {
            let retry = retry_command(run, broken);
            let retry = retry.as_deref().unwrap_or("`ralph gate run` gets a result");
            format!("fix it until {retry}, then run `/ralph:goal` again")
        }
        RunStatus::GateBroken => {
            format!("`ralph why {id}` shows what broke; fix it, then run `/ralph:goal` again")
        }
        RunStatus::RateLimited => "run `/ralph:goal` again when the rate limit resets".into(),
        RunStatus::Cancelled => "`/ralph:goal` starts a new run".into(),
        RunStatus::Overridden => {
            "the client overrode the hook: `ralph init` raises its block cap; \
                               then run `/ralph:goal` again"
                .into()
        }
        RunStatus::Crashed => {
            "`ralph status` shows what broke; then run `/ralph:goal` again".into()
        }
    }
}

/// Overrides the next step of an ended run that a runner drove: no person is in its session, and it cannot be resumed.
fn driven_next_step(status: RunStatus, run: &RunRecord, broken: Option<&str>) -> Option<String> {
    let id = &run.id;
    let fork = fork_command(id, status);
    Some(match status {
        RunStatus::Verified | RunStatus::Green | RunStatus::Claimed | RunStatus::NeedsReview => {
            return None;
        }
        RunStatus::Exhausted => {
            format!("`ralph why {id}` shows what is open; `{fork}` continues with fresh limits")
        }
        RunStatus::Stuck => {
            format!("`ralph why {id}` shows what it is stuck on; help with that, then run `{fork}`")
        }
        RunStatus::NeedsHuman => format!(
            "`ralph why {id}` shows what to decide; decide it, then run `{fork}`, or close the run with `ralph cancel {id}`"
        ),
        RunStatus::GateBroken => match retry_command(run, broken) {
            Some(retry) => format!("fix it until {retry}, then run `{fork}`"),
            None => format!("`ralph why {id}` shows what broke; fix it, then run `{fork}`"),
        },
        RunStatus::RateLimited => format!("run `{fork}` when the rate limit resets"),
        RunStatus::Cancelled => format!("`{fork}` continues from its last session"),
        RunStatus::Overridden | RunStatus::Crashed => {
            format!("`ralph why {id}` shows what happened; run `{fork}` to continue")
        }
    })
}

/// What a parked run waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParkedWait<'a> {
    /// A person has to answer a question.
    Answer,
    /// A person has to approve what this command approves.
    Approval(&'a str),
    /// The next session gets a message of a person.
    Message,
    /// Anything else: the reason for parking names it.
    Other,
}

/// What a person should do about a parked run. `broken` is as for [`next_step`].
pub fn parked_step(
    status: RunStatus,
    run: &RunRecord,
    wait: ParkedWait<'_>,
    broken: Option<&str>,
) -> String {
    let id = &run.id;
    let resume = format!("`ralph run --resume {id}`");
    match (wait, status) {
        (ParkedWait::Answer, _) => {
            format!("answer with `ralph tell {id} \"…\"`, then run {resume}")
        }
        (ParkedWait::Approval(command), _) => {
            format!("review it, then run `{command}` and {resume}")
        }
        (ParkedWait::Message, _) => format!("{resume} continues and gives the agent your message"),
        (ParkedWait::Other, RunStatus::RateLimited) => {
            format!("run {resume} when the rate limit resets")
        }
        (ParkedWait::Other, RunStatus::NeedsHuman | RunStatus::NeedsReview) => {
            format!("settle what it waits for, then run {resume}")
        }
        (ParkedWait::Other, RunStatus::GateBroken) => match retry_command(run, broken) {
            Some(retry) => format!("fix it until {retry}, then run {resume}"),
            None => format!("fix what gave no result, then run {resume}"),
        },
        (
            ParkedWait::Other,
            RunStatus::Verified
            | RunStatus::Green
            | RunStatus::Claimed
            | RunStatus::Exhausted
            | RunStatus::Stuck
            | RunStatus::Cancelled
            | RunStatus::Overridden
            | RunStatus::Crashed,
        ) => format!("{resume} continues"),
    }
}

/// How to try the judge or the CI check again that gave no result. `ralph gate run` without a name runs neither.
fn retry_command(run: &RunRecord, broken: Option<&str>) -> Option<String> {
    let (policy, broken) = (&run.seal.as_ref()?.policy, broken?);
    if policy.judges.iter().any(|judge| judge.name == broken) {
        return Some(format!("`ralph judge run {broken}` gets a verdict"));
    }
    let is_ci = policy.gates.iter().any(|gate| gate.is_ci() && gate.name == broken);
    is_ci.then(|| format!("`ralph gate run {broken}` gets a result"))
}

/// The command that starts a new run from the last session of a driven run that has ended.
pub fn fork_command(run: &RunId, status: RunStatus) -> String {
    match status {
        RunStatus::Verified => format!("ralph run \"…\" --fork {run}"),
        RunStatus::Exhausted
        | RunStatus::Green
        | RunStatus::Claimed
        | RunStatus::Stuck
        | RunStatus::NeedsHuman
        | RunStatus::NeedsReview
        | RunStatus::GateBroken
        | RunStatus::RateLimited
        | RunStatus::Cancelled
        | RunStatus::Overridden
        | RunStatus::Crashed => format!("ralph run --fork {run}"),
    }
}

/// The options of the limits that the run had, so that a person can raise them.
fn options_to_raise(limits: &RunLimits) -> String {
    let options: Vec<_> = RUN_LIMITS
        .iter()
        .filter(|limit| limit.usage.is_some() && (limit.get)(limits).is_some())
        .map(|limit| format!("`{}`", limit.option))
        .collect();
    match options.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        Some((only, _)) => only.clone(),
        None => "limit".into(),
    }
}
