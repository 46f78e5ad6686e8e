//! Tests of the repository's own scenarios, under `scenarios/`.

use super::{Scenario, ScenarioError, ScenarioStep, parse, read};
use ralph_sys::fs;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Every shipped scenario parses, has a unique sentence as its name, and expects something.
#[test]
fn shipped_scenarios_are_complete() {
    let mut names = BTreeMap::new();
    let mut faults = Vec::new();
    let paths = scenario_paths();
    assert!(paths.len() >= 25, "only {} scenarios are shipped", paths.len());
    for path in &paths {
        match read(path) {
            Ok(scenario) => {
                faults.extend(
                    scenario_flaws(&scenario).map(|fault| (path.clone(), fault.to_owned())),
                );
                if let Some(other) = names.insert(scenario.name, path) {
                    faults.push((path.clone(), format!("is named like {}", other.display())));
                }
            }
            Err(ScenarioError::Invalid(problems)) => {
                faults.extend(problems.into_iter().map(|problem| (path.clone(), problem.message)));
            }
            Err(error) => faults.push((path.clone(), error.to_string())),
        }
    }
    assert_eq!(faults, []);
}

/// The example in the README, which has every key, parses.
#[test]
fn example_is_a_scenario() {
    let place = scenarios_directory().join("README.md");
    let text = String::from_utf8(fs::read(&place, 1024 * 1024).unwrap()).unwrap();
    let (_, rest) = text.split_once("```toml\n").unwrap();
    let (example, _) = rest.split_once("```").unwrap();
    parse(example, &scenarios_directory().join("peers/example.toml")).unwrap();
}

fn scenario_flaws(scenario: &Scenario) -> impl Iterator<Item = &'static str> {
    let Scenario { name, expect, .. } = scenario;
    let is_sentence = name.ends_with('.') && name.contains(' ') && !name.contains('\n');
    let has_person =
        matches!(scenario.steps.first(), Some(ScenarioStep::Person(_) | ScenarioStep::Shell(_)));
    let has_person = has_person || scenario.runner.is_some();
    let expects = expect.endings.is_some()
        || expect.events.is_some()
        || !expect.screen.is_empty()
        || !expect.output.is_empty()
        || expect.status.is_some();
    let faults = [
        (!is_sentence, "its name is not a sentence"),
        (!has_person, "it starts with neither a person nor a runner"),
        (!expects, "it expects no endings, events, screen, output or run status"),
    ];
    faults.into_iter().filter(|(is_fault, _)| *is_fault).map(|(_, fault)| fault)
}

fn scenario_paths() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut places = vec![scenarios_directory()];
    while let Some(place) = places.pop() {
        for name in fs::list(&place, 10_000).unwrap() {
            let path = place.join(name);
            // A `ralph.toml` is the policy of a scenario's project, not a scenario.
            let is_policy = path.ends_with("ralph.toml");
            if fs::is_directory(&path) {
                places.push(path);
            } else if !is_policy && path.extension().is_some_and(|extension| extension == "toml") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn scenarios_directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")
}
