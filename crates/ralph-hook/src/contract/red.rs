//! Red first: a new test proves something only if it fails without the change, and fails by an assertion rather than
//! because the code it needs does not exist yet.

use ralph_core::gate::{Gate, GateReport, Outcome};
use ralph_core::policy::RedFirst;
use ralph_core::requirement::{Evidence, Failure, Finding, Pending, Requirement, Standing};

use super::gates::{Inquiry, Unsettled};
use super::look::Candidate;
use super::work::{Left, Where};
use super::{Contract, baseline, checkout, requirement as required};
use ralph_gates::gates::cache::Known;
use ralph_gates::gates::{Content, Place};

const NAME: &str = "red first";
const NEXT: &str = "Add a test whose assertions fail without your change";

pub(super) fn requirement(
    contract: &Contract<'_>,
    candidate: &Candidate,
    (wanted, new_tests): (&[&Gate], &[String]),
) -> Vec<Requirement> {
    if contract.seal.policy.tests.red_first == RedFirst::Optional {
        return Vec::new();
    }
    if new_tests.is_empty() {
        return vec![unmet("no test was added", Vec::new())];
    }
    let Some(content) = checkout::content_of(contract, Where::Red, candidate) else {
        let why = "without git there is no base to run new tests on";
        return vec![required(NAME, Standing::Unknown(why.to_string()), "")];
    };
    let project = checkout::project(contract);
    let place = Place { project: &project, ..contract.place(Content::Checkout(content)) };
    let inquiry = Inquiry { contract, wanted, place: &place, site: Where::Red, listing: None };
    let settled = inquiry.cache().map_err(Unsettled::from);
    let requirement = match settled.and_then(|cache| inquiry.settle(&cache)) {
        Err(Unsettled::Unknown(why) | Unsettled::NotRun(why)) => {
            required(NAME, Standing::Unknown(why), "")
        }
        Ok((_, Left::Running)) => {
            let why = "new tests are running at the base".to_string();
            let next = "Wait for the gates with `ralph gate wait`";
            required(NAME, Standing::Pending(Pending::Running(why)), next)
        }
        Ok((board, Left::Done)) => {
            let reports: Vec<GateReport> = board
                .0
                .into_values()
                .filter_map(|known| match known {
                    Known::Result(report) => Some(*report),
                    Known::Running | Known::Nothing => None,
                })
                .collect();
            judged(&reports, new_tests)
        }
    };
    vec![requirement]
}

/// Judges the gate results of the base with the new tests.
fn judged(reports: &[GateReport], new_tests: &[String]) -> Requirement {
    let is_about = |finding: &&Finding| {
        let named = finding.rule.as_deref().unwrap_or(&finding.message);
        new_tests.iter().any(|test| named.contains(test.as_str()))
    };
    let asserts = |finding: &&Finding| !baseline::never_began(finding);
    let failed = reports.iter().filter(|report| report.outcome == Outcome::Failed);
    let ran = failed.filter(|report| report.tests.is_some_and(|tests| tests.run > 0));
    let red: Vec<&Finding> = ran.flat_map(|report| &report.findings).filter(is_about).collect();
    if red.iter().any(asserts) {
        return required(NAME, Standing::Met(Evidence::Measured), "");
    }
    if !red.is_empty() {
        let findings = red.into_iter().cloned().collect();
        return unmet("new tests fail at the base with an error, not an assertion", findings);
    }
    let broken = reports.iter().any(|report| report.outcome != Outcome::Passed);
    let why = if broken {
        "new tests cannot be run at the base, so nothing shows that they fail there"
    } else {
        "all new tests pass at the base: they do not test the change"
    };
    unmet(why, Vec::new())
}

fn unmet(why: &str, findings: Vec<Finding>) -> Requirement {
    required(NAME, Standing::Unmet(Failure { findings, ..Failure::new(why.to_string()) }), NEXT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ralph_core::gate::{Tests, Unknown};
    use ralph_gates::gates::testing::report;

    fn failed(run: u32, rule: &str, message: &str) -> GateReport {
        let finding = Finding { rule: Some(rule.into()), ..Finding::new(message.into()) };
        GateReport {
            findings: vec![finding],
            finding_count: 1,
            tests: Some(Tests { run, failed: 1, skipped: 0 }),
            ..report("tests", Outcome::Failed)
        }
    }

    /// R-S5b: a new test must fail at the base by an assertion; other failures do not count.
    #[test]
    fn a_new_test_must_fail_by_an_assertion() {
        let missing = Outcome::Unknown(Unknown::Error("no such program".into()));
        for (reports, expected) in [
            (vec![failed(3, "tests::quotes", "assertion failed")], "met"),
            (
                vec![failed(3, "test_app.py::quotes", "ImportError: cannot import name 'x'")],
                "new tests fail at the base with an error, not an assertion",
            ),
            (
                vec![failed(3, "tests::other", "assertion failed")],
                "new tests cannot be run at the base, so nothing shows that they fail there",
            ),
            (
                vec![failed(0, "quotes", "error[E0425]")],
                "new tests cannot be run at the base, so nothing shows that they fail there",
            ),
            (
                vec![report("tests", missing)],
                "new tests cannot be run at the base, so nothing shows that they fail there",
            ),
            (
                vec![report("tests", Outcome::Passed)],
                "all new tests pass at the base: they do not test the change",
            ),
            (
                vec![report("lint", Outcome::Passed), failed(1, "quotes", "expected 3, got 2")],
                "met",
            ),
        ] {
            let result = match judged(&reports, &["quotes".to_string()]).standing {
                Standing::Met(_) => "met".to_string(),
                Standing::Unmet(failure) => failure.summary,
                Standing::Unknown(_) | Standing::Pending(_) => "unknown".to_string(),
            };
            assert_eq!(result, expected, "{reports:?}");
        }
    }
}
