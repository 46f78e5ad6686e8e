//! The words of [`ralph_deck::wording`] as the terminal shows them, with coloured signs.

use crate::term::{self, paint};
use ralph_core::gate::GateOutcome;
use ralph_core::record::ReportedStatus;
use ralph_core::run::RunState;
use ralph_deck::gate_wording;
use ralph_deck::wording::{self, FactMark, MarkedText};

/// The sign of a mark, in its colour.
pub(crate) fn paint_mark(mark: FactMark) -> String {
    paint(mark_style(mark), mark.sign())
}

pub(crate) fn mark_style(mark: FactMark) -> anstyle::Style {
    match mark {
        FactMark::Good => term::GOOD,
        FactMark::Bad => term::BAD,
        FactMark::Unclear => term::WARN,
        FactMark::Neutral => term::DIM,
    }
}

pub(crate) fn paint_marked(line: &MarkedText) -> String {
    match line.mark {
        Some(mark) => format!("{} {}", paint_mark(mark), line.text),
        None => line.text.clone(),
    }
}

/// Waivers, disputes, what the agent declared, and messages that it has not received yet; a line each.
pub(crate) fn remark_lines(state: &RunState, now_ms: u64) -> Vec<String> {
    wording::remark_lines(state, now_ms).iter().map(paint_marked).collect()
}

pub(crate) fn mark(known: ReportedStatus) -> String {
    paint_mark(wording::requirement_mark(known))
}

pub(crate) fn gate_mark(outcome: &GateOutcome) -> String {
    paint_mark(gate_wording::gate_mark(outcome))
}
