//! Findings as lines of text.

use super::{MAX_FINDING_CHARS, MAX_NAME_CHARS, MAX_RULE_CHARS, safe_line};
use crate::redact::Redactor;
use crate::requirement::{Finding, FindingAge, FindingLocation, RequirementFailure};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;

const SHOWN_FINDINGS: usize = 5;

/// The first findings, and how many more there are.
pub(super) fn render_findings(failure: &RequirementFailure, redactor: &Redactor) -> String {
    let mut out = String::new();
    for line in finding_lines(failure, SHOWN_FINDINGS, redactor) {
        out.push_str(&line);
        out.push('\n');
    }
    let all = failure.findings.len().saturating_add(failure.unlisted);
    if all > SHOWN_FINDINGS {
        let _ = writeln!(out, "and {} more", all - SHOWN_FINDINGS.min(failure.findings.len()));
    }
    out
}

/// The first findings, each in one line.
pub(super) fn finding_lines(
    failure: &RequirementFailure,
    most: usize,
    redactor: &Redactor,
) -> Vec<String> {
    let shown = failure.findings.iter().take(most);
    shown.map(|finding| describe_finding(finding, redactor)).collect()
}

/// `add.sh:1:7: negative numbers are lost [sign]`
pub(crate) fn describe_finding(finding: &Finding, redactor: &Redactor) -> String {
    let mut out = String::new();
    if let Some(place) = &finding.place {
        out.push_str(&describe_place(place, redactor));
        if let (Some(_), Some(column)) = (place.line, place.column) {
            let _ = write!(out, ":{column}");
        }
        out.push_str(": ");
    }
    out.push_str(&safe_line(&finding.message, MAX_FINDING_CHARS, redactor));
    if let Some(rule) = &finding.rule {
        let _ = write!(out, " [{}]", safe_line(rule, MAX_RULE_CHARS, redactor));
    }
    if finding.since == FindingAge::PreExisting {
        out.push_str(" (pre-existing)");
    }
    out
}

/// `tests/test_cart.py:12`
pub(crate) fn describe_place(place: &FindingLocation, redactor: &Redactor) -> String {
    let mut out = safe_line(&place.file, MAX_NAME_CHARS, redactor);
    if let Some(line) = place.line {
        let _ = write!(out, ":{line}");
    }
    out
}
