//! A person's acceptance of a run.

use ralph_core::record::Acceptance;
use ralph_core::status::RunStatus;
use ralph_sys::clock;
use serde::Serialize;

#[derive(Debug, Serialize)]
pub struct AcceptanceView<'a> {
    pub by: &'a str,
    pub why: &'a str,
    pub at: String,
    /// The status that the run had ended with.
    pub was: RunStatus,
}

impl<'a> AcceptanceView<'a> {
    pub fn from_acceptance(acceptance: &'a Acceptance) -> Self {
        Self {
            by: &acceptance.by,
            why: &acceptance.why,
            at: clock::format_rfc3339(acceptance.at_ms),
            was: acceptance.was,
        }
    }
}

/// The answer of `ralph accept --json`.
#[derive(Debug, Serialize)]
pub struct AcceptedRunView<'a> {
    pub v: u8,
    pub run: &'a str,
    pub status: RunStatus,
    pub accepted: AcceptanceView<'a>,
    /// How to land work that is still in a work tree of its own.
    pub next: Option<&'a str>,
}
