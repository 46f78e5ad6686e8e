//! Comments that suppress a check: `ralph: allow(todo) because the upstream fix is not released`.

use super::source::Source;

/// A shorter reason does not count.
const SHORTEST_REASON: usize = 10;

/// The allow marker for a check.
pub(crate) enum Marker<'a> {
    Absent,
    /// Ineffective, because it gives no sufficient reason.
    WithoutReason,
    Reason(&'a str),
}

/// Finds the marker for a check in the comment on a line, or in a comment-only line right above it.
pub(crate) fn marker<'a>(source: &'a Source<'_>, line: usize, check: &str) -> Marker<'a> {
    let here = read(source.comment_of_line(line), check);
    let above = line.saturating_sub(1);
    if !matches!(here, Marker::Absent)
        || above == 0
        || !source.code_of_line(above).trim().is_empty()
    {
        return here;
    }
    read(source.comment_of_line(above), check)
}

fn read<'a>(comment: &'a str, check: &str) -> Marker<'a> {
    let Some((_, rest)) = comment.split_once("ralph: allow(") else {
        return Marker::Absent;
    };
    let Some((checks, rest)) = rest.split_once(')') else {
        return Marker::Absent;
    };
    if !checks.split(',').any(|name| name.trim() == check) {
        return Marker::Absent;
    }
    let reason = rest.trim().strip_prefix("because ").unwrap_or_default();
    let reason = reason.trim_end_matches("*/").trim_end_matches("-->").trim();
    if reason.chars().count() < SHORTEST_REASON {
        Marker::WithoutReason
    } else {
        Marker::Reason(reason)
    }
}
