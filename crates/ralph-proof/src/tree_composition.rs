//! Composes a tree from the code of one version and the tests and harness of another. The result is a list of changes
//! to the version of the code.

use crate::file_class::ClassRules;
use crate::file_composition::{ComposedFile, compose_file};
use ralph_check::FileChange;
use std::ffi::OsString;

/// Which version of the code is combined with which version of the tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeSides {
    /// Shows whether the old tests still pass.
    NewCodeOldTests,
    /// Shows whether a new test fails without the change.
    OldCodeNewTests,
}

/// The changes to the version of the code, in the order of the changed files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TreeComposition {
    /// Files to take from the version of the tests. One that is absent there is deleted.
    pub from_tests: Vec<String>,
    pub rewritten: Vec<RewrittenFile>,
    /// Files to take from the version of the tests, relative to the work tree: those outside of the project, and those
    /// whose names may not be text.
    pub outside: Vec<OsString>,
    /// Files that stay as in the version of the code, although they also affect tests.
    pub not_separable: Vec<InseparableFile>,
    /// Files that stay as in the version of the code, although they may be helpers of tests.
    pub undecided: Vec<String>,
}

impl TreeComposition {
    /// The files that differ from the version of the code.
    pub(crate) fn paths(&self) -> Vec<String> {
        let outside = self.outside.iter().map(|path| path.to_string_lossy().into_owned());
        let rewritten = self.rewritten.iter().map(|file| file.path.clone());
        self.from_tests.iter().cloned().chain(rewritten).chain(outside).collect()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RewrittenFile {
    pub path: String,
    pub text: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InseparableFile {
    pub path: String,
    pub why: String,
}

/// Composes the changed files; all others are the same in both versions.
pub fn compose_tree(
    changes: &[FileChange<'_>],
    sides: TreeSides,
    rules: &ClassRules,
) -> TreeComposition {
    let mut tree = TreeComposition::default();
    for change in changes {
        let (code, tests) = match sides {
            TreeSides::NewCodeOldTests => (change.after, change.before),
            TreeSides::OldCodeNewTests => (change.before, change.after),
        };
        let path = change.path.to_string();
        match compose_file(change.path, code, tests, rules) {
            ComposedFile::TakeCode => {}
            ComposedFile::TakeUndecided => tree.undecided.push(path),
            ComposedFile::TakeTests => tree.from_tests.push(path),
            ComposedFile::Text(text) => tree.rewritten.push(RewrittenFile { path, text }),
            ComposedFile::NotSeparable(why) => {
                tree.not_separable.push(InseparableFile { path, why });
            }
        }
    }
    tree
}
