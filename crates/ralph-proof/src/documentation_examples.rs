//! Tests that cannot be separated from the code around them: documentation examples in Rust, Python and Elixir, Zig
//! tests, and tests of JavaScript and Python in files with code. They are never moved.

use crate::naming_conventions::file_extension;
use ralph_check::{Language, SourceSpanKind, has_embedded_tests, split_into_spans};

const VITEST_MARK: &str = "import.meta.vitest";

/// Why a file with changed examples is not separable. They are tests only if the runner is set up to run them.
pub(crate) const CHANGED_EXAMPLES: &str = "its examples were changed, which may run as tests";

/// Why the tests of the two versions cannot be separated from the code; `None` if they need not be.
///
/// Examples that only one version has are no obstacle: a removed one is noticed by its missing name. Changed examples are,
/// because runners may report several under one name.
pub(crate) fn compare_examples(path: &str, code: &str, tests: &str) -> Option<&'static str> {
    let language = Language::from_path(path);
    let extension = file_extension(path);
    let were_changed = |find: &dyn Fn(&str) -> Vec<String>| {
        let (ours, theirs) = (find(code), find(tests));
        ours != theirs && !ours.is_empty() && !theirs.is_empty()
    };
    let has_prompts = language == Language::Python || matches!(extension, "ex" | "md" | "rst");
    let is_in_source = [code, tests].iter().any(|text| text.contains(VITEST_MARK));
    let embedded = |text: &str| has_embedded_tests(path, text);
    if language == Language::Rust && were_changed(&rust_examples) {
        Some("its documentation examples, which run as tests, were changed")
    } else if has_prompts && were_changed(&prompt_examples)
        || extension == "md" && were_changed(&fenced_rust)
    {
        Some(CHANGED_EXAMPLES)
    } else if is_in_source && in_source_tests(code, language) != in_source_tests(tests, language) {
        Some("it contains vitest tests (`import.meta.vitest`) that differ")
    } else if extension == "zig" && zig_tests(code) != zig_tests(tests) {
        Some("it contains Zig tests that differ")
    } else if !is_in_source && (embedded(code) || embedded(tests)) {
        Some("it contains tests besides code")
    } else {
        None
    }
}

/// Fenced blocks of documentation comments that rustdoc compiles.
fn rust_examples(text: &str) -> Vec<String> {
    let mut is_in_block = false;
    let comments = text.lines().map(str::trim_start).map(|line| {
        if line.starts_with("/**") || line.starts_with("/*!") {
            is_in_block = true;
        }
        let in_block = is_in_block.then(|| line.trim_start_matches(['/', '*', '!']));
        is_in_block &= !line.contains("*/");
        let in_lines = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
        in_lines.or(in_block)
    });
    fenced_examples(comments)
}

/// Fenced blocks of a document that a crate may include as documentation.
fn fenced_rust(text: &str) -> Vec<String> {
    fenced_examples(text.lines().map(Some))
}

/// The blocks between fences, in lines of which those without documentation are `None`.
fn fenced_examples<'a>(lines: impl Iterator<Item = Option<&'a str>>) -> Vec<String> {
    let mut found = Vec::new();
    let mut open: Option<(bool, String)> = None;
    for comment in lines {
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
