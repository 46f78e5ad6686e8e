//! The changing half of a run: a fold over its journal, and nothing else.

mod driven;
mod said;
mod time;

use crate::facts::{Declared, Delivery};
use crate::id::SessionId;
use crate::limits::Limits;
use crate::record::{
    Change, Decided, Delivered, Dispute, Entry, Mark, Move, Observed, Outcome, Part, PartKind,
    PartRule, Process, Report, Rule, Run, Waiver, Who, is_nowhere, is_zero,
};
use crate::status::Status;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};
use time::Clock;

pub use driven::{Driven, Driving, Flat, Parked, Spent, Wrong};
pub use said::{Garbling, Way};

/// A host that calls two hooks at once starts them this close together; no model answers as fast.
pub(crate) const AT_ONCE_MS: u64 = 30;

/// How many different states a run remembers having seen.
const REMEMBERED: usize = 4096;

/// How many subagents, teammates and tasks it remembers, the latest.
const PARTS: usize = 200;

/// How many of them may still be asked the same question again.
const ANSWERED_PARTS: usize = 8;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// Entries applied so far.
    pub seq: u64,
    pub phase: Phase,
    /// Blocks charged. Ralph's own count: no field of a host ever moves it.
    pub iteration: u32,
    pub started_ms: u64,
    pub last_seen_ms: u64,
    /// Time on the run's own clock, up to `clock_ms`. Pauses are not in it, and a clock that is set back takes
    /// nothing off and adds nothing.
    pub ran_ms: u64,
    /// What the system's clock said at the last entry.
    pub clock_ms: u64,
    /// Every (tree, failures) a stop was held at, oldest first.
    pub seen: Vec<Mark>,
    /// How many stops in a row ended in a state seen before.
    pub stale: u32,
    /// Stops that were let go because this version did not know their reason.
    pub odd_stops: u32,
    pub delivery: Option<Answered>,
    pub answer: Option<String>,
    pub report: Option<Report>,
    pub observed: Option<Observed>,
    pub process: Option<Process>,
    pub trouble: Option<String>,
    /// Somebody edited what is not theirs. Once set, the run cannot end `verified`.
    pub tampered: Tampered,
    /// Who owns the run since it was moved. What came later than the format is left out while it says nothing: a
    /// state that an older ralph wrote keeps its hash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<SessionId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declared: Option<Declared>,
    /// Blocks since the agent last used a tool: the host counts these too.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub in_a_row: u32,
    /// The work in the background that was under way at the last stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub background: Option<Mark>,
    #[serde(default, skip_serializing_if = "Memory::is_whole")]
    pub memory: Memory,
    /// When the agent was last told where it stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anchored_ms: Option<u64>,
    /// An interrupt before this place in the transcript has had its effect.
    #[serde(default, skip_serializing_if = "is_nowhere")]
    pub heeded: u64,
    /// How subagents, teammates and tasks stood when they were last looked at, the latest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PartState>,
    /// What a person said that the agent does not know yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hints: Vec<String>,
    /// One for each requirement, the latest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waivers: Vec<Waiver>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disputes: Vec<Dispute>,
    /// Those that a person set later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Limits>,
    #[serde(default, skip_serializing_if = "Way::is_untrodden")]
    pub way: Way,
    /// Lists that did not parse at the last stops, and at how many in a row.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub garbled: Vec<Garbling>,
    #[serde(default, skip_serializing_if = "Driving::is_nothing")]
    pub driving: Driving,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartState {
    pub who: Who,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk: Option<String>,
    pub rule: PartRule,
    /// In a row: a part that was verified starts anew.
    pub holds: u32,
    pub delivery: Delivered,
    pub at_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
}

/// Whether the agent can still know what it was told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Memory {
    #[default]
    Whole,
    /// The conversation was summed up since.
    Lost,
}

impl Memory {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
    fn is_whole(&self) -> bool {
        *self == Self::Whole
    }
}

/// The stop that was answered last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answered {
    pub stop: Mark,
    pub length: Option<u64>,
    pub at_ms: u64,
    /// How often the answer was given again since.
    pub repeats: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    Active,
    Paused { since_ms: u64 },
    Orphaned,
    Ended(Status),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tampered {
    No,
    Yes,
}

impl State {
    pub fn new(run: &Run) -> Self {
        Self {
            seq: 0,
            phase: Phase::Active,
            iteration: run.first_iteration,
            started_ms: run.started_ms,
            last_seen_ms: run.started_ms,
            ran_ms: 0,
            clock_ms: run.started_ms,
            seen: Vec::new(),
            stale: 0,
            odd_stops: 0,
            delivery: None,
            answer: None,
            report: None,
            observed: None,
            process: run.process,
            trouble: None,
            tampered: Tampered::No,
            owner: None,
            declared: None,
            in_a_row: 0,
            background: None,
            memory: Memory::Whole,
            anchored_ms: None,
            heeded: run.transcript_length,
            parts: Vec::new(),
            hints: Vec::new(),
            waivers: Vec::new(),
            disputes: Vec::new(),
            limits: None,
            way: Way::default(),
            garbled: Vec::new(),
            driving: Driving::default(),
        }
    }

    /// What bounds the run now.
    pub fn limits<'a>(&'a self, run: &'a Run) -> &'a Limits {
        self.limits.as_ref().unwrap_or(&run.limits)
    }

    /// The session that the run holds, if it holds one.
    pub fn owner<'a>(&'a self, run: &'a Run) -> Option<&'a SessionId> {
        self.owner.as_ref().or(run.owner.as_ref())
    }

    /// The run and its state, from nothing but the journal. `None` when it does not begin like one.
    pub fn replay<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Option<(Run, Self)> {
        let mut entries = entries.into_iter();
        let first = entries.next()?;
        let (run, mut state) = match &first.change {
            Change::Started(run) => (run.as_ref(), Self::new(run)),
            Change::Restored(known) => (&known.run, known.state.clone()),
            Change::Decided(_)
            | Change::Trouble { .. }
            | Change::Paused
            | Change::Interrupted { .. }
            | Change::Resumed
            | Change::Cancelled
            | Change::Asked { .. }
            | Change::Waits { .. }
            | Change::Moved { .. }
            | Change::Compacted
            | Change::Anchored
            | Change::Denied { .. }
            | Change::Overridden { .. }
            | Change::Part(_)
            | Change::Told { .. }
            | Change::Waived(_)
            | Change::Insisted { .. }
            | Change::Disputed(_)
            | Change::Limited(_)
            | Change::Stepped(_)
            | Change::Recalled { .. }
            | Change::Learned { .. }
            | Change::Drove(_) => return None,
        };
        state.apply(first);
        entries.for_each(|entry| state.apply(entry));
        Some((run.clone(), state))
    }

    pub fn apply(&mut self, entry: &Entry) {
        self.seq = entry.seq.saturating_add(1);
        // An end is final, whatever was on its way when it came. Only the bill may come later.
        if let Phase::Ended(_) = self.phase {
            self.billed(&entry.change);
            return;
        }
        match Clock::of(&entry.change).filter(|_| self.driving.count > 0) {
            None => {
                self.ran_ms = self.elapsed_ms(entry.at_ms);
                self.clock_ms = entry.at_ms;
            }
            Some(Clock::StartsAgain) => self.clock_ms = entry.at_ms,
            Some(Clock::AsItIs) => {}
        }
        self.last_seen_ms = self.last_seen_ms.max(entry.at_ms);
        match &entry.change {
            Change::Started(_) | Change::Denied { .. } => {}
            Change::Restored(_) => self.tampered = Tampered::Yes,
            Change::Decided(decided) => self.decided(decided, entry.at_ms),
            Change::Trouble { class } => self.trouble = Some(class.clone()),
            Change::Paused => self.paused(entry.at_ms),
            Change::Interrupted { seen } => {
                self.heeded = *seen;
                self.paused(entry.at_ms);
            }
            Change::Asked { question } => {
                self.declared = Some(Declared::NeedsHuman(question.clone()));
            }
            Change::Waits { until_ms, why } => {
                self.declared = Some(Declared::Waiting { until_ms: *until_ms, why: why.clone() });
            }
            Change::Moved { to, how, process, seen } => {
                self.moved(to, *how, entry.at_ms);
                self.process = *process;
                self.heeded = self.heeded.max(*seen);
            }
            Change::Compacted => self.memory = Memory::Lost,
            Change::Anchored => {
                self.memory = Memory::Whole;
                self.anchored_ms = Some(entry.at_ms);
            }
            Change::Overridden { .. } => self.phase = Phase::Ended(Status::Overridden),
            Change::Part(part) => self.parted(part, entry.at_ms),
            Change::Told { text } => self.told(text),
            Change::Waived(waiver) => {
                self.waivers.retain(|known| known.requirement != waiver.requirement);
                self.waivers.push(waiver.clone());
            }
            Change::Insisted { requirement } => {
                self.waivers.retain(|known| known.requirement != *requirement);
            }
            Change::Disputed(dispute) => self.disputed(dispute),
            Change::Limited(limits) => self.limits = Some(limits.clone()),
            Change::Stepped(step) => self.stepped(step),
            Change::Recalled { .. } => self.way.recalled = self.way.recalled.saturating_add(1),
            Change::Learned { id, .. } => self.way.learned = Some(id.clone()),
            Change::Drove(drove) => self.drove(drove, entry.at_ms),
            Change::Resumed => {
                self.resumed();
                // Whoever resumes it is the owner's new process; the next stop tells which.
                self.process = None;
            }
            Change::Cancelled => self.phase = Phase::Ended(Status::Cancelled),
        }
    }

    pub fn part(&self, kind: PartKind, id: &str) -> Option<&PartState> {
        self.parts.iter().find(|part| part.who.kind == kind && part.who.id == id)
    }

    fn parted(&mut self, part: &Part, at_ms: u64) {
        if part.tampering.is_some() {
            self.tampered = Tampered::Yes;
        }
        let is_it =
            |known: &PartState| known.who.kind == part.who.kind && known.who.id == part.who.id;
        let before = self.parts.iter().position(is_it).map(|at| self.parts.remove(at).holds);
        let before = before.unwrap_or(0);
        self.parts.push(PartState {
            who: part.who.clone(),
            chunk: part.chunk.clone(),
            rule: part.rule,
            holds: match part.rule {
                PartRule::Hold => before.saturating_add(1),
                PartRule::Verified => 0,
                PartRule::Waiting | PartRule::Unmeasured | PartRule::Unknown | PartRule::Spent => {
                    before
                }
            },
            delivery: part.delivery,
            at_ms,
            answer: part.reason.clone(),
        });
        if self.parts.len() > PARTS {
            self.parts.remove(0);
        }
        for old in self.parts.iter_mut().rev().skip(ANSWERED_PARTS) {
            old.answer = None;
        }
    }

    fn paused(&mut self, at_ms: u64) {
        self.phase = Phase::Paused { since_ms: at_ms };
        self.declared = None;
    }

    fn resumed(&mut self) {
        self.phase = Phase::Active;
        self.declared = None;
        self.in_a_row = 0;
        self.driving.goes_on();
        self.starts_anew();
    }

    fn moved(&mut self, to: &SessionId, how: Move, at_ms: u64) {
        self.owner = Some(to.clone());
        // Nothing of the old transcript holds for the new one.
        self.delivery = None;
        self.in_a_row = 0;
        self.phase = match (how, self.phase) {
            (Move::Cleared, Phase::Active | Phase::Orphaned) => Phase::Paused { since_ms: at_ms },
            (Move::Reopened, Phase::Orphaned)
            | (
                Move::TakenUp | Move::Resumed | Move::HandedOver,
                Phase::Orphaned | Phase::Paused { .. },
            ) => Phase::Active,
            (_, phase) => phase,
        };
        match how {
            // What was typed and not sent is gone with the process that kept it.
            Move::Reopened => {
                if let Some(observed) = &mut self.observed {
                    observed.queued = 0;
                }
            }
            Move::Resumed => self.resumed(),
            Move::Cleared | Move::TakenUp => {
                self.observed = None;
                self.heeded = 0;
                self.memory = Memory::Lost;
            }
            // What it has to know is the first thing that it reads.
            Move::HandedOver => {
                self.observed = None;
                self.heeded = 0;
                self.answer = None;
                self.background = None;
                self.memory = Memory::Whole;
            }
        }
    }

    fn decided(&mut self, decided: &Decided, at_ms: u64) {
        if decided.tampering.is_some() {
            self.tampered = Tampered::Yes;
        }
        match &decided.outcome {
            Outcome::Repeated => {
                if let Some(answered) = &mut self.delivery {
                    answered.repeats = answered.repeats.saturating_add(1);
                }
                return;
            }
            Outcome::Allowed => self.answer = None,
            Outcome::Blocked { reason } => {
                self.iteration = self.iteration.saturating_add(1);
                self.answer = Some(reason.clone());
                // It is told everything again, and a wait that was over is over.
                self.memory = Memory::Whole;
                self.declared = None;
                self.hints.clear();
            }
            Outcome::HandedOver => {
                self.iteration = self.iteration.saturating_add(1);
                self.answer = None;
                self.declared = None;
                // What a person said is in the journal, from which the next session is told.
                self.hints.clear();
                self.driving.handing_over = Some(decided.because.clone());
            }
            Outcome::Awaited { reason } => self.answer = Some(reason.clone()),
            Outcome::Orphaned => {
                self.phase = Phase::Orphaned;
                self.answer = None;
            }
            Outcome::Ended(status) => {
                self.phase = Phase::Ended(*status);
                self.answer = None;
            }
        }
        self.in_a_row = decided.in_a_row;
        self.background = decided.background;
        self.odd_stops = self.odd_stops.saturating_add(u32::from(decided.rule == Rule::OddStop));
        self.trouble = None;
        self.progressed(decided);
        self.remember(decided.mark);
        self.remedied(decided);
        self.delivery = decided.delivery.map(|Delivered { stop, length }| Answered {
            stop,
            length,
            at_ms,
            repeats: 0,
        });
        if decided.report.is_some() {
            self.report.clone_from(&decided.report);
            self.garbling(&decided.garbled);
        }
        if decided.observed.is_some() {
            self.observed.clone_from(&decided.observed);
        }
        if decided.process.is_some() {
            self.process = decided.process;
        }
    }

    fn remember(&mut self, mark: Option<Mark>) {
        let Some(mark) = mark else { return };
        self.stale = self.staleness(Some(mark));
        if self.stale == 0 {
            self.seen.push(mark);
            if self.seen.len() > REMEMBERED {
                self.seen.remove(0);
            }
        }
    }

    /// How many stops in a row, this one included, showed nothing that had not been seen before. A set, not a
    /// comparison with the last one: a tree that alternates between two states makes no progress either.
    pub fn staleness(&self, mark: Option<Mark>) -> u32 {
        match mark {
            Some(mark) if self.seen.contains(&mark) => self.stale.saturating_add(1),
            Some(_) | None => 0,
        }
    }

    /// Whether this is the stop that was answered last, once more: it was on its way when that answer was given,
    /// or it comes for the second time and nothing was said in between. A third time is a stop like any other, so
    /// that nobody is held for ever uncounted.
    pub fn is_repeat(&self, delivery: &Delivery) -> bool {
        self.delivery.is_some_and(|answered| {
            // Without a transcript nothing else tells a second hook from a second stop, so it is taken strictly.
            let grace_ms = if delivery.length.is_some() { AT_ONCE_MS } else { 0 };
            let on_its_way = delivery.arrived_ms <= answered.at_ms.saturating_add(grace_ms);
            let same_length = delivery.length.is_some() && delivery.length == answered.length;
            let once_more = same_length && answered.repeats == 0;
            answered.stop == Mark(delivery.stop) && (on_its_way || once_more)
        })
    }
}
