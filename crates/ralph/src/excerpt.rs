//! Shows the problems of a policy file with the lines they are in, as compilers do.

use crate::term;
use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use ralph_core::text;
use ralph_policy::config::ConfigProblem;
use std::ops::Range;

/// How many characters of a line are shown on either side of the problem.
const CONTEXT_CHARS: usize = 100;

/// The shown part of a file: one line, or a part of it.
struct ExcerptWindow {
    text: String,
    mark: Range<usize>,
    /// The line number, from 1.
    line: usize,
}

/// Renders all problems, styled like [`crate::term::paint`].
pub(crate) fn render(problems: &[ConfigProblem], more: usize) -> String {
    let renderer = if term::is_plain_text() { Renderer::plain() } else { Renderer::styled() };
    let mut out = String::new();
    for problem in problems {
        out.push_str(&renderer.render(&[group(problem)]));
        out.push_str("\n\n");
    }
    if more > 0 {
        out.push_str(&format!("and {more} more\n\n"));
    }
    out
}

fn group(problem: &ConfigProblem) -> Group<'static> {
    let window = window(&problem.source, &problem.span);
    let snippet = Snippet::source(window.text)
        .line_start(window.line)
        .path(text::clean_line(&problem.path.to_string_lossy(), 500))
        .annotation(AnnotationKind::Primary.span(window.mark));
    let group = Level::ERROR.primary_title(problem.message.clone()).element(snippet);
    match &problem.hint {
        Some(hint) => group.element(Level::HELP.with_name("hint").message(hint.clone())),
        None => group,
    }
}

/// The line where the span begins, with control characters replaced. A span over several lines is marked to the end
/// of the first.
fn window(source: &str, span: &Range<usize>) -> ExcerptWindow {
    let start = source.floor_char_boundary(span.start);
    let (before, after) = source.split_at(start);
    let line = before.matches('\n').count() + 1;
    let head = before.rsplit('\n').next().unwrap_or_default();
    let tail = after.split('\n').next().unwrap_or_default();
    let tail = tail.strip_suffix('\r').unwrap_or(tail);
    let marked = tail.floor_char_boundary(span.end.saturating_sub(start));
    let (marked, rest) = tail.split_at(marked);
    let head_from = head.char_indices().rev().nth(CONTEXT_CHARS).map_or(0, |(at, _)| at);
    let mut text = visible(&head[head_from..]);
    let from = text.len();
    text.push_str(&visible(&first_chars(marked, CONTEXT_CHARS)));
    let to = text.len();
    text.push_str(&visible(&first_chars(rest, CONTEXT_CHARS)));
    ExcerptWindow { text, mark: from..to, line }
}

fn first_chars(text: &str, most: usize) -> String {
    text.chars().take(most).collect()
}

fn visible(text: &str) -> String {
    text.chars()
        .map(|char| match char {
            '\t' => ' ',
            _ if text::is_hidden(char) => char::REPLACEMENT_CHARACTER,
            _ => char,
        })
        .collect()
}
