//! Benchmarks the fingerprint of a large work tree against `git status`.

use super::BenchRace;
use super::budget::BudgetResult;
use super::race::{self, BenchRacer, RacerProof, RacerSetup};
use crate::disk;
use crate::shell::{self, RacerCommand};
use anyhow::{Context, Result};
use ralph_git::git;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const PARTS: usize = 40;
const DIRECTORIES_PER_PART: usize = 50;
const FILES_PER_DIRECTORY: usize = 50;
/// Number of distinct contents. Few, because contents are not read again once the files are known.
const CONTENTS: usize = 16;
pub(super) const CHANGED: &str = "src/part7/module11/file3.txt";
const LIMIT: f64 = 1.0;

#[derive(Clone, Copy)]
enum TreeSituation {
    Clean,
    OneFileChanged,
}

impl TreeSituation {
    const ALL: [Self; 2] = [Self::Clean, Self::OneFileChanged];

    fn name(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::OneFileChanged => "one file changed",
        }
    }

    fn racer(self, command: &str) -> String {
        format!("{command}, {}", self.name())
    }
}

const OURS: &str = "ralph, fingerprint of 100,000 files";
const GIT: &str = "git status, 100,000 files";

fn judge_fingerprint(racers: &[BenchRacer]) -> Vec<BudgetResult> {
    let median = |name: &str| race::median_time(racers, name);
    let judged = TreeSituation::ALL.map(|situation| {
        let ratio = median(&situation.racer(OURS)) / median(&situation.racer(GIT));
        let what = format!("fingerprint ÷ git status, {}", situation.name());
        BudgetResult::new(&what, ratio, LIMIT)
    });
    judged.into()
}

/// One repository per situation, and an empty home.
pub(crate) struct FingerprintStage {
    directory: TempDir,
    fingerprint: PathBuf,
}

impl FingerprintStage {
    pub(crate) fn new(fingerprint: PathBuf) -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("ralph-bench-").tempdir()?;
        let stage = Self { directory, fingerprint };
        disk::create_directory(&stage.path("home"))?;
        disk::write_with_parents(&stage.path("nothing"), b"")?;
        let repositories = TreeSituation::ALL.map(|situation| stage.repository(situation));
        for repository in &repositories {
            write_files(repository)?;
        }
        // Committed only after all files are written, so that every file is older than the index: otherwise git would
        // read it again at every status.
        for repository in &repositories {
            let steps: [&[&str]; 4] = [
                &["init", "--quiet"],
                &["add", "."],
                &["commit", "--quiet", "--message=all"],
                &["status", "--porcelain"],
            ];
            for step in steps {
                stage.git(repository, step)?;
            }
        }
        Ok(stage)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn repository(&self, situation: TreeSituation) -> PathBuf {
        self.path(&situation.name().replace(' ', "-"))
    }

    fn env(&self) -> Vec<(OsString, OsString)> {
        vec![
            ("HOME".into(), self.path("home").into()),
            ("PATH".into(), shell::path_variable()),
            ("GIT_CEILING_DIRECTORIES".into(), self.directory.path().into()),
        ]
    }

    fn git(&self, repository: &Path, arguments: &[&str]) -> Result<()> {
        let author = ["-c", "user.name=bench", "-c", "user.email=bench@localhost"];
        let mut git = shell::command("git");
        git.env_clear().envs(self.env()).arg("-C").arg(repository).args(author).args(arguments);
        shell::command_output(&mut git).map(drop)
    }

    pub(crate) fn contest(&self, rounds: u32) -> Result<BenchRace> {
        let base = TreeSituation::Clean.racer(GIT);
        Ok(BenchRace { racers: self.racers()?, rounds, base, judge: judge_fingerprint })
    }

    fn racers(&self) -> Result<Vec<BenchRacer>> {
        let git = shell::find_program("git").context("git is not installed")?;
        let mut racers = Vec::new();
        for situation in TreeSituation::ALL {
            let repository = self.repository(situation);
            let cache = self.path("home").join(situation.name());
            let ours = vec![repository.clone().into(), cache.into()];
            let mut theirs = vec!["-C".into(), repository.clone().into()];
            theirs.extend(git::status_arguments().map(OsString::from));
            for (name, program, args) in [(OURS, &self.fingerprint, ours), (GIT, &git, theirs)] {
                let program = program.clone();
                let stdin = self.path("nothing");
                let errand = RacerCommand { program, args, env: self.env(), stdin };
                let mut racer =
                    BenchRacer::new(&situation.racer(name), errand, RacerProof::Exit(0));
                racer.setup = match situation {
                    TreeSituation::Clean => RacerSetup::Nothing,
                    TreeSituation::OneFileChanged => {
                        RacerSetup::Append(repository.join(CHANGED), b"one line more\n".to_vec())
                    }
                };
                racers.push(racer);
            }
        }
        Ok(racers)
    }
}

pub(super) fn write_files(repository: &Path) -> Result<()> {
    let contents: Vec<String> =
        (0..CONTENTS).map(|number| format!("the line of kind {number}\n").repeat(20)).collect();
    let mut contents = contents.iter().cycle();
    for part in 0..PARTS {
        for module in 0..DIRECTORIES_PER_PART {
            let directory = repository.join(format!("src/part{part}/module{module}"));
            disk::create_directory(&directory)?;
            for file in 0..FILES_PER_DIRECTORY {
                let content = contents.next().map_or("", String::as_str);
                disk::write_file(&directory.join(format!("file{file}.txt")), content.as_bytes())?;
            }
        }
    }
    Ok(())
}
