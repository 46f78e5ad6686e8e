//! Lines of the text output: labelled, wrapped at words, or cut.

use crate::term::{self, TextWidth, text_width};

/// The column where the text of labelled lines begins.
pub(super) const LABEL_COLUMNS: usize = 8;

/// A label and a text that wraps below itself, with an optional mark in front.
pub(super) fn labelled_line(mark: &str, label: &str, text: &str, width: TextWidth) -> String {
    let head = if mark.is_empty() { label.to_string() } else { format!("{mark} {label}") };
    let column = if mark.is_empty() { LABEL_COLUMNS } else { LABEL_COLUMNS + 2 };
    let taken = text_width(&head);
    let gap = " ".repeat(column.saturating_sub(taken).max(1));
    let body = wrap_line(&" ".repeat(column), text, width);
    format!("{head}{gap}{}", body.get(column..).unwrap_or_default())
}

/// Cuts a line to the terminal, so that it does not wrap.
pub(super) fn cut_line(line: &str, columns: usize) -> String {
    let is_whole = text_width(line) < columns;
    if is_whole {
        return format!("{line}\n");
    }
    format!("{}…\n", term::fit(line, columns.saturating_sub(2)))
}

/// Wraps one line of text to the width, each line with `indent` and the line's own indentation. A word that is too wide is not
/// broken, so that it can be copied.
pub(super) fn wrap_line(indent: &str, line: &str, width: TextWidth) -> String {
    let TextWidth::Columns(columns) = width else {
        return format!("{}\n", format!("{indent}{line}").trim_end());
    };
    let own: String = line.chars().take_while(|char| *char == ' ').take(columns / 3).collect();
    let room = columns.saturating_sub(text_width(indent) + text_width(&own) + 1).max(20);
    let mut out = String::new();
    let mut taken = 0;
    for word in breakable_words(line, room) {
        let word_width = text_width(word);
        if taken == 0 || taken + 1 + word_width > room {
            if taken > 0 {
                out.push('\n');
            }
            out.push_str(indent);
            out.push_str(&own);
            taken = 0;
        } else {
            out.push(' ');
            taken += 1;
        }
        out.push_str(word);
        taken += word_width;
    }
    out.push('\n');
    out
}

/// Splits at spaces, but not between two backticks as long as there is room, so that commands can be copied.
fn breakable_words(line: &str, room: usize) -> impl Iterator<Item = &str> {
    let mut rest = line.trim_start_matches(' ');
    std::iter::from_fn(move || {
        let space = |from: usize| rest.get(from..)?.find(' ').map(|at| from + at);
        let first = space(0).unwrap_or(rest.len());
        let is_open =
            |end: usize| rest.get(..end).is_some_and(|it| it.matches('`').count() % 2 == 1);
        let closing = |from: usize| rest.get(from..)?.find('`').map(|at| from + at + 1);
        let end = match is_open(first).then(|| closing(first)).flatten() {
            Some(close) => space(close).unwrap_or(rest.len()),
            None => first,
        };
        let end = if rest.get(..end).is_some_and(|it| text_width(it) > room) { first } else { end };
        let (word, after) = rest.split_at_checked(end)?;
        rest = after.trim_start_matches(' ');
        (!word.is_empty()).then_some(word)
    })
}
