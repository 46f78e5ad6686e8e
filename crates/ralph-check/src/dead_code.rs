//! Finds code that never runs, whose assertions do not count.

use super::constant_condition::constant_truth;
use super::language::TestLanguage;
use super::source_text::SourceText;
use super::test_cases;
use super::word_search;
use alloc::vec::Vec;
use core::ops::Range;

/// The most conditions and functions to examine in one file.
const MAX_EXAMINED: usize = 2_000;
/// Constant conditions are short.
const MAX_CONDITION_BYTES: usize = 200;

/// Ranges of code that never runs, sorted and not nested.
#[derive(Debug)]
pub(super) struct DeadCode {
    ranges: Vec<Range<usize>>,
}

impl DeadCode {
    pub(super) fn find(source: &SourceText<'_>) -> Self {
        let mut ranges = match source.language.test_language() {
            None | Some(TestLanguage::Bats) => Vec::new(),
            Some(TestLanguage::Python) => dead_blocks_by_indentation(source),
            Some(
                TestLanguage::Rust
                | TestLanguage::JavaScript
                | TestLanguage::Go
                | TestLanguage::Java
                | TestLanguage::C,
            ) => dead_blocks_by_brace(source),
        };
        ranges.extend(test_cases::find_uncalled_functions(source));
        ranges.sort_by_key(|range| range.start);
        // Drops nested ranges, so that the rest can be searched by bisection.
        let mut end = 0;
        ranges.retain(|range| {
            let is_outer = range.end > end;
            end = end.max(range.end);
            is_outer
        });
        Self { ranges }
    }

    pub(super) fn contains(&self, at: usize) -> bool {
        let index = self.ranges.partition_point(|range| range.end <= at);
        self.ranges.get(index).is_some_and(|range| range.contains(&at))
    }
}

/// `if False:` and its block.
fn dead_blocks_by_indentation(source: &SourceText<'_>) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    for number in 1..=source.line_count() {
        let code = source.code_of_line(number);
        let trimmed = code.trim_start();
        let keyword = word_search::word_at(trimmed, 0);
        let start = source.line(number).start;
        if found.last().is_some_and(|last| start < last.end) {
            continue;
        }
        if !matches!(keyword, "if" | "elif" | "while" | "for")
            || source.starts_inside_literal(number)
        {
            continue;
        }
        let clause = word_search::text_from(trimmed, keyword.len(), MAX_CONDITION_BYTES);
        let Some((condition, _)) = clause.split_once(':') else {
            continue;
        };
        let is_dead = match keyword {
            "for" => condition.trim_end().ends_with(" in []") || condition.ends_with(" in ()"),
            _ => constant_truth(condition) == Some(false),
        };
        if is_dead && found.len() < MAX_EXAMINED {
            let margin = code.len() - trimmed.len();
            found.push(start..indented_block_end(source, number, margin));
        }
    }
    found
}

fn indented_block_end(source: &SourceText<'_>, number: usize, margin: usize) -> usize {
    let ends = |line: &usize| {
        let code = source.code_of_line(*line);
        let trimmed = code.trim_start();
        !trimmed.is_empty()
            && !source.starts_inside_literal(*line)
            && !trimmed.starts_with([')', ']', '}'])
            && code.len() - trimmed.len() <= margin
    };
    let next = (number + 1..=source.line_count()).find(ends);
    next.map_or(source.text.len(), |line| source.line(line).start)
}

/// `if (false) { … }`, `while (0) …;`, `if false { … }`
fn dead_blocks_by_brace(source: &SourceText<'_>) -> Vec<Range<usize>> {
    let code = &source.code;
    let deciders = ["if", "while"].into_iter().flat_map(|word| {
        word_search::find_word(code, word)
            .take(MAX_EXAMINED)
            .map(move |at| word_search::skip_space(code, at + word.len()))
    });
    let dead = deciders.filter_map(|at| {
        let body = if code.as_bytes().get(at) == Some(&b'(') {
            let close = source.brackets.close_of(at)?;
            let condition = code.get(at + 1..close.min(at + MAX_CONDITION_BYTES))?;
            (constant_truth(condition) == Some(false))
                .then(|| word_search::skip_space(code, close + 1))?
        } else {
            let (condition, _) =
                word_search::text_from(code, at, MAX_CONDITION_BYTES).split_once('{')?;
            (constant_truth(condition) == Some(false)).then_some(at + condition.len())?
        };
        let end = match code.as_bytes().get(body)? {
            b'{' => source.brackets.close_of(body)?,
            _ => source.line(source.line_of(body)).end,
        };
        Some(body..end)
    });
    dead.collect()
}
