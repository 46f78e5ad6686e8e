//! Judges a change by the results of its gates with the settings of the base.

use super::{MAX_MESSAGE_CHARS, Proof, ProofVerdict, name_set};
use crate::gate::{GateOutcome, GateReport};
use crate::text;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// The results of the gates on the change, with the settings of the base and with its own.
#[derive(Clone, Copy, Debug)]
pub struct SettingsRuns<'a> {
    /// The settings that changed.
    pub settings: &'a [String],
    /// With the settings of the base.
    pub reports: &'a [GateReport],
    /// The same without the changed tests that failed, for gates with such tests.
    pub without_failed_tests: &'a [GateReport],
    pub now: &'a [GateReport],
    /// Gates that cannot run with the settings of the base, because their judge is new.
    pub new_judges: &'a [String],
}

impl SettingsRuns<'_> {
    /// The gates that the settings of the base can judge.
    fn judged(&self) -> impl Iterator<Item = &GateReport> {
        self.reports.iter().filter(|report| !self.new_judges.contains(&report.name))
    }

    fn report_now(&self, gate: &str) -> Option<&GateReport> {
        self.now.iter().find(|report| report.name == gate)
    }

    fn report_without_failed_tests(&self, gate: &str) -> Option<&GateReport> {
        self.without_failed_tests.iter().find(|report| report.name == gate)
    }

    /// The tests that fail only with the settings of the base, with their gates. They may need the new ones. Whether
    /// anything else fails shows only without them.
    pub fn failed_tests(&self) -> Vec<(&str, &str)> {
        let has_failed = |report: &&GateReport| report.outcome == GateOutcome::Failed;
        let tests = self.judged().filter(has_failed).flat_map(|report| {
            let accepted = name_set(self.report_now(&report.name).map_or(&[], failed_names));
            let failed =
                failed_names(report).iter().filter(move |test| !accepted.contains(&***test));
            failed.map(|test| (report.name.as_str(), test.as_str()))
        });
        tests.collect()
    }
}

fn failed_names(report: &GateReport) -> &[String] {
    report.cases.as_ref().map_or(&[], |cases| &cases.failed)
}

/// Lowers a proof whose change fails with the settings of the base. A test that fails is no reason: new tests may need
/// new settings, and the old tests run with the old ones in another step. But nothing else may fail beside it.
pub fn judge_old_settings(proof: &mut Proof, runs: &SettingsRuns<'_>) {
    let failed_tests = runs.failed_tests();
    for report in runs.judged() {
        let has_failed_tests = failed_tests.iter().any(|(gate, _)| *gate == report.name);
        if !has_failed_tests {
            runs.judge_report(report, "", proof);
        } else if let Some(alone) = runs.report_without_failed_tests(&report.name) {
            runs.judge_report(alone, ", even without the tests that fail with them", proof);
        } else {
            let why = format!(
                "tests of `{}` fail with the settings of the base, and it did not run without them",
                report.name
            );
            proof.doubt(ProofVerdict::Green, why);
        }
    }
}

impl SettingsRuns<'_> {
    fn judge_report(&self, report: &GateReport, without: &str, proof: &mut Proof) {
        let now = self.report_now(&report.name);
        let names_tests_now = now.is_some_and(|now| now.cases.is_some());
        let accepted = name_set(now.map_or(&[], failed_names));
        let failed = failed_names(report);
        let (verdict, what, message) = match &report.outcome {
            GateOutcome::Passed => return,
            // For example, tests were moved together with the settings that name their directory.
            GateOutcome::Failed if report.cases.is_none() && names_tests_now => {
                (ProofVerdict::Green, "reports no tests", "")
            }
            GateOutcome::Failed if failed.is_empty() => {
                let message = report.findings.first().map_or("", |first| first.message.as_str());
                (ProofVerdict::NeedsReview, "fails", message)
            }
            GateOutcome::Failed if failed.iter().all(|test| accepted.contains(&**test)) => return,
            GateOutcome::Failed => {
                (ProofVerdict::Green, "fails", failed.first().map_or("", String::as_str))
            }
            GateOutcome::Unknown(unknown) => {
                (ProofVerdict::Green, "gave no result", &*unknown.describe())
            }
        };
        let (gate, files) = (&report.name, self.settings.join(", "));
        let why =
            format!("`{gate}` {what} with the settings of the base ({files}){without}: {message}");
        let why = text::clean_line(&why, MAX_MESSAGE_CHARS);
        proof.doubt(verdict, why.trim_end_matches([':', ' ']).to_string());
    }
}
