//! Crash tests: plays one short run with the real client once per seed. Each seed kills the runner or the agent at
//! different moments, and the run must end as if nothing had been killed.

use super::terminal;
use crate::{say, shell};
use anyhow::{Context, Result, ensure};
use ralph_sim::check::Mismatch;
use ralph_sim::runner::{attempt, struck};
use ralph_sim::scenario::{Act, Scenario};
use ralph_sim::stage::Tools;
use ralph_sys::proc::cancel::Cancel;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

pub(super) const SCENARIO: &str = "run/crash.toml";
const SEEDS: u64 = 50;
/// Number of requests in a run without crashes.
const REQUESTS: u64 = 8;

pub(super) fn play(ralph: &Path, client: &Path, path: &Path) -> Result<()> {
    let began = shell::now();
    let scenario = terminal::read(path)?;
    let next = AtomicU64::new(0);
    let faults = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..shell::cores() {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= SEEDS {
                        return;
                    }
                    if let Err(error) = one(ralph, client, &scenario, seed) {
                        let mut faults = faults.lock().unwrap_or_else(PoisonError::into_inner);
                        faults.push(format!("  ✗ seed {seed}: {error:#}"));
                    }
                }
            });
        }
    });
    let faults = faults.into_inner().unwrap_or_else(PoisonError::into_inner);
    let took = shell::now().duration_since(began).unwrap_or_default().as_secs();
    for fault in &faults {
        say::out(fault);
    }
    say::out(&format!("{SEEDS} random crashes, {} not survived, {took} s", faults.len()));
    ensure!(faults.is_empty(), "{} of {SEEDS} runs did not survive a crash", faults.len());
    Ok(())
}

fn one(ralph: &Path, client: &Path, scenario: &Scenario, seed: u64) -> Result<()> {
    let scenario = struck(scenario, seed, REQUESTS);
    let runner = scenario.runner.as_ref().context("the scenario has no runner")?;
    let kills: Vec<String> = runner
        .moments
        .iter()
        .map(|moment| {
            let victim = match moment.act {
                Act::KillRunner => "the runner",
                Act::KillAgent => "the agent",
                Act::CtrlC | Act::Command(_) => "nothing",
            };
            format!("{victim} {} ms after request {}", moment.after_ms, moment.request)
        })
        .collect();
    let root = tempfile::tempdir().context("cannot make a directory")?;
    let cancel = Cancel::new().context("cannot wait for commands")?;
    let search_path = terminal::search_path(ralph);
    let tools = Tools { program: ralph, search_path: &search_path, cancel: &cancel };
    let missed = attempt(&scenario, root.path(), (&tools, Some(client)))
        .with_context(|| format!("killed {}", kills.join(", then ")))?;
    let missed: Vec<_> = missed
        .iter()
        .map(|Mismatch { what, expected, found }| {
            format!("{what}: expected {expected}, found {found}")
        })
        .collect();
    ensure!(missed.is_empty(), "killed {}: {}", kills.join(", then "), missed.join("; "));
    Ok(())
}
