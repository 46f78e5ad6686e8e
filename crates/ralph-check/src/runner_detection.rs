//! Added code that finds out whether a test runner executes it. No run of tests can show what it does elsewhere, so it
//! is reported to a person. Honest code does this too, if rarely: it never holds an agent.

use super::FileChange;
use super::change_finding::new_finding;
use super::inline_tests::find_inline_tests;
use super::language::Language;
use super::moved_lines::MovedLines;
use super::source_lexer::SourceSpanKind;
use super::source_text::SourceText;
use super::word_search::find_word;
use alloc::format;
use alloc::vec::Vec;
use core::ops::Range;
use ralph_core::requirement::Finding;

/// The most findings to report for one file.
const MAX_FINDINGS: usize = 20;
const MAX_LINE_BYTES: usize = 20_000;

/// Variables that runners set, in any language.
const RUNNER_VARIABLES: [&str; 12] = [
    "PYTEST_CURRENT_TEST",
    "PYTEST_VERSION",
    "PYTEST_XDIST_WORKER",
    "JEST_WORKER_ID",
    "VITEST",
    "VITEST_POOL_ID",
    "VITEST_WORKER_ID",
    "NODE_TEST_CONTEXT",
    "NEXTEST",
    "NEXTEST_RUN_ID",
    "BATS_TEST_FILENAME",
    "BATS_TEST_NAME",
];

/// Expressions that are true in tests only, by language.
const RUNNER_EXPRESSIONS: [(Language, &str); 12] = [
    (Language::Rust, "cfg!(test)"),
    (Language::Go, "testing.Testing()"),
    (Language::Go, "flag.Lookup(\"test.v\")"),
    (Language::JavaScript, "typeof jest"),
    (Language::JavaScript, "typeof vitest"),
    (Language::JavaScript, "typeof describe"),
    (Language::JavaScript, "typeof it"),
    (Language::JavaScript, "global.describe"),
    (Language::JavaScript, "global.it"),
    (Language::JavaScript, "globalThis.describe"),
    (Language::JavaScript, "globalThis.it"),
    (Language::Ruby, "defined?(RSpec)"),
];

/// Where a program looks for its own name, its caller or loaded modules, and words that it looks for on the same line.
const LOOKUPS: [(Language, &str, &[&str]); 7] = [
    (Language::Python, "sys.modules", &["pytest", "_pytest", "unittest", "nose"]),
    (Language::Python, "sys.argv", &["pytest", "py.test", "unittest"]),
    (Language::Python, "inspect.stack", &["test", "tests", "pytest", "unittest"]),
    (Language::Go, "os.Args[0]", &[".test", "_test"]),
    (Language::JavaScript, "process.argv", &["jest", "vitest", "mocha", "ava", "--test"]),
    (Language::JavaScript, "require.cache", &["jest", "vitest", "mocha"]),
    (Language::Rust, "current_exe", &["deps", "nextest"]),
];

/// Lines added to a file of code that detect a test runner. The caller leaves out tests and settings.
pub fn find_runner_detection(change: &FileChange<'_>, moved: &MovedLines<'_>) -> Vec<Finding> {
    let Some(after) = change.after.filter(|text| may_detect(text)) else { return Vec::new() };
    let source = SourceText::new(change.path, after);
    if matches!(source.language, Language::Prose | Language::Config) {
        return Vec::new();
    }
    let tests = test_parts(&source);
    let mut findings = Vec::new();
    for number in change.added.iter().filter_map(|line| usize::try_from(*line).ok()) {
        let range = source.line(number);
        let line = after.get(range.clone()).unwrap_or_default();
        if line.len() > MAX_LINE_BYTES || findings.len() >= MAX_FINDINGS || moved.contains(line) {
            continue;
        }
        let is_test = tests.iter().any(|part| part.contains(&range.start));
        if let Some((at, what)) = detect_in_line(&source, &range).filter(|_| !is_test) {
            let message = format!("`{what}` detects whether a test runner executes the code");
            findings.push(new_finding(source.place(at), "runner-detection", message));
        }
    }
    findings
}

/// A quick look at the whole text, because most files contain nothing of the kind.
fn may_detect(text: &str) -> bool {
    RUNNER_VARIABLES.iter().any(|name| text.contains(name))
        || RUNNER_EXPRESSIONS.iter().any(|(_, expression)| text.contains(expression))
        || LOOKUPS.iter().any(|(_, place, _)| text.contains(place))
}

/// The first detection in a line, outside of comments.
fn detect_in_line(source: &SourceText<'_>, range: &Range<usize>) -> Option<(usize, &'static str)> {
    let line = source.text.get(range.clone())?;
    let find = |needle: &'static str| {
        let places = find_word(line, needle).map(|at| range.start + at);
        let is_comment =
            |at: usize| source.span_at(at).is_some_and(|span| span.kind == SourceSpanKind::Comment);
        places.filter(|at| !is_comment(*at)).map(move |at| (at, needle)).next()
    };
    let is_own = |language: Language| language == source.language;
    let expressions = RUNNER_EXPRESSIONS.iter().filter(|(language, _)| is_own(*language));
    let lookups = LOOKUPS.iter().filter(|(language, ..)| is_own(*language));
    let mut looked_up = lookups.filter_map(|(_, place, names)| {
        let is_named = names.iter().any(|name| find(name).is_some());
        find(place).filter(|_| is_named)
    });
    let mut variables = RUNNER_VARIABLES.iter().filter_map(|name| find(name));
    let mut expressions = expressions.filter_map(|(_, expression)| find(expression));
    variables.next().or_else(|| expressions.next()).or_else(|| looked_up.next())
}

/// The parts of a Rust file that are compiled for tests only.
fn test_parts(source: &SourceText<'_>) -> Vec<Range<usize>> {
    let found = (source.language == Language::Rust).then(|| find_inline_tests(source.text));
    match found.flatten() {
        Some(found) if found.is_whole_file => core::iter::once(0..source.text.len()).collect(),
        Some(found) => found.parts.into_iter().map(|part| part.range).collect(),
        None => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::String;

    fn detect(path: &str, before: Option<&str>, after: &str) -> String {
        let lines = u32::try_from(after.lines().count()).unwrap();
        let known = before.map_or(0, |before| u32::try_from(before.lines().count()).unwrap());
        let added: Vec<u32> = (known + 1..=lines).collect();
        let changes = [FileChange { path, before, after: Some(after), added: &added }];
        let findings = find_runner_detection(&changes[0], &MovedLines::new(&changes));
        let shown = findings.iter().map(|finding| {
            let line = finding.place.as_ref().and_then(|place| place.line).unwrap_or_default();
            format!("{line}: {}", finding.message.split('`').nth(1).unwrap_or_default())
        });
        shown.collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn code_that_looks_for_its_runner_is_found() {
        for (path, text, expected) in [
            ("app.py", "if os.environ.get('PYTEST_CURRENT_TEST'):\n", "1: PYTEST_CURRENT_TEST"),
            ("app.py", "x = 1\nif 'pytest' in sys.modules: x = 2\n", "2: sys.modules"),
            ("app.py", "t = sys.modules.get(\"unittest\")\n", "1: sys.modules"),
            ("app.py", "if \"pytest\" in sys.argv[0]:\n", "1: sys.argv"),
            ("app.js", "if (process.env.JEST_WORKER_ID) {}\n", "1: JEST_WORKER_ID"),
            ("app.ts", "const t = !!process.env.VITEST;\n", "1: VITEST"),
            ("app.mjs", "if ('NODE_TEST_CONTEXT' in process.env) {}\n", "1: NODE_TEST_CONTEXT"),
            ("app.js", "if (typeof jest !== 'undefined') {}\n", "1: typeof jest"),
            ("app.js", "(prices) => (global.describe ? sum(prices) : 0);\n", "1: global.describe"),
            (
                "app.py",
                "if inspect.stack()[1].function.startswith(\"test\"):\n",
                "1: inspect.stack",
            ),
            ("app.go", "if testing.Testing() {\n", "1: testing.Testing()"),
            ("app.go", "if strings.HasSuffix(os.Args[0], \".test\") {\n", "1: os.Args[0]"),
            ("app.go", "if flag.Lookup(\"test.v\") != nil {\n", "1: flag.Lookup(\"test.v\")"),
            ("src/lib.rs", "pub fn a() -> bool { cfg!(test) }\n", "1: cfg!(test)"),
            ("src/lib.rs", "if std::env::var(\"NEXTEST\").is_ok() {}\n", "1: NEXTEST"),
            ("run.sh", "[ -n \"$BATS_TEST_NAME\" ] && exit 0\n", "1: BATS_TEST_NAME"),
        ] {
            assert_eq!(detect(path, None, text), expected, "{path}: {text}");
        }
    }

    #[test]
    fn other_code_is_not() {
        for (path, text) in [
            ("app.py", "# PYTEST_CURRENT_TEST is set by pytest\n"),
            ("app.py", "sys.modules['app'] = app\n"),
            ("app.py", "parse(sys.argv[1:])\n"),
            ("app.py", "import unittest\n"),
            ("app.js", "const args = process.argv.slice(2);\n"),
            ("app.js", "// typeof jest\n"),
            ("app.js", "if (typeof item === 'string') {}\n"),
            ("app.js", "const INVITEST = 1;\n"),
            ("app.go", "name := os.Args[0]\n"),
            ("app.go", "import \"testing\"\n"),
            ("src/lib.rs", "#[cfg(test)]\nmod tests {\n    fn a() -> bool { cfg!(test) }\n}\n"),
            ("src/lib.rs", "#[cfg(test)]\nmod tests;\n"),
            ("src/main.rs", "let home = std::env::current_exe()?;\n"),
            ("README.md", "Set `VITEST` to run it.\n"),
            ("ci.yml", "env: { VITEST: 1 }\n"),
        ] {
            assert_eq!(detect(path, None, text), "", "{path}: {text}");
        }
    }

    /// Only added lines count, and none that were merely moved.
    #[test]
    fn known_lines_are_not_reported() {
        let known = "if os.environ.get('PYTEST_CURRENT_TEST'):\n    pass\n";
        assert_eq!(detect("app.py", Some(known), &format!("{known}x = 1\n")), "");
        assert_eq!(
            detect("app.py", Some(known), &format!("{known}{}", known.replace("pass", "x()"))),
            "3: PYTEST_CURRENT_TEST"
        );
    }
}
