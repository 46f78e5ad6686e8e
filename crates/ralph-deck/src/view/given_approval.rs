//! The answer of `ralph approve --json`.

use serde::Serialize;

#[derive(Debug, Serialize)]
pub struct GivenApprovalView<'a> {
    pub v: u8,
    pub run: &'a str,
    /// The chunk or phase, or `plan`.
    pub approved: &'a str,
    pub by: &'a str,
    /// What else of the run waits for a person.
    pub left: &'a [String],
}
