//! The results of the doctor's checks, and of its repairs.

use crate::wording::FactMark;
use ralph_core::text;
use ralph_home::faults::describe_error;
use ralph_install::doctor::repair;
use ralph_install::doctor::{self, CheckStatus, DoctorCheck, DoctorContext};
use serde::Serialize;
use std::path::Path;

#[derive(Debug, Serialize)]
pub struct DoctorView<'a> {
    pub v: u8,
    pub project: String,
    /// How many checks are `bad`.
    pub wrong: usize,
    /// The repairs that `--fix` made.
    pub fixed: &'a [String],
    /// The repairs that failed.
    pub failed: &'a [String],
    pub checks: Vec<DoctorCheckView<'a>>,
}

#[derive(Debug, Serialize)]
pub struct DoctorCheckView<'a> {
    pub name: &'static str,
    pub status: CheckStatus,
    pub what: String,
    pub fix: Option<&'a str>,
    /// Whether `--fix` can repair it.
    pub repairable: bool,
}

/// Whether problems are only reported, or repaired where that is safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RepairMode {
    ReportOnly,
    Repair,
}

/// The results of the checks, and of the repairs.
#[derive(Debug)]
pub struct DoctorDiagnosis {
    pub checks: Vec<DoctorCheck>,
    pub fixed: Vec<String>,
    pub failed: Vec<String>,
}

impl DoctorDiagnosis {
    /// How many checks found a problem.
    pub fn wrong_count(&self) -> usize {
        self.checks.iter().filter(|check| check.standing == CheckStatus::Bad).count()
    }
}

/// Runs the checks, makes the repairs, and then runs the checks again.
pub fn diagnose(context: &DoctorContext<'_>, repairs: RepairMode) -> DoctorDiagnosis {
    let checks = doctor::examine_setup(context);
    let mut found = DoctorDiagnosis { checks, fixed: Vec::new(), failed: Vec::new() };
    if repairs == RepairMode::ReportOnly {
        return found;
    }
    for done in repair::apply_repairs(context, &found.checks) {
        match done {
            Ok(what) => found.fixed.push(clean_line(&what)),
            Err(error) => found.failed.push(clean_line(&describe_error(&error))),
        }
    }
    if !found.fixed.is_empty() {
        found.checks = doctor::examine_setup(context);
    }
    found
}

pub fn clean_line(text: &str) -> String {
    text::clean_line(text, 1_000)
}

pub fn check_mark(status: CheckStatus) -> FactMark {
    match status {
        CheckStatus::Good => FactMark::Good,
        CheckStatus::Bad => FactMark::Bad,
        CheckStatus::Unclear => FactMark::Unclear,
        CheckStatus::Note => FactMark::Neutral,
    }
}

pub fn doctor_view<'a>(found: &'a DoctorDiagnosis, project: &Path) -> DoctorView<'a> {
    let checks = found.checks.iter().map(|check| DoctorCheckView {
        name: check.name,
        status: check.standing,
        what: clean_line(&check.what),
        fix: check.fix.as_deref(),
        repairable: check.repair.is_some(),
    });
    DoctorView {
        v: 1,
        project: project.display().to_string(),
        wrong: found.wrong_count(),
        fixed: &found.fixed,
        failed: &found.failed,
        checks: checks.collect(),
    }
}
