//! Differential end-to-end tests: runs the scenarios in the simulator and in the real client. The input and output of
//! hooks, the model's input and the end must agree.

mod compare;
mod crashes;
pub(crate) mod install;
mod report;
mod terminal;
mod tmux;

use crate::{E2e, disk, say, shell};
use anyhow::{Context, Result, bail, ensure};
use compare::{Difference, differences};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Directories of `scenarios/` that test the client itself.
const DIFFERENTIAL: [&str; 4] = ["stop", "tools", "session", "agents"];
/// Scenarios that test ralph. Its output differs from run to run, so only their expectations are checked.
const OWN: &str = "ralph";
/// Scenarios in which a runner drives the client.
const RUN: &str = "run";
/// Scenarios that are played at the client's terminal.
const TERMINAL: &str = "terminal";
/// Number of attempts before a difference counts, because some scenarios depend on the client's timing.
const LOOKS: u32 = 3;
/// Maximum number of differences shown per scenario.
const SHOWN: usize = 12;

/// The result of one scenario.
pub(crate) struct Played {
    /// Relative to `scenarios/`.
    name: String,
    title: String,
    found: Found,
}

enum Found {
    /// Agreed at this attempt.
    Agree(u32),
    Differ(Vec<Difference>),
    /// The scenario could not be played.
    Broken(String),
}

pub(crate) fn run(options: &E2e) -> Result<()> {
    let Scenarios { differential, own, terminal, crash } = scenarios(&options.scenarios)?;
    if !terminal.is_empty() {
        tmux::program()?;
    }
    // The profile that the tests have already built.
    let ralph = shell::built("dev", "ralph", "--bin", "ralph")?;
    let pinned = match &options.client {
        Some(program) => program.clone(),
        None => install::client(install::PINNED).context("differential tests were not run")?,
    };
    let version = version(&pinned)?;
    say::out(&format!("Claude Code {version}, {} scenarios", differential.len()));
    let played = play(&differential, |scenario| look(&ralph, &pinned, scenario));
    let failed = tell(&played);
    say::out(&format!(
        "Claude Code {version} with ralph, {} scenarios",
        own.len() + terminal.len()
    ));
    let held = play(&own, |scenario| both(&ralph, &pinned, scenario));
    let typed = play(&terminal, |scenario| terminal::play(&ralph, &pinned, scenario));
    let untrue = tell(&held) + tell(&typed);
    if let Some(crash) = crash {
        crashes::play(&ralph, &pinned, &crash)?;
    }
    if options.write {
        ensure!(options.scenarios.is_empty(), "the table is about all scenarios");
        report::write(&version, &played)?;
    } else if options.scenarios.is_empty() {
        report::check(&played)?;
    }
    if options.latest {
        newest(&ralph, &version, &differential);
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
fn newest(ralph: &Path, pinned: &str, scenarios: &[PathBuf]) {
    let latest = match install::latest() {
        Ok(latest) if latest == pinned => return say::out("the newest client is the pinned one"),
        Ok(latest) => latest,
        Err(error) => return say::out(&format!("the newest client was not tried: {error:#}")),
    };
    match install::client(&latest) {
        Ok(program) => {
            say::out(&format!("Claude Code {latest}, the newest"));
            let played = play(scenarios, |scenario| look(ralph, &program, scenario));
            let failed = tell(&played);
            say::out(&format!(
                "{} of {} agree with the newest",
                played.len() - failed,
                played.len()
            ));
        }
        Err(error) => say::out(&format!("the newest client was not tried: {error:#}")),
    }
}

fn version(program: &Path) -> Result<String> {
    // An empty environment, so that the client reads none of the developer's settings.
    let said = shell::output(shell::command(program).arg("--version").env_clear())
        .with_context(|| format!("`{}` is not Claude Code", program.display()))?;
    let said = String::from_utf8_lossy(&said);
    Ok(said.split_whitespace().next().unwrap_or("?").to_owned())
}

#[derive(Default)]
struct Scenarios {
    /// Scenarios about the client.
    differential: Vec<PathBuf>,
    /// Scenarios about ralph.
    own: Vec<PathBuf>,
    terminal: Vec<PathBuf>,
    /// The scenario for crash tests.
    crash: Option<PathBuf>,
}

/// All scenarios, or the given files and those in the given directories.
fn scenarios(named: &[PathBuf]) -> Result<Scenarios> {
    let all = if named.is_empty() { shipped()? } else { within(named)? };
    ensure!(!all.is_empty(), "there are no scenarios");
    let mut found = Scenarios::default();
    for path in all {
        let is_in = |name: &str| path.parent().is_some_and(|above| above.ends_with(name));
        if is_in(OWN) || is_in(RUN) {
            if path.ends_with(crashes::SCENARIO) {
                found.crash = Some(path.clone());
            }
            found.own.push(path);
        } else if is_in(TERMINAL) {
            found.terminal.push(path);
        } else {
            found.differential.push(path);
        }
    }
    Ok(found)
}

fn within(named: &[PathBuf]) -> Result<Vec<PathBuf>> {
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

fn shipped() -> Result<Vec<PathBuf>> {
    let directories = DIFFERENTIAL.into_iter().chain([OWN, RUN, TERMINAL]);
    let root = shell::root().join("scenarios");
    within(&directories.map(|directory| root.join(directory)).collect::<Vec<_>>())
}

/// Plays the scenarios in parallel, one per core.
fn play(
    scenarios: &[PathBuf],
    look: impl Fn(&Path) -> Result<Vec<Difference>> + Sync,
) -> Vec<Played> {
    let next = AtomicUsize::new(0);
    let played = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..shell::cores() {
            scope.spawn(|| {
                while let Some(scenario) = scenarios.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let one = one(scenario, &look);
                    played.lock().unwrap_or_else(PoisonError::into_inner).push(one);
                }
            });
        }
    });
    let mut played = played.into_inner().unwrap_or_else(PoisonError::into_inner);
    played.sort_by(|one, other| one.name.cmp(&other.name));
    played
}

fn one(scenario: &Path, look: impl Fn(&Path) -> Result<Vec<Difference>>) -> Played {
    let root = shell::root().join("scenarios");
    let name = scenario.strip_prefix(&root).unwrap_or(scenario).display().to_string();
    let title = disk::text(scenario).ok().and_then(|text| title(&text)).unwrap_or_default();
    let mut found = Found::Broken("not played".to_owned());
    for count in 1..=LOOKS {
        found = match look(scenario) {
            Ok(differences) if differences.is_empty() => {
                return Played { name, title, found: Found::Agree(count) };
            }
            Ok(differences) => Found::Differ(differences),
            Err(error) => Found::Broken(format!("{error:#}")),
        };
    }
    Played { name, title, found }
}

fn title(scenario: &str) -> Option<String> {
    let line = scenario.lines().find(|line| line.starts_with("name"))?;
    let (_, value) = line.split_once('=')?;
    Some(value.trim().trim_matches(['"', '\'']).to_owned())
}

fn look(ralph: &Path, client: &Path, scenario: &Path) -> Result<Vec<Difference>> {
    let simulated = simulate(ralph, scenario, None)?;
    let real = simulate(ralph, scenario, Some(client))?;
    Ok(differences(&compare::read(&simulated), &compare::read(&real)))
}

/// Checks the expectations in the simulator and in the client, unless the scenario is restricted to one of them.
fn both(ralph: &Path, client: &Path, scenario: &Path) -> Result<Vec<Difference>> {
    let text = disk::text(scenario)?;
    let is_for = |player: &str| text.lines().any(|line| line == format!("only = \"{player}\""));
    if !is_for("client") {
        simulate(ralph, scenario, None)?;
    }
    if !is_for("simulator") && !is_for("pretend") {
        simulate(ralph, scenario, Some(client))?;
    }
    Ok(Vec::new())
}

/// Runs a scenario and returns its timeline. Fails if an expectation is not met.
fn simulate(ralph: &Path, scenario: &Path, client: Option<&Path>) -> Result<String> {
    let mut command = shell::command(ralph);
    command.arg("simulate").arg(scenario).arg("--json");
    if let Some(client) = client {
        command.arg(format!("--client={}", client.display()));
    }
    let (code, said, errors) = shell::outcome(&mut command)?;
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

fn tell(played: &[Played]) -> usize {
    let mut failed = 0;
    for Played { name, found, .. } in played {
        match found {
            Found::Agree(1) => say::out(&format!("  ✓ {name}")),
            Found::Agree(count) => say::out(&format!("  ✓ {name}, at attempt {count}")),
            Found::Differ(differences) => {
                failed += 1;
                say::out(&format!("  ✗ {name}: - the simulator, + the client"));
                for difference in differences.iter().take(SHOWN) {
                    say::out(&format!("      {difference}"));
                }
                if differences.len() > SHOWN {
                    say::out(&format!("      and {} more", differences.len() - SHOWN));
                }
            }
            Found::Broken(why) => {
                failed += 1;
                say::out(&format!("  ✗ {name}: {why}"));
            }
        }
    }
    failed
}
