//! Where gates find their programs, with the environment that they really run with.

use super::{TrustError, content_hash, judge_references, references};
use crate::config::ProjectConfig;
use ralph_core::gate::{Gate, GateInvocation};
use ralph_core::policy::GateEnvironment;
use ralph_core::requirement::RequirementWeight;
use ralph_core::sealed_file::{SealReason, SealedFile};
use ralph_gates::environment;
use ralph_gates::gates::gate_tools;
use ralph_sys::env::Env;
use ralph_sys::fs;
use ralph_sys::proc::program_search;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

const PATH_VARIABLE: &str = "PATH";
const SHELL_PROGRAM: &str = "/bin/sh";
/// More programs than this in a directory of the project are an error, because they could not all be sealed.
const MAX_PROGRAMS: usize = 1000;
const MAX_ENTRIES: usize = 10_000;
/// A run compares every file of these with its start, so their programs need no seal.
const INSTALLED_DIRECTORIES: [&str; 3] = ["node_modules", ".venv", "venv"];

/// Everything that decides which programs gates run.
#[derive(Clone, Debug)]
pub struct GateSearch<'a> {
    pub env: &'a Env,
    pub environment: &'a GateEnvironment,
    /// The `PATH` that was recorded; `None` for that of `env`.
    pub path: Option<OsString>,
}

impl GateSearch<'_> {
    /// The complete environment of a gate.
    pub fn variables(&self, gate: &Gate) -> Vec<(OsString, OsString)> {
        environment::gate_environment(self.env, self.environment, gate, self.path.as_deref())
    }
}

/// The program of a gate and where it was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateProgram {
    pub gate: String,
    pub program: String,
    /// `None` if it is not on the path.
    pub found: Option<String>,
}

/// The search path, and where it leads for the programs of the gates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramSearch {
    pub(super) path: Option<String>,
    pub programs: Vec<GateProgram>,
    pub environment: ShownEnvironment,
}

/// What the policy adds to the environment of gates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ShownEnvironment {
    pub set: Vec<SetVariable>,
    /// Names of variables that all gates get.
    pub pass: Vec<String>,
    /// Names of variables that single gates get.
    pub env: Vec<GateVariables>,
    /// Directories of the project in which gates look for programs, relative to the project.
    pub project_directories: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SetVariable {
    pub name: String,
    pub value: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GateVariables {
    pub gate: String,
    pub names: Vec<String>,
}

/// The `PATH` that a run can record. Directories that are relative or not UTF-8 are left out: the former depend on the
/// current directory, the latter cannot be recorded.
pub fn recordable_path(path: Option<&OsStr>) -> Option<String> {
    let directories = std::env::split_paths(path.unwrap_or_default())
        .filter(|directory| directory.is_absolute() && directory.to_str().is_some());
    std::env::join_paths(directories).ok().and_then(|path| path.into_string().ok())
}

/// Looks up the programs of every gate, in the environment that the gate would get in this process.
pub fn find_programs(config: &ProjectConfig, env: &Env) -> ProgramSearch {
    find_programs_of(config, &judge_references::policy_programs(&config.policy), env)
}

/// Like [`find_programs`], for any gates of the project.
pub fn find_programs_of(config: &ProjectConfig, gates: &[Gate], env: &Env) -> ProgramSearch {
    let path = recordable_path(env.search_path().as_deref());
    let environment = &config.policy.environment;
    let search = GateSearch { env, environment, path: path.as_deref().map(OsString::from) };
    let programs = gates.iter().flat_map(|gate| {
        let program = match &gate.command {
            GateInvocation::Argv(words) => words.first().cloned().unwrap_or_default(),
            GateInvocation::Shell(_) => SHELL_PROGRAM.to_string(),
        };
        let variables = search.variables(gate);
        let directory = config.project.join(&gate.cwd);
        let found = program_search::find_program(
            OsStr::new(&program),
            &directory,
            path_variable(&variables),
        );
        let first = GateProgram {
            gate: gate.name.clone(),
            program,
            found: found.map(|path| path.to_string_lossy().into_owned()),
        };
        let others: Vec<GateProgram> = gate_tools::gate_programs(gate, &config.project, &variables)
            .into_iter()
            .filter(|other| other.word != first.program)
            .map(|other| GateProgram {
                gate: gate.name.clone(),
                program: other.word,
                found: Some(other.path.to_string_lossy().into_owned()),
            })
            .collect();
        std::iter::once(first).chain(others)
    });
    let programs = programs.collect();
    let directories = gates.iter().flat_map(|gate| project_directories(config, gate, &search));
    let directories: BTreeSet<String> = directories.collect();
    let own_variables = gates.iter().filter(|gate| !gate.env.is_empty());
    let shown = ShownEnvironment {
        set: environment
            .set
            .iter()
            .map(|(name, value)| SetVariable { name: name.clone(), value: value.clone() })
            .collect(),
        pass: environment.pass.clone(),
        env: own_variables
            .map(|gate| GateVariables { gate: gate.name.clone(), names: gate.env.clone() })
            .collect(),
        project_directories: directories.into_iter().collect(),
    };
    ProgramSearch { programs, path, environment: shown }
}

fn project_directories(
    config: &ProjectConfig,
    gate: &Gate,
    search: &GateSearch<'_>,
) -> Vec<String> {
    let name = |directory: &PathBuf| {
        let name = directory.strip_prefix(&config.project).unwrap_or(directory).to_string_lossy();
        if name.is_empty() { ".".to_string() } else { name.into_owned() }
    };
    gate_directories(&config.project, gate, search).iter().map(name).collect()
}

fn path_variable(variables: &[(OsString, OsString)]) -> &OsStr {
    let path = variables.iter().find(|(name, _)| name == PATH_VARIABLE);
    path.map_or(OsStr::new(""), |(_, value)| value)
}

fn gate_directories(project: &Path, gate: &Gate, search: &GateSearch<'_>) -> Vec<PathBuf> {
    let variables = search.variables(gate);
    directories_in_project(project, &project.join(&gate.cwd), path_variable(&variables))
}

/// The directories of the project to which a search path leads, other than those of installed packages.
pub(super) fn directories_in_project(project: &Path, cwd: &Path, path: &OsStr) -> Vec<PathBuf> {
    let is_installed = |directory: &Path| {
        let inside = directory.strip_prefix(project).unwrap_or(directory);
        inside.iter().any(|part| INSTALLED_DIRECTORIES.iter().any(|name| part == *name))
    };
    let entries = std::env::split_paths(path);
    let mut found: Vec<PathBuf> = Vec::new();
    // A directory that does not exist yet counts too: programs may appear in it.
    let resolve = |path: PathBuf| fs::resolve(&path).unwrap_or(fs::normalize_lexically(&path));
    for directory in entries.map(|entry| resolve(cwd.join(entry))) {
        if directory.starts_with(project)
            && !is_installed(&directory)
            && !found.contains(&directory)
        {
            found.push(directory);
        }
    }
    found
}

/// The files of the project that decide the results of required gates. Other gates hold nothing, so they seal nothing.
pub fn sealed_files(
    project: &Path,
    gates: &[Gate],
    search: &GateSearch<'_>,
) -> Result<Vec<SealedFile>, TrustError> {
    let required = || gates.iter().filter(|gate| gate.weight == RequirementWeight::Required);
    let mut files = references::find_references(project, required())?;
    for gate in required() {
        for directory in gate_directories(project, gate, search) {
            add_programs(project, &gate.name, &directory, &mut files)?;
        }
    }
    files.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(files)
}

/// Adds the directories of the project in which gates look for programs, and the programs in them. A directory without
/// programs counts, so that the hash differs from that of a `PATH` which does not lead there.
pub(super) fn add_searched_programs<'a>(
    project: &Path,
    gates: impl IntoIterator<Item = &'a Gate>,
    search: &GateSearch<'_>,
    files: &mut Vec<SealedFile>,
) -> Result<(), TrustError> {
    // The checks of lists run in the project itself, with the `PATH` of the policy.
    let own_path = search.environment.set.iter().find(|(name, _)| name == PATH_VARIABLE);
    let of_lists = own_path
        .map(|(_, path)| (String::new(), directories_in_project(project, project, path.as_ref())));
    let of_gates =
        gates.into_iter().map(|gate| (gate.name.clone(), gate_directories(project, gate, search)));
    for (gate, directories) in of_gates.chain(of_lists) {
        for directory in directories {
            add_programs(project, &gate, &directory, files)?;
            let path = directory.strip_prefix(project).unwrap_or(&directory).to_string_lossy();
            let path = if path.is_empty() { ".".into() } else { path };
            let name = format!("{path}/ on PATH");
            if files.iter().all(|file| file.name != name) {
                let hash = blake3::hash(path.as_bytes()).to_hex().to_string();
                let (gate, why, by) = (gate.clone(), SealReason::SearchPath, String::new());
                files.push(SealedFile { name, hash, gate, why, by });
            }
        }
    }
    files.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(())
}

/// Adds every program in a directory: which of them a script calls is not known.
pub(super) fn add_programs(
    project: &Path,
    gate: &str,
    directory: &Path,
    files: &mut Vec<SealedFile>,
) -> Result<(), TrustError> {
    let mut count = 0;
    for name in fs::list_if_exists(directory, MAX_ENTRIES)? {
        let path = directory.join(name);
        let name = path.strip_prefix(project).unwrap_or(&path).to_string_lossy().into_owned();
        let is_known = files.iter().any(|file| file.name == name);
        if is_known || !program_search::is_executable(&path) {
            continue;
        }
        count += 1;
        if count > MAX_PROGRAMS {
            return Err(TrustError::TooManyReferences(
                "a directory of the project on `PATH` has more than a thousand programs",
            ));
        }
        let hash = content_hash::hash_file(&path)?;
        let (gate, why, by) = (gate.to_string(), SealReason::SearchPath, String::new());
        files.push(SealedFile { name, hash, gate, why, by });
    }
    Ok(())
}
