//! What a report of a gate says.

use super::TOO_MANY_RULE;
use super::{Gate, GateOutcome, GateReport, ResultStability, TestCounts, UnknownReason};
use crate::coverage::{COVERAGE_FELL_RULE, LOW_COVERAGE_RULE};
use crate::requirement::{Finding, FindingAge, RequirementFailure};
use crate::text;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

impl GateReport {
    /// The report of a gate that was not run.
    pub fn unknown(gate: &Gate, unknown: UnknownReason, at_ms: u64) -> Self {
        Self::new(&gate.name, GateOutcome::Unknown(unknown), at_ms)
    }

    /// A report without findings, counts and log.
    pub fn new(gate: &str, outcome: GateOutcome, at_ms: u64) -> Self {
        Self {
            name: gate.into(),
            outcome,
            findings: Vec::new(),
            more_findings: Vec::new(),
            finding_count: 0,
            has_gaps: false,
            tests: None,
            cases: None,
            coverage: None,
            exit: None,
            steadiness: ResultStability::Once,
            took_ms: 0,
            at_ms,
            log: None,
        }
    }

    /// Whether its program ran to its end, and gave no result because a file, target or script that the command names does
    /// not exist. A missing program (126, 127) is another matter, and so is a signal.
    pub fn lacks_named_file(&self) -> bool {
        matches!(self.outcome, GateOutcome::Unknown(UnknownReason::Error(_)))
            && self.exit.is_some_and(|code| (1..126).contains(&code))
    }

    /// Whether it passed, and ran at least one test to do so.
    pub fn has_passed_tests(&self) -> bool {
        let is_named = self.cases.as_ref().is_some_and(|cases| !cases.passed.is_empty());
        let is_counted = self.tests.is_some_and(|tests| tests.run > 0);
        self.outcome == GateOutcome::Passed && (is_named || is_counted)
    }

    /// All findings that are known, with those that are not shown.
    pub fn all_findings(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().chain(&self.more_findings)
    }

    /// Whether the base has all findings too. Only true if no finding was dropped.
    pub fn is_preexisting(&self) -> bool {
        !self.findings.is_empty()
            && !self.has_gaps
            && usize::try_from(self.finding_count) == Ok(self.all_findings().count())
            && self.all_findings().all(|finding| finding.since == FindingAge::PreExisting)
    }

    /// The finding that a condition of the policy is not met: `coverage is 71 % (15 of 21 lines), 80 % is required`.
    fn unmet_condition(&self) -> Option<usize> {
        let rules = [LOW_COVERAGE_RULE, COVERAGE_FELL_RULE, TOO_MANY_RULE];
        let is_condition =
            |one: &Finding| one.rule.as_deref().is_some_and(|rule| rules.contains(&rule));
        let has_failed = self.tests.is_some_and(|tests| tests.failed > 0);
        self.findings.iter().position(is_condition).filter(|_| !has_failed)
    }

    /// The findings beside the summary, which may be one of them.
    pub fn shown_findings(&self) -> impl Iterator<Item = &Finding> {
        let summary = self.unmet_condition();
        let findings = self.findings.iter().enumerate();
        findings.filter(move |(at, _)| Some(*at) != summary).map(|(_, finding)| finding)
    }

    /// How many findings there are beside the summary.
    pub fn shown_count(&self) -> u32 {
        self.finding_count.saturating_sub(u32::from(self.unmet_condition().is_some()))
    }

    /// `2 of 148 tests failed`, `3 findings`, `exit code 1`.
    pub fn summary(&self) -> String {
        let condition = self.unmet_condition().and_then(|at| self.findings.get(at));
        let counted = match (self.tests, self.finding_count) {
            (Some(TestCounts { run, failed, .. }), _) if failed > 0 => {
                format!("{failed} of {} failed", text::count_noun(run, "test"))
            }
            (_, _) if condition.is_some() => {
                condition.map(|finding| finding.message.clone()).unwrap_or_default()
            }
            (_, 0) => match self.exit {
                Some(code) => format!("exit code {code}"),
                None => "failed".to_string(),
            },
            (_, count) => text::count_noun(count, "finding"),
        };
        let is_old = |one: &&Finding| one.since == FindingAge::PreExisting;
        let old = self.all_findings().filter(is_old).count();
        if old == 0 { counted } else { format!("{counted}, {old} pre-existing") }
    }

    pub fn failure(&self) -> RequirementFailure {
        let mut findings: Vec<Finding> = self.shown_findings().cloned().collect();
        // New findings first: the agent caused them and can fix them.
        findings.sort_by_key(|finding| finding.since == FindingAge::PreExisting);
        let count = usize::try_from(self.shown_count()).unwrap_or(usize::MAX);
        RequirementFailure {
            summary: self.summary(),
            unlisted: count.saturating_sub(findings.len()),
            findings,
            quote: None,
            log: self.log.clone(),
        }
    }
}
