//! Crash tests: plays one short run with the real client once per seed. Each seed kills the runner or the agent at
//! different moments, and the run must end as if nothing had been killed.

use super::terminal;
use crate::{print, shell};
use anyhow::{Context, Result, ensure};
use ralph_sim::mismatch::ExpectationMismatch;
use ralph_sim::runner_play::{run_trial, with_random_crashes};
use ralph_sim::scenario::{InterventionAction, Scenario};
use ralph_sim::scratch::ScenarioCommandContext;
use ralph_sys::parallel::map_with_workers;
use ralph_sys::proc::cancel::CancelToken;
use std::path::Path;

pub(super) const SCENARIO: &str = "run/crash.toml";
const SEEDS: u64 = 20;
/// Number of requests in a run without crashes.
const REQUESTS: u64 = 8;

pub(super) fn play_crashes(ralph: &Path, client: &Path, path: &Path) -> Result<()> {
    let began = shell::now();
    let scenario = terminal::read_scenario(path)?;
    let seeds: Vec<u64> = (0..SEEDS).collect();
    let faults = map_with_workers(seeds.iter().collect(), super::worker_count(), |seed| {
        let error = play_seed(ralph, client, &scenario, *seed).err()?;
        Some(format!("  ✗ seed {seed}: {error:#}"))
    });
    let faults: Vec<String> = faults.into_iter().flatten().collect();
    let took = shell::now().duration_since(began).unwrap_or_default().as_secs();
    for fault in &faults {
        print::print_line(fault);
    }
    print::print_line(&format!("{SEEDS} random crashes, {} not survived, {took} s", faults.len()));
    ensure!(faults.is_empty(), "{} of {SEEDS} runs did not survive a crash", faults.len());
    Ok(())
}

fn play_seed(ralph: &Path, client: &Path, scenario: &Scenario, seed: u64) -> Result<()> {
    let scenario = with_random_crashes(scenario, seed, REQUESTS);
    let runner = scenario.runner.as_ref().context("the scenario has no runner")?;
    let kills: Vec<String> = runner
        .interventions
        .iter()
        .map(|moment| {
            let victim = match moment.action {
                InterventionAction::KillRunner => "the runner",
                InterventionAction::KillAgent => "the agent",
                InterventionAction::CtrlC | InterventionAction::Command(_) => "nothing",
            };
            format!("{victim} {} ms after request {}", moment.after_ms, moment.request)
        })
        .collect();
    let root = tempfile::tempdir().context("cannot make a directory")?;
    let cancel = CancelToken::new().context("cannot wait for commands")?;
    let search_path = terminal::search_path(ralph);
    let tools =
        ScenarioCommandContext { program: ralph, search_path: &search_path, cancel: &cancel };
    let missed = run_trial(&scenario, root.path(), &tools, Some(client))
        .with_context(|| format!("killed {}", kills.join(", then ")))?;
    let missed: Vec<_> = missed
        .iter()
        .map(|ExpectationMismatch { what, expected, found }| {
            format!("{what}: expected {expected}, found {found}")
        })
        .collect();
    ensure!(missed.is_empty(), "killed {}: {}", kills.join(", then "), missed.join("; "));
    Ok(())
}
