//! The one line that announces the end of a run, short enough to forward: the status, the reason, and what to do next.

use crate::id::RunId;
use crate::limits::Limits;
use crate::record::Run;
use crate::status::Status;
use crate::text;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

const LONGEST_TITLE: usize = 200;
/// Long enough for a gate's name and its message, or for a question.
const LONGEST_REASON: usize = 600;

/// ``verified: upgrade to axum 0.8 — all 9 requirements are met … (run k7f2); see `ralph why k7f2` ``
pub fn sentence(status: Status, run: &Run, bounds: &Limits, because: &str) -> String {
    let title = text::line(&run.title, LONGEST_TITLE);
    let title = if title.is_empty() { title } else { format!(": {title}") };
    let because = text::line(because, LONGEST_REASON);
    let next = next_step(status, run, bounds);
    format!("{}{title} — {because} (run {}); {next}", status.name(), run.id)
}

/// What a person should do now, with the command to copy. `bounds` are the limits in force when the run ended.
pub fn next_step(status: Status, run: &Run, bounds: &Limits) -> String {
    let id = &run.id;
    if run.drive.is_some()
        && let Some(next) = driven_step(status, run)
    {
        return next;
    }
    match status {
        Status::Verified => format!("see `ralph why {id}`"),
        Status::Claimed => "review it before you rely on it; \
                            `ralph gate detect` proposes gates that could measure it"
            .into(),
        Status::Exhausted => format!(
            "`ralph why {id}` shows what is open; to continue, run `/ralph:goal` in the session with a higher {}",
            limits(bounds)
        ),
        Status::Stuck => format!(
            "`ralph why {id}` shows what it is stuck on; help with that, then run `/ralph:goal` again"
        ),
        Status::NeedsHuman => "answer in the session with `/ralph:goal` and what to do next".into(),
        Status::NeedsReview if run.seal.is_some() => format!(
            "review the change before you keep it: `ralph checkpoint diff {id}`, `ralph why {id}`"
        ),
        Status::NeedsReview => {
            format!(
                "review the change before you keep it; `ralph why {id}` shows what was detected"
            )
        }
        Status::GateBroken if run.seal.is_some() => {
            "fix it until `ralph gate run` gets a result, then run `/ralph:goal` again".into()
        }
        Status::GateBroken => {
            format!("`ralph why {id}` shows what broke; fix it, then run `/ralph:goal` again")
        }
        Status::RateLimited => "run `/ralph:goal` again when the rate limit resets".into(),
        Status::Cancelled => "`/ralph:goal` starts a new run".into(),
        Status::Overridden => "the client overrode the hook: raise its block cap \
                               (`CLAUDE_CODE_STOP_HOOK_BLOCK_CAP`), then run `/ralph:goal` again"
            .into(),
        Status::Crashed => "`ralph status` shows what broke; then run `/ralph:goal` again".into(),
    }
}

/// Overrides the next step of a run that a runner drives: no person is in its session, and a parked run can be resumed.
fn driven_step(status: Status, run: &Run) -> Option<String> {
    let id = &run.id;
    let (resume, fork) = (format!("`ralph run --resume {id}`"), another(id, status));
    Some(match status {
        Status::Verified | Status::Claimed | Status::NeedsReview => return None,
        Status::Exhausted => {
            format!("`ralph why {id}` shows what is open; `{fork}` continues with fresh limits")
        }
        Status::Stuck => {
            format!("`ralph why {id}` shows what it is stuck on; help with that, then run `{fork}`")
        }
        Status::NeedsHuman => format!("answer with `ralph tell {id} \"…\"`, then run {resume}"),
        Status::GateBroken => {
            format!("`ralph why {id}` shows what broke; fix it, then run `{fork}`")
        }
        Status::RateLimited => format!("run {resume} when the rate limit resets"),
        Status::Cancelled | Status::Overridden | Status::Crashed => {
            format!("`ralph status` shows what happened; {resume} continues")
        }
    })
}

/// The command that starts a new run from the last session of a driven run that has ended.
pub fn another(run: &RunId, status: Status) -> String {
    match status {
        Status::Verified => format!("ralph run \"…\" --fork {run}"),
        Status::Exhausted
        | Status::Claimed
        | Status::Stuck
        | Status::NeedsHuman
        | Status::NeedsReview
        | Status::GateBroken
        | Status::RateLimited
        | Status::Cancelled
        | Status::Overridden
        | Status::Crashed => format!("ralph run --fork {run}"),
    }
}

/// The options that raise the limits the run had.
fn limits(limits: &Limits) -> String {
    let options = [
        (limits.max_iterations.is_some(), "`--max-iterations`"),
        (limits.max_duration_ms.is_some(), "`--max-duration`"),
        (limits.max_cost_micro_usd.is_some(), "`--max-cost-usd`"),
    ];
    let options: Vec<_> =
        options.into_iter().filter(|(is_set, _)| *is_set).map(|(_, option)| option).collect();
    match options.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        Some((only, _)) => (*only).into(),
        None => "limit".into(),
    }
}
