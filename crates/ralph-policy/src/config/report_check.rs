//! Checks that `report_files` and the other settings of a gate's report fit together.

use super::keys::GATE;
use super::parse::{ConfigEntry, ConfigProblems};
use super::{ConfigDraft, ConfigSource};
use ralph_core::gate::{GateInvocation, ReportFormat};

pub(super) fn check_report_files(
    entries: &[ConfigEntry],
    sources: &[ConfigSource],
    problems: &mut ConfigProblems,
) {
    for entry in entries.iter().filter(|entry| entry.is_in(&GATE)) {
        let built = ConfigDraft::build(&[], std::slice::from_ref(entry)).policy.gates;
        let Some(gate) = built.first().filter(|gate| !gate.report_files.is_empty()) else {
            continue;
        };
        let names_report = match &gate.command {
            GateInvocation::Argv(words) => words.iter().any(|word| word.contains("{report}")),
            GateInvocation::Shell(line) => line.contains("RALPH_REPORT"),
        };
        let (message, hint) = if gate.report != ReportFormat::Junit {
            ("`report_files` are JUnit", "add `report = \"junit\"`")
        } else if names_report {
            ("the command already names a report", "remove `report_files`, or the report's path")
        } else {
            continue;
        };
        let setting = entry.settings.iter().find(|setting| setting.key == "report_files");
        if let Some(setting) = setting
            && let Some(source) = sources.iter().find(|one| one.layer == setting.location.layer)
        {
            let hint = Some(hint.to_string());
            problems.add(source, setting.span.clone(), message.to_string(), hint);
        }
    }
}
