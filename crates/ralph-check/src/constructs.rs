//! Constructs that must not be left in code, by language. The list is short, so that people agree with every finding:
//! printing is the purpose of many programs, so `print` and `println!` count only if the printed text looks like
//! debugging.

use super::language::Language;
use ralph_core::policy::LineCheck;

#[derive(Debug)]
pub(super) struct Construct {
    pub(super) languages: &'static [Language],
    /// Searched for in code as a whole word.
    pub(super) needle: &'static str,
    /// Reported under the first of these that the policy forbids.
    pub(super) checks: &'static [LineCheck],
    pub(super) when: When,
}

/// Where a construct counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    Always,
    /// At the start of a line, where it cannot be another use of the name.
    Statement,
    /// As a complete statement.
    Alone,
    /// In a file that a test runner collects.
    InTests,
    /// In such a file, and not under a condition.
    Unconditional,
    /// Anywhere but in a program whose purpose is to print.
    NotInScripts,
    /// If the printed text looks like debugging.
    DebugText,
    /// If the first argument is a constant.
    ConstantCondition,
}

use Language as L;
use LineCheck::{DebugPrint, Debugger, Placeholder, SkippedTest};
use When::{
    Alone, Always, ConstantCondition, DebugText, InTests, NotInScripts, Statement, Unconditional,
};

const fn one(
    language: &'static [Language],
    needle: &'static str,
    checks: &'static [LineCheck],
    when: When,
) -> Construct {
    Construct { languages: language, needle, checks, when }
}

const RUST: &[Language] = &[L::Rust];
const JS: &[Language] = &[L::JavaScript];
const PYTHON: &[Language] = &[L::Python];
const GO: &[Language] = &[L::Go];
const JVM: &[Language] = &[L::Java, L::Kotlin, L::Scala];
const CSHARP: &[Language] = &[L::CSharp];
const C: &[Language] = &[L::C];
const RUBY: &[Language] = &[L::Ruby];
const PHP: &[Language] = &[L::Php];

const PRINT: &[LineCheck] = &[DebugPrint];
const DEBUGGER: &[LineCheck] = &[Debugger];
const EITHER: &[LineCheck] = &[Debugger, DebugPrint];
const HOLE: &[LineCheck] = &[Placeholder];
const SKIP: &[LineCheck] = &[SkippedTest];

pub(super) static CONSTRUCTS: &[Construct] = &[
    one(RUST, "todo!", HOLE, Always),
    one(RUST, "unimplemented!", HOLE, Always),
    one(&[L::Kotlin], "TODO(", HOLE, Always),
    one(&[L::Scala], "???", HOLE, Always),
    one(CSHARP, "throw new NotImplementedException(", HOLE, Always),
    one(JS, "console.log(", PRINT, NotInScripts),
    one(JS, "console.debug(", PRINT, Always),
    one(JS, "console.dir(", PRINT, Always),
    one(JS, "console.trace(", PRINT, Always),
    one(JS, "console.table(", PRINT, NotInScripts),
    one(PYTHON, "print(", PRINT, DebugText),
    one(PYTHON, "pprint(", PRINT, NotInScripts),
    one(RUST, "println!(", PRINT, DebugText),
    one(RUST, "eprintln!(", PRINT, DebugText),
    one(RUST, "dbg!", EITHER, Always),
    one(GO, "fmt.Println(", PRINT, DebugText),
    one(GO, "fmt.Printf(", PRINT, DebugText),
    one(GO, "log.Println(", PRINT, DebugText),
    one(GO, "log.Printf(", PRINT, DebugText),
    one(GO, "println(", PRINT, DebugText),
    one(GO, "spew.Dump(", PRINT, Always),
    one(&[L::Java], "System.out.println(", PRINT, NotInScripts),
    one(&[L::Java], "System.err.println(", PRINT, DebugText),
    one(JVM, "printStackTrace()", PRINT, Always),
    one(&[L::Kotlin, L::Scala], "println(", PRINT, DebugText),
    one(CSHARP, "Console.WriteLine(", PRINT, DebugText),
    one(C, "printf(", PRINT, DebugText),
    one(C, "std::cout <<", PRINT, DebugText),
    one(C, "std::cerr <<", PRINT, DebugText),
    one(&[L::Swift], "print(", PRINT, DebugText),
    one(PHP, "var_dump(", PRINT, Always),
    one(PHP, "dd(", PRINT, Statement),
    one(RUBY, "puts", PRINT, DebugText),
    one(JS, "debugger", DEBUGGER, Alone),
    one(PYTHON, "breakpoint()", DEBUGGER, Always),
    one(PYTHON, "pdb.set_trace(", DEBUGGER, Always),
    one(PYTHON, "ipdb.set_trace(", DEBUGGER, Always),
    one(PYTHON, "pudb.set_trace(", DEBUGGER, Always),
    one(PYTHON, "import pdb", DEBUGGER, Always),
    one(PYTHON, "import ipdb", DEBUGGER, Always),
    one(PYTHON, "import pudb", DEBUGGER, Always),
    one(PYTHON, "from pdb import", DEBUGGER, Always),
    one(GO, "runtime.Breakpoint()", DEBUGGER, Always),
    one(CSHARP, "Debugger.Break()", DEBUGGER, Always),
    one(C, "__debugbreak()", DEBUGGER, Always),
    one(PHP, "xdebug_break()", DEBUGGER, Always),
    one(RUBY, "binding.pry", DEBUGGER, Always),
    one(RUBY, "binding.irb", DEBUGGER, Always),
    one(RUBY, "byebug", DEBUGGER, Alone),
    one(RUBY, "debugger", DEBUGGER, Alone),
    one(RUST, "#[ignore", SKIP, Always),
    one(JS, "it.skip(", SKIP, Always),
    one(JS, "it.skip.each", SKIP, Always),
    one(JS, "test.skip(", SKIP, InTests),
    one(JS, "test.skip.each", SKIP, Always),
    one(JS, "describe.skip(", SKIP, Always),
    one(JS, "context.skip(", SKIP, InTests),
    one(JS, "it.todo(", SKIP, Always),
    one(JS, "test.todo(", SKIP, InTests),
    one(JS, "test.fixme(", SKIP, InTests),
    one(JS, "it.fails(", SKIP, InTests),
    one(JS, "test.fails(", SKIP, InTests),
    one(JS, "it.failing(", SKIP, InTests),
    one(JS, "test.failing(", SKIP, InTests),
    one(JS, "it.only(", SKIP, Always),
    one(JS, "it.only.each", SKIP, Always),
    one(JS, "test.only(", SKIP, InTests),
    one(JS, "test.only.each", SKIP, Always),
    one(JS, "describe.only(", SKIP, Always),
    one(JS, "context.only(", SKIP, InTests),
    one(JS, "this.skip()", SKIP, Unconditional),
    one(JS, "xit(", SKIP, InTests),
    one(JS, "xtest(", SKIP, InTests),
    one(JS, "xdescribe(", SKIP, InTests),
    one(JS, "fit(", SKIP, InTests),
    one(JS, "fdescribe(", SKIP, InTests),
    one(PYTHON, "@pytest.mark.skip", SKIP, Always),
    one(PYTHON, "@pytest.mark.skipif(", SKIP, ConstantCondition),
    one(PYTHON, "@pytest.mark.xfail", SKIP, Always),
    one(PYTHON, "pytestmark = pytest.mark.skip", SKIP, Always),
    one(PYTHON, "pytest.skip(", SKIP, Unconditional),
    one(PYTHON, "pytest.xfail(", SKIP, Unconditional),
    one(PYTHON, "self.skipTest(", SKIP, Unconditional),
    one(PYTHON, "@unittest.skip", SKIP, Always),
    one(PYTHON, "@unittest.skipIf(", SKIP, ConstantCondition),
    one(PYTHON, "@unittest.expectedFailure", SKIP, Always),
    one(GO, "t.Skip(", SKIP, Unconditional),
    one(GO, "t.Skipf(", SKIP, Unconditional),
    one(GO, "t.SkipNow(", SKIP, Unconditional),
    one(JVM, "@Disabled", SKIP, InTests),
    one(JVM, "@Ignore", SKIP, InTests),
    one(CSHARP, "(Skip =", SKIP, InTests),
    one(RUBY, "xit", SKIP, InTests),
    one(RUBY, "xdescribe", SKIP, InTests),
    one(PHP, "markTestSkipped(", SKIP, Unconditional),
    one(PHP, "markTestIncomplete(", SKIP, Always),
];

/// Phrases that replace missing code in comments. Lower case.
pub(super) const HOLES_IN_COMMENTS: &[&str] = &[
    "rest of the code",
    "rest of code",
    "rest of the implementation",
    "rest of the function",
    "rest of the file remains",
    "... existing code",
    "...existing code",
    "existing code here",
    "remaining code unchanged",
    "remaining code goes",
    "your code here",
    "your implementation here",
    "your logic here",
    "code goes here",
    "implementation goes here",
    "implementation here",
    "logic goes here",
    "logic would go here",
    "implementation would go here",
    "would go here",
    "implement me",
    "implement this later",
    "implementation omitted",
    "omitted for brevity",
    "placeholder implementation",
    "placeholder logic",
    "placeholder for now",
    "stub implementation",
    "stub for now",
    "in a real implementation",
];

/// Error messages that replace missing code. Lower case.
pub(super) const HOLES_IN_ERRORS: &[&str] =
    &["not implemented", "not yet implemented", "unimplemented", "implement me", "todo"];

/// The construct that, with one of [`ERROR_PLACEHOLDERS`], is a placeholder in each language.
pub(super) const THROWS: &[(Language, &str)] = &[
    (L::JavaScript, "throw"),
    (L::Java, "throw"),
    (L::Kotlin, "throw"),
    (L::Scala, "throw"),
    (L::CSharp, "throw"),
    (L::Php, "throw"),
    (L::C, "throw"),
    (L::Go, "panic("),
    (L::Swift, "fatalError("),
];

/// Whether a printed text looks like temporary debugging output.
pub(super) fn looks_like_debugging(printed: &str) -> bool {
    let printed = printed.trim();
    let marked = [
        "DEBUG", "[debug", "debug:", "Debug:", ">>>", "!!!", "***", "@@@", "---->", "====>", "===>",
    ];
    if marked.iter().any(|mark| printed.starts_with(mark)) || printed.contains("=}") {
        return true;
    }
    let is_filler =
        |char: char| char.is_ascii_digit() || char.is_ascii_punctuation() || char == ' ';
    let text = printed.trim_matches(is_filler).to_ascii_lowercase();
    matches!(
        text.as_str(),
        "here"
            | "got here"
            | "i am here"
            | "im here"
            | "reached here"
            | "xxx"
            | "asdf"
            | "aaa"
            | "wtf"
    )
}
