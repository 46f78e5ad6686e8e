//! Approvals: nothing from a repository runs until a person approves exactly that content.
//!
//! An approval is for a hash over the policy's bytes and over every file of the project that its commands name. It is
//! stored outside the repository, for one project and one hash: different content, or the same content in another
//! project, needs a new approval.

mod approval_difference;
mod brace_expansion;
mod code_texts;
mod command_parts;
mod content_digest;
mod content_hash;
mod executed_scripts;
mod gate_search;
mod interpreter_options;
mod judge_references;
mod list_subjects;
mod package_scripts;
mod pattern_matches;
mod policy_subject;
mod program_starts;
mod references;
mod runner_files;
mod script_sources;
mod seal_differences;
mod shell_variables;
mod work_arguments;

use crate::config::POLICY_FILE_NAMES;
use ralph_core::gate::{Gate, GateInvocation, shell_quote};
use ralph_core::record::PolicySeal;
use ralph_core::sealed_file::{SealReason, SealedFile};
use ralph_home::paths::RalphHome;
use ralph_sys::fs::{self, Durability, FileError};
use ralph_sys::{clock, env::Env};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::error::Error;
use std::path::{Path, PathBuf};

pub use approval_difference::{ApprovalDifference, DifferenceKind};
pub use content_digest::{ReferenceSource, matches_digest, reference_digest, reference_source};
pub use gate_search::{
    GateProgram, GateSearch, GateVariables, ProgramSearch, SetVariable, ShownEnvironment,
    find_programs, find_programs_of, recordable_path, sealed_files,
};
pub use judge_references::{
    judge_label, judge_program, policy_programs, program_owner, sealed_policy_files,
};
pub use list_subjects::{checks_subject, loop_subject};
pub use pattern_matches::matching_paths;
pub use policy_subject::policy_subject;
pub use references::{UnsealedScript, unsealed_scripts};
pub use seal_differences::{SealDifference, find_seal_differences};

pub const APPROVAL_VERSION: u8 = 1;
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
    /// Why its commands depend on the files among the references.
    pub files: Vec<SealedFile>,
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
    /// Whether the person also lets the agents of `ralph run` edit files of the project.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub edits: bool,
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

fn referenced_contents(files: &[SealedFile]) -> Vec<ReferencedContent> {
    let named = files.iter().map(|file| (file.name.clone(), file.hash.clone()));
    named.map(|(name, hash)| ReferencedContent { name, hash }).collect()
}

/// A file of the project that decides the result of a gate.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GateReference {
    /// Relative to the project.
    pub path: String,
    /// The script, if the file is a manifest.
    pub script: Option<String>,
    /// It only controls which programs a runner starts.
    pub is_settings: bool,
}

/// The files of the project that decide the result of a gate.
pub fn referenced_files(project: &Path, gate: &Gate) -> Result<Vec<GateReference>, TrustError> {
    let found = references::find_references(project, [gate])?;
    let reference = |found: &SealedFile| {
        let (path, script) = match found.name.split_once(": scripts.") {
            Some((path, script)) => (path, Some(script.to_string())),
            None => (found.name.as_str(), None),
        };
        // The name of a link that leads out of the project also contains its target.
        let path = path.split(" -> ").next().unwrap_or_default().to_string();
        GateReference { path, script, is_settings: found.why == SealReason::Settings }
    };
    let files: BTreeSet<GateReference> =
        found.iter().filter(|file| !file.is_pattern()).map(reference).collect();
    Ok(files.into_iter().collect())
}

/// The sealed files of a run that are not as they were when it began, without the policy file itself.
pub fn changed_sealed_files(
    home: &RalphHome,
    env: &Env,
    seal: &PolicySeal,
) -> Result<Vec<SealDifference>, TrustError> {
    let path = seal.path.as_deref().map(Into::into);
    let search = GateSearch { env, environment: &seal.policy.environment, path };
    let now = sealed_policy_files(Path::new(&seal.project), &seal.policy, &search)?;
    if let Some(then) = &seal.files {
        let mut found = find_seal_differences(then, &now);
        found
            .retain(|one| !seal_differences::is_proved_pattern(seal, then.iter().chain(&now), one));
        // The approval of a policy says nothing about a file that only a typed check names.
        for one in &mut found {
            let file = then.iter().chain(&now).find(|file| file.name == one.name);
            one.is_approvable &= file.is_none_or(|file| !seal.is_check(&file.gate));
        }
        return Ok(found);
    }
    let Some(then) = seal_approval(home, seal) else { return Ok(Vec::new()) };
    let is_file = |one: &&ReferencedContent| !POLICY_FILE_NAMES.contains(&one.name.as_str());
    let then: Vec<_> = then.called.iter().filter(is_file).cloned().collect();
    Ok(seal_differences::find_approval_differences(&then, &now))
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
        approval_difference::find_differences(&now.collect::<Vec<_>>(), &then.collect::<Vec<_>>())
    }

    /// The commands and the policy file or list that differ from an earlier approval, without other files.
    pub fn command_differences(&self, then: &Approval) -> Vec<ApprovalDifference> {
        let is_file = |item: &str| {
            let names = self.files.iter().map(|file| &file.name);
            let mut names = names.chain(then.called.iter().skip(1).map(|called| &called.name));
            names.any(|name| item == format!("`{name}`"))
        };
        let all = self.differences(then).into_iter();
        all.filter(|difference| !is_file(&difference.item)).collect()
    }

    /// Differences from an earlier approval that a check of a list may not have: its text, and files that decide its
    /// result. Quoted for use in a sentence.
    pub fn changed_files(&self, then: &Approval) -> Vec<String> {
        let (own, files) =
            then.called.split_first().map_or((None, &[][..]), |(own, files)| (Some(own), files));
        let is_same = own.is_some() && own == self.references.first();
        let own = own.filter(|_| !is_same).map(|own| format!("`{}`", own.name));
        let changed = seal_differences::find_approval_differences(files, &self.files);
        own.into_iter().chain(changed.into_iter().map(|one| one.into_difference().item)).collect()
    }

    /// The policy file of the project.
    pub fn policy_file(&self) -> Option<&ReferencedContent> {
        self.references.first().filter(|one| POLICY_FILE_NAMES.contains(&one.name.as_str()))
    }

    /// The list or loop it is about, or `None` for the policy.
    fn topic(&self) -> Option<&str> {
        list_subjects::topic(&self.references)
    }
}

fn named_hash(called: &ReferencedContent) -> (String, &str) {
    (format!("`{}`", called.name), &called.hash)
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
    let is_same = |approval: &Approval| list_subjects::topic(&approval.called) == subject.topic();
    let same = approvals.into_iter().filter(is_same);
    Ok(same.max_by(|one, other| one.approved_at.cmp(&other.approved_at)))
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
        edits: find_approval(home, subject).is_some_and(|known| known.edits),
    };
    write_approval(home, &subject.project, &approval)?;
    Ok(approval)
}

/// Records, in the approval of this content, that agents of `ralph run` may edit files of the project. Without an
/// approval, nothing is recorded.
pub fn allow_edits(home: &RalphHome, subject: &ApprovalSubject) -> Result<(), TrustError> {
    match find_approval(home, subject) {
        Some(known) => write_approval(home, &subject.project, &Approval { edits: true, ..known }),
        None => Ok(()),
    }
}

/// Whether a person let the agents of `ralph run` edit files of this project, and has not revoked it since.
pub fn are_edits_allowed(home: &RalphHome, project: &Path) -> bool {
    let approvals = project_approvals(home, project).unwrap_or_default();
    approvals.iter().any(|approval| approval.edits)
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
    // A directory of the project on the `PATH` becomes that of the work tree, whose programs are the same.
    let carry_directory = |directory: PathBuf| match directory.strip_prefix(from) {
        Ok(inside) => to.join(inside),
        Err(_) => directory,
    };
    for approval in &approvals {
        let project = to.to_string_lossy().into_owned();
        let path = approval.path.as_deref().and_then(|path| {
            let directories = std::env::split_paths(path).map(carry_directory);
            std::env::join_paths(directories).ok()?.into_string().ok()
        });
        let carried = Approval { project, path, ..approval.clone() };
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
pub fn recorded_path(home: &RalphHome, subject: &ApprovalSubject) -> Option<std::ffi::OsString> {
    find_approval(home, subject)?.path.map(Into::into)
}

/// A command as it would be typed in a shell, with invisible characters escaped.
pub fn display_command(command: &GateInvocation) -> String {
    let typed = match command {
        GateInvocation::Shell(line) => format!("/bin/sh -c {}", shell_quote(line)),
        GateInvocation::Argv(words) => {
            words.iter().map(|word| shell_quote(word)).collect::<Vec<_>>().join(" ")
        }
    };
    ralph_core::text::reveal(&typed)
}

/// The hash that an approval is for.
pub fn hash_references(called: &[ReferencedContent]) -> String {
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
