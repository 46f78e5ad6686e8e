//! Start of the loop: with a new run, or where a previous runner stopped or died.

use super::{DriveError, NextStep, RunLoop};
use crate::meter;
use crate::run_context::HintDelivery;
use crate::run_event::RunEvent;
use crate::session_prompts;
use ralph_core::drive::{CostSource, MeterBasis, MeterReading, RunnerEvent};
use ralph_core::facts::{DeclaredPause, StopDriver};
use ralph_core::id::SessionId;
use ralph_core::record::{DecisionRule, JournalEntry, RunChange, RunRecord, StopOutcome};
use ralph_core::run::{RunPhase, RunState};
use ralph_core::status::RunStatus;
use ralph_core::text;
use ralph_core::units;
use ralph_home::goal_file;
use ralph_home::store::LoadedRun;
use ralph_hook::{contract, project_memory, reminder, runner};
use ralph_sys::clock::Deadline;
use ralph_sys::proc::line_process;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// How long a new run waits for the results of its checks at the base, before the agent starts.
const BASE_CHECKS_TIMEOUT: Duration = Duration::from_secs(5);

/// What the previous runner was about to do, derived from the journal.
#[derive(Debug, PartialEq, Eq)]
enum RunResumePoint {
    /// The agent was working, or a message had been sent to it.
    AgentWorking,
    /// The work was about to be verified after the agent's exit.
    Verifying,
    HandingOver(String),
    Waiting,
}

impl RunLoop<'_, '_> {
    pub(super) fn begin(&mut self, notes: &[String]) -> Result<NextStep, DriveError> {
        let LoadedRun { run, state, .. } = self.ctx.load()?;
        let gates = run.seal.iter().flat_map(|seal| &seal.policy.gates);
        self.ctx.emit(&RunEvent::Prepared {
            run: run.id.clone(),
            title: run.title.clone(),
            project: PathBuf::from(&run.project),
            gates: gates.map(|gate| text::clean_line(&gate.name, 80)).collect(),
            notes: notes.to_vec(),
        });
        self.note_passing_checks(&run, &state);
        self.session.clone_from(&run.owner);
        if let RunPhase::Ended(status) = state.phase {
            return Err(DriveError::HasEnded { run: run.id, status });
        }
        let entries = self.ctx.entries()?;
        if state.driving.count > 0 || state.phase != RunPhase::Active {
            // Must be the first entry: the time without a runner does not count towards the run.
            let world = self.ctx.world(StopDriver::RunnerAlone, None);
            runner::resume_run(&world, &run.id)?;
        }
        let next = match state.driving.count {
            0 => NextStep::First(self.first_prompt()?),
            _ => self.resume(&state, &entries)?,
        };
        self.ctx.emit_progress(None)?;
        if let Some(most) = self.ctx.settings.day_micro_usd
            && self.ctx.spent_today()?.is_some_and(|spent| spent >= most)
        {
            let why = format!("today's budget of {} is spent", units::format_usd(most));
            return Ok(NextStep::Park(RunStatus::Exhausted, why));
        }
        Ok(next)
    }

    /// Says which checks of the run's lists measure nothing, if that is known soon. Otherwise the first stop says it.
    fn note_passing_checks(&mut self, run: &RunRecord, state: &RunState) {
        if state.driving.count > 0 {
            return;
        }
        let until = Deadline::after(BASE_CHECKS_TIMEOUT);
        let results = contract::await_base_checks(self.ctx.home, run, &until);
        if let Some(note) = results.and_then(|results| results.describe()) {
            self.ctx.note(&note);
        }
    }

    /// Resumes the run. Leftover processes of the last agent are killed first: two agents in one work tree would undo
    /// each other's work.
    fn resume(
        &mut self,
        state: &RunState,
        entries: &[JournalEntry],
    ) -> Result<NextStep, DriveError> {
        if let Some(mark) =
            state.driving.latest_session().and_then(|driven| driven.session.mark.as_ref())
        {
            line_process::kill_marked_processes(mark);
        }
        if is_unbilled(entries) {
            self.charge_unbilled(state)?;
        }
        Ok(match resume_point(entries) {
            RunResumePoint::Waiting => match &state.driving.wait {
                Some(wait) => NextStep::ResumeWait(wait.clone()),
                None => NextStep::Say(self.continuation_message()?),
            },
            RunResumePoint::HandingOver(why) => NextStep::HandOver(why),
            RunResumePoint::Verifying => NextStep::Verify,
            RunResumePoint::AgentWorking if !state.hints.is_empty() => {
                self.ctx.hint_delivery = HintDelivery::Pending;
                let question = state.declared.as_ref().and_then(DeclaredPause::question);
                let question = question.unwrap_or_default();
                NextStep::Say(session_prompts::answer_message(question, &state.hints.join("\n")))
            }
            RunResumePoint::AgentWorking => NextStep::Say(self.continuation_message()?),
        })
    }

    /// Charges the worst case for a turn that was cut off when its runner died: no bill will ever arrive for it.
    fn charge_unbilled(&self, state: &RunState) -> Result<(), DriveError> {
        let Some(latest) = state.driving.latest_session() else { return Ok(()) };
        let worst = meter::worst_turn_cost(&state.driving, &self.ctx.settings);
        let metered = MeterReading {
            session: latest.session.id.clone(),
            source: CostSource::Agent,
            micro_usd: latest.spent.micro_usd.saturating_add(worst),
            tokens: latest.spent.tokens,
            turns: latest.turns,
            meter: MeterBasis::Assumed,
        };
        self.ctx.charge(latest.spent, metered)?;
        Ok(())
    }

    /// The prompt of the first session: the goal as given, followed by the terms of the run.
    pub(super) fn first_prompt(&self) -> Result<String, DriveError> {
        let opened = self.ctx.load()?;
        let goal = goal_file::read_goal(self.ctx.home, &opened.run)?;
        let goal = String::from_utf8_lossy(&goal);
        let world = self.ctx.world(StopDriver::RunnerAlone, None);
        // The terms do not repeat the goal: it precedes them in full.
        let held = reminder::build_reminder_without_goal(&world, &opened);
        let memory = project_memory::run_memory(&world, &opened.run);
        let terms = memory.map(|memory| format!("{held}\n{memory}")).unwrap_or(held);
        Ok(if goal.trim().is_empty() { terms } else { format!("{}\n\n{terms}", goal.trim_end()) })
    }
}

/// Whether an agent was working when its runner died: a message was sent to it and no bill arrived since.
fn is_unbilled(entries: &[JournalEntry]) -> bool {
    let mut turns: BTreeMap<&SessionId, u32> = BTreeMap::new();
    let mut is_at_work = false;
    for entry in entries {
        if let RunChange::Decided(decided) = &entry.change {
            // After a block the agent goes on working, whether it was answered in-band or by a message.
            is_at_work |= matches!(decided.outcome, StopOutcome::Blocked { .. });
        }
        let RunChange::Drove(drove) = &entry.change else { continue };
        match &**drove {
            RunnerEvent::Session(_)
            | RunnerEvent::Woke
            | RunnerEvent::PassedOn
            | RunnerEvent::HandsOver { .. } => {
                is_at_work = true;
            }
            RunnerEvent::Broke { .. } | RunnerEvent::Parked { .. } | RunnerEvent::Waits(_) => {
                is_at_work = false;
            }
            RunnerEvent::Metered(metered) if metered.source == CostSource::Agent => {
                let known = turns.insert(&metered.session, metered.turns);
                is_at_work &= metered.turns <= known.unwrap_or(0);
            }
            RunnerEvent::Metered(_)
            | RunnerEvent::Tried { .. }
            | RunnerEvent::Silent { .. }
            | RunnerEvent::AsksPerson { .. }
            | RunnerEvent::WaitedEnough { .. }
            | RunnerEvent::Settled { .. }
            | RunnerEvent::ProofBase { .. }
            | RunnerEvent::Granted { .. } => {}
        }
    }
    is_at_work
}

fn resume_point(entries: &[JournalEntry]) -> RunResumePoint {
    entries
        .iter()
        .rev()
        .find_map(|entry| resume_point_of(&entry.change))
        .unwrap_or(RunResumePoint::AgentWorking)
}

fn resume_point_of(change: &RunChange) -> Option<RunResumePoint> {
    if let RunChange::Decided(decided) = change {
        return Some(match (&decided.outcome, decided.rule) {
            (StopOutcome::HandedOver, _) => RunResumePoint::HandingOver(decided.because.clone()),
            (StopOutcome::Allowed, DecisionRule::FinalLook) => RunResumePoint::Verifying,
            // Decided after a person had stopped the run: an earlier entry shows what it was doing.
            (_, DecisionRule::Off) => return None,
            _ => RunResumePoint::AgentWorking,
        });
    }
    let RunChange::Drove(drove) = change else { return None };
    match drove.as_ref() {
        RunnerEvent::Waits(_) => Some(RunResumePoint::Waiting),
        RunnerEvent::HandsOver { why, .. } => Some(RunResumePoint::HandingOver(why.clone())),
        RunnerEvent::Session(_)
        | RunnerEvent::Woke
        | RunnerEvent::WaitedEnough { .. }
        | RunnerEvent::Broke { .. }
        | RunnerEvent::Silent { .. } => Some(RunResumePoint::AgentWorking),
        RunnerEvent::Metered(_)
        | RunnerEvent::AsksPerson { .. }
        | RunnerEvent::Tried { .. }
        | RunnerEvent::Parked { .. }
        | RunnerEvent::Settled { .. }
        | RunnerEvent::Granted { .. }
        | RunnerEvent::ProofBase { .. }
        | RunnerEvent::PassedOn => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Journal entries from a list of short names.
    fn entries(words: &str) -> Vec<JournalEntry> {
        let decided = |rule: &str, outcome: &str| {
            format!(
                r#"{{"decided":{{"rule":"{rule}","outcome":{outcome},"because":"","took_ms":0}}}}"#
            )
        };
        let drove = |drove: &str| format!(r#"{{"drove":{drove}}}"#);
        let metered = |turns: &str, source: &str| {
            drove(&format!(
                r#"{{"metered":{{"session":"s1","source":"{source}","micro_usd":1,"tokens":1,"turns":{turns}}}}}"#
            ))
        };
        let change = |word: &str| match word {
            "session" => drove(r#"{"session":{"id":"s1","how":"fresh","argv":[]}}"#),
            "waits" => drove(
                r#"{"waits":{"cause":"rate_limit","since_ms":0,"until_ms":1,"attempt":1,"why":""}}"#,
            ),
            "woke" => drove(r#""woke""#),
            "broke" => drove(r#"{"broke":{"how":""}}"#),
            "parked" => drove(r#"{"parked":{"status":"cancelled","why":""}}"#),
            "hands-over" => drove(r#"{"hands_over":{"why":"full","permille":null}}"#),
            "blocked" => decided("block", r#"{"blocked":{"reason":""}}"#),
            "final-look" => decided("final-look", r#""allowed""#),
            "off" => decided("off", r#""allowed""#),
            "bill-of-gate" => metered("9", "gate"),
            bill => metered(bill.strip_prefix("bill-").unwrap(), "agent"),
        };
        let entry = |word: &str| {
            let change = change(word);
            let line =
                format!(r#"{{"v":1,"seq":0,"at_ms":0,"prev":"","iteration":0,"change":{change}}}"#);
            serde_json::from_str(&line).unwrap()
        };
        words.split(' ').map(entry).collect()
    }

    /// R-K1b: only an unbilled turn is charged again, however often a runner is killed.
    #[test]
    fn unbilled_turns_are_derived_from_the_journal() {
        for (words, is_at_work) in [
            ("session", true),
            ("session bill-0", true),
            ("session bill-0 blocked bill-0", true),
            ("session bill-0 final-look", true),
            ("session bill-0 final-look bill-1", false),
            ("session bill-1 blocked", true),
            ("session bill-1 blocked bill-2", false),
            ("session bill-1 bill-of-gate", false),
            ("session waits", false),
            ("session bill-1 waits woke", true),
            ("session bill-1 waits woke bill-2 waits", false),
            ("session bill-0 broke", false),
            ("session bill-0 broke session", true),
            ("session bill-0 parked", false),
            ("session bill-1 hands-over", true),
            ("session bill-1 hands-over bill-2", false),
        ] {
            assert_eq!(is_unbilled(&entries(words)), is_at_work, "{words}");
        }
    }

    /// The last entry that determines it wins.
    #[test]
    fn the_resume_point_is_derived_from_the_journal() {
        for (words, expected) in [
            ("session", RunResumePoint::AgentWorking),
            ("session blocked", RunResumePoint::AgentWorking),
            ("session final-look bill-1", RunResumePoint::Verifying),
            ("session final-look bill-1 parked off", RunResumePoint::Verifying),
            ("session bill-1 waits parked", RunResumePoint::Waiting),
            ("session waits woke", RunResumePoint::AgentWorking),
            ("session blocked hands-over bill-2", RunResumePoint::HandingOver("full".into())),
        ] {
            assert_eq!(resume_point(&entries(words)), expected, "{words}");
        }
    }
}
