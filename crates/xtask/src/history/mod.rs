//! Replays the history of repositories through the checks that need no gate, and counts how many commits each would
//! hold. Run on honest work, every hold that a reader calls wrong is a false alarm.

#[cfg(test)]
mod bundled_sample;
mod held_commits;
mod replay;

use crate::{HistoryOptions, print};
use anyhow::Result;
use held_commits::HistoryFigures;
use replay::HistoryReplay;

pub(crate) fn run(options: &HistoryOptions) -> Result<()> {
    let mut all = Vec::new();
    for repository in &options.repositories {
        let replay = HistoryReplay::clone_repository(repository)?;
        let figures = replay.replay_commits(&replay.first_parents(options.commits)?)?;
        if options.json {
            print::print_line(&figures.to_json(&repository.to_string_lossy()).to_string());
        } else {
            print::print_line(&format!("{}\n{}", repository.display(), figures.describe_holds()));
            all.push(figures);
        }
    }
    if !options.json {
        print::print_line(&HistoryFigures::merge(all).table());
    }
    Ok(())
}
