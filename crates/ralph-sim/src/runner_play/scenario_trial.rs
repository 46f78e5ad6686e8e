//! Runs a whole scenario with a runner, from an empty directory to the list of mismatches, for tests that repeat it
//! often.

use super::{RunnerPlayError, play};
use crate::mismatch::{ExpectationMismatch, ExpectationWatcher};
use crate::scenario::Scenario;
use crate::scratch::{self, ScenarioCommandContext, ScratchError};
use std::path::Path;

#[derive(Debug, thiserror::Error)]
pub enum ScenarioTrialError {
    #[error(transparent)]
    Stage(#[from] ScratchError),
    #[error(transparent)]
    Runner(#[from] RunnerPlayError),
}

/// Runs the scenario below `root`, which must exist and be empty.
pub fn run_trial(
    scenario: &Scenario,
    root: &Path,
    tools: &ScenarioCommandContext<'_>,
    client: Option<&Path>,
) -> Result<Vec<ExpectationMismatch>, ScenarioTrialError> {
    let stage = scratch::build(scenario, root)?;
    scratch::run_setup(scenario, &stage, tools)?;
    let mut check = ExpectationWatcher::new(&scenario.expect);
    let outcome = play(scenario, &stage, tools, client, &mut |entry| check.watch(entry))?;
    check.check_output(&outcome.output);
    check.check_leftover_processes(&outcome.leftover_processes);
    check.check_command_output(|command| scratch::command_output(command, scenario, &stage, tools));
    let (_, mismatches) = check.finish(&stage);
    Ok(mismatches)
}
