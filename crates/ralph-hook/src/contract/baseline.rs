//! Compares gate results with those at the base of the run. A failure that the base has too is labelled `pre-existing`,
//! and a pass with fewer tests than at the base does not count.

use ralph_core::gate::{Gate, GateOutcome, GateReport, MinTests, UnknownReason};
use ralph_core::requirement::{Finding, FindingAge};

use ralph_gates::findings::finding_signature;

/// Messages that tools print when a test could not start.
const STARTUP_ERRORS: [&str; 12] = [
    "ImportError",
    "ModuleNotFoundError",
    "SyntaxError",
    "IndentationError",
    "NameError",
    "AttributeError",
    "ReferenceError",
    "is not a function",
    "Cannot find module",
    "Failed to resolve import",
    "cannot find",
    "undefined:",
];

pub(super) fn failed_to_start(finding: &Finding) -> bool {
    STARTUP_ERRORS.iter().any(|words| finding.message.contains(words))
}

/// Whether a comparison with the base could change this result.
pub(super) fn needs_base_result(gate: &Gate, report: &GateReport) -> bool {
    match report.outcome {
        GateOutcome::Failed => true,
        GateOutcome::Passed => gate.min_tests == MinTests::Baseline,
        GateOutcome::Unknown(_) => false,
    }
}

/// The result, labelled and corrected by comparison with the base. `base` is `None` if the gate could not run there.
pub(super) fn compare_with_base(
    gate: &Gate,
    mut report: GateReport,
    base: Option<&GateReport>,
) -> GateReport {
    match (&report.outcome, base) {
        (GateOutcome::Failed, Some(base)) => {
            label_findings(&mut report.findings, base);
            if let (GateOutcome::Failed, true) = (&base.outcome, base.exit != report.exit) {
                let what = "its exit code differs from the one at the base of the run";
                add_finding(&mut report, "other-end", what.to_string());
            }
        }
        (GateOutcome::Passed, base) if gate.min_tests == MinTests::Baseline => {
            match check_test_count(&report, base) {
                Ok(()) => {}
                Err(TestCountProblem::Fewer(what)) => {
                    report.findings.clear();
                    report.finding_count = 0;
                    report.outcome = GateOutcome::Failed;
                    add_finding(&mut report, "fewer-tests", what);
                }
                Err(TestCountProblem::Unknown(why)) => {
                    report.outcome = GateOutcome::Unknown(UnknownReason::Inconclusive(why));
                }
            }
        }
        (GateOutcome::Failed | GateOutcome::Passed | GateOutcome::Unknown(_), _) => {}
    }
    report
}

enum TestCountProblem {
    Fewer(String),
    Unknown(String),
}

/// Rejects a pass with fewer tests than at the base, and one that cannot be compared.
fn check_test_count(
    report: &GateReport,
    base: Option<&GateReport>,
) -> Result<(), TestCountProblem> {
    let hint = "list its dependencies in `[verify] link`, or set `min_tests` to a number";
    let Some(base) = base else {
        return Err(TestCountProblem::Unknown(format!("it could not run at the base; {hint}")));
    };
    if let GateOutcome::Unknown(unknown) = &base.outcome {
        let why = match unknown {
            UnknownReason::Error(why)
            | UnknownReason::Inconclusive(why)
            | UnknownReason::Skipped(why) => why,
            UnknownReason::Timeout { .. } | UnknownReason::Untrusted => unknown.name(),
        };
        return Err(TestCountProblem::Unknown(format!(
            "it gave no result at the base ({why}); {hint}"
        )));
    }
    if let (GateOutcome::Failed, Some(first)) = (&base.outcome, base.findings.first())
        && base.findings.iter().all(failed_to_start)
    {
        let why = ralph_core::text::clean_line(&first.message, 80);
        return Err(TestCountProblem::Unknown(format!(
            "its tests did not start at the base ({why}); {hint}"
        )));
    }
    let Some(then) = base.tests else {
        // A base that does not compile has no tests to count. One that failed otherwise may lack a dependency there.
        return match (&base.outcome, report.tests) {
            (GateOutcome::Failed, Some(_))
                if base.findings.iter().all(|one| one.place.is_none()) =>
            {
                Err(TestCountProblem::Unknown(format!("no tests were counted at the base; {hint}")))
            }
            (GateOutcome::Failed | GateOutcome::Passed | GateOutcome::Unknown(_), _) => Ok(()),
        };
    };
    match report.tests {
        Some(now) if now.run >= then.run => Ok(()),
        Some(now) => Err(TestCountProblem::Fewer(format!(
            "tests run: {} now, {} at the base of the run",
            now.run, then.run
        ))),
        None => Err(TestCountProblem::Fewer(format!(
            "tests run: none counted now, {} at the base of the run",
            then.run
        ))),
    }
}

fn add_finding(report: &mut GateReport, rule: &str, what: String) {
    let finding =
        Finding { rule: Some(rule.to_string()), since: FindingAge::New, ..Finding::new(what) };
    report.findings.push(finding);
    report.finding_count = report.finding_count.saturating_add(1);
}

fn label_findings(findings: &mut [Finding], base: &GateReport) {
    match &base.outcome {
        GateOutcome::Passed => {
            for finding in findings.iter_mut() {
                finding.since = FindingAge::New;
            }
        }
        GateOutcome::Failed => {
            let mut old: Vec<_> = base.findings.iter().map(finding_signature).collect();
            for finding in findings {
                // Each finding at the base matches one finding now; a second equal finding is new.
                let at = old.iter().position(|known| *known == finding_signature(finding));
                finding.since = match at {
                    Some(at) => {
                        old.swap_remove(at);
                        FindingAge::PreExisting
                    }
                    None => FindingAge::New,
                };
            }
        }
        GateOutcome::Unknown(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ralph_core::gate::TestCounts;
    use ralph_core::requirement::FindingLocation;
    use ralph_gates::gates::testing::{sample_gate, sample_report};

    fn failed(messages: &[&str]) -> GateReport {
        let findings: Vec<_> =
            messages.iter().map(|one| Finding::new((*one).to_string())).collect();
        let finding_count = u32::try_from(findings.len()).unwrap();
        GateReport { findings, finding_count, ..sample_report("tests", GateOutcome::Failed) }
    }

    fn labels(now: &[&str], base: &GateReport) -> String {
        let compared = compare_with_base(&sample_gate("tests", &["t"]), failed(now), Some(base));
        let word = |finding: &Finding| match finding.since {
            FindingAge::Unknown => "unknown",
            FindingAge::New => "new",
            FindingAge::PreExisting => "pre-existing",
        };
        compared.findings.iter().map(word).collect::<Vec<_>>().join(", ")
    }

    /// R-L7d: the same failure at the base is `pre-existing`, any other is new, and a base without a result leaves the
    /// label unknown.
    #[test]
    fn failures_are_labelled_by_the_base() {
        let unknown = sample_report(
            "tests",
            GateOutcome::Unknown(UnknownReason::Inconclusive("no tests".into())),
        );
        for (now, base, expected) in [
            (&["a", "b"][..], failed(&["b"]), "new, pre-existing"),
            (&["a", "a"], failed(&["a"]), "pre-existing, new"),
            (&["a"], sample_report("tests", GateOutcome::Passed), "new"),
            (&["a"], unknown, "unknown"),
        ] {
            assert_eq!(labels(now, &base), expected, "{now:?}");
        }
    }

    /// R-S5a: fewer tests than at the base is a failure even if all of them pass; a base without a result makes the
    /// gate inconclusive, not passed.
    #[test]
    fn fewer_tests_than_at_the_base_fail() {
        let counted = Gate { min_tests: MinTests::Baseline, ..sample_gate("tests", &["t"]) };
        let with = |run, skipped| GateReport {
            tests: Some(TestCounts { run, failed: 0, skipped }),
            ..sample_report("tests", GateOutcome::Passed)
        };
        let none = || sample_report("tests", GateOutcome::Passed);
        let place =
            Some(FindingLocation { file: "src/lib.rs".into(), line: Some(3), column: None });
        let error = Finding { place, ..Finding::new("expected `;`".into()) };
        let uncompiled =
            GateReport { findings: vec![error], ..sample_report("tests", GateOutcome::Failed) };
        let broken = sample_report(
            "tests",
            GateOutcome::Unknown(UnknownReason::Error("no such module".into())),
        );
        for (gate, now, base, expected) in [
            (&counted, with(9, 0), Some(with(10, 0)), "failed"),
            (&counted, with(9, 1), Some(with(10, 0)), "failed"),
            (&counted, none(), Some(with(10, 0)), "failed"),
            (&counted, with(10, 2), Some(with(10, 0)), "passed"),
            (&counted, with(11, 1), Some(with(10, 0)), "passed"),
            (
                &counted,
                with(9, 0),
                Some(sample_report("tests", GateOutcome::Failed)),
                "inconclusive",
            ),
            (&counted, with(9, 0), Some(uncompiled), "passed"),
            (&counted, none(), Some(none()), "passed"),
            (&counted, with(9, 0), Some(broken), "inconclusive"),
            (&counted, with(9, 0), Some(failed(&["ImportError: deps"])), "inconclusive"),
            (&counted, with(9, 0), None, "inconclusive"),
            (&self::sample_gate("tests", &["t"]), with(9, 0), Some(with(10, 0)), "passed"),
        ] {
            assert_eq!(compare_with_base(gate, now, base.as_ref()).outcome.name(), expected);
        }
    }

    /// A different exit code counts as a new failure even if the findings are the same.
    #[test]
    fn another_exit_code_than_at_the_base_is_new() {
        let base = GateReport { exit: Some(1), ..failed(&["a"]) };
        let now = GateReport { exit: Some(2), ..failed(&["a"]) };
        assert!(
            compare_with_base(&sample_gate("tests", &["t"]), base.clone(), Some(&base))
                .is_preexisting()
        );
        assert!(
            !compare_with_base(&sample_gate("tests", &["t"]), now, Some(&base)).is_preexisting()
        );
    }
}
