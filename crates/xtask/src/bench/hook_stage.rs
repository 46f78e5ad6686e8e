//! A temporary home, project and host directory for the hook benchmark.

use crate::disk;
use crate::shell::{self, RacerCommand};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

const PROJECT_FILES: usize = 500;
const FEATURES: usize = 200;
const FEATURES_DONE: usize = 100;
const TASKS: usize = 20;
const TASKS_DONE: usize = 5;
/// Old sessions, which every lookup has to skip.
const OTHER_SESSIONS: usize = 200;

const SESSION_POLICY: &[u8] =
    b"[session]\ngates = \"every\"\n\n[[gate]]\nname = \"tests\"\nrun = [\"false\"]\n";

pub(crate) struct HookStage {
    pub(crate) directory: TempDir,
    pub(crate) ralph: PathBuf,
}

impl HookStage {
    pub(crate) fn new(ralph: PathBuf) -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("ralph-bench-").tempdir()?;
        let stage = Self { directory, ralph };
        for place in [stage.home(), stage.plain_project()] {
            disk::create_directory(&place)?;
        }
        stage.create_project(&stage.project())?;
        disk::write_with_parents(&stage.gated_project().join("ralph.toml"), SESSION_POLICY)?;
        stage.create_project(&stage.gated_project())?;
        stage.create_other_sessions()?;
        Ok(stage)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.path("home")
    }

    pub(crate) fn ralph_home(&self) -> PathBuf {
        self.path("home/.ralph")
    }

    pub(crate) fn loop_home(&self) -> PathBuf {
        self.path("loops")
    }

    pub(crate) fn host_directory(&self) -> PathBuf {
        self.path("home/.claude")
    }

    pub(crate) fn project(&self) -> PathBuf {
        self.path("project")
    }

    /// Like [`Self::project`], with gates that hold every session.
    pub(crate) fn gated_project(&self) -> PathBuf {
        self.path("gated")
    }

    /// Not a repository, so that a stop does not run git.
    pub(crate) fn plain_project(&self) -> PathBuf {
        self.path("plain")
    }

    pub(crate) fn env(&self) -> Vec<(OsString, OsString)> {
        let pair = |name: &str, value: OsString| (name.into(), value);
        vec![
            pair("HOME", self.home().into()),
            pair("RALPH_HOME", self.ralph_home().into()),
            // The same stop is held many times in a row, which the client's block cap would not allow.
            pair("CLAUDE_CODE_STOP_HOOK_BLOCK_CAP", "0".into()),
            pair("CLAUDE_CONFIG_DIR", self.host_directory().into()),
            pair("LOOP_HOME", self.loop_home().into()),
            pair("PATH", shell::path_variable()),
        ]
    }

    pub(crate) fn command(&self, program: &Path, args: &[&str], stdin: &Path) -> RacerCommand {
        let args = args.iter().map(OsString::from).collect();
        RacerCommand {
            program: program.to_path_buf(),
            args,
            env: self.env(),
            stdin: stdin.to_path_buf(),
        }
    }

    /// A recorded Stop event of a real client, adapted to `session` and the paths of this stage.
    pub(crate) fn event(
        &self,
        session: &str,
        project: &Path,
        transcript: Option<&Path>,
    ) -> Result<PathBuf> {
        let transcript = transcript.map(Path::to_path_buf);
        self.recorded_event("Stop.first.json", session, project, transcript)
    }

    /// A recorded prompt, adapted like [`Self::event`].
    pub(crate) fn prompt(&self, session: &str, project: &Path) -> Result<PathBuf> {
        self.recorded_event("UserPromptSubmit.json", session, project, None)
    }

    fn recorded_event(
        &self,
        recording: &str,
        session: &str,
        project: &Path,
        transcript: Option<PathBuf>,
    ) -> Result<PathBuf> {
        let recorded = client_fixtures().join("stdin").join(recording);
        let mut event: Value = serde_json::from_slice(&disk::read(&recorded)?)?;
        // Rounds are faster than any model. Without a prompt id, a stop is not taken for a repetition of the one a few
        // milliseconds before.
        event["prompt_id"] = Value::Null;
        let absent = self.host_directory().join("projects/none.jsonl");
        event["session_id"] = session.into();
        event["cwd"] = json!(project);
        event["transcript_path"] = json!(transcript.unwrap_or(absent));
        let path = self.path("events").join(format!("{session}.{recording}"));
        disk::write_with_parents(&path, &serde_json::to_vec(&event)?)?;
        Ok(path)
    }

    /// Starts a run and returns its directory.
    pub(crate) fn start_run(
        &self,
        session: &str,
        project: &Path,
        holding: &[&str],
    ) -> Result<PathBuf> {
        let unbounded = ["--max-iterations", "0", "--max-duration", "24h", "--max-cost-usd", "0"];
        let patient = ["--stuck-after", "4000000000"];
        let mut command = shell::command(&self.ralph);
        command.env_clear().envs(self.env()).args([
            "start",
            "--yes",
            "--session",
            session,
            "--project",
        ]);
        command.arg(project).args(holding).args(unbounded).args(patient);
        shell::command_output(&mut command)?;
        let pointer = disk::read(&self.ralph_home().join("sessions").join(session))?;
        let pointer: Value = serde_json::from_slice(&pointer)?;
        let run = pointer["run"].as_str().context("the session has no run")?;
        Ok(self.ralph_home().join("runs").join(run))
    }

    fn create_project(&self, project: &Path) -> Result<()> {
        // Git reads files that are not older than the index again; in real work trees most files are older.
        let long_ago = shell::now() - Duration::from_hours(1);
        for number in 0..PROJECT_FILES {
            let path = project.join(format!("src/part{}/file{number}.txt", number % 25));
            disk::write_with_parents(
                &path,
                format!("line of file {number}\n").repeat(100).as_bytes(),
            )?;
            disk::set_modified(&path, long_ago)?;
        }
        shell::commit_all(&self.env(), project)?;
        disk::write_with_parents(&project.join("src/part0/file0.txt"), b"changed\n")?;
        disk::write_with_parents(&project.join("src/new.txt"), b"new\n")
    }

    fn create_other_sessions(&self) -> Result<()> {
        for number in 0..OTHER_SESSIONS {
            let session = format!("other-{number}");
            let pointer = json!({ "v": 1, "run": format!("past{number}"), "ended": "yes" });
            let sessions = self.ralph_home().join("sessions");
            disk::write_with_parents(&sessions.join(&session), &serde_json::to_vec(&pointer)?)?;
            disk::create_directory(&self.ralph_home().join("state").join(&session))?;
            disk::write_with_parents(
                &self.loop_home().join("sessions").join(&session),
                b"/nowhere\n",
            )?;
        }
        Ok(())
    }
}

/// Writes a loop directory in which half of the features pass.
pub(crate) fn write_features(directory: &Path) -> Result<()> {
    let feature = |number: usize| {
        json!({
            "id": number,
            "description": format!("The report of month {number} can be exported as CSV"),
            "steps": ["Open the list", "Choose a month", "Export it", "Compare it with the page"],
            "passes": number <= FEATURES_DONE,
        })
    };
    let list = json!({ "features": (1..=FEATURES).map(feature).collect::<Vec<_>>() });
    disk::write_with_parents(
        &directory.join("feature_list.json"),
        &serde_json::to_vec_pretty(&list)?,
    )?;
    let progress = b"# Progress\n\n- Iteration: 0\n- Max Iterations: 0\n- Status: RUNNING\n";
    disk::write_with_parents(&directory.join("progress.txt"), progress)
}

pub(crate) fn write_tasks(state: &Path) -> Result<()> {
    for number in 1..=TASKS {
        let status = if number <= TASKS_DONE { "completed" } else { "pending" };
        let task = json!({
            "id": number.to_string(),
            "subject": format!("Check the export of month {number}"),
            "description": "Open it in a spreadsheet and compare the sums",
            "status": status,
            "blocks": [],
            "blockedBy": [],
        });
        let path = state.join("tasks").join(format!("{number}.json"));
        disk::write_with_parents(&path, &serde_json::to_vec_pretty(&task)?)?;
    }
    Ok(())
}

pub(crate) fn client_fixtures() -> PathBuf {
    shell::repository_root().join("fixtures/hosts/claude-code/2.1.325")
}
