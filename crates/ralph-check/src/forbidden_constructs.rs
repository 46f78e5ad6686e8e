//! Constructs that must not be left in code, by language. The list is short, so that people agree with every finding:
//! printing is the purpose of many programs, so `print` and `println!` count only if the printed text looks like
//! debugging.

use super::language::Language;
use ralph_core::policy::LineCheck;

#[derive(Debug)]
pub(super) struct ForbiddenConstruct {
    pub(super) languages: &'static [Language],
    /// Searched for in code as a whole word.
    pub(super) needle: &'static str,
    /// Reported under the first of these that the policy forbids.
    pub(super) checks: &'static [LineCheck],
    pub(super) when: ConstructCondition,
}

/// Where a construct counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConstructCondition {
    Always,
    /// At the start of a line, where it cannot be another use of the name.
    Statement,
    /// As a complete statement.
    Alone,
    /// If the module is only imported: a program may have a debugger of its own.
    UnusedModule,
    /// In a file that a test runner collects.
    InTests,
    /// In such a file, and not under a condition.
    Unconditional,
    /// Anywhere but in a file of tests, where it explains a failure and is shown only then.
    OutsideTests,
    /// Anywhere but in a program whose purpose is to print.
    NotInScripts,
    /// If the printed text looks like debugging.
    DebugText,
    /// If the first argument is a constant.
    ConstantCondition,
}

use ConstructCondition::{
    Alone, Always, ConstantCondition, DebugText, InTests, NotInScripts, OutsideTests, Statement,
    Unconditional, UnusedModule,
};
use Language as L;
use LineCheck::{DebugPrint, Debugger, Placeholder, SkippedTest};

const fn construct(
    language: &'static [Language],
    needle: &'static str,
    checks: &'static [LineCheck],
    when: ConstructCondition,
) -> ForbiddenConstruct {
    ForbiddenConstruct { languages: language, needle, checks, when }
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
const DEBUGGER_OR_PRINT: &[LineCheck] = &[Debugger, DebugPrint];
const PLACEHOLDER: &[LineCheck] = &[Placeholder];
const SKIP: &[LineCheck] = &[SkippedTest];

pub(super) static CONSTRUCTS: &[ForbiddenConstruct] = &[
    construct(RUST, "todo!", PLACEHOLDER, Always),
    construct(RUST, "unimplemented!", PLACEHOLDER, Always),
    construct(&[L::Kotlin], "TODO(", PLACEHOLDER, Always),
    construct(&[L::Scala], "???", PLACEHOLDER, Always),
    construct(CSHARP, "throw new NotImplementedException(", PLACEHOLDER, Always),
    construct(JS, "console.log(", PRINT, NotInScripts),
    construct(JS, "console.debug(", PRINT, Always),
    construct(JS, "console.dir(", PRINT, Always),
    construct(JS, "console.trace(", PRINT, Always),
    construct(JS, "console.table(", PRINT, NotInScripts),
    construct(PYTHON, "print(", PRINT, DebugText),
    construct(PYTHON, "pprint(", PRINT, NotInScripts),
    construct(RUST, "println!(", PRINT, DebugText),
    construct(RUST, "eprintln!(", PRINT, DebugText),
    construct(RUST, "dbg!", DEBUGGER_OR_PRINT, OutsideTests),
    construct(GO, "fmt.Println(", PRINT, DebugText),
    construct(GO, "fmt.Printf(", PRINT, DebugText),
    construct(GO, "log.Println(", PRINT, DebugText),
    construct(GO, "log.Printf(", PRINT, DebugText),
    construct(GO, "println(", PRINT, DebugText),
    construct(GO, "spew.Dump(", PRINT, Always),
    construct(&[L::Java], "System.out.println(", PRINT, NotInScripts),
    construct(&[L::Java], "System.err.println(", PRINT, DebugText),
    construct(JVM, "printStackTrace()", PRINT, Always),
    construct(&[L::Kotlin, L::Scala], "println(", PRINT, DebugText),
    construct(CSHARP, "Console.WriteLine(", PRINT, DebugText),
    construct(C, "printf(", PRINT, DebugText),
    construct(C, "std::cout <<", PRINT, DebugText),
    construct(C, "std::cerr <<", PRINT, DebugText),
    construct(&[L::Swift], "print(", PRINT, DebugText),
    construct(PHP, "var_dump(", PRINT, Always),
    construct(PHP, "dd(", PRINT, Statement),
    construct(RUBY, "puts", PRINT, DebugText),
    construct(JS, "debugger", DEBUGGER, Alone),
    construct(PYTHON, "breakpoint()", DEBUGGER, Always),
    construct(PYTHON, "pdb.set_trace(", DEBUGGER, Always),
    construct(PYTHON, "ipdb.set_trace(", DEBUGGER, Always),
    construct(PYTHON, "pudb.set_trace(", DEBUGGER, Always),
    construct(PYTHON, "import pdb", DEBUGGER, UnusedModule),
    construct(PYTHON, "import ipdb", DEBUGGER, UnusedModule),
    construct(PYTHON, "import pudb", DEBUGGER, UnusedModule),
    construct(PYTHON, "from pdb import", DEBUGGER, Always),
    construct(GO, "runtime.Breakpoint()", DEBUGGER, Always),
    construct(CSHARP, "Debugger.Break()", DEBUGGER, Always),
    construct(C, "__debugbreak()", DEBUGGER, Always),
    construct(PHP, "xdebug_break()", DEBUGGER, Always),
    construct(RUBY, "binding.pry", DEBUGGER, Always),
    construct(RUBY, "binding.irb", DEBUGGER, Always),
    construct(RUBY, "byebug", DEBUGGER, Alone),
    construct(RUBY, "debugger", DEBUGGER, Alone),
    construct(RUST, "#[ignore", SKIP, Always),
    construct(JS, "it.skip(", SKIP, Always),
    construct(JS, "it.skip.each", SKIP, Always),
    construct(JS, "test.skip(", SKIP, InTests),
    construct(JS, "test.skip.each", SKIP, Always),
    construct(JS, "describe.skip(", SKIP, Always),
    construct(JS, "context.skip(", SKIP, InTests),
    construct(JS, "it.todo(", SKIP, Always),
    construct(JS, "test.todo(", SKIP, InTests),
    construct(JS, "test.fixme(", SKIP, InTests),
    construct(JS, "it.fails(", SKIP, InTests),
    construct(JS, "test.fails(", SKIP, InTests),
    construct(JS, "it.failing(", SKIP, InTests),
    construct(JS, "test.failing(", SKIP, InTests),
    construct(JS, "it.only(", SKIP, Always),
    construct(JS, "it.only.each", SKIP, Always),
    construct(JS, "test.only(", SKIP, InTests),
    construct(JS, "test.only.each", SKIP, Always),
    construct(JS, "describe.only(", SKIP, Always),
    construct(JS, "context.only(", SKIP, InTests),
    construct(JS, "this.skip()", SKIP, Unconditional),
    construct(JS, "xit(", SKIP, InTests),
    construct(JS, "xtest(", SKIP, InTests),
    construct(JS, "xdescribe(", SKIP, InTests),
    construct(JS, "fit(", SKIP, InTests),
    construct(JS, "fdescribe(", SKIP, InTests),
    construct(PYTHON, "@pytest.mark.skip", SKIP, Always),
    construct(PYTHON, "@pytest.mark.skipif(", SKIP, ConstantCondition),
    construct(PYTHON, "@pytest.mark.xfail", SKIP, Always),
    construct(PYTHON, "pytestmark = pytest.mark.skip", SKIP, Always),
    construct(PYTHON, "pytest.skip(", SKIP, Unconditional),
    construct(PYTHON, "pytest.xfail(", SKIP, Unconditional),
    construct(PYTHON, "self.skipTest(", SKIP, Unconditional),
    construct(PYTHON, "@unittest.skip", SKIP, Always),
    construct(PYTHON, "@unittest.skipIf(", SKIP, ConstantCondition),
    construct(PYTHON, "@unittest.expectedFailure", SKIP, Always),
    construct(GO, "t.Skip(", SKIP, Unconditional),
    construct(GO, "t.Skipf(", SKIP, Unconditional),
    construct(GO, "t.SkipNow(", SKIP, Unconditional),
    construct(JVM, "@Disabled", SKIP, InTests),
    construct(JVM, "@Ignore", SKIP, InTests),
    construct(CSHARP, "(Skip =", SKIP, InTests),
    construct(RUBY, "xit", SKIP, InTests),
    construct(RUBY, "xdescribe", SKIP, InTests),
    construct(PHP, "markTestSkipped(", SKIP, Unconditional),
    construct(PHP, "markTestIncomplete(", SKIP, Always),
];

/// Phrases that replace missing code in comments. Lower case.
pub(super) const COMMENT_PLACEHOLDERS: &[&str] = &[
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
pub(super) const ERROR_PLACEHOLDERS: &[&str] =
    &["not implemented", "not yet implemented", "unimplemented", "implement me", "todo"];

/// The construct that, with one of [`ERROR_PLACEHOLDERS`], is a placeholder in each language.
pub(super) const ERROR_CONSTRUCTS: &[(Language, &str)] = &[
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
