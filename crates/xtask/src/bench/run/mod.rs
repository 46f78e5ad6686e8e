//! Benchmarks the overhead of `ralph run` over the client alone: per turn, per hand-over, and in memory over many
//! turns.

mod bare;
mod endurance;
mod handover;
mod model;
mod stage;
mod turns;

use super::budget::Judged;
use super::race::Laps;
use super::{LOOKS, show};
use crate::{Drive, say};
use anyhow::Result;
use endurance::Endurance;
use stage::Stage;
use std::path::Path;
use turns::Turns;

/// In seconds. The only budget here that is not a ratio.
const MOST_OVER_THE_CLIENT: f64 = 0.1;
/// A hand-over also asks the agent for notes and ends the old process.
const MOST_OF_A_HAND_OVER: f64 = 2.0;
const MOST_MEMORY: f64 = 1.2;

pub(super) fn measure(ralph: &Path, client: &Path, options: &Drive) -> Result<Vec<Judged>> {
    let stage = Stage::new(ralph, client)?;
    let manner = &options.manner;
    let turns = || {
        let Turns { bare, same, changed } = turns::race(&stage, options.rounds)?;
        show([&bare, &same, &changed].into_iter(), &bare.name, manner);
        let over =
            |laps: &Laps, percent| (laps.percentile(percent) - bare.percentile(percent)) / 1e3;
        // A checkpoint and a gate start many processes, which other load slows down, so the minimum is the best
        // estimate of their cost.
        Ok(vec![
            Judged::new("a turn − the client's own, s", over(&same, 50), MOST_OVER_THE_CLIENT),
            Judged::new(
                "a turn after a change − the client's own, s",
                over(&changed, 0),
                MOST_OVER_THE_CLIENT,
            ),
        ])
    };
    let handovers = || {
        let laps = handover::race(&stage, options.rounds.div_ceil(8))?;
        show(laps.iter(), handover::PLAIN, manner);
        let [plain, _, whole] = laps;
        let ratio = whole.percentile(50) / plain.percentile(50);
        Ok(vec![Judged::new("hand-over ÷ claude -p", ratio, MOST_OF_A_HAND_OVER)])
    };
    let memory = || {
        let endurance = endurance::run(&stage)?;
        say::out(&endurance.told());
        let Endurance { early_kib, late_kib, .. } = endurance;
        let what = "memory after 1,000 turns ÷ after 100";
        Ok(vec![Judged::new(what, late_kib / early_kib, MOST_MEMORY)])
    };
    let parts: [&Measure<'_>; 3] = [&turns, &handovers, &memory];
    let mut judged = Vec::new();
    for part in parts {
        judged.extend(look(part, manner.check)?);
    }
    Ok(judged)
}

type Measure<'a> = dyn Fn() -> Result<Vec<Judged>> + 'a;

/// Measures again while a budget is missed, if budgets are checked.
fn look(measure: &Measure<'_>, is_checked: bool) -> Result<Vec<Judged>> {
    let mut best = measure()?;
    for _ in 1..LOOKS {
        if !is_checked || !best.iter().any(Judged::is_missed) {
            break;
        }
        say::err("a budget was missed; measuring again");
        best = best.into_iter().zip(measure()?).map(|(one, other)| one.better(other)).collect();
    }
    Ok(best)
}
