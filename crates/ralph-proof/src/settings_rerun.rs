//! The settings of the base once more, without the changed tests that fail with them. A failed test makes its gate fail,
//! whatever else does: a coverage threshold that is not reached, for example, shows only without it.

use ralph_core::gate::{Gate, GateReport};
use ralph_core::proof::SettingsRuns;
use ralph_sys::clock::Deadline;

use crate::file_class::{FileClass, classify_file};
use crate::first_step::step_limit_ms;
use crate::proof_plan::{ProofPlan, StepTree};
use crate::proof_step::{CHECKOUT_TIMEOUT, run_step};
use crate::prove::{ProofError, ProofRequest, step_gates};
use crate::reported_paths::is_named_after;

/// Runs the gates of which tests fail with the settings of the base, without these tests.
pub(crate) fn run_without_failed_tests(
    request: &ProofRequest<'_>,
    plan: &ProofPlan<'_>,
    runs: &SettingsRuns<'_>,
) -> Result<Vec<GateReport>, ProofError> {
    let failed = runs.failed_tests();
    let (Some(tree), false) = (&plan.old_settings, failed.is_empty()) else {
        return Ok(Vec::new());
    };
    let is_tests = |path: &&String| classify_file(path, request.rules).class == FileClass::Tests;
    let changed: Vec<&String> = plan.changed_tests.iter().filter(is_tests).collect();
    let with_failures = files_of_tests(&changed, failed.iter().map(|(_, test)| *test));
    let tree = match with_failures {
        Some(files) => {
            &tree.with_base_files(request, &files, &Deadline::after(CHECKOUT_TIMEOUT))?
        }
        // It is not known where the tests are, so all changed tests are as in the base.
        None => &StepTree { step: tree.step, ..plan.old_tests.clone() },
    };
    let has_failures = |gate: &&&Gate| failed.iter().any(|(name, _)| *name == gate.name);
    let gates: Vec<&Gate> = request.gates.iter().filter(has_failures).copied().collect();
    let mut gates = step_gates(&gates, |_| false);
    for gate in &mut gates {
        let now = runs.now.iter().find(|report| report.name == gate.gate.name);
        gate.limit_ms = now.map(|report| step_limit_ms(report.took_ms));
    }
    Ok(run_step(request, tree, &gates)?.reports)
}

/// The changed files that contain the tests; `None` if the name of a test shows none of them.
fn files_of_tests<'a>(
    changed: &[&String],
    tests: impl Iterator<Item = &'a str>,
) -> Option<Vec<String>> {
    let mut files = Vec::new();
    for test in tests {
        let found = changed.iter().filter(|file| is_named_after(test, file));
        let known = files.len();
        files.extend(found.map(ToString::to_string));
        if files.len() == known {
            return None;
        }
    }
    files.sort();
    files.dedup();
    Some(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_by_the_names_of_their_tests() {
        let changed = ["src/zone.test.js", "tests/test_cart.py"].map(str::to_string);
        let changed: Vec<&String> = changed.iter().collect();
        for (tests, expected) in [
            (&["src/zone.test.js > fixed"][..], Some("src/zone.test.js")),
            (
                &["pytest > tests.test_cart > test_a", "tests/test_cart.py::b"],
                Some("tests/test_cart.py"),
            ),
            (
                &["src/zone.test.js > fixed", "tests.test_cart.A.b"],
                Some("src/zone.test.js tests/test_cart.py"),
            ),
            (&["src/zone.test.js > fixed", "example.com/shop > TestTotal"], None),
        ] {
            let files = files_of_tests(&changed, tests.iter().copied());
            assert_eq!(files.map(|files| files.join(" ")).as_deref(), expected, "{tests:?}");
        }
    }
}
