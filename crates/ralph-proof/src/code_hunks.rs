//! The hunks of a change to the code: the places that can be reverted one by one.

use std::ops::Range;

use imara_diff::{Algorithm, Diff, Hunk, InternedInput};
use ralph_core::text;

use crate::file_class::{ClassRules, FileClass, classify_file};
use crate::file_composition::{ComposedFile, compose_file};
use crate::naming_conventions::{file_extension, is_lock_file};
use crate::tree_changes::{ChangedFile, FileChangeKind, TreeChanges};
use crate::tree_composition::{RewrittenFile, TreeComposition};

/// Changes with at most this many unchanged lines between them, such as a closing brace, are one hunk: reverting one half
/// of a rewritten statement would show only that it does not compile.
const MAX_GAP: u32 = 1;
const MAX_EXCERPT_CHARS: usize = 60;

/// One place of a change. A file that was added, deleted, or is not text has one hunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeHunk {
    /// Relative to the project.
    pub path: String,
    /// Its lines in the new version, from 1. For removed lines, the line before them. `None` for a whole file.
    pub lines: Option<(u32, u32)>,
    pub added: u32,
    pub removed: u32,
    /// The first changed line that is not blank.
    pub excerpt: String,
    /// The position of its file, and what it replaced.
    file: usize,
    before: Range<u32>,
    after: Range<u32>,
}

/// All hunks of a change, with what is needed to revert them.
#[derive(Debug, Default)]
pub(crate) struct CodeHunks {
    /// In the order of the files, and of the lines in each.
    pub all: Vec<CodeHunk>,
    /// The number of hunks and files that no test is expected to notice.
    pub trivial: usize,
    files: Vec<HunkFile>,
}

/// Both versions of the code of a file, each with the new tests.
#[derive(Debug)]
struct HunkFile {
    path: String,
    /// `None` if the file is reverted as a whole.
    texts: Option<[String; 2]>,
}

impl CodeHunks {
    pub(crate) fn find(changes: &TreeChanges, rules: &ClassRules) -> Self {
        let mut found = Self::default();
        let is_code =
            |file: &&ChangedFile| classify_file(&file.path, rules).class == FileClass::Code;
        for file in changes.all.iter().filter(is_code) {
            if is_document(&file.path) {
                found.trivial += 1;
            } else {
                found.add_file(file, rules);
            }
        }
        found
    }

    fn add_file(&mut self, file: &ChangedFile, rules: &ClassRules) {
        let change = file.as_text();
        let versions = change.as_ref().and_then(|change| Some((change.before?, change.after?)));
        let old = versions.and_then(|(before, after)| {
            match compose_file(&file.path, Some(before), Some(after), rules) {
                ComposedFile::TakeCode
                | ComposedFile::TakeUndecided
                | ComposedFile::NotSeparable(_) => Some(before.to_string()),
                ComposedFile::Text(text) => Some(text),
                ComposedFile::TakeTests => None,
            }
        });
        // Text that is not UTF-8 was converted with losses, so no part of it can be put back.
        let texts = versions.zip(old).filter(|((_, new), old)| {
            *new != old && ![new, old.as_str()].iter().any(|text| text.contains('\u{fffd}'))
        });
        let (path, position) = (file.path.clone(), self.files.len());
        if let Some(((_, new), old)) = texts {
            let (hunks, trivial) = split_hunks(&path, position, &old, new);
            self.all.extend(hunks);
            self.trivial += trivial;
            self.files.push(HunkFile { path, texts: Some([old, new.to_string()]) });
            return;
        }
        // A file that differs only in its tests has no hunks of code.
        if versions.is_some_and(|(before, after)| before != after && !after.contains('\u{fffd}')) {
            return;
        }
        let count = |text: Option<&str>| {
            u32::try_from(text.unwrap_or_default().lines().count()).unwrap_or(u32::MAX)
        };
        let (before, after) = change.map_or((None, None), |change| (change.before, change.after));
        self.all.push(CodeHunk {
            lines: None,
            added: count(after),
            removed: count(before),
            excerpt: match file.kind {
                FileChangeKind::Added => "the whole file, which is new",
                FileChangeKind::Modified => "the whole file",
                FileChangeKind::Deleted => "the file was deleted",
            }
            .to_string(),
            path: path.clone(),
            file: position,
            before: 0..0,
            after: 0..0,
        });
        self.files.push(HunkFile { path, texts: None });
    }

    /// The changes to the candidate that revert one hunk.
    pub(crate) fn revert(&self, hunk: &CodeHunk) -> TreeComposition {
        let mut changes = TreeComposition::default();
        let Some(HunkFile { path, texts }) = self.files.get(hunk.file) else { return changes };
        match texts {
            None => changes.from_tests.push(path.clone()),
            Some([old, new]) => {
                let text = replace_lines(new, &hunk.after, &line_range(old, &hunk.before));
                changes.rewritten.push(RewrittenFile { path: path.clone(), text });
            }
        }
        changes
    }
}

/// The hunks of a file, and the number of those that change only comments and blank lines.
fn split_hunks(path: &str, file: usize, old: &str, new: &str) -> (Vec<CodeHunk>, usize) {
    let input = InternedInput::new(old, new);
    let mut diff = Diff::compute(Algorithm::Histogram, &input);
    diff.postprocess_lines(&input);
    let changed = |hunk: &Hunk| {
        let (old, new) = (line_range(old, &hunk.before), line_range(new, &hunk.after));
        [new, old].join("\n")
    };
    let is_trivial =
        |hunk: &Hunk| changed(hunk).lines().all(|line| is_comment_or_blank(path, line));
    let (trivial, others): (Vec<Hunk>, Vec<Hunk>) = diff.hunks().partition(is_trivial);
    let mut merged: Vec<Hunk> = Vec::new();
    for hunk in others {
        match merged.last_mut() {
            Some(last) if hunk.after.start.saturating_sub(last.after.end) <= MAX_GAP => {
                last.before.end = hunk.before.end;
                last.after.end = hunk.after.end;
            }
            Some(_) | None => merged.push(hunk),
        }
    }
    let code_hunk = |hunk: Hunk| {
        let text = changed(&hunk);
        let excerpt = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
        let first = if hunk.after.is_empty() { hunk.after.start } else { hunk.after.start + 1 };
        CodeHunk {
            path: path.to_string(),
            lines: Some((first.max(1), hunk.after.end.max(1))),
            added: hunk.after.end - hunk.after.start,
            removed: hunk.before.end - hunk.before.start,
            excerpt: text::clean_line(excerpt, MAX_EXCERPT_CHARS),
            file,
            before: hunk.before,
            after: hunk.after,
        }
    };
    (merged.into_iter().map(code_hunk).collect(), trivial.len())
}

fn line_range(text: &str, lines: &Range<u32>) -> String {
    let skip = usize::try_from(lines.start).unwrap_or(usize::MAX);
    text.split_inclusive('\n').skip(skip).take(lines.len()).collect()
}

fn replace_lines(text: &str, lines: &Range<u32>, by: &str) -> String {
    let end = u32::try_from(text.split_inclusive('\n').count()).unwrap_or(u32::MAX);
    let rest = line_range(text, &(lines.end..end));
    [line_range(text, &(0..lines.start)), by.to_string(), rest].concat()
}

/// Prose, and lock files: reverting one does not change what is installed.
fn is_document(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    is_lock_file(name)
        || matches!(file_extension(name), "md" | "markdown" | "rst" | "adoc")
        || matches!(name, "LICENSE" | "COPYING" | "AUTHORS" | "CODEOWNERS")
}

/// Whether a line looks blank or like a comment. Inside a string it could be neither, so such a hunk is left out and
/// counted rather than called unnoticed. Comments that tools run or obey are code.
fn is_comment_or_blank(path: &str, line: &str) -> bool {
    let line = line.trim();
    if line.is_empty() {
        return true;
    }
    let starts = |marks: &[&str]| marks.iter().any(|mark| line.starts_with(mark));
    match file_extension(path) {
        "py" | "rb" | "sh" | "bash" | "toml" | "yaml" | "yml" | "ex" | "exs" | "pl" => {
            starts(&["#"]) && !starts(&["#!"])
        }
        "rs" => starts(&["//"]) && !starts(&["///", "//!"]),
        "go" => starts(&["//"]) && !starts(&["//go:", "// +build"]),
        "js" | "jsx" | "mjs" | "cjs" | "ts" | "tsx" | "mts" | "cts" | "java" | "kt" | "swift"
        | "c" | "h" | "cc" | "cpp" | "hpp" | "cs" | "scala" | "dart" | "php" => starts(&["//"]),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(path: &str, old: &str, new: &str) -> String {
        let (hunks, trivial) = split_hunks(path, 0, old, new);
        let mut out = String::new();
        for hunk in &hunks {
            let CodeHunk { lines, added, removed, excerpt, .. } = hunk;
            let reverted = replace_lines(new, &hunk.after, &line_range(old, &hunk.before));
            out.push_str(&format!("{lines:?} +{added} -{removed} {excerpt} -> {reverted:?}\n"));
        }
        format!("{out}{trivial} trivial")
    }

    #[test]
    fn each_hunk_is_reverted_by_itself() {
        let old = "a\nb\nc\nd\ne\nf\ng\nh\n";
        let new = "a\nB\nc\nC\nd\ne\nf\ng\nh\ni\n";
        insta::assert_snapshot!(shown("x.py", old, new), @r#"
        Some((2, 4)) +3 -2 B -> "a\nb\nc\nd\ne\nf\ng\nh\ni\n"
        Some((10, 10)) +1 -0 i -> "a\nB\nc\nC\nd\ne\nf\ng\nh\n"
        0 trivial
        "#);
        insta::assert_snapshot!(shown("x.py", "a\nb\nc", "a\nc"), @r#"
        Some((1, 1)) +0 -1 b -> "a\nb\nc"
        0 trivial
        "#);
        insta::assert_snapshot!(shown("x.py", "a\n", "a"), @r#"
        Some((1, 1)) +1 -1 a -> "a\n"
        0 trivial
        "#);
        insta::assert_snapshot!(shown("x.py", "", "a\n"), @r#"
        Some((1, 1)) +1 -0 a -> ""
        0 trivial
        "#);
    }

    /// Comments are left out where they certainly look like comments; what tools run or obey is not.
    #[test]
    fn comments_and_blank_lines_are_left_out() {
        for (path, line, expected) in [
            ("a.py", "  # why", true),
            ("a.py", "", true),
            ("a.py", "\t", true),
            ("a.sh", "#!/bin/sh", false),
            ("a.py", "x = 1  # why", false),
            ("a.rs", "// why", true),
            ("a.rs", "/// ```", false),
            ("a.rs", "#[test]", false),
            ("a.rs", "* 2", false),
            ("a.go", "//go:embed x", false),
            ("a.go", "// why", true),
            ("a.c", "#include <a.h>", false),
            ("a.css", "# not a comment", false),
            ("Makefile", "# why", false),
        ] {
            assert_eq!(is_comment_or_blank(path, line), expected, "{path} {line}");
        }
        insta::assert_snapshot!(shown("x.py", "a\nb\nc\nd\ne\nf\n", "# one\na\nb\nc\nd\nE\nf\n"), @r##"
        Some((6, 6)) +1 -1 E -> "# one\na\nb\nc\nd\ne\nf\n"
        1 trivial
        "##);
    }
}
