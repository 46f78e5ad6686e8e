//! The lines of a change that tests should run.

use super::executable_lines::find_executable_lines;
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
    /// Those that could run, as far as the text shows. A file with types and constants alone has nothing to run.
    pub code: Vec<u32>,
    /// The usual ending of the language, for a script whose name has none: `py`.
    pub script_ending: Option<&'static str>,
    /// Marks among them that keep a coverage tool from measuring lines.
    pub exclusions: Vec<CoverageExclusion>,
    /// All new lines with code, if there is such a mark: any of them may be excluded by it.
    pub excluded_code: Vec<u32>,
    /// How many lines the file has now.
    pub line_count: u32,
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

fn find_exclusion(language: Language, line: u32, text: &str) -> Option<CoverageExclusion> {
    if let Some(mark) = find_line_directive(language, text) {
        return Some(CoverageExclusion { line, mark });
    }
    let plain = |char: char| (!char.is_whitespace()).then(|| char.to_ascii_lowercase());
    let bare: String = text.chars().filter_map(plain).collect();
    let found = EXCLUSION_MARKS.iter().find(|(_, wanted)| bare.contains(wanted));
    found.map(|(mark, _)| CoverageExclusion { line, mark })
}

/// A directive by which a compiler counts the lines that follow as those of another place.
fn find_line_directive(language: Language, text: &str) -> Option<&'static str> {
    let text = text.trim_start();
    if matches!(language, Language::C | Language::CSharp) {
        let rest = text.strip_prefix('#')?.trim_start();
        let is_number = rest.starts_with(|char: char| char.is_ascii_digit());
        (is_number || rest.starts_with("line")).then_some("#line")
    } else if language == Language::Go {
        (text.starts_with("//line ") || text.contains("/*line ")).then_some("//line")
    } else if language == Language::JavaScript {
        text.contains("sourceMappingURL=").then_some("sourceMappingURL")
    } else {
        None
    }
}

/// Finds the lines that a change added to a file.
pub fn find_changed_code(change: &FileChange<'_>, moved: &MovedLines<'_>) -> ChangedCode {
    let Some(after) = change.after.filter(|_| !change.added.is_empty()) else {
        return ChangedCode::default();
    };
    // A name that looks generated is no reason to run nothing of it.
    let named = Language::of_name(change.path);
    let script = (named == Language::Unknown).then(|| Language::of_script(after)).flatten();
    let (language, script_ending) =
        script.map_or((named, None), |script| (script.language, Some(script.ending)));
    let source = SourceText::of_language(change.path, after, language);
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
    let exclusions: Vec<CoverageExclusion> =
        lines.iter().filter_map(|line| find_exclusion(language, *line, text_of(*line))).collect();
    let excluded_code = if exclusions.is_empty() { Vec::new() } else { code.clone() };
    let executable = find_executable_lines(&source);
    let code = code.into_iter().filter(|line| executable.contains(number(*line))).collect();
    let line_count = u32::try_from(source.line_count()).unwrap_or(u32::MAX);
    ChangedCode { lines, code, script_ending, exclusions, excluded_code, line_count }
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

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use ralph_core::line_set::LineSet;

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

    /// A new file, and those of its lines that tests should run.
    const LINES_TO_COVER: [(&str, &str, &str); 56] = [
        ("a.rs", "pub fn add(a: i32) -> i32 {\n", "1"),
        ("a.rs", "    fn add(a: i32) -> i32;\n", ""),
        ("a.rs", "use a::b;\npub struct Cart {\n    a: fn(i32) -> i32,\n}\n", ""),
        (
            "a.rs",
            "const A: u8 = 1;\n#[inline]\nfn a(\n    b: [u8; 4],\n)\nwhere\n    u8: Copy,\n{\n    b;\n}\n",
            "3-4,6-7,9",
        ),
        ("a.py", "async def add(a):\n", "1"),
        (
            "a.py",
            "import b\nfrom c import (\n    d,\n)\nA = 1\n\ndef e():\n    return A\n",
            "5,7-8",
        ),
        ("a.py", "price = lambda prices: prices[0]\n", "1"),
        ("a.py", "import os\n\nos.makedirs(path)\n", "3"),
        ("a.py", "for name in NAMES:\n    send(name)\n", "1-2"),
        ("a.py", "LIMIT = 3\nNAMES = frozenset({\"a\"})\nWORD = re.compile(r\"\\w\")\n", ""),
        (
            "a.py",
            "if TYPE_CHECKING:\n    from b import C\n\n@dataclass(frozen=True)\nclass A(B):\n    c: C = field()\n",
            "",
        ),
        ("a.pyi", "def add(a: int) -> int: ...\n", ""),
        ("setup.py", "setup(name=read())\n", ""),
        ("docs/conf.py", "sys.path.insert(0, up)\n", ""),
        ("shop/setup_cart.py", "setup(name=read())\n", "1"),
        (
            "a.go",
            "package a\n\nfunc Add(a interface{}) interface{} {\n\treturn a\n}\n\nvar b = 1\n",
            "3-4",
        ),
        ("a.go", "type Add func(a int) int\ntype Cart interface {\n\tAdd(a int) int\n}\n", ""),
        ("a.ts", "export const add = (a: number) => a + 1;\n", "1"),
        ("a.ts", "  total(prices: number[]): number {\n", "1"),
        ("a.ts", "type Add = (a: number) => number;\n", ""),
        (
            "a.ts",
            "export type Add =\n  | ((a: number) => number)\n  | null;\n\nexport interface Cart {\n  add: (a: number) => void;\n}\n",
            "",
        ),
        (
            "a.ts",
            "import { b } from 'b';\n\ntype C = {\n  d: () => void;\n};\n\nfunction e() {\n  b();\n}\n",
            "7-8",
        ),
        ("a.ts", "import { start } from 'b';\n\nstart();\n", "3"),
        ("a.ts", "export const NAMES = new Set(['a']);\n", ""),
        ("a.d.ts", "export declare function add(a: number): number;\n", ""),
        ("tailwind.config.js", "module.exports = theme((t) => t);\n", ""),
        ("A.java", "  int add(int a) {\n", "1"),
        ("A.java", "  int add(int a);\n", ""),
        (
            "A.java",
            "@Table(name = \"a\")\npublic class A {\n  int b = 1;\n\n  @Override\n  public int add(int a)\n  {\n    return a;\n  }\n}\n",
            "6,8",
        ),
        ("A.java", "record Point(int x) {\n  int y = 1;\n}\n", ""),
        ("build.gradle", "tasks.named('test') {\n  a()\n}\n", ""),
        (
            "A.cs",
            "class A\n{\n  int B { get; set; }\n  int C => 1;\n  int D()\n  {\n    return 1;\n  }\n}\n",
            "4-5,7",
        ),
        ("a.c", "int add(int a);\n", ""),
        (
            "a.c",
            "#include <b.h>\n#define C(d) {\nstruct e {\n  int f;\n};\nstruct e *g(int h)\n{\n  return 0;\n}\n",
            "6,8",
        ),
        ("a.cpp", "A::A(int b) : c{b}, d(b) {\n  e();\n}\nint f = 1;\n", "1-2"),
        (
            "A.kt",
            "data class A(\n  @get:B(\"c\") val d: Int = 1,\n)\n\nfun e() = 1\n\nclass F {\n  val g = 1\n}\n",
            "5",
        ),
        (
            "A.swift",
            "protocol A {\n  func b() -> Int\n  var c: Int { get set }\n}\nfunc d() -> Int {\n  1\n}\n",
            "5-6",
        ),
        ("a.rb", "require 'b'\n\nC = 1\n\ndef d\n  C\nend\n", "3,5-7"),
        ("a.php", "<?php\nuse B;\nreturn ['c' => env('D')];\n", ""),
        ("a.sh", "add() {\n", "1"),
        ("a.sh", "export A=1\nB=2\n", ""),
        ("a.sh", "set -e\nrm -r \"$A\"\n", "1-2"),
        ("bin/add", "#!/usr/bin/env -S python3.13 -I\nimport b\nb.run()\n", "3"),
        ("bin/add", "import b\nb.run()\n", ""),
        ("README.md", "def add():\n", ""),
        ("a.js", "class A\n{\n  add(b) { return b }\n}\n", "1,3"),
        ("a.ts", "class A\n{\n  add(b: number): number\n  {\n    throw b\n  }\n}\n", "1,3,5"),
        ("a.js", "const b = require('b')\nmodule.exports = { c: [1] }\n", ""),
        ("a.py", "class A:\n    for name in NAMES:\n        send(name)\n", "1-3"),
        ("a.rb", "A = ->(b) { b }\nC = proc { 1 }\n", "1-2"),
        ("a.php", "<?php\nreturn ['a' => fn($b) => $b];\n", "1-2"),
        ("a.scala", "object A extends App {\n  println(1)\n}\n", "1-2"),
        (
            "A.kt",
            "class A(val b: Int) {\n  val c = { d: Int ->\n    d\n  }\n  val e = 1\n}\n",
            "2-3",
        ),
        (
            "A.swift",
            "struct A {\n  let b = 1\n  var c: Int {\n    b + 1\n  }\n  subscript(d: Int) -> Int {\n    d\n  }\n}\n",
            "3-4,6-7",
        ),
        ("A.kt", "val a by lazy { b() }\n", "1"),
        ("A.swift", "let a = b.map { c($0) }\n", "1"),
    ];

    #[test]
    fn only_what_could_run_is_to_be_covered() {
        for (path, text, expected) in LINES_TO_COVER {
            let code = LineSet::from_lines(found(path, "", text).code);
            let ranges = code.ranges().iter().map(|range| {
                if range.first == range.last {
                    format!("{}", range.first)
                } else {
                    format!("{}-{}", range.first, range.last)
                }
            });
            assert_eq!(ranges.collect::<Vec<_>>().join(","), expected, "{path} {text}");
        }
    }

    /// A changed body is code to run, wherever its function begins.
    #[test]
    fn a_changed_line_inside_of_a_function_counts() {
        for (path, text, expected) in [
            ("a.py", "def total(prices):\n    return sum(prices) * 2\n", true),
            ("a.rs", "fn total() -> u32 {\n    1 + 1\n}\n", true),
            ("a.rs", "fn total() {}\nconst A: u32 = 1;\n", false),
            ("A.java", "class A {\n  int b = 1;\n  int c() { return 1; }\n}\n", false),
        ] {
            let added = [2];
            let change = FileChange { path, before: Some(""), after: Some(text), added: &added };
            let all = [change];
            let changed = find_changed_code(&all[0], &MovedLines::new(&all));
            assert_eq!(!changed.code.is_empty(), expected, "{path} {text}");
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
            ("a.c", "#line 900 \"a.c\"", Some("#line")),
            ("a.c", "# 900 \"a.c\"", Some("#line")),
            ("a.py", "# line 900", None),
            ("a.go", "//line a.go:900", Some("//line")),
            ("a.js", "//# sourceMappingURL=a.js.map", Some("sourceMappingURL")),
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
