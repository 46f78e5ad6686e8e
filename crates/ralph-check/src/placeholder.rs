//! Detects placeholders for missing code: bodies that only fail or promise, and comments in place of code.

use super::added_lines::{LineHit, strip_comment_end};
use super::forbidden_constructs::{COMMENT_PLACEHOLDERS, ERROR_CONSTRUCTS, ERROR_PLACEHOLDERS};
use super::language::Language;
use super::source_lexer::SourceSpanKind;
use super::source_text::SourceText;
use super::word_search;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use ralph_core::policy::LineCheck;
use ralph_core::text;

/// How many lines above to search for the enclosing function and class.
const MAX_LINES_ABOVE: usize = 300;

pub(super) fn find_placeholders<'a>(
    source: &'a SourceText<'a>,
    is_added: &'a dyn Fn(usize) -> bool,
) -> impl Iterator<Item = LineHit> + 'a {
    let mut hits = Vec::new();
    find_in_errors(source, is_added, &mut hits);
    if source.language == Language::Python {
        find_in_python(source, is_added, &mut hits);
    }
    hits.extend(find_in_comments(source, is_added));
    hits.into_iter()
}

fn placeholder_hit(at: usize, message: String) -> LineHit {
    LineHit { at, check: LineCheck::Placeholder, message }
}

/// `throw new Error("not implemented")`
fn find_in_errors(
    source: &SourceText<'_>,
    is_added: &dyn Fn(usize) -> bool,
    hits: &mut Vec<LineHit>,
) {
    let Some((_, needle)) =
        ERROR_CONSTRUCTS.iter().find(|(language, _)| *language == source.language)
    else {
        return;
    };
    for at in word_search::find_word(&source.code, needle).filter(|at| is_added(*at)) {
        let line = word_search::text_from(&source.code, at, 300).lines().next().unwrap_or_default();
        let Some(quote) = line.find('"') else {
            continue;
        };
        let content = source.string_at(at + quote).unwrap_or_default();
        if means_not_implemented(content) {
            let content = text::clean_line(content, 60);
            let named = needle.trim_end_matches('(');
            hits.push(placeholder_hit(
                at,
                format!("`{named}` with \"{content}\" is a placeholder for missing code"),
            ));
        }
    }
}

/// Whether an error message states that code is missing. "not implemented for unsigned types" does not: it describes a
/// limitation.
fn means_not_implemented(content: &str) -> bool {
    let content = content.to_lowercase();
    if content.contains("init(coder") {
        return false;
    }
    ERROR_PLACEHOLDERS.iter().any(|hole| {
        word_search::find_word(&content, hole).any(|at| {
            let rest = content.get(at + hole.len()..).unwrap_or_default();
            ![" for ", " by ", " on ", " in ", " list", " item"]
                .iter()
                .any(|more| rest.starts_with(more))
        })
    })
}

fn find_in_python(
    source: &SourceText<'_>,
    is_added: &dyn Fn(usize) -> bool,
    hits: &mut Vec<LineHit>,
) {
    for at in word_search::find_word(&source.code, "pass").filter(|at| is_added(*at)) {
        let line = source.line_of(at);
        let comment = source.comment_of_line(line).trim().trim_start_matches('#').to_lowercase();
        let promises =
            ["implement", "todo", "placeholder", "stub", "fill in", "later", "your code"];
        if source.code_of_line(line).trim() == "pass"
            && promises.iter().any(|word| comment.contains(word))
        {
            hits.push(placeholder_hit(
                at,
                String::from("`pass` is a placeholder for missing code"),
            ));
        }
    }
    for at in
        word_search::find_word(&source.code, "raise NotImplementedError").filter(|at| is_added(*at))
    {
        if hits.len() < 200 && !is_abstract(source, at) {
            hits.push(placeholder_hit(
                at,
                String::from("`raise NotImplementedError` is a placeholder for missing code"),
            ));
        }
    }
}

/// Whether the method is meant to be overridden: it is decorated as abstract, it is in a base class, or its line
/// mentions subclasses or overriding.
fn is_abstract(source: &SourceText<'_>, at: usize) -> bool {
    let content =
        source.text.get(source.line(source.line_of(at))).unwrap_or_default().to_lowercase();
    if content.contains("subclass")
        || content.contains("override")
        || super::added_lines::is_conditional(source, at)
    {
        return true;
    }
    let number = source.line_of(at);
    let mut margin = indent_width(source.code_of_line(number));
    let mut function_at = None;
    for line in (number.saturating_sub(MAX_LINES_ABOVE).max(1)..number).rev() {
        let code = source.code_of_line(line);
        let trimmed = code.trim_start();
        if trimmed.is_empty() || source.starts_inside_literal(line) || indent_width(code) >= margin
        {
            // Decorators are right above their function, at the same indentation.
            if function_at.is_some() && trimmed.starts_with('@') && trimmed.contains("abstract") {
                return true;
            }
            continue;
        }
        margin = indent_width(code);
        if trimmed.starts_with("def ") || trimmed.starts_with("async def ") {
            function_at = Some(line);
            margin = indent_width(code);
        } else if let Some(class) = trimmed.strip_prefix("class ") {
            return ["ABC", "Protocol", "Base", "Abstract", "Interface", "Mixin"]
                .iter()
                .any(|word| class.contains(word));
        }
    }
    false
}

fn indent_width(code: &str) -> usize {
    code.bytes().take_while(|byte| matches!(byte, b' ' | b'\t')).count()
}

fn find_in_comments<'a>(
    source: &'a SourceText<'a>,
    is_added: &'a dyn Fn(usize) -> bool,
) -> impl Iterator<Item = LineHit> + 'a {
    let lines = (1..=source.line_count()).filter(|line| is_added(source.line(*line).start));
    lines.filter_map(|line| {
        let comment = source.comment_of_line(line);
        let trimmed = comment.trim();
        // Examples in documentation are abbreviated on purpose.
        if trimmed.is_empty() || trimmed.starts_with("///") || trimmed.starts_with("//!") {
            return None;
        }
        let content = trimmed.trim_start_matches(['/', '#', '*', '!', '-', '<', '{', ' ']);
        let at = source.line(line).start + (comment.len() - comment.trim_start().len());
        let lower = content.to_lowercase();
        let stands_for_code =
            COMMENT_PLACEHOLDERS.iter().any(|hole| word_search::contains_word(&lower, hole));
        let is_bare =
            matches!(lower.trim_end_matches(['.', '*', '/', ' ', '-', '>']), "placeholder");
        if stands_for_code || is_bare {
            let content = text::clean_line(strip_comment_end(content), 60);
            return Some(placeholder_hit(
                at,
                format!("a comment is a placeholder for missing code: {content}"),
            ));
        }
        is_ellipsis(source, at, trimmed).then(|| {
            placeholder_hit(
                at,
                String::from("`...` in a comment is a placeholder for missing code"),
            )
        })
    })
}

/// `// ...` or `# …` between lines of code. Between other comments it only abbreviates them.
fn is_ellipsis(source: &SourceText<'_>, at: usize, comment: &str) -> bool {
    let Some(content) = comment.strip_prefix("//").or_else(|| comment.strip_prefix('#')) else {
        return false;
    };
    let line = source.line_of(at);
    let is_comment = |line: usize| !source.comment_of_line(line).trim().is_empty();
    let begins = source
        .span_at(at)
        .is_some_and(|span| span.kind == SourceSpanKind::Comment && span.start == at);
    begins
        && matches!(content.trim(), "..." | "…" | "....")
        && source.code_of_line(line).trim().is_empty()
        && !is_comment(line.saturating_sub(1))
        && !is_comment(line + 1)
}
