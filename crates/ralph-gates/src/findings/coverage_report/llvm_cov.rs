//! Reads the JSON of `llvm-cov export`, which `cargo llvm-cov --json` writes too.
//!
//! The format has no lines but segments: an execution count that applies from a position on. Lines are derived as in
//! LLVM's `LineCoverageStats`, so that the numbers match `llvm-cov report`.

use super::super::json_document;
use super::{CoverageDraft, DraftName};
use ralph_core::line_set::{LineRange, MAX_LINE};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::borrow::Cow;

#[derive(Deserialize)]
struct LlvmCovWire<'a> {
    #[serde(borrow)]
    data: Vec<LlvmCovDataWire<'a>>,
}

#[derive(Deserialize)]
struct LlvmCovDataWire<'a> {
    #[serde(borrow)]
    files: Vec<LlvmCovFileWire<'a>>,
}

#[derive(Deserialize)]
struct LlvmCovFileWire<'a> {
    #[serde(borrow)]
    filename: Cow<'a, str>,
    /// Missing with `--summary-only`.
    #[serde(default)]
    segments: Option<Vec<LlvmSegmentWire>>,
}

/// Line, column, count, whether it has a count, whether a region starts, and, in newer versions, whether it is a gap.
#[derive(Clone, Copy, Deserialize)]
#[serde(untagged)]
enum LlvmSegmentWire {
    WithGap(u32, IgnoredAny, i64, bool, bool, bool),
    WithoutGap(u32, IgnoredAny, i64, bool, bool),
}

/// An execution count that applies from this position on.
#[derive(Clone, Copy)]
struct CountedSegment {
    line: u32,
    count: i64,
    has_count: bool,
    is_entry: bool,
    is_gap: bool,
}

pub(super) fn read_llvm_cov(text: &str, draft: &mut CoverageDraft) -> Result<(), &'static str> {
    let document: LlvmCovWire<'_> = match json_document::parse_document(text, '{') {
        Ok(document) => document,
        Err(unread) => return Err(unread.doubt()),
    };
    let mut has_segments = false;
    for file in document.data.iter().flat_map(|data| &data.files) {
        let Some(segments) = &file.segments else { continue };
        has_segments = true;
        if let Some(name) = DraftName::new(&file.filename) {
            let segments: Vec<CountedSegment> = segments.iter().map(CountedSegment::from).collect();
            add_lines(&segments, &mut |range, is_covered| draft.add(&name, range, is_covered))?;
        }
    }
    let has_files = document.data.iter().any(|data| !data.files.is_empty());
    if has_files && !has_segments {
        return Err("the report has only a summary; export it without `--summary-only`");
    }
    Ok(())
}

/// Calls `add` with ranges of executable lines, in their order.
fn add_lines(
    segments: &[CountedSegment],
    add: &mut dyn FnMut(Option<LineRange>, bool),
) -> Result<(), &'static str> {
    let is_ordered = segments.is_sorted_by_key(|segment| segment.line);
    if !is_ordered || segments.iter().any(|segment| segment.line == 0 || segment.line > MAX_LINE) {
        return Err("the report cannot be parsed");
    }
    let mut wrapped: Option<CountedSegment> = None;
    let mut next_line = 0;
    for group in segments.chunk_by(|one, other| one.line == other.line) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        // Between two lines with segments, the last segment goes on.
        if let Some(before) = wrapped.filter(|before| before.has_count) {
            add(LineRange::new(next_line, first.line - 1), before.count > 0);
        }
        if let Some(count) = line_count(group, wrapped) {
            add(LineRange::new(first.line, first.line), count > 0);
        }
        wrapped = Some(*last);
        next_line = first.line + 1;
    }
    Ok(())
}

/// How often a line with these segments was executed; `None` if it has no code.
fn line_count(group: &[CountedSegment], wrapped: Option<CountedSegment>) -> Option<i64> {
    let starts = || group.iter().filter(|one| one.has_count && one.is_entry && !one.is_gap);
    let is_skipped = group.first().is_some_and(|first| !first.has_count && first.is_entry);
    let is_mapped = !is_skipped
        && (wrapped.is_some_and(|before| before.has_count) || starts().next().is_some())
        || group.iter().any(|one| one.is_entry && one.has_count);
    let before = wrapped.map_or(0, |before| before.count);
    is_mapped.then(|| starts().map(|one| one.count).fold(before, i64::max))
}

impl From<&LlvmSegmentWire> for CountedSegment {
    fn from(wire: &LlvmSegmentWire) -> Self {
        let (line, count, has_count, is_entry, is_gap) = match *wire {
            LlvmSegmentWire::WithGap(line, _, count, has_count, is_entry, is_gap) => {
                (line, count, has_count, is_entry, is_gap)
            }
            LlvmSegmentWire::WithoutGap(line, _, count, has_count, is_entry) => {
                (line, count, has_count, is_entry, false)
            }
        };
        Self { line, count, has_count, is_entry, is_gap }
    }
}
