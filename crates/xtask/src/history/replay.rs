//! Judges each commit as the work of a run that began at its first parent.

use super::held_commits::{CheckFindings, HistoryFigures, JudgedCommit};
use crate::{disk, shell};
use anyhow::{Context, Result};
use ralph_core::id::RunId;
use ralph_core::policy::{Policy, ProofMode};
use ralph_core::requirement::{Requirement, RequirementStatus};
use ralph_core::sealed_file::SealedFile;
use ralph_git::checkpoint::CheckpointRepository;
use ralph_home::paths::RalphHome;
use ralph_hook::contract;
use ralph_policy::config::{self, ProjectConfig};
use ralph_policy::detect::{self, ToolLookup, render_policy};
use ralph_policy::trust::{self, GateSearch, SealDifference};
use ralph_proof::tree_changes::ComparedCheckpoints;
use ralph_sys::clock::Deadline;
use ralph_sys::env::Env;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

const GIT_TIMEOUT: Duration = Duration::from_mins(2);
const GATE_PATH: &str = "/usr/bin:/bin";

/// A clone whose work tree follows the history.
pub(crate) struct HistoryReplay {
    directory: TempDir,
}

/// A commit and the state before it.
#[derive(Clone, Debug)]
pub(crate) struct ComparedCommit {
    pub(crate) parent: String,
    pub(crate) commit: String,
}

impl HistoryReplay {
    pub(crate) fn clone_repository(repository: &Path) -> Result<Self> {
        let replay = Self { directory: TempDir::with_prefix("ralph-history-")? };
        let mut git = shell::command("git");
        git.args(["clone", "--quiet", "--shared", "--no-checkout", "--"]);
        shell::command_output(git.arg(repository).arg(replay.project()))?;
        Ok(replay)
    }

    /// Commits of the main line, the oldest first.
    pub(crate) fn first_parents(&self, most: usize) -> Result<Vec<ComparedCommit>> {
        let count = format!("--max-count={}", most.saturating_add(1));
        let listed = self.git(&["rev-list", "--first-parent", "--reverse", &count, "HEAD"])?;
        let ids: Vec<&str> = listed.lines().collect();
        let pair = |pair: &[&str]| match pair {
            [parent, commit] => {
                Some(ComparedCommit { parent: (*parent).into(), commit: (*commit).into() })
            }
            _ => None,
        };
        Ok(ids.windows(2).filter_map(pair).collect())
    }

    pub(crate) fn replay_commits(&self, commits: &[ComparedCommit]) -> Result<HistoryFigures> {
        let name = RunId::parse("history").context("`history` is not a valid id")?;
        let deadline = Deadline::after(GIT_TIMEOUT);
        let shadow = self.directory.path().join("shadow");
        disk::create_directory(&shadow)?;
        let repository =
            CheckpointRepository::open_temporary(&name, &shadow, &self.project(), &deadline)?;
        let judged = commits.iter().map(|one| self.judge_commit(&repository, one));
        Ok(HistoryFigures { commits: judged.collect::<Result<_>>()? })
    }

    fn judge_commit(
        &self,
        repository: &CheckpointRepository,
        compared: &ComparedCommit,
    ) -> Result<JudgedCommit> {
        let deadline = Deadline::after(GIT_TIMEOUT);
        let find = |name: &str| {
            let found = repository.find_commit(name, &deadline)?;
            found.with_context(|| format!("no commit `{name}`"))
        };
        let (base, now) = (find(&compared.parent)?, find(&compared.commit)?);
        self.check_out(&compared.parent)?;
        let proposed = self.propose_policy()?;
        let before = self.load_policy(&proposed)?;
        let sealed = sealed_files(&before)?;
        self.check_out(&compared.commit)?;
        let differences = trust::find_seal_differences(&sealed, &sealed_files(&before)?);
        let sides = ComparedCheckpoints { base: &base, now: &now };
        let changes =
            contract::read_changes(&before.policy, repository, sides, &before.project, &deadline)?;
        let judge = |proof| {
            let mut policy: Policy = before.policy.clone();
            policy.verify.proof = proof;
            let mut held: Vec<_> = contract::change_requirements(&policy, &changes)
                .iter()
                .filter_map(read_requirement)
                .collect();
            held.extend(policy_findings(&policy, &differences));
            held
        };
        let title = self.git(&["log", "-1", "--format=%s", &compared.commit])?;
        Ok(JudgedCommit {
            id: compared.commit.clone(),
            title: title.trim_end().to_string(),
            with_proof: judge(ProofMode::Full),
            without_proof: judge(ProofMode::Off),
        })
    }

    /// The policy that `ralph init` would propose if every tool were installed.
    fn propose_policy(&self) -> Result<String> {
        let tools = self.directory.path().join("tools");
        disk::create_directory(&tools)?;
        let path = [("PATH", tools.as_os_str())];
        let env = Env::from_pairs(path, None, Vec::new());
        let mut detected = detect::detect_gates(&self.project(), &env);
        let missing = detected.gates.iter().filter_map(|proposal| match &proposal.tool {
            ToolLookup::Missing(tool) if !tool.contains('/') => Some(tool.clone()),
            ToolLookup::Missing(_) | ToolLookup::Found(_) => None,
        });
        let missing: BTreeSet<String> = missing.collect();
        if !missing.is_empty() {
            for tool in &missing {
                disk::write_file(&tools.join(tool), b"#!/bin/sh\n")?;
                disk::make_executable(&tools.join(tool))?;
            }
            detected = detect::detect_gates(&self.project(), &env);
        }
        Ok(render_policy::render(&detected))
    }

    fn load_policy(&self, proposed: &str) -> Result<ProjectConfig> {
        disk::write_file(&self.project().join("ralph.toml"), proposed.as_bytes())?;
        let home = RalphHome::new(self.directory.path().join("home"));
        Ok(config::load(&self.project(), &home)?)
    }

    fn check_out(&self, commit: &str) -> Result<()> {
        self.git(&["checkout", "--quiet", "--force", "--detach", commit]).map(drop)
    }

    fn project(&self) -> PathBuf {
        self.directory.path().join("project")
    }

    fn git(&self, args: &[&str]) -> Result<String> {
        let mut git = shell::command("git");
        git.arg("-C").arg(self.project()).args(["-c", "core.hooksPath=/dev/null"]).args(args);
        Ok(String::from_utf8_lossy(&shell::command_output(&mut git)?).into_owned())
    }
}

/// `None` if the requirement is met.
fn read_requirement(requirement: &Requirement) -> Option<CheckFindings> {
    let findings = match &requirement.status {
        RequirementStatus::Unmet(failure) => failure.findings.clone(),
        RequirementStatus::Unknown(_) => Vec::new(),
        RequirementStatus::Met(_) | RequirementStatus::Pending(_) => return None,
    };
    let lines = findings.iter().map(|finding| {
        let place = finding.place.as_ref().map(|place| match place.line {
            Some(line) => format!("{}:{line} ", place.file),
            None => format!("{} ", place.file),
        });
        let rule = finding.rule.as_deref().unwrap_or_default();
        format!("{}{rule}: {}", place.unwrap_or_default(), finding.message)
    });
    Some(CheckFindings {
        check: requirement.name.clone(),
        is_hold: requirement.is_required(),
        findings: lines.collect(),
    })
}

/// As a run of the project would seal them, with a `PATH` that does not lead into it.
fn sealed_files(config: &ProjectConfig) -> Result<Vec<SealedFile>> {
    let ProjectConfig { project, policy, .. } = config;
    let env = Env::from_pairs([("PATH", GATE_PATH)], None, Vec::new());
    let search = GateSearch { env: &env, environment: &policy.environment, path: None };
    Ok(trust::sealed_files(project, &policy.gates, &search)?)
}

/// The `policy` check, without the policy file itself.
fn policy_findings(policy: &Policy, differences: &[SealDifference]) -> Option<CheckFindings> {
    let held = contract::holding_differences(policy, differences.to_vec());
    let describe =
        |one: SealDifference| format!("{} {}; {}", one.name, one.kind.verb(), one.reason);
    (!held.is_empty()).then(|| CheckFindings {
        check: "policy".to_string(),
        is_hold: true,
        findings: held.into_iter().map(describe).collect(),
    })
}
