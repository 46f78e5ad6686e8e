//! Faults of ralph itself, as a line and as JSON.

use crate::wording::{self, FactMark, MarkedText, safe_line};
use ralph_home::faults::Fault;
use ralph_sys::clock;
use serde::Serialize;

pub fn fault_line(fault: &Fault) -> MarkedText {
    let (at, what) = (wording::local_time(fault.at_ms), safe_line(&fault.what));
    MarkedText::new(FactMark::Unclear, format!("{at}  {} fault: {what}", fault.kind.name()))
}

/// The answer of `ralph status --clear-trouble --json`.
#[derive(Debug, Serialize)]
pub struct ClearedFaultsView {
    pub v: u8,
    pub forgotten: usize,
}

#[derive(Debug, Serialize)]
pub struct FaultView<'a> {
    pub at: String,
    pub kind: &'static str,
    pub what: &'a str,
    pub run: Option<&'a str>,
    pub session: Option<&'a str>,
}

pub(super) fn fault_view(fault: &Fault) -> FaultView<'_> {
    FaultView {
        at: clock::format_rfc3339(fault.at_ms),
        kind: fault.kind.name(),
        what: &fault.what,
        run: fault.run.as_deref(),
        session: fault.session.as_deref(),
    }
}
