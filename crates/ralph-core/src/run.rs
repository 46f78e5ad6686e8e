//! The mutable state of a run, computed by folding its journal and from nothing else.

mod driven;
mod said;
mod time;

use crate::facts::{Declared, Delivery};
use crate::id::SessionId;
use crate::limits::Limits;
use crate::mark::Mark;
use crate::record::{
    Change, Decided, Delivered, Dispute, Entry, Move, Observed, Outcome, Part, PartKind, PartRule,
    Process, Report, Rule, Run, Waiver, Who,
};
use crate::serde_skip::is_nowhere;
use crate::serde_skip::is_zero;
use crate::status::Status;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};
use time::Clock;

pub use driven::{Driven, Driving, Flat, Parked, Spent, Wrong};
pub use said::{Garbling, Way};

/// A host that calls two hooks for one stop starts them within this time. No model answers that fast.
pub(crate) const AT_ONCE_MS: u64 = 30;

/// How many different (tree, failures) digests a run remembers.
const REMEMBERED: usize = 4096;

/// How many of the most recent subagents, teammates and tasks it remembers.
const PARTS: usize = 200;

/// For how many of them the reason is kept, to answer a second delivery of the same stop.
const ANSWERED_PARTS: usize = 8;

/// The serialised form is hashed into the journal, so the order and names of the fields must not change. A field that
/// was added later is left out while it has its default, so that a state written by an older ralph keeps its hash.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// Entries applied so far.
    pub seq: u64,
    pub phase: Phase,
    /// Charged blocks. Ralph counts them itself; no counter of the host ever changes it.
    pub iteration: u32,
    pub started_ms: u64,
    pub last_seen_ms: u64,
    /// Active time up to `clock_ms`, without pauses. A system clock that is set back neither reduces nor extends it.
    pub ran_ms: u64,
    /// The system time of the last entry.
    pub clock_ms: u64,
    /// Digest of every (tree, failures) pair a stop was held at, oldest first.
    pub seen: Vec<Mark>,
    /// How many stops in a row were in a state seen before.
    pub stale: u32,
    /// Stops that were allowed because this version did not know their stop reason.
    pub odd_stops: u32,
    pub delivery: Option<Answered>,
    /// The reason of the last answer; `None` if that stop was allowed.
    pub answer: Option<String>,
    pub report: Option<Report>,
    pub observed: Option<Observed>,
    pub process: Option<Process>,
    pub trouble: Option<String>,
    /// Whether ralph's own files were edited. Once set, the run cannot end `verified`.
    pub tampered: Tampered,
    /// The session that owns the run since it moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<SessionId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declared: Option<Declared>,
    /// Blocks since the agent's last tool call. The host counts these too.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub in_a_row: u32,
    /// Digest of the background work that was running at the last stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub background: Option<Mark>,
    #[serde(default, skip_serializing_if = "Memory::is_whole")]
    pub memory: Memory,
    /// When the agent last got a reminder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anchored_ms: Option<u64>,
    /// Interrupts before this offset of the transcript have already taken effect.
    #[serde(default, skip_serializing_if = "is_nowhere")]
    pub heeded: u64,
    /// Subagents, teammates and tasks after their last stop, most recent last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PartState>,
    /// Messages from a person that the agent has not seen yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hints: Vec<String>,
    /// The latest waiver of each requirement.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waivers: Vec<Waiver>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disputes: Vec<Dispute>,
    /// Limits that a person set after the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Limits>,
    #[serde(default, skip_serializing_if = "Way::is_untrodden")]
    pub way: Way,
    /// Lists that did not parse at the last stop, and for how many stops in a row.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub garbled: Vec<Garbling>,
    #[serde(default, skip_serializing_if = "Driving::is_nothing")]
    pub driving: Driving,
}

/// A subagent, teammate or task after its last stop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartState {
    pub who: Who,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk: Option<String>,
    pub rule: PartRule,
    /// Holds in a row. Reset when the part is verified.
    pub holds: u32,
    pub delivery: Delivered,
    pub at_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
}

/// Whether the agent still has the earlier reasons in its context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Memory {
    #[default]
    Whole,
    /// The conversation was compacted since.
    Lost,
}

impl Memory {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires this signature")]
    fn is_whole(&self) -> bool {
        *self == Self::Whole
    }
}

/// The last stop that was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answered {
    pub stop: Mark,
    pub length: Option<u64>,
    pub at_ms: u64,
    /// How often the answer was repeated since.
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

    /// The limits in force.
    pub fn limits<'a>(&'a self, run: &'a Run) -> &'a Limits {
        self.limits.as_ref().unwrap_or(&run.limits)
    }

    /// The session that the run holds, if any.
    pub fn owner<'a>(&'a self, run: &'a Run) -> Option<&'a SessionId> {
        self.owner.as_ref().or(run.owner.as_ref())
    }

    /// Rebuilds the run and its state from the journal. `None` if the first entry is not one a journal starts with.
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
        // An end is final, even for entries that were being written at the time. Only the agent's bill may come later.
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
                // It may be resumed from a new process of the owner. The next stop records which one.
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
        // What was read from the old transcript does not apply to the new one.
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
            // Queued input was lost with the process that kept it.
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
            // The fresh session starts with a hand-over text that contains everything.
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
                // The reason repeats what the agent may have lost, and ends a declared wait.
                self.memory = Memory::Whole;
                self.declared = None;
                self.hints.clear();
            }
            Outcome::HandedOver => {
                self.iteration = self.iteration.saturating_add(1);
                self.answer = None;
                self.declared = None;
                // The hand-over text takes the hints from the journal.
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

    /// How many stops in a row, including this one, were in a state seen before. It is checked against all earlier
    /// states and not only the last one, because a tree that alternates between two states makes no progress either.
    pub fn staleness(&self, mark: Option<Mark>) -> u32 {
        match mark {
            Some(mark) if self.seen.contains(&mark) => self.stale.saturating_add(1),
            Some(_) | None => 0,
        }
    }

    /// Whether this is another delivery of the stop that was answered last: either it was already under way when that
    /// answer was given, or it is the second delivery and the transcript has not grown since. A third delivery counts
    /// as a new stop, so that an agent cannot be held forever without being charged.
    pub fn is_repeat(&self, delivery: &Delivery) -> bool {
        self.delivery.is_some_and(|answered| {
            // Without a transcript, a second hook cannot be distinguished from a second stop, so there is no grace.
            let grace_ms = if delivery.length.is_some() { AT_ONCE_MS } else { 0 };
            let on_its_way = delivery.arrived_ms <= answered.at_ms.saturating_add(grace_ms);
            let same_length = delivery.length.is_some() && delivery.length == answered.length;
            let once_more = same_length && answered.repeats == 0;
            answered.stop == Mark(delivery.stop) && (on_its_way || once_more)
        })
    }
}
