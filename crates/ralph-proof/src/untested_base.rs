//! Bases without any test: projects that the agent begins. Old tests that do not exist cannot fail to hold.

use std::path::Path;

use ralph_check::has_embedded_tests;
use ralph_check::inline_tests::find_inline_tests;
use ralph_git::checkpoint::{BlobContent, Checkpoint, CheckpointError, CheckpointRepository};
use ralph_git::tree::TreeEntryMode;
use ralph_sys::clock::Deadline;

use crate::file_class::{ClassRules, FileClass, classify_file};
use crate::file_composition::needs_separation;
use crate::naming_conventions::file_extension;
use crate::tree_changes::{FileChangeKind, TreeChanges};

/// A base with more sources than this is not read, and counts as tested.
const MAX_SOURCES: usize = 2_000;
const MAX_SOURCE_BYTES: usize = 1024 * 1024;
const MAX_ALL_BYTES: usize = 64 * 1024 * 1024;

/// The files of a project at the base.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BaseFiles<'a> {
    pub(crate) repository: &'a CheckpointRepository,
    pub(crate) checkpoint: &'a Checkpoint,
    /// The path of the project in the work tree.
    pub(crate) below: &'a Path,
    pub(crate) rules: &'a ClassRules,
}

/// Whether no file of the project in the base is a test or contains one. In doubt it does.
pub(crate) fn is_base_untested(
    base: BaseFiles<'_>,
    changes: &TreeChanges,
    deadline: &Deadline,
) -> Result<bool, CheckpointError> {
    let is_tests = |path: &str| classify_file(path, base.rules).class == FileClass::Tests;
    let mut tests = changes.all.iter().filter(|one| is_tests(&one.path));
    if tests.any(|one| one.kind != FileChangeKind::Added) {
        return Ok(false);
    }
    let found = find_base_tests(base, deadline)?;
    Ok(!found.iter().any(|path| !path.starts_with("../")))
}

/// The files of the base that are tests or may contain them, relative to the project. Of those outside of it, which start
/// with `../`, only the names are considered.
pub(crate) fn find_base_tests(
    base: BaseFiles<'_>,
    deadline: &Deadline,
) -> Result<Vec<String>, CheckpointError> {
    let BaseFiles { repository, checkpoint, below, rules } = base;
    let is_tests = |path: &str| classify_file(path, rules).class == FileClass::Tests;
    let up = "../".repeat(below.components().count());
    let (mut found, mut sources) = (Vec::new(), Vec::new());
    for entry in repository.checkpoint_files(checkpoint, deadline)? {
        let Ok(path) = Path::new(&entry.path).strip_prefix(below) else {
            let path = entry.path.to_string_lossy();
            if is_tests(&path) {
                found.push(format!("{up}{path}"));
            }
            continue;
        };
        let path = path.to_string_lossy().into_owned();
        // A link or a repository of its own may be a directory of tests, whose files are not listed.
        let may_be_directory =
            matches!(entry.version.mode, TreeEntryMode::Symlink | TreeEntryMode::Repository);
        if is_tests(&path) || may_be_directory && is_tests(&format!("{path}/file")) {
            found.push(path);
        } else if needs_separation(&path) {
            sources.push((path, entry.version.id));
        }
    }
    if sources.len() > MAX_SOURCES {
        found.extend(sources.into_iter().map(|(path, _)| path));
        return Ok(found);
    }
    let ids: Vec<_> = sources.iter().map(|(_, id)| *id).collect();
    let blobs = repository.read_blobs(&ids, MAX_SOURCE_BYTES, MAX_ALL_BYTES, deadline)?;
    found.extend(sources.into_iter().filter_map(|(path, id)| {
        let may_contain_tests = match blobs.get(&id) {
            Some(BlobContent::Content(bytes)) => {
                contains_tests(&path, &String::from_utf8_lossy(bytes))
            }
            Some(BlobContent::TooLarge(_) | BlobContent::Missing) | None => true,
        };
        may_contain_tests.then_some(path)
    }));
    Ok(found)
}

fn contains_tests(path: &str, text: &str) -> bool {
    match file_extension(path) {
        "rs" => find_inline_tests(text).is_none_or(|found| !found.parts.is_empty()),
        _ => has_embedded_tests(path, text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_beside_code_are_found() {
        for (path, text, expected) in [
            ("src/lib.rs", "pub fn add() {}\n", false),
            (
                "src/lib.rs",
                "pub fn add() {}\n#[cfg(test)]\nmod tests {\n#[test]\nfn a() {}\n}\n",
                true,
            ),
            ("app.py", "def add():\n    pass\n", false),
            (
                "app.py",
                "import unittest\nclass A(unittest.TestCase):\n    def test_a(self):\n        pass\n",
                true,
            ),
            ("app.js", "test('adds', () => { one(); });\n", true),
            ("README.md", "# Words\n", false),
        ] {
            assert_eq!(contains_tests(path, text), expected, "{path}: {text}");
        }
    }
}
