//! Approvals: nothing from a repository runs until a person approves exactly that content.
//!
//! An approval is for a hash over the policy's bytes and over every file of the project that its commands name. It is
//! stored outside the repository, for one project and one hash: different content, or the same content in another
//! project, needs a new approval.

mod list_subjects;
mod package_scripts;
mod references;

use crate::config::ProjectConfig;
use ralph_core::gate::{Gate, GateInvocation, shell_quote};
use ralph_core::record::PolicySeal;
use ralph_core::text;
use ralph_gates::environment;
use ralph_gates::gates::gate_tools;
use ralph_home::paths::RalphHome;
use ralph_sys::clock;
use ralph_sys::fs::{self, Durability, FileError};
use ralph_sys::proc::program_search;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

pub use list_subjects::{checks_subject, loop_subject};

const APPROVAL_VERSION: u8 = 1;
const MAX_APPROVAL_BYTES: usize = 64 * 1024 * 1024;
const MAX_APPROVALS: usize = 100_000;
/// The shortest prefix that identifies a hash.
pub const MIN_HASH_PREFIX: usize = 12;

/// The content to approve: a policy, the checks of a list, or a loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalSubject {
    pub project: PathBuf,
    /// Hash over all references.
    pub hash: String,
    /// The literal commands, in the order of the policy.
    pub commands: Vec<GateCommand>,
    /// The policy file and the repository's files and scripts that its commands name. Empty if nothing comes from the
    /// repository.
    pub references: Vec<ReferencedContent>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateCommand {
    pub gate: String,
    /// Quoted as for a shell, so that word boundaries are visible; see [`display_command`].
    pub command: String,
}

/// A file or script of the repository that decides what a command does.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ReferencedContent {
    /// A path in the project, or `package.json: scripts.test`
    pub name: String,
    pub hash: String,
}

/// The program of a gate and where it was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateProgram {
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
    pub programs: Vec<GateProgram>,
    pub commands: Vec<GateCommand>,
    pub called: Vec<ReferencedContent>,
}

/// A difference from an earlier approval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalDifference {
    pub item: String,
    pub kind: DifferenceKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DifferenceKind {
    Added,
    Changed,
    Removed,
}

#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    #[error("cannot hash everything that the policy's commands name: {0}")]
    TooManyReferences(&'static str),
    #[error("cannot serialize what is to be approved")]
    Serialize(#[from] serde_json::Error),
    #[error(transparent)]
    File(#[from] FileError),
    #[error("the approval `{}` cannot be read: {why}", path.display())]
    UnreadableApproval { path: PathBuf, why: String },
}

/// What a person has to approve before any gate of this policy runs.
pub fn policy_subject(config: &ProjectConfig) -> Result<ApprovalSubject, TrustError> {
    let mut called = references::find_references(&config.project, &config.policy.gates)?;
    if let Some(file) = &config.file {
        let name = file.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let hash = blake3::hash(file.text.as_bytes()).to_hex().to_string();
        called.retain(|called| called.name != name);
        called.insert(0, ReferencedContent { name, hash });
    }
    let commands = config.policy.gates.iter().map(|gate| GateCommand {
        gate: gate.name.clone(),
        command: display_command(&gate.command),
    });
    Ok(ApprovalSubject {
        project: config.project.clone(),
        hash: hash_references(&called),
        commands: commands.collect(),
        references: called,
    })
}

/// The files of the project that a gate's command names, relative to the project. Scripts inside a manifest are not
/// files of their own.
pub fn referenced_files(project: &Path, gate: &Gate) -> Result<Vec<String>, TrustError> {
    let found = references::find_references(project, std::slice::from_ref(gate))?;
    let files = found.into_iter().filter(|found| !found.name.contains(": scripts."));
    // The name of a link that leads out of the project also contains its target.
    Ok(files.map(|found| found.name.split(" -> ").next().unwrap_or_default().to_string()).collect())
}

/// Files that gates call and that changed since the approval, without the policy file itself.
pub fn changed_scripts(project: &Path, gates: &[Gate], then: &Approval) -> Vec<String> {
    let Ok(now) = references::find_references(project, gates) else {
        return vec!["the files that the commands name".to_string()];
    };
    let own = then.called.first().map(|called| called.name.as_str());
    let is_script = |one: &&ReferencedContent| Some(one.name.as_str()) != own;
    let now: Vec<_> = now.iter().filter(is_script).map(named_hash).collect();
    let then: Vec<_> = then.called.iter().filter(is_script).map(named_hash).collect();
    find_differences(&now, &then).into_iter().map(|difference| difference.item).collect()
}

impl ApprovalSubject {
    /// Whether any of it comes from the repository.
    pub fn needs_approval(&self) -> bool {
        !self.references.is_empty()
    }

    /// Whether `given` is the hash of this content, or a long enough prefix of it.
    pub fn matches_hash(&self, given: &str) -> bool {
        given.len() >= MIN_HASH_PREFIX && self.hash.starts_with(&given.to_ascii_lowercase())
    }

    /// All differences from an earlier approval.
    pub fn differences(&self, then: &Approval) -> Vec<ApprovalDifference> {
        fn key(command: &GateCommand) -> (String, &str) {
            (format!("the command of `{}`", command.gate), &command.command)
        }
        let now = self.commands.iter().map(key).chain(self.references.iter().map(named_hash));
        let then = then.commands.iter().map(key).chain(then.called.iter().map(named_hash));
        find_differences(&now.collect::<Vec<_>>(), &then.collect::<Vec<_>>())
    }

    /// Files that commands name and that changed since an earlier approval, quoted for use in a sentence.
    pub fn changed_files(&self, then: &Approval) -> Vec<String> {
        let now: Vec<_> = self.references.iter().map(named_hash).collect();
        let then: Vec<_> = then.called.iter().map(named_hash).collect();
        find_differences(&now, &then).into_iter().map(|difference| difference.item).collect()
    }

    /// The list or loop it is about, or `None` for the policy.
    fn topic(&self) -> Option<&str> {
        list_subjects::topic(&self.references)
    }
}

fn named_hash(called: &ReferencedContent) -> (String, &str) {
    (format!("`{}`", called.name), &called.hash)
}

fn find_differences(now: &[(String, &str)], then: &[(String, &str)]) -> Vec<ApprovalDifference> {
    let before: BTreeMap<&str, &str> =
        then.iter().map(|(what, content)| (what.as_str(), *content)).collect();
    let after: BTreeSet<&str> = now.iter().map(|(what, _)| what.as_str()).collect();
    let mut differences = Vec::new();
    for (what, content) in now {
        let how = match before.get(what.as_str()) {
            None => DifferenceKind::Added,
            Some(other) if other != content => DifferenceKind::Changed,
            Some(_) => continue,
        };
        differences.push(ApprovalDifference { item: what.clone(), kind: how });
    }
    let gone = then.iter().filter(|(what, _)| !after.contains(what.as_str()));
    differences.extend(
        gone.map(|(what, _)| ApprovalDifference {
            item: what.clone(),
            kind: DifferenceKind::Removed,
        }),
    );
    differences
}

/// Whether all of its commands may run.
pub fn is_approved(home: &RalphHome, subject: &ApprovalSubject) -> bool {
    !subject.needs_approval() || find_approval(home, subject).is_some()
}

/// Fails if there is an approval file of exactly this content that cannot be used, so that it is not reported as missing
/// and never overwritten.
pub fn check_approval_file(home: &RalphHome, subject: &ApprovalSubject) -> Result<(), TrustError> {
    #[derive(Deserialize)]
    struct ApprovalVersion {
        v: u64,
    }
    let path = home.approval(&subject.project, &subject.hash);
    let why = match fs::read_if_exists(&path, MAX_APPROVAL_BYTES) {
        Ok(None) => return Ok(()),
        Err(_) if !fs::exists(&path) => return Ok(()),
        Err(_) if fs::is_directory(&path) => "it is a directory".to_string(),
        Err(error) => error.source().map_or_else(|| error.to_string(), ToString::to_string),
        Ok(Some(bytes)) => match serde_json::from_slice(&bytes) {
            Ok(ApprovalVersion { v }) if v > APPROVAL_VERSION.into() => {
                format!("a newer ralph wrote it (format {v})")
            }
            Ok(_) if read_approval(&path).is_some() => return Ok(()),
            Ok(_) | Err(_) => "it is damaged".to_string(),
        },
    };
    Err(TrustError::UnreadableApproval { path, why })
}

/// The approval of exactly this content.
pub fn find_approval(home: &RalphHome, subject: &ApprovalSubject) -> Option<Approval> {
    let path = home.approval(&subject.project, &subject.hash);
    let approval = read_approval(&path).filter(|approval| approval.hash == subject.hash)?;
    (approval.project == subject.project.to_string_lossy()).then_some(approval)
}

/// Whether the sealed policy of a run may still run.
pub fn is_seal_approved(home: &RalphHome, seal: &PolicySeal) -> bool {
    seal.hash.is_empty() || seal_approval(home, seal).is_some()
}

/// The approval that a run was sealed under.
pub fn seal_approval(home: &RalphHome, seal: &PolicySeal) -> Option<Approval> {
    let path = home.approval(Path::new(&seal.project), &seal.hash);
    read_approval(&path)
        .filter(|approval| approval.hash == seal.hash && approval.project == seal.project)
}

/// Whether exactly this content of the project may run. Parses only the header, because an approval may list ten
/// thousand commands.
pub fn is_hash_approved(home: &RalphHome, project: &str, hash: &str) -> bool {
    #[derive(Deserialize)]
    struct ApprovalHeader {
        v: u8,
        project: String,
        hash: String,
    }
    let bytes = fs::read(&home.approval(Path::new(project), hash), MAX_APPROVAL_BYTES).ok();
    let known = bytes.and_then(|bytes| serde_json::from_slice::<ApprovalHeader>(&bytes).ok());
    known.is_some_and(|known| {
        known.v == APPROVAL_VERSION && known.hash == hash && known.project == project
    })
}

/// The approval of exactly this content of the project.
pub fn hash_approval(home: &RalphHome, project: &str, hash: &str) -> Option<Approval> {
    read_approval(&home.approval(Path::new(project), hash))
        .filter(|approval| approval.hash == hash && approval.project == project)
}

/// The newest approval of the same policy or list.
pub fn last_approval(
    home: &RalphHome,
    subject: &ApprovalSubject,
) -> Result<Option<Approval>, TrustError> {
    let approvals = project_approvals(home, &subject.project)?;
    Ok(approvals
        .into_iter()
        .filter(|approval| list_subjects::topic(&approval.called) == subject.topic())
        .max_by(|one, other| one.approved_at.cmp(&other.approved_at)))
}

/// Records a person's approval, together with the programs that were found.
pub fn approve(
    home: &RalphHome,
    subject: &ApprovalSubject,
    environment: &ProgramSearch,
) -> Result<Approval, TrustError> {
    let approval = Approval {
        v: APPROVAL_VERSION,
        project: subject.project.to_string_lossy().into_owned(),
        hash: subject.hash.clone(),
        approved_at: clock::format_rfc3339(clock::now_ms()),
        path: environment.path.clone(),
        programs: environment.programs.clone(),
        commands: subject.commands.clone(),
        called: subject.references.clone(),
    };
    write_approval(home, &subject.project, &approval)?;
    Ok(approval)
}

fn write_approval(home: &RalphHome, project: &Path, approval: &Approval) -> Result<(), TrustError> {
    let mut bytes = serde_json::to_vec_pretty(approval)?;
    bytes.push(b'\n');
    fs::create_private_dir(&home.trust())?;
    fs::replace(&home.approval(project, &approval.hash), &bytes, Durability::Synced)?;
    Ok(())
}

/// Copies the approvals of a project to a work tree of it, where the same content may run too. Returns their number.
pub fn copy_approvals(home: &RalphHome, from: &Path, to: &Path) -> Result<usize, TrustError> {
    let approvals = project_approvals(home, from)?;
    for approval in &approvals {
        let project = to.to_string_lossy().into_owned();
        let carried = Approval { project, ..approval.clone() };
        write_approval(home, to, &carried)?;
    }
    Ok(approvals.len())
}

/// Deletes every approval of the project and returns their number. Includes approvals of newer versions, because a
/// newer ralph would honour them. If a file cannot be read, it may be an approval of this project: the others are
/// deleted, and the error is returned.
pub fn revoke_approvals(home: &RalphHome, project: &Path) -> Result<usize, TrustError> {
    #[derive(Deserialize)]
    struct ApprovedProject {
        project: String,
    }
    let mut revoked = 0;
    let mut unreadable = None;
    for path in approval_files(home)? {
        let bytes = fs::read_if_exists(&path, MAX_APPROVAL_BYTES).unwrap_or_else(|error| {
            unreadable.get_or_insert(error);
            None
        });
        // A file that does not parse approves nothing.
        let approved = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        if approved.is_some_and(|it: ApprovedProject| project.to_string_lossy() == it.project) {
            fs::remove_file(&path)?;
            revoked += 1;
        }
    }
    unreadable.map_or(Ok(revoked), |error| Err(error.into()))
}

/// `$PATH` as it was when this content was approved.
pub fn recorded_path(home: &RalphHome, subject: &ApprovalSubject) -> Option<OsString> {
    find_approval(home, subject)?.path.map(OsString::from)
}

/// The search path, and where it leads for the programs of the gates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramSearch {
    path: Option<String>,
    pub programs: Vec<GateProgram>,
}

/// Looks up the programs of every gate, in the policy's own `PATH` if it sets one. Directories of the given path that are
/// relative or not UTF-8 are left out: the former depend on the current directory, the latter cannot be recorded.
pub fn find_programs(config: &ProjectConfig, path: Option<&OsStr>) -> ProgramSearch {
    find_programs_of(config, &config.policy.gates, path)
}

/// Like [`find_programs`], for any gates of the project.
pub fn find_programs_of(
    config: &ProjectConfig,
    gates: &[Gate],
    path: Option<&OsStr>,
) -> ProgramSearch {
    let directories = std::env::split_paths(path.unwrap_or_default())
        .filter(|directory| directory.is_absolute() && directory.to_str().is_some());
    let path = std::env::join_paths(directories).ok().and_then(|path| path.into_string().ok());
    let search = environment::gate_search_path(
        &config.policy.environment,
        path.as_deref().map(OsString::from),
    );
    let search = search.unwrap_or_default();
    let programs = gates.iter().flat_map(|gate| {
        let program = match &gate.command {
            GateInvocation::Argv(words) => words.first().cloned().unwrap_or_default(),
            GateInvocation::Shell(_) => "/bin/sh".to_string(),
        };
        let directory = config.project.join(&gate.cwd);
        let found = program_search::find_program(OsStr::new(&program), &directory, &search);
        let first = GateProgram {
            gate: gate.name.clone(),
            program,
            found: found.map(|path| path.to_string_lossy().into_owned()),
        };
        let others: Vec<GateProgram> = gate_tools::gate_programs(gate, &config.project, &search)
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
    ProgramSearch { programs: programs.collect(), path }
}

/// A command as it would be typed in a shell, with invisible characters escaped.
pub fn display_command(command: &GateInvocation) -> String {
    let typed = match command {
        GateInvocation::Shell(line) => format!("/bin/sh -c {}", shell_quote(line)),
        GateInvocation::Argv(words) => {
            words.iter().map(|word| shell_quote(word)).collect::<Vec<_>>().join(" ")
        }
    };
    text::reveal(&typed)
}

fn hash_references(called: &[ReferencedContent]) -> String {
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

fn project_approvals(home: &RalphHome, project: &Path) -> Result<Vec<Approval>, TrustError> {
    let approvals = approval_files(home)?.into_iter().filter_map(|path| read_approval(&path));
    Ok(approvals.filter(|approval| approval.project == project.to_string_lossy()).collect())
}

fn approval_files(home: &RalphHome) -> Result<Vec<PathBuf>, TrustError> {
    let directory = home.trust();
    let names = fs::list_if_exists(&directory, MAX_APPROVALS)?;
    Ok(names.into_iter().map(|name| directory.join(name)).collect())
}

/// Reads an approval. An unreadable file, or one of a newer version, approves nothing.
fn read_approval(path: &Path) -> Option<Approval> {
    let bytes = fs::read(path, MAX_APPROVAL_BYTES).ok()?;
    serde_json::from_slice(&bytes).ok().filter(|approval: &Approval| approval.v == APPROVAL_VERSION)
}

#[cfg(test)]
mod tests;
