//! Benchmarks a proof at a stop, and a stop that is held before it comes to one, against one run of the gates.

use super::budget::BudgetResult;
use super::gates::approve_policy;
use super::hook_stage::HookStage;
use super::race::{self, BenchRacer, IterationCounter, RacerProof, RacerSetup, RacerTimes};
use super::{BenchRace, print_times};
use crate::shell::{self, RacerCommand};
use crate::{BenchOutputOptions, disk};
use anyhow::{Context, Result, ensure};
use std::cell::Cell;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

const GATES: &str = "ralph gate run, 3 s";
const HELD: &str = "ralph, a Stop held by that gate";
const LONG_GATES: &str = "ralph gate run, 11 s";
const PROOF: &str = "ralph, a Stop that proves the change";
const MOST_OF_A_HELD_STOP: f64 = 1.2;
const MOST_OF_A_PROOF: f64 = 0.8;

/// Files of tests, each of which takes this long. Only suites of more than ten seconds run in part.
const LONG_FILES: usize = 6;
const LONG_FILE_MS: u32 = 1_750;
const SHORT_FILES: usize = 2;
const SHORT_FILE_MS: u32 = 1_450;

/// One file at a time, so that the suite takes as long with many cores.
const POLICY: &str = r#"[[gate]]
name = "tests"
run = ["node", "--test", "--test-concurrency=1", "--test-reporter=junit", "--test-reporter-destination={report}"]
report = "junit"
"#;
const CODE: &str = "exports.total = (prices) => prices.reduce((sum, one) => sum + one, 0);\n";
const NEW_CODE: &str = "exports.rounded = (price) => Math.round(price * 100) / 100;\n";
const NEW_TEST: &str = "
test(\"prices are rounded\", () => assert.equal(require(\"../src/cart.js\").rounded(1.239), 1.24));
";

pub(crate) struct ProofStage {
    stage: HookStage,
    /// Counts proofs: each has its own run and its own files, so that no result is cached.
    proofs: Cell<u32>,
}

impl ProofStage {
    pub(crate) fn new(ralph: PathBuf) -> Result<Self> {
        shell::find_program("node").context("node is not installed")?;
        Ok(Self { stage: HookStage::new(ralph)?, proofs: Cell::new(0) })
    }

    /// A gate that fails, by itself and at a stop. No proof is made of it.
    pub(crate) fn held_contest(&self, rounds: u32) -> Result<BenchRace> {
        let project = self.create_project("held", SHORT_FILES, SHORT_FILE_MS)?;
        let run = self.start_run("held", &project)?;
        self.measure_base(&run)?;
        let counter = self.stage.directory.path().join("held-runs");
        // The failure is confirmed by a run of the failed test alone, so the others run once.
        let failing = "
test(\"a promise\", () => assert.equal(total([]), 1));
test(\"another promise\", () => require(\"node:fs\").appendFileSync(\"COUNTER\", \".\"));
";
        let failing = failing.replace("COUNTER", &counter.to_string_lossy());
        disk::append(&test_file(&project, 1), failing.as_bytes())?;
        let gates = self.gate_command(&project)?;
        let hook = self.hook_command("held", &project)?;
        let count = IterationCounter::CountFile(run.join("count"));
        let mut held = BenchRacer::new(HELD, hook, RacerProof::Held(count, counter));
        // The stop must not find the result of the gate that just ran by itself.
        held.setup = RacerSetup::Append(code_file(&project), b"// more\n".to_vec());
        let racers = vec![BenchRacer::new(GATES, gates, RacerProof::Exit(1)), held];
        Ok(BenchRace { racers, rounds, base: GATES.to_owned(), judge: judge_held })
    }

    /// The gates pass in the project first, so that the stop has nothing to do but the proof.
    pub(crate) fn measure_proof(&self, manner: &BenchOutputOptions) -> Result<Vec<BudgetResult>> {
        let number = self.proofs.get() + 1;
        self.proofs.set(number);
        let session = format!("proof-{number}");
        let project = self.create_project(&session, LONG_FILES, LONG_FILE_MS)?;
        let run = self.start_run(&session, &project)?;
        self.measure_base(&run)?;
        disk::append(&code_file(&project), NEW_CODE.as_bytes())?;
        disk::append(&test_file(&project, 1), NEW_TEST.as_bytes())?;
        let (mut gates, mut proof) = (RacerTimes::new(LONG_GATES), RacerTimes::new(PROOF));
        let (took, code) = shell::time_command(&self.gate_command(&project)?)?;
        ensure!(code == 0, "the gates exited with {code} instead of 0");
        gates.times.push(took);
        let (took, code) = shell::time_command(&self.hook_command(&session, &project)?)?;
        ensure!(code == 0, "the stop exited with {code} instead of 0");
        let state = disk::read_text(&run.join("state.json"))?;
        ensure!(state.contains("\"verified\""), "the run is not verified: {state}");
        proof.times.push(took);
        print_times([&gates, &proof].into_iter(), LONG_GATES, manner);
        let ratio = proof.percentile(50) / gates.percentile(50);
        let what = "a proof, only changed test files ÷ gates";
        Ok(vec![BudgetResult::new(what, ratio, MOST_OF_A_PROOF)])
    }

    /// A repository with an approved policy and one source file that all tests use.
    fn create_project(&self, name: &str, files: usize, each_ms: u32) -> Result<PathBuf> {
        let project = self.stage.directory.path().join(name);
        disk::write_with_parents(&project.join("ralph.toml"), POLICY.as_bytes())?;
        disk::write_with_parents(&code_file(&project), format!("// {name}\n{CODE}").as_bytes())?;
        for number in 1..=files {
            let text = test_text(number, each_ms);
            disk::write_with_parents(&test_file(&project, number), text.as_bytes())?;
        }
        shell::commit_all(&self.stage.env(), &project)?;
        approve_policy(&self.stage.ralph, &self.stage.env(), &project)?;
        Ok(project)
    }

    fn start_run(&self, session: &str, project: &Path) -> Result<PathBuf> {
        let goal = self.stage.directory.path().join("goal.md");
        disk::write_with_parents(&goal, b"Round prices to cents\n")?;
        self.stage.start_run(session, project, &["--goal-file", &goal.to_string_lossy()])
    }

    /// Waits for the measurement of the base that started in the background with the run.
    fn measure_base(&self, run: &Path) -> Result<()> {
        let run = run.file_name().unwrap_or_default();
        let mut warm = shell::command(&self.stage.ralph);
        warm.env_clear().envs(self.stage.env()).args(["gate", "warm", "--run"]).arg(run);
        shell::command_output(warm.args(["--site", "base", "--mark", "base", "--", "tests"]))
            .map(drop)
    }

    fn gate_command(&self, project: &Path) -> Result<RacerCommand> {
        let stdin = self.stage.directory.path().join("nothing");
        disk::write_with_parents(&stdin, b"")?;
        let args = ["gate", "run", "--no-cache", "--all", "--format", "json", "--project"];
        let mut command = self.stage.command(&self.stage.ralph, &args, &stdin);
        command.args.push(OsString::from(project));
        Ok(command)
    }

    fn hook_command(&self, session: &str, project: &Path) -> Result<RacerCommand> {
        let event = self.stage.event(session, project, None)?;
        Ok(self.stage.command(&self.stage.ralph, &["hook", "claude"], &event))
    }
}

fn judge_held(racers: &[BenchRacer]) -> Vec<BudgetResult> {
    let ratio = race::median_time(racers, HELD) / race::median_time(racers, GATES);
    vec![BudgetResult::new("a held Stop ÷ gates", ratio, MOST_OF_A_HELD_STOP)]
}

fn code_file(project: &Path) -> PathBuf {
    project.join("src/cart.js")
}

fn test_file(project: &Path, number: usize) -> PathBuf {
    project.join(format!("tests/part{number}.test.js"))
}

fn test_text(number: usize, each_ms: u32) -> String {
    format!(
        "const test = require(\"node:test\");
const assert = require(\"node:assert\");
const {{ total }} = require(\"../src/cart.js\");

test(\"part {number} adds prices\", async () => {{
  await new Promise((done) => setTimeout(done, {each_ms}));
  assert.equal(total([{number}, 1]), {number} + 1);
}});
"
    )
}
