//! Handles an attempted stop: runs the stop hooks and applies their answers.

use super::process::{FakeClientProcess, FakeInputFields, TurnBreak};
use super::turn_loop::{FakeTurn, FakeTurnOutcome, crash_at};
use crate::client_ids;
use crate::scenario::{TurnMishap, TurnPoint};
use crate::simulator::conversation::{BLOCK_CAP_VARIABLE, override_warning, parse_block_cap};
use crate::simulator::event_outcome::EventOutcome;
use crate::transcript::{HookAttachment, HookAttachmentKind, StopHookInfo, StopHookSummary};
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
            .hook_input(event, FakeInputFields::Turn)
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
        self.record_stop_summary(&outcome)?;
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
        self.record_contexts(outcome)?;
        let kept = if feedback.is_empty() { turn.last_text.as_str() } else { "" };
        if outcome.continue_false().is_some() {
            return Ok(Some(FakeTurnOutcome::success("stop_hook_prevented", kept)));
        }
        if feedback.is_empty() && outcome.contexts().is_empty() {
            return Ok(Some(FakeTurnOutcome::success("completed", kept)));
        }
        turn.stops.is_active = true;
        turn.stops.blocks += 1;
        let cap = parse_block_cap(self.variable(BLOCK_CAP_VARIABLE).as_deref());
        if cap.is_none_or(|cap| turn.stops.blocks <= cap) {
            return Ok(None);
        }
        let text = override_warning(turn.stops.blocks);
        self.transcript()?.write_warning(&text)?;
        self.write_informational(&text, "warning", None)?;
        self.write_message(json!({
            "type": "system",
            "subtype": "notification",
            "key": "stop-hook-block-cap",
            "text": text,
            "priority": "high",
            "color": "warning",
        }))?;
        Ok(Some(FakeTurnOutcome::success("completed", kept)))
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

    /// Writes added context to the transcript. It is not sent to the driver.
    pub(super) fn record_contexts(&mut self, outcome: &EventOutcome) -> Result<(), TurnBreak> {
        for text in outcome.contexts() {
            self.transcript()?.write_attachment(&HookAttachment {
                event: outcome.event(),
                name: outcome.name(),
                tool_use_id: &client_ids::new_uuid(),
                kind: HookAttachmentKind::AdditionalContext { content: &[text] },
            })?;
        }
        Ok(())
    }

    fn record_stop_summary(&mut self, outcome: &EventOutcome) -> Result<(), TurnBreak> {
        if outcome.answers.is_empty() {
            return Ok(());
        }
        let errors: Vec<String> =
            outcome.blocking_answers().iter().map(|block| block.feedback()).collect();
        let infos = outcome.answers.iter().map(|answered| StopHookInfo {
            command: answered.command.clone(),
            duration_ms: Some(answered.result.ms),
        });
        let (infos, contexts) = (infos.collect::<Vec<_>>(), outcome.contexts());
        Ok(self.transcript()?.write_stop_summary(&StopHookSummary {
            tool_use_id: &client_ids::new_uuid(),
            infos: &infos,
            errors: &errors,
            context: &contexts,
            stopped: outcome
                .continue_false()
                .map(|stop| stop.reason.as_deref().unwrap_or_default()),
            has_output: !errors.is_empty() || !contexts.is_empty(),
        })?)
    }
}
