//! Adds random crashes to a scenario, reproducible by seed.

use crate::scenario::{InterventionAction, RunnerIntervention, Scenario};
use crate::split_mix::SplitMix64;

/// Maximum delay of a crash after a request. By then the answer, its tools, the stop and the gates are done.
const MAX_DELAY_MS: u64 = 400;

/// The same scenario with random crashes. The final status and exit code are not expected: a runner that is killed
/// after the run has ended leaves nothing to resume.
pub fn with_random_crashes(scenario: &Scenario, seed: u64, requests: u64) -> Scenario {
    let mut scenario = scenario.clone();
    if let Some(runner) = &mut scenario.runner {
        runner.interventions = random_kills(seed, requests);
    }
    scenario.expect.status = None;
    scenario.expect.exit = None;
    scenario
}

/// One or two kills of the runner or its agent, after one of the first `requests`.
fn random_kills(seed: u64, requests: u64) -> Vec<RunnerIntervention> {
    let mut chance = SplitMix64::seeded(seed);
    let kills = 1 + chance.below(2);
    let moments = (0..kills).map(|_| {
        let action = if chance.below(2) == 0 {
            InterventionAction::KillRunner
        } else {
            InterventionAction::KillAgent
        };
        let request = 1 + chance.below(requests);
        // Short delays are more likely, because most events follow a request quickly.
        let within = MAX_DELAY_MS >> chance.below(6);
        RunnerIntervention { request, after_ms: chance.below(within), action }
    });
    moments.collect()
}
