//! What ralph runs for a judge, in checkouts of the candidate: gates that an agent judge asks for, and tests that
//! adversarial reviewers wrote. Nothing of it runs in the project.

use std::path::Path;

use ralph_core::gate::{Gate, GateOutcome, GateReport};
use ralph_core::judge::{CaseEvidence, Judge, JudgeFinding, JudgeUsage, ReviewTest};
use ralph_core::policy::Policy;
use ralph_core::requirement::Finding;
use ralph_core::text;
use ralph_gates::gates::ResultReuse;
use ralph_gates::gates::result_key::compile_globs;
use ralph_judge::{JudgeStep, JudgeSupport, TestTrial};
use ralph_proof::{
    AddedTest, AddedTestResult, CheckoutTree, ProofError, ProofRequest, run_in_checkout,
    try_added_test,
};
use ralph_sys::clock::Deadline;

const SHOWN_FINDINGS: usize = 3;
const MAX_FINDING_CHARS: usize = 200;
const MAX_REASON_CHARS: usize = 200;

/// Where gates run on a checkout of the candidate.
pub trait CandidateCheckouts: std::fmt::Debug {
    /// Calls `run` with a request for these gates, in a private directory that is removed afterwards. The error says why
    /// there is none.
    fn with_request(
        &self,
        gates: &[&Gate],
        deadline: Deadline,
        run: &mut dyn FnMut(&ProofRequest<'_>) -> Result<(), ProofError>,
    ) -> Result<(), String>;

    /// Shows a person the current step of this judge.
    fn report_progress(&self, judge: &str, step: &JudgeStep<'_>);

    /// As [`JudgeSupport::book_estimate`]. Without a run, no budget pays for a call.
    fn book_estimate(&self, _estimate: &JudgeUsage) {}

    fn book_cost(&self, _used: &JudgeUsage) {}
}

/// Runs gates and tests for one judge.
#[derive(Debug)]
pub struct CheckoutSupport<'a> {
    pub judge: &'a Judge,
    pub policy: &'a Policy,
    /// The approved gates that count for this change.
    pub gates: Vec<&'a Gate>,
    /// The results that are known already.
    pub evidence: &'a [CaseEvidence],
    /// The path of the project in the repository. Judges name files relative to the latter.
    pub project_below: &'a Path,
    pub checkouts: &'a dyn CandidateCheckouts,
}

impl CheckoutSupport<'_> {
    fn run_in_checkout(&self, gate: &Gate, deadline: Deadline) -> Result<GateReport, String> {
        let left_ms = u64::try_from(deadline.remaining().as_millis()).unwrap_or(u64::MAX);
        if gate.is_ci() || left_ms == 0 {
            return Err("it cannot run in a checkout".to_string());
        }
        let gate = Gate { timeout_ms: gate.timeout_ms.min(left_ms), ..gate.clone() };
        let protected = compile_globs(&self.policy.protect.paths);
        let mut report = None;
        self.checkouts.with_request(&[&gate], deadline, &mut |request| {
            let fresh = ProofRequest { reuse: ResultReuse::Never, ..*request };
            let tree = CheckoutTree::Candidate { protected: &protected };
            report = run_in_checkout(&fresh, tree, &|_| None)?.into_iter().next();
            Ok(())
        })?;
        let report = report.ok_or("it did not run")?;
        match &report.outcome {
            GateOutcome::Passed | GateOutcome::Failed => Ok(report),
            GateOutcome::Unknown(reason) => Err(reason.describe()),
        }
    }

    fn try_in_checkout(&self, test: &AddedTest<'_>, deadline: Deadline) -> TestTrial {
        let gates: Vec<Gate> = self
            .gates
            .iter()
            .filter(|gate| gate.takes_part_in_proof())
            .map(|gate| gate.without_coverage_conditions())
            .collect();
        let gates: Vec<&Gate> = gates.iter().collect();
        let mut result = None;
        let ran = self.checkouts.with_request(&gates, deadline, &mut |request| {
            result = Some(try_added_test(request, test, deadline)?);
            Ok(())
        });
        match (ran, result) {
            (Ok(()), Some(AddedTestResult::Fails(how))) => TestTrial::Fails(how),
            (Ok(()), Some(AddedTestResult::Passes)) => TestTrial::Passes,
            (Err(why), _) | (Ok(()), Some(AddedTestResult::Rejected(why))) => {
                TestTrial::Rejected(why)
            }
            (Ok(()), None) => TestTrial::Rejected("it did not run".to_string()),
        }
    }
}

impl JudgeSupport for CheckoutSupport<'_> {
    fn report_progress(&self, step: &JudgeStep<'_>) {
        self.checkouts.report_progress(&self.judge.name, step);
    }

    fn book_estimate(&self, estimate: &JudgeUsage) {
        self.checkouts.book_estimate(estimate);
    }

    fn book_cost(&self, used: &JudgeUsage) {
        self.checkouts.book_cost(used);
    }

    fn gate_names(&self) -> Vec<String> {
        self.gates.iter().map(|gate| gate.name.clone()).collect()
    }

    fn run_gate(&self, name: &str, deadline: Deadline) -> Option<CaseEvidence> {
        let gate = self.gates.iter().find(|gate| gate.name == name)?;
        let known = self.evidence.iter().find(|one| one.requirement == name);
        let result = match (self.run_in_checkout(gate, deadline), known) {
            (Ok(report), _) => format!("{} (run in a checkout of the change)", describe(&report)),
            (Err(why), Some(known)) => {
                let why = text::clean_line(&why, MAX_REASON_CHARS);
                format!("{} (at this stop; not run again: {why})", known.result)
            }
            (Err(why), None) => {
                format!("no result: {}", text::clean_line(&why, MAX_REASON_CHARS))
            }
        };
        Some(CaseEvidence { requirement: name.to_string(), result })
    }

    fn runs_tests(&self) -> bool {
        self.judge.tests
    }

    fn try_test(&self, finding: &JudgeFinding, test: &ReviewTest, deadline: Deadline) -> TestTrial {
        let inside = |path: &'_ str| -> Option<String> {
            let below = Path::new(path).strip_prefix(self.project_below).ok()?;
            below.to_str().map(ToString::to_string)
        };
        let (Some(path), Some(about)) = (inside(&test.path), inside(&finding.file)) else {
            return TestTrial::Rejected("it is outside of the project".to_string());
        };
        let test = AddedTest { path: &path, content: &test.content, about: &about };
        self.try_in_checkout(&test, deadline)
    }
}

/// `passed, 148 tests`, `failed, 2 of 148 tests failed: src/a.rs:3: expected 1; …`
fn describe(report: &GateReport) -> String {
    let tests = report.tests.map(|tests| text::count_noun(tests.run, "test"));
    if report.outcome == GateOutcome::Passed {
        return tests.map_or_else(|| "passed".to_string(), |tests| format!("passed, {tests}"));
    }
    let finding = |one: &Finding| {
        let place = one.place.as_ref().map(|place| {
            let line = place.line.map(|line| format!(":{line}")).unwrap_or_default();
            format!("{}{line}: ", place.file)
        });
        let shown = format!("{}{}", place.unwrap_or_default(), one.message);
        text::clean_line(&shown, MAX_FINDING_CHARS)
    };
    let findings: Vec<String> = report.findings.iter().take(SHOWN_FINDINGS).map(finding).collect();
    if findings.is_empty() {
        return format!("failed, {}", report.summary());
    }
    format!("failed, {}: {}", report.summary(), findings.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ralph_core::requirement::FindingLocation;
    use ralph_gates::gates::testing::sample_report;

    #[test]
    fn a_result_for_a_judge_has_the_first_findings() {
        let place = FindingLocation { file: "a.sh".to_string(), line: Some(3), column: None };
        let finding = |message: &str| Finding {
            place: Some(place.clone()),
            ..Finding::new(message.to_string())
        };
        let failed = GateReport {
            findings: ["one\u{1b}[2J", "two", "three", "four"].map(finding).to_vec(),
            finding_count: 4,
            ..sample_report("suite", GateOutcome::Failed)
        };
        assert_eq!(
            describe(&failed),
            "failed, 4 findings: a.sh:3: one; a.sh:3: two; a.sh:3: three"
        );
        assert_eq!(describe(&sample_report("suite", GateOutcome::Passed)), "passed");
    }
}
