//! Rows that only a driven run has: somebody is there who can end the agent's process and start another.

use super::ours::{Ours, hold};
use super::{Decision, allow, end};
use crate::drive::{Remedy, Sessions, Settings};
use crate::facts::{Driver, Facts};
use crate::limits;
use crate::reason;
use crate::record::{Outcome, Rule, Run};
use crate::run::State;
use crate::status::Status;
use crate::text;
use crate::verdict::Verdict;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// A plateau is this many times as long as being stuck, while every stop shows a state that nobody has seen: stops at
/// known ones count twice.
const PLATEAU: u32 = 4;

/// The share of a run's money that a turn is taken to cost at most, before any was seen.
const ASSUMED_SHARE: u64 = 4;

const PLEA: &str = "\nWhat was tried does not work, and trying it again will not help. Write one sentence on why it failed, \
                    choose a different approach, say which, and only then go on. If only a person can decide, run `ralph ask \"…\"`\n";

/// Nothing that an agent's process can still change is final: the runner looks once more when it is gone.
pub(super) fn final_look(ours: &Ours<'_>, decision: Decision) -> Decision {
    let is_early = match ours.case.facts.driver {
        Driver::Runner => decision.is_success(),
        // Only verified work goes back; what is merely claimed ends here, and stays where it is.
        Driver::Closing => decision.outcome == Outcome::Ended(Status::Verified),
        Driver::Person | Driver::Alone => false,
    };
    if is_early { allow(Rule::FinalLook, decision.because) } else { decision }
}

/// The failures do not become fewer, though the tree changes.
pub(super) fn plateau(ours: &Ours<'_>) -> Option<Decision> {
    if ours.case.facts.driver == Driver::Person {
        return None;
    }
    let mark = ours.mark()?;
    let flat = ours.state.flatness(ours.report, mark)?;
    if flat.weight() < ours.limits().stuck_after.saturating_mul(PLATEAU) {
        return None;
    }
    let because = format!(
        "the failures have not become fewer in {} stops ({} at best, {} now), {}",
        flat.stops,
        flat.best.weight,
        ours.report.weight(),
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
            let longest = if ours.is_nearly_full() {
                reason::LONGEST_IN_LITTLE_ROOM
            } else {
                reason::LONGEST
            };
            let room = longest.saturating_sub(PLEA.chars().count());
            let reason = format!("{}{PLEA}", text::cut(reason, room));
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
        Remedy::StrongerModel => has_stronger(settings, ours.state),
    };
    [Remedy::Approach, Remedy::FreshSession, Remedy::StrongerModel]
        .into_iter()
        .filter(can)
        .find(|remedy| !ours.state.driving.tried.contains(remedy))
}

/// A model that is at work already is not stronger.
fn has_stronger(settings: &Settings, state: &State) -> bool {
    let latest = state.driving.latest().and_then(|driven| driven.session.model.as_ref());
    let current = latest.or(settings.model.as_ref());
    settings.stronger_model.as_ref().is_some_and(|stronger| current != Some(stronger))
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
    // Whoever waits for gates has nothing to hand over.
    if ours.only_waits() {
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

/// What the next turn may cost: as much as the dearest so far.
pub(super) fn next_turn(run: &Run, state: &State) -> u64 {
    let driving = &state.driving;
    let assumed = run.drive.as_ref().filter(|_| !driving.has_metered());
    let Some(settings) = assumed else { return driving.worst_turn_micro_usd };
    // Nobody sets a limit under which not even one turn is to begin.
    let most = state.limits(run).max_cost_micro_usd.map(|most| most / ASSUMED_SHARE);
    most.map_or(settings.worst_turn_micro_usd, |most| settings.worst_turn_micro_usd.min(most))
}

/// What all runs of the day may cost together.
pub(super) fn day(run: &Run, facts: &Facts, next: u64) -> Option<String> {
    let most = run.drive.as_ref()?.day_micro_usd?;
    let spent = facts.spent_today_micro_usd?;
    let day = limits::money(most);
    if spent >= most {
        return Some(format!("the {day} of this day are spent"));
    }
    (spent.saturating_add(next) > most).then(|| {
        let next = limits::money(next);
        format!("another turn, which may cost {next}, would overrun the {day} of this day")
    })
}
