//! Approval of the checks of a list, and of a loop that came with a repository.

use super::{
    ApprovalSubject, GateCommand, ReferencedContent, TrustError, display_command, hash_references,
    referenced_contents, references,
};
use ralph_core::gate::Gate;
use std::path::Path;

/// Prefix of the first reference of a list's checks, in place of the policy file.
const CHECKS_PREFIX: &str = "checks of ";
/// Prefix of the only reference of a loop.
const LOOP_PREFIX: &str = "loop ";

/// The list or loop that an approval is about, or `None` for a policy.
pub(super) fn topic(called: &[ReferencedContent]) -> Option<&str> {
    let name = called.first()?.name.as_str();
    [CHECKS_PREFIX, LOOP_PREFIX].iter().any(|prefix| name.starts_with(prefix)).then_some(name)
}

/// What a person has to approve before the checks of a list run.
pub fn checks_subject(
    project: &Path,
    list: &Path,
    checks: &[Gate],
) -> Result<ApprovalSubject, TrustError> {
    let files = references::find_references(project, checks)?;
    let mut called = referenced_contents(&files);
    let name = list.strip_prefix(project).unwrap_or(list).to_string_lossy();
    let commands: Vec<GateCommand> = checks
        .iter()
        .map(|gate| GateCommand {
            gate: gate.name.clone(),
            command: display_command(&gate.command),
        })
        .collect();
    if !checks.is_empty() {
        let mut hasher = blake3::Hasher::new();
        for gate in checks {
            hasher.update(&serde_json::to_vec(&gate.command)?);
        }
        let hash = hasher.finalize().to_hex().to_string();
        called.insert(0, ReferencedContent { name: format!("{CHECKS_PREFIX}{name}"), hash });
    }
    Ok(ApprovalSubject {
        project: project.to_path_buf(),
        hash: hash_references(&called),
        commands,
        references: called,
        files,
    })
}

/// What a person has to approve before a loop holds a session that they did not start it in. `digest` is the hash of
/// the list's items.
pub fn loop_subject(project: &Path, list: &Path, digest: &str) -> ApprovalSubject {
    let name = list.strip_prefix(project).unwrap_or(list).to_string_lossy();
    let references =
        vec![ReferencedContent { name: format!("{LOOP_PREFIX}{name}"), hash: digest.to_string() }];
    ApprovalSubject {
        project: project.to_path_buf(),
        hash: hash_references(&references),
        commands: Vec::new(),
        references,
        files: Vec::new(),
    }
}
