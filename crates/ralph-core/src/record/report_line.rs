//! A line of the report that the journal keeps of a stop.

use crate::digest64::Digest64;
use crate::judge::JudgeKind;
use crate::requirement::PendingKind;
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
    /// Why it is pending. Missing in reports of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending: Option<PendingKind>,
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

impl ReportLine {
    /// Why it is pending; `None` if it is not. Reports of older versions have only the text.
    pub fn pending_kind(&self) -> Option<PendingKind> {
        let is_pending = self.standing == ReportedStatus::Pending;
        is_pending.then(|| self.pending.unwrap_or_else(|| PendingKind::of_note(&self.note)))
    }
}
