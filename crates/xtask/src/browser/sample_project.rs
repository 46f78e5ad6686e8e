//! A home of ralph with enough runs to compare, one of which has checkpoints of a real repository.

use super::sample_home::{HOSTILE, append, create, held_stop};
use crate::{disk, shell};
use anyhow::{Context, Result};
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
const COMPARED_RUNS: u32 = 12;
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
        write_verified_run(&home, &run, project, now_ms - u64::from(number) * 3_600_000)?;
    }
    let run = RunId::parse(CHANGED_RUN).context("a wrong id")?;
    write_verified_run(&home, &run, project, now_ms)?;
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

fn write_verified_run(home: &RalphHome, run: &RunId, project: &Path, at_ms: u64) -> Result<()> {
    let project = project.to_string_lossy().into_owned();
    let mut record = RunRecord::new(run.clone(), project, at_ms);
    record.title = "Quote fields that hold commas".to_string();
    create(home, &record, "a goal")?;
    for (stop, open) in [(0, 2), (1, 1)] {
        let held = held_stop(stop, open, "no finding");
        append(home, run, RunChange::Decided(Box::new(held)))?;
    }
    let mut last = held_stop(2, 0, "no finding");
    last.outcome = StopOutcome::Ended(RunStatus::Verified);
    append(home, run, RunChange::Decided(Box::new(last)))
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
