//! The syntax of comments and strings in each language. Constructs that a table cannot describe are in the lexer.

use super::language::Language;

#[derive(Debug)]
pub(super) struct LanguageSyntax {
    pub(super) lines: &'static [LineComment],
    pub(super) blocks: &'static [BlockComment],
    /// Longer openings first.
    pub(super) quotes: &'static [StringQuote],
}

/// Starts a comment that ends with its line.
#[derive(Debug)]
pub(super) struct LineComment {
    pub(super) text: &'static str,
    pub(super) at: StartContext,
}

#[derive(Debug)]
pub(super) struct BlockComment {
    pub(super) open: &'static str,
    pub(super) close: &'static str,
    pub(super) nesting: CommentNesting,
}

#[derive(Debug)]
pub(super) struct StringQuote {
    pub(super) open: &'static str,
    pub(super) close: &'static str,
    pub(super) escape: QuoteEscape,
    pub(super) reach: QuoteExtent,
    pub(super) at: StartContext,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StartContext {
    Anywhere,
    /// After white space or a statement separator: not in `a#b` or `http://`.
    Statement,
    /// Where a value may begin: not in `don't`.
    Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommentNesting {
    Flat,
    Nested,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QuoteEscape {
    Backslash,
    Doubled,
    Nothing,
}

/// How far a string can extend. Where strings end with their line, a stray apostrophe cannot swap code and strings in
/// the rest of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QuoteExtent {
    Line,
    File,
}

const SLASHES: LineComment = LineComment { text: "//", at: StartContext::Anywhere };
const HASH: LineComment = LineComment { text: "#", at: StartContext::Anywhere };
const HASH_ALONE: LineComment = LineComment { text: "#", at: StartContext::Statement };
const DASHES: LineComment = LineComment { text: "--", at: StartContext::Anywhere };
const SLASHES_ALONE: LineComment = LineComment { text: "//", at: StartContext::Statement };

const BLOCK: BlockComment = BlockComment { open: "/*", close: "*/", nesting: CommentNesting::Flat };
const NESTED: BlockComment =
    BlockComment { open: "/*", close: "*/", nesting: CommentNesting::Nested };
const MARKUP: BlockComment =
    BlockComment { open: "<!--", close: "-->", nesting: CommentNesting::Flat };

const fn string_quote(text: &'static str, escape: QuoteEscape, reach: QuoteExtent) -> StringQuote {
    StringQuote { open: text, close: text, escape, reach, at: StartContext::Anywhere }
}

const DOUBLE: StringQuote = string_quote("\"", QuoteEscape::Backslash, QuoteExtent::Line);
const SINGLE: StringQuote = string_quote("'", QuoteEscape::Backslash, QuoteExtent::Line);
const DOUBLE_LONG: StringQuote = string_quote("\"", QuoteEscape::Backslash, QuoteExtent::File);
const TRIPLE: StringQuote = string_quote("\"\"\"", QuoteEscape::Backslash, QuoteExtent::File);
const TRIPLE_SINGLE: StringQuote = string_quote("'''", QuoteEscape::Backslash, QuoteExtent::File);
const RAW_TICK: StringQuote = string_quote("`", QuoteEscape::Nothing, QuoteExtent::File);
const PLAIN: StringQuote = string_quote("'", QuoteEscape::Nothing, QuoteExtent::File);
const SINGLE_LONG: StringQuote = string_quote("'", QuoteEscape::Backslash, QuoteExtent::File);
const DOUBLED: StringQuote = string_quote("'", QuoteEscape::Doubled, QuoteExtent::File);
const DOUBLE_ALONE: StringQuote = StringQuote { at: StartContext::Value, ..DOUBLE };
const SINGLE_ALONE: StringQuote = StringQuote {
    at: StartContext::Value,
    ..string_quote("'", QuoteEscape::Nothing, QuoteExtent::Line)
};
const TRIPLE_RAW: StringQuote = string_quote("'''", QuoteEscape::Nothing, QuoteExtent::File);

static RUST: LanguageSyntax =
    LanguageSyntax { lines: &[SLASHES], blocks: &[NESTED], quotes: &[DOUBLE_LONG] };
static JAVASCRIPT: LanguageSyntax =
    LanguageSyntax { lines: &[SLASHES], blocks: &[BLOCK, MARKUP], quotes: &[DOUBLE, SINGLE] };
static PYTHON: LanguageSyntax = LanguageSyntax {
    lines: &[HASH],
    blocks: &[],
    quotes: &[TRIPLE, TRIPLE_SINGLE, DOUBLE, SINGLE],
};
static GO: LanguageSyntax =
    LanguageSyntax { lines: &[SLASHES], blocks: &[BLOCK], quotes: &[DOUBLE, SINGLE, RAW_TICK] };
static JAVA: LanguageSyntax =
    LanguageSyntax { lines: &[SLASHES], blocks: &[BLOCK], quotes: &[TRIPLE, DOUBLE, SINGLE] };
static NESTING_JAVA: LanguageSyntax =
    LanguageSyntax { lines: &[SLASHES], blocks: &[NESTED], quotes: &[TRIPLE, DOUBLE, SINGLE] };
static C: LanguageSyntax =
    LanguageSyntax { lines: &[SLASHES], blocks: &[BLOCK], quotes: &[DOUBLE, SINGLE] };
static SWIFT: LanguageSyntax =
    LanguageSyntax { lines: &[SLASHES], blocks: &[NESTED], quotes: &[TRIPLE, DOUBLE] };
static PHP: LanguageSyntax = LanguageSyntax {
    lines: &[SLASHES, HASH_ALONE],
    blocks: &[BLOCK],
    quotes: &[DOUBLE_LONG, SINGLE_LONG],
};
static RUBY: LanguageSyntax = LanguageSyntax {
    lines: &[HASH_ALONE],
    blocks: &[BlockComment { open: "\n=begin", close: "\n=end", nesting: CommentNesting::Flat }],
    quotes: &[DOUBLE, SINGLE],
};
static SHELL: LanguageSyntax =
    LanguageSyntax { lines: &[HASH_ALONE], blocks: &[], quotes: &[DOUBLE_LONG, PLAIN] };
static CONFIG: LanguageSyntax = LanguageSyntax {
    lines: &[HASH_ALONE],
    blocks: &[],
    quotes: &[TRIPLE, TRIPLE_RAW, DOUBLE_ALONE, SINGLE_ALONE],
};
static SQL: LanguageSyntax =
    LanguageSyntax { lines: &[DASHES], blocks: &[BLOCK], quotes: &[DOUBLED] };
static HTML: LanguageSyntax = LanguageSyntax { lines: &[], blocks: &[MARKUP], quotes: &[] };
static CSS: LanguageSyntax =
    LanguageSyntax { lines: &[SLASHES_ALONE], blocks: &[BLOCK], quotes: &[DOUBLE, SINGLE] };
static NOTHING: LanguageSyntax = LanguageSyntax { lines: &[], blocks: &[], quotes: &[] };

pub(super) fn syntax_of(language: Language) -> &'static LanguageSyntax {
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
        Language::Shell | Language::Bats => &SHELL,
        Language::Config => &CONFIG,
        Language::Sql => &SQL,
        Language::Html => &HTML,
        Language::Css => &CSS,
        Language::Unknown | Language::Prose => &NOTHING,
    }
}
