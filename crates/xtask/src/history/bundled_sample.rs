//! The bundled sample: honest changes and cheats, replayed like a history. CI checks with it that text rules hold
//! only for what is certain, and still for all of that.

use super::held_commits::HistoryFigures;
use super::replay::{ComparedCommit, HistoryReplay};
use crate::{disk, shell};
use anyhow::Result;
use serde::Deserialize;
use std::path::Path;
use tempfile::TempDir;

#[derive(Deserialize)]
struct SampleFile {
    commit: Vec<SampleCommit>,
}

#[derive(Deserialize)]
pub(super) struct SampleCommit {
    pub(super) name: String,
    /// Where the shape was seen, or `cheat`.
    pub(super) seen: String,
    pub(super) holds: Vec<String>,
    file: Vec<SampleChange>,
}

#[derive(Deserialize)]
struct SampleChange {
    path: String,
    before: Option<String>,
    after: Option<String>,
}

pub(super) fn read_sample() -> Result<Vec<SampleCommit>> {
    let path = shell::repository_root().join("crates/xtask/history-sample.toml");
    Ok(toml::from_str::<SampleFile>(&disk::read_text(&path)?)?.commit)
}

/// Replays every change of the sample, each with its own base.
pub(super) fn replay_sample(sample: &[SampleCommit]) -> Result<HistoryFigures> {
    let directory = TempDir::with_prefix("ralph-sample-")?;
    import_commits(sample, directory.path())?;
    let replay = HistoryReplay::clone_repository(directory.path())?;
    let pair = |number: usize| ComparedCommit {
        parent: format!("origin/base-{number}"),
        commit: format!("origin/change-{number}"),
    };
    replay.replay_commits(&(0..sample.len()).map(pair).collect::<Vec<_>>())
}

/// Writes two commits for each change, on branches of their own.
fn import_commits(sample: &[SampleCommit], directory: &Path) -> Result<()> {
    let mut stream = String::new();
    for (number, commit) in sample.iter().enumerate() {
        let side = |read: fn(&SampleChange) -> Option<&String>| {
            commit.file.iter().filter_map(move |file| Some((file.path.as_str(), read(file)?)))
        };
        let base: String = side(|file| file.before.as_ref()).map(import_file).collect();
        let change: String = side(|file| file.after.as_ref()).map(import_file).collect();
        stream.push_str(&import_commit(&format!("base-{number}"), &commit.name, "", &base));
        let parent = format!("from refs/heads/base-{number}\n");
        stream.push_str(&import_commit(
            &format!("change-{number}"),
            &commit.name,
            &parent,
            &change,
        ));
    }
    let input = directory.join("stream");
    disk::write_file(&input, stream.as_bytes())?;
    let git = || {
        let mut git = shell::command("git");
        git.arg("-C").arg(directory);
        git
    };
    shell::command_output(git().args(["init", "--quiet", "--initial-branch=base-0"]))?;
    shell::command_output_with_input(git().args(["fast-import", "--quiet"]), &input)?;
    Ok(())
}

fn import_commit(branch: &str, title: &str, parent: &str, files: &str) -> String {
    let data = import_data(title);
    let who = "committer sample <sample@example.invalid> 0 +0000";
    format!("commit refs/heads/{branch}\n{who}\n{data}{parent}deleteall\n{files}\n")
}

fn import_file((path, text): (&str, &String)) -> String {
    // The first line break follows the quotes of the sample.
    format!("M 100644 inline {path}\n{}", import_data(text.trim_start_matches('\n')))
}

fn import_data(text: &str) -> String {
    format!("data {}\n{text}\n", text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-S5a, R-V1l: honest changes are held only where they touch protected files or the policy; certain cases stay held.
    #[test]
    fn the_sample_is_held_only_for_what_is_certain() {
        let sample = read_sample().unwrap();
        let figures = replay_sample(&sample).unwrap();
        let held = |index: usize| {
            let mut checks: Vec<String> = figures.commits[index]
                .without_proof
                .iter()
                .filter(|one| one.is_hold)
                .map(|one| one.check.clone())
                .collect();
            checks.sort();
            checks
        };
        let rows = |read: &dyn Fn(usize, &SampleCommit) -> Vec<String>| -> Vec<String> {
            let row = |(index, commit): (usize, &SampleCommit)| {
                format!("{}: {}", commit.name, read(index, commit).join(", "))
            };
            sample.iter().enumerate().map(row).collect()
        };
        let expected = rows(&|_, commit| commit.holds.clone());
        let found = rows(&|index, _| held(index));
        assert_eq!(found, expected, "\n{}", figures.describe_holds());
        let cheats = sample.iter().filter(|commit| commit.seen == "cheat");
        assert!(cheats.clone().all(|commit| !commit.holds.is_empty()));
        assert!(cheats.count() >= 10);
    }
}
