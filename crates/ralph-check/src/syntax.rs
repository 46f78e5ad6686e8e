//! The syntax of comments and strings in each language. Constructs that a table cannot describe are in the lexer.

use super::language::Language;

#[derive(Debug)]
pub(super) struct Syntax {
    pub(super) lines: &'static [Leader],
    pub(super) blocks: &'static [Block],
    /// Longer openings first.
    pub(super) quotes: &'static [Quote],
}

/// Starts a comment that ends with its line.
#[derive(Debug)]
pub(super) struct Leader {
    pub(super) text: &'static str,
    pub(super) at: At,
}

#[derive(Debug)]
pub(super) struct Block {
    pub(super) open: &'static str,
    pub(super) close: &'static str,
    pub(super) nesting: Nesting,
}

#[derive(Debug)]
pub(super) struct Quote {
    pub(super) open: &'static str,
    pub(super) close: &'static str,
    pub(super) escape: Escape,
    pub(super) reach: Reach,
    pub(super) at: At,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum At {
    Anywhere,
    /// After white space or a statement separator: not in `a#b` or `http://`.
    Statement,
    /// Where a value may begin: not in `don't`.
    Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Nesting {
    Flat,
    Nested,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Escape {
    Backslash,
    Doubled,
    Nothing,
}

/// How far a string can extend. Where strings end with their line, a stray apostrophe cannot swap code and strings in
/// the rest of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    Line,
    File,
}

const SLASHES: Leader = Leader { text: "//", at: At::Anywhere };
const HASH: Leader = Leader { text: "#", at: At::Anywhere };
const HASH_ALONE: Leader = Leader { text: "#", at: At::Statement };
const DASHES: Leader = Leader { text: "--", at: At::Anywhere };
const SLASHES_ALONE: Leader = Leader { text: "//", at: At::Statement };

const BLOCK: Block = Block { open: "/*", close: "*/", nesting: Nesting::Flat };
const NESTED: Block = Block { open: "/*", close: "*/", nesting: Nesting::Nested };
const MARKUP: Block = Block { open: "<!--", close: "-->", nesting: Nesting::Flat };

const fn quote(text: &'static str, escape: Escape, reach: Reach) -> Quote {
    Quote { open: text, close: text, escape, reach, at: At::Anywhere }
}

const DOUBLE: Quote = quote("\"", Escape::Backslash, Reach::Line);
const SINGLE: Quote = quote("'", Escape::Backslash, Reach::Line);
const DOUBLE_LONG: Quote = quote("\"", Escape::Backslash, Reach::File);
const TRIPLE: Quote = quote("\"\"\"", Escape::Backslash, Reach::File);
const TRIPLE_SINGLE: Quote = quote("'''", Escape::Backslash, Reach::File);
const RAW_TICK: Quote = quote("`", Escape::Nothing, Reach::File);
const PLAIN: Quote = quote("'", Escape::Nothing, Reach::File);
const SINGLE_LONG: Quote = quote("'", Escape::Backslash, Reach::File);
const DOUBLED: Quote = quote("'", Escape::Doubled, Reach::File);
const DOUBLE_ALONE: Quote = Quote { at: At::Value, ..DOUBLE };
const SINGLE_ALONE: Quote = Quote { at: At::Value, ..quote("'", Escape::Nothing, Reach::Line) };
const TRIPLE_RAW: Quote = quote("'''", Escape::Nothing, Reach::File);

static RUST: Syntax = Syntax { lines: &[SLASHES], blocks: &[NESTED], quotes: &[DOUBLE_LONG] };
static JAVASCRIPT: Syntax =
    Syntax { lines: &[SLASHES], blocks: &[BLOCK, MARKUP], quotes: &[DOUBLE, SINGLE] };
static PYTHON: Syntax =
    Syntax { lines: &[HASH], blocks: &[], quotes: &[TRIPLE, TRIPLE_SINGLE, DOUBLE, SINGLE] };
static GO: Syntax =
    Syntax { lines: &[SLASHES], blocks: &[BLOCK], quotes: &[DOUBLE, SINGLE, RAW_TICK] };
static JAVA: Syntax =
    Syntax { lines: &[SLASHES], blocks: &[BLOCK], quotes: &[TRIPLE, DOUBLE, SINGLE] };
static NESTING_JAVA: Syntax =
    Syntax { lines: &[SLASHES], blocks: &[NESTED], quotes: &[TRIPLE, DOUBLE, SINGLE] };
static C: Syntax = Syntax { lines: &[SLASHES], blocks: &[BLOCK], quotes: &[DOUBLE, SINGLE] };
static SWIFT: Syntax = Syntax { lines: &[SLASHES], blocks: &[NESTED], quotes: &[TRIPLE, DOUBLE] };
static PHP: Syntax =
    Syntax { lines: &[SLASHES, HASH_ALONE], blocks: &[BLOCK], quotes: &[DOUBLE_LONG, SINGLE_LONG] };
static RUBY: Syntax = Syntax {
    lines: &[HASH_ALONE],
    blocks: &[Block { open: "\n=begin", close: "\n=end", nesting: Nesting::Flat }],
    quotes: &[DOUBLE, SINGLE],
};
static SHELL: Syntax = Syntax { lines: &[HASH_ALONE], blocks: &[], quotes: &[DOUBLE_LONG, PLAIN] };
static CONFIG: Syntax = Syntax {
    lines: &[HASH_ALONE],
    blocks: &[],
    quotes: &[TRIPLE, TRIPLE_RAW, DOUBLE_ALONE, SINGLE_ALONE],
};
static SQL: Syntax = Syntax { lines: &[DASHES], blocks: &[BLOCK], quotes: &[DOUBLED] };
static HTML: Syntax = Syntax { lines: &[], blocks: &[MARKUP], quotes: &[] };
static CSS: Syntax =
    Syntax { lines: &[SLASHES_ALONE], blocks: &[BLOCK], quotes: &[DOUBLE, SINGLE] };
static NOTHING: Syntax = Syntax { lines: &[], blocks: &[], quotes: &[] };

pub(super) fn of(language: Language) -> &'static Syntax {
    match language {
        Language::Rust => &RUST,
        Language::JavaScript => &JAVASCRIPT,
        Language::Python => &PYTHON,
        Language::Go => &GO,
        Language::Java | Language::CSharp => &JAVA,
        Language::Kotlin | Language::Scala => &NESTING_JAVA,
        Language::C => &C,
        Language::Swift => &SWIFT,
        Language::Php => &PHP,
        Language::Ruby => &RUBY,
        Language::Shell => &SHELL,
        Language::Config => &CONFIG,
        Language::Sql => &SQL,
        Language::Html => &HTML,
        Language::Css => &CSS,
        Language::Unknown | Language::Prose => &NOTHING,
    }
}
