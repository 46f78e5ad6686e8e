//! Benchmarks gates against `xargs -P` with the same commands.

use super::BenchRace;
use super::budget::BudgetResult;
use super::race::{self, BenchRacer, RacerProof};
use crate::disk;
use crate::shell::{self, RacerCommand};
use anyhow::{Context, Result};
use serde_json::Value;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// Half of them sleep and half compute, so that both a late start and a blocked core show.
const LONG: usize = 8;
/// All take about as long, so that their order does not matter, and within the bucket of durations that ralph treats as
/// equal (256 to 511 ms), so that it keeps the same order as `xargs`.
const LONG_TAKES: Duration = Duration::from_millis(360);
/// Empty gates, which show the overhead per gate.
const SHORT: usize = 40;
const LOAD_BYTES: usize = 4 << 20;
/// Number of reads that are timed to calibrate the load.
const TRIAL: usize = 20;

const OURS: &str = "ralph gate run, 8 gates";
const THEIRS: &str = "xargs -P, 8 gates";
const CACHED: &str = "ralph gate run, nothing changed";
const OURS_SHORT: &str = "ralph gate run, 40 gates that do nothing";
const THEIRS_SHORT: &str = "xargs -P, 40 gates that do nothing";
const LIMIT: f64 = 1.03;

fn judge_gates(racers: &[BenchRacer]) -> Vec<BudgetResult> {
    let ratio = race::median_time(racers, OURS) / race::median_time(racers, THEIRS);
    vec![BudgetResult::new("gates ÷ xargs -P", ratio, LIMIT)]
}

pub(crate) struct GatesStage {
    directory: TempDir,
    ralph: PathBuf,
}

/// A repository with an approved policy, and the same commands for `xargs`.
struct GatesProject {
    directory: PathBuf,
    commands: PathBuf,
    /// One file per command; every run of the command appends one byte.
    counters: Vec<PathBuf>,
}

impl GatesStage {
    pub(crate) fn new(ralph: PathBuf) -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("ralph-bench-").tempdir()?;
        let stage = Self { directory, ralph };
        disk::create_directory(&stage.path("home"))?;
        disk::write_with_parents(&stage.path("nothing"), b"")?;
        Ok(stage)
    }

    pub(crate) fn contest(&self, rounds: u32) -> Result<BenchRace> {
        let long = self.project("long", &self.long_commands()?)?;
        let short = self.project("short", &vec![String::new(); SHORT])?;
        let fresh = ["--no-cache", "--all"];
        let racers = vec![
            self.theirs(THEIRS, &long)?,
            self.ours(OURS, &long, (&fresh, 1)),
            self.ours(CACHED, &long, (&[], 0)),
            self.theirs(THEIRS_SHORT, &short)?,
            self.ours(OURS_SHORT, &short, (&fresh, 1)),
        ];
        Ok(BenchRace { racers, rounds, base: THEIRS.to_owned(), judge: judge_gates })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn env(&self) -> Vec<(OsString, OsString)> {
        vec![
            ("HOME".into(), self.path("home").into()),
            ("PATH".into(), shell::path_variable()),
            ("GIT_CEILING_DIRECTORIES".into(), self.directory.path().into()),
        ]
    }

    fn long_commands(&self) -> Result<Vec<String>> {
        let load = self.path("load");
        disk::write_with_parents(&load, &vec![b'r'; LOAD_BYTES])?;
        let program = shell::find_program("sha256sum").context("sha256sum is not installed")?;
        let args = vec![load.clone().into_os_string(); TRIAL];
        let errand = RacerCommand { program, args, env: self.env(), stdin: self.path("nothing") };
        let times = (0..5).map(|_| shell::time_command(&errand)).collect::<Result<Vec<_>>>()?;
        let trial = times.into_iter().map(|(took, _)| took).min().unwrap_or(LONG_TAKES);
        let readings = usize::try_from(LONG_TAKES.as_micros())? * TRIAL
            / usize::try_from(trial.as_micros())?.max(1);
        let work = format!("sha256sum{}", format!(" '{}'", load.display()).repeat(readings.max(1)));
        let wait = format!("sleep {}", LONG_TAKES.as_secs_f64());
        Ok([wait, work].into_iter().cycle().take(LONG).collect())
    }

    fn project(&self, name: &str, commands: &[String]) -> Result<GatesProject> {
        let directory = self.path(name);
        let counter = |number| self.path(&format!("{name}-runs/{number}"));
        disk::create_directory(&self.path(&format!("{name}-runs")))?;
        let mut policy = String::new();
        let mut lines = Vec::new();
        for (number, command) in commands.iter().enumerate() {
            let line = format!("printf . >> '{}'\n{command}", counter(number).display());
            let shell = serde_json::to_string(&line)?;
            policy.push_str(&format!("[[gate]]\nname = \"gate-{number}\"\nshell = {shell}\n\n"));
            lines.extend_from_slice(line.as_bytes());
            lines.push(0);
        }
        disk::write_with_parents(&directory.join("ralph.toml"), policy.as_bytes())?;
        let project = GatesProject {
            directory,
            commands: self.path(&format!("{name}-commands")),
            counters: (0..commands.len()).map(counter).collect(),
        };
        disk::write_with_parents(&project.commands, &lines)?;
        let mut git = shell::command("git");
        git.env_clear().envs(self.env()).args(["init", "--quiet"]).arg(&project.directory);
        shell::command_output(&mut git)?;
        approve_policy(&self.ralph, &self.env(), &project.directory)?;
        Ok(project)
    }

    fn ours(
        &self,
        name: &str,
        project: &GatesProject,
        (options, times): (&[&str], u64),
    ) -> BenchRacer {
        let mut args: Vec<OsString> = ["gate", "run", "--format", "json"].map(Into::into).into();
        args.extend(options.iter().map(OsString::from));
        args.extend(["--project".into(), project.directory.clone().into()]);
        let program = self.ralph.clone();
        let errand = RacerCommand { program, args, env: self.env(), stdin: self.path("nothing") };
        BenchRacer::new(name, errand, RacerProof::Ran(project.counters.clone(), times))
    }

    fn theirs(&self, name: &str, project: &GatesProject) -> Result<BenchRacer> {
        let program = shell::find_program("xargs").context("xargs is not installed")?;
        let cores = shell::cores().to_string();
        let args = ["-0", "-P", &cores, "-n", "1", "/bin/sh", "-c"].map(Into::into).into();
        let errand =
            RacerCommand { program, args, env: self.env(), stdin: project.commands.clone() };
        Ok(BenchRacer::new(name, errand, RacerProof::Ran(project.counters.clone(), 1)))
    }
}

/// Approves the policy, as a person does with `ralph trust`.
pub(crate) fn approve_policy(
    ralph: &Path,
    env: &[(OsString, OsString)],
    project: &Path,
) -> Result<()> {
    let trust = || {
        let env = env.iter().map(|(name, value)| (name, value));
        let mut trust = shell::command(ralph);
        trust.env_clear().envs(env).args(["trust", "--project"]).arg(project);
        trust
    };
    let asked: Value =
        serde_json::from_slice(&shell::command_output_with_code(trust().arg("--json"), 3)?)?;
    let hash = asked["hash"].as_str().context("the policy has no hash")?;
    shell::command_output(trust().args(["--hash", hash])).map(drop)
}
