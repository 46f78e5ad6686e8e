//! The part of a run's state that only a driven run has: its sessions, costs, waits and remedies.

use super::{RunPhase, RunState};
use crate::digest64::Digest64;
use crate::drive::{
    CostSource, DriveSettings, MeterBasis, MeterReading, PlannedWait, Remedy, RunnerEvent,
    RunnerSession, WaitCause, WaitLimits,
};
use crate::id::SessionId;
use crate::record::{
    ReportLine, ReportedStatus, RunChange, RunRecord, StopOutcome, StopRecord, StopReport,
};
use crate::serde_skip::{is_zero, is_zero_offset};
use crate::status::RunStatus;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// How many sessions are kept individually. Older ones count only in the total.
const MAX_SESSIONS: usize = 64;

/// How many requirements are remembered as having been met once.
const MAX_MET_DIGESTS: usize = 1024;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriveState {
    /// Most recent last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sessions: Vec<DrivenSession>,
    /// How many sessions there were in total.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub count: u32,
    /// The cost of sessions that are no longer in `sessions`.
    #[serde(default, skip_serializing_if = "Spending::is_zero")]
    pub before: Spending,
    /// The assumed part of `before`.
    #[serde(default, skip_serializing_if = "is_zero_offset")]
    pub before_assumed_micro_usd: u64,
    /// The most expensive turn so far.
    #[serde(default)]
    pub worst_turn_micro_usd: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<PlannedWait>,
    /// How many rate limits were waited out.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub resumes: u32,
    /// The rate-limit window that was last waited for, if the provider named it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<String>,
    #[serde(default)]
    pub waited_limit_ms: u64,
    #[serde(default)]
    pub waited_errors_ms: u64,
    /// The maximum total wait for rate limits, if a person changed it after the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_ms: Option<u64>,
    /// Remedies tried since the last progress.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tried: Vec<Remedy>,
    /// Set if a fresh session is due: the reason for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handing_over: Option<String>,
    /// Crashes and restarts since the last charged stop.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub broken: u32,
    /// Waits that the agent declared since its requirements were last evaluated.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub declared: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parked: Option<ParkedRun>,
    /// The stops since the last progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flat: Option<Plateau>,
    /// Digests of the names of requirements that were open and then met. That is progress only the first time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub done: Vec<Digest64>,
    /// How many requirements were open when the session began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_at_start: Option<u32>,
    /// The commit of the target branch that a proof compares with, once the work was merged with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof_base: Option<String>,
}

/// A session of a driven run and what it has cost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrivenSession {
    #[serde(flatten)]
    pub session: RunnerSession,
    pub at_ms: u64,
    pub spent: Spending,
    /// The cost of gates that call a model.
    #[serde(default, skip_serializing_if = "Spending::is_zero")]
    pub gates: Spending,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub turns: u32,
    /// The part of the agent's cost that the client has not reported. Missing in states of older versions.
    #[serde(default, skip_serializing_if = "AssumedSpending::is_zero")]
    pub assumed: AssumedSpending,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spending {
    pub micro_usd: u64,
    pub tokens: u64,
}

/// The part of a session's cost that is assumed, because the client has not reported it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssumedSpending {
    pub micro_usd: u64,
    /// The part that belongs to a turn that may still be billed.
    in_flight_micro_usd: u64,
}

impl AssumedSpending {
    fn is_zero(&self) -> bool {
        *self == Self::default()
    }

    /// A new process begins. It does not bill what an earlier one spent.
    pub fn begin_process(&mut self) {
        self.in_flight_micro_usd = 0;
    }

    /// Adds a reading of the agent's meter: the total `reached`, after the recorded `spent`.
    pub fn add_reading(&mut self, spent: u64, reached: u64, meter: MeterBasis) {
        match meter {
            MeterBasis::Assumed => {
                let grown = reached.saturating_sub(spent);
                self.micro_usd = self.micro_usd.saturating_add(grown);
                self.in_flight_micro_usd = self.in_flight_micro_usd.saturating_add(grown);
            }
            MeterBasis::Told => {
                // If the bill is lower than the assumption, the rest stays assumed: recorded costs never shrink.
                let left = spent.saturating_sub(reached).min(self.in_flight_micro_usd);
                let billed = core::mem::take(&mut self.in_flight_micro_usd).saturating_sub(left);
                self.micro_usd = self.micro_usd.saturating_sub(billed);
            }
        }
    }
}

/// A run that its runner gave up. A person can resume it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParkedRun {
    pub status: RunStatus,
    pub why: String,
}

/// A series of stops without progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plateau {
    /// The best score so far.
    pub best: FailureScore,
    pub stops: u32,
    /// How many of these stops were in a state seen before.
    pub known: u32,
}

/// How much is wrong; lower is better. Pending requirements weigh more than any finding, because a failing build hides
/// the failures of all tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FailureScore {
    pub pending: u32,
    pub weight: u32,
}

impl FailureScore {
    fn of_report(report: &StopReport) -> Self {
        Self { pending: report.pending, weight: report.failure_weight() }
    }
}

impl Plateau {
    /// Stops in known states count twice; stops with a changed tree count once.
    pub fn weight(self) -> u32 {
        self.stops.saturating_add(self.known)
    }
}

impl Spending {
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }

    pub fn plus(self, other: Self) -> Self {
        Self {
            micro_usd: self.micro_usd.saturating_add(other.micro_usd),
            tokens: self.tokens.saturating_add(other.tokens),
        }
    }
}

impl DriveState {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The total cost of all sessions.
    pub fn spent(&self) -> Spending {
        self.sessions
            .iter()
            .fold(self.before, |sum, driven| sum.plus(driven.spent).plus(driven.gates))
    }

    /// The part of the total cost that the client never reported, and that is therefore assumed.
    pub fn assumed_micro_usd(&self) -> u64 {
        let assumed = self.sessions.iter().map(|driven| driven.assumed.micro_usd);
        assumed.fold(self.before_assumed_micro_usd, u64::saturating_add)
    }

    pub fn latest_session(&self) -> Option<&DrivenSession> {
        self.sessions.last()
    }

    /// Whether any turn has been metered yet.
    pub fn has_metered(&self) -> bool {
        self.worst_turn_micro_usd > 0 || self.sessions.iter().any(|driven| driven.turns > 0)
    }

    pub(super) fn reset_progress(&mut self) {
        self.tried.clear();
        self.flat = None;
    }

    /// Ends the parking and resets the counters of crashes and waits: the person who resumes the run has seen them.
    pub(super) fn unpark(&mut self) {
        if self.parked.take().is_some() {
            self.broken = 0;
            self.resumes = 0;
            self.waited_limit_ms = 0;
            self.waited_errors_ms = 0;
        }
    }

    fn add_remedy(&mut self, remedy: Remedy) {
        if !self.tried.contains(&remedy) {
            self.tried.push(remedy);
        }
    }

    /// Adds the time of a finished wait, at most as long as it was planned: a machine that was off did not wait.
    fn add_waited_time(&mut self, wait: &PlannedWait, at_ms: u64) {
        let took = at_ms.min(wait.until_ms).saturating_sub(wait.since_ms);
        match wait.cause {
            WaitCause::RateLimit => {
                self.waited_limit_ms = self.waited_limit_ms.saturating_add(took);
            }
            WaitCause::Overload | WaitCause::Network | WaitCause::Server => {
                self.waited_errors_ms = self.waited_errors_ms.saturating_add(took);
            }
            WaitCause::Declared => {}
        }
    }
}

impl RunState {
    /// Applies a meter reading that arrives after the run has ended.
    pub(super) fn apply_late_bill(&mut self, change: &RunChange) {
        if let RunChange::Drove(drove) = change
            && let RunnerEvent::Metered(metered) = &**drove
        {
            self.apply_meter_reading(metered);
        }
    }

    pub(super) fn apply_runner_event(&mut self, drove: &RunnerEvent, at_ms: u64) {
        match drove {
            RunnerEvent::Session(session) => self.begin_session(session, at_ms),
            RunnerEvent::Metered(metered) => self.apply_meter_reading(metered),
            RunnerEvent::HandsOver { why, .. } => self.driving.handing_over = Some(why.clone()),
            RunnerEvent::Waits(wait) => self.begin_wait(wait, at_ms),
            RunnerEvent::Woke => self.end_wait(at_ms),
            RunnerEvent::WaitedEnough { .. } => self.declared = None,
            RunnerEvent::Tried { remedy, .. } => self.driving.add_remedy(*remedy),
            RunnerEvent::Broke { .. } => {
                self.driving.broken = self.driving.broken.saturating_add(1);
            }
            RunnerEvent::Parked { status, why } => {
                self.driving.parked = Some(ParkedRun { status: *status, why: why.clone() });
                self.phase = RunPhase::Paused { since_ms: at_ms };
            }
            // A restart after a silence also records `Broke`, which is counted there.
            RunnerEvent::Settled { .. }
            | RunnerEvent::Silent { .. }
            | RunnerEvent::AsksPerson { .. } => {}
            RunnerEvent::ProofBase { commit } => self.driving.proof_base.clone_from(commit),
            RunnerEvent::PassedOn => {
                self.hints.clear();
                self.declared.take_if(|declared| declared.question().is_some());
            }
            RunnerEvent::Granted { limit_ms } => self.driving.limit_ms = Some(*limit_ms),
        }
    }

    /// The settings in force: those of the start, with what a person granted since.
    pub fn drive_settings(&self, run: &RunRecord) -> Option<DriveSettings> {
        let settled = run.drive.as_deref()?.clone();
        let limit_ms = self.driving.limit_ms.unwrap_or(settled.waits.limit_ms);
        Some(DriveSettings { waits: WaitLimits { limit_ms, ..settled.waits }, ..settled })
    }

    fn begin_session(&mut self, session: &RunnerSession, at_ms: u64) {
        let driving = &mut self.driving;
        driving.handing_over = None;
        driving.unpark();
        let id = &session.id;
        // A session that is resumed keeps its counters.
        let before = driving.sessions.iter().position(|driven| driven.session.id == *id);
        let before = before.map(|at| driving.sessions.remove(at));
        if before.is_none() {
            driving.count = driving.count.saturating_add(1);
            driving.open_at_start = self.report.as_ref().map(StopReport::open_count);
        }
        driving.sessions.push(match before {
            Some(mut driven) => {
                driven.assumed.begin_process();
                DrivenSession { session: session.clone(), ..driven }
            }
            None => DrivenSession {
                session: session.clone(),
                at_ms,
                spent: Spending::default(),
                gates: Spending::default(),
                turns: 0,
                assumed: AssumedSpending::default(),
            },
        });
        if driving.sessions.len() > MAX_SESSIONS {
            let old = driving.sessions.remove(0);
            driving.before = driving.before.plus(old.spent).plus(old.gates);
            driving.before_assumed_micro_usd =
                driving.before_assumed_micro_usd.saturating_add(old.assumed.micro_usd);
        }
    }

    fn apply_meter_reading(&mut self, metered: &MeterReading) {
        let is_it = |driven: &&mut DrivenSession| driven.session.id == metered.session;
        // Every session is recorded before it can cost anything.
        let Some(driven) = self.driving.sessions.iter_mut().find(is_it) else { return };
        let now = Spending { micro_usd: metered.micro_usd, tokens: metered.tokens };
        if metered.source == CostSource::Agent {
            driven.assumed.add_reading(driven.spent.micro_usd, now.micro_usd, metered.meter);
        }
        let known = match metered.source {
            CostSource::Agent => &mut driven.spent,
            CostSource::Gate | CostSource::Judge => &mut driven.gates,
        };
        // A meter that goes backwards was reset. Recorded spending never decreases.
        let turn = now.micro_usd.saturating_sub(known.micro_usd);
        known.micro_usd = known.micro_usd.max(now.micro_usd);
        known.tokens = known.tokens.max(now.tokens);
        if metered.source == CostSource::Agent {
            driven.turns = driven.turns.max(metered.turns);
            self.driving.worst_turn_micro_usd = self.driving.worst_turn_micro_usd.max(turn);
        }
    }

    fn begin_wait(&mut self, wait: &PlannedWait, at_ms: u64) {
        // A wait that is recorded again after a restart is the same wait, and is counted once it ends.
        let given_up = self.driving.wait.take_if(|before| before.since_ms != wait.since_ms);
        if let Some(before) = given_up {
            self.driving.add_waited_time(&before, at_ms);
        }
        self.driving.wait = Some(wait.clone());
    }

    fn end_wait(&mut self, at_ms: u64) {
        let Some(wait) = self.driving.wait.take() else { return };
        self.driving.add_waited_time(&wait, at_ms);
        match wait.cause {
            WaitCause::RateLimit => {
                self.driving.resumes = self.driving.resumes.saturating_add(1);
                self.driving.window = wait.window;
            }
            WaitCause::Declared => {
                self.declared = None;
                self.driving.declared = self.driving.declared.saturating_add(1);
            }
            WaitCause::Overload | WaitCause::Network | WaitCause::Server => {}
        }
    }

    /// Updates the progress counters at a stop of a driven run. A stop without a digest cannot be compared (gates are
    /// running, or it is a final look) and counts neither way.
    pub(super) fn track_progress(&mut self, decided: &StopRecord) {
        if let Some(report) = decided.report.as_ref().filter(|_| self.driving.count > 0) {
            // Only a charged stop resets the counter: crashes that cost no iteration must not repeat forever.
            if matches!(decided.outcome, StopOutcome::Blocked { .. } | StopOutcome::HandedOver) {
                self.driving.broken = 0;
            }
            self.driving.declared = 0;
            if let Some(mark) = decided.mark {
                self.record_progress(report, mark);
            }
            self.driving.open_at_start.get_or_insert(report.open_count());
        }
    }

    pub(super) fn apply_remedy(&mut self, decided: &StopRecord) {
        if let Some(remedy) = decided.remedy {
            self.driving.add_remedy(remedy);
            // Give the remedy a chance: half as many stops as it took to need it.
            self.stale = 0;
            if let Some(flat) = &mut self.driving.flat {
                (flat.stops, flat.known) = (flat.stops / 2, flat.known / 2);
            }
        }
    }

    /// Counts a stop without progress, or resets the remedies if there was progress.
    fn record_progress(&mut self, report: &StopReport, mark: Digest64) {
        if let Some(flat) = self.plateau_with(report, mark) {
            self.driving.flat = Some(flat);
            return;
        }
        let finished: Vec<_> = self.newly_met(report).collect();
        let driving = &mut self.driving;
        driving.done.extend(finished);
        driving.done.drain(..driving.done.len().saturating_sub(MAX_MET_DIGESTS));
        driving.tried.clear();
        driving.flat = Some(Plateau { best: FailureScore::of_report(report), stops: 0, known: 0 });
    }

    /// The series of stops without progress, including this one. `None` if this stop is progress: the score is better
    /// than ever, or a requirement is met for the first time.
    pub(crate) fn plateau_with(&self, report: &StopReport, mark: Digest64) -> Option<Plateau> {
        let flat = self.driving.flat?;
        if FailureScore::of_report(report) < flat.best || self.newly_met(report).next().is_some() {
            return None;
        }
        Some(Plateau {
            stops: flat.stops.saturating_add(1),
            known: flat.known.saturating_add(u32::from(self.seen.contains(&mark))),
            ..flat
        })
    }

    /// Digests of the requirements that were open at the last stop and are met for the first time at this one.
    fn newly_met<'a>(&'a self, report: &'a StopReport) -> impl Iterator<Item = Digest64> + 'a {
        let is_open = |line: &&ReportLine| line.standing != ReportedStatus::Advisory;
        // Reports of older versions name only the first open and the first met requirements.
        let named = report.lines.iter().filter(is_open).count();
        let names_all = u32::try_from(named).is_ok_and(|named| named >= report.open_count());
        let is_finished = move |line: &&ReportLine| {
            let is_open = report.lines.iter().filter(is_open).any(|now| now.name == line.name);
            !is_open && (names_all || report.met.contains(&line.name))
        };
        let before = self.report.as_ref().map_or(&[][..], |before| &before.lines);
        before
            .iter()
            .filter(is_open)
            .filter(is_finished)
            .map(|line| Digest64::of_parts(&[line.name.as_bytes()]))
            .filter(|done| !self.driving.done.contains(done))
    }

    /// The runner's latest session, which it continues with, if there was one.
    pub fn driven_session(&self) -> Option<&SessionId> {
        self.driving.latest_session().map(|driven| &driven.session.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cost that is assumed in the middle of a turn is billed at its end, unless the process exits first.
    #[test]
    fn only_unbilled_costs_stay_assumed() {
        use MeterBasis::{Assumed, Told};
        // `None` is a new process.
        for (story, expected) in [
            (&[Some((5, Told)), Some((9, Told))][..], 0),
            (&[Some((5, Told)), Some((8, Assumed)), Some((9, Told))], 0),
            (&[Some((5, Told)), Some((8, Assumed)), Some((6, Told))], 2),
            (&[Some((5, Told)), Some((15, Assumed))], 10),
            (&[Some((5, Told)), Some((15, Assumed)), None, Some((16, Told))], 10),
            (&[Some((1, Assumed)), None, Some((2, Assumed)), None, Some((7, Told))], 2),
            (&[], 0),
        ] {
            let (mut assumed, mut spent) = (AssumedSpending::default(), 0);
            for step in story {
                match *step {
                    None => assumed.begin_process(),
                    Some((reached, meter)) => {
                        assumed.add_reading(spent, reached, meter);
                        spent = spent.max(reached);
                    }
                }
            }
            assert_eq!(assumed.micro_usd, expected, "{story:?}");
        }
    }
}
