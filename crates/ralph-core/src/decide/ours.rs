//! Rows `verified` to `block`, for a session that a run owns.

use super::{Case, Decision, block, driven, end, plural, usage};
use crate::facts::{Cap, Evidence, Tree};
use crate::limits::{self, Limits};
use crate::mark::Mark;
use crate::policy::OnTampering;
use crate::reason::{self, Held, Room, Telling};
use crate::record::{Known, Line, Origin, Outcome, Report, Rule, Run};
use crate::requirement::{Evidence as Proof, Pending, Requirement, Standing};
use crate::run::{State, Tampered};
use crate::status::Status;
use crate::waiver;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// One stop of a run, with everything known about it.
#[derive(Clone, Copy)]
pub(super) struct Ours<'a> {
    pub case: &'a Case<'a>,
    pub run: &'a Run,
    pub state: &'a State,
    pub evidence: &'a Evidence,
    pub report: &'a Report,
    pub context: &'a Telling<'a>,
}

pub(super) fn conclude(stop: &Ours<'_>) -> Decision {
    all_met(stop)
        .map(|met| driven::final_look(stop, met))
        .or_else(|| tampered(stop))
        .or_else(|| disputed(stop))
        .or_else(|| gate_broken(stop))
        .or_else(|| limit(stop))
        .or_else(|| stalled(stop))
        .or_else(|| driven::hand_over(stop))
        .unwrap_or_else(|| hold(stop))
}

impl<'a> Ours<'a> {
    pub(super) fn bounded(&self) -> (&'a Run, &'a Limits) {
        (self.run, self.limits())
    }

    pub(super) fn limits(&self) -> &'a Limits {
        self.state.limits(self.run)
    }

    fn required(&self) -> impl Iterator<Item = &'a Requirement> {
        self.evidence.requirements.iter().filter(|one| one.is_required())
    }

    pub(super) fn open(&self) -> usize {
        self.required().filter(|one| one.is_open()).count()
    }

    /// `2 not met, 1 pending`
    pub(super) fn what_is_open(&self) -> String {
        let pending = self.required().filter(|one| one.is_pending()).count();
        let waived = self.and_waived();
        match (self.open().saturating_sub(pending), pending) {
            (open, 0) => format!("{open} not met{waived}"),
            (0, pending) => format!("{pending} pending{waived}"),
            (open, pending) => format!("{open} not met, {pending} pending{waived}"),
        }
    }

    fn and_waived(&self) -> String {
        match self.waived() {
            0 => String::new(),
            waived => format!(", {waived} waived by a person"),
        }
    }

    /// How many requirements are not met but waived by a person.
    fn waived(&self) -> usize {
        let now_ms = self.case.facts.now_ms;
        let is_waived = |one: &&Requirement| {
            !matches!(one.standing, Standing::Met(_))
                && waiver::of(&one.name, &self.state.waivers, now_ms).is_some()
        };
        self.evidence.requirements.iter().filter(is_waived).count()
    }

    fn tampering(&self) -> Option<&'a str> {
        self.case.facts.tampering.as_deref().or(self.evidence.tampering.as_deref())
    }

    /// Whether all open requirements are running gates and a time limit bounds the wait.
    pub(super) fn only_waits(&self) -> bool {
        self.open() > 0
            && self.required().filter(|one| one.is_open()).all(Requirement::is_running)
            && self.limits().max_duration_ms.is_some()
            && self.tampering().is_none()
    }

    pub(super) fn is_nearly_full(&self) -> bool {
        let permille = self.case.facts.context_permille.unwrap_or(0);
        permille >= self.limits().handover_at_permille
    }

    /// The host's cap, if it is reached: the host would override another block and report the turn as a success.
    fn is_capped(&self) -> Option<u32> {
        match self.case.facts.cap {
            Cap::At(most) => (self.case.facts.in_a_row >= most).then_some(most),
            Cap::None => None,
        }
    }

    fn elapsed_ms(&self) -> u64 {
        self.state.elapsed_ms(self.case.facts.now_ms)
    }

    /// Digest of the tree and the failures. `None` while a gate is running, because its result will change it.
    pub(super) fn mark(&self) -> Option<Mark> {
        match self.evidence.tree {
            Tree::Known(_) if self.required().any(Requirement::is_running) => None,
            Tree::Known(tree) => Some(self.report.failures.and(tree)),
            Tree::Unknown => None,
        }
    }
}

fn all_met(stop: &Ours<'_>) -> Option<Decision> {
    let count = stop.required().count();
    let is_bare = count == 0 && stop.waived() == 0;
    if stop.open() > 0 || is_bare || stop.tampering().is_some() {
        return None;
    }
    let claimed = stop.required().filter(|one| one.standing == Standing::Met(Proof::Claimed));
    let claimed = claimed.count();
    let noun =
        if count == 1 { "1 requirement is" } else { &format!("all {count} requirements are") };
    let iterations = plural(stop.state.iteration, "iteration");
    let how = format!("after {iterations} and {}", limits::duration(stop.elapsed_ms()));
    let backed = stop.required().filter(|one| one.standing == Standing::Met(Proof::Backed)).count();
    let backed = match backed {
        0 => String::new(),
        backed => format!(", {backed} of them by claims backed by passing gates"),
    };
    let waived = stop.and_waived();
    Some(match (stop.state.tampered, claimed) {
        (Tampered::Yes, _) => {
            let because =
                format!("{noun} met {how}{waived}, but ralph's own files were changed meanwhile");
            end(Rule::Tampered, Status::NeedsReview, stop.bounded(), because)
        }
        // With every requirement waived, nothing was measured.
        (Tampered::No, 0) if count == 0 => {
            let because = format!("no requirement is left {how}{waived}");
            end(Rule::Claimed, Status::Claimed, stop.bounded(), because)
        }
        (Tampered::No, 0) => {
            let because = format!("{noun} met {how}{backed}{waived}");
            end(Rule::Verified, Status::Verified, stop.bounded(), because)
        }
        (Tampered::No, claimed) => {
            let because = if claimed == count {
                format!("{noun} claimed to be met {how}; nothing measured it{waived}")
            } else {
                let claims = if claimed == 1 { "a claim" } else { "claims" };
                format!("{noun} met {how}, {claimed} of them only by {claims}{waived}")
            };
            end(Rule::Claimed, Status::Claimed, stop.bounded(), because)
        }
    })
}

fn tampered(stop: &Ours<'_>) -> Option<Decision> {
    match (stop.tampering()?, stop.run.on_tampering) {
        (what, OnTampering::EndInReview) => {
            let what = reason::say(what, 300, stop.context.redactor);
            Some(end(Rule::Tampered, Status::NeedsReview, stop.bounded(), what))
        }
        (_, OnTampering::Block) => None,
    }
}

/// The agent disputes every open requirement, except those that wait for a disputed one. Only a person can decide.
fn disputed(stop: &Ours<'_>) -> Option<Decision> {
    if stop.open() == 0 || stop.tampering().is_some() {
        return None;
    }
    let redactor = stop.context.redactor;
    let dispute = |one: &Requirement| {
        let name = reason::name(one, redactor);
        stop.state.disputes.iter().find(|dispute| dispute.requirement == name)
    };
    let waits =
        |one: &Requirement| matches!(one.standing, Standing::Pending(Pending::NotReached(_)));
    let open = stop.required().filter(|one| one.is_open() && !waits(one));
    let disputes: Option<Vec<_>> = open.map(dispute).collect();
    let disputes = disputes?;
    let first = disputes.first()?;
    let why = reason::say(&first.why, 200, redactor);
    let more = match disputes.len() {
        1 => String::new(),
        count => format!(" (and {} more)", count - 1),
    };
    let because = format!("the agent disputes {}: {why}{more}", first.requirement);
    Some(end(Rule::NeedsHuman, Status::NeedsHuman, stop.bounded(), because))
}

fn gate_broken(stop: &Ours<'_>) -> Option<Decision> {
    let redactor = stop.context.redactor;
    stop.required().find_map(|one| match &one.standing {
        Standing::Unknown(why) if was_unknown(stop.state, &reason::name(one, redactor)) => {
            let (name, why) = (reason::name(one, redactor), reason::say(why, 160, redactor));
            let because = format!("{name} gave no result twice in a row: {why}");
            Some(end(Rule::GateBroken, Status::GateBroken, stop.bounded(), because))
        }
        Standing::Unknown(_) | Standing::Pending(_) | Standing::Met(_) | Standing::Unmet(_) => None,
    })
}

fn limit(stop: &Ours<'_>) -> Option<Decision> {
    let usage = usage(stop.case.facts, stop.run, stop.state);
    let own = stop.limits().used_up(&usage).map(|used_up| used_up.to_string());
    let own = own.or_else(|| driven::day(stop.run, stop.case.facts, usage.next_micro_usd));
    let adopted = stop.evidence.own_limit.as_ref().filter(|_| stop.run.origin == Origin::Adopted);
    let what = match (adopted, own, stop.is_capped()) {
        (Some(limit), ..) => reason::say(limit, 120, stop.context.redactor),
        (None, Some(used_up), _) => used_up,
        (None, None, Some(cap)) => {
            format!("held {cap} times in a row without a tool call, the most the host allows")
        }
        (None, None, None) => return None,
    };
    let because = format!("{what}, {}", stop.what_is_open());
    Some(end(Rule::Limit, Status::Exhausted, stop.bounded(), because))
}

fn stalled(stop: &Ours<'_>) -> Option<Decision> {
    let stuck = stuck(stop).or_else(|| driven::plateau(stop))?;
    Some(driven::remedied(stop, stuck))
}

fn stuck(stop: &Ours<'_>) -> Option<Decision> {
    let mark = stop.mark()?;
    let times = stop.state.staleness(Some(mark)).saturating_add(1);
    if times < stop.limits().stuck_after {
        return None;
    }
    let stops = match times.saturating_sub(1) {
        1 => "stop".to_string(),
        count => format!("{count} stops"),
    };
    let because = format!(
        "the last {stops} made no progress (state {}), {}",
        mark.short(),
        stop.what_is_open()
    );
    Some(Decision { mark: Some(mark), ..end(Rule::Stuck, Status::Stuck, stop.bounded(), because) })
}

pub(super) fn hold(stop: &Ours<'_>) -> Decision {
    let mark = stop.mark();
    let (rule, because) = match stop.tampering() {
        Some(what) => {
            let what = reason::say(what, 200, stop.context.redactor);
            (Rule::Tampered, format!("{what}; {}", stop.what_is_open()))
        }
        None => (Rule::Block, stop.what_is_open()),
    };
    let held = Held {
        hold: stop.case.hold,
        requirements: &stop.evidence.requirements,
        failures: stop.report.failures,
        mark,
        tampering: stop.tampering(),
        room: if stop.is_nearly_full() { Room::Little } else { Room::Plenty },
    };
    let reason = reason::held(&held, stop.context);
    let decision = Decision { mark, ..block(rule, because, reason.clone()) };
    if stop.only_waits() {
        Decision { outcome: Outcome::Awaited { reason }, ..decision }
    } else {
        decision
    }
}

/// Whether the requirement had no result at the last stop that reported one.
fn was_unknown(state: &State, name: &str) -> bool {
    let lines = state.report.as_ref().map_or(&[][..], |report| &report.lines);
    let is_unknown =
        |line: &Line| line.standing == Known::Unknown || line.was == Some(Known::Unknown);
    lines.iter().any(|line| line.name == name && is_unknown(line))
}

/// A gate that runs again keeps its `unknown` result until it has a new one.
pub(super) fn remember_unknown(report: &mut Report, state: &State) {
    for line in report.lines.iter_mut().filter(|line| line.standing == Known::Pending) {
        if was_unknown(state, &line.name) {
            line.was = Some(Known::Unknown);
        }
    }
}
