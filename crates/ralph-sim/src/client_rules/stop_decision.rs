//! The client's decision at an attempted stop, after its hooks have answered.

use super::event_outcome::EventOutcome;

/// Default number of consecutive blocks that the client allows.
const DEFAULT_BLOCK_CAP: u32 = 8;
pub(crate) const BLOCK_CAP_VARIABLE: &str = "CLAUDE_CODE_STOP_HOOK_BLOCK_CAP";

/// The client's record of stops since the last prompt.
#[derive(Debug, Default)]
pub(crate) struct StopCounters {
    /// `stop_hook_active`
    pub(crate) is_active: bool,
    /// Consecutive blocks, without a tool call between them.
    pub(crate) blocks: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopDecision {
    /// No hook objects, so the turn is completed.
    Completed,
    /// A hook ends the turn with `continue: false`.
    Prevented,
    /// The agent has to continue.
    Continue,
    /// The hooks blocked more often in a row than the client allows, so it ends the turn in spite of them.
    Overridden,
}

impl StopCounters {
    /// Decides and counts. A cap of `None` means no limit.
    pub(crate) fn decide(&mut self, outcome: &EventOutcome, cap: Option<u32>) -> StopDecision {
        if outcome.continue_false().is_some() {
            return StopDecision::Prevented;
        }
        if outcome.blocking_answers().is_empty() && outcome.contexts().is_empty() {
            return StopDecision::Completed;
        }
        self.is_active = true;
        self.blocks += 1;
        if cap.is_none_or(|cap| self.blocks <= cap) {
            StopDecision::Continue
        } else {
            StopDecision::Overridden
        }
    }

    /// The warning that accompanies [`StopDecision::Overridden`].
    pub(crate) fn override_warning(&self) -> String {
        format!(
            "A hook blocked the turn from ending {} consecutive times — overriding and ending turn. For \
             Stop/SubagentStop hooks, check stop_hook_active in the input and return success while it's true. Set \
             {BLOCK_CAP_VARIABLE} to raise this limit.",
            self.blocks
        )
    }
}

/// Parses the value of [`BLOCK_CAP_VARIABLE`].
pub(crate) fn parse_block_cap(value: Option<&str>) -> Option<u32> {
    match value.map(parse_js_number) {
        // Fractions are cut off, and a value below 1 means no limit.
        Some(Some(number)) if number >= 1.0 => Some(to_count(number)),
        Some(Some(_)) => None,
        Some(None) | None => Some(DEFAULT_BLOCK_CAP),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the number is at least 1, and the cast saturates"
)]
fn to_count(number: f64) -> u32 {
    number as u32
}

/// Parses the number at the start of a text, as JavaScript's `parseFloat` does.
fn parse_js_number(text: &str) -> Option<f64> {
    let text = text.trim_start();
    let ends = (1..=text.len()).rev().filter(|end| text.is_char_boundary(*end));
    let beginnings = ends.filter_map(|end| text.get(..end));
    let is_number = |text: &&str| text.bytes().all(|byte| b"+-.0123456789eE".contains(&byte));
    beginnings.filter(is_number).find_map(|text| text.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As observed in the client.
    #[test]
    fn parses_the_number_at_the_start_of_a_text() {
        let texts = ["8", " 2", "1.5", "2abc", "1e1", "0x2", "-1", "0", "many", "", "e", "."];
        let expected = [
            Some(8.0),
            Some(2.0),
            Some(1.5),
            Some(2.0),
            Some(10.0),
            Some(0.0),
            Some(-1.0),
            Some(0.0),
            None,
            None,
            None,
            None,
        ];
        assert_eq!(texts.map(parse_js_number), expected);
    }
}
