//! The lines of a change that tests should run.

use super::inline_tests::{InlineTestKind, find_inline_tests};
use super::language::Language;
use super::source_text::SourceText;
use super::{FileChange, MovedLines};
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

/// The added lines of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangedCode {
    /// Without lines that were only moved or indented, and without tests inside the code.
    pub lines: Vec<u32>,
    /// Those with code, if a function is defined on one of them. A file with types and constants alone has nothing that a
    /// test could run.
    pub code: Vec<u32>,
    /// Marks among them that keep a coverage tool from measuring lines.
    pub exclusions: Vec<CoverageExclusion>,
    /// All new lines with code, if there is such a mark: any of them may be excluded by it.
    pub excluded_code: Vec<u32>,
}

/// A mark that excludes lines from the measurement of coverage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoverageExclusion {
    pub line: u32,
    pub mark: &'static str,
}

/// As they are written, and as they are searched for: in lower case and without white space, which tools tolerate.
const EXCLUSION_MARKS: [(&str, &str); 18] = [
    ("pragma: no cover", "pragma:nocover"),
    ("pragma: no cover", "pragmanocover"),
    ("LCOV_EXCL", "lcov_excl_"),
    ("GCOV_EXCL", "gcov_excl_"),
    ("GCOVR_EXCL", "gcovr_excl_"),
    ("GRCOV_EXCL", "grcov_excl_"),
    ("istanbul ignore", "istanbulignore"),
    ("c8 ignore", "c8ignore"),
    ("v8 ignore", "v8ignore"),
    ("node:coverage", "node:coverageignore"),
    ("node:coverage", "node:coveragedisable"),
    ("coverage(off)", "coverage(off)"),
    ("tarpaulin_include", "tarpaulin_include"),
    ("tarpaulin::skip", "tarpaulin::skip"),
    (":nocov:", ":nocov:"),
    ("@codeCoverageIgnore", "@codecoverageignore"),
    ("$COVERAGE-OFF$", "$coverage-off$"),
    ("ExcludeFromCodeCoverage", "excludefromcodecoverage"),
];

fn find_exclusion(line: u32, text: &str) -> Option<CoverageExclusion> {
    let plain = |char: char| (!char.is_whitespace()).then(|| char.to_ascii_lowercase());
    let bare: String = text.chars().filter_map(plain).collect();
    let found = EXCLUSION_MARKS.iter().find(|(_, wanted)| bare.contains(wanted));
    found.map(|(mark, _)| CoverageExclusion { line, mark })
}

/// Finds the lines that a change added to a file.
pub fn find_changed_code(change: &FileChange<'_>, moved: &MovedLines<'_>) -> ChangedCode {
    let Some(after) = change.after.filter(|_| !change.added.is_empty()) else {
        return ChangedCode::default();
    };
    // A name that looks generated is no reason to run nothing of it.
    let source = SourceText::of_language(change.path, after, Language::of_name(change.path));
    let number = |line: u32| usize::try_from(line).unwrap_or(usize::MAX);
    let text_of = |line: u32| source.text.get(source.line(number(line))).unwrap_or_default();
    let tests = test_only_ranges(source.language, after);
    let is_test = |line: u32| {
        let range = source.line(number(line));
        let text = source.text.get(range.clone()).unwrap_or_default();
        let start = range.start + (text.len() - text.trim_start().len());
        let end = start + text.trim().len();
        // A line that also has other code counts.
        tests.iter().any(|test| test.start <= start && end <= test.end)
    };
    let is_new = |line: &u32| !moved.contains(text_of(*line)) && !is_test(*line);
    let lines: Vec<u32> = change.added.iter().copied().filter(is_new).collect();
    let has_code = |line: &u32| source.code_of_line(number(*line)).contains(char::is_alphanumeric);
    let code: Vec<u32> = lines.iter().copied().filter(has_code).collect();
    let defines =
        |line: &u32| defines_function(source.language, source.code_of_line(number(*line)));
    let exclusions: Vec<CoverageExclusion> =
        lines.iter().filter_map(|line| find_exclusion(*line, text_of(*line))).collect();
    let excluded_code = if exclusions.is_empty() { Vec::new() } else { code.clone() };
    let code = if code.iter().any(defines) { code } else { Vec::new() };
    ChangedCode { lines, code, exclusions, excluded_code }
}

/// The parts of a Rust file that are compiled for tests only. A test runs itself, so it would always count as covered.
fn test_only_ranges(language: Language, text: &str) -> Vec<Range<usize>> {
    let found = (language == Language::Rust).then(|| find_inline_tests(text)).flatten();
    let Some(found) = found else { return Vec::new() };
    if found.is_whole_file {
        return core::iter::once(0..text.len()).collect();
    }
    let only = found.parts.into_iter().filter(|part| part.kind != InlineTestKind::Shared);
    only.map(|part| part.range).collect()
}

/// Whether a function with a body seems to begin on this line. Declarations of types and interfaces have none.
fn defines_function(language: Language, code: &str) -> bool {
    let code = code.trim();
    let has_word = |word: &str| {
        let mut words = code.split(|char: char| !char.is_alphanumeric() && char != '_');
        words.any(|one| one == word)
    };
    let opens_body = code.ends_with('{') && code.contains('(');
    match language {
        Language::Rust => has_word("fn") && !code.ends_with(';'),
        Language::Python | Language::Ruby => has_word("def"),
        Language::Go => has_word("func") && code.ends_with(['{', '}']),
        Language::JavaScript => {
            code.contains("=>") && !code.starts_with("type ") || has_word("function") || opens_body
        }
        Language::Php => has_word("function") && !code.ends_with(';'),
        Language::Kotlin => has_word("fun"),
        Language::Swift => has_word("func"),
        Language::Scala => has_word("def") && code.contains('='),
        Language::Java | Language::CSharp | Language::C => opens_body,
        Language::Shell
        | Language::Bats
        | Language::Config
        | Language::Sql
        | Language::Html
        | Language::Css
        | Language::Unknown
        | Language::Prose => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    fn found(path: &str, before: &str, after: &str) -> ChangedCode {
        let added: Vec<u32> = (1..=u32::try_from(after.lines().count()).unwrap()).collect();
        let change = FileChange { path, before: Some(before), after: Some(after), added: &added };
        let all = [change];
        find_changed_code(&all[0], &MovedLines::new(&all))
    }

    #[test]
    fn lines_that_were_moved_are_not_new() {
        let before = "def a():\n    return 1\n";
        let after = "# note\n\ndef b():\n    return 2\n\ndef a():\n        return 1\n";
        let changed = found("shop/cart.py", before, after);
        assert_eq!(changed.lines, [1, 2, 3, 4, 5]);
        assert_eq!(changed.code, [3, 4]);
    }

    /// R-S5a: a test runs itself, so lines of tests would raise the share of any change.
    #[test]
    fn tests_inside_the_code_are_not_lines_to_cover() {
        let tests = "#[cfg(test)]\nmod tests {\n    #[test]\n    fn trivial() {\n        let sum = 1 + 1;\n    }\n}\n";
        let after = format!("pub fn add(a: i32) -> i32 {{\n    a + 1\n}}\n\n{tests}");
        assert_eq!(found("src/lib.rs", "", &after).lines, [1, 2, 3, 4]);
        assert_eq!(found("src/lib.rs", "", &format!("#![cfg(test)]\n{tests}")).lines, [0; 0]);
        // Neither what a feature enables too, nor code beside a test on one line.
        let shared = "#[cfg(any(test, feature = \"extra\"))]\nfn extra() {}\n";
        assert_eq!(found("src/lib.rs", "", shared).lines, [1, 2]);
        let beside = "#[cfg(test)]\nmod tests {} pub fn hidden() {}\n";
        assert_eq!(found("src/lib.rs", "", beside).lines, [2]);
    }

    #[test]
    fn files_without_functions_have_nothing_to_run() {
        for (path, line, expected) in [
            ("a.rs", "pub fn add(a: i32) -> i32 {", true),
            ("a.rs", "    fn add(a: i32) -> i32;", false),
            ("a.rs", "pub struct Cart {", false),
            ("a.py", "async def add(a):", true),
            ("a.py", "LIMIT = 3", false),
            ("a.go", "func Add(a int) int {", true),
            ("a.go", "type Add func(a int) int", false),
            ("a.ts", "export const add = (a: number) => a + 1;", true),
            ("a.ts", "  total(prices: number[]): number {", true),
            ("a.ts", "type Add = (a: number) => number;", false),
            ("a.ts", "interface Cart {", false),
            ("A.java", "  int add(int a) {", true),
            ("A.java", "  int add(int a);", false),
            ("a.c", "int add(int a);", false),
            ("a.sh", "add() {", false),
            ("README.md", "def add():", false),
        ] {
            let changed = found(path, "", &format!("{line}\n"));
            assert_eq!(!changed.code.is_empty(), expected, "{path} {line}");
        }
    }

    #[test]
    fn marks_that_exclude_lines_are_found_in_new_lines() {
        for (path, line, expected) in [
            ("a.py", "if x:  # pragma: no cover", Some("pragma: no cover")),
            ("a.py", "if x:  #PRAGMA NO  COVER", Some("pragma: no cover")),
            ("a.py", "cover = pragma", None),
            ("a.c", "int x; /* LCOV_EXCL_LINE */", Some("LCOV_EXCL")),
            ("a.ts", "/* istanbul ignore next */ run();", Some("istanbul ignore")),
            ("a.js", "/* node:coverage ignore next 3 */", Some("node:coverage")),
            ("a.rs", "#[coverage(off)]", Some("coverage(off)")),
            ("a.rb", "# :nocov:", Some(":nocov:")),
        ] {
            let changed = found(path, "", &format!("{line}\nx = 1\n"));
            let marks: Vec<_> = changed.exclusions.iter().map(|one| (one.line, one.mark)).collect();
            let expected: Vec<_> = expected.into_iter().map(|mark| (1, mark)).collect();
            assert_eq!(marks, expected, "{line}");
            assert_eq!(changed.excluded_code.is_empty(), expected.is_empty(), "{line}");
        }
        let moved =
            found("a.py", "x = 1  # pragma: no cover\n", "y = 2\nx = 1  # pragma: no cover\n");
        assert_eq!(moved.exclusions, []);
    }

    #[test]
    fn a_name_that_looks_generated_excuses_nothing() {
        assert_eq!(found("a.generated.py", "", "def a():\n    return 1\n").code, [1, 2]);
    }
}
