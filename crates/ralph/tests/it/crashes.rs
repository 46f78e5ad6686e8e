//! Runs whose runner or agent is killed at random moments, with the fake client. `cargo xtask e2e` does the same with
//! the real client.

use crate::simulate::SCENARIO_DIR;
use ralph_sim::mismatch::ExpectationMismatch;
use ralph_sim::runner_play::{run_trial, with_random_crashes};
use ralph_sim::scenario::{self, RunnerIntervention, Scenario};
use ralph_sim::scratch::ScenarioCommandContext;
use ralph_sys::proc::cancel::CancelToken;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// No attempt starts after this time, unless `RALPH_CRASH_SECONDS` allows more.
const MAX_TEST_TIME: Duration = Duration::from_secs(10);
/// More than there are cores, because a run mostly waits.
const PARALLEL_ATTEMPTS: usize = 4;
const MIN_ATTEMPTS: u64 = 10;
const MAX_ATTEMPTS: u64 = 300;
/// Model requests of a run in which no process is killed.
const UNDISTURBED_REQUESTS: u64 = 8;
/// The differential test with the real client uses the lower seeds.
const FIRST_SEED: u64 = 1_000;

struct FailedAttempt {
    seed: u64,
    kill_moments: Vec<RunnerIntervention>,
    outcome: Result<Vec<ExpectationMismatch>, String>,
}

/// R-L6c: whenever the runner or its agent is killed, the run continues where it was: every iteration is charged once,
/// every step is done once, no cost is lost, and no process is left behind.
#[test]
fn a_run_survives_a_killed_runner_or_agent_at_any_moment() {
    let scenario = scenario::read(&Path::new(SCENARIO_DIR).join("run/crash.toml")).unwrap();
    let began = Instant::now();
    let allowed = std::env::var("RALPH_CRASH_SECONDS").ok().and_then(|text| text.parse().ok());
    let allowed = allowed.map_or(MAX_TEST_TIME, Duration::from_secs);
    let next = AtomicU64::new(0);
    let faults = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..PARALLEL_ATTEMPTS {
            scope.spawn(|| {
                loop {
                    let count = next.fetch_add(1, Ordering::Relaxed);
                    if count >= MAX_ATTEMPTS || (count >= MIN_ATTEMPTS && began.elapsed() > allowed)
                    {
                        return;
                    }
                    faults.lock().unwrap().extend(failed_attempt(&scenario, FIRST_SEED + count));
                }
            });
        }
    });
    let faults = faults.into_inner().unwrap();
    let shown: Vec<String> = faults
        .iter()
        .map(|fault| format!("seed {}, {:?}: {:#?}", fault.seed, fault.kill_moments, fault.outcome))
        .collect();
    assert!(faults.is_empty(), "{} of {}\n{}", faults.len(), next.into_inner(), shown.join("\n"));
}

fn failed_attempt(scenario: &Scenario, seed: u64) -> Option<FailedAttempt> {
    let scenario = with_random_crashes(scenario, seed, UNDISTURBED_REQUESTS);
    let root = tempfile::tempdir().unwrap();
    let cancel = CancelToken::new().unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_ralph"));
    let mut search_path: OsString = program.parent().unwrap().into();
    search_path.push(":");
    search_path.push(std::env::var_os("PATH").unwrap_or_default());
    let tools = ScenarioCommandContext { program, search_path: &search_path, cancel: &cancel };
    let missed = run_trial(&scenario, root.path(), &tools, None).map_err(|error| error.to_string());
    let is_fault = missed.as_ref().map_or(true, |missed| !missed.is_empty());
    let struck = scenario.runner.unwrap().interventions;
    is_fault.then_some(FailedAttempt { seed, kill_moments: struck, outcome: missed })
}
