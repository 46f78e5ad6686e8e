//! Whole runs whose judge is the real client: the verdict of the scripted model holds the agent, and the next one ends the
//! run.

use super::judge_sessions::{JudgeStage, MET, agent_step};
use super::terminal;
use crate::{disk, shell};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

const SESSION: &str = "5b1f4bb8-6a0e-4b0c-9c6e-2f5c1d6a7e11";
const CLAIM: &str = "an empty list has no first line";
const UNMET: &str = r#"{"verdict": "unmet", "findings": [{"file": "first.sh", "line": 1, "claim": "an empty list has no first line", "severity": "error", "quote": "head -n 1 list"}]}"#;
/// In a file that the change does not touch, so a judge sees it only if it reads files.
const UNTOUCHED: &str = "the list is written by invoice 4711\n";

/// What the model answers at the two stops of a run.
pub(super) struct JudgedRun {
    pub(super) name: &'static str,
    kind: &'static str,
    steps: String,
    /// How many requests the model gets.
    requests: usize,
    reads_files: bool,
}

pub(super) fn judged_runs() -> Vec<JudgedRun> {
    let run = |name, kind, steps: &[String], reads_files| JudgedRun {
        name,
        kind,
        steps: steps.concat(),
        requests: steps.len(),
        reads_files,
    };
    let (met, unmet) = (agent_step(MET, ""), agent_step(UNMET, ""));
    let search = "tools = [{ tool = \"Grep\", input = { pattern = \"invoice\", output_mode = \"content\" } }]";
    vec![
        run(
            "a run is held by unmet and ended by met",
            "prompt",
            &[unmet.clone(), met.clone()],
            false,
        ),
        run(
            "a run whose judge reads a file",
            "agent",
            &[agent_step("I look.", search), unmet.clone(), met.clone()],
            true,
        ),
        run(
            "a run with two reviewers that agree",
            "adversarial",
            &[unmet.clone(), unmet, met.clone(), met],
            false,
        ),
    ]
}

/// A project with an active run, and the client as `claude` on the `PATH`.
struct RunStage {
    judged: JudgeStage,
    ralph: PathBuf,
}

impl RunStage {
    fn new(ralph: &Path, client: &Path, run: &JudgedRun) -> Result<Self> {
        let judged = JudgeStage::new(ralph, &run.steps)?;
        let stage = Self { judged, ralph: ralph.to_owned() };
        disk::link_file(client, &stage.at("programs/claude"))?;
        let policy = format!(
            "[verify]\nproof = \"off\"\n[[gate]]\nname = \"listed\"\nrun = [\"test\", \"-s\", \"list\"]\n\
             [[judge]]\nname = \"review\"\nkind = \"{}\"\nbackend = {{ host = \"claude\" }}\n",
            run.kind
        );
        for (name, text) in [
            ("ralph.toml", policy.as_str()),
            ("first.sh", "true\n"),
            ("list", "one\ntwo\n"),
            ("notes.txt", UNTOUCHED),
            ("goal.md", "Print the first line of the list.\n"),
        ] {
            stage.write(name, text)?;
        }
        let env = [("PATH", shell::path_variable()), ("HOME", stage.at("home").into())];
        let env = env.map(|(name, value)| (OsString::from(name), value));
        shell::commit_all(&env, &stage.at("project"))?;
        let approved = stage.ralph_json(&["trust", "--json"], 3)?;
        let hash = approved["hash"].as_str().context("no hash to approve")?;
        stage.ralph_json(&["trust", "--json", "--hash", hash], 0)?;
        Ok(stage)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.judged.root.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        disk::write_file(&self.at("project").join(name), text.as_bytes())
    }

    fn command(&self, program: &Path) -> Command {
        let mut path = self.at("programs").into_os_string();
        path.push(":");
        path.push(terminal::search_path(&self.ralph));
        let mut command = self.judged.command(program);
        command.env("PATH", path);
        command
    }

    fn ralph_json(&self, words: &[&str], expected: i32) -> Result<Value> {
        let (code, said, errors) = shell::run_command(self.command(&self.ralph).args(words))?;
        ensure!(
            code == expected,
            "`ralph {}` exited with {code}: {said} {errors}",
            words.join(" ")
        );
        serde_json::from_str(&said).with_context(|| format!("not JSON: {said}"))
    }

    /// The exit code of the hook at a stop, and what it printed.
    fn stop(&self) -> Result<(i32, String)> {
        let event =
            json!({"session_id": SESSION, "hook_event_name": "Stop", "cwd": self.at("project")});
        disk::write_file(&self.at("event.json"), event.to_string().as_bytes())?;
        let mut command = self.command(Path::new("sh"));
        command.args(["-c", "exec \"$0\" hook claude < \"$1\""]);
        command.arg(&self.ralph).arg(self.at("event.json"));
        let (code, said, errors) = shell::run_command(&mut command)?;
        Ok((code, said + &errors))
    }
}

pub(super) fn play_run(ralph: &Path, client: &Path, run: &JudgedRun) -> Result<()> {
    let stage = RunStage::new(ralph, client, run)?;
    let start = ["start", "--json", "--yes", "--session", SESSION, "--goal-file", "goal.md"];
    let started = stage.ralph_json(&start, 0)?;
    stage.write("first.sh", "head -n 1 list\n")?;
    let (code, held) = stage.stop()?;
    ensure!(code == 2 && held.contains(CLAIM), "not held: exit code {code}, {held}");
    stage.write("first.sh", "test -s list && head -n 1 list\n")?;
    let (code, ended) = stage.stop()?;
    ensure!(code == 0 && ended.contains("ralph: verified"), "not verified: {code}, {ended}");
    let requests = stage.judged.requests();
    ensure!(requests.len() == run.requests, "{} requests: {requests:?}", requests.len());
    let has_read = requests.concat().contains(UNTOUCHED.trim());
    ensure!(has_read == run.reads_files, "the untouched file was read: {has_read}");
    let status = stage.ralph_json(&["status", "--all", "--json"], 0)?;
    let runs = status["runs"].as_array().context("no runs")?;
    ensure!(runs.len() == 1 && runs[0]["run"] == started["run"], "another run began: {status}");
    let spent = runs[0]["spending"]["judges_tokens"].as_u64();
    ensure!(spent > Some(0), "no verdict was paid for: {status}");
    stage.judged.check_isolation()
}
