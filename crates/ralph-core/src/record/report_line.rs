//! One line of the report of a stop.

use crate::digest64::Digest64;
use crate::judge::JudgeKind;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// A requirement that is not met, as a report keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportLine {
    pub name: String,
    pub stage: String,
    /// The kind of the judge whose verdict it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge: Option<JudgeKind>,
    pub standing: ReportedStatus,
    /// Its previous status, kept while its gate runs again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub was: Option<ReportedStatus>,
    pub note: String,
    /// The first finding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<String>,
    /// Further findings, of changes to tests only: a person reviews each of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub listed: Vec<String>,
    pub findings: u32,
    pub signature: Digest64,
}

/// The status of a requirement that is not met, as a report keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReportedStatus {
    Unmet,
    Unknown,
    Pending,
    Advisory,
}
