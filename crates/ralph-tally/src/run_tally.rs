//! The facts of one run, folded from the lines of its journal as [`RunState`] folds them, but without keeping what only
//! a stop needs. A test of `ralph-deck` compares both.

use crate::day_tally::{self, DayAddition, DayCache, DayTally};
use crate::dispute_outcome::DisputeOutcomes;
use crate::gate_tally::GateTallies;
use crate::journal_line::{
    CostLine, JournalLine, LineChange, OutcomeLine, ProofLine, RunnerLine, StartLine, StopLine,
};
use crate::judge_tally::JudgeTallies;
use crate::question_tally::QuestionTally;
use crate::requirement_history::RequirementHistories;
use crate::spend_tally::SpendTally;
use crate::tally_clock::{TallyClockEffect, clock_effect};
use ralph_core::approval;
use ralph_core::drive::WaitCause;
use ralph_core::facts::DeclaredPause;
use ralph_core::limits::RunLimits;
use ralph_core::record::{DecisionRule, MoveReason, RestoredRun, RunOrigin};
use ralph_core::run::{RunPhase, RunState};
use ralph_core::status::RunStatus;
use serde::{Deserialize, Serialize};

const MAX_TEXT_BYTES: usize = 4000;
const MAX_WAIVERS: usize = 1000;

/// Stored with a run that has not ended, so that only the lines that follow have to be read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunTally {
    pub project: String,
    pub title: String,
    pub host: String,
    pub origin: Option<RunOrigin>,
    pub branch: Option<String>,
    pub policy_hash: Option<String>,
    pub driven: bool,
    pub limits: Option<RunLimits>,
    pub started_ms: u64,
    pub last_ms: u64,
    pub ended_ms: Option<u64>,
    pub phase: TallyPhase,
    pub parked: Option<RunStatus>,
    /// Why the last decision was made, or why the run was parked or overridden.
    pub because: String,
    pub is_held: bool,
    pub iteration: u32,
    pub ran_ms: u64,
    pub clock_ms: u64,
    pub spend: SpendTally,
    pub stops: u32,
    pub held: u32,
    pub met: u32,
    pub required: u32,
    /// The requirements that are waived now.
    pub waivers: Vec<String>,
    pub disputes: u32,
    /// The disputes and how they ended.
    pub disputed: DisputeOutcomes,
    pub questions: u32,
    pub denied: u32,
    pub accepted_by: Option<String>,
    /// Whether a person closed it after an end that waits for one.
    pub closed: bool,
    pub asked: Option<QuestionTally>,
    /// A wait that the agent declared.
    pub declared_wait_ms: Option<u64>,
    pub wait: Option<OpenWait>,
    pub last_seq: u64,
    pub lines: u64,
    /// Lines that do not parse.
    pub damaged: u64,
    pub first_damaged: Option<u64>,
    pub requirements: RequirementHistories,
    pub gates: GateTallies,
    pub judges: JudgeTallies,
    pub days: Vec<DayTally>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum TallyPhase {
    #[default]
    Active,
    Paused,
    Orphaned,
    Ended(RunStatus),
}

/// A wait of the runner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenWait {
    pub cause: WaitCause,
    pub until_ms: u64,
}

impl RunTally {
    /// Adds one line, without its line feed.
    pub fn add_line(&mut self, line: &[u8], days: &mut DayCache) {
        self.lines += 1;
        // Checking the whole line for UTF-8 at once is much faster than checking each of its many short strings.
        let text = str::from_utf8(line).ok();
        match text.and_then(JournalLine::parse) {
            Some(line) => self.apply(&line, days),
            None => self.add_damaged_line(),
        }
    }

    /// Counts a line that is too long to be read.
    pub(crate) fn add_long_line(&mut self) {
        self.lines += 1;
        self.add_damaged_line();
    }

    fn add_damaged_line(&mut self) {
        self.damaged += 1;
        self.first_damaged.get_or_insert(self.lines);
    }

    pub fn has_ended(&self) -> bool {
        matches!(self.phase, TallyPhase::Ended(_))
    }

    /// One word for the state: a final status, the status of a parked run, or what an open run is doing.
    pub fn status(&self) -> &'static str {
        match self.phase {
            TallyPhase::Ended(status) => status.name(),
            TallyPhase::Paused => self.parked.map_or("paused", RunStatus::name),
            TallyPhase::Orphaned => "orphaned",
            TallyPhase::Active if self.origin == Some(RunOrigin::Session) => {
                if self.is_held {
                    "held"
                } else {
                    "let_go"
                }
            }
            TallyPhase::Active if self.asked.is_some() => "asks",
            TallyPhase::Active if self.wait.is_some() || self.declared_wait_ms.is_some() => {
                "waiting"
            }
            TallyPhase::Active => "working",
        }
    }

    pub fn phase_name(&self) -> &'static str {
        match self.phase {
            TallyPhase::Ended(_) => "ended",
            TallyPhase::Paused if self.parked.is_some() => "parked",
            TallyPhase::Paused => "paused",
            TallyPhase::Orphaned => "orphaned",
            TallyPhase::Active => "active",
        }
    }

    fn apply(&mut self, line: &JournalLine<'_>, days: &mut DayCache) {
        self.last_seq = line.seq;
        let before = (self.spend.total(), self.stops, self.held);
        if let TallyPhase::Ended(status) = self.phase {
            self.apply_late(status, line);
        } else {
            self.advance_clock(line);
            self.last_ms = self.last_ms.max(line.at_ms);
            self.iteration = line.iteration;
            self.apply_change(line);
            if self.has_ended() {
                self.ended_ms = Some(line.at_ms);
                self.disputed.end_run(line.at_ms);
            }
        }
        let (spent, stops, held) = before;
        let total = self.spend.total();
        let add = DayAddition {
            micro_usd: total.micro_usd.saturating_sub(spent.micro_usd),
            tokens: total.tokens.saturating_sub(spent.tokens),
            stops: self.stops - stops,
            held: self.held - held,
        };
        day_tally::add_to_day(&mut self.days, days, line.at_ms, add);
    }

    /// An end is final. Only the agent's bill, a person's acceptance and a person's closing may come later.
    fn apply_late(&mut self, status: RunStatus, line: &JournalLine<'_>) {
        if let LineChange::Drove(RunnerLine::Metered(meter)) = &line.change {
            self.spend.add_reading(meter);
        } else if let LineChange::Accepted(acceptance) = &line.change
            && status.is_acceptable()
        {
            let by = bounded(acceptance.by.as_str());
            let because = std::mem::take(&mut self.because);
            let note = format!("accepted by {by}; it had ended {}: {because}", status.name());
            set_bounded(&mut self.because, &note);
            self.accepted_by = Some(by);
            self.disputed.accept(acceptance.by.as_str(), line.at_ms);
            self.phase = TallyPhase::Ended(RunStatus::Verified);
        } else if matches!(line.change, LineChange::Cancelled) {
            self.closed = true;
        }
    }

    fn advance_clock(&mut self, line: &JournalLine<'_>) {
        let effect = if self.spend.sessions == 0 {
            TallyClockEffect::Advance
        } else {
            clock_effect(&line.change)
        };
        match effect {
            TallyClockEffect::Advance => {
                if matches!(self.phase, TallyPhase::Active | TallyPhase::Orphaned) {
                    let passed = line.at_ms.saturating_sub(self.clock_ms);
                    self.ran_ms = self.ran_ms.saturating_add(passed);
                }
                self.clock_ms = line.at_ms;
            }
            TallyClockEffect::Restart => self.clock_ms = line.at_ms,
            TallyClockEffect::Unchanged => {}
        }
    }

    fn apply_change(&mut self, line: &JournalLine<'_>) {
        let at_ms = line.at_ms;
        match &line.change {
            LineChange::Started(start) => self.start(start, at_ms),
            LineChange::Restored(restored) => self.restore(restored),
            LineChange::Decided(stop) => self.add_stop(stop, at_ms),
            LineChange::Drove(runner) => self.apply_runner_event(runner, at_ms),
            LineChange::Paused => self.pause(),
            LineChange::Resumed => self.resume(),
            LineChange::Cancelled => self.end(RunStatus::Cancelled, "cancelled"),
            LineChange::Overridden(overridden) => {
                self.end(RunStatus::Overridden, overridden.how.as_str());
            }
            LineChange::Asked(asked) => self.ask(asked.question.as_str(), at_ms, None),
            LineChange::Waits(wait) => {
                self.asked = None;
                self.declared_wait_ms = Some(wait.until_ms);
            }
            LineChange::Moved(moved) => self.apply_move(moved.how),
            LineChange::Denied => self.denied = self.denied.saturating_add(1),
            LineChange::Waived(waiver) => {
                let name = waiver.requirement.as_str();
                self.revoke_waiver(name);
                if self.waivers.len() < MAX_WAIVERS {
                    self.waivers.push(bounded(name));
                }
                self.requirements.mark_waived(name, at_ms);
                self.disputed.waive(name, waiver.by.as_str(), at_ms);
            }
            LineChange::WaiverRevoked(waiver) => {
                self.revoke_waiver(waiver.requirement.as_str());
                self.disputed.revoke_waiver(waiver.requirement.as_str());
            }
            LineChange::Disputed(dispute) => {
                let name = dispute.requirement.as_str();
                self.disputes = self.disputes.saturating_add(1);
                self.requirements.mark_disputed(name, at_ms);
                self.disputed.raise(name, Some(line.seq));
            }
            LineChange::Limited(limits) => self.limits = Some(limits.clone()),
            // The runner reads the message within a second. It approves nothing.
            LineChange::HintGiven => {
                self.asked.take_if(|asked| asked.approval.is_none());
            }
            LineChange::Approved => self.clear_declared(),
            LineChange::Accepted(_) | LineChange::Other => {}
        }
    }

    fn start(&mut self, start: &StartLine<'_>, at_ms: u64) {
        let worktree = start.drive.as_ref().and_then(|drive| drive.worktree.as_ref());
        let project = worktree.map_or(&start.project, |worktree| &worktree.from);
        self.project = bounded(project.as_str());
        self.branch = worktree.map(|worktree| bounded(worktree.branch.as_str()));
        self.title = bounded(start.title.as_str());
        self.host = bounded(start.host.as_ref().map_or("claude", |host| host.as_str()));
        self.origin = Some(start.origin);
        self.policy_hash = start.seal.as_ref().map(|seal| bounded(seal.hash.as_str()));
        self.driven = start.drive.is_some();
        self.limits = Some(start.limits.clone());
        self.started_ms = start.started_ms;
        self.last_ms = start.started_ms.max(at_ms);
        self.ran_ms = at_ms.saturating_sub(start.started_ms);
        self.clock_ms = at_ms;
    }

    /// Continues with what was known when a lost journal was replaced.
    fn restore(&mut self, RestoredRun { run, state }: &RestoredRun) {
        let worktree = run.worktree();
        let project = worktree.map_or(&run.project, |worktree| &worktree.from);
        self.project = bounded(project);
        self.branch = worktree.map(|worktree| bounded(&worktree.branch));
        self.title = bounded(&run.title);
        self.host = bounded(run.host.as_str());
        self.origin = Some(run.origin);
        self.policy_hash = run.seal.as_ref().map(|seal| bounded(&seal.hash));
        self.driven = run.drive.is_some();
        self.started_ms = run.started_ms;
        self.limits = Some(state.limits(run).clone());
        self.restore_state(state);
    }

    fn restore_state(&mut self, state: &RunState) {
        self.phase = match state.phase {
            RunPhase::Active => TallyPhase::Active,
            RunPhase::Paused { .. } => TallyPhase::Paused,
            RunPhase::Orphaned => TallyPhase::Orphaned,
            RunPhase::Ended(status) => TallyPhase::Ended(status),
        };
        self.parked = state.driving.parked.as_ref().map(|parked| parked.status);
        self.last_ms = self.last_ms.max(state.last_seen_ms);
        // The line's own effect on the clock was applied to an empty tally.
        let passed = self.clock_ms.saturating_sub(state.clock_ms);
        let is_running = matches!(state.phase, RunPhase::Active | RunPhase::Orphaned);
        self.ran_ms = state.ran_ms.saturating_add(if is_running { passed } else { 0 });
        self.spend = SpendTally::from_state(state);
        self.set_report(state.report.as_ref().map(|report| (report.total, report.open_count())));
        self.is_held = state.answer.is_some();
        self.waivers = state.waivers.iter().map(|waiver| bounded(&waiver.requirement)).collect();
        self.disputes = u32::try_from(state.disputes.len()).unwrap_or(u32::MAX);
        self.disputed.restore(state, self.clock_ms);
        match &state.declared {
            Some(DeclaredPause::NeedsHuman(question)) => self.ask(question, self.clock_ms, None),
            Some(DeclaredPause::Approval(question)) => {
                let name = approval::first_awaited_name(state.report.as_ref());
                self.ask(question, self.clock_ms, Some(bounded(&name)));
            }
            Some(DeclaredPause::Waiting { until_ms, .. }) => {
                self.declared_wait_ms = Some(*until_ms);
            }
            None => {}
        }
        let wait = state.driving.wait.as_ref();
        self.wait = wait.map(|wait| OpenWait { cause: wait.cause, until_ms: wait.until_ms });
        self.accepted_by = state.accepted.as_ref().map(|accepted| bounded(&accepted.by));
    }

    fn add_stop(&mut self, stop: &StopLine<'_>, at_ms: u64) {
        let is_for_person = stop.rule.as_str() == DecisionRule::NeedsHuman.name();
        match &stop.outcome {
            OutcomeLine::Repeated => return,
            OutcomeLine::Allowed => {
                self.is_held = false;
                if let Some(report) = stop.report.as_ref().filter(|_| is_for_person) {
                    let waits = report.lines.iter().find(|line| line.awaits_person());
                    let name = waits.map_or("", |line| approval::approval_name(line.name.as_str()));
                    self.ask(stop.because.as_str(), at_ms, Some(bounded(name)));
                }
            }
            OutcomeLine::Blocked(_) => {
                self.is_held = true;
                self.held = self.held.saturating_add(1);
                self.clear_declared();
            }
            OutcomeLine::HandedOver => {
                self.is_held = false;
                self.held = self.held.saturating_add(1);
                self.clear_declared();
            }
            OutcomeLine::Awaited(_) => self.is_held = true,
            OutcomeLine::Orphaned => {
                self.is_held = false;
                self.phase = TallyPhase::Orphaned;
            }
            OutcomeLine::Ended(status) => {
                self.is_held = false;
                self.phase = TallyPhase::Ended(*status);
            }
        }
        self.stops = self.stops.saturating_add(1);
        set_bounded(&mut self.because, stop.because.as_str());
        if let Some(report) = &stop.report {
            let open = report.unmet.saturating_add(report.unknown).saturating_add(report.pending);
            self.set_report(Some((report.total, open)));
            self.requirements.add_report(report, &stop.outcome, at_ms);
            if stop.proof.as_ref().is_some_and(ProofLine::holds) {
                self.requirements.mark_proved(report, at_ms);
            }
            let is_met = |name: &str| report.met.iter().any(|met| met.as_str() == name);
            self.disputed.mark_met(is_met, at_ms);
        }
        for gate in &stop.gates {
            self.gates.add(gate);
        }
        for judge in &stop.judges {
            self.judges.add(judge);
        }
        if let Some(spent) = stop.judge_spending {
            self.spend.set_judges(spent);
        }
        if let Some(CostLine { estimated_micro_usd, reported_micro_usd, unpriced }) = &stop.cost {
            let is_priced = unpriced.is_empty();
            self.spend.merge_cost(*estimated_micro_usd, *reported_micro_usd, is_priced);
        }
    }

    fn set_report(&mut self, counts: Option<(u32, u32)>) {
        if let Some((total, open)) = counts {
            (self.required, self.met) = (total, total.saturating_sub(open));
        }
    }

    fn apply_runner_event(&mut self, event: &RunnerLine<'_>, at_ms: u64) {
        match event {
            RunnerLine::Session(session) => {
                self.spend.begin_session(session.id.as_str());
                self.parked = None;
                self.asked = None;
            }
            RunnerLine::Metered(meter) => self.spend.add_reading(meter),
            RunnerLine::Waits(wait) => {
                self.wait = Some(OpenWait { cause: wait.cause, until_ms: wait.until_ms });
            }
            RunnerLine::Woke => {
                if let Some(wait) = self.wait.take()
                    && wait.cause == WaitCause::Declared
                {
                    self.declared_wait_ms = None;
                }
            }
            RunnerLine::WaitedEnough => self.clear_declared(),
            RunnerLine::AsksPerson(asked) => {
                self.ask_again(asked.question.as_str(), at_ms, asked.until_ms);
            }
            RunnerLine::PassedOn => self.asked = None,
            RunnerLine::Parked(parked) => {
                self.parked = Some(parked.status);
                // The question stays open, but no runner waits for the answer.
                if let Some(asked) = &mut self.asked {
                    asked.until_ms = None;
                }
                self.phase = TallyPhase::Paused;
                set_bounded(&mut self.because, parked.why.as_str());
            }
            RunnerLine::Granted | RunnerLine::Other => {}
        }
    }

    fn clear_declared(&mut self) {
        self.asked = None;
        self.declared_wait_ms = None;
    }

    fn pause(&mut self) {
        self.phase = TallyPhase::Paused;
        self.clear_declared();
    }

    fn resume(&mut self) {
        self.phase = TallyPhase::Active;
        self.parked = None;
        self.clear_declared();
    }

    fn end(&mut self, status: RunStatus, because: &str) {
        self.phase = TallyPhase::Ended(status);
        set_bounded(&mut self.because, because);
    }

    fn apply_move(&mut self, how: MoveReason) {
        self.phase = match (how, self.phase) {
            (MoveReason::Cleared, TallyPhase::Active | TallyPhase::Orphaned) => TallyPhase::Paused,
            (MoveReason::Reopened, TallyPhase::Orphaned)
            | (
                MoveReason::TakenUp | MoveReason::Resumed | MoveReason::HandedOver,
                TallyPhase::Orphaned | TallyPhase::Paused,
            ) => TallyPhase::Active,
            (_, phase) => phase,
        };
        match how {
            MoveReason::Resumed => self.resume(),
            MoveReason::HandedOver => self.is_held = false,
            MoveReason::Cleared | MoveReason::TakenUp | MoveReason::Reopened => {}
        }
    }

    fn revoke_waiver(&mut self, name: &str) {
        let name = bounded(name);
        self.waivers.retain(|known| *known != name);
    }
}

pub(crate) fn bounded(text: &str) -> String {
    let mut kept = String::new();
    set_bounded(&mut kept, text);
    kept
}

/// Replaces `kept` without a new allocation where possible.
fn set_bounded(kept: &mut String, text: &str) {
    kept.clear();
    kept.push_str(&text[..text.floor_char_boundary(MAX_TEXT_BYTES)]);
}
