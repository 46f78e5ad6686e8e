//! Approvals: nothing from a repository runs until a person approves exactly that content.
//!
//! An approval is for a hash over the policy's bytes and over every file of the project that its commands name. It is
//! stored outside the repository, for one project and one hash: different content, or the same content in another
//! project, needs a new approval.

mod called;
mod package;

use crate::config::Config;
use ralph_core::gate::{Command, Gate, quoted};
use ralph_core::record::Seal;
use ralph_core::text;
use ralph_gates::gates::tools;
use ralph_home::paths::Home;
use ralph_sys::clock;
use ralph_sys::fs::{self, Durability, FileError};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

const VERSION: u8 = 1;
const LARGEST_APPROVAL: usize = 64 * 1024 * 1024;
const MOST_APPROVALS: usize = 100_000;
/// The shortest prefix that identifies a hash.
pub const SHORTEST_HASH: usize = 12;

/// Prefix of the first reference of a list's checks, in place of the policy file.
const CHECKS_OF: &str = "checks of ";

/// The content to approve: a policy, or the checks of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    pub project: PathBuf,
    /// Hash over all references.
    pub hash: String,
    /// The literal commands, in the order of the policy.
    pub commands: Vec<GateCommand>,
    /// The policy file and the repository's files and scripts that its commands name. Empty if nothing comes from the
    /// repository.
    pub called: Vec<Called>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateCommand {
    pub gate: String,
    /// Quoted as for a shell, so that word boundaries are visible; see [`display_command`].
    pub command: String,
}

/// A file or script of the repository that decides what a command does.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Called {
    /// A path in the project, or `package.json: scripts.test`
    pub name: String,
    pub hash: String,
}

/// The program of a gate and where it was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    pub gate: String,
    pub program: String,
    /// `None` if it is not on the path.
    pub found: Option<String>,
}

/// The file `trust/<hash>`: the record of a person's approval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    v: u8,
    pub project: String,
    pub hash: String,
    /// RFC 3339, in UTC.
    pub approved_at: String,
    /// `$PATH` of the person who approved: gates run with it, regardless of the `$PATH` of the agent's host.
    pub path: Option<String>,
    pub programs: Vec<Program>,
    pub commands: Vec<GateCommand>,
    pub called: Vec<Called>,
}

/// A difference from an earlier approval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    pub what: String,
    pub how: How,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    Added,
    Changed,
    Removed,
}

#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    #[error("cannot hash everything that the policy's commands name: {0}")]
    TooMuch(&'static str),
    #[error(transparent)]
    File(#[from] FileError),
}

/// What a person has to approve before any gate of this policy runs.
pub fn subject(config: &Config) -> Result<Subject, TrustError> {
    let mut called = called::by_gates(&config.project, &config.policy.gates)?;
    if let Some(file) = &config.file {
        let name = file.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let hash = blake3::hash(file.text.as_bytes()).to_hex().to_string();
        called.retain(|called| called.name != name);
        called.insert(0, Called { name, hash });
    }
    let commands = config
        .policy
        .gates
        .iter()
        .map(|gate| GateCommand { gate: gate.name.clone(), command: literal(&gate.command) });
    Ok(Subject {
        project: config.project.clone(),
        hash: hash(&called),
        commands: commands.collect(),
        called,
    })
}

/// What a person has to approve before the checks of a list run.
pub fn checks(project: &Path, list: &Path, checks: &[Gate]) -> Result<Subject, TrustError> {
    let mut called = called::by_gates(project, checks)?;
    let name = list.strip_prefix(project).unwrap_or(list).to_string_lossy();
    let commands: Vec<GateCommand> = checks
        .iter()
        .map(|gate| GateCommand { gate: gate.name.clone(), command: literal(&gate.command) })
        .collect();
    if !checks.is_empty() {
        let mut hasher = blake3::Hasher::new();
        for gate in checks {
            hasher.update(&serde_json::to_vec(&gate.command).unwrap_or_default());
        }
        let hash = hasher.finalize().to_hex().to_string();
        called.insert(0, Called { name: format!("{CHECKS_OF}{name}"), hash });
    }
    Ok(Subject { project: project.to_path_buf(), hash: hash(&called), commands, called })
}

/// Files that gates call and that changed since the approval, without the policy file itself.
pub fn changed_scripts(project: &Path, gates: &[Gate], then: &Approval) -> Vec<String> {
    let Ok(now) = called::by_gates(project, gates) else {
        return vec!["the files that the commands name".to_string()];
    };
    let own = then.called.first().map(|called| called.name.as_str());
    let is_script = |one: &&Called| Some(one.name.as_str()) != own;
    let now: Vec<_> = now.iter().filter(is_script).map(file).collect();
    let then: Vec<_> = then.called.iter().filter(is_script).map(file).collect();
    differences(&now, &then).into_iter().map(|difference| difference.what).collect()
}

impl Subject {
    /// Whether any of it comes from the repository.
    pub fn needs_approval(&self) -> bool {
        !self.called.is_empty()
    }

    /// Whether `given` is the hash of this content, or a long enough prefix of it.
    pub fn is_meant_by(&self, given: &str) -> bool {
        given.len() >= SHORTEST_HASH && self.hash.starts_with(&given.to_ascii_lowercase())
    }

    /// All differences from an earlier approval.
    pub fn differences(&self, then: &Approval) -> Vec<Difference> {
        fn key(command: &GateCommand) -> (String, &str) {
            (format!("the command of `{}`", command.gate), &command.command)
        }
        let now = self.commands.iter().map(key).chain(self.called.iter().map(file));
        let then = then.commands.iter().map(key).chain(then.called.iter().map(file));
        differences(&now.collect::<Vec<_>>(), &then.collect::<Vec<_>>())
    }

    /// Files that commands name and that changed since an earlier approval, quoted for use in a sentence.
    pub fn changed_files(&self, then: &Approval) -> Vec<String> {
        let now: Vec<_> = self.called.iter().map(file).collect();
        let then: Vec<_> = then.called.iter().map(file).collect();
        differences(&now, &then).into_iter().map(|difference| difference.what).collect()
    }

    /// The list it is about, or `None` for the policy.
    fn topic(&self) -> Option<&str> {
        topic(&self.called)
    }
}

fn file(called: &Called) -> (String, &str) {
    (format!("`{}`", called.name), &called.hash)
}

fn differences(now: &[(String, &str)], then: &[(String, &str)]) -> Vec<Difference> {
    let before: BTreeMap<&str, &str> =
        then.iter().map(|(what, content)| (what.as_str(), *content)).collect();
    let after: BTreeSet<&str> = now.iter().map(|(what, _)| what.as_str()).collect();
    let mut differences = Vec::new();
    for (what, content) in now {
        let how = match before.get(what.as_str()) {
            None => How::Added,
            Some(other) if other != content => How::Changed,
            Some(_) => continue,
        };
        differences.push(Difference { what: what.clone(), how });
    }
    let gone = then.iter().filter(|(what, _)| !after.contains(what.as_str()));
    differences.extend(gone.map(|(what, _)| Difference { what: what.clone(), how: How::Removed }));
    differences
}

fn topic(called: &[Called]) -> Option<&str> {
    called.first().map(|first| first.name.as_str()).filter(|name| name.starts_with(CHECKS_OF))
}

/// Whether all of its commands may run.
pub fn is_approved(home: &Home, subject: &Subject) -> bool {
    !subject.needs_approval() || approval(home, subject).is_some()
}

/// The approval of exactly this content.
pub fn approval(home: &Home, subject: &Subject) -> Option<Approval> {
    let path = home.approval(&subject.project, &subject.hash);
    let approval = read(&path).filter(|approval| approval.hash == subject.hash)?;
    (approval.project == subject.project.to_string_lossy()).then_some(approval)
}

/// Whether the sealed policy of a run may still run.
pub fn is_seal_approved(home: &Home, seal: &Seal) -> bool {
    seal.hash.is_empty() || seal_approval(home, seal).is_some()
}

/// The approval that a run was sealed under.
pub fn seal_approval(home: &Home, seal: &Seal) -> Option<Approval> {
    let path = home.approval(Path::new(&seal.project), &seal.hash);
    read(&path).filter(|approval| approval.hash == seal.hash && approval.project == seal.project)
}

/// Whether exactly this content of the project may run. Parses only the header, because an approval may list ten
/// thousand commands.
pub fn is_hash_approved(home: &Home, project: &str, hash: &str) -> bool {
    #[derive(Deserialize)]
    struct Bare {
        v: u8,
        project: String,
        hash: String,
    }
    let bytes = fs::read(&home.approval(Path::new(project), hash), LARGEST_APPROVAL).ok();
    let known = bytes.and_then(|bytes| serde_json::from_slice::<Bare>(&bytes).ok());
    known.is_some_and(|known| known.v == VERSION && known.hash == hash && known.project == project)
}

/// The approval of exactly this content of the project.
pub fn hash_approval(home: &Home, project: &str, hash: &str) -> Option<Approval> {
    read(&home.approval(Path::new(project), hash))
        .filter(|approval| approval.hash == hash && approval.project == project)
}

/// The newest approval of the same policy or list.
pub fn last_approval(home: &Home, subject: &Subject) -> Result<Option<Approval>, TrustError> {
    let approvals = of_project(home, &subject.project)?;
    Ok(approvals
        .into_iter()
        .map(|(_, approval)| approval)
        .filter(|approval| topic(&approval.called) == subject.topic())
        .max_by(|one, other| one.approved_at.cmp(&other.approved_at)))
}

/// Records a person's approval, together with the programs that were found.
pub fn approve(
    home: &Home,
    subject: &Subject,
    environment: &SearchPath,
) -> Result<Approval, TrustError> {
    let approval = Approval {
        v: VERSION,
        project: subject.project.to_string_lossy().into_owned(),
        hash: subject.hash.clone(),
        approved_at: clock::rfc3339(clock::now_ms()),
        path: environment.path.clone(),
        programs: environment.programs.clone(),
        commands: subject.commands.clone(),
        called: subject.called.clone(),
    };
    write(home, &subject.project, &approval)?;
    Ok(approval)
}

fn write(home: &Home, project: &Path, approval: &Approval) -> Result<(), TrustError> {
    let mut bytes = serde_json::to_vec_pretty(approval).unwrap_or_default();
    bytes.push(b'\n');
    fs::create_dir(&home.trust())?;
    fs::replace(&home.approval(project, &approval.hash), &bytes, Durability::Synced)?;
    Ok(())
}

/// Copies the approvals of a project to a work tree of it, where the same content may run too. Returns their number.
pub fn carry(home: &Home, from: &Path, to: &Path) -> Result<usize, TrustError> {
    let approvals = of_project(home, from)?;
    for (_, approval) in &approvals {
        let project = to.to_string_lossy().into_owned();
        let carried = Approval { project, ..approval.clone() };
        write(home, to, &carried)?;
    }
    Ok(approvals.len())
}

/// Deletes every approval of the project and returns their number.
pub fn revoke(home: &Home, project: &Path) -> Result<usize, TrustError> {
    let approvals = of_project(home, project)?;
    for (path, _) in &approvals {
        fs::remove_file(path)?;
    }
    Ok(approvals.len())
}

/// `$PATH` as it was when this content was approved.
pub fn recorded_path(home: &Home, subject: &Subject) -> Option<OsString> {
    approval(home, subject)?.path.map(OsString::from)
}

/// The search path, and where it leads for the programs of the gates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchPath {
    path: Option<String>,
    pub programs: Vec<Program>,
}

/// Looks up the program of every gate. Directories of the path that are relative or not UTF-8 are left out: the former
/// depend on the current directory, the latter cannot be recorded.
pub fn search_path(config: &Config, path: Option<&OsStr>) -> SearchPath {
    search_path_of(&config.project, &config.policy.gates, path)
}

/// Like [`find_programs`], for any gates of the project.
pub fn search_path_of(project: &Path, gates: &[Gate], path: Option<&OsStr>) -> SearchPath {
    let directories = std::env::split_paths(path.unwrap_or_default())
        .filter(|directory| directory.is_absolute() && directory.to_str().is_some());
    let path = std::env::join_paths(directories).ok().and_then(|path| path.into_string().ok());
    let programs = gates.iter().map(|gate| {
        let program = match &gate.command {
            Command::Argv(words) => words.first().cloned().unwrap_or_default(),
            Command::Shell(_) => "/bin/sh".to_string(),
        };
        let directory = project.join(&gate.cwd);
        let path = OsStr::new(path.as_deref().unwrap_or_default());
        let found = tools::find(OsStr::new(&program), &directory, path);
        let found = found.map(|path| path.to_string_lossy().into_owned());
        Program { gate: gate.name.clone(), program, found }
    });
    SearchPath { programs: programs.collect(), path }
}

/// A command as it would be typed in a shell, with invisible characters escaped.
pub fn literal(command: &Command) -> String {
    let typed = match command {
        Command::Shell(line) => format!("/bin/sh -c {}", quoted(line)),
        Command::Argv(words) => words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "),
    };
    text::reveal(&typed)
}

fn hash(called: &[Called]) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"ralph trust 1\0");
    for one in called {
        for part in [&one.name, &one.hash] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
    }
    hasher.finalize().to_hex().to_string()
}

fn of_project(home: &Home, project: &Path) -> Result<Vec<(PathBuf, Approval)>, TrustError> {
    let directory = home.trust();
    let names = match fs::list(&directory, MOST_APPROVALS) {
        Ok(names) => names,
        Err(error) if error.is_missing() => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let paths = names.into_iter().map(|name| directory.join(name));
    let approvals = paths.filter_map(|path| read(&path).map(|approval| (path, approval)));
    Ok(approvals.filter(|(_, approval)| approval.project == project.to_string_lossy()).collect())
}

/// Reads an approval. An unreadable file, or one of a newer version, approves nothing.
fn read(path: &Path) -> Option<Approval> {
    let bytes = fs::read(path, LARGEST_APPROVAL).ok()?;
    serde_json::from_slice(&bytes).ok().filter(|approval: &Approval| approval.v == VERSION)
}

#[cfg(test)]
mod tests;
