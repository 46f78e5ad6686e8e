//! Findings about a change: how they are built, and how many are reported.

use alloc::borrow::ToOwned;
use alloc::string::String;
use ralph_core::requirement::{Finding, FindingAge, FindingLocation, FindingSeverity};

/// The most findings to report for a whole change.
pub(crate) const MAX_CHANGE_FINDINGS: usize = 200;

pub(crate) fn new_finding(place: FindingLocation, rule: &str, message: String) -> Finding {
    Finding {
        place: Some(place),
        rule: Some(rule.to_owned()),
        message,
        severity: FindingSeverity::Error,
        since: FindingAge::New,
    }
}

pub(crate) fn file_place(path: &str) -> FindingLocation {
    FindingLocation { file: path.to_owned(), line: None, column: None }
}

pub(crate) fn line_place(path: &str, line: usize) -> FindingLocation {
    FindingLocation { line: u32::try_from(line).ok(), ..file_place(path) }
}
