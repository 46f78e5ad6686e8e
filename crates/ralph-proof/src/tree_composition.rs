//! A tree whose code is of one version and whose tests and harness are of another, described by what differs from the
//! tree of the code.

use crate::file_class::ClassRules;
use crate::file_composition::{ComposedFile, compose_file};
use ralph_check::FileChange;

/// Which version the code and the tests of a tree are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeSides {
    /// Does what was promised before still hold?
    NewCodeOldTests,
    /// Does a test tell the new code from the old?
    OldCodeNewTests,
}

/// What to change in a tree of the code's version. Paths are sorted as the changes were.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TreeComposition {
    /// Files to take from the version of the tests; absent there means deleted.
    pub from_tests: Vec<String>,
    pub rewritten: Vec<RewrittenFile>,
    /// Files that stay as in the version of the code, although they concern tests too.
    pub not_separable: Vec<InseparableFile>,
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
            ComposedFile::TakeTests => tree.from_tests.push(path),
            ComposedFile::Text(text) => tree.rewritten.push(RewrittenFile { path, text }),
            ComposedFile::NotSeparable(why) => {
                tree.not_separable.push(InseparableFile { path, why });
            }
        }
    }
    tree
}
