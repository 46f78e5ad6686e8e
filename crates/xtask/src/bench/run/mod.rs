//! Benchmarks the overhead of `ralph run` over the client alone: per turn, per hand-over, and in memory over many
//! turns.

mod bare_client;
mod endurance;
mod handover;
mod model;
mod runner_stage;
mod turns;

use super::budget::BudgetResult;
use super::race::RacerTimes;
use super::{BudgetMeasurement, measure_budgets, print_times};
use crate::{RunBenchOptions, print};
use anyhow::Result;
use endurance::EnduranceResult;
use runner_stage::RunnerStage;
use std::path::Path;
use turns::TurnTimes;

/// In seconds. The only budget here that is not a ratio.
const MOST_OVER_THE_CLIENT: f64 = 0.1;
/// A hand-over also asks the agent for notes and ends the old process.
const MOST_OF_A_HAND_OVER: f64 = 2.0;
const MOST_MEMORY: f64 = 1.2;

pub(super) fn measure(
    ralph: &Path,
    client: &Path,
    options: &RunBenchOptions,
) -> Result<Vec<BudgetResult>> {
    let stage = RunnerStage::new(ralph, client)?;
    let manner = &options.output;
    let turns = || {
        let TurnTimes { bare, same, changed } = turns::race_turns(&stage, options.rounds)?;
        print_times([&bare, &same, &changed].into_iter(), &bare.name, manner);
        let over = |laps: &RacerTimes, percent| {
            (laps.percentile(percent) - bare.percentile(percent)) / 1e3
        };
        // A checkpoint and a gate start many processes, which other load slows down, so the minimum is the best
        // estimate of their cost.
        Ok(vec![
            BudgetResult::new(
                "a turn − the client's own, s",
                over(&same, 50),
                MOST_OVER_THE_CLIENT,
            ),
            BudgetResult::new(
                "a turn after a change − the client's own, s",
                over(&changed, 0),
                MOST_OVER_THE_CLIENT,
            ),
        ])
    };
    let handovers = || {
        let laps = handover::race_handovers(&stage, options.rounds.div_ceil(8))?;
        print_times(laps.iter(), handover::PLAIN, manner);
        let [plain, _, whole] = laps;
        let ratio = whole.percentile(50) / plain.percentile(50);
        Ok(vec![BudgetResult::new("hand-over ÷ claude -p", ratio, MOST_OF_A_HAND_OVER)])
    };
    let memory = || {
        let endurance = endurance::measure_endurance(&stage)?;
        print::print_line(&endurance.describe());
        let EnduranceResult { early_kib, late_kib, .. } = endurance;
        let what = "memory after 1,000 turns ÷ after 100";
        Ok(vec![BudgetResult::new(what, late_kib / early_kib, MOST_MEMORY)])
    };
    let parts: [&BudgetMeasurement<'_>; 3] = [&turns, &handovers, &memory];
    let mut judged = Vec::new();
    for part in parts {
        judged.extend(measure_budgets(part, manner.check)?);
    }
    Ok(judged)
}
