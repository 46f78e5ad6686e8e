//! The mutable state of a run, computed by folding its journal and from nothing else.

mod acceptance;
mod adjustments;
mod agent_memory;
mod drive_state;
mod judge_state;
mod part_state;
mod run_clock;

use crate::approval::PersonApproval;
use crate::digest64::Digest64;
use crate::facts::{DeclaredPause, StopDelivery};
use crate::id::SessionId;
use crate::limits::RunLimits;
use crate::record::{
    Acceptance, CostReading, DecisionRule, DeliveryId, Dispute, JournalEntry, MoveReason,
    ProcessIdentity, RunChange, RunRecord, StopOutcome, StopRecord, StopReport, TranscriptReading,
    Waiver,
};
use crate::serde_skip::{is_false, is_zero, is_zero_offset};
use crate::status::RunStatus;
use crate::yes_no;
use alloc::string::String;
use alloc::vec::Vec;
use run_clock::ClockEffect;
use serde::{Deserialize, Serialize};

pub use adjustments::{OrchestratorProgress, UnparsableList};
pub use agent_memory::AgentMemory;
pub use drive_state::{
    AssumedSpending, DriveState, DrivenSession, FailureScore, ParkedRun, Plateau, Spending,
};
pub use judge_state::{JudgeState, LastVerdict};
pub use part_state::PartState;

/// A host that calls two hooks for one stop starts them within this time. No model answers that fast.
pub(crate) const DUPLICATE_GRACE_MS: u64 = 30;

/// How many different (tree, failures) digests a run remembers.
const MAX_SEEN: usize = 4096;

/// The serialised form is hashed into the journal, so the order and names of the fields must not change. A field that
/// was added later is left out while it has its default, so that a state written by an older ralph keeps its hash.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunState {
    /// Entries applied so far.
    pub seq: u64,
    pub phase: RunPhase,
    /// Charged blocks. Ralph counts them itself; no counter of the host ever changes it.
    pub iteration: u32,
    pub started_ms: u64,
    pub last_seen_ms: u64,
    /// Active time up to `clock_ms`, without pauses. A system clock that is set back neither reduces nor extends it.
    pub ran_ms: u64,
    /// The system time of the last entry.
    pub clock_ms: u64,
    /// Digest of every (tree, failures) pair a stop was held at, oldest first.
    pub seen: Vec<Digest64>,
    /// How many stops in a row were in a state seen before.
    pub stale: u32,
    /// Stops that were allowed because this version did not know their stop reason.
    pub odd_stops: u32,
    pub delivery: Option<AnsweredStop>,
    /// The reason of the last answer; `None` if that stop was allowed.
    pub answer: Option<String>,
    pub report: Option<StopReport>,
    pub observed: Option<TranscriptReading>,
    pub process: Option<ProcessIdentity>,
    pub trouble: Option<String>,
    /// Whether ralph's own files were edited. Once set, the run cannot end `verified`.
    #[serde(with = "yes_no")]
    pub tampered: bool,
    /// The session that owns the run since it moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<SessionId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declared: Option<DeclaredPause>,
    /// Blocks since the agent's last tool call. The host counts these too.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub in_a_row: u32,
    /// Digest of the background work that was running at the last stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub background: Option<Digest64>,
    #[serde(default, skip_serializing_if = "AgentMemory::is_whole")]
    pub memory: AgentMemory,
    /// When the agent last got a reminder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anchored_ms: Option<u64>,
    /// Interrupts before this offset of the transcript have already taken effect.
    #[serde(default, skip_serializing_if = "is_zero_offset")]
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
    pub limits: Option<RunLimits>,
    #[serde(default, skip_serializing_if = "OrchestratorProgress::is_default")]
    pub way: OrchestratorProgress,
    /// Lists that did not parse at the last stop, and for how many stops in a row.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub garbled: Vec<UnparsableList>,
    #[serde(default, skip_serializing_if = "DriveState::is_default")]
    pub driving: DriveState,
    /// Set once a person accepted the work. The phase is then `verified`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted: Option<Acceptance>,
    /// Whether the agent was held once because the proof was not `verified`.
    #[serde(default, skip_serializing_if = "is_false")]
    pub held_for_proof: bool,
    /// What the session has cost since the run began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<CostReading>,
    /// When it moved to the session that owns it. Whatever that session cost before is not the run's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "JudgeState::is_default")]
    pub judges: JudgeState,
    /// What a person approved, by the name of the requirement.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvals: Vec<PersonApproval>,
    /// The tree of the last stop that was held only because results were pending; `None` once there is a result.
    #[serde(default, rename = "awaited", skip_serializing_if = "Option::is_none")]
    pub awaited_tree: Option<Digest64>,
    /// When the last stop was answered, if nothing identifies it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_ms: Option<u64>,
}

/// The last stop that was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnsweredStop {
    pub stop: Digest64,
    pub length: Option<u64>,
    pub at_ms: u64,
    /// How often the answer was repeated since.
    pub repeats: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunPhase {
    Active,
    Paused { since_ms: u64 },
    Orphaned,
    Ended(RunStatus),
}

impl RunState {
    pub fn new(run: &RunRecord) -> Self {
        Self {
            seq: 0,
            phase: RunPhase::Active,
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
            tampered: false,
            owner: None,
            declared: None,
            in_a_row: 0,
            background: None,
            memory: AgentMemory::Whole,
            anchored_ms: None,
            heeded: run.transcript_length,
            parts: Vec::new(),
            hints: Vec::new(),
            waivers: Vec::new(),
            disputes: Vec::new(),
            limits: None,
            way: OrchestratorProgress::default(),
            garbled: Vec::new(),
            driving: DriveState::default(),
            accepted: None,
            held_for_proof: false,
            cost: None,
            moved_ms: None,
            judges: JudgeState::default(),
            approvals: Vec::new(),
            awaited_tree: None,
            answered_ms: None,
        }
    }

    /// The limits in force.
    pub fn limits<'a>(&'a self, run: &'a RunRecord) -> &'a RunLimits {
        self.limits.as_ref().unwrap_or(&run.limits)
    }

    /// Why the run's limit on the cost does not work, or not for everything. A runner has the cost from its client.
    pub fn cost_limit_gap(&self, run: &RunRecord) -> Option<String> {
        let most = self.limits(run).max_cost_micro_usd.filter(|_| run.drive.is_none())?;
        self.cost.as_ref()?.limit_gap(most)
    }

    /// The session that the run holds, if any.
    pub fn owner<'a>(&'a self, run: &'a RunRecord) -> Option<&'a SessionId> {
        self.owner.as_ref().or(run.owner.as_ref())
    }

    /// Rebuilds the run and its state from the journal. `None` if the first entry is not one a journal starts with.
    pub fn replay<'a>(
        entries: impl IntoIterator<Item = &'a JournalEntry>,
    ) -> Option<(RunRecord, Self)> {
        let mut entries = entries.into_iter();
        let first = entries.next()?;
        let (run, mut state) = match &first.change {
            RunChange::Started(run) => (run.as_ref(), Self::new(run)),
            RunChange::Restored(known) => (&known.run, known.state.clone()),
            RunChange::Decided(_)
            | RunChange::Trouble { .. }
            | RunChange::Paused
            | RunChange::Interrupted { .. }
            | RunChange::Resumed
            | RunChange::Cancelled
            | RunChange::Asked { .. }
            | RunChange::Waits { .. }
            | RunChange::Moved { .. }
            | RunChange::Compacted
            | RunChange::Anchored
            | RunChange::Denied { .. }
            | RunChange::Overridden { .. }
            | RunChange::Part(_)
            | RunChange::HintGiven { .. }
            | RunChange::Waived(_)
            | RunChange::WaiverRevoked { .. }
            | RunChange::Disputed(_)
            | RunChange::Limited(_)
            | RunChange::Stepped(_)
            | RunChange::Recalled { .. }
            | RunChange::Learned { .. }
            | RunChange::Drove(_)
            | RunChange::Approved(_)
            | RunChange::Accepted(_) => return None,
        };
        state.apply(first);
        entries.for_each(|entry| state.apply(entry));
        Some((run.clone(), state))
    }

    pub fn apply(&mut self, entry: &JournalEntry) {
        self.seq = entry.seq.saturating_add(1);
        // An end is final, even for entries that were being written at the time. Only the agent's bill and a person's
        // acceptance may come later. A cancellation after it closes the run (`closed_run`), which changes no state.
        if let RunPhase::Ended(status) = self.phase {
            self.apply_late_bill(&entry.change);
            self.apply_acceptance(status, &entry.change);
            return;
        }
        match ClockEffect::of_change(&entry.change).filter(|_| self.driving.count > 0) {
            None => {
                self.ran_ms = self.elapsed_ms(entry.at_ms);
                self.clock_ms = entry.at_ms;
            }
            Some(ClockEffect::Restart) => self.clock_ms = entry.at_ms,
            Some(ClockEffect::Unchanged) => {}
        }
        self.last_seen_ms = self.last_seen_ms.max(entry.at_ms);
        match &entry.change {
            RunChange::Started(_) | RunChange::Denied { .. } | RunChange::Accepted(_) => {}
            RunChange::Restored(_) => self.tampered = true,
            RunChange::Decided(decided) => self.apply_decision(decided, entry.at_ms),
            RunChange::Trouble { class } => self.trouble = Some(class.clone()),
            RunChange::Paused => self.pause(entry.at_ms),
            RunChange::Interrupted { seen } => {
                self.heeded = *seen;
                self.pause(entry.at_ms);
            }
            RunChange::Asked { question } => {
                self.declared = Some(DeclaredPause::NeedsHuman(question.clone()));
            }
            RunChange::Waits { until_ms, why } => {
                self.declared =
                    Some(DeclaredPause::Waiting { until_ms: *until_ms, why: why.clone() });
            }
            RunChange::Moved { to, how, process, seen } => {
                self.apply_move(to, *how, entry.at_ms);
                // Format 1 had no such field, and its states must keep their hashes.
                if entry.v >= 2 && *how != MoveReason::Reopened {
                    self.moved_ms = Some(entry.at_ms);
                }
                self.process = *process;
                self.heeded = self.heeded.max(*seen);
            }
            RunChange::Compacted => self.memory = AgentMemory::Lost,
            RunChange::Anchored => {
                self.memory = AgentMemory::Whole;
                self.anchored_ms = Some(entry.at_ms);
            }
            RunChange::Overridden { .. } => self.phase = RunPhase::Ended(RunStatus::Overridden),
            RunChange::Part(part) => self.apply_part(part, entry.at_ms),
            RunChange::HintGiven { text, .. } => self.add_hint(text),
            RunChange::Waived(waiver) => {
                self.waivers.retain(|known| known.requirement != waiver.requirement);
                self.waivers.push(waiver.clone());
            }
            RunChange::WaiverRevoked { requirement } => {
                self.waivers.retain(|known| known.requirement != *requirement);
            }
            RunChange::Disputed(dispute) => self.add_dispute(dispute),
            RunChange::Approved(approval) => self.add_approval(approval),
            RunChange::Limited(limits) => self.limits = Some(limits.clone()),
            RunChange::Stepped(step) => self.apply_step(step),
            RunChange::Recalled { .. } => self.way.recalled = self.way.recalled.saturating_add(1),
            RunChange::Learned { id, .. } => self.way.learned = Some(id.clone()),
            RunChange::Drove(drove) => self.apply_runner_event(drove, entry.at_ms),
            RunChange::Resumed => {
                self.resume();
                // It may be resumed from a new process of the owner. The next stop records which one.
                self.process = None;
            }
            RunChange::Cancelled => self.phase = RunPhase::Ended(RunStatus::Cancelled),
        }
    }

    fn pause(&mut self, at_ms: u64) {
        self.phase = RunPhase::Paused { since_ms: at_ms };
        self.declared = None;
    }

    fn resume(&mut self) {
        self.phase = RunPhase::Active;
        self.declared = None;
        self.in_a_row = 0;
        self.driving.unpark();
        self.reset_progress();
    }

    fn apply_move(&mut self, to: &SessionId, how: MoveReason, at_ms: u64) {
        self.owner = Some(to.clone());
        // What was read from the old transcript does not apply to the new one.
        self.delivery = None;
        self.in_a_row = 0;
        self.phase = match (how, self.phase) {
            (MoveReason::Cleared, RunPhase::Active | RunPhase::Orphaned) => {
                RunPhase::Paused { since_ms: at_ms }
            }
            (MoveReason::Reopened, RunPhase::Orphaned)
            | (
                MoveReason::TakenUp | MoveReason::Resumed | MoveReason::HandedOver,
                RunPhase::Orphaned | RunPhase::Paused { .. },
            ) => RunPhase::Active,
            (_, phase) => phase,
        };
        match how {
            // Queued input was lost with the process that kept it.
            MoveReason::Reopened => {
                if let Some(observed) = &mut self.observed {
                    observed.queued = 0;
                }
            }
            MoveReason::Resumed => self.resume(),
            MoveReason::Cleared | MoveReason::TakenUp => {
                self.observed = None;
                self.heeded = 0;
                self.memory = AgentMemory::Lost;
            }
            // The fresh session starts with a hand-over text that contains everything.
            MoveReason::HandedOver => {
                self.observed = None;
                self.heeded = 0;
                self.answer = None;
                self.background = None;
                self.memory = AgentMemory::Whole;
            }
        }
    }

    fn apply_decision(&mut self, decided: &StopRecord, at_ms: u64) {
        if decided.tampering.is_some() {
            self.tampered = true;
        }
        match &decided.outcome {
            StopOutcome::Repeated => {
                if let Some(answered) = &mut self.delivery {
                    answered.repeats = answered.repeats.saturating_add(1);
                }
                return;
            }
            StopOutcome::Allowed => {
                self.answer = None;
                // Shown as a question until the person approves, or the agent works on.
                if decided.awaits_approval() {
                    self.declared = Some(DeclaredPause::Approval(decided.because.clone()));
                }
            }
            StopOutcome::Blocked { reason } => {
                self.iteration = self.iteration.saturating_add(1);
                self.answer = Some(reason.clone());
                // The reason repeats what the agent may have lost, and ends a declared wait.
                self.memory = AgentMemory::Whole;
                self.declared = None;
                self.hints.clear();
            }
            StopOutcome::HandedOver => {
                self.iteration = self.iteration.saturating_add(1);
                self.answer = None;
                self.declared = None;
                // The hand-over text takes the hints from the journal.
                self.hints.clear();
                self.driving.handing_over = Some(decided.because.clone());
            }
            StopOutcome::Awaited { reason } => self.answer = Some(reason.clone()),
            StopOutcome::Orphaned => {
                self.phase = RunPhase::Orphaned;
                self.answer = None;
            }
            StopOutcome::Ended(status) => {
                self.phase = RunPhase::Ended(*status);
                self.answer = None;
            }
        }
        self.held_for_proof |= decided.is_held_for_proof();
        self.in_a_row = decided.in_a_row;
        self.background = decided.background;
        self.answered_ms = decided.arrived_ms.map(|_| at_ms);
        self.odd_stops =
            self.odd_stops.saturating_add(u32::from(decided.rule == DecisionRule::OddStop));
        self.trouble = None;
        self.track_progress(decided);
        self.remember_digest(decided.mark);
        self.apply_remedy(decided);
        self.delivery = decided.delivery.map(|DeliveryId { stop, length }| AnsweredStop {
            stop,
            length,
            at_ms,
            repeats: 0,
        });
        if decided.report.is_some() {
            self.report.clone_from(&decided.report);
            self.awaited_tree = decided.awaited_tree;
            self.count_unparsable_lists(&decided.garbled);
        }
        self.judges.apply_stop(decided);
        self.apply_observations(decided);
    }

    fn apply_observations(&mut self, decided: &StopRecord) {
        if decided.observed.is_some() {
            self.observed.clone_from(&decided.observed);
        }
        if let Some(cost) = &decided.cost {
            self.cost.get_or_insert_default().merge(cost);
        }
        self.process = decided.process.or(self.process);
    }

    fn remember_digest(&mut self, mark: Option<Digest64>) {
        let Some(mark) = mark else { return };
        self.stale = self.staleness(Some(mark));
        if self.stale == 0 {
            self.seen.push(mark);
            if self.seen.len() > MAX_SEEN {
                self.seen.remove(0);
            }
        }
    }

    /// How many stops in a row, including this one, were in a state seen before. It is checked against all earlier
    /// states and not only the last one, because a tree that alternates between two states makes no progress either.
    pub fn staleness(&self, mark: Option<Digest64>) -> u32 {
        match mark {
            Some(mark) if self.seen.contains(&mark) => self.stale.saturating_add(1),
            Some(_) | None => 0,
        }
    }

    /// Whether this is another delivery of the stop that was answered last: either it was already under way when that
    /// answer was given, or it is the second delivery and the transcript has not grown since. A third delivery counts
    /// as a new stop, so that an agent cannot be held forever without being charged.
    pub fn is_repeat(&self, delivery: &StopDelivery) -> bool {
        self.delivery.is_some_and(|answered| {
            // Without a transcript, a second hook cannot be distinguished from a second stop, so there is no grace.
            let grace_ms = if delivery.length.is_some() { DUPLICATE_GRACE_MS } else { 0 };
            let on_its_way = delivery.arrived_ms <= answered.at_ms.saturating_add(grace_ms);
            let same_length = delivery.length.is_some() && delivery.length == answered.length;
            let once_more = same_length && answered.repeats == 0;
            answered.stop == Digest64(delivery.stop) && (on_its_way || once_more)
        })
    }
}
