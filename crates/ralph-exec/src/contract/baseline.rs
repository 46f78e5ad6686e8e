//! What was wrong before the run began. A failure that the base has too is `pre-existing`, and no fewer tests run
//! than ran there.

use ralph_core::gate::{Gate, GateReport, MinTests, Outcome, Tests};
use ralph_core::requirement::{Finding, Since};

use crate::findings::signature;

/// Whether the base can say something about this result that it does not say itself.
pub(super) fn is_wanted(gate: &Gate, report: &GateReport) -> bool {
    match report.outcome {
        Outcome::Failed => true,
        Outcome::Passed => gate.min_tests == MinTests::Baseline && report.tests.is_some(),
        Outcome::Unknown(_) => false,
    }
}

/// The result with what the base tells about it.
pub(super) fn compared(
    gate: &Gate,
    mut report: GateReport,
    base: Option<&GateReport>,
) -> GateReport {
    let Some(base) = base else { return report };
    match report.outcome {
        Outcome::Failed => label(&mut report.findings, base),
        Outcome::Passed if gate.min_tests == MinTests::Baseline => {
            if let (Some(now), Some(then)) = (report.tests, base.tests)
                && ran(now) < ran(then)
            {
                let what =
                    format!("{} tests ran, and {} at the base of the run", ran(now), ran(then));
                report.findings =
                    vec![Finding { rule: Some("fewer-tests".to_string()), ..Finding::new(what) }];
                report.finding_count = 1;
                report.outcome = Outcome::Failed;
            }
        }
        Outcome::Passed | Outcome::Unknown(_) => {}
    }
    report
}

/// A test that is skipped does not run.
fn ran(tests: Tests) -> u32 {
    tests.run.saturating_sub(tests.skipped)
}

fn label(findings: &mut [Finding], base: &GateReport) {
    match &base.outcome {
        Outcome::Passed => findings.iter_mut().for_each(|finding| finding.since = Since::New),
        Outcome::Failed => {
            let mut old: Vec<_> = base.findings.iter().map(signature).collect();
            for finding in findings {
                // Each one at the base accounts for one now: a second one like it is new.
                let at = old.iter().position(|known| *known == signature(finding));
                finding.since = match at {
                    Some(at) => {
                        old.swap_remove(at);
                        Since::PreExisting
                    }
                    None => Since::New,
                };
            }
        }
        Outcome::Unknown(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gates::testing::{gate, report};
    use ralph_core::gate::Unknown;

    fn failed(messages: &[&str]) -> GateReport {
        let findings: Vec<_> =
            messages.iter().map(|one| Finding::new((*one).to_string())).collect();
        let finding_count = u32::try_from(findings.len()).unwrap();
        GateReport { findings, finding_count, ..report("tests", Outcome::Failed) }
    }

    fn labels(now: &[&str], base: &GateReport) -> String {
        let compared = compared(&gate("tests", &["t"]), failed(now), Some(base));
        let word = |finding: &Finding| match finding.since {
            Since::Unknown => "unknown",
            Since::New => "new",
            Since::PreExisting => "pre-existing",
        };
        compared.findings.iter().map(word).collect::<Vec<_>>().join(", ")
    }

    /// R-L7d: the same failure at the base is `pre-existing`, anything else is new, and a base that told nothing
    /// leaves the label unknown.
    #[test]
    fn failures_are_labelled_by_the_base() {
        let unknown = report("tests", Outcome::Unknown(Unknown::Inconclusive("no tests".into())));
        for (now, base, expected) in [
            (&["a", "b"][..], failed(&["b"]), "new, pre-existing"),
            (&["a", "a"], failed(&["a"]), "pre-existing, new"),
            (&["a"], report("tests", Outcome::Passed), "new"),
            (&["a"], unknown, "unknown"),
        ] {
            assert_eq!(labels(now, &base), expected, "{now:?}");
        }
    }

    /// R-S5a: fewer tests than at the base is a failure, however green they are.
    #[test]
    fn fewer_tests_than_at_the_base_fail() {
        let counted = Gate { min_tests: MinTests::Baseline, ..gate("tests", &["t"]) };
        let with = |run, skipped| GateReport {
            tests: Some(Tests { run, failed: 0, skipped }),
            ..report("tests", Outcome::Passed)
        };
        for (gate, now, base, expected) in [
            (&counted, with(9, 0), with(10, 0), Outcome::Failed),
            (&counted, with(10, 1), with(10, 0), Outcome::Failed),
            (&counted, with(10, 0), with(10, 0), Outcome::Passed),
            (&counted, with(11, 1), with(10, 0), Outcome::Passed),
            (&counted, with(9, 0), report("tests", Outcome::Failed), Outcome::Passed),
            (&self::gate("tests", &["t"]), with(9, 0), with(10, 0), Outcome::Passed),
        ] {
            assert_eq!(compared(gate, now, Some(&base)).outcome, expected);
        }
    }
}
