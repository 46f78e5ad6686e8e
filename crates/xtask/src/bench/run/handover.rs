//! Benchmarks a hand-over: from a stop with a full context to the first request of the fresh session.

use super::model::TimedModel;
use super::runner_stage::RunnerStage;
use crate::bench::race::RacerTimes;
use anyhow::{Context, Result, ensure};
use ralph_sys::clock::{self, Deadline};
use std::ffi::OsString;
use std::time::Duration;

pub(super) const PLAIN: &str = "claude -p, from its start to its first request";
const NOTES: &str = "ralph run, from the stop to the request for notes";
const WHOLE: &str = "ralph run, from the stop to the fresh session's first request";
const EXIT_TIMEOUT: Duration = Duration::from_secs(20);
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

pub(super) fn race_handovers(stage: &RunnerStage, rounds: u32) -> Result<[RacerTimes; 3]> {
    let sessions = usize::try_from(rounds)? + 1;
    let our_model = TimedModel::serve(stage, &SESSION.repeat(sessions))?;
    let answer = "[[step]]\nagent = \"Hello.\"\nrepeat = \"forever\"\n";
    let their_model = TimedModel::serve(stage, answer)?;
    let _runner = stage.start_runner(&stage.client, Some(&our_model.url), |_| {})?;
    let complaint = || format!("last stderr: {}", stage.last_stderr());
    let mut ours = our_model.next_request().with_context(complaint)?;
    let mut laps = [PLAIN, NOTES, WHOLE].map(RacerTimes::new);
    for round in 0..rounds {
        stage.change_file(2 * round)?;
        our_model.time_turn(&mut ours)?;
        stage.change_file(2 * round + 1)?;
        // Meanwhile the runner learns the size of the context window, which it queries after the first answer.
        laps[0].times.push(time_plain_client(stage, &their_model).with_context(complaint)?);
        let notes = our_model.time_turn(&mut ours).with_context(complaint)?;
        let before = ours.messages;
        let fresh = our_model.time_turn(&mut ours).with_context(complaint)?;
        let after = ours.messages;
        ensure!(after < before, "nothing was handed over: {before} messages, then {after}");
        laps[1].times.push(notes);
        laps[2].times.push(notes + fresh);
    }
    Ok(laps)
}

fn time_plain_client(stage: &RunnerStage, model: &TimedModel) -> Result<Duration> {
    let mut argv: Vec<OsString> = vec![stage.client.clone().into()];
    argv.extend(["-p", "Hello."].map(OsString::from));
    let began = clock::now_ns();
    let mut client = stage.start_program(&argv, Some(&model.url), |_| {})?;
    client.close_input();
    let asked = model.next_request()?;
    model.release_answer(&asked)?;
    client.wait(Deadline::after(EXIT_TIMEOUT))?.context("`claude -p` does not end")?;
    Ok(Duration::from_nanos(asked.at_ns.saturating_sub(began)))
}
