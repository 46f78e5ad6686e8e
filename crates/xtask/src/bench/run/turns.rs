//! From the model's last word to the next request: the agent stops, is held, and goes on.

use super::bare::Bare;
use super::model::Model;
use super::stage::Stage;
use crate::bench::race::Laps;
use anyhow::{Context, Result};

const BARE: &str = "the client, held by a callback that answers at once";
const SAME: &str = "the client, held by ralph run, nothing changed";
const CHANGED: &str = "the client, held by ralph run, after a change";
/// The first ones load code on both sides.
const WARM_UP: u32 = 4;
const STEPS: &str = "[[step]]\nagent = \"Done.\"\nrepeat = \"forever\"\n";

pub(super) struct Turns {
    pub(super) bare: Laps,
    pub(super) same: Laps,
    pub(super) changed: Laps,
}

/// Both at once and by turns: while one is timed, the other waits for its model.
pub(super) fn race(stage: &Stage, rounds: u32) -> Result<Turns> {
    let (their_model, our_model) = (Model::serve(stage, STEPS)?, Model::serve(stage, STEPS)?);
    let _bare = Bare::start(stage, &their_model.url)?;
    let _runner = stage.runner(&stage.client, Some(&our_model.url), |_| {})?;
    let complaint = || format!("said last: {}", stage.complaint());
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
