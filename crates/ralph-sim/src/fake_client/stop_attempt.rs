//! Handles an attempted stop: runs the stop hooks and applies their answers.

use super::process::{FakeClientProcess, TurnBreak};
use super::turn_loop::{FakeTurn, FakeTurnOutcome, crash_at};
use crate::client_rules::event_outcome::EventOutcome;
use crate::client_rules::hook_input::SharedInputFields;
use crate::client_rules::stop_decision::{BLOCK_CAP_VARIABLE, StopDecision, parse_block_cap};
use crate::client_rules::transcript_records::{record_hooks, record_stop_summary};
use crate::scenario::{TurnMishap, TurnPoint};
use serde_json::json;

impl FakeClientProcess<'_> {
    /// Returns `None` if the agent has to continue.
    pub(super) fn attempt_stop(
        &mut self,
        turn: &mut FakeTurn,
    ) -> Result<Option<FakeTurnOutcome>, TurnBreak> {
        let event = "Stop";
        let last = Some(turn.last_text.clone()).filter(|text| !text.is_empty());
        let input = self
            .hook_input(event, SharedInputFields::Turn)
            .with("stop_hook_active", turn.stops.is_active)
            .with_opt("last_assistant_message", last)
            .with("background_tasks", self.background_tasks_json())
            .with("session_crons", json!([]));
        if matches!(turn.mishap, TurnMishap::Crash { at: TurnPoint::Stop, .. }) {
            self.send_callbacks(event, None, &input)?;
            crash_at(turn.mishap, TurnPoint::Stop)?;
        }
        let outcome = match self.run_callbacks(event, None, input) {
            // An interrupt while the hooks run ends the turn.
            Err(TurnBreak::Interrupted) => {
                return Ok(Some(FakeTurnOutcome::success("completed", &turn.last_text)));
            }
            outcome => outcome?,
        };
        self.apply_stop_answers(turn, &outcome)
    }

    fn apply_stop_answers(
        &mut self,
        turn: &mut FakeTurn,
        outcome: &EventOutcome,
    ) -> Result<Option<FakeTurnOutcome>, TurnBreak> {
        let feedback = outcome.feedback_texts();
        for text in &feedback {
            self.write_feedback(turn, text)?;
        }
        self.write_system_messages(outcome)?;
        if !feedback.is_empty() {
            self.write_first_block_notice()?;
        }
        record_hooks(self.transcript()?, outcome)?;
        record_stop_summary(self.transcript()?, outcome)?;
        let cap = parse_block_cap(self.variable(BLOCK_CAP_VARIABLE).as_deref());
        let reason = match turn.stops.decide(outcome, cap) {
            StopDecision::Continue => return Ok(None),
            StopDecision::Prevented => "stop_hook_prevented",
            StopDecision::Completed => "completed",
            StopDecision::Overridden => {
                self.write_override(&turn.stops.override_warning())?;
                "completed"
            }
        };
        // A block replaces the result.
        let kept = if feedback.is_empty() { turn.last_text.as_str() } else { "" };
        Ok(Some(FakeTurnOutcome::success(reason, kept)))
    }

    fn write_override(&mut self, text: &str) -> Result<(), TurnBreak> {
        self.transcript()?.write_warning(text)?;
        self.write_informational(text, "warning", None)?;
        self.write_message(json!({
            "type": "system",
            "subtype": "notification",
            "key": "stop-hook-block-cap",
            "text": text,
            "priority": "high",
            "color": "warning",
        }))
    }

    /// Writes the client's notification of a block, which appears once per process.
    fn write_first_block_notice(&mut self) -> Result<(), TurnBreak> {
        const KEY: &str = "stop-hook-error";
        if self.shown_notices.contains(&KEY) {
            return Ok(());
        }
        self.shown_notices.push(KEY);
        self.write_message(json!({
            "type": "system",
            "subtype": "notification",
            "key": KEY,
            "text": "Stop hook error occurred · ctrl+o to see",
            "priority": "immediate",
        }))
    }
}
