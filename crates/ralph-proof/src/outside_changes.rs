//! Changed files of the work tree outside of the project. Gates can run tests there, and read settings from there.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use ralph_core::gate::{Gate, GateInvocation};

use crate::environment_changes::join_below;
use crate::file_class::{ClassRules, FileClass, classify_file};
use crate::file_composition::{ComposedFile, compose_file, needs_separation};
use crate::naming_conventions::classify_by_name;
use crate::tree_changes::{ChangedFile, TreeChanges};
use crate::tree_composition::{InseparableFile, RewrittenFile, TreeComposition, TreeSides};

/// The changes, and what classifies them.
pub(crate) struct OutsideChanges<'a> {
    /// Paths are relative to the work tree.
    pub changes: TreeChanges,
    /// The path of the project in the work tree.
    pub below: PathBuf,
    pub gates: &'a [&'a Gate],
    pub rules: &'a ClassRules,
}

impl OutsideChanges<'_> {
    /// Adds the changes to a tree. A file is a test or a setting if its path in the work tree or a rule of the policy says
    /// so, or if the command of a gate names it. All others are composed like files of the project.
    pub(crate) fn compose(&self, sides: TreeSides, tree: &mut TreeComposition) {
        for file in &self.changes.all {
            let shown = self.shown_path(&file.path);
            match self.compose_file(file, &shown, sides) {
                ComposedFile::TakeCode if !self.goes_with_tests(&file.path) => {}
                ComposedFile::TakeCode | ComposedFile::TakeTests => {
                    tree.outside.push(OsString::from(&file.path));
                }
                ComposedFile::TakeUndecided => tree.undecided.push(shown),
                ComposedFile::Text(text) => {
                    tree.rewritten.push(RewrittenFile { path: shown, text });
                }
                ComposedFile::NotSeparable(why) => {
                    tree.not_separable.push(InseparableFile { path: shown, why });
                }
            }
        }
        if self.changes.left_out + self.changes.missing > 0 {
            let path = "files outside of the project that cannot be read".to_string();
            tree.not_separable.push(InseparableFile { path, why: String::new() });
        }
    }

    /// The changed files as the project names them.
    pub(crate) fn shown_paths(&self) -> Vec<String> {
        self.changes.all.iter().map(|file| self.shown_path(&file.path)).collect()
    }

    /// Whether a file, relative to the work tree, decides how tests run.
    pub(crate) fn is_harness(&self, path: &str) -> bool {
        match class_by_name(path) {
            Some(FileClass::Harness) => true,
            Some(FileClass::Tests) => false,
            Some(FileClass::Code | FileClass::Environment) | None => {
                self.class_by_policy(path) == FileClass::Harness || self.is_named_by_gate(path)
            }
        }
    }

    fn compose_file(&self, file: &ChangedFile, shown: &str, sides: TreeSides) -> ComposedFile {
        // The path on disk is not known.
        if file.path.contains(char::REPLACEMENT_CHARACTER) {
            return ComposedFile::NotSeparable("its name is not text".to_string());
        }
        match file.as_text() {
            Some(change) => {
                let (code, tests) = match sides {
                    TreeSides::NewCodeOldTests => (change.after, change.before),
                    TreeSides::OldCodeNewTests => (change.before, change.after),
                };
                compose_file(shown, code, tests, self.rules)
            }
            None if needs_separation(shown) && !self.goes_with_tests(&file.path) => {
                ComposedFile::NotSeparable("it cannot be read as text".to_string())
            }
            None => ComposedFile::TakeCode,
        }
    }

    /// Whether a file is a test or a setting as a whole.
    fn goes_with_tests(&self, path: &str) -> bool {
        let is_separate = |class: FileClass| matches!(class, FileClass::Tests | FileClass::Harness);
        class_by_name(path).is_some_and(is_separate)
            || is_separate(self.class_by_policy(path))
            || self.is_named_by_gate(path)
    }

    fn class_by_policy(&self, path: &str) -> FileClass {
        classify_file(&self.shown_path(path), self.rules).class
    }

    /// Whether a word of a gate's command is this file.
    fn is_named_by_gate(&self, path: &str) -> bool {
        let names = |gate: &&Gate| {
            let words: Vec<&str> = match &gate.command {
                GateInvocation::Argv(words) => words.iter().map(String::as_str).collect(),
                GateInvocation::Shell(line) => {
                    line.split(|c: char| c.is_whitespace() || "\"';&|()".contains(c)).collect()
                }
            };
            let directory = self.below.join(&gate.cwd);
            let directory = directory.to_str().unwrap_or_default();
            words.iter().any(|word| join_below(directory, word).as_deref() == Some(path))
        };
        self.gates.iter().any(names)
    }

    /// `../tests/a.py`
    fn shown_path(&self, path: &str) -> String {
        format!("{}{path}", "../".repeat(self.below.components().count()))
    }
}

fn class_by_name(path: &str) -> Option<FileClass> {
    classify_by_name(path).map(|(class, _)| class)
}

/// The path in the work tree of a file that the project names.
pub(crate) fn path_in_work_tree(below: &Path, path: &str) -> OsString {
    let up = "../".repeat(below.components().count());
    match path.strip_prefix(&up) {
        Some(outside) if !up.is_empty() => OsString::from(outside),
        _ => below.join(path).into_os_string(),
    }
}
