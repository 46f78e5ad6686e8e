//! The result of `ralph verify-report`.

use ralph_attest::{CheckedStatement, RunPredicate, RunStatement, StatementCheck};
use serde::Serialize;

#[derive(Debug, Serialize)]
pub struct CheckedReportView<'a> {
    pub v: u8,
    /// Whether every check passed.
    pub valid: bool,
    pub checks: Vec<ReportCheckView<'a>>,
    /// The attested tree and commits; `null` if the signature is not valid.
    pub tree: Option<&'a str>,
    pub judged_commit: Option<&'a str>,
    pub landed_commit: Option<&'a str>,
    /// What the statement says, as it is in it.
    pub predicate: Option<&'a RunPredicate>,
}

#[derive(Debug, Serialize)]
pub struct ReportCheckView<'a> {
    pub name: &'a str,
    pub passed: bool,
    pub detail: &'a str,
    pub hint: Option<&'a str>,
}

pub fn checked_report_view(checked: &CheckedStatement) -> CheckedReportView<'_> {
    let statement = checked.statement.as_ref();
    CheckedReportView {
        v: 1,
        valid: checked.is_valid(),
        checks: checked.checks.iter().map(check_view).collect(),
        tree: statement.map(RunStatement::tree),
        judged_commit: statement.map(RunStatement::judged_commit),
        landed_commit: statement.and_then(RunStatement::landed_commit),
        predicate: statement.map(|statement| &statement.predicate),
    }
}

/// The result if the statement, the key or the repository cannot be read, so that nothing was checked.
pub fn unchecked_report_view<'a>(why: &'a str, hint: Option<&'a str>) -> CheckedReportView<'a> {
    CheckedReportView {
        v: 1,
        valid: false,
        checks: vec![ReportCheckView { name: "input", passed: false, detail: why, hint }],
        tree: None,
        judged_commit: None,
        landed_commit: None,
        predicate: None,
    }
}

fn check_view(check: &StatementCheck) -> ReportCheckView<'_> {
    ReportCheckView {
        name: check.name,
        passed: check.passed,
        detail: &check.detail,
        hint: check.hint.as_deref(),
    }
}
