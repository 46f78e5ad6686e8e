//! Rows that only a driven run has. Its runner can end the agent's process and start another.

use super::run_rows::{RunStop, hold_agent};
use super::{StopDecision, allow};
use crate::drive::{DriveSettings, Remedy, SessionPolicy};
use crate::facts::{StopDriver, StopFacts};
use crate::reason;
use crate::record::{DecisionRule, RunRecord, StopOutcome};
use crate::run::RunState;
use crate::status::RunStatus;
use crate::text;
use crate::units;
use crate::verdict::Verdict;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// A plateau takes this many times as many stops as `stuck_after`, if every stop has a new tree. Stops in known states
/// count twice.
const PLATEAU_FACTOR: u32 = 4;

/// Before any turn was metered, a turn is assumed to cost at most the run's budget divided by this.
const FIRST_TURN_DIVISOR: u64 = 4;

const APPROACH_PROMPT: &str = "\nThe approach so far does not work, and repeating it will not help. Write one sentence on why it failed, \
                    choose a different approach, say which one, and only then continue. If only a person can decide, run `ralph ask \"…\"`\n";

/// An agent's process that is still alive can change the work tree, so a success is not final: the runner evaluates the
/// requirements again after the process has exited.
pub(super) fn final_look(stop: &RunStop<'_>, decision: StopDecision) -> StopDecision {
    let is_early = match stop.case.facts.driver {
        StopDriver::Runner => decision.is_success(),
        // Other work ends the run here and stays in its work tree.
        StopDriver::RunnerLanding => {
            matches!(decision.outcome, StopOutcome::Ended(status) if stop.run.allows_merge(status))
        }
        StopDriver::Person | StopDriver::RunnerAlone => false,
    };
    if is_early { allow(DecisionRule::FinalLook, decision.because) } else { decision }
}

/// The tree changes, but the failures do not decrease.
pub(super) fn plateau(stop: &RunStop<'_>) -> Option<StopDecision> {
    if stop.case.facts.driver == StopDriver::Person {
        return None;
    }
    let mark = stop.state_digest()?;
    let flat = stop.state.plateau_with(stop.report, mark)?;
    if flat.weight() < stop.limits().stuck_after.saturating_mul(PLATEAU_FACTOR) {
        return None;
    }
    let because = format!(
        "the failures did not decrease in {} ({} at best, {} now), {}",
        text::count_noun(flat.stops, "stop"),
        flat.best.weight,
        stop.report.failure_weight(),
        stop.describe_open()
    );
    Some(StopDecision {
        mark: Some(mark),
        ..stop.end(DecisionRule::Stuck, RunStatus::Stuck, because)
    })
}

/// Replaces the end of a stuck run with the next remedy, if one is left.
pub(super) fn try_remedy(stop: &RunStop<'_>, stuck: StopDecision) -> StopDecision {
    if stop.case.facts.driver == StopDriver::Person {
        return stuck;
    }
    let Some(remedy) = next_remedy(stop) else {
        let because = format!("{}{}", stuck.because, describe_tried(stop));
        return StopDecision {
            mark: stuck.mark,
            ..stop.end(DecisionRule::Stuck, RunStatus::Stuck, because)
        };
    };
    let because = format!("{}; trying {}", stuck.because, remedy.name());
    let tried = match remedy {
        Remedy::Approach => {
            let held = hold_agent(stop);
            let StopOutcome::Blocked { reason } = &held.outcome else { return held };
            let longest = if stop.is_context_nearly_full() {
                reason::MAX_SHORT_REASON_CHARS
            } else {
                reason::MAX_REASON_CHARS
            };
            let room = longest.saturating_sub(APPROACH_PROMPT.chars().count());
            let reason = format!("{}{APPROACH_PROMPT}", text::truncate(reason, room));
            StopDecision {
                rule: DecisionRule::Remedy,
                verdict: Verdict::Block { reason: reason.clone() },
                outcome: StopOutcome::Blocked { reason },
                because,
                ..held
            }
        }
        Remedy::FreshSession | Remedy::StrongerModel => StopDecision {
            outcome: StopOutcome::HandedOver,
            ..allow(DecisionRule::Remedy, because)
        },
    };
    StopDecision { remedy: Some(remedy), mark: stuck.mark, ..tried }
}

fn next_remedy(stop: &RunStop<'_>) -> Option<Remedy> {
    let settings = stop.run.drive.as_ref()?;
    let can = |remedy: &Remedy| match remedy {
        Remedy::Approach => true,
        Remedy::FreshSession => settings.sessions != SessionPolicy::SameSession,
        Remedy::StrongerModel => has_stronger_model(settings, stop.state),
    };
    [Remedy::Approach, Remedy::FreshSession, Remedy::StrongerModel]
        .into_iter()
        .filter(can)
        .find(|remedy| !stop.state.driving.tried.contains(remedy))
}

/// Whether a stronger model is configured and not already in use.
fn has_stronger_model(settings: &DriveSettings, state: &RunState) -> bool {
    let latest = state.driving.latest_session().and_then(|driven| driven.session.model.as_ref());
    let current = latest.or(settings.model.as_ref());
    settings.stronger_model.as_ref().is_some_and(|stronger| current != Some(stronger))
}

fn describe_tried(stop: &RunStop<'_>) -> String {
    let tried: Vec<_> = stop.state.driving.tried.iter().map(|remedy| remedy.name()).collect();
    if tried.is_empty() { String::new() } else { format!("; tried {}", tried.join(", then ")) }
}

pub(super) fn hand_over(stop: &RunStop<'_>) -> Option<StopDecision> {
    let settings = stop.run.drive.as_ref()?;
    if stop.case.facts.driver == StopDriver::Person
        || settings.sessions == SessionPolicy::SameSession
    {
        return None;
    }
    // While only gates are running there is nothing to hand over.
    if stop.awaits_results_only() {
        return None;
    }
    let full = stop.case.facts.context_permille.filter(|_| stop.is_context_nearly_full());
    let because = match full {
        Some(permille) => {
            format!("the context is {} % full, {}", permille / 10, stop.describe_open())
        }
        None if settings.sessions == SessionPolicy::FreshPerFeature && has_met_more(stop) => {
            format!(
                "another requirement is met, and the next one gets a fresh session, {}",
                stop.describe_open()
            )
        }
        None => return None,
    };
    let decision = allow(DecisionRule::HandOver, because);
    Some(StopDecision { outcome: StopOutcome::HandedOver, mark: stop.state_digest(), ..decision })
}

fn has_met_more(stop: &RunStop<'_>) -> bool {
    let open = u32::try_from(stop.open_count()).unwrap_or(u32::MAX);
    stop.state.driving.open_at_start.is_some_and(|at_start| open < at_start)
}

/// The expected cost of the next turn: that of the most expensive turn so far.
pub(super) fn next_turn_cost(run: &RunRecord, state: &RunState) -> u64 {
    let driving = &state.driving;
    let assumed = run.drive.as_ref().filter(|_| !driving.has_metered());
    let Some(settings) = assumed else { return driving.worst_turn_micro_usd };
    // Otherwise a small budget would not even allow the first turn.
    let most = state.limits(run).max_cost_micro_usd.map(|most| most / FIRST_TURN_DIVISOR);
    most.map_or(settings.worst_turn_micro_usd, |most| settings.worst_turn_micro_usd.min(most))
}

/// Describes the daily limit if it is reached, or if the next turn might exceed it.
pub(super) fn daily_limit_reached(run: &RunRecord, facts: &StopFacts, next: u64) -> Option<String> {
    let most = run.drive.as_ref()?.day_micro_usd?;
    let spent = facts.spent_today_micro_usd?;
    let day = units::format_usd(most);
    if spent >= most {
        return Some(format!("today's budget of {day} is spent"));
    }
    (spent.saturating_add(next) > most).then(|| {
        let next = units::format_usd(next);
        format!("another turn, which may cost {next}, would exceed today's budget of {day}")
    })
}
