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
use std::collections::BTreeSet;

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

    /// Compares the files with those of `tree`. `judged` is `None` if the repository does not have what the gates judged:
    /// only a file that was not in that one either can be untracked, all others are gone.
    pub(crate) fn compare(
        &self,
        reader: &CommitReader,
        tree: &str,
        judged: Option<JudgedFiles<'_>>,
    ) -> Result<PolicyComparison, GitCommandError> {
        let references = self.references();
        let path = |reference: &ReferencedContent| match reference_source(&reference.name) {
            ReferenceSource::File(path) | ReferenceSource::Pattern(path) => {
                Some(join_path(&self.directory, path))
            }
            ReferenceSource::Script { manifest, .. } => Some(join_path(&self.directory, manifest)),
            ReferenceSource::Outside => None,
        };
        let paths: Vec<_> = references.iter().filter_map(path).collect();
        let paths: Vec<_> = paths.iter().map(String::as_str).collect();
        let files = reader.read_files(tree, &paths, MAX_FILE_BYTES)?;
        let judged_files = match judged {
            Some(judged) if judged.tree == tree => Some(files.clone()),
            Some(judged) => Some(reader.read_files(judged.tree, &paths, MAX_FILE_BYTES)?),
            None => None,
        };
        let was_untracked = |path: &str| {
            let file = judged_files.as_ref().and_then(|files| files.get(path));
            matches!(file, Some(CommittedFile::Missing))
        };
        let patterns = self.load_pattern_names(reader, tree, judged)?;
        let mut comparison = PolicyComparison::default();
        for reference in &references {
            let path = path(reference);
            let found = path.as_ref().and_then(|path| files.get(path));
            let has_digest = matches!(found, Some(CommittedFile::Content(bytes))
                if reference_digest(reference, bytes).as_ref() == Some(&reference.hash));
            let is_policy = POLICY_FILE_NAMES.contains(&reference.name.as_str());
            let name = reference.name.clone();
            if has_digest {
                comparison.same += 1;
            } else if let ReferenceSource::Pattern(pattern) = reference_source(&reference.name) {
                let mut names = patterns.iter();
                if !names.any(|names| names.is_as_judged(pattern, reference, &references)) {
                    comparison.changed.push(name);
                }
            } else {
                let is_gone = is_policy || !path.as_deref().is_some_and(was_untracked);
                match found {
                    Some(CommittedFile::Content(_) | CommittedFile::Unreadable) => {
                        comparison.changed.push(name);
                    }
                    Some(CommittedFile::Missing) if is_gone => comparison.changed.push(name),
                    Some(CommittedFile::Missing) | None => comparison.untracked.push(name),
                }
            }
        }
        Ok(comparison)
    }

    /// The names that patterns can match. `None` if the policy has no pattern.
    fn load_pattern_names(
        &self,
        reader: &CommitReader,
        tree: &str,
        judged: Option<JudgedFiles<'_>>,
    ) -> Result<Option<PatternNames>, GitCommandError> {
        let is_pattern = |file: &AttestedFile| {
            matches!(reference_source(&file.name), ReferenceSource::Pattern(_))
        };
        if !self.files.iter().any(is_pattern) {
            return Ok(None);
        }
        let list = |tree: &str| Ok(names_below(&self.directory, reader.file_paths(tree)?));
        let now = list(tree)?;
        let allowed = match judged.filter(|judged| judged.is_proved) {
            Some(judged) if judged.tree == tree => now.clone(),
            Some(judged) => list(judged.tree)?,
            None => Vec::new(),
        };
        Ok(Some(PatternNames { now, allowed }))
    }
}

/// The tree that the gates judged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JudgedFiles<'a> {
    pub(crate) tree: &'a str,
    /// Whether a proof ran the gates without the new files too. Then the agent could add files that match a pattern.
    pub(crate) is_proved: bool,
}

/// Paths of files, relative to the directory of the policy.
struct PatternNames {
    now: Vec<String>,
    /// New names that the run could add.
    allowed: Vec<String>,
}

impl PatternNames {
    /// Whether a pattern matches what it did when it was sealed, apart from files that the run could add and files that
    /// git does not track. A file that is gone differs by itself: each one that matched is a reference too.
    fn is_as_judged(
        &self,
        pattern: &str,
        sealed: &ReferencedContent,
        references: &[ReferencedContent],
    ) -> bool {
        let files: Vec<_> = self.now.iter().map(String::as_str).collect();
        let directories: BTreeSet<_> =
            files.iter().flat_map(|path| directories_above(path)).collect();
        let directories: Vec<_> = directories.into_iter().collect();
        let found = trust::matching_paths(pattern, &files);
        let (Some(found), Some(entered)) = (found, trust::matching_paths(pattern, &directories))
        else {
            return false;
        };
        if [&found, &entered].iter().any(|names| trust::matches_digest(names) == sealed.hash) {
            return true;
        }
        // The text of a pattern matches itself.
        let names = references.iter().map(|file| file.name.as_str());
        let references: Vec<_> = names.filter(|name| *name != pattern).collect();
        let then = trust::matching_paths(pattern, &references).unwrap_or_default();
        let is_allowed =
            |name: &&str| then.contains(name) || self.allowed.iter().any(|allowed| allowed == name);
        trust::matches_digest(&then) == sealed.hash && found.iter().all(is_allowed)
    }
}

fn names_below(directory: &str, paths: Vec<String>) -> Vec<String> {
    if directory.is_empty() {
        return paths;
    }
    let below = |path: String| Some(path.strip_prefix(directory)?.strip_prefix('/')?.to_string());
    paths.into_iter().filter_map(below).collect()
}

fn directories_above(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(|(at, _)| &path[..at])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(name: &str, matches: &[&str]) -> ReferencedContent {
        let hash = if matches.is_empty() { String::new() } else { trust::matches_digest(matches) };
        ReferencedContent { name: name.to_string(), hash }
    }

    /// What a pattern matches in a commit: as sealed, with names that a proved run could add, or something else.
    #[test]
    fn a_pattern_is_compared_by_the_names_that_it_matches() {
        let split = |names: &str| names.split(' ').map(str::to_string).collect::<Vec<_>>();
        let both = "tests/a.sh tests/b.sh";
        for (name, pattern, sealed, now, allowed, expected) in [
            ("as sealed", "tests/*.sh", both, both, "", true),
            ("another order", "tests/*.sh", both, "tests/b.sh main.sh tests/a.sh", "", true),
            ("one more", "tests/*.sh", "tests/a.sh", both, "", false),
            ("one more, proved", "tests/*.sh", "tests/a.sh", both, both, true),
            ("another than the proved one", "tests/*.sh", "tests/a.sh", both, "tests/a.sh", false),
            ("one that git does not track", "tests/*.sh", both, "tests/a.sh", "", true),
            ("directories", "web/*", "web/x web/y", "web/x/1 web/y/1", "", true),
            ("one directory less", "web/*", "web/x web/y", "web/x/1", "", false),
        ] {
            let sealed: Vec<_> = sealed.split(' ').collect();
            let sealed_pattern = reference(pattern, &sealed);
            let mut references = vec![reference("ralph.toml", &[]), sealed_pattern.clone()];
            let files = sealed.iter().filter(|one| one.starts_with("tests/"));
            references.extend(files.map(|one| reference(one, &[])));
            let names = PatternNames { now: split(now), allowed: split(allowed) };
            let found = names.is_as_judged(pattern, &sealed_pattern, &references);
            assert_eq!(found, expected, "{name}");
        }
    }
}
