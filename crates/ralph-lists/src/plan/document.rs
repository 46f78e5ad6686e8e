//! Prepares bytes for the Markdown parser: normalizes line endings, removes front matter, and rejects or bounds input that
//! would make it slow.

use super::{MAX_PLAN_BYTES, MAX_PLAN_MIB, PlanNote, invalid_plan};
use crate::list_marker::after_list_marker;
use ralph_core::source::SourceError;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// The deepest nesting of lists. The parser compares every line with every open list; real plans nest about five deep.
const MAX_LIST_DEPTH: usize = 64;
/// Indentation keeps lists open, so it is bounded too.
const MAX_INDENT: usize = 4 * MAX_LIST_DEPTH;
const TAB_WIDTH: usize = 4;
const MAX_FRONT_MATTER_LINES: usize = 500;

pub(super) struct PlanDocument {
    /// Every line ends in `\n`.
    pub(super) text: String,
    /// The byte offset of each line.
    starts: Vec<usize>,
    pub(super) notes: Vec<PlanNote>,
}

impl PlanDocument {
    /// The number of the line at a byte offset, counted from 1.
    pub(super) fn line_at(&self, at: usize) -> u32 {
        let line = self.starts.partition_point(|start| *start <= at);
        u32::try_from(line.max(1)).unwrap_or(u32::MAX)
    }
}

pub(super) fn prepare_document(bytes: &[u8]) -> Result<PlanDocument, SourceError> {
    if bytes.len() > MAX_PLAN_BYTES {
        return Err(invalid_plan(&format!("it is larger than {MAX_PLAN_MIB} MiB")));
    }
    if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
        return Err(invalid_plan("it is UTF-16, not UTF-8"));
    }
    if let Some(at) = memchr::memchr(0, bytes) {
        return Err(invalid_plan(&format!("it is not text: NUL at byte {at}")));
    }
    let foreign = String::from_utf8_lossy(bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes));
    let mut notes = Vec::new();
    if matches!(foreign, std::borrow::Cow::Owned(_)) {
        notes.push(PlanNote {
            line: None,
            message: "it is not valid UTF-8; invalid bytes are read as `�`",
        });
    }
    let lines: Vec<&str> = split_lines(&foreign).collect();
    let hidden = front_matter_lines(&lines);
    let mut document =
        PlanDocument { text: String::with_capacity(foreign.len() + 1), starts: Vec::new(), notes };
    for (index, line) in lines.into_iter().enumerate() {
        document.starts.push(document.text.len());
        if index >= hidden {
            push_bounded(&mut document.text, line, index + 1)?;
        }
        document.text.push('\n');
    }
    Ok(document)
}

/// Splits at the line endings of Unix, Windows and classic Mac OS, which may be mixed.
fn split_lines(text: &str) -> impl Iterator<Item = &str> {
    text.split('\n').flat_map(|line| line.strip_suffix('\r').unwrap_or(line).split('\r'))
}

fn push_bounded(text: &mut String, line: &str, number: usize) -> Result<(), SourceError> {
    if count_markers(line) > MAX_LIST_DEPTH && !is_rule(line) {
        let why = format!("line {number} starts more than {MAX_LIST_DEPTH} nested lists");
        return Err(invalid_plan(&why));
    }
    let rest = line.trim_start_matches([' ', '\t']);
    let indent = &line[..line.len() - rest.len()];
    let width: usize = indent.bytes().map(|byte| if byte == b'\t' { TAB_WIDTH } else { 1 }).sum();
    if width > MAX_INDENT {
        text.extend(std::iter::repeat_n(' ', MAX_INDENT));
        text.push_str(rest);
    } else {
        text.push_str(line);
    }
    Ok(())
}

/// How many list and quote markers a line starts with.
fn count_markers(line: &str) -> usize {
    let mut count = 0;
    let mut rest = line.trim_start_matches([' ', '\t']);
    while count <= MAX_LIST_DEPTH {
        let Some(after) = after_marker(rest) else { break };
        count += 1;
        rest = after.trim_start_matches([' ', '\t']);
    }
    count
}

fn after_marker(line: &str) -> Option<&str> {
    line.strip_prefix('>').or_else(|| after_list_marker(line))
}

/// A thematic break, such as `- - -`.
fn is_rule(line: &str) -> bool {
    ['-', '*'].iter().any(|mark| line.chars().all(|char| char == *mark || char.is_whitespace()))
}

/// How many lines at the top are front matter, between `---` or `+++`. The second line must look like
/// a setting, to tell front matter from a thematic break.
fn front_matter_lines(lines: &[&str]) -> usize {
    let mut ends = lines.iter().map(|line| line.trim_end());
    let (close, setter): (&[&str], char) = match ends.next() {
        Some("---") => (&["---", "..."], ':'),
        Some("+++") => (&["+++"], '='),
        Some(_) | None => return 0,
    };
    let sets = |line: &str| {
        line.split_once(setter).is_some_and(|(key, _)| {
            let key = key.trim();
            !key.is_empty()
                && key.chars().all(|char| char.is_alphanumeric() || "_-.\"' ".contains(char))
                && !key.starts_with('-')
        })
    };
    if !lines.get(1).is_some_and(|line| sets(line)) {
        return 0;
    }
    let end = ends.take(MAX_FRONT_MATTER_LINES).position(|line| close.contains(&line));
    let length = end.map_or(0, |end| end + 2);
    // Text between two thematic breaks may look like a setting; if it has boxes, it is part of the plan.
    let has_box = |line: &&str| {
        after_marker(line.trim_start()).is_some_and(|it| it.trim_start().starts_with('['))
    };
    if lines.iter().take(length).any(has_box) { 0 } else { length }
}
