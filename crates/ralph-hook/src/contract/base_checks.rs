//! Which checks of a run's lists passed before the work began. A check that passes then does not measure the goal, so the
//! run says so. It is a note: it never holds an agent and never refuses a start.

use std::time::Duration;

use ralph_core::gate::Gate;
use ralph_core::id::RunId;
use ralph_core::record::RunRecord;
use ralph_core::requirement::{
    PASSING_CHECKS_REQUIREMENT, Requirement, RequirementFailure, RequirementStage,
    RequirementStatus, RequirementWeight,
};
use ralph_core::text;
use ralph_home::paths::RalphHome;
use ralph_lists::run_lists;
use ralph_proof::{CheckTrial, judge_trial, run_checks_at_base};
use ralph_sys::clock::{self, Deadline};
use ralph_sys::fs::{self, Durability};
use ralph_sys::proc::cancel::CancelToken;
use serde::{Deserialize, Serialize};

use super::ContractContext;
use super::gate_worker::GateWorkerError;
use super::proof_sides::ProofSides;

const FILE_VERSION: u8 = 1;
const MAX_FILE_BYTES: usize = 64 * 1024;
/// More checks are not tried: the note would not be clearer.
const MAX_CHECKS: usize = 64;
/// Checks that run in one checkout.
const CHECKS_AT_ONCE: usize = 8;
/// After this time no further checks are tried. Proofs of the run wait for the trial.
const TRIAL_TIMEOUT: Duration = Duration::from_mins(2);
const SHOWN_NAMES: usize = 4;
const MAX_NAME_CHARS: usize = 60;
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The results of the checks at the base.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BaseChecks {
    v: u8,
    /// How many checks gave a result.
    pub measured: u32,
    /// The items whose checks passed.
    pub passing: Vec<String>,
    /// The items whose checks could not run.
    pub unrunnable: Vec<String>,
}

impl BaseChecks {
    /// `4 of 9 checks passed before any work, so they do not measure this goal: feature 1, feature 2, …`; `None` if every check
    /// measures something.
    pub fn describe(&self) -> Option<String> {
        let names = |items: &[String]| {
            let mut shown: Vec<String> = items
                .iter()
                .take(SHOWN_NAMES)
                .map(|name| text::clean_line(name, MAX_NAME_CHARS))
                .collect();
            shown.extend((items.len() > SHOWN_NAMES).then(|| "…".to_string()));
            shown.join(", ")
        };
        let mut parts = Vec::new();
        let count = u32::try_from(self.passing.len()).unwrap_or(u32::MAX);
        if count > 0 {
            let checks = text::count_noun(self.measured.max(count), "check");
            let rest = if count == 1 {
                "passed before any work, so it does not measure this goal"
            } else {
                "passed before any work, so they do not measure this goal"
            };
            parts.push(format!("{count} of {checks} {rest}: {}", names(&self.passing)));
        }
        if !self.unrunnable.is_empty() {
            let count = u32::try_from(self.unrunnable.len()).unwrap_or(u32::MAX);
            let checks = text::count_noun(count, "check");
            parts.push(format!("{checks} could not run: {}", names(&self.unrunnable)));
        }
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

/// The checks that are tried when the run starts.
pub(super) fn base_check_gates(home: &RalphHome, run: &RunRecord) -> Vec<Gate> {
    let mut checks = run_lists::sealed_checks(home, run);
    checks.truncate(MAX_CHECKS);
    checks
}

/// Runs the checks at the base and records the result, even if it is only a part of it.
pub(super) fn try_base_checks(
    contract: &ContractContext<'_>,
    sides: &ProofSides<'_>,
    checks: &[&Gate],
    cancel: &CancelToken,
) -> Result<(), GateWorkerError> {
    let names = run_lists::check_item_names(&contract.world.home, contract.run);
    let until = Deadline::after(TRIAL_TIMEOUT);
    let mut results = BaseChecks { v: FILE_VERSION, ..BaseChecks::default() };
    for checks in checks.chunks(CHECKS_AT_ONCE) {
        if until.has_passed() || cancel.is_cancelled() {
            break;
        }
        // A check that takes longer than the shortest limit is not judged here.
        let reports = sides.with_request(contract, checks, &[], cancel, |request| {
            run_checks_at_base(request, &|_| Some(0)).map_err(GateWorkerError::from)
        })?;
        for report in reports {
            let name = names.get(&report.name).cloned().unwrap_or_else(|| report.name.clone());
            match judge_trial(&report, None) {
                CheckTrial::Failing(_) => results.measured += 1,
                CheckTrial::Passing => {
                    results.measured += 1;
                    results.passing.push(name);
                }
                CheckTrial::Unrunnable(_) if is_slow(&report) => {}
                CheckTrial::Unrunnable(_) => results.unrunnable.push(name),
            }
        }
    }
    if cancel.is_cancelled() {
        return Ok(());
    }
    let path = contract.world.home.run(&contract.run.id).base_checks();
    let bytes = fs::encode_json(&path, &results)?;
    Ok(fs::replace(&path, &bytes, Durability::Cached)?)
}

fn is_slow(report: &ralph_core::gate::GateReport) -> bool {
    use ralph_core::gate::{GateOutcome, UnknownReason};
    matches!(report.outcome, GateOutcome::Unknown(UnknownReason::Timeout { .. }))
}

/// What is known about the checks of a run at its base; `None` while it is unknown.
pub fn read_base_checks(home: &RalphHome, run: &RunId) -> Option<BaseChecks> {
    let bytes = fs::read_if_exists(&home.run(run).base_checks(), MAX_FILE_BYTES).ok()??;
    let results: BaseChecks = serde_json::from_slice(&bytes).ok()?;
    (results.v == FILE_VERSION).then_some(results)
}

/// Waits until the checks of a run that has just started are known, at most until the deadline.
pub fn await_base_checks(
    home: &RalphHome,
    run: &RunRecord,
    until: &Deadline,
) -> Option<BaseChecks> {
    if base_check_gates(home, run).is_empty() || !has_base(run) {
        return None;
    }
    loop {
        let known = read_base_checks(home, &run.id);
        if known.is_some() || until.has_passed() {
            return known;
        }
        clock::sleep(POLL_INTERVAL);
    }
}

fn has_base(run: &RunRecord) -> bool {
    run.seal.as_deref().is_some_and(|seal| seal.base.is_some())
}

/// The note about checks that measure nothing, as a requirement that never holds.
pub(super) fn base_checks_requirement(contract: &ContractContext<'_>) -> Option<Requirement> {
    let summary = read_base_checks(&contract.world.home, &contract.run.id)?.describe()?;
    Some(Requirement {
        name: PASSING_CHECKS_REQUIREMENT.to_string(),
        stage: RequirementStage::Planning,
        status: RequirementStatus::Unmet(RequirementFailure::new(summary)),
        weight: RequirementWeight::Advisory,
        next: String::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_names_the_checks_that_measure_nothing() {
        let items = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        for (measured, passing, unrunnable, expected) in [
            (9, &[][..], &[][..], "-"),
            (
                1,
                &["feature 1"],
                &[],
                "1 of 1 check passed before any work, so it does not measure this goal: feature 1",
            ),
            (
                9,
                &["a", "b", "c", "d", "e"],
                &[],
                "5 of 9 checks passed before any work, so they do not measure this goal: a, b, c, d, …",
            ),
            (
                2,
                &["a\u{1b}[2J"],
                &["b"],
                "1 of 2 checks passed before any work, so it does not measure this goal: a; 1 check could not run: b",
            ),
            (0, &[], &["a", "b"], "2 checks could not run: a, b"),
        ] {
            let (passing, unrunnable) = (items(passing), items(unrunnable));
            let results = BaseChecks { v: FILE_VERSION, measured, passing, unrunnable };
            assert_eq!(results.describe().as_deref().unwrap_or("-"), expected);
        }
    }
}
