//! Compares gate results with those at the base of the run. A failure that the base has too is labelled `pre-existing`,
//! and a pass with fewer tests than at the base does not count.

use ralph_core::gate::{Gate, GateOutcome, GateReport, MinTests, UnknownReason};
use ralph_core::policy::ProofMode;
use ralph_core::requirement::{
    Finding, FindingAge, OLD_FAILURES_REQUIREMENT, Requirement, RequirementFailure,
    RequirementStage, RequirementStatus, RequirementWeight,
};
use ralph_core::text;

use super::coverage_evidence::{self, CoverageProblem};
use ralph_gates::findings::label_findings;

const SHOWN_OLD_FAILURES: usize = 3;

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
        GateOutcome::Passed => gate.min_tests == MinTests::Baseline || gate.coverage.ratchet,
        GateOutcome::Unknown(_) => false,
    }
}

/// The result, labelled and corrected by comparison with the base. `base` is `None` if the gate could not run there.
pub(super) fn compare_with_base(
    gate: &Gate,
    mut report: GateReport,
    base: Option<&GateReport>,
    proof: ProofMode,
) -> GateReport {
    match (&report.outcome, base) {
        (GateOutcome::Failed, Some(base)) => {
            label_findings(&mut report, base);
            if let GateOutcome::Unknown(unknown) = &base.outcome {
                let what = format!("not compared with the base: {}", unknown.describe());
                add_finding(&mut report, "no-base", what);
            }
            if let (GateOutcome::Failed, true) = (&base.outcome, base.exit != report.exit) {
                let what = "its exit code differs from the one at the base of the run";
                add_finding(&mut report, "other-end", what.to_string());
            }
        }
        (GateOutcome::Passed, base) if gate.min_tests == MinTests::Baseline => {
            match check_test_count(&report, base) {
                Ok(()) => {}
                // The proof names the missing tests, and a person decides about them. If the tests did not start at the
                // base, it compares those that start on the new code.
                Err(_) if gate.proof && proof == ProofMode::Full && names_all_tests(&report) => {}
                Err(TestCountProblem::Fewer(what)) => {
                    report.findings.clear();
                    report.more_findings.clear();
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
    if gate.coverage.ratchet && report.outcome == GateOutcome::Passed {
        compare_coverage(&mut report, base);
    }
    report
}

fn compare_coverage(report: &mut GateReport, base: Option<&GateReport>) {
    match coverage_evidence::check_ratchet(report, base) {
        Ok(()) => {}
        Err(CoverageProblem::Fell(what)) => {
            report.findings = vec![coverage_evidence::fell_finding(what)];
            report.more_findings.clear();
            report.finding_count = 1;
            report.outcome = GateOutcome::Failed;
        }
        Err(CoverageProblem::Unknown(why)) => {
            report.outcome = GateOutcome::Unknown(UnknownReason::Inconclusive(why));
        }
    }
}

fn names_all_tests(report: &GateReport) -> bool {
    report.cases.as_ref().is_some_and(|cases| cases.is_complete)
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
    // A base without tests has none to miss.
    if let GateOutcome::Unknown(UnknownReason::NoTests(_)) = &base.outcome {
        return Ok(());
    }
    if let GateOutcome::Unknown(unknown) = &base.outcome {
        let why = unknown.describe();
        return Err(TestCountProblem::Unknown(format!(
            "it gave no result at the base ({why}); {hint}"
        )));
    }
    if let (GateOutcome::Failed, Some(first)) = (&base.outcome, base.findings.first())
        && base.findings.iter().all(failed_to_start)
    {
        let why = text::clean_line(&first.message, 80);
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

/// Names the failures that a ratchet accepts, so that the end of the run does not hide them.
pub(super) fn old_failures_requirement(accepted: &[GateReport]) -> Option<Requirement> {
    let (mut names, mut count) = (Vec::new(), 0_u32);
    for report in accepted {
        let failed = report.cases.as_ref().map_or(&[][..], |cases| &cases.failed);
        if failed.is_empty() && report.finding_count == 0 {
            count = count.saturating_add(1);
            names.push(report.name.clone());
        } else if failed.is_empty() {
            count = count.saturating_add(report.finding_count);
            names.extend(report.all_findings().take(SHOWN_OLD_FAILURES).map(|finding| {
                let message = finding.rule.as_ref().unwrap_or(&finding.message);
                match &finding.place {
                    Some(place) => format!("{}: {message}", place.file),
                    None => message.clone(),
                }
            }));
        } else {
            count = count.saturating_add(u32::try_from(failed.len()).unwrap_or(u32::MAX));
            names.extend(failed.iter().take(SHOWN_OLD_FAILURES).cloned());
        }
    }
    let verb = if count == 1 { "remains" } else { "remain" };
    let failures = text::count_noun(count, "old failure");
    let shown = names.iter().take(SHOWN_OLD_FAILURES).map(|name| text::clean_line(name, 80));
    let mut shown: Vec<String> = shown.collect();
    shown.extend((usize::try_from(count) != Ok(shown.len())).then(|| "…".to_string()));
    let summary = format!("{failures} {verb}: {}", shown.join(", "));
    (count > 0).then(|| Requirement {
        name: OLD_FAILURES_REQUIREMENT.to_string(),
        stage: RequirementStage::Correctness,
        status: RequirementStatus::Unmet(RequirementFailure::new(summary)),
        weight: RequirementWeight::Advisory,
        next: String::new(),
    })
}

fn add_finding(report: &mut GateReport, rule: &str, what: String) {
    let finding =
        Finding { rule: Some(rule.to_string()), since: FindingAge::New, ..Finding::new(what) };
    report.findings.push(finding);
    report.finding_count = report.finding_count.saturating_add(1);
}

#[cfg(test)]
mod tests {
    use super::*;
    use ralph_core::gate::{MAX_FINDINGS, TestCounts};
    use ralph_core::requirement::FindingLocation;
    use ralph_core::test_cases::TestCases;
    use ralph_gates::gates::testing::{sample_gate, sample_report};

    fn failed(messages: &[&str]) -> GateReport {
        let findings: Vec<_> =
            messages.iter().map(|one| Finding::new((*one).to_string())).collect();
        let finding_count = u32::try_from(findings.len()).unwrap();
        GateReport { findings, finding_count, ..sample_report("tests", GateOutcome::Failed) }
    }

    fn labels(now: &[&str], base: &GateReport) -> String {
        let compared = compare_with_base(
            &sample_gate("tests", &["t"]),
            failed(now),
            Some(base),
            ProofMode::Full,
        );
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
            // The second finding says that there is nothing to compare with.
            (&["a"], unknown, "unknown, new"),
        ] {
            assert_eq!(labels(now, &base), expected, "{now:?}");
        }
    }

    /// R-L7d: every finding counts, also beyond those that are shown, and a new one among many old ones is shown. An output
    /// that was not read to its end may hide a new one.
    #[test]
    fn old_failures_are_told_from_new_ones_however_many_there_are() {
        let many = |count: usize, new: &[&str]| {
            let names: Vec<String> = (0..count).map(|at| format!("finding {at}")).collect();
            let mut all: Vec<&str> = names.iter().map(String::as_str).collect();
            all.extend(new);
            let mut report = failed(&all);
            report.more_findings = report.findings.split_off(MAX_FINDINGS.min(all.len()));
            report
        };
        let base = many(450, &[]);
        let partial = GateReport { has_gaps: true, ..many(450, &[]) };
        for (now, expected) in [
            (many(450, &[]), "true: 450 findings, 450 pre-existing; finding 0"),
            (many(430, &[]), "true: 430 findings, 430 pre-existing; finding 0"),
            (many(450, &["mine"]), "false: 451 findings, 450 pre-existing; mine"),
            (many(450, &["finding 7"]), "false: 451 findings, 450 pre-existing; finding 7"),
            (partial, "false: 450 findings, 450 pre-existing; finding 0"),
        ] {
            let gate = sample_gate("lint", &["t"]);
            let compared = compare_with_base(&gate, now, Some(&base), ProofMode::Off);
            let shown = format!(
                "{}: {}; {}",
                compared.is_preexisting(),
                compared.summary(),
                compared.findings[0].message
            );
            assert_eq!(shown, expected);
            assert!(compared.findings.len() <= MAX_FINDINGS);
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
        let named = || GateReport {
            cases: Some(TestCases { is_complete: true, ..TestCases::default() }),
            ..with(9, 0)
        };
        let unproved = Gate { proof: false, ..counted.clone() };
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
            // The proof compares the tests of the base by name.
            (&counted, named(), Some(with(10, 0)), "passed"),
            (&counted, named(), Some(failed(&["ImportError: deps"])), "passed"),
            (&unproved, named(), Some(with(10, 0)), "failed"),
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
            let compared = compare_with_base(gate, now, base.as_ref(), ProofMode::Full);
            assert_eq!(compared.outcome.name(), expected);
        }
    }

    /// Without a proof that decides, the count does.
    #[test]
    fn fewer_named_tests_fail_without_a_proof() {
        let counted = Gate { min_tests: MinTests::Baseline, ..sample_gate("tests", &["t"]) };
        let with = |run| GateReport {
            tests: Some(TestCounts { run, failed: 0, skipped: 0 }),
            cases: Some(TestCases { is_complete: true, ..TestCases::default() }),
            ..sample_report("tests", GateOutcome::Passed)
        };
        for (mode, expected) in
            [(ProofMode::Full, "passed"), (ProofMode::Tell, "failed"), (ProofMode::Off, "failed")]
        {
            let compared = compare_with_base(&counted, with(9), Some(&with(10)), mode);
            assert_eq!(compared.outcome.name(), expected);
        }
    }

    /// A different exit code counts as a new failure even if the findings are the same.
    #[test]
    fn another_exit_code_than_at_the_base_is_new() {
        let base = GateReport { exit: Some(1), ..failed(&["a"]) };
        let now = GateReport { exit: Some(2), ..failed(&["a"]) };
        assert!(
            compare_with_base(
                &sample_gate("tests", &["t"]),
                base.clone(),
                Some(&base),
                ProofMode::Off
            )
            .is_preexisting()
        );
        assert!(
            !compare_with_base(&sample_gate("tests", &["t"]), now, Some(&base), ProofMode::Off)
                .is_preexisting()
        );
    }
}
