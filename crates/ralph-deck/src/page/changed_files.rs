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
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::ops::Range;

const MAX_FILES: usize = 2_000;
const LARGEST_FILE: usize = 1024 * 1024;
const LONGEST_LINE: usize = 2_000;
const MAX_LINES: usize = 5_000;
/// Unchanged lines around a change.
const CONTEXT_LINES: u32 = 3;
const TAB_COLUMNS: usize = 4;

/// The files that differ between two checkpoints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CheckpointDiff {
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

impl CheckpointDiff {
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
        let mut files: Vec<_> = changes
            .iter()
            .zip(views)
            .map(|(change, view)| ChangedFileRow {
                path: listed_name(&change.path),
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

fn listed_name(path: &OsStr) -> String {
    text::reveal_name(path.as_encoded_bytes())
}

/// A file to compare, by the name that [`CheckpointDiff`] lists.
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
        let Some(file) = changes.iter().find(|file| listed_name(&file.path) == path) else {
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
    let old: Vec<_> = shown_before.split_inclusive('\n').collect();
    let new: Vec<_> = shown_after.split_inclusive('\n').collect();
    let input = InternedInput::new(before, after);
    let mut diff = Diff::compute(Algorithm::Histogram, &input);
    diff.postprocess_lines(&input);
    let numbered = |lines: &[&str], index: u32| {
        lines.get(index as usize).map(|line| (index + 1, source_line(line)))
    };
    let changed = |line: Option<(u32, &&str)>, others: &LookAlikes<'_>| {
        line.map(|(index, line)| {
            let shown = source_line(line);
            let is_alike = others.hides_change(line, &shown);
            (index + 1, if is_alike { marked_line(line) } else { shown })
        })
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
        let mut removed = hunk.before.clone().zip(lines_of(&old, &hunk.before));
        let mut added = hunk.after.clone().zip(lines_of(&new, &hunk.after));
        let (old_looks, new_looks) = (
            LookAlikes::new(lines_of(&old, &hunk.before)),
            LookAlikes::new(lines_of(&new, &hunk.after)),
        );
        for _ in 0..removed.len().max(added.len()) {
            let before = changed(removed.next(), &new_looks);
            let after = changed(added.next(), &old_looks);
            lines.push(SideBySideLine { before, after, changed: true });
        }
        (at, shift_at) = (hunk.before.end, hunk.after.end);
    }
    push_equal(&mut lines, at, end.min(at + CONTEXT_LINES), shift_at);
    let left_out = lines.len().saturating_sub(MAX_LINES);
    lines.truncate(MAX_LINES);
    FileComparison { path, lines, note: None, left_out }
}

fn lines_of<'a, 'b>(lines: &'b [&'a str], range: &Range<u32>) -> &'b [&'a str] {
    lines.get(range.start as usize..range.end as usize).unwrap_or_default()
}

/// The lines of one side of a change by their looks, to find those of the other side that differ in what cannot be seen.
struct LookAlikes<'a>(HashMap<String, HashSet<&'a str>>);

impl<'a> LookAlikes<'a> {
    fn new(lines: &[&'a str]) -> Self {
        let mut looks: HashMap<String, HashSet<&'a str>> = HashMap::new();
        for line in lines {
            looks.entry(looks_of(&source_line(line))).or_default().insert(line);
        }
        Self(looks)
    }

    fn hides_change(&self, line: &str, shown: &str) -> bool {
        self.0.get(&looks_of(shown)).is_some_and(|others| !others.contains(line))
    }
}

fn looks_of(shown: &str) -> String {
    shown.trim_end().to_string()
}

/// A line of a source file: its spaces are kept, tabs reach to the next stop. Hidden characters are escapes, and so is the
/// beginning of a terminal sequence: what a terminal would hide is what a reader has to see.
fn source_line(line: &str) -> String {
    let line = line.strip_suffix('\n').unwrap_or(line);
    let line = line.strip_suffix('\r').unwrap_or(line);
    shorten(line, |line| text::reveal(&with_tabs(line, ' ')))
}

/// A line with signs for spaces at both ends, tabs, hidden characters, and for a line end that is missing.
fn marked_line(line: &str) -> String {
    let (line, end) = match line.strip_suffix('\n') {
        Some(line) => (line, ""),
        None => (line, " (no line break at the end of the file)"),
    };
    shorten(line, |line| {
        let is_space = |char: char| char == ' ' || char == '\t';
        let rest = line.trim_start_matches(is_space);
        // A line break of Windows comes after the spaces.
        let middle = rest.trim_end_matches(|char| is_space(char) || char == '\r');
        let visible = |part: &str| part.replace(' ', "␣").replace('\r', "\\r");
        let lead = &line[..line.len() - rest.len()];
        let marked = [&visible(lead), middle, &visible(&rest[middle.len()..])].concat();
        text::reveal(&with_tabs(&marked, '→'))
    }) + end
}

/// Cuts a line before something slow is done with it, and after.
fn shorten(line: &str, draw: impl FnOnce(&str) -> String) -> String {
    // Most characters of a line can be ones that are not shown.
    let enough = line.char_indices().nth(LONGEST_LINE * 8).map_or(line.len(), |(at, _)| at);
    let mut out = draw(&line[..enough]);
    if enough < line.len() {
        out.push('…');
    }
    text::truncate(&out, LONGEST_LINE)
}

/// Replaces each tab with a sign and the spaces up to the next stop.
fn with_tabs(line: &str, sign: char) -> String {
    let mut out = String::with_capacity(line.len());
    let mut column = 0;
    for char in line.chars() {
        if char == '\t' {
            let width = TAB_COLUMNS - column % TAB_COLUMNS;
            out.push(sign);
            out.extend(std::iter::repeat_n(' ', width - 1));
            column += width;
        } else {
            out.push(char);
            column += 1;
        }
    }
    out
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
        assert_eq!(
            show("", "a\u{1b}]; rm x; \u{7}\u{202e}b\n"),
            r"! --      |  1 a\u{1b}]; rm x; \u{7}\u{202e}b"
        );
    }

    #[test]
    fn indentation_and_every_change_of_it_can_be_seen() {
        let before = "if a:\n    log(x)\n\tfour\n  tail  \nwin\r\na\tb\nzero\nlast\n";
        let after = "log(x)\n    four\n  tail\nwin\na   b\nze\u{200b}ro\nlast";
        insta::assert_snapshot!(show(before, after), @r"
        !  1 if a:|  1 log(x)
        !  2     log(x)|  2 ␣␣␣␣four
        !  3 →   four|  3 ␣␣tail
        !  4 ␣␣tail␣␣|  4 win
        !  5 win\r|  5 a   b
        !  6 a→  b|  6 ze\u{200b}ro
        !  7 zero |  7 last (no line break at the end of the file)
        !  8 last | --
        ");
        insta::assert_snapshot!(show("  same\n\tfour\n", "  same\n\tfive\n"), @r"
           1   same|  1   same
        !  2     four|  2     five
        ");
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
