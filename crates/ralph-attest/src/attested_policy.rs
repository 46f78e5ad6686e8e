//! The policy of a run as a statement has it: the hash that a person approved, and the files that it covers.

use crate::run_statement::{AttestedFile, AttestedPolicy};
use ralph_core::record::PolicySeal;
use ralph_git::commit_content::{CommitReader, CommittedFile};
use ralph_git::worktree::GitCommandError;
use ralph_home::paths::RalphHome;
use ralph_policy::config::POLICY_FILE_NAMES;
use ralph_policy::trust::{
    self, ReferenceSource, ReferencedContent, hash_references, reference_digest, reference_source,
};

/// Like the largest file that an approval covers line by line.
const MAX_FILE_BYTES: usize = 16 * 1024 * 1024;
const SHORT_HASH_CHARS: usize = 12;

/// The sealed policy. `Ok(None)` if the files that its hash covers are no longer known.
pub(crate) fn attest_policy(
    home: &RalphHome,
    seal: &PolicySeal,
    reader: &CommitReader,
    directory: &str,
    tree: &str,
) -> Result<Option<AttestedPolicy>, GitCommandError> {
    let sealed = || seal.files.iter().flatten();
    let sealed =
        sealed().map(|file| ReferencedContent { name: file.name.clone(), hash: file.hash.clone() });
    let sealed: Vec<_> = sealed.collect();
    let policy = |files: &[ReferencedContent]| AttestedPolicy {
        hash: seal.hash.clone(),
        directory: directory.to_string(),
        files: files.iter().map(attested_file).collect(),
    };
    if seal.hash.is_empty() {
        return Ok(Some(policy(&sealed)));
    }
    if let Some(approval) = trust::seal_approval(home, seal)
        && hash_references(&approval.called) == seal.hash
    {
        return Ok(Some(policy(&approval.called)));
    }
    // The approval of a work tree is removed with it. The policy file of the judged tree is the approved one if the hash
    // says so.
    let paths: Vec<_> = POLICY_FILE_NAMES.iter().map(|name| join_path(directory, name)).collect();
    let paths: Vec<_> = paths.iter().map(String::as_str).collect();
    let found = reader.read_files(tree, &paths, MAX_FILE_BYTES)?;
    for (name, path) in POLICY_FILE_NAMES.iter().zip(paths) {
        let Some(CommittedFile::Content(bytes)) = found.get(path) else { continue };
        let mut file = ReferencedContent { name: (*name).to_string(), hash: String::new() };
        file.hash = reference_digest(&file, bytes).unwrap_or_default();
        let files = [&[file], sealed.as_slice()].concat();
        if hash_references(&files) == seal.hash {
            return Ok(Some(policy(&files)));
        }
    }
    Ok(None)
}

fn attested_file(content: &ReferencedContent) -> AttestedFile {
    AttestedFile { name: content.name.clone(), blake3: content.hash.clone() }
}

fn join_path(directory: &str, name: &str) -> String {
    if directory.is_empty() { name.to_string() } else { format!("{directory}/{name}") }
}

/// What a comparison of an attested policy with a tree found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PolicyComparison {
    pub(crate) same: usize,
    /// Files with another content, or of which nothing is left.
    pub(crate) changed: Vec<String>,
    /// Files that git does not track, such as installed programs.
    pub(crate) untracked: Vec<String>,
}

impl AttestedPolicy {
    pub(crate) fn short_hash(&self) -> String {
        self.hash.chars().take(SHORT_HASH_CHARS).collect()
    }

    fn references(&self) -> Vec<ReferencedContent> {
        let content = |file: &AttestedFile| ReferencedContent {
            name: file.name.clone(),
            hash: file.blake3.clone(),
        };
        self.files.iter().map(content).collect()
    }

    /// Whether the hash is that of the files. Without one, nothing of the policy comes from the repository.
    pub(crate) fn has_own_hash(&self) -> bool {
        self.hash.is_empty() || hash_references(&self.references()) == self.hash
    }

    /// Compares the files with those of `tree`. `judged` is the tree that the gates judged, if the repository has it:
    /// only a file that was not in that one either can be untracked, all others are gone.
    pub(crate) fn compare(
        &self,
        reader: &CommitReader,
        tree: &str,
        judged: Option<&str>,
    ) -> Result<PolicyComparison, GitCommandError> {
        let references = self.references();
        let path = |reference: &ReferencedContent| match reference_source(&reference.name) {
            ReferenceSource::File(path) => Some(join_path(&self.directory, path)),
            ReferenceSource::Script { manifest, .. } => Some(join_path(&self.directory, manifest)),
            ReferenceSource::Outside => None,
        };
        let paths: Vec<_> = references.iter().filter_map(path).collect();
        let paths: Vec<_> = paths.iter().map(String::as_str).collect();
        let files = reader.read_files(tree, &paths, MAX_FILE_BYTES)?;
        let judged = match judged {
            Some(judged) if judged == tree => Some(files.clone()),
            Some(judged) => Some(reader.read_files(judged, &paths, MAX_FILE_BYTES)?),
            None => None,
        };
        let was_untracked = |path: &str| {
            let file = judged.as_ref().and_then(|files| files.get(path));
            matches!(file, Some(CommittedFile::Missing))
        };
        let mut comparison = PolicyComparison::default();
        for reference in &references {
            let is_policy = POLICY_FILE_NAMES.contains(&reference.name.as_str());
            let name = reference.name.clone();
            let path = path(reference);
            match path.as_ref().and_then(|path| files.get(path)) {
                Some(CommittedFile::Content(bytes))
                    if reference_digest(reference, bytes).as_ref() == Some(&reference.hash) =>
                {
                    comparison.same += 1;
                }
                Some(CommittedFile::Content(_) | CommittedFile::Unreadable) => {
                    comparison.changed.push(name);
                }
                Some(CommittedFile::Missing)
                    if is_policy || !path.as_deref().is_some_and(was_untracked) =>
                {
                    comparison.changed.push(name);
                }
                Some(CommittedFile::Missing) | None => comparison.untracked.push(name),
            }
        }
        Ok(comparison)
    }
}
