//! Judges a change by the results of its gates with the settings of the base.

use super::{MAX_MESSAGE_CHARS, Proof, ProofVerdict};
use crate::gate::{GateOutcome, GateReport};
use crate::text;
use alloc::format;
use alloc::string::{String, ToString};

/// Lowers a proof whose change fails with the settings of the base. A test that fails is no reason: new tests may need
/// new settings, and the old tests run with the old ones in another step. Nor is a gate that cannot run without them,
/// because its judge is new.
pub fn judge_old_settings(
    proof: &mut Proof,
    settings: &[String],
    reports: &[GateReport],
    now: &[GateReport],
    new_judges: &[String],
) {
    for report in reports.iter().filter(|report| !new_judges.contains(&report.name)) {
        let names_tests_now = now.iter().any(|one| one.name == report.name && one.cases.is_some());
        if report.outcome == GateOutcome::Failed && report.cases.is_none() && names_tests_now {
            // For example, tests were moved together with the settings that name their directory.
            let why = format!("`{}` reports no tests with the settings of the base", report.name);
            proof.doubt(ProofVerdict::Green, why);
            continue;
        }
        let named = report.cases.as_ref().is_some_and(|cases| !cases.failed.is_empty());
        match &report.outcome {
            GateOutcome::Passed => continue,
            GateOutcome::Failed if named => continue,
            GateOutcome::Failed => {}
            GateOutcome::Unknown(unknown) => {
                let why = format!(
                    "`{}` gave no result with the settings of the base: {}",
                    report.name,
                    unknown.describe()
                );
                proof.doubt(ProofVerdict::Green, why);
                continue;
            }
        }
        let message = report.findings.first().map_or("", |first| first.message.as_str());
        let files = settings.join(", ");
        let why =
            format!("`{}` fails with the settings of the base ({files}): {message}", report.name);
        let why =
            text::clean_line(&why, MAX_MESSAGE_CHARS).trim_end_matches([':', ' ']).to_string();
        proof.doubt(ProofVerdict::NeedsReview, why);
    }
}
