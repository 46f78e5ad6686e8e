//! Checks that the settings of a gate's report fit together: where it is, and what is required of it.

use super::keys::GATE;
use super::parse::{ConfigEntry, ConfigProblems};
use super::{ConfigDraft, ConfigSource};
use ralph_core::gate::{Gate, GateInvocation, ReportFormat};

/// A key that does not fit, and why.
struct ReportMismatch {
    key: &'static str,
    message: &'static str,
    hint: &'static str,
}

pub(super) fn check_reports(
    entries: &[ConfigEntry],
    sources: &[ConfigSource],
    problems: &mut ConfigProblems,
) {
    for entry in entries.iter().filter(|entry| entry.is_in(&GATE)) {
        let built = ConfigDraft::build(&[], std::slice::from_ref(entry)).policy.gates;
        let Some(gate) = built.first() else { continue };
        for mismatch in find_mismatches(gate) {
            let setting = entry.settings.iter().find(|setting| setting.key == mismatch.key);
            if let Some(setting) = setting
                && let Some(source) = sources.iter().find(|one| one.layer == setting.location.layer)
            {
                let hint = Some(mismatch.hint.to_string());
                problems.add(source, setting.span.clone(), mismatch.message.to_string(), hint);
            }
        }
    }
}

fn find_mismatches(gate: &Gate) -> Vec<ReportMismatch> {
    let mut found: Vec<ReportMismatch> = Vec::new();
    found.extend(check_report_files(gate));
    let conditions = &gate.coverage;
    let keys = [
        ("min_coverage", conditions.min.is_some()),
        ("min_changed_coverage", conditions.min_changed.is_some()),
        ("coverage_ratchet", conditions.ratchet),
        ("coverage_exclude", !conditions.exclude.is_empty()),
    ];
    let message = "coverage needs a report that measures it";
    let hint = "set `report` to `lcov`, `cobertura`, `llvm-cov` or `go-cover`";
    let set = keys.into_iter().filter(|(_, is_set)| *is_set && !gate.report.measures_coverage());
    found.extend(set.map(|(key, _)| ReportMismatch { key, message, hint }));
    let keys = [
        ("max_errors", gate.limits.errors.is_some()),
        ("max_warnings", gate.limits.warnings.is_some()),
        ("max_notes", gate.limits.notes.is_some()),
    ];
    let message = "only findings with a severity can be limited";
    let hint = "set `report` to `sarif`, `eslint-json` or `cargo-json`";
    let set = keys.into_iter().filter(|(_, is_set)| *is_set && !gate.report.has_severities());
    found.extend(set.map(|(key, _)| ReportMismatch { key, message, hint }));
    found
}

fn check_report_files(gate: &Gate) -> Option<ReportMismatch> {
    if gate.report_files.is_empty() {
        return None;
    }
    let key = "report_files";
    let names_report = match &gate.command {
        GateInvocation::Argv(words) => words.iter().any(|word| word.contains("{report}")),
        GateInvocation::Shell(line) => line.contains("RALPH_REPORT"),
    };
    if gate.report != ReportFormat::Junit && !gate.report.measures_coverage() {
        let (message, hint) =
            ("`report_files` are JUnit or coverage reports", "add `report = \"junit\"`");
        Some(ReportMismatch { key, message, hint })
    } else if names_report {
        let (message, hint) =
            ("the command already names a report", "remove `report_files`, or the report's path");
        Some(ReportMismatch { key, message, hint })
    } else {
        None
    }
}
