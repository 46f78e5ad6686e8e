//! Rows that only a driven run has. Its runner can end the agent's process and start another.

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

/// A plateau takes this many times as many stops as `stuck_after`, if every stop has a new tree. Stops in known states
/// count twice.
const PLATEAU: u32 = 4;

/// Before any turn was metered, a turn is assumed to cost at most the run's budget divided by this.
const ASSUMED_SHARE: u64 = 4;

const PLEA: &str = "\nThe approach so far does not work, and repeating it will not help. Write one sentence on why it failed, \
                    choose a different approach, say which one, and only then continue. If only a person can decide, run `ralph ask \"…\"`\n";

/// An agent's process that is still alive can change the work tree, so a success is not final: the runner evaluates the
/// requirements again after the process has exited.
pub(super) fn final_look(stop: &Ours<'_>, decision: Decision) -> Decision {
    let is_early = match stop.case.facts.driver {
        Driver::Runner => decision.is_success(),
        // Only verified work is landed. Claimed work ends the run here and stays in its work tree.
        Driver::Closing => decision.outcome == Outcome::Ended(Status::Verified),
        Driver::Person | Driver::Alone => false,
    };
    if is_early { allow(Rule::FinalLook, decision.because) } else { decision }
}

/// The tree changes, but the failures do not decrease.
pub(super) fn plateau(stop: &Ours<'_>) -> Option<Decision> {
    if stop.case.facts.driver == Driver::Person {
        return None;
    }
    let mark = stop.mark()?;
    let flat = stop.state.flatness(stop.report, mark)?;
    if flat.weight() < stop.limits().stuck_after.saturating_mul(PLATEAU) {
        return None;
    }
    let because = format!(
        "the failures did not decrease in {} ({} at best, {} now), {}",
        super::plural(flat.stops, "stop"),
        flat.best.weight,
        stop.report.weight(),
        stop.what_is_open()
    );
    Some(Decision { mark: Some(mark), ..end(Rule::Stuck, Status::Stuck, stop.bounded(), because) })
}

/// Replaces the end of a stuck run with the next remedy, if one is left.
pub(super) fn remedied(stop: &Ours<'_>, stuck: Decision) -> Decision {
    if stop.case.facts.driver == Driver::Person {
        return stuck;
    }
    let Some(remedy) = next_remedy(stop) else {
        let because = format!("{}{}", stuck.because, story(stop));
        return Decision {
            mark: stuck.mark,
            ..end(Rule::Stuck, Status::Stuck, stop.bounded(), because)
        };
    };
    let because = format!("{}; trying {}", stuck.because, remedy.name());
    let tried = match remedy {
        Remedy::Approach => {
            let held = hold(stop);
            let Outcome::Blocked { reason } = &held.outcome else { return held };
            let longest = if stop.is_nearly_full() {
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

fn next_remedy(stop: &Ours<'_>) -> Option<Remedy> {
    let settings = stop.run.drive.as_ref()?;
    let can = |remedy: &Remedy| match remedy {
        Remedy::Approach => true,
        Remedy::FreshSession => settings.sessions != Sessions::SameSession,
        Remedy::StrongerModel => has_stronger(settings, stop.state),
    };
    [Remedy::Approach, Remedy::FreshSession, Remedy::StrongerModel]
        .into_iter()
        .filter(can)
        .find(|remedy| !stop.state.driving.tried.contains(remedy))
}

/// Whether a stronger model is configured and not already in use.
fn has_stronger(settings: &Settings, state: &State) -> bool {
    let latest = state.driving.latest().and_then(|driven| driven.session.model.as_ref());
    let current = latest.or(settings.model.as_ref());
    settings.stronger_model.as_ref().is_some_and(|stronger| current != Some(stronger))
}

fn story(stop: &Ours<'_>) -> String {
    let tried: Vec<_> = stop.state.driving.tried.iter().map(|remedy| remedy.name()).collect();
    if tried.is_empty() { String::new() } else { format!("; tried {}", tried.join(", then ")) }
}

pub(super) fn hand_over(stop: &Ours<'_>) -> Option<Decision> {
    let settings = stop.run.drive.as_ref()?;
    if stop.case.facts.driver == Driver::Person || settings.sessions == Sessions::SameSession {
        return None;
    }
    // While only gates are running there is nothing to hand over.
    if stop.only_waits() {
        return None;
    }
    let full = stop.case.facts.context_permille.filter(|_| stop.is_nearly_full());
    let because = match full {
        Some(permille) => {
            format!("the context is {} % full, {}", permille / 10, stop.what_is_open())
        }
        None if settings.sessions == Sessions::FreshPerFeature && has_met(stop) => {
            format!(
                "another requirement is met, and the next one gets a fresh session, {}",
                stop.what_is_open()
            )
        }
        None => return None,
    };
    let decision = allow(Rule::HandOver, because);
    Some(Decision { outcome: Outcome::HandedOver, mark: stop.mark(), ..decision })
}

fn has_met(stop: &Ours<'_>) -> bool {
    let open = u32::try_from(stop.open()).unwrap_or(u32::MAX);
    stop.state.driving.open_at_start.is_some_and(|at_start| open < at_start)
}

/// The expected cost of the next turn: that of the most expensive turn so far.
pub(super) fn next_turn(run: &Run, state: &State) -> u64 {
    let driving = &state.driving;
    let assumed = run.drive.as_ref().filter(|_| !driving.has_metered());
    let Some(settings) = assumed else { return driving.worst_turn_micro_usd };
    // Otherwise a small budget would not even allow the first turn.
    let most = state.limits(run).max_cost_micro_usd.map(|most| most / ASSUMED_SHARE);
    most.map_or(settings.worst_turn_micro_usd, |most| settings.worst_turn_micro_usd.min(most))
}

/// Describes the daily limit if it is reached, or if the next turn might exceed it.
pub(super) fn day(run: &Run, facts: &Facts, next: u64) -> Option<String> {
    let most = run.drive.as_ref()?.day_micro_usd?;
    let spent = facts.spent_today_micro_usd?;
    let day = limits::money(most);
    if spent >= most {
        return Some(format!("today's budget of {day} is spent"));
    }
    (spent.saturating_add(next) > most).then(|| {
        let next = limits::money(next);
        format!("another turn, which may cost {next}, would exceed today's budget of {day}")
    })
}
