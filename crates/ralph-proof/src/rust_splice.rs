//! Exchanges the inline tests of a Rust file for those of another version of it.

use ralph_check::inline_tests::{InlineTest, InlineTestKind, InlineTests, find_inline_tests};
use std::collections::BTreeMap;
use std::ops::Range;

/// One replacement of a part of a text.
struct TextEdit {
    range: Range<usize>,
    text: String,
}

/// Identifies a part of a file: the blocks around it, its name, and its number among the parts with that name.
type PartKey<'a> = (&'a [String], &'a str, usize);

/// The code of one version with the inline tests of the other. `None` if the tests are the same in both.
pub(crate) fn splice_inline_tests(code: &str, tests: &str) -> Result<Option<String>, String> {
    const NOT_FOUND: &str =
        "its inline tests cannot be found: unbalanced brackets, or too many parts";
    let ours = find_inline_tests(code).ok_or(NOT_FOUND)?;
    let theirs = find_inline_tests(tests).ok_or(NOT_FOUND)?;
    if defines_test_macro(code, &ours) || defines_test_macro(tests, &theirs) {
        return Err("its tests are made by a macro".to_string());
    }
    if ours.is_whole_file != theirs.is_whole_file {
        return Err("only one version is a test as a whole (`#![cfg(test)]`)".to_string());
    }
    compare_mixed_parts(code, &ours, tests, &theirs)?;
    let edits = plan_edits(code, &ours, tests, &theirs)?;
    if edits.is_empty() {
        return Ok(None);
    }
    let text = apply_edits(code, edits);
    let spliced = find_inline_tests(&text).ok_or(NOT_FOUND)?;
    let is_exact = part_texts(&text, &spliced) == part_texts(tests, &theirs)
        && code_words(&text, &spliced) == code_words(code, &ours);
    if is_exact {
        Ok(Some(text))
    } else {
        Err("its inline tests cannot be separated from its code".into())
    }
}

/// Whether a macro of the file expands to tests, outside of items that are for tests only.
fn defines_test_macro(text: &str, inline: &InlineTests) -> bool {
    text.match_indices("macro_rules!").any(|(at, _)| {
        let is_test_only = inline.parts.iter().any(|part| part.range.contains(&at));
        !is_test_only && macro_body(text, at).contains("#[test]")
    })
}

/// The text of a macro from its name to the brace that closes it.
fn macro_body(text: &str, at: usize) -> &str {
    let rest = text.get(at..).unwrap_or_default();
    let mut depth = 0_usize;
    for (end, byte) in rest.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' if depth <= 1 => return rest.get(..end).unwrap_or(rest),
            b'}' => depth -= 1,
            _ => {}
        }
    }
    rest
}

/// Parts that cannot be moved must be the same in both versions.
fn compare_mixed_parts(
    code: &str,
    ours: &InlineTests,
    tests: &str,
    theirs: &InlineTests,
) -> Result<(), String> {
    for (kind, reason) in [
        (
            InlineTestKind::Shared,
            "an item that is not for tests only (`cfg(any(test, …))`) differs",
        ),
        (InlineTestKind::Fragment, "a `#[cfg(test)]` statement or field inside its code differs"),
    ] {
        let sorted_parts = |text: &str, found: &InlineTests| {
            let of_kind = found.parts.iter().filter(|part| part.kind == kind);
            let mut parts: Vec<String> =
                of_kind.map(|part| part_text(text, part).to_string()).collect();
            parts.sort();
            parts
        };
        if sorted_parts(code, ours) != sorted_parts(tests, theirs) {
            return Err(reason.to_string());
        }
    }
    Ok(())
}

fn plan_edits(
    code: &str,
    ours: &InlineTests,
    tests: &str,
    theirs: &InlineTests,
) -> Result<Vec<TextEdit>, String> {
    let our_parts = keyed_items(ours);
    let their_parts = keyed_items(theirs);
    let ours_by_key: BTreeMap<_, _> = our_parts.iter().copied().collect();
    let theirs_by_key: BTreeMap<_, _> = their_parts.iter().copied().collect();
    let mut edits = Vec::new();
    for (key, part) in &our_parts {
        match theirs_by_key.get(key) {
            Some(other) if part_text(code, part) == part_text(tests, other) => {}
            Some(other) => edits.push(TextEdit {
                range: part.range.clone(),
                text: part_text(tests, other).to_string(),
            }),
            None => {
                edits.push(TextEdit {
                    range: extend_to_lines(code, &part.range),
                    text: String::new(),
                });
            }
        }
    }
    // A new part is inserted after the nearest preceding part that both versions have, to keep the order.
    let mut previous: Option<&InlineTest> = None;
    for (key, part) in &their_parts {
        if let Some(known) = ours_by_key.get(key) {
            previous = Some(known);
            continue;
        }
        let at = match previous.filter(|known| known.parents == part.parents) {
            Some(known) => known.range.end,
            None => block_end(code, ours, &part.parents)?,
        };
        let indent = indentation_of(tests, part.range.start);
        let text = format!("\n\n{indent}{}", part_text(tests, part));
        edits.push(TextEdit { range: at..at, text });
    }
    Ok(edits)
}

fn keyed_items(found: &InlineTests) -> Vec<(PartKey<'_>, &InlineTest)> {
    let mut seen: BTreeMap<(&[String], &str), usize> = BTreeMap::new();
    let items = found.parts.iter().filter(|part| part.kind == InlineTestKind::Item);
    items
        .map(|part| {
            let count = seen.entry((&part.parents, &part.name)).or_default();
            *count += 1;
            ((part.parents.as_slice(), part.name.as_str(), *count), part)
        })
        .collect()
}

fn part_text<'a>(text: &'a str, part: &InlineTest) -> &'a str {
    text.get(part.range.clone()).unwrap_or_default()
}

/// The end of the last line inside a block, or of the file.
fn block_end(code: &str, found: &InlineTests, parents: &[String]) -> Result<usize, String> {
    let end = if parents.is_empty() {
        code.len()
    } else {
        let mut blocks = found.blocks.iter().filter(|block| block.path == parents);
        let name = parents.last().map_or("", String::as_str);
        match (blocks.next(), blocks.next()) {
            (Some(block), None) => block.inner.end,
            (Some(_), Some(_)) => return Err(format!("it has `{name}` more than once")),
            (None, _) => {
                return Err(format!("only one version has `{name}`, which contains tests"));
            }
        }
    };
    Ok(code.get(..end).unwrap_or_default().trim_end().len())
}

fn indentation_of(text: &str, at: usize) -> &str {
    let before = text.get(..at).unwrap_or_default();
    let line = before.get(before.rfind('\n').map_or(0, |at| at + 1)..).unwrap_or_default();
    if line.trim().is_empty() { line } else { "" }
}

/// Extends a range to whole lines, and over the empty line before it, if nothing else is on them.
fn extend_to_lines(text: &str, range: &Range<usize>) -> Range<usize> {
    let start = range.start - indentation_of(text, range.start).len();
    let rest = text.get(range.end..).unwrap_or_default();
    let line_end = rest.find('\n').map_or(rest.len(), |at| at + 1);
    let is_alone = rest.get(..line_end).is_some_and(|line| line.trim().is_empty());
    let before = text.get(..start).unwrap_or_default();
    if !is_alone || !(before.is_empty() || before.ends_with('\n')) {
        return range.clone();
    }
    let start = if before.ends_with("\n\n") { start - 1 } else { start };
    start..range.end + line_end
}

fn apply_edits(code: &str, mut edits: Vec<TextEdit>) -> String {
    edits.sort_by_key(|edit| (edit.range.start, edit.range.end));
    let mut out = String::with_capacity(code.len());
    let mut at = 0;
    for edit in edits {
        // Removed lines may overlap with the position of an insertion.
        let start = edit.range.start.max(at);
        out.push_str(code.get(at..start).unwrap_or_default());
        if edit.range.is_empty() {
            // An inserted text starts with an empty line; another may be left over from a removed part.
            out.truncate(out.trim_end().len());
        }
        out.push_str(if out.is_empty() { edit.text.trim_start() } else { &edit.text });
        at = edit.range.end.max(start);
    }
    out.push_str(code.get(at..).unwrap_or_default());
    if !out.is_empty() && !out.ends_with('\n') && code.ends_with('\n') {
        out.push('\n');
    }
    out
}

/// The texts of all parts, regardless of their order.
fn part_texts<'a>(text: &'a str, found: &InlineTests) -> Vec<(Vec<String>, &'a str)> {
    let mut texts: Vec<_> =
        found.parts.iter().map(|part| (part.parents.clone(), part_text(text, part))).collect();
    texts.sort();
    texts
}

/// The words of everything that is not an item for tests.
fn code_words<'a>(text: &'a str, found: &InlineTests) -> Vec<&'a str> {
    let mut words = Vec::new();
    let mut at = 0;
    for part in found.parts.iter().filter(|part| part.kind == InlineTestKind::Item) {
        words.extend(text.get(at..part.range.start).unwrap_or_default().split_whitespace());
        at = part.range.end;
    }
    words.extend(text.get(at..).unwrap_or_default().split_whitespace());
    words
}
