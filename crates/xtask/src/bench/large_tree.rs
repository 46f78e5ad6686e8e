//! Benchmarks stops and the start of a run in a large work tree against `git status`.

use super::BenchRace;
use super::budget::BudgetResult;
use super::fingerprint::{CHANGED, write_files};
use super::gates::approve_policy;
use super::hook_stage::HookStage;
use super::race::{self, BenchRacer, IterationCounter, RacerProof, RacerSetup};
use crate::disk;
use crate::shell::{self, RacerCommand};
use anyhow::{Context, Result};
use ralph_git::git;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

const GIT: &str = "git status, 100,000 files, one changed";
const STOP: &str = "ralph, a Stop held after the change of one file";
const START: &str = "ralph start, 100,000 files";
const MOST_OF_A_STOP: f64 = 2.6;
const MOST_OF_A_START: f64 = 6.0;

/// A gate that takes no time, so that only the cost of the tree shows.
const POLICY: &str = "[verify]\nproof = \"off\"\n\n[[gate]]\nname = \"check\"\nrun = [\"false\"]\n";
const SESSION: &str = "large";
/// Each start needs a session of its own.
const START_SCRIPT: &str =
    "exec \"$0\" start --yes --session \"start-$$\" --project \"$1\" --goal-file \"$2\"";

pub(crate) struct LargeTreeStage {
    stage: HookStage,
    project: PathBuf,
}

impl LargeTreeStage {
    pub(crate) fn new(ralph: PathBuf) -> Result<Self> {
        let stage = HookStage::new(ralph)?;
        let project = stage.directory.path().join("large");
        write_files(&project)?;
        disk::write_with_parents(&project.join("ralph.toml"), POLICY.as_bytes())?;
        shell::commit_all(&stage.env(), &project)?;
        approve_policy(&stage.ralph, &stage.env(), &project)?;
        Ok(Self { stage, project })
    }

    pub(crate) fn contest(&self, rounds: u32) -> Result<BenchRace> {
        let racers = vec![self.status_racer()?, self.start_racer()?, self.stop_racer()?];
        Ok(BenchRace { racers, rounds, base: GIT.to_owned(), judge: judge_large_tree })
    }

    fn status_racer(&self) -> Result<BenchRacer> {
        let program = shell::find_program("git").context("git is not installed")?;
        let mut args = vec!["-C".into(), self.project.clone().into()];
        args.extend(git::status_arguments().map(OsString::from));
        let command = RacerCommand { program, args, env: self.stage.env(), stdin: self.goal()? };
        Ok(self.after_change(BenchRacer::new(GIT, command, RacerProof::Exit(0))))
    }

    fn start_racer(&self) -> Result<BenchRacer> {
        let goal = self.goal()?;
        let mut start = self.stage.command(Path::new("/bin/sh"), &["-c", START_SCRIPT], &goal);
        let arguments = [self.stage.ralph.clone(), self.project.clone(), goal];
        start.args.extend(arguments.map(OsString::from));
        Ok(BenchRacer::new(START, start, RacerProof::Exit(0)))
    }

    fn stop_racer(&self) -> Result<BenchRacer> {
        let goal = self.goal()?;
        let goal = ["--goal-file", &goal.to_string_lossy()];
        let run = self.stage.start_run(SESSION, &self.project, &goal)?;
        let event = self.stage.event(SESSION, &self.project, None)?;
        let hook = self.stage.command(&self.stage.ralph, &["hook", "claude"], &event);
        let count = IterationCounter::CountFile(run.join("count"));
        Ok(self.after_change(BenchRacer::new(STOP, hook, RacerProof::Charged(count))))
    }

    fn after_change(&self, racer: BenchRacer) -> BenchRacer {
        let change = RacerSetup::Append(self.project.join(CHANGED), b"one line more\n".to_vec());
        BenchRacer { setup: change, ..racer }
    }

    fn goal(&self) -> Result<PathBuf> {
        let goal = self.stage.directory.path().join("goal.md");
        disk::write_with_parents(&goal, b"Change a file\n")?;
        Ok(goal)
    }
}

fn judge_large_tree(racers: &[BenchRacer]) -> Vec<BudgetResult> {
    let status = race::median_time(racers, GIT);
    let ratio = |name: &str| race::median_time(racers, name) / status;
    vec![
        BudgetResult::new("a Stop after a change ÷ git status", ratio(STOP), MOST_OF_A_STOP),
        BudgetResult::new("ralph start ÷ git status", ratio(START), MOST_OF_A_START),
    ]
}
