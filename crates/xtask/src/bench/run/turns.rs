//! Benchmarks a held stop: from the end of the model's answer to its next request.

use super::bare::Bare;
use super::model::Model;
use super::stage::Stage;
use crate::bench::race::Laps;
use anyhow::{Context, Result};

const BARE: &str = "the client, held by a callback that answers at once";
const SAME: &str = "the client, held by ralph run, nothing changed";
const CHANGED: &str = "the client, held by ralph run, after a change";
/// Warm-up turns, in which both sides still load code.
const WARM_UP: u32 = 4;
const STEPS: &str = "[[step]]\nagent = \"Done.\"\nrepeat = \"forever\"\n";

pub(super) struct Turns {
    pub(super) bare: Laps,
    pub(super) same: Laps,
    pub(super) changed: Laps,
}

/// Runs both sides in turns: while one is timed, the other waits for its model.
pub(super) fn race(stage: &Stage, rounds: u32) -> Result<Turns> {
    let (their_model, our_model) = (Model::serve(stage, STEPS)?, Model::serve(stage, STEPS)?);
    let _bare = Bare::start(stage, &their_model.url)?;
    let _runner = stage.runner(&stage.client, Some(&our_model.url), |_| {})?;
    let complaint = || format!("last stderr: {}", stage.complaint());
    let mut theirs = their_model.asked().with_context(complaint)?;
    let mut ours = our_model.asked().with_context(complaint)?;
    let [bare, same, changed] = [BARE, SAME, CHANGED].map(Laps::new);
    let mut turns = Turns { bare, same, changed };
    for round in 0..WARM_UP + rounds {
        let bare = their_model.turn(&mut theirs).with_context(complaint)?;
        let laps = if round % 2 == 0 { &mut turns.same } else { &mut turns.changed };
        if round % 2 == 1 {
            stage.change(round)?;
        }
        let driven = our_model.turn(&mut ours).with_context(complaint)?;
        if round >= WARM_UP {
            turns.bare.times.push(bare);
            laps.times.push(driven);
        }
    }
    Ok(turns)
}
