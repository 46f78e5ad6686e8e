//! Finds code that never runs, whose assertions do not count.

use super::cases;
use super::language::Dialect;
use super::source::Source;
use super::words;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

/// The most conditions and functions to examine in one file.
const MOST: usize = 2_000;
/// Constant conditions are short.
const LONGEST_CONDITION: usize = 200;

/// Ranges of code that never runs, sorted and not nested.
#[derive(Debug)]
pub(super) struct Dead {
    ranges: Vec<Range<usize>>,
}

impl Dead {
    pub(super) fn of(source: &Source<'_>) -> Self {
        let mut ranges = match source.language.dialect() {
            None => Vec::new(),
            Some(Dialect::Python) => never_entered_by_margin(source),
            Some(Dialect::Rust | Dialect::JavaScript | Dialect::Go | Dialect::Java) => {
                never_entered_by_brace(source)
            }
        };
        ranges.extend(cases::uncalled(source));
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
fn never_entered_by_margin(source: &Source<'_>) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    for number in 1..=source.line_count() {
        let code = source.code_of_line(number);
        let trimmed = code.trim_start();
        let keyword = words::word_at(trimmed, 0);
        let start = source.line(number).start;
        if found.last().is_some_and(|last| start < last.end) {
            continue;
        }
        if !matches!(keyword, "if" | "elif" | "while" | "for") || source.begins_inside(number) {
            continue;
        }
        let clause = words::head(trimmed, keyword.len(), LONGEST_CONDITION);
        let Some((condition, _)) = clause.split_once(':') else {
            continue;
        };
        let is_dead = match keyword {
            "for" => condition.trim_end().ends_with(" in []") || condition.ends_with(" in ()"),
            _ => is_false(condition),
        };
        if is_dead && found.len() < MOST {
            let margin = code.len() - trimmed.len();
            found.push(start..end_of_block(source, number, margin));
        }
    }
    found
}

fn end_of_block(source: &Source<'_>, number: usize, margin: usize) -> usize {
    let ends = |line: &usize| {
        let code = source.code_of_line(*line);
        let trimmed = code.trim_start();
        !trimmed.is_empty()
            && !source.begins_inside(*line)
            && !trimmed.starts_with([')', ']', '}'])
            && code.len() - trimmed.len() <= margin
    };
    let next = (number + 1..=source.line_count()).find(ends);
    next.map_or(source.text.len(), |line| source.line(line).start)
}

/// `if (false) { … }`, `while (0) …;`, `if false { … }`
fn never_entered_by_brace(source: &Source<'_>) -> Vec<Range<usize>> {
    let code = &source.code;
    let deciders = ["if", "while"].into_iter().flat_map(|word| {
        words::find_all(code, word)
            .take(MOST)
            .map(move |at| words::skip_space(code, at + word.len()))
    });
    let dead = deciders.filter_map(|at| {
        let body = if code.as_bytes().get(at) == Some(&b'(') {
            let close = source.brackets.close_of(at)?;
            let condition = code.get(at + 1..close.min(at + LONGEST_CONDITION))?;
            is_false(condition).then(|| words::skip_space(code, close + 1))?
        } else {
            let (condition, _) = words::head(code, at, LONGEST_CONDITION).split_once('{')?;
            is_false(condition).then_some(at + condition.len())?
        };
        let end = match code.as_bytes().get(body)? {
            b'{' => source.brackets.close_of(body)?,
            _ => source.line(source.line_of(body)).end,
        };
        Some(body..end)
    });
    dead.collect()
}

fn is_false(condition: &str) -> bool {
    let mut squeezed: String = condition.chars().filter(|char| !char.is_whitespace()).collect();
    while let Some(inner) = squeezed.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
        squeezed = String::from(inner);
    }
    let is_constant = matches!(
        squeezed.as_str(),
        "False" | "false" | "0" | "None" | "notTrue" | "!true" | "!1" | "not1" | "null" | "1==0"
    );
    is_constant || squeezed.starts_with("Falseand") || squeezed.starts_with("false&&")
}
