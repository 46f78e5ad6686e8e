//! The files that a run changed, and two versions of a file side by side.

use crate::view::checkpoint_list::file_views;
use imara_diff::{Algorithm, Diff, InternedInput};
use ralph_core::redact::Redactor;
use ralph_core::text;
use ralph_git::checkpoint::{
    BlobContent, Checkpoint, CheckpointError, CheckpointRepository, PathVersion,
};
use ralph_sys::clock::Deadline;
use serde::Serialize;
use std::ffi::OsStr;

const MAX_FILES: usize = 2_000;
const LONGEST_PATH: usize = 1_000;
const LARGEST_FILE: usize = 1024 * 1024;
const LONGEST_LINE: usize = 2_000;
const MAX_LINES: usize = 5_000;
/// Unchanged lines around a change.
const CONTEXT_LINES: u32 = 3;

/// The files that differ between two checkpoints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChangedFiles {
    pub from: u32,
    pub to: u32,
    pub files: Vec<ChangedFileRow>,
    pub left_out: usize,
    pub added: u64,
    pub removed: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChangedFileRow {
    pub path: String,
    /// `added`, `deleted`, `modified` or `type_changed`.
    pub status: &'static str,
    /// `None` if the file is not text.
    pub added: Option<u64>,
    pub removed: Option<u64>,
}

/// Two versions of a file side by side: the changed lines with some around them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileComparison {
    pub path: String,
    pub lines: Vec<SideBySideLine>,
    /// Why there are no lines: binary, too large, or a link.
    pub note: Option<String>,
    /// How many lines are left out at the end.
    pub left_out: usize,
}

/// A line of both sides. `None` marks a side without a line; a line with numbers on neither side is a gap.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SideBySideLine {
    pub before: Option<(u32, String)>,
    pub after: Option<(u32, String)>,
    pub changed: bool,
}

impl ChangedFiles {
    pub fn load(
        repository: &CheckpointRepository,
        from: &Checkpoint,
        to: &Checkpoint,
        deadline: &Deadline,
    ) -> Result<Self, CheckpointError> {
        let changes = repository.diff(from, to, deadline)?;
        let lines = repository.line_counts(from, to, deadline)?;
        let views = file_views(repository, &changes, &lines);
        let total = |count: fn(&ChangedFileRow) -> Option<u64>, rows: &[ChangedFileRow]| {
            rows.iter().filter_map(count).fold(0, u64::saturating_add)
        };
        let mut files: Vec<_> = views
            .into_iter()
            .map(|view| ChangedFileRow {
                path: text::clean_line(&view.path, LONGEST_PATH),
                status: view.status,
                added: view.added,
                removed: view.removed,
            })
            .collect();
        let (added, removed) = (total(|row| row.added, &files), total(|row| row.removed, &files));
        let left_out = files.len().saturating_sub(MAX_FILES);
        files.truncate(MAX_FILES);
        Ok(Self { from: from.number, to: to.number, files, left_out, added, removed })
    }
}

/// A file to compare, by the name that [`ChangedFiles`] lists.
pub(super) struct ComparedFile<'a> {
    pub(super) path: &'a str,
    pub(super) redactor: &'a Redactor,
}

impl ComparedFile<'_> {
    /// Compares the file of two checkpoints; `None` if it does not differ.
    pub(super) fn load(
        &self,
        repository: &CheckpointRepository,
        from: &Checkpoint,
        to: &Checkpoint,
        deadline: &Deadline,
    ) -> Result<Option<FileComparison>, CheckpointError> {
        let path = self.path;
        let changes = repository.diff(from, to, deadline)?;
        let listed = |name: &OsStr| text::clean_line(&name.to_string_lossy(), LONGEST_PATH) == path;
        let Some(file) = changes.iter().find(|file| listed(&file.path)) else {
            return Ok(None);
        };
        let ids: Vec<_> =
            [file.before, file.after].into_iter().flatten().map(|side| side.id).collect();
        let blobs = repository.read_blobs(&ids, LARGEST_FILE, LARGEST_FILE * 2, deadline)?;
        let side = |version: Option<PathVersion>| match version {
            None => Ok(String::new()),
            Some(version) => match blobs.get(&version.id) {
                Some(BlobContent::Content(bytes)) if bytes.contains(&0) => Err("it is not text"),
                Some(BlobContent::Content(bytes)) => {
                    Ok(String::from_utf8_lossy(bytes).into_owned())
                }
                Some(BlobContent::TooLarge(_)) => Err("it is larger than 1 MB"),
                Some(BlobContent::Missing) | None => Err("git does not have its content"),
            },
        };
        let path = path.to_string();
        Ok(Some(match (side(file.before), side(file.after)) {
            (Ok(before), Ok(after)) => compare_texts(path, &before, &after, self.redactor),
            (Err(why), _) | (_, Err(why)) => {
                FileComparison { path, lines: Vec::new(), note: Some(why.to_string()), left_out: 0 }
            }
        }))
    }
}

/// Compares two texts line by line, and shows the lines without secrets. A secret that changed is a difference.
fn compare_texts(path: String, before: &str, after: &str, redactor: &Redactor) -> FileComparison {
    let (shown_before, shown_after) = (redactor.redact_lines(before), redactor.redact_lines(after));
    let old: Vec<_> = shown_before.lines().collect();
    let new: Vec<_> = shown_after.lines().collect();
    let input = InternedInput::new(before, after);
    let mut diff = Diff::compute(Algorithm::Histogram, &input);
    diff.postprocess_lines(&input);
    let numbered = |lines: &[&str], index: u32| {
        lines.get(index as usize).map(|line| (index + 1, text::clean_line(line, LONGEST_LINE)))
    };
    let mut lines = Vec::new();
    let (mut at, mut shift_at) = (0_u32, 0_u32);
    let end = u32::try_from(old.len()).unwrap_or(u32::MAX);
    let push_equal = |lines: &mut Vec<SideBySideLine>, from: u32, to: u32, new_from: u32| {
        for index in from..to {
            lines.push(SideBySideLine {
                before: numbered(&old, index),
                after: numbered(&new, new_from + (index - from)),
                changed: false,
            });
        }
    };
    for hunk in diff.hunks() {
        let gap = hunk.before.start - at;
        let lead = if at == 0 { 0 } else { CONTEXT_LINES.min(gap) };
        if gap > lead + CONTEXT_LINES {
            push_equal(&mut lines, at, at + lead, shift_at);
            lines.push(SideBySideLine { before: None, after: None, changed: false });
            let from = hunk.before.start - CONTEXT_LINES;
            push_equal(&mut lines, from, hunk.before.start, hunk.after.start - CONTEXT_LINES);
        } else {
            push_equal(&mut lines, at, hunk.before.start, shift_at);
        }
        let rows = (hunk.before.end - hunk.before.start).max(hunk.after.end - hunk.after.start);
        for row in 0..rows {
            let within = |start: u32, end: u32| Some(start + row).filter(|index| *index < end);
            lines.push(SideBySideLine {
                before: within(hunk.before.start, hunk.before.end)
                    .and_then(|index| numbered(&old, index)),
                after: within(hunk.after.start, hunk.after.end)
                    .and_then(|index| numbered(&new, index)),
                changed: true,
            });
        }
        (at, shift_at) = (hunk.before.end, hunk.after.end);
    }
    push_equal(&mut lines, at, end.min(at + CONTEXT_LINES), shift_at);
    let left_out = lines.len().saturating_sub(MAX_LINES);
    lines.truncate(MAX_LINES);
    FileComparison { path, lines, note: None, left_out }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(before: &str, after: &str) -> String {
        let side = |side: &Option<(u32, String)>| match side {
            Some((number, line)) => format!("{number:>2} {line}"),
            None => "--".to_string(),
        };
        let lines = compare_texts("f".to_string(), before, after, &Redactor::default()).lines;
        let row = |line: &SideBySideLine| {
            let mark = if line.changed { '!' } else { ' ' };
            format!("{mark} {:<8}| {}", side(&line.before), side(&line.after))
        };
        lines.iter().map(row).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn texts_are_compared_side_by_side() {
        let before: Vec<_> = (1..=14).map(|number| format!("l{number}\n")).collect();
        let before = before.concat();
        let after = before.replace("l2\n", "L2\nnew\n").replace("l13\n", "");
        insta::assert_snapshot!(show(&before, &after), @r"
           1 l1   |  1 l1
        !  2 l2   |  2 L2
        ! --      |  3 new
           3 l3   |  4 l3
           4 l4   |  5 l4
           5 l5   |  6 l5
          --      | --
          10 l10  | 11 l10
          11 l11  | 12 l11
          12 l12  | 13 l12
        ! 13 l13  | --
          14 l14  | 14 l14
        ");
        assert_eq!(show("", "a\u{1b}[31m\u{202e}b\n"), "! --      |  1 ab");
    }

    /// A changed secret is a changed line, and every line keeps its number.
    #[test]
    fn secrets_are_not_shown() {
        let key = |body: &str| {
            format!("-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----\n")
        };
        let before = format!("a\nghp_{}\n{}b\n", "A".repeat(36), key("one"));
        let after = format!("a\nghp_{}\n{}c\n", "B".repeat(36), key("two"));
        insta::assert_snapshot!(show(&before, &after), @r"
           1 a    |  1 a
        !  2 [redacted]|  2 [redacted]
           3 [redacted]|  3 [redacted]
        !  4 [redacted]|  4 [redacted]
           5 [redacted]|  5 [redacted]
        !  6 b    |  6 c
        ");
    }
}
