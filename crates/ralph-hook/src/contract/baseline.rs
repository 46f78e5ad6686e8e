//! Compares gate results with those at the base of the run. A failure that the base has too is labelled `pre-existing`,
//! and a pass with fewer tests than at the base does not count.

use ralph_core::gate::{Gate, GateReport, MinTests, Outcome, Unknown};
use ralph_core::requirement::{Finding, Since};

use ralph_gates::findings::signature;

/// Messages that tools print when a test could not start.
const NOT_AN_ASSERTION: [&str; 12] = [
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

pub(super) fn never_began(finding: &Finding) -> bool {
    NOT_AN_ASSERTION.iter().any(|words| finding.message.contains(words))
}

/// Whether a comparison with the base could change this result.
pub(super) fn is_wanted(gate: &Gate, report: &GateReport) -> bool {
    match report.outcome {
        Outcome::Failed => true,
        Outcome::Passed => gate.min_tests == MinTests::Baseline,
        Outcome::Unknown(_) => false,
    }
}

/// The result, labelled and corrected by comparison with the base. `base` is `None` if the gate could not run there.
pub(super) fn compared(
    gate: &Gate,
    mut report: GateReport,
    base: Option<&GateReport>,
) -> GateReport {
    match (&report.outcome, base) {
        (Outcome::Failed, Some(base)) => {
            label(&mut report.findings, base);
            if let (Outcome::Failed, true) = (&base.outcome, base.exit != report.exit) {
                let what = "its exit code differs from the one at the base of the run";
                add(&mut report, "other-end", what.to_string());
            }
        }
        (Outcome::Passed, base) if gate.min_tests == MinTests::Baseline => {
            match enough(&report, base) {
                Ok(()) => {}
                Err(Few::Tests(what)) => {
                    report.findings.clear();
                    report.finding_count = 0;
                    report.outcome = Outcome::Failed;
                    add(&mut report, "fewer-tests", what);
                }
                Err(Few::NotKnown(why)) => {
                    report.outcome = Outcome::Unknown(Unknown::Inconclusive(why));
                }
            }
        }
        (Outcome::Failed | Outcome::Passed | Outcome::Unknown(_), _) => {}
    }
    report
}

enum Few {
    Tests(String),
    NotKnown(String),
}

/// Rejects a pass with fewer tests than at the base, and one that cannot be compared.
fn enough(report: &GateReport, base: Option<&GateReport>) -> Result<(), Few> {
    let hint = "list its dependencies in `[verify] link`, or set `min_tests` to a number";
    let Some(base) = base else {
        return Err(Few::NotKnown(format!("it could not run at the base; {hint}")));
    };
    if let Outcome::Unknown(unknown) = &base.outcome {
        let why = match unknown {
            Unknown::Error(why) | Unknown::Inconclusive(why) | Unknown::Skipped(why) => why,
            Unknown::Timeout { .. } | Unknown::Untrusted => unknown.name(),
        };
        return Err(Few::NotKnown(format!("it gave no result at the base ({why}); {hint}")));
    }
    if let (Outcome::Failed, Some(first)) = (&base.outcome, base.findings.first())
        && base.findings.iter().all(never_began)
    {
        let why = ralph_core::text::line(&first.message, 80);
        return Err(Few::NotKnown(format!("its tests did not start at the base ({why}); {hint}")));
    }
    let Some(then) = base.tests else {
        // A base that does not compile has no tests to count. One that failed otherwise may lack a dependency there.
        return match (&base.outcome, report.tests) {
            (Outcome::Failed, Some(_)) if base.findings.iter().all(|one| one.place.is_none()) => {
                Err(Few::NotKnown(format!("no tests were counted at the base; {hint}")))
            }
            (Outcome::Failed | Outcome::Passed | Outcome::Unknown(_), _) => Ok(()),
        };
    };
    match report.tests {
        Some(now) if now.run >= then.run => Ok(()),
        Some(now) => Err(Few::Tests(format!(
            "tests run: {} now, {} at the base of the run",
            now.run, then.run
        ))),
        None => Err(Few::Tests(format!(
            "tests run: none counted now, {} at the base of the run",
            then.run
        ))),
    }
}

fn add(report: &mut GateReport, rule: &str, what: String) {
    let finding = Finding { rule: Some(rule.to_string()), since: Since::New, ..Finding::new(what) };
    report.findings.push(finding);
    report.finding_count = report.finding_count.saturating_add(1);
}

fn label(findings: &mut [Finding], base: &GateReport) {
    match &base.outcome {
        Outcome::Passed => findings.iter_mut().for_each(|finding| finding.since = Since::New),
        Outcome::Failed => {
            let mut old: Vec<_> = base.findings.iter().map(signature).collect();
            for finding in findings {
                // Each finding at the base matches one finding now; a second equal finding is new.
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
    use ralph_core::gate::Tests;
    use ralph_core::requirement::Place;
    use ralph_gates::gates::testing::{gate, report};

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

    /// R-L7d: the same failure at the base is `pre-existing`, any other is new, and a base without a result leaves the
    /// label unknown.
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

    /// R-S5a: fewer tests than at the base is a failure even if all of them pass; a base without a result makes the
    /// gate inconclusive, not passed.
    #[test]
    fn fewer_tests_than_at_the_base_fail() {
        let counted = Gate { min_tests: MinTests::Baseline, ..gate("tests", &["t"]) };
        let with = |run, skipped| GateReport {
            tests: Some(Tests { run, failed: 0, skipped }),
            ..report("tests", Outcome::Passed)
        };
        let none = || report("tests", Outcome::Passed);
        let place = Some(Place { file: "src/lib.rs".into(), line: Some(3), column: None });
        let error = Finding { place, ..Finding::new("expected `;`".into()) };
        let uncompiled = GateReport { findings: vec![error], ..report("tests", Outcome::Failed) };
        let broken = report("tests", Outcome::Unknown(Unknown::Error("no such module".into())));
        for (gate, now, base, expected) in [
            (&counted, with(9, 0), Some(with(10, 0)), "failed"),
            (&counted, with(9, 1), Some(with(10, 0)), "failed"),
            (&counted, none(), Some(with(10, 0)), "failed"),
            (&counted, with(10, 2), Some(with(10, 0)), "passed"),
            (&counted, with(11, 1), Some(with(10, 0)), "passed"),
            (&counted, with(9, 0), Some(report("tests", Outcome::Failed)), "inconclusive"),
            (&counted, with(9, 0), Some(uncompiled), "passed"),
            (&counted, none(), Some(none()), "passed"),
            (&counted, with(9, 0), Some(broken), "inconclusive"),
            (&counted, with(9, 0), Some(failed(&["ImportError: deps"])), "inconclusive"),
            (&counted, with(9, 0), None, "inconclusive"),
            (&self::gate("tests", &["t"]), with(9, 0), Some(with(10, 0)), "passed"),
        ] {
            assert_eq!(compared(gate, now, base.as_ref()).outcome.name(), expected);
        }
    }

    /// A different exit code counts as a new failure even if the findings are the same.
    #[test]
    fn another_exit_code_than_at_the_base_is_new() {
        let base = GateReport { exit: Some(1), ..failed(&["a"]) };
        let now = GateReport { exit: Some(2), ..failed(&["a"]) };
        assert!(compared(&gate("tests", &["t"]), base.clone(), Some(&base)).is_old());
        assert!(!compared(&gate("tests", &["t"]), now, Some(&base)).is_old());
    }
}
