//! A published version as a project that a person works on: a repository with installed dependencies, an approved policy
//! with the gates that `ralph gate detect` proposes, and sessions that the Stop hook of a real client holds.

use super::fix_table::{FixCase, PackageRegistry};
use super::registry_source::run_download;
use crate::bench::{approve_policy, client_fixtures};
use crate::disk;
use crate::shell::{self, CommandEnd};
use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

/// For each command of ralph. The suites take seconds, and a proof runs them a few times.
const RALPH_LIMIT: Duration = Duration::from_mins(10);
const GIT_LIMIT: Duration = Duration::from_mins(1);
/// What a person's global settings ignore. Published sources rarely have a `.gitignore`.
const IGNORED: &[u8] = b"node_modules/\n.venv/\ntarget/\n__pycache__/\n*.egg-info/\n.pytest_cache/\n.nyc_output/\n.hypothesis/\ncoverage/\n";

pub(super) struct PublishedProject {
    stage: TempDir,
    ralph: PathBuf,
}

/// A gate and its result on the untouched source.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct DetectedGate {
    pub(super) name: String,
    pub(super) outcome: String,
    pub(super) took_ms: u64,
    #[serde(default)]
    findings: Vec<Value>,
}

impl DetectedGate {
    pub(super) fn has_passed(&self) -> bool {
        self.outcome == "passed"
    }
}

/// The answer of the hook to a Stop event.
pub(super) struct StopAnswer {
    pub(super) is_held: bool,
    pub(super) reason: String,
    pub(super) took: Duration,
}

impl PublishedProject {
    /// Installs the dependencies of the older version, and commits it.
    pub(super) fn create(case: &FixCase, older: &Path, ralph: &Path) -> Result<Self> {
        // Not below this repository, whose manifest and settings the tools would find.
        let name = format!("ralph-real-{}-", case.package);
        let stage = tempfile::Builder::new().prefix(&name).tempdir()?;
        let project = Self { stage, ralph: ralph.to_path_buf() };
        disk::create_directory(&project.home())?;
        disk::copy_directory(older, &project.directory())?;
        project.git(&["init", "--quiet"])?;
        disk::append(&project.directory().join(".git/info/exclude"), IGNORED)?;
        project.install_dependencies(case)?;
        project.ralph(&["gate", "detect", "--write"], b"")?.expect_success()?;
        project.commit("the published source")?;
        Ok(project)
    }

    pub(super) fn directory(&self) -> PathBuf {
        self.stage.path().join("project")
    }

    fn home(&self) -> PathBuf {
        self.stage.path().join("home")
    }

    fn env(&self) -> Vec<(OsString, OsString)> {
        let homes = [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")];
        let homes = homes.map(|(name, below)| (name, shell::variable_or_home(name, below)));
        let passed = [("RUSTUP_TOOLCHAIN", shell::variable("RUSTUP_TOOLCHAIN"))];
        let own = [("HOME", self.home().into()), ("PATH", shell::path_variable())];
        let found =
            homes.into_iter().chain(passed).filter_map(|(name, value)| Some((name, value?)));
        own.into_iter().chain(found).map(|(name, value)| (name.into(), value)).collect()
    }

    fn isolated(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = shell::command(program);
        command.env_clear().envs(self.env()).current_dir(self.directory());
        command
    }

    fn git(&self, args: &[&str]) -> Result<CommandEnd> {
        let author = ["-c", "user.name=xtask", "-c", "user.email=xtask@example.invalid"];
        let mut git = self.isolated("git");
        shell::run_within(git.args(author).args(args), b"", GIT_LIMIT)?.expect_success()
    }

    fn commit(&self, message: &str) -> Result<()> {
        self.git(&["add", "."])?;
        self.git(&["commit", "--quiet", "--message", message]).map(drop)
    }

    fn ralph(&self, args: &[&str], input: &[u8]) -> Result<CommandEnd> {
        shell::run_within(self.isolated(&self.ralph).args(args), input, RALPH_LIMIT)
    }

    fn install_dependencies(&self, case: &FixCase) -> Result<()> {
        let project = self.directory();
        let installed = match case.registry {
            PackageRegistry::Crates => {
                let mut fetch = shell::command("cargo");
                fetch.args(["fetch", "--quiet"]).env_remove("CARGO_TARGET_DIR");
                run_download(fetch.current_dir(&project))
            }
            PackageRegistry::Npm => {
                let mut npm = shell::command("npm");
                npm.args(["install", "--no-audit", "--no-fund", "--ignore-scripts"]);
                npm.args(["--no-package-lock", "--no-save", "--loglevel=error"]);
                run_download(npm.args(&case.install).current_dir(&project))
            }
            PackageRegistry::Pypi => {
                let mut venv = shell::command("python3");
                venv.args(["-m", "venv", ".venv"]).current_dir(&project);
                run_download(&mut venv)?;
                let mut pip = shell::command(project.join(".venv/bin/python"));
                pip.args(["-m", "pip", "install", "--quiet", "--no-input", "--editable", "."]);
                run_download(pip.args(&case.install).current_dir(&project))
            }
        };
        installed.map(drop).context("cannot install the dependencies of the project")
    }

    /// Runs the proposed gates on the untouched source. A person leaves those out that do not pass, and approves the rest.
    pub(super) fn set_up_gates(&self) -> Result<Vec<DetectedGate>> {
        approve_policy(&self.ralph, &self.env(), &self.directory())?;
        let ended = self.ralph(&["gate", "run", "--all", "--format", "json"], b"")?;
        let report: Value = serde_json::from_str(&ended.stdout)
            .with_context(|| format!("no gates ran: {}", ended.stderr.trim()))?;
        let gates: Vec<DetectedGate> = serde_json::from_value(report["gates"].clone())?;
        let failed: Vec<_> = gates.iter().filter(|gate| !gate.has_passed()).collect();
        if failed.is_empty() {
            return Ok(gates);
        }
        let path = self.directory().join("ralph.toml");
        let policy = disk::read_text(&path)?;
        let names: Vec<_> = failed.iter().map(|gate| gate.name.as_str()).collect();
        disk::write_file(&path, without_gates(&policy, &names).as_bytes())?;
        let changed = self.git(&["status", "--porcelain"])?.stdout;
        ensure!(
            changed.trim() == "M ralph.toml",
            "the gates changed the project: {}",
            changed.trim()
        );
        self.commit("gates that pass")?;
        approve_policy(&self.ralph, &self.env(), &self.directory())?;
        if let Some(tests) = failed.iter().find(|gate| gate.name == "tests") {
            let messages = tests.findings.iter().take(3).filter_map(|one| one["message"].as_str());
            let messages = messages.collect::<Vec<_>>().join(" / ");
            bail!("the tests do not pass on the untouched source: {messages}");
        }
        Ok(gates)
    }

    /// Takes back every change of the sources. Installed packages stay.
    pub(super) fn reset(&self) -> Result<()> {
        self.git(&["reset", "--quiet", "--hard"])?;
        self.git(&["clean", "--quiet", "--force", "-d"]).map(drop)
    }

    pub(super) fn start_run(&self, session: &str, goal: &str) -> Result<()> {
        let args = ["start", "--yes", "--session", session, "--goal-file", "-"];
        self.ralph(&args, goal.as_bytes())?.expect_success().map(drop)
    }

    /// Sends the Stop event that a real client sent, adapted to the session and the project.
    pub(super) fn send_stop(&self, session: &str) -> Result<StopAnswer> {
        let recorded = client_fixtures().join("stdin/Stop.first.json");
        let mut event: Value = serde_json::from_slice(&disk::read(&recorded)?)?;
        event["session_id"] = session.into();
        event["cwd"] = json!(self.directory());
        event["transcript_path"] = json!(self.home().join("none.jsonl"));
        // Stops are faster than any model. Without a prompt id, none is taken for a repetition.
        event["prompt_id"] = Value::Null;
        let ended = self.ralph(&["hook", "claude"], &serde_json::to_vec(&event)?)?;
        let known = matches!(ended.code, Some(0 | 2));
        ensure!(known, "the hook ended with {:?}: {}", ended.code, ended.stderr);
        Ok(StopAnswer { is_held: ended.code == Some(2), reason: ended.stderr, took: ended.took })
    }

    pub(super) fn run_status(&self, session: &str) -> Result<String> {
        let ended = self.ralph(&["status", "--all", "--json"], b"")?.expect_success()?;
        let status: Value = serde_json::from_str(&ended.stdout)?;
        let runs = status["runs"].as_array().context("there are no runs")?;
        let run = runs.iter().find(|run| run["session"] == session).context("the run is lost")?;
        Ok(run["status"].as_str().unwrap_or("unknown").to_owned())
    }
}

/// A policy as `ralph gate detect` writes it, without some gates. Each is a paragraph.
fn without_gates(policy: &str, names: &[&str]) -> String {
    let is_kept = |paragraph: &&str| {
        let lines: Vec<_> = paragraph.lines().collect();
        let is_named = |name: &&str| lines.contains(&format!("name = \"{name}\"").as_str());
        !(lines.contains(&"[[gate]]") && names.iter().any(is_named))
    };
    policy.split("\n\n").filter(is_kept).collect::<Vec<_>>().join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_are_left_out_by_name() {
        let policy = "# Proposed.\n\n# a reason\n[[gate]]\nname = \"tests\"\nrun = [\"true\"]\n\n[[gate]]\nname = \"fmt\"\nrun = [\"false\"]\n\n[lines]\nforbid = [\"todo\"]\n";
        assert_eq!(
            without_gates(policy, &["fmt", "clippy"]),
            "# Proposed.\n\n# a reason\n[[gate]]\nname = \"tests\"\nrun = [\"true\"]\n\n[lines]\nforbid = [\"todo\"]\n"
        );
    }
}
