//! Benchmarks `ralph recall`, and checks that its queries find the right records.

#[path = "../../../ralph/tests/it/recall_corpus.rs"]
mod recall_corpus;

use super::BenchRace;
use super::budget::BudgetResult;
use super::race::{BenchRacer, RacerPace, RacerProof, RacerSetup};
use crate::disk;
use crate::shell::{self, RacerCommand};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

const RECORDS: usize = 10_000;
const LIMIT_MS: f64 = 50.0;
/// Maximum number of queries whose answer is the second hit instead of the first.
const MOST_SECOND: f64 = 1.0;

const TRUE: &str = "/bin/true";
const SPECIFIC_QUERY: &str = "ralph recall, a question";
const COMMON_QUERY: &str = "ralph recall, words that half of the records have";
const NO_MATCH_QUERY: &str = "ralph recall, a word that none has";
const AFTER_APPEND: &str = "ralph recall, after memory grew";

/// Judges the minimum: other load only adds to a time, and there is no ratio that would cancel it out.
fn judge_recall(racers: &[BenchRacer]) -> Vec<BudgetResult> {
    let judged = |racer: &BenchRacer| {
        BudgetResult::new(&format!("{}, ms", racer.times.name), racer.times.percentile(0), LIMIT_MS)
    };
    let is_judged = |racer: &&BenchRacer| {
        [SPECIFIC_QUERY, COMMON_QUERY, NO_MATCH_QUERY].contains(&racer.times.name.as_str())
    };
    racers.iter().filter(is_judged).map(judged).collect()
}

pub(crate) struct RecallStage {
    directory: TempDir,
    ralph: PathBuf,
}

impl RecallStage {
    pub(crate) fn new(ralph: PathBuf) -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("ralph-bench-").tempdir()?;
        let stage = Self { directory, ralph };
        let long_ago = shell::now() - Duration::from_hours(24);
        for (path, bytes) in
            recall_corpus::corpus_files(&stage.path("home/.ralph"), &stage.path("project"), RECORDS)
        {
            disk::write_with_parents(&path, &bytes)?;
            disk::set_modified(&path, long_ago)?;
        }
        disk::write_with_parents(&stage.path("nothing"), b"")?;
        Ok(stage)
    }

    /// Builds the index with a first query.
    pub(crate) fn build(&self) -> Result<String> {
        let (took, code) = shell::time_command(&self.errand("anything"))?;
        ensure!(code == 0, "it exited with {code}");
        let searched = &self.query("anything")?["searched"];
        let index = disk::file_length(&self.path("home/.ralph/index/recall.sqlite"))?;
        let mib = index / (1 << 20);
        Ok(format!("built an index of {mib} MiB in {} ms: {searched}", took.as_millis()))
    }

    pub(crate) fn contest(&self, rounds: u32) -> Result<BenchRace> {
        let nothing = self.path("nothing");
        let idle =
            RacerCommand { program: TRUE.into(), args: vec![], env: self.env(), stdin: nothing };
        let ask = |name: &str, query: &str| {
            BenchRacer::new(name, self.errand(query), RacerProof::Exit(0))
        };
        let (question, _) = recall_corpus::RECALL_QUERIES[0];
        let mut grown = ask(AFTER_APPEND, question);
        grown.pace = RacerPace::EveryTenth;
        grown.setup = RacerSetup::Append(self.some_memory()?, b"one line more\n".to_vec());
        let racers = vec![
            BenchRacer::new(TRUE, idle, RacerProof::Exit(0)),
            ask(SPECIFIC_QUERY, question),
            ask(COMMON_QUERY, "tests of the queue that failed in staging"),
            ask(NO_MATCH_QUERY, "xyzzy"),
            grown,
        ];
        Ok(BenchRace { racers, rounds, base: TRUE.to_owned(), judge: judge_recall })
    }

    /// Counts answers that are the second hit. An answer further down is an error.
    pub(crate) fn questions(&self) -> Result<BudgetResult> {
        let mut second = 0.0;
        for (question, title) in recall_corpus::RECALL_QUERIES {
            let answer = self.query(question)?;
            let hits = answer["hits"].as_array().context("there are no hits")?;
            match hits.iter().position(|hit| hit["title"] == title) {
                Some(0) => {}
                Some(1) => second += 1.0,
                place => anyhow::bail!("`{question}` finds `{title}` at {place:?}: {answer}"),
            }
        }
        let what =
            format!("answers of {} that are the second hit", recall_corpus::RECALL_QUERIES.len());
        Ok(BudgetResult::new(&what, second, MOST_SECOND))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn some_memory(&self) -> Result<PathBuf> {
        let plans = disk::list(&self.path("project/docs/plans"))?;
        Ok(plans.first().context("there is no plan")?.join("MEMORY.md"))
    }

    fn env(&self) -> Vec<(OsString, OsString)> {
        vec![("HOME".into(), self.path("home").into()), ("PATH".into(), shell::path_variable())]
    }

    fn args(&self, query: &str) -> Vec<OsString> {
        let project = self.path("project").into_os_string();
        vec!["recall".into(), "--project".into(), project, query.into()]
    }

    fn errand(&self, query: &str) -> RacerCommand {
        let (program, stdin) = (self.ralph.clone(), self.path("nothing"));
        RacerCommand { program, args: self.args(query), env: self.env(), stdin }
    }

    fn query(&self, query: &str) -> Result<Value> {
        let mut command = shell::command(Path::new(&self.ralph));
        command.env_clear().envs(self.env()).args(self.args(query)).arg("--json");
        Ok(serde_json::from_slice(&shell::command_output(&mut command)?)?)
    }
}
