//! Seals the programs that gates run and ralph's own git, and checks that they are unchanged.

use std::ffi::OsString;
use std::path::Path;

use ralph_core::gate::Gate;
use ralph_core::judge::Judge;
use ralph_core::record::{GateTool, PolicySeal, SealedProgram};
use ralph_core::requirement::{
    EvidenceKind, Finding, Requirement, RequirementFailure, RequirementStatus, RequirementWeight,
};
use ralph_core::text;

use super::change_summary::ChangeSummary;
use super::{ContractContext, contract_requirement};
use ralph_gates::gates::gate_tools;
use ralph_git::git_program;
use ralph_policy::trust::{self, GateSearch};
use ralph_proof::installed_packages::DEPENDENCY_DIRECTORIES;
use ralph_sys::fs;

/// The git that this process runs for the project. One that the project contains is never used.
pub(super) fn seal_git(project: &Path) -> Option<SealedProgram> {
    git_program::find_git(project).map(|path| SealedProgram {
        path: path.to_string_lossy().into_owned(),
        content: gate_tools::content_mark(path),
    })
}

/// Makes this process run the sealed git, whatever the host's `PATH` finds.
pub fn use_sealed_git(seal: &PolicySeal) {
    if let Some(git) = &seal.git {
        git_program::use_sealed_git(Path::new(&git.path));
    }
}

/// A program that differs from the sealed one.
struct ReplacedProgram<'a> {
    gate: &'a str,
    /// `None` if the gate runs no program in its place.
    now: Option<String>,
    /// It belongs to an installed package, which a package manager may replace.
    is_installed: bool,
    judge: Option<&'a Judge>,
}

impl ReplacedProgram<'_> {
    /// Whether the run does not depend on it: nothing that counts is asked of this judge.
    fn is_spared(&self, contract: &ContractContext<'_>) -> bool {
        self.judge.is_some_and(|judge| !judge.is_required() || contract.is_waived(&judge.name))
    }
}

/// Whether a judge would run another program than at the start. The clients of hosts update themselves.
pub(super) fn is_judge_replaced(contract: &ContractContext<'_>, judge: &Judge) -> bool {
    let search = gate_search(contract);
    let gate = trust::judge_program(judge);
    find_changed_program(contract, &search, &gate).is_some()
}

fn gate_search<'a>(contract: &ContractContext<'a>) -> GateSearch<'a> {
    let seal = contract.seal;
    GateSearch {
        env: &contract.world.env,
        environment: &seal.policy.environment,
        path: seal.path.as_deref().map(OsString::from),
    }
}

/// The first program of a gate that differs from the sealed one, or was not there at the start.
fn find_changed_program<'a>(
    contract: &ContractContext<'_>,
    search: &GateSearch<'_>,
    gate: &'a Gate,
) -> Option<ReplacedProgram<'a>> {
    let seal = contract.seal;
    let variables = search.variables(gate);
    let programs = |is_followed: &dyn Fn(&str) -> bool| -> Vec<String> {
        let found =
            gate_tools::programs_of_scripts(gate, contract.project(), &variables, is_followed);
        found.iter().map(|one| one.path.to_string_lossy().into_owned()).collect()
    };
    let now = programs(&|script| is_sealed_script(seal, script));
    find_replaced(contract.project(), gate, seal, &now).or_else(|| {
        let gained = programs(&|_| true).into_iter().filter(|path| !now.contains(path));
        find_new_program(contract, gate, gained)
    })
}

/// Guard: the programs must be the ones that were sealed.
pub(super) fn tools_requirement(
    contract: &ContractContext<'_>,
    change: &ChangeSummary,
) -> Requirement {
    let seal = contract.seal;
    let search = gate_search(contract);
    let programs: Vec<_> = seal.policy.judges.iter().map(trust::judge_program).collect();
    let of_judges = programs.iter().zip(&seal.policy.judges).filter_map(|(gate, judge)| {
        let replaced = find_changed_program(contract, &search, gate)?;
        Some(ReplacedProgram { judge: Some(judge), ..replaced })
    });
    let gates = seal.policy.gates.iter().chain(&contract.checks.programs);
    let replaced = gates.filter_map(|gate| find_changed_program(contract, &search, gate));
    let replaced: Vec<ReplacedProgram<'_>> = replaced.chain(of_judges).collect();
    let git = seal.git.as_ref();
    let other_git =
        git.filter(|git| !gate_tools::has_sealed_content(Path::new(&git.path), &git.content));
    if replaced.is_empty() && other_git.is_none() {
        return contract_requirement("tools", RequirementStatus::Met(EvidenceKind::Measured), "");
    }
    let is_unneeded = other_git.is_none() && replaced.iter().all(|one| one.is_spared(contract));
    let is_expected = other_git.is_none()
        && replaced.iter().all(|one| one.is_installed || one.is_spared(contract))
        && change.declares_dependencies;
    let describe = |one: &ReplacedProgram<'_>| {
        let text = match one.now.as_deref().map(|path| text::clean_line(path, 200)) {
            Some(path) => {
                format!("{} runs a different program than at the start: `{path}`", one.gate)
            }
            None => format!("a program that {} ran at the start is missing", one.gate),
        };
        Finding::new(text)
    };
    let mut findings: Vec<Finding> = replaced.iter().map(describe).collect();
    findings.extend(other_git.map(|git| {
        let path = text::clean_line(&git.path, 200);
        Finding::new(format!("the git that ralph runs was replaced: `{path}`"))
    }));
    let summary = if is_unneeded {
        "the program of a judge that is not required was replaced; the judge is not asked"
    } else if is_expected {
        "programs of installed packages changed together with a manifest"
    } else {
        "programs that gates run were replaced"
    };
    let failure = RequirementFailure { findings, ..RequirementFailure::new(summary.to_string()) };
    let mut next =
        "Restore the programs that the gates run; to replace them on purpose, start a new run"
            .to_string();
    let is_missed = |one: &&ReplacedProgram<'_>| !one.is_spared(contract);
    if let Some(judge) = replaced.iter().filter(is_missed).find_map(|one| one.judge) {
        let name = &judge.name;
        next.push_str(&format!("; if the program of the judge {name} was updated, a person can do without the judge: `ralph waive {name}`"));
    }
    let mut changed = contract_requirement("tools", RequirementStatus::Unmet(failure), &next);
    if is_unneeded || is_expected {
        changed.weight = RequirementWeight::Advisory;
        changed.next = String::new();
    }
    changed
}

/// Whether a script of a `package.json` existed at the start. One that did not is part of the work, and so is its choice
/// of programs: what it measures is for the proof to find.
fn is_sealed_script(seal: &PolicySeal, script: &str) -> bool {
    // Older versions recorded no files.
    seal.files.as_ref().is_none_or(|files| files.iter().any(|file| file.name == script))
}

/// The first program outside of the project that a new script runs and that is younger than the run. The others were
/// there before the agent.
fn find_new_program<'a>(
    contract: &ContractContext<'_>,
    gate: &'a Gate,
    mut gained: impl Iterator<Item = String>,
) -> Option<ReplacedProgram<'a>> {
    let started_ns = contract.run.started_ms.saturating_mul(1_000_000);
    let is_younger = |path: &Path| {
        [fs::stat(path), fs::stat_no_follow(path)]
            .into_iter()
            .flatten()
            .any(|stat| stat.changed_ns > started_ns)
    };
    let planted = gained.find(|path| {
        let path = Path::new(path);
        !path.starts_with(contract.project()) && is_younger(path)
    });
    planted.map(|path| ReplacedProgram {
        gate: &gate.name,
        now: Some(path),
        is_installed: false,
        judge: None,
    })
}

/// At most one for each gate: the first program that appeared, or else the first one that is gone or has other content.
fn find_replaced<'a>(
    project: &Path,
    gate: &'a Gate,
    seal: &PolicySeal,
    now: &[String],
) -> Option<ReplacedProgram<'a>> {
    let sealed: Vec<&GateTool> = seal.tools.iter().filter(|tool| tool.gate == gate.name).collect();
    let new: Vec<&String> =
        now.iter().filter(|path| sealed.iter().all(|tool| tool.path != **path)).collect();
    let changed: Vec<&GateTool> = sealed
        .into_iter()
        .filter(|tool| {
            !now.contains(&tool.path)
                || !gate_tools::has_sealed_content(Path::new(&tool.path), &tool.content)
        })
        .collect();
    // A program in another place is a stub in front of the sealed one, unless nothing was sealed.
    let is_moved = !new.is_empty() && !changed.is_empty();
    let mut paths =
        new.iter().map(|path| path.as_str()).chain(changed.iter().map(|tool| &*tool.path));
    let is_installed =
        !is_moved && paths.all(|path| is_installed_program(project, Path::new(path)));
    let still_there = changed.iter().map(|tool| &tool.path).find(|path| now.contains(path));
    let is_replaced = !new.is_empty() || !changed.is_empty();
    is_replaced.then(|| ReplacedProgram {
        gate: &gate.name,
        now: new.first().copied().or(still_there).cloned(),
        is_installed,
        judge: None,
    })
}

fn is_installed_program(project: &Path, program: &Path) -> bool {
    let Ok(inside) = program.strip_prefix(project) else { return false };
    inside.iter().any(|part| DEPENDENCY_DIRECTORIES.iter().any(|directory| part == *directory))
}
