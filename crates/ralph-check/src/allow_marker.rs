//! Comments that suppress a check: `ralph: allow(todo) because the upstream fix is not released`.

use super::source_text::SourceText;

/// A shorter reason does not count.
const MIN_REASON_CHARS: usize = 10;

/// The allow marker for a check.
pub(crate) enum AllowMarker<'a> {
    Absent,
    /// Ineffective, because it gives no sufficient reason.
    WithoutReason,
    Reason(&'a str),
}

/// Finds the marker for a check in the comment on a line, or in a comment-only line right above it.
pub(crate) fn find_allow_marker<'a>(
    source: &'a SourceText<'_>,
    line: usize,
    check: &str,
) -> AllowMarker<'a> {
    let here = parse_allow_marker(source.comment_of_line(line), check);
    let above = line.saturating_sub(1);
    if !matches!(here, AllowMarker::Absent)
        || above == 0
        || !source.code_of_line(above).trim().is_empty()
    {
        return here;
    }
    parse_allow_marker(source.comment_of_line(above), check)
}

fn parse_allow_marker<'a>(comment: &'a str, check: &str) -> AllowMarker<'a> {
    let Some((_, rest)) = comment.split_once("ralph: allow(") else {
        return AllowMarker::Absent;
    };
    let Some((checks, rest)) = rest.split_once(')') else {
        return AllowMarker::Absent;
    };
    if !checks.split(',').any(|name| name.trim() == check) {
        return AllowMarker::Absent;
    }
    let reason = rest.trim().strip_prefix("because ").unwrap_or_default();
    let reason = reason.trim_end_matches("*/").trim_end_matches("-->").trim();
    if reason.chars().count() < MIN_REASON_CHARS {
        AllowMarker::WithoutReason
    } else {
        AllowMarker::Reason(reason)
    }
}
