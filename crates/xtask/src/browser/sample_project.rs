//! A home of ralph with enough runs to compare, one of which has checkpoints of a real repository.

use super::detailed_runs::SampleWording;
use super::sample_home::{HOSTILE, SampleStop, TESTS_GATE};
use super::sample_journal::SampleJournal;
use crate::{disk, shell};
use anyhow::{Context, Result};
use ralph_core::gate::ResultStability;
use ralph_core::id::RunId;
use ralph_core::record::{RunChange, RunRecord, StopOutcome};
use ralph_core::status::RunStatus;
use ralph_git::checkpoint::{CheckpointReason, CheckpointRepository, CheckpointSnapshot};
use ralph_git::tree::{self, ListingRequest};
use ralph_home::paths::RalphHome;
use ralph_sys::clock::{self, Deadline};
use serde_json::json;
use std::path::Path;
use std::time::Duration;

/// The run with checkpoints.
pub(super) const CHANGED_RUN: &str = "c4kz";
/// More than the stats need to compare.
const COMPARED_RUNS: usize = 12;
const GIT_TIMEOUT: Duration = Duration::from_mins(1);
const POLICY: &str = "[[gate]]\nname = \"build\"\nrun = [\"true\"]\n\n[[gate]]\nname = \"tests\"\nrun = [\"true\"]\n";
const NAME: &str = "<b>&\"quoted\".txt";

/// Runs of a project in `project`, with a proposal, an applied one, and changed files whose names and lines try to be markup.
pub(super) fn write_compared_runs(root: &Path, project: &Path) -> Result<()> {
    let home = RalphHome::new(root.to_path_buf());
    let now_ms = clock::now_ms();
    disk::write_with_parents(&project.join("ralph.toml"), POLICY.as_bytes())?;
    disk::write_file(&project.join(NAME), b"one\ntwo\nthree\n")?;
    let env = [("HOME".into(), root.into()), ("PATH".into(), shell::path_variable())];
    shell::commit_all(&env, project)?;
    for number in 0..COMPARED_RUNS {
        let run = RunId::parse(&format!("v{number:03}")).context("a wrong id")?;
        write_compared_run(&home, &run, project, number + 1)?;
    }
    let run = RunId::parse(CHANGED_RUN).context("a wrong id")?;
    write_compared_run(&home, &run, project, 0)?;
    add_checkpoint(&home, &run, project, CheckpointReason::Start)?;
    let changed = format!("one\n{HOSTILE}\nthree\n{}\n", "long".repeat(200));
    disk::write_file(&project.join(NAME), changed.as_bytes())?;
    disk::write_file(&project.join("added.txt"), HOSTILE.as_bytes())?;
    add_checkpoint(&home, &run, project, CheckpointReason::Iteration(1))?;
    let applied = json!({
        "v": 1, "at_ms": now_ms, "project": project, "kind": "repeat", "gate": "tests",
        "title": HOSTILE, "file": "ralph.toml", "key": "rerun", "value": "\"tests\"",
    });
    disk::write_with_parents(&home.applied_proposals(), format!("{applied}\n").as_bytes())
}

/// A run of the compared project: its title, and how many requirements are open at each stop.
const COMPARED: [(&str, &[usize]); 6] = [
    ("Quote fields that hold commas", &[2, 1, 0]),
    ("Read files with a byte order mark", &[4, 2, 1, 0]),
    ("Keep the order of columns", &[1, 0]),
    ("Stream rows instead of reading all of them", &[5, 4, 3, 3, 1, 0]),
    ("Say in which line a quote is missing", &[3, 1, 0]),
    ("Guess the separator", &[4, 3, 3, 3]),
];
const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// The runs of three weeks. One in six is not met when its time is up.
fn write_compared_run(home: &RalphHome, run: &RunId, project: &Path, number: usize) -> Result<()> {
    let weeks_ago = u64::try_from(number % 3)?;
    // Long enough ago that the longest one has ended.
    let started_ms = clock::now_ms() - weeks_ago * 7 * DAY_MS - 3 * DAY_MS / 24;
    let (title, opens) = COMPARED.get(number % COMPARED.len()).context("a compared run")?;
    let mut record =
        RunRecord::new(run.clone(), project.to_string_lossy().into_owned(), started_ms);
    record.title = (*title).to_string();
    let mut journal = SampleJournal::begin(home, &record)?;
    for (stop, open) in opens.iter().copied().enumerate() {
        let wording = SampleWording::Realistic;
        let mut decided = SampleStop { number: stop, open, seed: number, wording }.held();
        if stop + 1 == opens.len() {
            let end = if open == 0 { RunStatus::Verified } else { RunStatus::Exhausted };
            decided.outcome = StopOutcome::Ended(end);
        }
        // The tests depend on the time of day, and pass when they run again.
        let is_flaky = stop > 0 && (number + stop).is_multiple_of(4);
        let tests = decided.gates.iter_mut().filter(|gate| gate.name == TESTS_GATE);
        for gate in tests.filter(|gate| is_flaky && gate.outcome == "passed") {
            gate.steadiness = ResultStability::Flaky;
            gate.cached = false;
        }
        let minutes = 9 + u64::try_from((number * 5 + stop * 3) % 14)?;
        journal.after(minutes, RunChange::Decided(Box::new(decided)))?;
    }
    journal.save(title)
}

fn add_checkpoint(
    home: &RalphHome,
    run: &RunId,
    project: &Path,
    reason: CheckpointReason,
) -> Result<()> {
    let deadline = Deadline::after(GIT_TIMEOUT);
    let repository = CheckpointRepository::open(home, run, project, &deadline)?;
    let request = ListingRequest {
        project: repository.root(),
        exclude: &[],
        cache: None,
        deadline: &deadline,
    };
    let listing = tree::list_work_tree(&request)?;
    let snapshot = CheckpointSnapshot { listing: &listing, excluded: &[], reason };
    repository.create(&snapshot, &deadline)?;
    Ok(())
}
