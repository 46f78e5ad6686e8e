//! Compares the coverage that a gate measured with the base of the run, and with the lines that the run changed.

use ralph_check::{Language, MovedLines, find_changed_code};
use ralph_core::coverage::{
    COVERAGE_FELL_RULE, ChangeCoverage, ChangedLines, CoverageCount, LOW_COVERAGE_RULE,
    MeasuredCoverage, NOT_COVERED_RULE,
};
use ralph_core::gate::{Gate, GateOutcome, GateReport, MAX_FINDINGS, UnknownReason};
use ralph_core::line_set::LineSet;
use ralph_core::policy::Policy;
use ralph_core::requirement::{Finding, FindingAge};
use ralph_gates::gates::result_key::compile_globs;
use ralph_proof::tree_changes::{FileChangeKind, TreeChanges};
use ralph_proof::{ClassRules, FileClass, classify_file};

/// The lines of code that the run changed; empty if no gate compares its coverage with them. Tests run themselves, so their
/// lines would raise the share of any change.
pub(super) fn find_changed_lines(policy: &Policy, tree: &TreeChanges) -> Vec<ChangedLines> {
    if policy.gates.iter().all(|gate| gate.coverage.min_changed.is_none()) {
        return Vec::new();
    }
    let rules = ClassRules::new(policy, Vec::new());
    let texts = tree.texts();
    let moved = MovedLines::new(&texts);
    let is_code = |path: &str| classify_file(path, &rules).class == FileClass::Code;
    let changed = texts.iter().filter(|text| is_code(text.path)).filter_map(|text| {
        let changed = find_changed_code(text, &moved);
        let exclusions = changed.exclusions.iter().map(|one| (one.line, one.mark.to_string()));
        (!changed.lines.is_empty()).then(|| ChangedLines {
            path: text.path.to_string(),
            lines: LineSet::from_lines(changed.lines),
            code: LineSet::from_lines(changed.code),
            script_ending: changed.script_ending.map(str::to_string),
            exclusions: exclusions.collect(),
            excluded_code: LineSet::from_lines(changed.excluded_code),
            line_count: changed.line_count,
            // Tools count such a line as two, and we as one.
            unreadable: has_lone_return(text.after.unwrap_or_default())
                .then(|| "it has line ends that tools count differently".to_string()),
        })
    });
    let unreadable = tree.all.iter().filter(|file| {
        !file.is_text() && file.kind != FileChangeKind::Deleted && is_code(&file.path)
    });
    let unreadable = unreadable.map(|file| ChangedLines {
        path: file.path.clone(),
        lines: LineSet::default(),
        code: LineSet::default(),
        script_ending: None,
        exclusions: Vec::new(),
        excluded_code: LineSet::default(),
        line_count: 0,
        unreadable: Some("it is not text, or too large".to_string()),
    });
    changed.chain(unreadable).collect()
}

/// Whether a carriage return ends a line on its own.
fn has_lone_return(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.iter().enumerate().any(|(at, byte)| *byte == b'\r' && bytes.get(at + 1) != Some(&b'\n'))
}

/// Whether the report has files of the language of this one.
fn is_measured(coverage: &MeasuredCoverage, change: &ChangedLines) -> bool {
    let script = change.script_ending.as_ref().map(|ending| format!("script.{ending}"));
    let path = script.as_deref().unwrap_or(&change.path);
    let extension = |path: &str| path.rsplit_once('.').map(|(_, end)| end.to_owned());
    let language = Language::of_name(path);
    let is_known = !matches!(language, Language::Unknown | Language::Prose);
    coverage.files.keys().any(|known| {
        if is_known {
            Language::of_name(known) == language
        } else {
            extension(known) == extension(path)
        }
    })
}

/// Why a pass does not count.
pub(super) enum CoverageProblem {
    Fell(String),
    Unknown(String),
}

/// Rejects coverage that is smaller than at the base, and coverage that cannot be compared.
pub(super) fn check_ratchet(
    report: &GateReport,
    base: Option<&GateReport>,
) -> Result<(), CoverageProblem> {
    let unknown = |why: &str| {
        let hint = "list its dependencies in `[verify] link`, or set `min_coverage` instead of `coverage_ratchet`";
        Err(CoverageProblem::Unknown(format!("{why}; {hint}")))
    };
    let Some(base) = base else { return unknown("its coverage at the base is not known") };
    match &base.outcome {
        // A base without tests covers nothing.
        GateOutcome::Unknown(UnknownReason::NoTests(_)) => return Ok(()),
        GateOutcome::Unknown(why) => {
            return unknown(&format!("it gave no result at the base ({})", why.describe()));
        }
        GateOutcome::Passed | GateOutcome::Failed => {}
    }
    let Some(then) = base.coverage.as_deref().map(MeasuredCoverage::count) else {
        return unknown("its coverage was not measured at the base");
    };
    let now = report.coverage.as_deref().map(MeasuredCoverage::count).unwrap_or_default();
    if now.is_below(then) {
        let (now, then) = (now.describe(), then.describe());
        return Err(CoverageProblem::Fell(format!(
            "coverage is {now}, it was {then} at the base of the run"
        )));
    }
    Ok(())
}

pub(super) fn fell_finding(what: String) -> Finding {
    Finding { rule: Some(COVERAGE_FELL_RULE.into()), since: FindingAge::New, ..Finding::new(what) }
}

/// The share of the change that the tests of a gate run. `None` if the gate does not ask for it, or has no coverage.
fn change_coverage(
    gate: &Gate,
    report: &GateReport,
    changed: Option<&[ChangedLines]>,
) -> Option<Result<ChangeCoverage, String>> {
    gate.coverage.min_changed?;
    let measured = report.coverage.as_deref()?;
    let excluded = compile_globs(&gate.coverage.exclude);
    Some(match changed {
        Some(changed) => {
            let is_excluded = |path: &str| excluded.is_match(path);
            measured.of_change(changed, &is_excluded, &|change| is_measured(measured, change))
        }
        None => Err("the lines that the run changed are not known".to_string()),
    })
}

/// How much of the change the tests of a gate run, for the journal.
pub(super) fn changed_count(
    gate: &Gate,
    report: &GateReport,
    changed: Option<&[ChangedLines]>,
) -> Option<CoverageCount> {
    change_coverage(gate, report, changed)?.ok().map(|coverage| coverage.count)
}

/// Whether the gate failed by a condition on its coverage alone.
fn lacks_coverage(report: &GateReport) -> bool {
    let rules = [LOW_COVERAGE_RULE, COVERAGE_FELL_RULE, NOT_COVERED_RULE];
    let is_condition = |rule: &str| rules.contains(&rule);
    report.outcome == GateOutcome::Failed
        && report.all_findings().all(|one| one.rule.as_deref().is_some_and(is_condition))
}

/// The result, corrected by the coverage of the lines that the run changed. Only a pass can become worse, and coverage
/// that is too low is explained by those lines.
pub(super) fn judge_changed_lines(
    gate: &Gate,
    mut report: GateReport,
    changed: Option<&[ChangedLines]>,
) -> GateReport {
    let Some(least) = gate.coverage.min_changed else { return report };
    if report.outcome != GateOutcome::Passed && !lacks_coverage(&report) {
        return report;
    }
    let known = std::mem::take(&mut report.findings);
    match change_coverage(gate, &report, changed) {
        Some(Ok(ChangeCoverage { count, .. })) if count.reaches(least) => report.findings = known,
        Some(Ok(ChangeCoverage { count, findings })) => {
            let share = count.describe();
            let what = format!(
                "coverage of the changed lines is {share}, {} is required",
                least.describe()
            );
            let first = Finding { rule: Some(LOW_COVERAGE_RULE.into()), ..Finding::new(what) };
            // The lines of the change explain more than the files with the most lines that no test runs.
            let is_kept = |one: &Finding| {
                report.outcome == GateOutcome::Failed
                    && one.rule.as_deref() != Some(NOT_COVERED_RULE)
            };
            let known = known.into_iter().filter(is_kept);
            let mut all: Vec<Finding> = known.chain([first]).chain(findings).collect();
            for finding in &mut all {
                finding.since = FindingAge::New;
            }
            report.finding_count = u32::try_from(all.len()).unwrap_or(u32::MAX);
            report.more_findings = all.split_off(all.len().min(MAX_FINDINGS));
            report.findings = all;
            report.outcome = GateOutcome::Failed;
        }
        Some(Err(why)) => {
            report.outcome = GateOutcome::Unknown(UnknownReason::Inconclusive(why));
        }
        None => {
            let why = "its report does not measure coverage".to_string();
            report.outcome = GateOutcome::Unknown(UnknownReason::Inconclusive(why));
        }
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;
    use ralph_core::coverage::{CoverageConditions, CoverageShare, FileCoverage};
    use ralph_gates::gates::testing::{sample_gate, sample_report};
    use std::collections::BTreeMap;

    fn measured(covered: u32, missed: u32) -> GateReport {
        let file = FileCoverage {
            covered: LineSet::from_lines(1..=covered),
            missed: LineSet::from_lines(covered + 1..=covered + missed),
        };
        let coverage = MeasuredCoverage {
            covered,
            lines: covered + missed,
            files: BTreeMap::from([("a.py".to_string(), file)]),
            ..MeasuredCoverage::default()
        };
        GateReport {
            coverage: Some(Box::new(coverage)),
            ..sample_report("coverage", GateOutcome::Passed)
        }
    }

    /// R-S5a: a base without a result is no permission to lose coverage.
    #[test]
    fn coverage_must_not_fall_below_the_base() {
        let none = || sample_report("coverage", GateOutcome::Passed);
        let unknown = |why: UnknownReason| sample_report("coverage", GateOutcome::Unknown(why));
        let failed = GateReport { outcome: GateOutcome::Failed, ..measured(9, 1) };
        let hint = "; list its dependencies in `[verify] link`, or set `min_coverage` instead of `coverage_ratchet`";
        for (now, base, expected) in [
            (measured(8, 2), Some(measured(8, 2)), String::new()),
            (measured(9, 2), Some(measured(8, 2)), String::new()),
            (
                measured(8, 3),
                Some(measured(8, 2)),
                "fell: coverage is 72.72 % (8 of 11 lines), it was 80 % (8 of 10 lines) at the base of the run".into(),
            ),
            (
                measured(8, 2),
                Some(failed),
                "fell: coverage is 80 % (8 of 10 lines), it was 90 % (9 of 10 lines) at the base of the run".into(),
            ),
            (measured(8, 2), None, format!("unknown: its coverage at the base is not known{hint}")),
            (
                measured(8, 2),
                Some(none()),
                format!("unknown: its coverage was not measured at the base{hint}"),
            ),
            (
                measured(8, 2),
                Some(unknown(UnknownReason::Error("exit 127".into()))),
                format!("unknown: it gave no result at the base (exit 127){hint}"),
            ),
            (
                measured(0, 2),
                Some(unknown(UnknownReason::NoTests("no tests ran".into()))),
                String::new(),
            ),
        ] {
            let seen = match check_ratchet(&now, base.as_ref()) {
                Ok(()) => String::new(),
                Err(CoverageProblem::Fell(what)) => format!("fell: {what}"),
                Err(CoverageProblem::Unknown(why)) => format!("unknown: {why}"),
            };
            assert_eq!(seen, expected);
        }
    }

    #[test]
    fn changed_lines_are_judged_by_themselves() {
        let gate = |share: Option<u16>| Gate {
            coverage: CoverageConditions {
                min_changed: share.map(CoverageShare),
                exclude: vec!["gen/**".to_string()],
                ..CoverageConditions::default()
            },
            ..sample_gate("coverage", &["t"])
        };
        let change = |path: &str, lines: std::ops::RangeInclusive<u32>| ChangedLines {
            path: path.to_string(),
            lines: LineSet::from_lines(lines.clone()),
            code: LineSet::from_lines(lines),
            script_ending: None,
            exclusions: Vec::new(),
            excluded_code: LineSet::default(),
            line_count: 0,
            unreadable: None,
        };
        let changed = [change("a.py", 8..=9), change("gen/b.py", 1..=9)];
        let none = sample_report("coverage", GateOutcome::Passed);
        let failed = GateReport { outcome: GateOutcome::Failed, ..measured(8, 2) };
        let mut broken = failed.clone();
        broken.findings.push(Finding::new("test_a".to_string()));
        for (share, report, changed, expected) in [
            (None, measured(8, 2), Some(&changed[..]), "passed"),
            (Some(5_000), measured(8, 2), Some(&changed), "passed"),
            (
                Some(5_001),
                measured(8, 2),
                Some(&changed),
                "failed: coverage of the changed lines is 50 % (1 of 2 lines), 50.01 % is required | not covered",
            ),
            (Some(9_000), measured(8, 2), Some(&[]), "passed"),
            (
                Some(9_000),
                measured(8, 2),
                None,
                "inconclusive: the lines that the run changed are not known",
            ),
            (
                Some(9_000),
                none,
                Some(&changed),
                "inconclusive: its report does not measure coverage",
            ),
            (
                Some(9_000),
                failed,
                Some(&changed),
                "failed: coverage of the changed lines is 50 % (1 of 2 lines), 90 % is required | not covered",
            ),
            (Some(9_000), broken, Some(&changed), "failed: test_a"),
        ] {
            let judged = judge_changed_lines(&gate(share), report, changed);
            let messages: Vec<&str> =
                judged.findings.iter().map(|finding| finding.message.as_str()).collect();
            let seen = match &judged.outcome {
                GateOutcome::Unknown(why) => {
                    format!("{}: {}", judged.outcome.name(), why.describe())
                }
                outcome @ (GateOutcome::Passed | GateOutcome::Failed) => {
                    let line = format!("{}: {}", outcome.name(), messages.join(" | "));
                    line.trim_end_matches(": ").to_string()
                }
            };
            assert_eq!(seen, expected);
        }
    }
}
