//! What a stop rests on: the results of gates that it used, and the content they were measured on.

use crate::coverage::{CoverageCount, MeasuredCoverage};
use crate::gate::{GateReport, ResultStability, TestCounts};
use crate::serde_skip::{is_false, is_zero};
use alloc::string::{String, ToString};
use serde::{Deserialize, Serialize};

/// A gate's result as one stop used it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateRecord {
    pub name: String,
    pub site: MeasuredSite,
    /// `passed`, `failed`, or why there is no result.
    pub outcome: String,
    /// How long the gate ran, at this stop or when its result was cached.
    pub took_ms: u64,
    /// Whether the result was known before the stop, so that it cost no time. `false` for the first use of a result that
    /// the run's own worker finished after an earlier stop.
    #[serde(default, skip_serializing_if = "is_false")]
    pub cached: bool,
    #[serde(default, skip_serializing_if = "ResultStability::is_single")]
    pub steadiness: ResultStability,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub findings: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tests: Option<TestCounts>,
    /// How many lines its tests run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coverage: Option<CoverageCount>,
    /// How many of the lines that the run changed its tests run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_coverage: Option<CoverageCount>,
    /// Identifies gate and content: two records with the same key measured the same.
    pub key: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
}

/// Where gates ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MeasuredSite {
    /// The work tree itself.
    Tree,
    /// A checkout of the judged content, without ignored files.
    Clean,
    /// A checkout of the base, with the changed tests.
    Base,
}

/// The content that a stop judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JudgedContent {
    /// The number of its checkpoint.
    pub checkpoint: u32,
    /// The commit of that checkpoint.
    pub commit: String,
    /// The git tree of that commit.
    pub tree: String,
}

impl GateRecord {
    pub fn from_report(report: &GateReport, site: MeasuredSite, key: String, cached: bool) -> Self {
        Self {
            name: report.name.clone(),
            site,
            outcome: report.outcome.name().to_string(),
            took_ms: report.took_ms,
            cached,
            steadiness: report.steadiness,
            findings: report.finding_count,
            tests: report.tests,
            coverage: report.coverage.as_deref().map(MeasuredCoverage::count),
            changed_coverage: None,
            key,
            log: report.log.clone(),
        }
    }
}
