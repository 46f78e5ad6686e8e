//! Tells the findings of a change from those that its base has too.

use std::collections::HashMap;

use ralph_core::gate::{GateOutcome, GateReport, MAX_FINDINGS, UnknownReason};
use ralph_core::requirement::{Finding, FindingAge};

use super::finding_signature;

const UNCONFIRMED: &str = "a checkout of the base fails too, but the project itself was not measured before it changed; `ralph gate run` before the start measures it";

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

/// The failures of a base that happened twice: in a checkout of it, and in the project itself while it was the base. A
/// checkout may lack a file that git ignores, so its failures alone excuse nothing. `project` is `None` if the gate did
/// not run in the project then.
pub fn confirm_base(checkout: &GateReport, project: Option<&GateReport>) -> GateReport {
    let project = match (&checkout.outcome, project) {
        (GateOutcome::Failed, Some(project)) => project,
        (GateOutcome::Failed, None) => {
            let unknown = UnknownReason::Inconclusive(UNCONFIRMED.to_string());
            let outcome = GateOutcome::Unknown(unknown);
            return GateReport::new(&checkout.name, outcome, checkout.at_ms);
        }
        (GateOutcome::Passed | GateOutcome::Unknown(_), _) => return checkout.clone(),
    };
    let mut both = project.clone();
    label_findings(&mut both, checkout);
    let is_in_both = |finding: &Finding| finding.since == FindingAge::PreExisting;
    both.findings.retain(is_in_both);
    both.more_findings.retain(is_in_both);
    both.finding_count = u32::try_from(both.all_findings().count()).unwrap_or(u32::MAX);
    both.cases = match (both.cases, &checkout.cases) {
        (Some(mut cases), Some(other)) => {
            cases.failed.retain(|test| other.failed.contains(test));
            Some(cases)
        }
        (Some(_) | None, _) => None,
    };
    both
}

#[cfg(test)]
mod tests {
    use super::*;
    use ralph_core::test_cases::TestCases;

    /// `a` is a named test that failed, `a!` a finding without a test.
    fn failed(words: &[&str]) -> GateReport {
        let mut report = GateReport::new("tests", GateOutcome::Failed, 0);
        for word in words {
            report.findings.push(Finding::new((*word).to_string()));
            report.finding_count += 1;
            if !word.ends_with('!') {
                let cases = report.cases.get_or_insert_with(TestCases::default);
                cases.failed.push((*word).to_string());
            }
        }
        report
    }

    /// R-L7d: what fails in a checkout of the base is old only if it failed in the project too.
    #[test]
    fn only_what_failed_in_both_is_old() {
        let passed = || GateReport::new("tests", GateOutcome::Passed, 0);
        let rows = [
            ("green base", passed(), None, &["a"][..], "new"),
            ("not measured", failed(&["a"]), None, &["a"], "unknown"),
            ("lacking checkout", failed(&["a"]), Some(passed()), &["a"], "new"),
            ("red base", failed(&["a"]), Some(failed(&["a"])), &["a"], "pre-existing"),
            ("both", failed(&["a", "b"]), Some(failed(&["b"])), &["a", "b"], "new, pre-existing"),
            ("other", failed(&["a"]), Some(failed(&["b"])), &["b"], "new"),
            ("no names", failed(&["a!"]), Some(failed(&["a!"])), &["a!"], "pre-existing"),
            ("no names, lacking", failed(&["a!"]), Some(passed()), &["a!"], "new"),
        ];
        for (name, checkout, project, now, expected) in rows {
            let base = confirm_base(&checkout, project.as_ref());
            let mut now = failed(now);
            label_findings(&mut now, &base);
            let label = |finding: &Finding| match finding.since {
                FindingAge::New => "new",
                FindingAge::PreExisting => "pre-existing",
                FindingAge::Unknown => "unknown",
            };
            let labels: Vec<&str> = now.all_findings().map(label).collect();
            assert_eq!(labels.join(", "), expected, "{name}");
            let old = base.cases.iter().flat_map(|cases| &cases.failed);
            let named = now.cases.iter().flat_map(|cases| &cases.failed);
            let is_old = old.filter(|test| named.clone().any(|one| one == *test)).count();
            let is_expected = labels.iter().filter(|label| **label == "pre-existing").count();
            assert!(is_old == is_expected || now.cases.is_none(), "{name}");
        }
    }
}
