//! Splits a text into code, comments and strings, in one pass. No text is an error, even if it is not a valid program
//! in the given language.

use super::language::Language;
use super::language_syntax::{
    self, BlockComment, CommentNesting, LanguageSyntax, QuoteEscape, QuoteExtent, StartContext,
    StringQuote,
};
use alloc::vec::Vec;
use memchr::{memchr, memmem};

/// The kind of a piece of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceSpanKind {
    Code,
    /// Including its marker, such as `//`.
    Comment,
    /// Including its quotes. JavaScript regular expressions count as strings.
    String,
}

/// Bytes `start..end`, on character boundaries. The spans of a text cover it without gaps, and none is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceSpan {
    pub start: usize,
    pub end: usize,
    pub kind: SourceSpanKind,
}

/// For text that only looks like the start of a literal, the end is searched in vain. After this many failed searches
/// such starts are ignored, because hostile text would otherwise cause quadratic work.
const MAX_FAILED_SEARCHES: u32 = 64;
const MAX_REGEX_BYTES: usize = 2_000;
const MAX_TEMPLATE_DEPTH: usize = 32;
/// The bytes that [`SourceLexer::special`] handles.
const SPECIAL_BYTES: &str = "rbcR'`/{}<\\?@";

/// Splits a text into spans.
pub fn split_into_spans(text: &str, language: Language) -> Vec<SourceSpan> {
    if language == Language::Unknown {
        return spans_by_line(text);
    }
    let mut lexer = SourceLexer {
        text,
        bytes: text.as_bytes(),
        language,
        syntax: language_syntax::syntax_of(language),
        at: 0,
        code_from: 0,
        spans: Vec::new(),
        templates: Vec::new(),
        failed_searches: 0,
    };
    if language == Language::Php {
        lexer.skip_markup(0);
    }
    let starters = starting_bytes(language);
    while let Some(&byte) = lexer.bytes.get(lexer.at) {
        // A fast path: most bytes start nothing.
        let starts = starters.get(usize::from(byte)).copied().unwrap_or(true);
        if !starts || !(lexer.special() || lexer.comment() || lexer.quoted()) {
            lexer.at += 1;
        }
    }
    lexer.flush();
    lexer.spans
}

/// The bytes that may start a comment, a string or a special construct.
fn starting_bytes(language: Language) -> [bool; 256] {
    let syntax = language_syntax::syntax_of(language);
    let leaders = syntax.lines.iter().map(|leader| leader.text);
    let openings = syntax.blocks.iter().map(|block| block.open);
    let quotes = syntax.quotes.iter().map(|quote| quote.open);
    let first = leaders.chain(openings).chain(quotes).filter_map(|text| text.bytes().next());
    let mut starters = [false; 256];
    for byte in first.chain(SPECIAL_BYTES.bytes()) {
        if let Some(starter) = starters.get_mut(usize::from(byte)) {
            *starter = true;
        }
    }
    starters
}

/// For an unknown language: a line that begins like a comment counts as one.
fn spans_by_line(text: &str) -> Vec<SourceSpan> {
    let mut spans: Vec<SourceSpan> = Vec::new();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim_start();
        let leads = ["#", "//", "--", ";", "%", "/*", "<!--"];
        let leads = leads.iter().any(|lead| trimmed.starts_with(lead));
        let kind = if leads { SourceSpanKind::Comment } else { SourceSpanKind::Code };
        let end = start + line.len();
        spans.push(SourceSpan { start, end, kind });
        start = end;
    }
    spans
}

struct SourceLexer<'a> {
    text: &'a str,
    bytes: &'a [u8],
    language: Language,
    syntax: &'static LanguageSyntax,
    at: usize,
    code_from: usize,
    spans: Vec<SourceSpan>,
    /// For each open `${` of the enclosing template strings, the number of open braces in it.
    templates: Vec<u32>,
    failed_searches: u32,
}

impl SourceLexer<'_> {
    fn rest(&self, from: usize) -> &[u8] {
        self.bytes.get(from..).unwrap_or_default()
    }

    fn byte(&self, at: usize) -> u8 {
        self.bytes.get(at).copied().unwrap_or(b'\n')
    }

    fn before(&self) -> u8 {
        self.at.checked_sub(1).map_or(b'\n', |at| self.byte(at))
    }

    fn flush(&mut self) {
        let end = self.at.min(self.bytes.len());
        if self.code_from < end {
            self.spans.push(SourceSpan { start: self.code_from, end, kind: SourceSpanKind::Code });
            self.code_from = end;
        }
    }

    /// Ends the current span of code here and adds a span of `kind` from here to `end`.
    fn push_span(&mut self, end: usize, kind: SourceSpanKind) {
        self.flush();
        let end = end.clamp(self.at, self.bytes.len());
        if self.at < end {
            self.spans.push(SourceSpan { start: self.at, end, kind });
        }
        self.at = end;
        self.code_from = end;
    }

    fn comment(&mut self) -> bool {
        let syntax = self.syntax;
        for leader in syntax.lines {
            if !self.rest(self.at).starts_with(leader.text.as_bytes()) || !self.may_start(leader.at)
            {
                continue;
            }
            if self.language == Language::Php && self.byte(self.at + 1) == b'[' {
                continue;
            }
            let end = self.line_end(self.at);
            self.push_span(end, SourceSpanKind::Comment);
            return true;
        }
        let block = syntax
            .blocks
            .iter()
            .find(|block| self.rest(self.at).starts_with(block.open.as_bytes()));
        if let Some(block) = block {
            let end = self.block_end(block);
            self.push_span(end, SourceSpanKind::Comment);
        }
        block.is_some()
    }

    fn may_start(&self, at: StartContext) -> bool {
        let before = self.before();
        match at {
            StartContext::Anywhere => true,
            StartContext::Statement => before.is_ascii_whitespace() || b"(){};&|".contains(&before),
            StartContext::Value => before.is_ascii_whitespace() || b"([{,=:".contains(&before),
        }
    }

    fn line_end(&self, from: usize) -> usize {
        memchr(b'\n', self.rest(from)).map_or(self.bytes.len(), |length| from + length)
    }

    fn block_end(&self, block: &BlockComment) -> usize {
        let mut at = self.at + block.open.len();
        if block.nesting == CommentNesting::Flat {
            let close = memmem::find(self.rest(at), block.close.as_bytes());
            return close.map_or(self.bytes.len(), |length| at + length + block.close.len());
        }
        let mut depth = 1_u32;
        while at < self.bytes.len() {
            if self.rest(at).starts_with(block.close.as_bytes()) {
                at += block.close.len();
                depth -= 1;
                if depth == 0 {
                    return at;
                }
            } else if self.rest(at).starts_with(block.open.as_bytes()) {
                at += block.open.len();
                depth += 1;
            } else {
                at += 1;
            }
        }
        at
    }

    fn quoted(&mut self) -> bool {
        let syntax = self.syntax;
        let found = syntax.quotes.iter().find(|quote| {
            self.rest(self.at).starts_with(quote.open.as_bytes()) && self.may_start(quote.at)
        });
        if let Some(quote) = found {
            let end = self.quote_end(self.at + quote.open.len(), quote);
            self.push_span(end, SourceSpanKind::String);
        }
        found.is_some()
    }

    fn quote_end(&self, from: usize, quote: &StringQuote) -> usize {
        let close = quote.close.as_bytes();
        let mut at = from;
        while let Some(&byte) = self.bytes.get(at) {
            if byte == b'\\' && quote.escape == QuoteEscape::Backslash {
                at += 2;
            } else if byte == b'\n' && quote.reach == QuoteExtent::Line {
                return at;
            } else if self.rest(at).starts_with(close) {
                at += close.len();
                if quote.escape != QuoteEscape::Doubled || !self.rest(at).starts_with(close) {
                    return at;
                }
                at += close.len();
            } else {
                at += 1;
            }
        }
        self.bytes.len()
    }

    /// Handles constructs that the syntax tables cannot describe.
    fn special(&mut self) -> bool {
        match (self.language, self.byte(self.at)) {
            (Language::Rust, b'r' | b'b' | b'c') => self.rust_raw(),
            (Language::Rust, b'\'') => self.rust_char(),
            (Language::JavaScript, b'`') => {
                self.template(self.at + 1);
                true
            }
            (Language::JavaScript, b'/') => self.regex(),
            (Language::JavaScript, b'{' | b'}') => self.brace(),
            (Language::Shell | Language::Bats | Language::Ruby | Language::Php, b'<') => {
                self.here_document()
            }
            (Language::Shell | Language::Bats, b'\\') => {
                self.at += 2;
                true
            }
            (Language::Php, b'?') => {
                let ends = self.rest(self.at).starts_with(b"?>");
                if ends {
                    self.skip_markup(self.at);
                }
                ends
            }
            (Language::CSharp, b'@') => self.verbatim(),
            (Language::C, b'R') => self.c_raw(),
            (Language::C, b'\'') => {
                let separates = self.before().is_ascii_digit();
                self.at += usize::from(separates);
                separates
            }
            _ => false,
        }
    }

    fn after_word(&self) -> bool {
        let before = self.before();
        before.is_ascii_alphanumeric() || before == b'_'
    }

    /// `r"…"`, `r#"…"#`, and both with a prefix `b` or `c`.
    fn rust_raw(&mut self) -> bool {
        let prefix = match self.rest(self.at) {
            [b'r', ..] => 1,
            [b'b' | b'c', b'r', ..] => 2,
            _ => return false,
        };
        let start = self.at + prefix;
        let hashes = self.rest(start).iter().take_while(|byte| **byte == b'#').count();
        if self.after_word() || self.byte(start + hashes) != b'"' || hashes > 255 {
            return false;
        }
        let from = start + hashes + 1;
        let mut at = from;
        while let Some(length) = memchr(b'"', self.rest(at)) {
            at += length + 1;
            let closing = self.rest(at).iter().take(hashes).take_while(|byte| **byte == b'#');
            if closing.count() == hashes {
                self.push_span(at + hashes, SourceSpanKind::String);
                return true;
            }
        }
        self.push_span(self.bytes.len(), SourceSpanKind::String);
        true
    }

    /// `'a'` is a character, `'a` is a lifetime.
    fn rust_char(&mut self) -> bool {
        let inside = self.at + 1;
        if self.byte(inside) == b'\\' {
            // The escaped character may itself be a quote.
            let from = (inside + 2).min(self.bytes.len());
            let close = self.rest(from).iter().take(12).position(|byte| *byte == b'\'');
            let end = close.map_or(from, |length| from + length + 1);
            let end = if self.text.is_char_boundary(end) { end } else { self.line_end(end) };
            self.push_span(end, SourceSpanKind::String);
            return true;
        }
        let char = self.text.get(inside..).and_then(|rest| rest.chars().next());
        let length = char.map_or(1, char::len_utf8);
        if char.is_some() && char != Some('\'') && self.bytes.get(inside + length) == Some(&b'\'') {
            self.push_span(inside + length + 1, SourceSpanKind::String);
        } else {
            self.at = inside;
        }
        true
    }

    /// The part of a template string from the `` ` `` or `}` here to the next `` ` `` or `${`.
    fn template(&mut self, from: usize) {
        let mut at = from;
        while let Some(&byte) = self.bytes.get(at) {
            match byte {
                b'\\' => at += 2,
                b'`' => return self.push_span(at + 1, SourceSpanKind::String),
                b'$' if self.byte(at + 1) == b'{' && self.templates.len() < MAX_TEMPLATE_DEPTH => {
                    self.push_span(at + 2, SourceSpanKind::String);
                    self.templates.push(0);
                    return;
                }
                _ => at += 1,
            }
        }
        self.push_span(self.bytes.len(), SourceSpanKind::String);
    }

    fn brace(&mut self) -> bool {
        let opens = self.byte(self.at) == b'{';
        match self.templates.last_mut() {
            None => false,
            Some(depth) if opens => {
                *depth += 1;
                false
            }
            Some(0) => {
                self.templates.pop();
                self.template(self.at + 1);
                true
            }
            Some(depth) => {
                *depth -= 1;
                false
            }
        }
    }

    /// A slash where a value may begin starts a regular expression, if another slash on the line ends it.
    fn regex(&mut self) -> bool {
        let next = self.byte(self.at + 1);
        if next == b'/'
            || next == b'*'
            || self.failed_searches >= MAX_FAILED_SEARCHES
            || !self.expects_value()
        {
            return false;
        }
        let mut in_class = false;
        let mut at = self.at + 1;
        let last = self.at + MAX_REGEX_BYTES;
        while at < last {
            match self.byte(at) {
                b'\n' => break,
                b'\\' => at += 1,
                b'[' => in_class = true,
                b']' => in_class = false,
                b'/' if !in_class => {
                    self.push_span(at + 1, SourceSpanKind::String);
                    return true;
                }
                _ => {}
            }
            at += 1;
        }
        self.failed_searches += 1;
        false
    }

    fn expects_value(&self) -> bool {
        let before = self.bytes.get(self.code_from.min(self.at)..self.at).unwrap_or_default();
        let before = before.get(before.len().saturating_sub(40)..).unwrap_or_default();
        let before = before.trim_ascii_end();
        let Some(&last) = before.last() else {
            // Directly after a string or a comment no value can begin; at the start of the file one can.
            return self.spans.is_empty();
        };
        if before.ends_with(b"=>") || b"(,=:[!&|?;+*%^~".contains(&last) {
            return true;
        }
        let from =
            before.iter().rposition(|byte| !byte.is_ascii_alphabetic()).map_or(0, |at| at + 1);
        let word = before.get(from..).unwrap_or_default();
        let words: [&[u8]; 7] = [b"return", b"typeof", b"case", b"of", b"in", b"throw", b"await"];
        words.contains(&word)
    }

    /// `<<WORD`, `<<-WORD`, `<<~"WORD"`, `<<<WORD` in PHP: everything up to a line that contains only the word.
    fn here_document(&mut self) -> bool {
        let (opening, word_at) = match (self.language, self.rest(self.at)) {
            (Language::Shell | Language::Bats, [b'<', b'<', b'<', ..]) => {
                self.at += 3;
                return true;
            }
            (Language::Php, [b'<', b'<', b'<', ..])
            | (Language::Shell | Language::Bats, [b'<', b'<', b'-', ..])
            | (Language::Ruby, [b'<', b'<', b'-' | b'~', ..]) => (3, self.at + 3),
            (Language::Shell | Language::Bats, [b'<', b'<', ..]) => (2, self.at + 2),
            _ => return false,
        };
        let quoted = usize::from(matches!(self.byte(word_at), b'"' | b'\''));
        let from = word_at + quoted;
        let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let length = self.rest(from).iter().take(64).take_while(|byte| is_word(byte)).count();
        let starts_well = self.byte(from).is_ascii_alphabetic() || self.byte(from) == b'_';
        if length == 0 || !starts_well || self.failed_searches >= MAX_FAILED_SEARCHES {
            self.at += opening;
            return true;
        }
        let body = self.line_end(from);
        let word = self.bytes.get(from..from + length).unwrap_or_default();
        let mut at = body + 1;
        while at < self.bytes.len() {
            let end = self.line_end(at);
            let line = self.bytes.get(at..end).unwrap_or_default().trim_ascii();
            if line.strip_suffix(b";").unwrap_or(line) == word {
                // The rest of the opening line is code: `cat <<EOF | sort`.
                self.at = body;
                self.push_span(end, SourceSpanKind::String);
                return true;
            }
            at = end + 1;
        }
        self.failed_searches += 1;
        self.at += opening;
        true
    }

    /// Skips to the next `<?`. Outside of `<?php … ?>` an apostrophe does not start a string.
    fn skip_markup(&mut self, from: usize) {
        let start = memmem::find(self.rest(from), b"<?");
        self.at = start.map_or(self.bytes.len(), |length| from + length + 2);
    }

    fn verbatim(&mut self) -> bool {
        let is_verbatim = self.rest(self.at).starts_with(b"@\"");
        if is_verbatim {
            let quote = StringQuote {
                open: "\"",
                close: "\"",
                escape: QuoteEscape::Doubled,
                reach: QuoteExtent::File,
                at: StartContext::Anywhere,
            };
            let end = self.quote_end(self.at + 2, &quote);
            self.push_span(end, SourceSpanKind::String);
        }
        is_verbatim
    }

    /// `R"delimiter(…)delimiter"`
    fn c_raw(&mut self) -> bool {
        let from = self.at + 2;
        if self.byte(self.at + 1) != b'"' || self.failed_searches >= MAX_FAILED_SEARCHES {
            return false;
        }
        let Some(length) = self.rest(from).iter().take(17).position(|byte| *byte == b'(') else {
            return false;
        };
        let mut close = Vec::from(*b")");
        close.extend_from_slice(self.bytes.get(from..from + length).unwrap_or_default());
        close.push(b'"');
        let Some(found) = memmem::find(self.rest(from), &close) else {
            self.failed_searches += 1;
            return false;
        };
        self.push_span(from + found + close.len(), SourceSpanKind::String);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;

    /// Shows code unchanged, comments as `#` and strings as `~`.
    fn show_kinds(text: &str, language: Language) -> String {
        let mut out = String::new();
        for span in split_into_spans(text, language) {
            out.extend(text[span.start..span.end].chars().map(|char| match (char, span.kind) {
                ('\n', _) | (_, SourceSpanKind::Code) => char,
                (_, SourceSpanKind::Comment) => '#',
                (_, SourceSpanKind::String) => '~',
            }));
        }
        out
    }

    #[test]
    fn comments_and_strings_are_separated_from_code() {
        use Language as L;
        for (language, text, kinds) in [
            (L::Rust, "a // b", "a ####"),
            (L::Rust, "/* a /* b */ c */ d", "################# d"),
            (L::Rust, r#"f("// no\"") // yes"#, "f(~~~~~~~~~) ######"),
            (L::Rust, r##"r#"a" // b"# c"##, "~~~~~~~~~~~~ c"),
            (L::Rust, r#"br"\" x"#, "~~~~~ x"),
            (L::Rust, r#"<'a> 'b' '\'' b'"' 'é' '\u{e9}'"#, "<'a> ~~~ ~~~~ b~~~ ~~~ ~~~~~~~~"),
            (L::Rust, "x: &'static str = \"\"", "x: &'static str = ~~"),
            (L::JavaScript, "`a ${b // c\n} d` e", "~~~~~b ####\n~~~~ e"),
            (L::JavaScript, "`${ {a: `${b}`} }` // c", "~~~ {a: ~~~b~~} ~~ ####"),
            (L::JavaScript, "x = /\"/; 'a'", "x = ~~~; ~~~"),
            (L::JavaScript, "a / b / c // d", "a / b / c ####"),
            (L::JavaScript, "/[/]'/.test(a)", "~~~~~~.test(a)"),
            (L::JavaScript, "<p>Don't</p>\nb", "<p>Don~~~~~~\nb"),
            (L::JavaScript, "<a /><b /> // c", "<a /><b /> ####"),
            (L::Python, "'''a\n# b''' # c", "~~~~\n~~~~~~ ###"),
            (L::Python, "f\"{a}\" # b", "f~~~~~ ###"),
            (L::Go, "`a\\` // b", "~~~~ ####"),
            (L::Java, "\"\"\"\n// a\n\"\"\" // b", "~~~\n~~~~\n~~~ ####"),
            (L::CSharp, "@\"a\\\" // b", "~~~~~ ####"),
            (L::C, "1'000 R\"x(\")\" // )x\" // b", "1'000 ~~~~~~~~~~~~~~ ####"),
            (L::Php, "don't <?php 'a' # b\n#[A]\n?> it's", "don't <?php ~~~ ###\n#[A]\n?> it's"),
            (L::Ruby, "a # b\n=begin\nc\n=end\nd", "a ###\n######\n#\n####\nd"),
            (L::Shell, "echo $# 'a' # b", "echo $# ~~~ ###"),
            (L::Shell, "cat <<EOF | x\n# a 'b\nEOF\n# c", "cat <<EOF | x\n~~~~~~\n~~~\n###"),
            (L::Shell, "cat <<EOF\n# a", "cat <<EOF\n###"),
            (L::Config, "a: b#c # d", "a: b#c ###"),
            (L::Config, "don't: \"# a\" # b", "don't: ~~~~~ ###"),
            (L::Sql, "'it''s' -- a", "~~~~~~~ ####"),
            (L::Html, "<!-- a --> it's", "########## it's"),
            (L::Css, "a{} // b", "a{} ####"),
            (L::Css, "url(http://a)", "url(http://a)"),
            (L::Unknown, "  -- a\nb // c", "######\nb // c"),
            (L::Prose, "# a", "# a"),
        ] {
            assert_eq!(show_kinds(text, language), kinds, "{language:?} {text:?}");
        }
    }

    #[test]
    fn hostile_text_takes_linear_time() {
        let pieces = ["(/[", "<<A\n", "R\"(", "`${", "/*", "r#\"", "'", "\"", "{", "'\\"];
        for language in Language::ALL {
            for piece in pieces {
                let text = piece.repeat(200_000 / piece.len());
                let last = split_into_spans(&text, language).last().map(|span| span.end);
                assert_eq!(last, Some(text.len()), "{language:?} {piece:?}");
            }
        }
    }
}
