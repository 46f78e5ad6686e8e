//! What one repository, or a tree without one, says about its files.

use std::sync::Arc;

use super::Format;
use super::ignores::Rules;
use super::index::Index;
use super::repository::Repository;
use crate::clock::Deadline;

pub(super) struct Ground {
    /// The path of its root, with a slash behind it unless it is empty.
    pub(super) base: Vec<u8>,
    pub(super) depth: usize,
    pub(super) format: Format,
    pub(super) index: Index,
    pub(super) rules: Option<Arc<Rules>>,
}

/// What tools leave behind as they run, whether or not somebody remembered to ignore it. Files of these names that are
/// tracked count, and so do those that a pattern of the project's brings back.
const LEFT_BY_TOOLS: &[u8] =
    b"__pycache__/\n*.pyc\n.pytest_cache/\n.mypy_cache/\n.ruff_cache/\n.tox/\n.venv/\nnode_modules/\n";

impl Ground {
    pub(super) fn new(repository: Option<&Repository>, deadline: &Deadline) -> Self {
        Self::below(repository, Vec::new(), (0, deadline))
    }

    /// Where nobody can tell what is tracked, everything is looked at as if it was new.
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
