//! The scenarios that are part of the program, for hooks that are tried outside of a checkout of ralph.

use ralph_sim::scenario::{self, Scenario, ScenarioError};
use ralph_sys::fs;
use std::path::{Path, PathBuf};

/// For any stop hook, sorted by path. They are the files of `scenarios/try`.
const TRY_SCENARIOS: [(&str, &str); 4] = [
    ("try/edits-and-stops.toml", include_str!("../../../../../scenarios/try/edits-and-stops.toml")),
    ("try/never-done.toml", include_str!("../../../../../scenarios/try/never-done.toml")),
    ("try/tests-first.toml", include_str!("../../../../../scenarios/try/tests-first.toml")),
    ("try/too-early.toml", include_str!("../../../../../scenarios/try/too-early.toml")),
];

pub(super) fn built_in_paths() -> Vec<PathBuf> {
    TRY_SCENARIOS.iter().map(|(path, _)| PathBuf::from(path)).collect()
}

/// Reads a scenario file, or the built-in scenario of this name if there is no such file.
pub(crate) fn read_file_or_built_in(path: &Path) -> Result<Scenario, ScenarioError> {
    let built_in = TRY_SCENARIOS.iter().find(|(name, _)| Path::new(name) == path);
    match built_in {
        Some((_, text)) if fs::stat_no_follow(path).is_none() => scenario::parse(text, path),
        Some(_) | None => scenario::read(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_of_the_directory_is_built_in() {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/try");
        let mut paths: Vec<_> = std::fs::read_dir(directory)
            .unwrap()
            .map(|entry| Path::new("try").join(entry.unwrap().file_name()))
            .filter(|path| path.extension().is_some_and(|end| end == "toml"))
            .collect();
        paths.sort();
        assert_eq!(built_in_paths(), paths);
    }
}
