//! Benchmarks a hand-over: from a stop with a full context to the first request of the fresh session.

use super::model::Model;
use super::stage::Stage;
use crate::bench::race::Laps;
use anyhow::{Context, Result, ensure};
use ralph_sys::clock::{self, Deadline};
use std::ffi::OsString;
use std::time::Duration;

pub(super) const PLAIN: &str = "claude -p, from its start to its first request";
const NOTES: &str = "ralph run, from the stop to the request for notes";
const WHOLE: &str = "ralph run, from the stop to the fresh session's first request";
const FAREWELL: Duration = Duration::from_secs(20);
/// For a context window of a million tokens.
const SESSION: &str = r#"
[[step]]
agent = "A beginning."
usage = { input = 100000 }

[[step]]
agent = "There is more to do."
usage = { input = 850000 }

[[step]]
agent = "The first half is done, the second is not."
"#;

pub(super) fn race(stage: &Stage, rounds: u32) -> Result<[Laps; 3]> {
    let sessions = usize::try_from(rounds)? + 1;
    let our_model = Model::serve(stage, &SESSION.repeat(sessions))?;
    let answer = "[[step]]\nagent = \"Hello.\"\nrepeat = \"forever\"\n";
    let their_model = Model::serve(stage, answer)?;
    let _runner = stage.runner(&stage.client, Some(&our_model.url), |_| {})?;
    let complaint = || format!("last stderr: {}", stage.complaint());
    let mut ours = our_model.asked().with_context(complaint)?;
    let mut laps = [PLAIN, NOTES, WHOLE].map(Laps::new);
    for round in 0..rounds {
        stage.change(2 * round)?;
        our_model.turn(&mut ours)?;
        stage.change(2 * round + 1)?;
        // Meanwhile the runner learns the size of the context window, which it queries after the first answer.
        laps[0].times.push(plain(stage, &their_model).with_context(complaint)?);
        let notes = our_model.turn(&mut ours).with_context(complaint)?;
        let before = ours.messages;
        let fresh = our_model.turn(&mut ours).with_context(complaint)?;
        let after = ours.messages;
        ensure!(after < before, "nothing was handed over: {before} messages, then {after}");
        laps[1].times.push(notes);
        laps[2].times.push(notes + fresh);
    }
    Ok(laps)
}

fn plain(stage: &Stage, model: &Model) -> Result<Duration> {
    let mut argv: Vec<OsString> = vec![stage.client.clone().into()];
    argv.extend(["-p", "Hello."].map(OsString::from));
    let began = clock::now_ns();
    let mut client = stage.start(&argv, Some(&model.url), |_| {})?;
    client.hang_up();
    let asked = model.asked()?;
    model.answer(&asked)?;
    client.wait(Deadline::after(FAREWELL))?.context("`claude -p` does not end")?;
    Ok(Duration::from_nanos(asked.at_ns.saturating_sub(began)))
}
