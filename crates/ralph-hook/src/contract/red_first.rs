//! Red first: a new test proves something only if it fails without the change, and fails by an assertion rather than
//! because the code it needs does not exist yet.

use ralph_core::gate::{Gate, GateOutcome, GateReport};
use ralph_core::policy::RedFirst;
use ralph_core::requirement::{
    EvidenceKind, Finding, PendingReason, Requirement, RequirementFailure, RequirementStatus,
};

use super::change_summary::CandidateCheckpoint;
use super::gate_query::{GateQuery, GatesNotRun, WorkerWait};
use super::gate_worker::{GateSite, WorkerState};
use super::{ContractContext, baseline, checkout_results, contract_requirement as required};
use ralph_gates::gates::GateContent;
use ralph_gates::gates::result_cache::CachedResult;

const RED_FIRST: &str = "red first";
const RED_FIRST_NEXT: &str = "Add a test whose assertions fail without your change";

pub(super) fn red_first_requirement(
    contract: &ContractContext<'_>,
    candidate: &CandidateCheckpoint,
    wanted: &[&Gate],
    new_tests: &[String],
) -> Vec<Requirement> {
    if contract.seal.policy.tests.red_first == RedFirst::Optional {
        return Vec::new();
    }
    if new_tests.is_empty() {
        return vec![red_first_unmet("no test was added", Vec::new())];
    }
    let Some(content) = checkout_results::present_content(contract, GateSite::Red, candidate)
    else {
        let why = "without git there is no base to run new tests on";
        return vec![required(RED_FIRST, RequirementStatus::Unknown(why.to_string()), "")];
    };
    let place = contract.gate_place(GateContent::Checkout(content));
    let query = GateQuery {
        contract,
        wanted,
        place: &place,
        site: GateSite::Red,
        listing: None,
        wait: WorkerWait::UntilAnswer,
        changed: None,
    };
    let settled = query.open_cache().map_err(GatesNotRun::from);
    let requirement = match settled.and_then(|cache| query.resolve(&cache)) {
        Err(GatesNotRun::Unknown(why) | GatesNotRun::NotRun(why)) => {
            required(RED_FIRST, RequirementStatus::Unknown(why), "")
        }
        Ok((_, WorkerState::Running)) => {
            let why = "new tests are running at the base".to_string();
            let next = "Wait for the gates with `ralph wait`";
            required(RED_FIRST, RequirementStatus::Pending(PendingReason::Running(why)), next)
        }
        Ok((board, WorkerState::Done)) => {
            let reports: Vec<GateReport> = board
                .0
                .into_values()
                .filter_map(|known| match known.result {
                    CachedResult::Result(report) => Some(*report),
                    CachedResult::Running | CachedResult::Missing => None,
                })
                .collect();
            judge_red_reports(&reports, new_tests)
        }
    };
    vec![requirement]
}

/// Judges the gate results of the base with the new tests.
fn judge_red_reports(reports: &[GateReport], new_tests: &[String]) -> Requirement {
    let is_about = |finding: &&Finding| {
        let named = finding.rule.as_deref().unwrap_or(&finding.message);
        new_tests.iter().any(|test| named.contains(test.as_str()))
    };
    let asserts = |finding: &&Finding| !baseline::failed_to_start(finding);
    let failed = reports.iter().filter(|report| report.outcome == GateOutcome::Failed);
    let ran = failed.filter(|report| report.tests.is_some_and(|tests| tests.run > 0));
    let red: Vec<&Finding> = ran.flat_map(|report| &report.findings).filter(is_about).collect();
    if red.iter().any(asserts) {
        return required(RED_FIRST, RequirementStatus::Met(EvidenceKind::Measured), "");
    }
    if !red.is_empty() {
        let findings = red.into_iter().cloned().collect();
        return red_first_unmet(
            "new tests fail at the base with an error, not an assertion",
            findings,
        );
    }
    let broken = reports.iter().any(|report| report.outcome != GateOutcome::Passed);
    let why = if broken {
        "new tests cannot be run at the base, so nothing shows that they fail there"
    } else {
        "all new tests pass at the base: they do not test the change"
    };
    red_first_unmet(why, Vec::new())
}

fn red_first_unmet(why: &str, findings: Vec<Finding>) -> Requirement {
    required(
        RED_FIRST,
        RequirementStatus::Unmet(RequirementFailure {
            findings,
            ..RequirementFailure::new(why.to_string())
        }),
        RED_FIRST_NEXT,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use ralph_core::gate::{TestCounts, UnknownReason};
    use ralph_gates::gates::testing::sample_report;

    fn failed(run: u32, rule: &str, message: &str) -> GateReport {
        let finding = Finding { rule: Some(rule.into()), ..Finding::new(message.into()) };
        GateReport {
            findings: vec![finding],
            finding_count: 1,
            tests: Some(TestCounts { run, failed: 1, skipped: 0 }),
            ..sample_report("tests", GateOutcome::Failed)
        }
    }

    /// R-S5b: a new test must fail at the base by an assertion; other failures do not count.
    #[test]
    fn a_new_test_must_fail_by_an_assertion() {
        let missing = GateOutcome::Unknown(UnknownReason::Error("no such program".into()));
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
                vec![sample_report("tests", missing)],
                "new tests cannot be run at the base, so nothing shows that they fail there",
            ),
            (
                vec![sample_report("tests", GateOutcome::Passed)],
                "all new tests pass at the base: they do not test the change",
            ),
            (
                vec![
                    sample_report("lint", GateOutcome::Passed),
                    failed(1, "quotes", "expected 3, got 2"),
                ],
                "met",
            ),
        ] {
            let result = match judge_red_reports(&reports, &["quotes".to_string()]).status {
                RequirementStatus::Met(_) => "met".to_string(),
                RequirementStatus::Unmet(failure) => failure.summary,
                RequirementStatus::Unknown(_) | RequirementStatus::Pending(_) => {
                    "unknown".to_string()
                }
            };
            assert_eq!(result, expected, "{reports:?}");
        }
    }
}
