//! The waivers of runs.

use ralph_core::record::Waiver;
use ralph_sys::clock;
use serde::Serialize;

#[derive(Debug, Serialize)]
pub struct WaiversView<'a> {
    pub v: u8,
    pub runs: Vec<RunWaiversView<'a>>,
}

#[derive(Debug, Serialize)]
pub struct RunWaiversView<'a> {
    pub run: &'a str,
    pub waivers: Vec<WaiverView>,
}

#[derive(Debug, Serialize)]
pub struct WaiverView {
    pub requirement: String,
    pub by: String,
    pub why: String,
    pub until: String,
}

impl WaiverView {
    pub fn from_waiver(waiver: &Waiver) -> Self {
        Self {
            requirement: waiver.requirement.clone(),
            by: waiver.by.clone(),
            why: waiver.why.clone(),
            until: clock::format_rfc3339(waiver.until_ms),
        }
    }
}
