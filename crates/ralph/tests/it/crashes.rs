//! Runs whose runner or agent is killed at random moments, with the fake client. `cargo xtask e2e` does the same with
//! the real client.

use crate::simulate::SCENARIOS;
use ralph_sim::check::ExpectationMismatch;
use ralph_sim::runner::{run_trial, with_random_crashes};
use ralph_sim::scenario::{self, RunnerIntervention, Scenario};
use ralph_sim::stage::ScenarioCommandContext;
use ralph_sys::proc::cancel::CancelToken;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// No attempt starts after this time.
const LONG: Duration = Duration::from_secs(20);
/// More than there are cores, because a run mostly waits.
const AT_ONCE: usize = 4;
const FEWEST: u64 = 10;
const MOST: u64 = 300;
/// Model requests of a run in which no process is killed.
const REQUESTS: u64 = 8;
/// The differential test with the real client uses the lower seeds.
const FIRST: u64 = 1_000;

struct Fault {
    seed: u64,
    struck: Vec<RunnerIntervention>,
    missed: Result<Vec<ExpectationMismatch>, String>,
}

/// R-L6c: whenever the runner or its agent is killed, the run continues where it was: every iteration is charged once,
/// every step is done once, no cost is lost, and no process is left behind.
#[test]
fn a_run_survives_a_killed_runner_or_agent_at_any_moment() {
    let scenario = scenario::read(&Path::new(SCENARIOS).join("run/crash.toml")).unwrap();
    let began = Instant::now();
    let next = AtomicU64::new(0);
    let faults = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let count = next.fetch_add(1, Ordering::Relaxed);
                    if count >= MOST || (count >= FEWEST && began.elapsed() > LONG) {
                        return;
                    }
                    faults.lock().unwrap().extend(one(&scenario, FIRST + count));
                }
            });
        }
    });
    let faults = faults.into_inner().unwrap();
    let shown: Vec<String> = faults
        .iter()
        .map(|fault| format!("seed {}, {:?}: {:#?}", fault.seed, fault.struck, fault.missed))
        .collect();
    assert!(faults.is_empty(), "{} of {}\n{}", faults.len(), next.into_inner(), shown.join("\n"));
}

fn one(scenario: &Scenario, seed: u64) -> Option<Fault> {
    let scenario = with_random_crashes(scenario, seed, REQUESTS);
    let root = tempfile::tempdir().unwrap();
    let cancel = CancelToken::new().unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_ralph"));
    let mut search_path: OsString = program.parent().unwrap().into();
    search_path.push(":");
    search_path.push(std::env::var_os("PATH").unwrap_or_default());
    let tools = ScenarioCommandContext { program, search_path: &search_path, cancel: &cancel };
    let missed =
        run_trial(&scenario, root.path(), (&tools, None)).map_err(|error| error.to_string());
    let is_fault = missed.as_ref().map_or(true, |missed| !missed.is_empty());
    let struck = scenario.runner.unwrap().interventions;
    is_fault.then_some(Fault { seed, struck, missed })
}
