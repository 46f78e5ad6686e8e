//! The lines of a change that tests should run.

use super::language::Language;
use super::source_text::SourceText;
use super::{FileChange, MovedLines};
use alloc::vec::Vec;

/// The added lines of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangedCode {
    /// Without lines that were only moved or indented.
    pub lines: Vec<u32>,
    /// Those with code, if a function is defined on one of them. A file with types and constants alone has nothing that a
    /// test could run.
    pub code: Vec<u32>,
}

/// Finds the lines that a change added to a file.
pub fn find_changed_code(change: &FileChange<'_>, moved: &MovedLines<'_>) -> ChangedCode {
    let Some(after) = change.after.filter(|_| !change.added.is_empty()) else {
        return ChangedCode::default();
    };
    let source = SourceText::new(change.path, after);
    let number = |line: u32| usize::try_from(line).unwrap_or(usize::MAX);
    let is_new = |line: &u32| {
        let text = source.text.get(source.line(number(*line)));
        !moved.contains(text.unwrap_or_default())
    };
    let lines: Vec<u32> = change.added.iter().copied().filter(is_new).collect();
    let has_code = |line: &u32| source.code_of_line(number(*line)).contains(char::is_alphanumeric);
    let code: Vec<u32> = lines.iter().copied().filter(has_code).collect();
    let defines =
        |line: &u32| defines_function(source.language, source.code_of_line(number(*line)));
    let code = if code.iter().any(defines) { code } else { Vec::new() };
    ChangedCode { lines, code }
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
}
