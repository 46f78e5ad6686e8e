//! Handles an attempted stop: runs the stop hooks and applies their answers.

use super::client::{Break, Client, Fields};
use super::turn::{Over, Turn, crash};
use crate::id;
use crate::query::conversation::{CAP_VARIABLE, overriding, read_cap};
use crate::query::told::Told;
use crate::scenario::{Mishap, Point};
use crate::transcript::{Answered, Attached, HookInfo, Stop};
use serde_json::json;

impl Client<'_> {
    /// Returns `None` if the agent has to continue.
    pub(super) fn stop(&mut self, turn: &mut Turn) -> Result<Option<Over>, Break> {
        let event = "Stop";
        let last = Some(turn.last_text.clone()).filter(|text| !text.is_empty());
        let input = self
            .input_of(event, Fields::Turn)
            .with("stop_hook_active", turn.stops.is_active)
            .with_some("last_assistant_message", last)
            .with("background_tasks", self.listed_tasks())
            .with("session_crons", json!([]));
        if matches!(turn.mishap, Mishap::Crash { at: Point::Stop, .. }) {
            self.send(event, None, &input)?;
            crash(turn.mishap, Point::Stop)?;
        }
        let told = match self.ask(event, None, input) {
            // An interrupt while the hooks run ends the turn.
            Err(Break::Interrupted) => {
                return Ok(Some(Over::success("completed", &turn.last_text)));
            }
            told => told?,
        };
        self.note_stop(&told)?;
        self.decide(turn, &told)
    }

    fn decide(&mut self, turn: &mut Turn, told: &Told) -> Result<Option<Over>, Break> {
        let feedback = told.feedback();
        for text in &feedback {
            self.remind(turn, text)?;
        }
        self.pass_on(told)?;
        if !feedback.is_empty() {
            self.notify_once()?;
        }
        self.add_contexts(told)?;
        let kept = if feedback.is_empty() { turn.last_text.as_str() } else { "" };
        if told.stop().is_some() {
            return Ok(Some(Over::success("stop_hook_prevented", kept)));
        }
        if feedback.is_empty() && told.contexts().is_empty() {
            return Ok(Some(Over::success("completed", kept)));
        }
        turn.stops.is_active = true;
        turn.stops.blocks += 1;
        let cap = read_cap(self.variable(CAP_VARIABLE).as_deref());
        if cap.is_none_or(|cap| turn.stops.blocks <= cap) {
            return Ok(None);
        }
        let text = overriding(turn.stops.blocks);
        self.transcript()?.warning(&text)?;
        self.inform(&text, "warning", None)?;
        self.tell(json!({
            "type": "system",
            "subtype": "notification",
            "key": "stop-hook-block-cap",
            "text": text,
            "priority": "high",
            "color": "warning",
        }))?;
        Ok(Some(Over::success("completed", kept)))
    }

    /// Writes the client's notification of a block, which appears once per process.
    fn notify_once(&mut self) -> Result<(), Break> {
        const KEY: &str = "stop-hook-error";
        if self.said.contains(&KEY) {
            return Ok(());
        }
        self.said.push(KEY);
        self.tell(json!({
            "type": "system",
            "subtype": "notification",
            "key": KEY,
            "text": "Stop hook error occurred · ctrl+o to see",
            "priority": "immediate",
        }))
    }

    /// Writes added context to the transcript. It is not sent to the driver.
    pub(super) fn add_contexts(&mut self, told: &Told) -> Result<(), Break> {
        for text in told.contexts() {
            self.transcript()?.attach(&Answered {
                event: told.event(),
                name: told.name(),
                tool_use_id: &id::uuid(),
                attached: Attached::AdditionalContext { content: &[text] },
            })?;
        }
        Ok(())
    }

    fn note_stop(&mut self, told: &Told) -> Result<(), Break> {
        if told.answers.is_empty() {
            return Ok(());
        }
        let errors: Vec<String> = told.blocks().iter().map(|block| block.feedback()).collect();
        let infos = told.answers.iter().map(|answered| HookInfo {
            command: answered.command.clone(),
            duration_ms: Some(answered.handled.ms),
        });
        let (infos, contexts) = (infos.collect::<Vec<_>>(), told.contexts());
        Ok(self.transcript()?.stop_summary(&Stop {
            tool_use_id: &id::uuid(),
            infos: &infos,
            errors: &errors,
            context: &contexts,
            stopped: told.stop().map(|stop| stop.reason.as_deref().unwrap_or_default()),
            has_output: !errors.is_empty() || !contexts.is_empty(),
        })?)
    }
}
