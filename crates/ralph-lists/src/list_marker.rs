//! The start of a list item in Markdown. The parsers of plans, of imported plans and of features in a text share it; which
//! boxes count as ticked, and what belongs to an item, differs between them.

/// The rest of a line after `-`, `*`, `+`, `1.` or `1)`: empty, or starting with white space.
pub(crate) fn after_list_marker(line: &str) -> Option<&str> {
    let digits = line.bytes().take(10).take_while(u8::is_ascii_digit).count();
    let after = match digits {
        0 => line.strip_prefix(['-', '*', '+'])?,
        1..=9 => line.get(digits..)?.strip_prefix(['.', ')'])?,
        _ => return None,
    };
    (after.is_empty() || after.starts_with([' ', '\t'])).then_some(after)
}

/// The text of a list item; `None` if there is none after the marker.
pub(crate) fn list_item_text(line: &str) -> Option<&str> {
    after_list_marker(line).filter(|rest| !rest.is_empty()).map(str::trim_start)
}
