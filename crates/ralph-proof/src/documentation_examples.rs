//! Tests that cannot be separated from the code around them: documentation examples in Rust, Python and Elixir,
//! vitest's in-source tests, and Zig tests. They are compared, never moved.

use crate::naming_conventions::file_extension;
use ralph_check::{Language, SourceSpanKind, split_into_spans};

const VITEST_MARK: &str = "import.meta.vitest";

/// Why the examples of the two versions cannot be separated from the code; `None` if they need not be.
///
/// Examples that were only added or only removed go with the code, because a removed one is detected by its missing
/// test name. A changed example could have been adapted to a wrong result.
pub(crate) fn compare_examples(path: &str, code: &str, tests: &str) -> Option<&'static str> {
    let language = Language::from_path(path);
    let extension = file_extension(path);
    let (find, why): (fn(&str) -> Vec<String>, _) = if language == Language::Rust {
        (rust_examples, "its documentation examples, which run as tests, were changed")
    } else if language == Language::Python || extension == "ex" {
        (prompt_examples, "its doctests were changed")
    } else if language == Language::JavaScript {
        let differs = in_source_tests(code, language) != in_source_tests(tests, language);
        return differs.then_some("it contains vitest tests (`import.meta.vitest`) that differ");
    } else if extension == "zig" {
        let differs = zig_tests(code) != zig_tests(tests);
        return differs.then_some("it contains Zig tests that differ");
    } else {
        return None;
    };
    let (mut ours, mut theirs) = (find(code), find(tests));
    ours.sort();
    theirs.sort();
    let lacks = |one: &[String], other: &[String]| {
        one.iter().any(|example| other.binary_search(example).is_err())
    };
    (lacks(&ours, &theirs) && lacks(&theirs, &ours)).then_some(why)
}

/// Fenced blocks of `///` and `//!` comments that rustdoc compiles.
fn rust_examples(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut open: Option<(bool, String)> = None;
    for line in text.lines().map(str::trim_start) {
        let comment = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
        let Some(comment) = comment else {
            open = None;
            continue;
        };
        let comment = comment.trim();
        let Some(info) = comment.strip_prefix("```") else {
            if let Some((_, example)) = &mut open {
                example.push_str(comment);
                example.push('\n');
            }
            continue;
        };
        match open.take() {
            Some((true, example)) => found.push(example),
            Some((false, _)) => {}
            None => open = Some((is_compiled(info), String::new())),
        }
    }
    found
}

fn is_compiled(info: &str) -> bool {
    info.split(',').map(str::trim).all(|word| {
        matches!(word, "" | "rust" | "should_panic" | "no_run" | "compile_fail")
            || word.starts_with("edition")
    })
}

/// Examples from their first prompt to the next empty line, including the expected output.
fn prompt_examples(text: &str) -> Vec<String> {
    let is_prompt = |line: &str| line.starts_with(">>> ") || line.starts_with("iex>");
    let mut found = Vec::new();
    let mut open: Option<String> = None;
    for line in text.lines().map(str::trim) {
        if line.is_empty() || line.starts_with("\"\"\"") {
            found.extend(open.take());
        } else if open.is_some() || is_prompt(line) {
            let example = open.get_or_insert_default();
            example.push_str(line);
            example.push('\n');
        }
    }
    found.extend(open);
    found
}

/// The text from the first use of vitest in the code on. In-source tests are at the end of a file.
fn in_source_tests(text: &str, language: Language) -> Option<&str> {
    if !text.contains(VITEST_MARK) {
        return None;
    }
    let spans = split_into_spans(text, language);
    let code = spans.iter().filter(|span| span.kind == SourceSpanKind::Code);
    let at = code
        .filter_map(|span| Some(span.start + text.get(span.start..span.end)?.find(VITEST_MARK)?));
    text.get(at.min()?..)
}

fn zig_tests(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut is_inside = false;
    for line in text.lines() {
        is_inside |= line.starts_with("test ");
        if is_inside {
            found.push(line);
        }
        is_inside &= line != "}";
    }
    found
}
