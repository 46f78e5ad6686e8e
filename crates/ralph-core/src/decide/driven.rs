//! Rows that only a driven run has: somebody is there who can end the agent's process and start another.

use super::ours::{Ours, hold};
use super::{Decision, allow, end};
use crate::drive::{Remedy, Sessions};
use crate::facts::Driver;
use crate::limits;
use crate::reason;
use crate::record::{Outcome, Rule};
use crate::status::Status;
use crate::text;
use crate::verdict::Verdict;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// A plateau is this many times as long as being stuck: the failures stay as many, while something still moves.
const PLATEAU: u32 = 2;
/// And this many times as long again while every stop shows a tree that nobody has seen.
const SOFTENED: u32 = 2;

const PLEA: &str = "\nWhat was tried does not work, and trying it again will not help. Write one sentence on why it failed, \
                    choose a different approach, say which, and only then go on. If only a person can decide, run `ralph ask \"…\"`\n";

/// Nothing that an agent's process can still change is final: the runner looks once more when it is gone.
pub(super) fn final_look(ours: &Ours<'_>, decision: Decision) -> Decision {
    if ours.case.facts.driver == Driver::Runner && decision.is_success() {
        return allow(Rule::FinalLook, decision.because);
    }
    decision
}

/// The failures do not become fewer, though the tree changes.
pub(super) fn plateau(ours: &Ours<'_>) -> Option<Decision> {
    if ours.case.facts.driver == Driver::Person {
        return None;
    }
    let mark = ours.mark()?;
    let moves = ours.state.staleness(Some(mark)) == 0 && ours.state.stale == 0;
    let softened = if moves { SOFTENED } else { 1 };
    let window = ours.limits().stuck_after.saturating_mul(PLATEAU).saturating_mul(softened);
    let open = &ours.state.driving.open;
    let (least, now) = (open.iter().min()?, ours.weight());
    // The last of them, and this one.
    let stops = u32::try_from(open.len()).unwrap_or(u32::MAX);
    if now < *least || stops < window {
        return None;
    }
    let because = format!(
        "the failures have not become fewer in {stops} stops ({least} at best, {now} now), {}",
        ours.what_is_open()
    );
    Some(Decision { mark: Some(mark), ..end(Rule::Stuck, Status::Stuck, ours.bounded(), because) })
}

/// What is tried before a run is given up, one thing after the other.
pub(super) fn remedied(ours: &Ours<'_>, stuck: Decision) -> Decision {
    if ours.case.facts.driver == Driver::Person {
        return stuck;
    }
    let Some(remedy) = next_remedy(ours) else {
        let because = format!("{}{}", stuck.because, story(ours));
        return Decision {
            mark: stuck.mark,
            ..end(Rule::Stuck, Status::Stuck, ours.bounded(), because)
        };
    };
    let because = format!("{}; trying {}", stuck.because, remedy.name());
    let tried = match remedy {
        Remedy::Approach => {
            let held = hold(ours);
            let Outcome::Blocked { reason } = &held.outcome else { return held };
            let reason = format!("{}{PLEA}", text::cut(reason, reason::LONGEST - PLEA.len()));
            Decision {
                rule: Rule::Remedy,
                verdict: Verdict::Block { reason: reason.clone() },
                outcome: Outcome::Blocked { reason },
                because,
                ..held
            }
        }
        Remedy::FreshSession | Remedy::StrongerModel => {
            Decision { outcome: Outcome::HandedOver, ..allow(Rule::Remedy, because) }
        }
    };
    Decision { remedy: Some(remedy), mark: stuck.mark, ..tried }
}

fn next_remedy(ours: &Ours<'_>) -> Option<Remedy> {
    let settings = ours.run.drive.as_ref()?;
    let can = |remedy: &Remedy| match remedy {
        Remedy::Approach => true,
        Remedy::FreshSession => settings.sessions != Sessions::SameSession,
        Remedy::StrongerModel => settings.stronger_model.is_some(),
    };
    [Remedy::Approach, Remedy::FreshSession, Remedy::StrongerModel]
        .into_iter()
        .filter(can)
        .find(|remedy| !ours.state.driving.tried.contains(remedy))
}

fn story(ours: &Ours<'_>) -> String {
    let tried: Vec<_> = ours.state.driving.tried.iter().map(|remedy| remedy.name()).collect();
    if tried.is_empty() { String::new() } else { format!("; tried {}", tried.join(", then ")) }
}

pub(super) fn hand_over(ours: &Ours<'_>) -> Option<Decision> {
    let settings = ours.run.drive.as_ref()?;
    if ours.case.facts.driver == Driver::Person || settings.sessions == Sessions::SameSession {
        return None;
    }
    let full = ours.case.facts.context_permille.filter(|_| ours.is_nearly_full());
    let because = match full {
        Some(permille) => {
            format!("the context is {} % full, {}", permille / 10, ours.what_is_open())
        }
        None if settings.sessions == Sessions::FreshPerFeature && has_met(ours) => {
            format!(
                "something more is met, and the next thing gets a fresh session, {}",
                ours.what_is_open()
            )
        }
        None => return None,
    };
    let decision = allow(Rule::HandOver, because);
    Some(Decision { outcome: Outcome::HandedOver, mark: ours.mark(), ..decision })
}

fn has_met(ours: &Ours<'_>) -> bool {
    let open = u32::try_from(ours.open()).unwrap_or(u32::MAX);
    ours.state.driving.open_at_start.is_some_and(|at_start| open < at_start)
}

/// What all runs of the day may cost together.
pub(super) fn day(ours: &Ours<'_>) -> Option<String> {
    let most = ours.run.drive.as_ref()?.day_micro_usd?;
    let spent = ours.case.facts.spent_today_micro_usd?;
    (spent >= most).then(|| format!("the {} of this day are spent", limits::money(most)))
}
