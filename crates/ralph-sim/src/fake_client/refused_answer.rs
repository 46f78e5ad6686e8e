//! Answers that a safety classifier stops: the client asks once more, and gives up after the second.

use super::process::{FakeClientProcess, TurnBreak};
use super::turn_loop::{FakeTurn, FakeTurnOutcome};
use crate::client_rules::REFUSAL_PROMPT;
use crate::client_rules::api_error_report::{ApiErrorReport, refusal_notice};
use crate::model_answer;
use serde_json::{Map, json};

/// The `stop_reason` of such an answer.
pub(super) const REFUSAL: &str = "refusal";

impl FakeClientProcess<'_> {
    /// Returns `None` if the client asks again.
    pub(super) fn handle_refusal(
        &mut self,
        turn: &mut FakeTurn,
        number: u64,
    ) -> Result<Option<FakeTurnOutcome>, TurnBreak> {
        turn.refusals += 1;
        let model = self.model.clone();
        if turn.refusals == 1 {
            self.write_message(json!({
                "type": "system",
                "subtype": "informational",
                "content": refusal_notice(&model),
                "level": "notice",
            }))?;
            self.write_feedback(turn, REFUSAL_PROMPT)?;
            return Ok(None);
        }
        self.write_message(json!({
            "type": "system",
            "subtype": "model_refusal_no_fallback",
            "original_model": model,
            "request_id": model_answer::request_id(number),
            "api_refusal_category": null,
            "api_refusal_explanation": null,
            "content": "",
        }))?;
        let report = ApiErrorReport::refusal(&model, number);
        self.fail_with_report(turn, &report, &Map::new(), number).map(Some)
    }
}
