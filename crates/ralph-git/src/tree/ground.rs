//! The index, ignore rules and object format of one repository, read before its files. A tree without a repository has
//! the built-in ignore rules only.

use std::sync::Arc;

use super::Format;
use super::ignores::Rules;
use super::index::Index;
use super::repository::Repository;
use ralph_sys::clock::Deadline;

pub(super) struct Ground {
    /// Path of the repository's root, with a trailing slash unless it is empty.
    pub(super) base: Vec<u8>,
    pub(super) depth: usize,
    pub(super) format: Format,
    pub(super) index: Index,
    pub(super) rules: Option<Arc<Rules>>,
}

/// Files that tools create while they run, ignored even if the project does not ignore them. Tracked files with these
/// names are listed, and so are files that a pattern of the project re-includes.
const LEFT_BY_TOOLS: &[u8] =
    b"__pycache__/\n*.pyc\n.pytest_cache/\n.mypy_cache/\n.ruff_cache/\n.tox/\n.venv/\nnode_modules/\n";

impl Ground {
    pub(super) fn new(repository: Option<&Repository>, deadline: &Deadline) -> Self {
        Self::below(repository, Vec::new(), (0, deadline))
    }

    /// If the index cannot be read, all files are treated as untracked.
    pub(super) fn below(
        repository: Option<&Repository>,
        base: Vec<u8>,
        (depth, deadline): (usize, &Deadline),
    ) -> Self {
        let format = repository.map_or(Format::Sha1, |repository| repository.format);
        let index = repository.and_then(|repository| repository.index(deadline));
        let excludes = repository.map(|repository| repository.excludes(deadline));
        let rules = excludes
            .into_iter()
            .flatten()
            .fold(Rules::new(LEFT_BY_TOOLS, base.len(), None), |outer, text| {
                Rules::new(&text, base.len(), outer)
            });
        Self { base, depth, format, index: index.unwrap_or_default(), rules }
    }
}
