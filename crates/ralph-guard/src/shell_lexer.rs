//! Tokenizes a shell command: quotes, escapes, expansions, here-documents, redirections. Covers enough of the grammar
//! to distinguish commands from text. Nothing is executed, and no input is an error.

use super::lookahead::{self, ShellBracket, ShellLookahead, find_byte};
use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;

#[derive(Clone, Debug)]
pub(super) enum ShellToken<'a> {
    Word(ShellWord<'a>),
    Redirect {
        direction: RedirectDirection,
        target: ShellWord<'a>,
    },
    Heredoc {
        body: &'a str,
        is_expanded: bool,
    },
    /// `;`, a line break, `&&`, `||` or `&`: the next command follows.
    Next,
    Pipe,
    Open,
    Close,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RedirectDirection {
    Write,
    Read,
    /// `<<< text`
    Text,
}

#[derive(Clone, Debug, Default)]
pub(super) struct ShellWord<'a> {
    pub(super) parts: Vec<WordPart<'a>>,
}

#[derive(Clone, Debug)]
pub(super) enum WordPart<'a> {
    /// Unquoted: `~`, braces and wildcards are active.
    Bare(String),
    Quoted(String),
    Variable {
        name: &'a str,
        default: Option<&'a str>,
    },
    /// The command in `$(…)`, backticks, `<(…)` or `>(…)`.
    Substitution(&'a str),
    /// Text that is known only at run time.
    Unknown,
}

impl ShellWord<'_> {
    /// The text, if it is a single literal part.
    pub(super) fn plain(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [WordPart::Bare(text) | WordPart::Quoted(text)] => Some(text),
            _ => None,
        }
    }
}

#[derive(Debug)]
pub(super) struct ShellLexer<'a> {
    text: &'a str,
    at: usize,
    /// The line break before the bodies of here-documents, and where they end.
    bodies: Option<(usize, usize)>,
    lookahead: ShellLookahead<'a>,
}

impl<'a> ShellLexer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0, bodies: None, lookahead: ShellLookahead::new(text) }
    }

    /// The body of a here-document that the shell expands, read like text in double quotes.
    pub(super) fn heredoc_word(body: &'a str) -> ShellWord<'a> {
        let mut lexer = Self::new(body);
        let mut word = ShellWord::default();
        while lexer.at < body.len() {
            lexer.double_quoted(&mut word);
        }
        word
    }

    fn byte(&self, ahead: usize) -> Option<u8> {
        self.text.as_bytes().get(self.at + ahead).copied()
    }

    fn slice(&self, from: usize, to: usize) -> &'a str {
        self.text.get(from..to.min(self.text.len())).unwrap_or_default()
    }

    fn skip_blanks(&mut self) {
        loop {
            match (self.byte(0), self.byte(1)) {
                (Some(b' ' | b'\t' | b'\r'), _) => self.at += 1,
                (Some(b'\\'), Some(b'\n')) => self.at += 2,
                _ => return,
            }
        }
    }

    fn line_break(&mut self) -> ShellToken<'a> {
        self.at = match self.bodies.take() {
            Some((line_end, end)) if self.at <= line_end => end,
            _ => self.at + 1,
        };
        ShellToken::Next
    }

    fn operator(&mut self, length: usize, token: ShellToken<'a>) -> ShellToken<'a> {
        self.at += length;
        token
    }

    fn open(&mut self) -> Option<ShellToken<'a>> {
        if self.byte(1) == Some(b'(') {
            let outer = self.lookahead.find_closing(self.at + 1, ShellBracket::Round);
            let inner = self.lookahead.find_closing(self.at + 2, ShellBracket::Round);
            if inner + 1 == outer && outer < self.text.len() {
                self.at = outer + 1;
                return None;
            }
        }
        self.at += 1;
        Some(ShellToken::Open)
    }

    /// Parses the redirection at `<` or `>`. `None` if it only duplicates a descriptor.
    fn redirect(&mut self) -> Option<ShellToken<'a>> {
        let is_write = self.byte(0) == Some(b'>');
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        if let [b'<' | b'>', b'&', b'0'..=b'9' | b'-', ..] = rest {
            self.at += 2;
            while self.byte(0).is_some_and(|byte| byte.is_ascii_digit() || byte == b'-') {
                self.at += 1;
            }
            return None;
        }
        let (length, direction) = match rest {
            [b'<', b'<', b'<', ..] => (3, RedirectDirection::Text),
            [b'<', b'<', ..] => return self.heredoc(),
            [b'<', b'>', ..] | [b'>', b'>' | b'|' | b'&', ..] => (2, RedirectDirection::Write),
            [b'<', b'&', ..] => (2, RedirectDirection::Read),
            _ if is_write => (1, RedirectDirection::Write),
            _ => (1, RedirectDirection::Read),
        };
        self.at += length;
        self.skip_blanks();
        let target = self.word();
        (!target.parts.is_empty()).then_some(ShellToken::Redirect { direction, target })
    }

    fn heredoc(&mut self) -> Option<ShellToken<'a>> {
        let from = self.bodies.map(|(_, end)| end);
        let Some(found) = self.lookahead.parse_heredoc(self.at, from) else {
            self.at += 2;
            return None;
        };
        let line_end = self.bodies.map_or(found.line_end, |(line_end, _)| line_end);
        self.bodies = Some((line_end, found.end));
        self.at = found.after;
        let body = self.slice(found.body.0, found.body.1);
        Some(ShellToken::Heredoc { body, is_expanded: !found.is_quoted })
    }

    fn word(&mut self) -> ShellWord<'a> {
        let mut word = ShellWord::default();
        if let (Some(b'<' | b'>'), Some(b'(')) = (self.byte(0), self.byte(1)) {
            self.at += 2;
            word.parts.push(WordPart::Substitution(self.bracketed()));
        }
        while let Some(byte) = self.byte(0) {
            match byte {
                b' ' | b'\t' | b'\r' | b'\n' | b';' | b'&' | b'|' | b'<' | b'>' | b')' => break,
                b'(' => {
                    // `name=(…)` is an array, not a command.
                    if !matches!(word.parts.last(), Some(WordPart::Bare(text)) if text.ends_with('='))
                    {
                        break;
                    }
                    self.at += 1;
                    self.bracketed();
                    word.parts.push(WordPart::Unknown);
                }
                b'\\' => {
                    let escaped = self.slice(self.at + 1, self.text.len()).chars().next();
                    self.at += 1 + escaped.map_or(0, char::len_utf8);
                    if let Some(char) = escaped.filter(|char| *char != '\n') {
                        word.parts.push(WordPart::Quoted(char.into()));
                    }
                }
                b'\'' => {
                    let from = self.at + 1;
                    let end = find_byte(self.text, from, b'\'');
                    word.parts.push(WordPart::Quoted(self.slice(from, end).to_owned()));
                    self.at = end + 1;
                }
                b'"' => {
                    self.at += 1;
                    self.double_quoted(&mut word);
                }
                b'$' => self.dollar(&mut word, DollarQuoting::None),
                b'`' => self.backtick(&mut word),
                _ => self.bare(&mut word),
            }
        }
        self.at = self.at.min(self.text.len());
        word
    }

    fn bare(&mut self, word: &mut ShellWord<'a>) {
        let from = self.at;
        while let Some(byte) = self.byte(0) {
            if matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b';' | b'&' | b'|' | b'<' | b'>')
                || matches!(byte, b'(' | b')' | b'\\' | b'\'' | b'"' | b'$' | b'`')
            {
                break;
            }
            self.at += 1;
        }
        word.parts.push(WordPart::Bare(self.slice(from, self.at).to_owned()));
    }

    /// Parses the rest of `"…"` after the opening quote.
    fn double_quoted(&mut self, word: &mut ShellWord<'a>) {
        let mut text = String::new();
        let mut from = self.at;
        let mut is_empty = true;
        loop {
            match self.byte(0) {
                None | Some(b'"') => break,
                Some(b'\\') => {
                    text.push_str(self.slice(from, self.at));
                    match self.byte(1) {
                        Some(b'\n') => self.at += 2,
                        Some(byte @ (b'$' | b'`' | b'"' | b'\\')) => {
                            text.push(char::from(byte));
                            self.at += 2;
                        }
                        _ => {
                            text.push('\\');
                            self.at += 1;
                        }
                    }
                    from = self.at;
                }
                Some(byte @ (b'$' | b'`')) => {
                    text.push_str(self.slice(from, self.at));
                    if !text.is_empty() {
                        word.parts.push(WordPart::Quoted(core::mem::take(&mut text)));
                    }
                    if byte == b'$' {
                        self.dollar(word, DollarQuoting::Double);
                    } else {
                        self.backtick(word);
                    }
                    is_empty = false;
                    from = self.at;
                }
                Some(_) => self.at += 1,
            }
        }
        text.push_str(self.slice(from, self.at));
        if is_empty || !text.is_empty() {
            word.parts.push(WordPart::Quoted(text));
        }
        self.at += 1;
    }

    fn backtick(&mut self, word: &mut ShellWord<'a>) {
        let from = self.at + 1;
        let end = lookahead::find_closing_backtick(self.text, from);
        word.parts.push(WordPart::Substitution(self.slice(from, end)));
        self.at = (end + 1).min(self.text.len());
    }

    fn dollar(&mut self, word: &mut ShellWord<'a>, quoting: DollarQuoting) {
        match (self.byte(1), quoting) {
            (Some(b'('), _) => {
                let from = self.at + 2;
                let is_sum = self.byte(2) == Some(b'(') && {
                    let inner = self.lookahead.find_closing(from + 1, ShellBracket::Round);
                    inner + 1 == self.lookahead.find_closing(from, ShellBracket::Round)
                };
                self.at = from;
                let inner = self.bracketed();
                word.parts.push(if is_sum {
                    WordPart::Unknown
                } else {
                    WordPart::Substitution(inner)
                });
            }
            (Some(b'{'), _) => {
                let from = self.at + 2;
                let end = self.lookahead.find_closing(from, ShellBracket::Brace);
                word.parts.push(parse_parameter(self.slice(from, end)));
                self.at = (end + 1).min(self.text.len());
            }
            (Some(b'\''), DollarQuoting::None) => {
                self.at += 2;
                let text = self.parse_ansi_escapes();
                word.parts.push(WordPart::Quoted(text));
            }
            (Some(b'"'), DollarQuoting::None) => self.at += 1,
            (Some(byte), _) if byte == b'_' || byte.is_ascii_alphabetic() => {
                let from = self.at + 1;
                self.at = from;
                while self.byte(0).is_some_and(|byte| byte == b'_' || byte.is_ascii_alphanumeric())
                {
                    self.at += 1;
                }
                let name = self.slice(from, self.at);
                word.parts.push(WordPart::Variable { name, default: None });
            }
            (Some(b'0'..=b'9' | b'@' | b'*' | b'#' | b'?' | b'$' | b'!' | b'-'), _) => {
                self.at += 2;
                word.parts.push(WordPart::Unknown);
            }
            _ => {
                self.at += 1;
                word.parts.push(WordPart::Quoted("$".to_owned()));
            }
        }
    }

    /// Parses the rest of `$'…'` after the opening quote.
    fn parse_ansi_escapes(&mut self) -> String {
        let mut out = String::new();
        loop {
            let from = self.at;
            while self.byte(0).is_some_and(|byte| byte != b'\'' && byte != b'\\') {
                self.at += 1;
            }
            out.push_str(self.slice(from, self.at));
            if self.byte(0) != Some(b'\\') {
                self.at = (self.at + 1).min(self.text.len());
                return out;
            }
            let Some(char) = self.slice(self.at + 1, self.text.len()).chars().next() else {
                self.at = self.text.len();
                return out;
            };
            self.at += 1 + char.len_utf8();
            match char {
                'n' => out.push('\n'),
                't' => out.push('\t'),
                'x' => out.extend(self.parse_digits(16, 2)),
                'u' => out.extend(self.parse_digits(16, 4)),
                '0'..='7' => {
                    self.at -= 1;
                    out.extend(self.parse_digits(8, 3));
                }
                _ => out.push(char),
            }
        }
    }

    fn parse_digits(&mut self, radix: u32, most: usize) -> Option<char> {
        let mut value = 0;
        for _ in 0..most {
            let Some(digit) = self.byte(0).and_then(|byte| char::from(byte).to_digit(radix)) else {
                break;
            };
            value = value * radix + digit;
            self.at += 1;
        }
        char::from_u32(value)
    }

    /// The text from here to the closing bracket. The position moves past the bracket.
    fn bracketed(&mut self) -> &'a str {
        let from = self.at;
        let end = self.lookahead.find_closing(from, ShellBracket::Round);
        self.at = (end + 1).min(self.text.len());
        self.slice(from, end)
    }
}

impl<'a> Iterator for ShellLexer<'a> {
    type Item = ShellToken<'a>;

    fn next(&mut self) -> Option<ShellToken<'a>> {
        loop {
            self.skip_blanks();
            let token = match (self.byte(0)?, self.byte(1)) {
                (b'\n', _) => Some(self.line_break()),
                (b'#', _) => {
                    self.at = find_byte(self.text, self.at, b'\n');
                    None
                }
                (b';', Some(b';' | b'&')) | (b'&', Some(b'&')) | (b'|', Some(b'|')) => {
                    Some(self.operator(2, ShellToken::Next))
                }
                (b'&', Some(b'>')) => {
                    self.at += 1;
                    self.redirect()
                }
                (b';' | b'&', _) => Some(self.operator(1, ShellToken::Next)),
                (b'|', Some(b'&')) => Some(self.operator(2, ShellToken::Pipe)),
                (b'|', _) => Some(self.operator(1, ShellToken::Pipe)),
                (b'(', _) => self.open(),
                (b')', _) => Some(self.operator(1, ShellToken::Close)),
                (b'<' | b'>', Some(b'(')) => Some(ShellToken::Word(self.word())),
                (b'<' | b'>', _) => self.redirect(),
                _ => {
                    let word = self.word();
                    let is_descriptor = matches!(self.byte(0), Some(b'<' | b'>'))
                        && word
                            .plain()
                            .is_some_and(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
                    (!is_descriptor && !word.parts.is_empty()).then_some(ShellToken::Word(word))
                }
            };
            if token.is_some() {
                return token;
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum DollarQuoting {
    None,
    Double,
}

/// Parses the content of `${…}`.
fn parse_parameter(inner: &str) -> WordPart<'_> {
    let length =
        inner.bytes().take_while(|byte| *byte == b'_' || byte.is_ascii_alphanumeric()).count();
    let (name, rest) = inner.split_at(length);
    if name.is_empty() {
        return WordPart::Unknown;
    }
    if rest.is_empty() {
        return WordPart::Variable { name, default: None };
    }
    match rest.strip_prefix(':').unwrap_or(rest).split_at_checked(1) {
        Some(("-" | "=", default)) => WordPart::Variable { name, default: Some(default) },
        Some(("?", _)) => WordPart::Variable { name, default: None },
        _ => WordPart::Unknown,
    }
}
