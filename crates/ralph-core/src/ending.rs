//! The end of a run in one line that a person can forward: how, why, and what to do next.

use crate::id::RunId;
use crate::limits::Limits;
use crate::record::Run;
use crate::status::Status;
use crate::text;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

const LONGEST_TITLE: usize = 200;
/// A gate's name and what it said, or a question, fit.
const LONGEST_REASON: usize = 600;

/// ``verified: upgrade to axum 0.8 — all 9 requirements are met … (run k7f2); see `ralph why k7f2` ``
pub fn sentence(status: Status, run: &Run, bounds: &Limits, because: &str) -> String {
    let title = text::line(&run.title, LONGEST_TITLE);
    let title = if title.is_empty() { title } else { format!(": {title}") };
    let because = text::line(because, LONGEST_REASON);
    let next = next_step(status, run, bounds);
    format!("{}{title} — {because} (run {}); {next}", status.name(), run.id)
}

/// What a person does about it, with the command to copy. `bounds` is what bounded the run last.
pub fn next_step(status: Status, run: &Run, bounds: &Limits) -> String {
    let id = &run.id;
    if run.drive.is_some()
        && let Some(next) = driven_step(status, run)
    {
        return next;
    }
    match status {
        Status::Verified => format!("see `ralph why {id}`"),
        Status::Claimed => "look it over before you rely on it; \
                            `ralph gate detect` proposes what could measure it"
            .into(),
        Status::Exhausted => format!(
            "`ralph why {id}` shows what is open; to go on, `/ralph:goal` in the session with a higher {}",
            limits(bounds)
        ),
        Status::Stuck => format!(
            "`ralph why {id}` shows what it does not get past; help with that, then `/ralph:goal` again"
        ),
        Status::NeedsHuman => {
            "answer in the session with `/ralph:goal` and what is to be done now".into()
        }
        Status::NeedsReview if run.seal.is_some() => format!(
            "look at the change before you keep it: `ralph checkpoint diff {id}`, `ralph why {id}`"
        ),
        Status::NeedsReview => {
            format!("look at the change before you keep it; `ralph why {id}` says what was seen")
        }
        Status::GateBroken if run.seal.is_some() => {
            "repair it until `ralph gate run` gets an answer, then `/ralph:goal` again".into()
        }
        Status::GateBroken => {
            format!("`ralph why {id}` shows what it was; repair it, then `/ralph:goal` again")
        }
        Status::RateLimited => "`/ralph:goal` again when the limit is lifted".into(),
        Status::Cancelled => "`/ralph:goal` begins anew".into(),
        Status::Overridden => "the client let the agent go: raise its cap on blocks \
                               (`CLAUDE_CODE_STOP_HOOK_BLOCK_CAP`), then `/ralph:goal` again"
            .into(),
        Status::Crashed => "`ralph status` says what broke; then `/ralph:goal` again".into(),
    }
}

/// What differs where ralph drives the agent: nobody is in the session, and what is parked can be gone on with.
fn driven_step(status: Status, run: &Run) -> Option<String> {
    let id = &run.id;
    let (resume, fork) = (format!("`ralph run --resume {id}`"), another(id, status));
    Some(match status {
        Status::Verified | Status::Claimed | Status::NeedsReview => return None,
        Status::Exhausted => {
            format!("`ralph why {id}` shows what is open; `{fork}` goes on, with as much again")
        }
        Status::Stuck => {
            format!(
                "`ralph why {id}` shows what it does not get past; help with that, then `{fork}`"
            )
        }
        Status::NeedsHuman => format!("`ralph tell {id} \"…\"` answers, then {resume}"),
        Status::GateBroken => {
            format!("`ralph why {id}` shows what it was; repair it, then `{fork}`")
        }
        Status::RateLimited => format!("{resume} when the limit is lifted"),
        Status::Cancelled | Status::Overridden | Status::Crashed => {
            format!("`ralph status` says what it was; {resume} continues")
        }
    })
}

/// What is typed to go on from the last session of a driven run that has ended.
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

/// The options that raise what the run was bound by.
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
