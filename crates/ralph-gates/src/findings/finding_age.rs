//! Tells the findings of a change from those that its base has too.

use std::collections::HashMap;

use ralph_core::gate::{GateOutcome, GateReport, MAX_FINDINGS};
use ralph_core::requirement::FindingAge;

use super::finding_signature;

/// Labels the findings of a failed gate by its result at the base. New findings come first, so that they are among those
/// that are shown, however many old ones there are.
pub fn label_findings(report: &mut GateReport, base: &GateReport) {
    let mut old: HashMap<u64, u32> = HashMap::new();
    match &base.outcome {
        GateOutcome::Passed => {}
        GateOutcome::Failed => {
            for finding in base.all_findings() {
                *old.entry(finding_signature(finding).0).or_default() += 1;
            }
        }
        GateOutcome::Unknown(_) => return,
    }
    for finding in report.findings.iter_mut().chain(&mut report.more_findings) {
        // Each finding at the base matches one finding now; a second equal finding is new.
        let known = old.get_mut(&finding_signature(finding).0).filter(|left| **left > 0);
        finding.since = match known {
            Some(left) => {
                *left -= 1;
                FindingAge::PreExisting
            }
            None => FindingAge::New,
        };
    }
    if !report.more_findings.is_empty() {
        report.findings.append(&mut report.more_findings);
        report.findings.sort_by_key(|finding| finding.since == FindingAge::PreExisting);
        report.more_findings = report.findings.split_off(MAX_FINDINGS.min(report.findings.len()));
    }
}
