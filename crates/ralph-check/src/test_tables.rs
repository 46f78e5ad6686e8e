//! Counts the cases that a test runs with: rows of `parametrize`, `it.each`, `#[case]`, `@CsvSource`, or of a table in
//! the test itself.

use super::language::TestLanguage;
use super::source_text::SourceText;
use super::test_cases::FoundTest;
use super::word_search;
use core::ops::Range;

const MAX_TABLES: usize = 20;

/// How many cases a test runs with; 0 if it has no table.
pub(crate) fn count_cases(source: &SourceText<'_>, case: &FoundTest) -> usize {
    let above = case.start..case.body.start.max(case.start);
    let tables: &[&str] = match source.language.test_language() {
        Some(TestLanguage::Python) => &["parametrize", "expand", "data"],
        Some(TestLanguage::JavaScript) => &["each", "for"],
        Some(TestLanguage::Java) => &["ValueSource", "CsvSource"],
        Some(TestLanguage::Rust) => {
            let code = source.code.get(above).unwrap_or_default();
            let attributes = ["#[case", "#[test_case", "#[values"];
            return attributes.iter().map(|one| code.matches(one).count()).sum::<usize>()
                + count_rows(source, &case.body);
        }
        Some(TestLanguage::Go | TestLanguage::C | TestLanguage::Bats) => &[],
        None => return 0,
    };
    let code = source.code.get(above.clone()).unwrap_or_default();
    let found =
        tables.iter().flat_map(|table| word_search::find_word(code, table).take(MAX_TABLES));
    let listed = found.filter_map(|at| {
        let open = code.get(at..)?.find(['[', '{'])? + at + above.start;
        Some(count_elements(source, open + 1..source.brackets.close_of(open)?))
    });
    listed.sum::<usize>() + count_rows(source, &case.body)
}

/// The elements of a list, separated by commas outside of inner brackets.
fn count_elements(source: &SourceText<'_>, range: Range<usize>) -> usize {
    let code = source.code.get(range).unwrap_or_default();
    let (mut depth, mut count, mut is_element) = (0_i32, 0, false);
    for byte in code.bytes() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth -= 1,
            b',' if depth == 0 => {
                count += usize::from(is_element);
                is_element = false;
                continue;
            }
            _ => {}
        }
        is_element |= !byte.is_ascii_whitespace();
    }
    count + usize::from(is_element)
}

/// Lines of a table in the test itself: `{"a", 1},`
fn count_rows(source: &SourceText<'_>, body: &Range<usize>) -> usize {
    const MOST: usize = 5_000;
    let first = source.line_of(body.start) + 1;
    let last = source.line_of(body.end);
    let is_row = |line: &usize| {
        let code = source.code_of_line(*line).trim();
        code.starts_with(['{', '[', '('])
            && [("},"), ("],"), ("),")].iter().any(|end| code.ends_with(end))
    };
    (first..=last).take(MOST).filter(is_row).count()
}
