//! Measures the runner's speed and memory over a thousand turns with a simulated client.

use super::runner_stage::RunnerStage;
use crate::{disk, shell};
use anyhow::{Context, Result};
use ralph_sys::proc::line_process::LineProcessOutput;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

const EARLY: u32 = 100;
const LATE: u32 = 1_000;
/// Files change only every so many turns, because a checkpoint of a change mostly measures git.
const CHANGES_EVERY: u32 = 10;
const PATIENCE: Duration = Duration::from_mins(1);
const SCENARIO: &str = r#"name = "An agent that is never done."
only = "pretend"

[[step]]
agent = "Done."
repeat = "forever"
"#;

pub(super) struct EnduranceResult {
    pub(super) early_kib: f64,
    pub(super) late_kib: f64,
    /// Duration of the first turns, and of the same number at the end.
    early: Duration,
    late: Duration,
}

impl EnduranceResult {
    pub(super) fn describe(&self) -> String {
        let rate = |took: Duration| f64::from(EARLY) / took.as_secs_f64();
        let (early, late) = (rate(self.early), rate(self.late));
        let [first, last] = [self.early_kib, self.late_kib].map(|kib| kib / 1024.0);
        format!(
            "with a simulated client: {early:.0} turns per second at first, {late:.0} after {LATE} turns; \
             {first:.1} MiB in memory after {EARLY} turns, {last:.1} MiB after {LATE}\n"
        )
    }
}

pub(super) fn measure_endurance(stage: &RunnerStage) -> Result<EnduranceResult> {
    let agent = write_fake_client(stage)?;
    let (sender, lines) = mpsc::channel();
    let runner = stage.start_runner(&agent, None, move |heard| {
        sender.send(heard).ok();
    })?;
    let memory = || resident_kib(runner.pid());
    let mut turn = 0;
    let mut until = |last: u32| -> Result<Instant> {
        while turn < last {
            wait_for_held(&lines)
                .with_context(|| format!("turn {turn}: {}", stage.last_stderr()))?;
            turn += 1;
            if turn % CHANGES_EVERY == 0 {
                stage.change_file(turn)?;
            }
        }
        Ok(shell::instant())
    };
    let began = until(1)?;
    let early = until(EARLY)?.duration_since(began);
    let early_kib = memory()?;
    let near = until(LATE - EARLY)?;
    let late = until(LATE)?.duration_since(near);
    Ok(EnduranceResult { early_kib, late_kib: memory()?, early, late })
}

/// Writes a script that simulates the client.
fn write_fake_client(stage: &RunnerStage) -> Result<PathBuf> {
    let scenario = stage.path("endless.toml");
    disk::write_with_parents(&scenario, SCENARIO.as_bytes())?;
    let agent = stage.path("agent");
    let (ralph, scenario) = (stage.ralph.display(), scenario.display());
    let script = format!("#!/bin/sh\nexec '{ralph}' pretend --scenario '{scenario}' -- \"$@\"\n");
    disk::write_with_parents(&agent, script.as_bytes())?;
    disk::make_executable(&agent)?;
    Ok(agent)
}

/// Waits for the next `held` event.
fn wait_for_held(lines: &Receiver<LineProcessOutput>) -> Result<()> {
    loop {
        match lines.recv_timeout(PATIENCE).context("the runner prints no events")? {
            LineProcessOutput::End => anyhow::bail!("the runner ended"),
            LineProcessOutput::Line(line) => {
                let event: Value = serde_json::from_slice(&line)?;
                if event["event"] == "held" {
                    return Ok(());
                }
            }
        }
    }
}

/// The resident memory of a process, in KiB.
fn resident_kib(pid: u32) -> Result<f64> {
    let status = disk::read_text(Path::new(&format!("/proc/{pid}/status")))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next());
    Ok(kib.context("no `VmRSS` in the process status")?.parse()?)
}
