//! Differential end-to-end tests: runs the scenarios in the simulator and in the real client. The input and output of
//! hooks, the model's input and the end must agree.

mod compare;
mod crashes;
pub(crate) mod install;
mod judge_runs;
mod judge_sessions;
mod scenario_table;
mod terminal;
mod tmux;

use crate::{E2eOptions, disk, print, shell};
use anyhow::{Context, Result, bail, ensure};
use compare::{TraceDifference, trace_differences};
use ralph_sys::parallel::map_with_workers;
use std::path::{Path, PathBuf};

/// Directories of `scenarios/` that test the client itself.
const DIFFERENTIAL: [&str; 5] = ["stop", "prompt-hooks", "tools", "session", "agents"];
/// Scenarios that test ralph. Its output differs from run to run, so only their expectations are checked.
const RALPH_SCENARIOS: &str = "ralph";
/// Scenarios in which a runner drives the client.
const RUN_SCENARIOS: &str = "run";
/// Scenarios that are played at the client's terminal.
const TERMINAL_SCENARIOS: &str = "terminal";
/// Very long scenarios, and the one of them that is played, by the simulator alone: the client takes minutes for it.
const LONG_SCENARIOS: &str = "long";
const LONG_RUN: &str = "long/night.toml";
/// Number of attempts before a difference counts, because some scenarios depend on the client's timing.
const ATTEMPTS: u32 = 3;
/// Maximum number of differences shown per scenario.
const SHOWN_DIFFERENCES: usize = 12;

/// The result of one scenario.
pub(crate) struct ComparedScenario {
    /// Relative to `scenarios/`.
    name: String,
    title: String,
    found: ComparisonOutcome,
}

/// The attempt that agreed, counted from 1, and what the one before it found.
struct AgreedAttempt {
    count: u32,
    before: Option<String>,
}

enum ComparisonOutcome {
    Agrees(AgreedAttempt),
    Differs(Vec<TraceDifference>),
    /// The scenario could not be played.
    Broken(String),
}

impl ComparisonOutcome {
    fn first_fault(&self) -> String {
        match self {
            Self::Agrees(_) => String::new(),
            Self::Differs(differences) => {
                differences.first().map(ToString::to_string).unwrap_or_default()
            }
            Self::Broken(why) => why.lines().next().unwrap_or_default().to_owned(),
        }
    }
}

pub(crate) fn run(options: &E2eOptions) -> Result<()> {
    let SelectedScenarios { differential, own, terminal, crash } =
        select_scenarios(&options.scenarios)?;
    if !options.write && options.scenarios.is_empty() {
        scenario_table::check_table(&differential)?;
    }
    if !terminal.is_empty() {
        tmux::tmux_program()?;
    }
    let ralph = match &options.ralph {
        Some(program) => program.clone(),
        // The profile that the tests have already built.
        None => shell::build_program("dev", "ralph")?,
    };
    let pinned = match &options.client {
        Some(program) => program.clone(),
        None => install::installed_client(install::PINNED_VERSION)
            .context("differential tests were not run")?,
    };
    if options.scenarios.is_empty() {
        let unjudged = judge_sessions::play_judges(&ralph, &pinned)?;
        ensure!(unjudged == 0, "{unjudged} sessions of judges failed");
        if options.judges {
            return Ok(());
        }
    }
    let version = client_version(&pinned)?;
    print::print_line(&format!("Claude Code {version}, {} scenarios", differential.len()));
    let played = play_all(&differential, |scenario| compare_players(&ralph, &pinned, scenario));
    let failed = print_results(&played);
    print::print_line(&format!(
        "Claude Code {version} with ralph, {} scenarios",
        own.len() + terminal.len()
    ));
    let held = play_all(&own, |scenario| check_both_players(&ralph, &pinned, scenario));
    let typed =
        play_all(&terminal, |scenario| terminal::play_at_terminal(&ralph, &pinned, scenario));
    let untrue = print_results(&held) + print_results(&typed);
    if let Some(crash) = crash {
        crashes::play_crashes(&ralph, &pinned, &crash)?;
    }
    if options.write {
        ensure!(options.scenarios.is_empty(), "the table is about all scenarios");
        scenario_table::write_table(&version, &played)?;
    }
    if options.latest {
        try_newest_client(&ralph, &version, &differential);
    }
    ensure!(
        failed == 0,
        "{failed} of {} scenarios do not agree with Claude Code {version}",
        played.len()
    );
    ensure!(
        untrue == 0,
        "{untrue} of {} scenarios with ralph fail with Claude Code {version}",
        held.len() + typed.len()
    );
    Ok(())
}

/// Tries the newest client. Absence and differences are reported, but are not failures.
fn try_newest_client(ralph: &Path, pinned: &str, scenarios: &[PathBuf]) {
    let latest = match install::latest_version() {
        Ok(latest) if latest == pinned => {
            return print::print_line("the newest client is the pinned one");
        }
        Ok(latest) => latest,
        Err(error) => {
            return print::print_line(&format!("the newest client was not tried: {error:#}"));
        }
    };
    match install::installed_client(&latest) {
        Ok(program) => {
            print::print_line(&format!("Claude Code {latest}, the newest"));
            let played = play_all(scenarios, |scenario| compare_players(ralph, &program, scenario));
            let failed = print_results(&played);
            print::print_line(&format!(
                "{} of {} agree with the newest",
                played.len() - failed,
                played.len()
            ));
        }
        Err(error) => print::print_line(&format!("the newest client was not tried: {error:#}")),
    }
}

fn client_version(program: &Path) -> Result<String> {
    // An empty environment, so that the client reads none of the developer's settings.
    let said = shell::command_output(shell::command(program).arg("--version").env_clear())
        .with_context(|| format!("`{}` is not Claude Code", program.display()))?;
    let said = String::from_utf8_lossy(&said);
    Ok(said.split_whitespace().next().unwrap_or("?").to_owned())
}

#[derive(Default)]
struct SelectedScenarios {
    /// Scenarios about the client.
    differential: Vec<PathBuf>,
    /// Scenarios about ralph.
    own: Vec<PathBuf>,
    terminal: Vec<PathBuf>,
    /// The scenario for crash tests.
    crash: Option<PathBuf>,
}

/// All scenarios, or the given files and those in the given directories.
fn select_scenarios(named: &[PathBuf]) -> Result<SelectedScenarios> {
    let all = if named.is_empty() { shipped_scenarios()? } else { expand_directories(named)? };
    ensure!(!all.is_empty(), "there are no scenarios");
    let mut found = SelectedScenarios::default();
    for path in all {
        let is_in = |name: &str| path.parent().is_some_and(|above| above.ends_with(name));
        if is_in(RALPH_SCENARIOS) || is_in(RUN_SCENARIOS) || is_in(LONG_SCENARIOS) {
            if path.ends_with(crashes::SCENARIO) {
                found.crash = Some(path.clone());
            }
            found.own.push(path);
        } else if is_in(TERMINAL_SCENARIOS) {
            found.terminal.push(path);
        } else {
            found.differential.push(path);
        }
    }
    Ok(found)
}

fn expand_directories(named: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for path in named {
        if path.is_dir() {
            let files = disk::list(path)?.into_iter();
            found.extend(files.filter(|file| file.extension().is_some_and(|it| it == "toml")));
        } else {
            found.push(path.clone());
        }
    }
    Ok(found)
}

fn shipped_scenarios() -> Result<Vec<PathBuf>> {
    let directories = DIFFERENTIAL.into_iter().chain([
        RALPH_SCENARIOS,
        RUN_SCENARIOS,
        TERMINAL_SCENARIOS,
        LONG_RUN,
    ]);
    let root = shell::repository_root().join("scenarios");
    expand_directories(&directories.map(|directory| root.join(directory)).collect::<Vec<_>>())
}

/// Half as many again as there are cores, because a client spends a third of its time waiting.
fn worker_count() -> usize {
    shell::cores() + shell::cores().div_ceil(2)
}

fn play_all(
    scenarios: &[PathBuf],
    look: impl Fn(&Path) -> Result<Vec<TraceDifference>> + Sync,
) -> Vec<ComparedScenario> {
    let mut played = map_with_workers(scenarios.iter().collect(), worker_count(), |scenario| {
        play_one(scenario, &look)
    });
    played.sort_by(|one, other| one.name.cmp(&other.name));
    played
}

fn play_one(
    scenario: &Path,
    look: impl Fn(&Path) -> Result<Vec<TraceDifference>>,
) -> ComparedScenario {
    let (name, title) = scenario_heading(scenario);
    let mut found = ComparisonOutcome::Broken("not played".to_owned());
    for count in 1..=ATTEMPTS {
        found = match look(scenario) {
            Ok(differences) if differences.is_empty() => {
                let before = (count > 1).then(|| found.first_fault());
                let found = ComparisonOutcome::Agrees(AgreedAttempt { count, before });
                return ComparedScenario { name, title, found };
            }
            Ok(differences) => ComparisonOutcome::Differs(differences),
            Err(error) => ComparisonOutcome::Broken(format!("{error:#}")),
        };
    }
    ComparedScenario { name, title, found }
}

/// The path of a scenario relative to `scenarios/`, and the sentence that it shows.
fn scenario_heading(scenario: &Path) -> (String, String) {
    #[derive(serde::Deserialize)]
    struct ScenarioHeading {
        name: String,
    }
    let root = shell::repository_root().join("scenarios");
    let name = scenario.strip_prefix(&root).unwrap_or(scenario).display().to_string();
    let text = disk::read_text(scenario).unwrap_or_default();
    let heading = toml::from_str::<ScenarioHeading>(&text);
    (name, heading.map(|heading| heading.name).unwrap_or_default())
}

fn compare_players(ralph: &Path, client: &Path, scenario: &Path) -> Result<Vec<TraceDifference>> {
    let simulated = simulate_scenario(ralph, scenario, None)?;
    let real = simulate_scenario(ralph, scenario, Some(client))?;
    Ok(trace_differences(&compare::parse_trace(&simulated)?, &compare::parse_trace(&real)?))
}

/// Checks the expectations in the simulator and in the client, unless the scenario is restricted to one of them.
fn check_both_players(
    ralph: &Path,
    client: &Path,
    scenario: &Path,
) -> Result<Vec<TraceDifference>> {
    let text = disk::read_text(scenario)?;
    let is_for = |player: &str| text.lines().any(|line| line == format!("only = \"{player}\""));
    if !is_for("client") {
        simulate_scenario(ralph, scenario, None)?;
    }
    let is_long = scenario.parent().is_some_and(|above| above.ends_with(LONG_SCENARIOS));
    if !is_for("simulator") && !is_for("pretend") && !is_long {
        simulate_scenario(ralph, scenario, Some(client))?;
    }
    Ok(Vec::new())
}

/// Runs a scenario and returns its timeline. Fails if an expectation is not met.
fn simulate_scenario(ralph: &Path, scenario: &Path, client: Option<&Path>) -> Result<String> {
    let mut command = shell::command(ralph);
    command.arg("simulate").arg(scenario).arg("--json");
    if let Some(client) = client {
        command.arg(format!("--client={}", client.display()));
    }
    let (code, said, errors) = shell::run_command(&mut command)?;
    let player = if client.is_some() { "the client" } else { "the simulator" };
    let last: serde_json::Value =
        said.lines().last().and_then(|line| serde_json::from_str(line).ok()).unwrap_or_default();
    if code != 0 {
        let missed = last["mismatches"].to_string();
        bail!(
            "{player} exited with code {code}: {} {errors}",
            if missed == "null" { "" } else { &missed }
        );
    }
    Ok(said)
}

fn print_results(played: &[ComparedScenario]) -> usize {
    let mut failed = 0;
    for ComparedScenario { name, found, .. } in played {
        match found {
            ComparisonOutcome::Agrees(AgreedAttempt { before: None, .. }) => {
                print::print_line(&format!("  ✓ {name}"));
            }
            ComparisonOutcome::Agrees(AgreedAttempt { count, before: Some(before) }) => {
                print::print_line(&format!("  ✓ {name}, at attempt {count}, after: {before}"));
            }
            ComparisonOutcome::Differs(differences) => {
                failed += 1;
                print::print_line(&format!("  ✗ {name}: - the simulator, + the client"));
                for difference in differences.iter().take(SHOWN_DIFFERENCES) {
                    print::print_line(&format!("      {difference}"));
                }
                if differences.len() > SHOWN_DIFFERENCES {
                    print::print_line(&format!(
                        "      and {} more",
                        differences.len() - SHOWN_DIFFERENCES
                    ));
                }
            }
            ComparisonOutcome::Broken(why) => {
                failed += 1;
                print::print_line(&format!("  ✗ {name}: {why}"));
            }
        }
    }
    failed
}
