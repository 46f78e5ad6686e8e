//! Benchmarks a held stop: from the end of the model's answer to its next request.

use super::bare_client::BareClient;
use super::model::TimedModel;
use super::runner_stage::RunnerStage;
use crate::bench::race::RacerTimes;
use anyhow::{Context, Result};

const BARE: &str = "the client, held by a callback that answers at once";
const SAME: &str = "the client, held by ralph run, nothing changed";
const CHANGED: &str = "the client, held by ralph run, after a change";
/// Warm-up turns, in which both sides still load code.
const WARM_UP: u32 = 4;
const STEPS: &str = "[[step]]\nagent = \"Done.\"\nrepeat = \"forever\"\n";

pub(super) struct TurnTimes {
    pub(super) bare: RacerTimes,
    pub(super) same: RacerTimes,
    pub(super) changed: RacerTimes,
}

/// Runs both sides in turns: while one is timed, the other waits for its model.
pub(super) fn race_turns(stage: &RunnerStage, rounds: u32) -> Result<TurnTimes> {
    let (their_model, our_model) =
        (TimedModel::serve(stage, STEPS)?, TimedModel::serve(stage, STEPS)?);
    let _bare = BareClient::start(stage, &their_model.url)?;
    let _runner = stage.start_runner(&stage.client, Some(&our_model.url), |_| {})?;
    let complaint = || format!("last stderr: {}", stage.last_stderr());
    let mut theirs = their_model.next_request().with_context(complaint)?;
    let mut ours = our_model.next_request().with_context(complaint)?;
    let [bare, same, changed] = [BARE, SAME, CHANGED].map(RacerTimes::new);
    let mut turns = TurnTimes { bare, same, changed };
    for round in 0..WARM_UP + rounds {
        let bare = their_model.time_turn(&mut theirs).with_context(complaint)?;
        let laps = if round % 2 == 0 { &mut turns.same } else { &mut turns.changed };
        if round % 2 == 1 {
            stage.change_file(round)?;
        }
        let driven = our_model.time_turn(&mut ours).with_context(complaint)?;
        if round >= WARM_UP {
            turns.bare.times.push(bare);
            laps.times.push(driven);
        }
    }
    Ok(turns)
}
