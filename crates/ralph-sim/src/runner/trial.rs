//! Runs a whole scenario with a runner, from an empty directory to the list of mismatches, for tests that repeat it often.

use super::{RunnerError, play};
use crate::check::{Check, Mismatch};
use crate::scenario::Scenario;
use crate::stage::{self, StageError, Tools};
use std::path::Path;

#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    #[error(transparent)]
    Stage(#[from] StageError),
    #[error(transparent)]
    Runner(#[from] RunnerError),
}

/// Runs the scenario below `root`, which must exist and be empty.
pub fn attempt(
    scenario: &Scenario,
    root: &Path,
    (tools, client): (&Tools<'_>, Option<&Path>),
) -> Result<Vec<Mismatch>, TrialError> {
    let stage = stage::build(scenario, root)?;
    stage::set_up(scenario, &stage, tools)?;
    let mut check = Check::new(&scenario.expect);
    let outcome = play(scenario, &stage, (tools, client), &mut |entry| check.watch(entry))?;
    check.left(&outcome.alive);
    check.ask(|command| stage::said(command, scenario, &stage, tools));
    let (_, mismatches) = check.finish(&stage);
    Ok(mismatches)
}
