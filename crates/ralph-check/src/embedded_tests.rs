//! Finds tests in files that also contain code, in languages whose runners collect tests from any file.

use crate::language::TestLanguage;
use crate::source_text::SourceText;
use crate::test_cases::find_test_cases;
use crate::word_search;

/// Modules of Python that a file with tests imports.
const PYTHON_TEST_MODULES: [&str; 2] = ["unittest", "pytest"];

/// Words of which every file with tests contains at least one.
const TEST_WORDS: [&str; 9] =
    ["assert", "expect", "should", "test", "it", "describe", "unittest", "pytest", "TestCase"];

/// Whether a file that is not named as a test file contains tests.
pub fn has_embedded_tests(path: &str, text: &str) -> bool {
    let mut source = SourceText::new(path, text);
    source.is_test = true;
    let may_have_tests = match source.language.test_language() {
        Some(TestLanguage::JavaScript) => true,
        // Functions of a program may be named `test_…` too.
        Some(TestLanguage::Python) => PYTHON_TEST_MODULES
            .iter()
            .any(|module| word_search::contains_word(&source.code, module)),
        Some(
            TestLanguage::Rust
            | TestLanguage::Go
            | TestLanguage::Java
            | TestLanguage::C
            | TestLanguage::Bats,
        )
        | None => false,
    };
    may_have_tests && !find_test_cases(&source).is_empty()
}

/// Whether the code of a file that is named as a test file contains anything that a test would.
pub fn may_contain_tests(path: &str, text: &str) -> bool {
    let source = SourceText::new(path, text);
    let code = source.code.as_str();
    TEST_WORDS.iter().any(|word| word_search::contains_word(code, word))
        || ["def test", "class Test", "assert_", "assert!"].iter().any(|part| code.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_found_in_files_with_code() {
        let rows = [
            ("lib.js", "export const a = 1;\ntest('adds', () => { one(); });\n", true),
            ("lib.ts", "describe(\"a\", () => { it(\"b\", () => {}); it(\"c\", f); });\n", true),
            ("lib.js", "if (/x/.test('adds')) test(value);\n", false),
            (
                "app.py",
                "import unittest\nclass A(unittest.TestCase):\n    def test_a(self):\n        pass\n",
                true,
            ),
            ("app.py", "def test_connection():\n    pass\n", false),
            ("lib.rs", "#[test]\nfn a() {}\n", false),
        ];
        for (path, text, expected) in rows {
            assert_eq!(has_embedded_tests(path, text), expected, "{text}");
        }
    }
}
