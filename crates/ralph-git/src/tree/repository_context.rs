//! The index, ignore rules and object format of one repository, read before its files. A tree without a repository has
//! the built-in ignore rules only.

use std::sync::Arc;

use super::ObjectFormat;
use super::git_index::GitIndex;
use super::ignore_rules::IgnoreRules;
use super::repository::GitRepository;
use ralph_sys::clock::Deadline;

pub(super) struct RepositoryContext {
    /// Path of the repository's root, with a trailing slash unless it is empty.
    pub(super) base: Vec<u8>,
    pub(super) depth: usize,
    pub(super) format: ObjectFormat,
    pub(super) index: GitIndex,
    pub(super) rules: Option<Arc<IgnoreRules>>,
}

/// Files that tools create while they run, ignored even if the project does not ignore them. Tracked files with these
/// names are listed, and so are files that a pattern of the project re-includes, by themselves or with their directory.
const TOOL_OUTPUT_PATTERNS: &[u8] =
    b"__pycache__/\n*.pyc\n.pytest_cache/\n.mypy_cache/\n.ruff_cache/\n.tox/\n.venv/\nnode_modules/\n";

impl RepositoryContext {
    pub(super) fn new(repository: Option<&GitRepository>, deadline: &Deadline) -> Self {
        Self::nested(repository, Vec::new(), 0, deadline)
    }

    /// If the index cannot be read, all files are treated as untracked.
    pub(super) fn nested(
        repository: Option<&GitRepository>,
        base: Vec<u8>,
        depth: usize,
        deadline: &Deadline,
    ) -> Self {
        let format = repository.map_or(ObjectFormat::Sha1, |repository| repository.format);
        let index = repository.and_then(|repository| repository.read_index(deadline));
        let excludes = repository.map(|repository| repository.exclude_patterns(deadline));
        let mut rules = Some(Arc::new(IgnoreRules::built_in(TOOL_OUTPUT_PATTERNS, base.len())));
        for text in excludes.into_iter().flatten() {
            rules = IgnoreRules::new(&text, base.len(), rules);
        }
        Self { base, depth, format, index: index.unwrap_or_default(), rules }
    }
}
