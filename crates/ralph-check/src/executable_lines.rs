//! Which lines of a file could run, judged by its text alone. A coverage tool lists these lines if tests load the file.
//! Lines that only declare something are left out, because no tool lists them: types, imports, constants of compiled languages.

use crate::language::{Language, file_name};
use crate::source_text::SourceText;
use crate::word_search::{self, last_word, skip_space, split_words, word_at};
use alloc::vec::Vec;
use core::ops::Range;

/// A signature that is longer is not recognised. Bounds the search in hostile text.
const MAX_SIGNATURE_BYTES: usize = 2_000;

/// The lines of a file that could run, as sorted ranges of line numbers.
#[derive(Debug)]
pub(crate) enum ExecutableLines {
    /// Only the functions of the file, in languages where nothing else runs.
    Within(Vec<Range<usize>>),
    /// Everything except these declarations.
    Outside(Vec<Range<usize>>),
}

impl ExecutableLines {
    pub(crate) fn contains(&self, line: usize) -> bool {
        match self {
            Self::Within(ranges) => is_within(ranges, line),
            Self::Outside(ranges) => !is_within(ranges, line),
        }
    }
}

/// A language whose lines count anywhere in the file, because loading the file executes it. Scala is among them because its
/// functions need no braces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LoadedLanguage {
    Python,
    JavaScript,
    Ruby,
    Php,
    Scala,
    Shell,
}

fn is_within(ranges: &[Range<usize>], line: usize) -> bool {
    let next = ranges.partition_point(|range| range.end <= line);
    ranges.get(next).is_some_and(|range| range.start <= line)
}

pub(crate) fn find_executable_lines(source: &SourceText<'_>) -> ExecutableLines {
    const NOTHING: ExecutableLines = ExecutableLines::Within(Vec::new());
    if is_stub(source.path) || is_build_file(source.path) {
        return NOTHING;
    }
    match source.language {
        Language::Rust => keyword_functions(source, &["fn"]),
        Language::Go => keyword_functions(source, &["func"]),
        Language::Kotlin => {
            let keywords = ["fun", "init", "constructor", "get", "set", "val", "var"];
            keyword_functions(source, &keywords)
        }
        Language::Swift => {
            let keywords = ["func", "init", "deinit", "subscript", "get", "set", "let", "var"];
            keyword_functions(source, &keywords)
        }
        Language::Java | Language::CSharp | Language::C => braced_functions(source),
        Language::Python => loaded_lines(source, LoadedLanguage::Python),
        Language::JavaScript => loaded_lines(source, LoadedLanguage::JavaScript),
        Language::Ruby => loaded_lines(source, LoadedLanguage::Ruby),
        Language::Php => loaded_lines(source, LoadedLanguage::Php),
        Language::Scala => loaded_lines(source, LoadedLanguage::Scala),
        Language::Shell => loaded_lines(source, LoadedLanguage::Shell),
        Language::Bats
        | Language::Config
        | Language::Sql
        | Language::Html
        | Language::Css
        | Language::Unknown
        | Language::Prose => NOTHING,
    }
}

/// A file with types for a checker. Its functions have no bodies.
fn is_stub(path: &str) -> bool {
    [".d.ts", ".d.mts", ".d.cts", ".pyi"].iter().any(|end| path.ends_with(end))
}

/// Whether a build tool runs or reads the file, and tests never load it. Exact names only: a change must not exempt its
/// code by a name of its choice.
fn is_build_file(path: &str) -> bool {
    const NAMES: [&str; 7] = [
        "Jenkinsfile",
        "Gemfile",
        "Rakefile",
        "Podfile",
        "Package.swift",
        "setup.py",
        "noxfile.py",
    ];
    const STEMS: [&str; 15] = [
        "astro.config.",
        "gulpfile.",
        "Gruntfile.",
        "metro.config.",
        "next.config.",
        "nuxt.config.",
        "postcss.config.",
        "prettier.config.",
        "rollup.config.",
        "stylelint.config.",
        "svelte.config.",
        "tailwind.config.",
        "tsup.config.",
        "vue.config.",
        "webpack.config.",
    ];
    let name = file_name(path);
    NAMES.contains(&name)
        || STEMS.iter().any(|stem| name.starts_with(stem))
        || [".gradle", ".gradle.kts"].iter().any(|end| name.ends_with(end))
        || ["docs/conf.py", "docs/source/conf.py", "doc/conf.py", "doc/source/conf.py"].iter().any(
            |known| {
                path.strip_suffix(known).is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
            },
        )
}

/// All lines but declarations, if any line defines a function or does something when the file is loaded.
fn loaded_lines(source: &SourceText<'_>, language: LoadedLanguage) -> ExecutableLines {
    let declarations = find_declarations(source, language);
    let runs = |number| {
        !is_within(&declarations, number)
            && (defines_function(source, language, number)
                || acts_when_loaded(source, language, number))
    };
    if (1..=source.line_count()).any(runs) {
        ExecutableLines::Outside(declarations)
    } else {
        ExecutableLines::Within(Vec::new())
    }
}

/// The functions that begin with a keyword, each from there to the end of its body.
fn keyword_functions(source: &SourceText<'_>, keywords: &[&str]) -> ExecutableLines {
    let mut found: Vec<Range<usize>> = Vec::new();
    let mut passed = 0;
    for (at, word) in split_words(&source.code).filter(|(_, word)| keywords.contains(word)) {
        let next = source.code.as_bytes().get(skip_space(&source.code, at + word.len()));
        // `@get:JsonProperty` is an annotation, and `init` may be the name of a property.
        let is_other = matches!(word, "get" | "set" | "init") && !matches!(next, Some(b'(' | b'{'));
        if at < passed || is_other {
            continue;
        }
        // A property runs something if it has a block: an accessor, a lambda, `by lazy { … }`.
        let is_property = matches!(word, "val" | "var" | "let");
        let signature = end_of_signature(source, at, is_property);
        passed = signature.end;
        if signature.has_body {
            let lines = source.line_of(at)..source.line_of(signature.end.saturating_sub(1)) + 1;
            found.push(lines);
        }
    }
    ExecutableLines::Within(found)
}

struct FunctionExtent {
    has_body: bool,
    /// The position after the body, or after the signature if there is no body.
    end: usize,
}

/// Follows a signature to its body, past brackets.
fn end_of_signature(source: &SourceText<'_>, from: usize, is_property: bool) -> FunctionExtent {
    let bytes = source.code.as_bytes();
    let ends_with_line = source.language != Language::Rust;
    let (mut at, mut is_expression) = (from, false);
    while at < from.saturating_add(MAX_SIGNATURE_BYTES) {
        let Some(byte) = bytes.get(at) else { break };
        match byte {
            b'(' | b'[' => match source.brackets.close_of(at) {
                Some(close) => at = close,
                None => break,
            },
            b'{' => {
                let close = source.brackets.close_of(at).unwrap_or(at);
                let before = source.code.get(from..at).unwrap_or_default();
                let is_type = matches!(last_word(before), "interface" | "struct");
                // The type of a result in Go, or a property of a protocol in Swift.
                let block = source.code.get(at + 1..close).unwrap_or_default();
                let is_body = !is_type && (!is_property || !names_accessors_only(block));
                if is_body {
                    return FunctionExtent { has_body: true, end: close + 1 };
                }
                at = close;
            }
            b';' | b'}' => break,
            // A property in the parameters of a constructor.
            b')' | b',' if is_property => break,
            // `fun total() = 3`
            b'=' if source.language == Language::Kotlin && !is_property => is_expression = true,
            b'\n' if ends_with_line => {
                let next = skip_space(&source.code, at);
                if !continues_signature(source.code.get(next..).unwrap_or_default()) {
                    break;
                }
                at = next - 1;
            }
            _ => {}
        }
        at += 1;
    }
    FunctionExtent { has_body: is_expression, end: at }
}

/// `get set`, without what they do.
fn names_accessors_only(block: &str) -> bool {
    block.chars().all(|char| char.is_alphabetic() || char.is_whitespace())
        && split_words(block).all(|(_, word)| matches!(word, "get" | "set" | "async" | "throws"))
}

/// Whether this rest of the code, on a new line, belongs to the signature, in a language whose statements end with their line.
fn continues_signature(rest: &str) -> bool {
    ["{", ":", "->", "="].iter().any(|start| rest.starts_with(start))
        || matches!(word_at(rest, 0), "where" | "throws" | "async")
}

/// The blocks that parameters precede, outside of one another. Control flow occurs only inside of functions.
fn braced_functions(source: &SourceText<'_>) -> ExecutableLines {
    let code = &source.code;
    let bytes = code.as_bytes();
    let mut found: Vec<Range<usize>> = Vec::new();
    let (mut at, mut start) = (0, 0);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'(' => at = source.brackets.close_of(at).unwrap_or(at),
            // Without a block: `int total() => 3;`
            b';' => {
                let from = start_of_header(code, start, at);
                let statement = code.get(from..at).unwrap_or_default();
                if source.language == Language::CSharp && statement.contains("=>") {
                    found.push(source.line_of(from)..source.line_of(at) + 1);
                }
                start = at + 1;
            }
            b'}' => start = at + 1,
            b'{' => {
                let from = start_of_header(code, start, at);
                let header = code.get(from..at).unwrap_or_default().trim();
                if is_function_header(source.language, header) {
                    let close = source.brackets.close_of(at).unwrap_or(at);
                    at = close;
                    // The initial value of a member, before the body of a constructor in C++.
                    let next = bytes.get(skip_space(code, close + 1));
                    let is_short = close - from < MAX_SIGNATURE_BYTES;
                    if is_short && matches!(next, Some(b'{' | b',')) {
                        (at, start) = (close + 1, from);
                        continue;
                    }
                    found.push(source.line_of(from)..source.line_of(close) + 1);
                }
                start = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    ExecutableLines::Within(found)
}

/// Where a declaration begins, without directives, annotations and attributes on lines of their own.
fn start_of_header(code: &str, start: usize, end: usize) -> usize {
    let mut at = skip_space(code, start).min(end);
    while matches!(code.as_bytes().get(at), Some(b'#' | b'@' | b'[')) {
        let rest = code.get(at..end).unwrap_or_default();
        let Some(line_end) = rest.find('\n') else { break };
        at = skip_space(code, at + line_end).min(end);
    }
    at
}

fn is_function_header(language: Language, header: &str) -> bool {
    const TYPES: [&str; 7] =
        ["class", "interface", "enum", "struct", "union", "record", "namespace"];
    let last = last_word(header);
    let is_accessor = language == Language::CSharp && matches!(last, "get" | "set" | "init");
    let is_initializer = language == Language::Java && last == "static";
    if is_accessor || is_initializer {
        return true;
    }
    if header.starts_with('#') || !header.contains(')') {
        return false;
    }
    let names_type = split_words(header).any(|(at, word)| {
        let end = at + word.len();
        let next = skip_space(header, end);
        TYPES.contains(&word) && next > end && !word_at(header, next).is_empty()
    });
    let ends_parameters =
        header.ends_with(')') || matches!(last, "const" | "noexcept" | "override" | "final");
    // In C, the type of a result may be `struct cart`.
    !names_type || language == Language::C && ends_parameters
}

/// Imports, and types in TypeScript, at the left margin.
fn find_declarations(source: &SourceText<'_>, language: LoadedLanguage) -> Vec<Range<usize>> {
    let starts: &[&str] = match language {
        LoadedLanguage::Python => &["import ", "from "],
        LoadedLanguage::JavaScript => &[
            "import ",
            "export {",
            "export *",
            "type ",
            "interface ",
            "declare ",
            "export type ",
            "export interface ",
            "export declare ",
            "export default interface ",
        ],
        LoadedLanguage::Php => &["use ", "namespace "],
        LoadedLanguage::Ruby => &["require ", "require_relative "],
        LoadedLanguage::Scala => &["import ", "package "],
        LoadedLanguage::Shell => &[],
    };
    let mut found = Vec::new();
    let mut number = 1;
    while number <= source.line_count() {
        let code = source.code_of_line(number);
        if starts.iter().any(|start| code.starts_with(start)) {
            let last = last_line_of_statement(source, number);
            found.push(number..last + 1);
            number = last;
        }
        number += 1;
    }
    found
}

fn last_line_of_statement(source: &SourceText<'_>, first: usize) -> usize {
    let mut line = first;
    while line < source.line_count() {
        let range = source.line(line);
        let bytes = source.code.as_bytes();
        let closes = range.clone().filter(|at| matches!(bytes.get(*at), Some(b'(' | b'[' | b'{')));
        let closes = closes.filter_map(|at| source.brackets.close_of(at));
        let last = closes.map(|close| source.line_of(close)).max().unwrap_or(line);
        if last > line {
            line = last;
            continue;
        }
        let code = source.code_of_line(line).trim_end();
        let next = source.code_of_line(line + 1).trim_start();
        let is_open = code.ends_with(['=', '|', '&', '<', ',', '\\', ':', '?'])
            || code.ends_with("=>")
            || !code.ends_with(';') && next.starts_with(['|', '&', '>', '=', '?', ':', '}']);
        if !is_open {
            break;
        }
        line += 1;
    }
    line
}

/// Whether a function with a body seems to begin on this line.
fn defines_function(source: &SourceText<'_>, language: LoadedLanguage, number: usize) -> bool {
    let code = source.code_of_line(number).trim();
    let has_word = |word: &str| word_search::contains_word(code, word);
    match language {
        // Loops also run in the body of a class.
        LoadedLanguage::Python => {
            ["def", "lambda"].iter().any(|word| has_word(word))
                || matches!(word_at(code, 0), "for" | "while" | "with" | "try")
        }
        LoadedLanguage::Ruby => {
            ["def", "define_method", "lambda", "proc"].iter().any(|word| has_word(word))
                || code.contains("->")
        }
        LoadedLanguage::JavaScript => {
            code.contains("=>") && !code.starts_with("type ")
                || has_word("function")
                || code.starts_with("static {")
                || code.contains('(') && code.ends_with('{')
                || has_block_after_parameters(code, source.code_of_line(number + 1))
        }
        LoadedLanguage::Php => {
            has_word("function") && !code.ends_with(';') || has_word("fn") && code.contains("=>")
        }
        LoadedLanguage::Scala => {
            has_word("def") && code.contains('=') || code.ends_with("extends App {")
        }
        LoadedLanguage::Shell => has_word("function") || code.contains("()"),
    }
}

/// `total(a, b) { … }`, `total(a: number): number { … }`, or the brace on the next line.
fn has_block_after_parameters(code: &str, next: &str) -> bool {
    code.match_indices(')').any(|(at, _)| {
        let rest = code.get(at + 1..).unwrap_or_default().trim_start();
        let is_block_next = next.trim_start().starts_with('{');
        rest.starts_with('{')
            || rest.starts_with(':') && rest.contains('{')
            || (rest.is_empty() || rest.starts_with(':')) && is_block_next
    })
}

/// Whether a statement at the left margin does something when the file is loaded: a call for its effect, a loop, a
/// condition. An assignment does not count, so that files with constants and tables have nothing to run.
fn acts_when_loaded(source: &SourceText<'_>, language: LoadedLanguage, number: usize) -> bool {
    let code = source.code_of_line(number);
    if source.starts_inside_literal(number) {
        return false;
    }
    let first = word_at(code, 0);
    let is_call = || {
        let name = code
            .bytes()
            .take_while(|byte| word_search::is_word_byte(*byte) || matches!(byte, b'.' | b'$'));
        let length = name.count();
        length > 0 && code.get(length..).is_some_and(|rest| rest.starts_with('('))
    };
    match language {
        LoadedLanguage::Python => {
            let is_flow = matches!(
                first,
                "if" | "for" | "while" | "try" | "with" | "await" | "raise" | "assert"
            );
            is_flow && !code.contains("TYPE_CHECKING") || is_call()
        }
        LoadedLanguage::JavaScript => {
            let is_flow = matches!(
                first,
                "if" | "for"
                    | "while"
                    | "do"
                    | "switch"
                    | "try"
                    | "throw"
                    | "await"
                    | "new"
                    | "void"
            );
            is_flow || is_call()
        }
        LoadedLanguage::Ruby => {
            matches!(first, "if" | "unless" | "for" | "while" | "until" | "case" | "begin" | "puts")
                || is_call()
        }
        LoadedLanguage::Shell => {
            let is_setting = matches!(
                first,
                "export" | "readonly" | "declare" | "local" | "alias" | "set" | "shopt" | "source"
            );
            let is_assignment =
                matches!(code.as_bytes().get(first.len()), Some(b'=' | b'+' | b'['));
            let is_command =
                code.starts_with(|char: char| char.is_alphabetic() || "[$/".contains(char));
            is_command && !is_setting && (first.is_empty() || !is_assignment)
        }
        // Routes and settings of frameworks are calls too, and no report names them. In Scala nothing is executed there.
        LoadedLanguage::Php | LoadedLanguage::Scala => false,
    }
}
