//! Expands a word of a shell command: all spellings that result from braces, variables and loops, with wildcards left
//! in place.

use super::shell_lexer::{ShellLexer, ShellToken, ShellWord, WordPart};
use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

/// A longer word is not a path.
const MAX_WORD_BYTES: usize = 4096;

/// No real path consists of more parts.
const MAX_WORD_PARTS: usize = 256;

/// The most spellings of a word. Braces multiply them.
const MAX_SPELLINGS: usize = 64;

/// The deepest nesting of defaults, as in `${A:-${B:-…}}`.
const MAX_DEFAULT_DEPTH: usize = 4;

/// A shell pattern: `*`, `?` and `[` are wildcards unless a `\` precedes them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct WordSpelling {
    pub(super) text: String,
    /// An unknown rest may follow.
    pub(super) is_open: bool,
}

/// Provides the values that words refer to.
pub(super) trait ShellValues {
    fn variable(&self, name: &str) -> Option<Vec<WordSpelling>>;
    /// The output of a command in `$(…)`, if it is known.
    fn command_output(&self, command: &str) -> Option<Vec<WordSpelling>>;
    fn home_of(&self, user: &str) -> Option<String>;
}

impl WordSpelling {
    pub(super) fn literal(text: &str) -> Self {
        Self { text: escape_wildcards(text), is_open: false }
    }

    /// The argument that a program would get if the wildcards matched nothing.
    pub(super) fn plain(&self) -> String {
        unescape_wildcards(&self.text)
    }
}

pub(super) fn expand_word(word: &ShellWord<'_>, values: &dyn ShellValues) -> Vec<WordSpelling> {
    expand_word_to_depth(word, values, MAX_DEFAULT_DEPTH)
}

fn expand_word_to_depth(
    word: &ShellWord<'_>,
    values: &dyn ShellValues,
    depth: usize,
) -> Vec<WordSpelling> {
    if word.parts.len() > MAX_WORD_PARTS {
        return Vec::new();
    }
    let mut out = vec![WordSpelling::default()];
    for (at, part) in word.parts.iter().enumerate() {
        let alternatives = match part {
            WordPart::Bare(text) if text.len() > MAX_WORD_BYTES => return Vec::new(),
            WordPart::Bare(text) => expand_bare(text, at == 0, values),
            WordPart::Quoted(text) if text.len() > MAX_WORD_BYTES => return Vec::new(),
            WordPart::Quoted(text) => vec![WordSpelling::literal(text)],
            WordPart::Variable { name, default } => values
                .variable(name)
                .or_else(|| default.and_then(|text| expand_default(text, values, depth)))
                .unwrap_or_else(unknown_spelling),
            WordPart::Substitution(command) => {
                values.command_output(command).unwrap_or_else(unknown_spelling)
            }
            WordPart::Unknown => unknown_spelling(),
        };
        out = combine_spellings(&out, &alternatives);
    }
    out.retain(|spelling| spelling.text.len() <= MAX_WORD_BYTES);
    out
}

fn expand_default(text: &str, values: &dyn ShellValues, depth: usize) -> Option<Vec<WordSpelling>> {
    let depth = depth.checked_sub(1)?;
    let Some(ShellToken::Word(word)) = ShellLexer::new(text).next() else { return None };
    Some(expand_word_to_depth(&word, values, depth))
}

fn unknown_spelling() -> Vec<WordSpelling> {
    vec![WordSpelling { text: String::new(), is_open: true }]
}

/// Appends every alternative to every spelling. After an unknown part, everything is unknown.
fn combine_spellings(before: &[WordSpelling], after: &[WordSpelling]) -> Vec<WordSpelling> {
    let mut out = Vec::new();
    for left in before {
        if left.is_open {
            out.push(left.clone());
            continue;
        }
        for right in after {
            let mut text = left.text.clone();
            text.push_str(&right.text);
            out.push(WordSpelling { text, is_open: right.is_open });
        }
        if out.len() >= MAX_SPELLINGS {
            break;
        }
    }
    out.truncate(MAX_SPELLINGS);
    out
}

fn expand_bare(text: &str, is_first: bool, values: &dyn ShellValues) -> Vec<WordSpelling> {
    expand_braces(text)
        .into_iter()
        .map(|text| {
            let Some(rest) = text.strip_prefix('~').filter(|_| is_first) else {
                return WordSpelling { text, is_open: false };
            };
            let (user, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            match values.home_of(user) {
                Some(home) => {
                    let mut text = escape_wildcards(&home);
                    text.push_str(path);
                    WordSpelling { text, is_open: false }
                }
                None => WordSpelling { text: String::new(), is_open: true },
            }
        })
        .collect()
}

/// Expands `a{b,c}d` to `abd` and `acd`. Braces without a comma stay.
fn expand_braces(text: &str) -> Vec<String> {
    let mut done = Vec::new();
    let mut todo = vec![text.to_owned()];
    while let Some(text) = todo.pop() {
        if done.len() + todo.len() >= MAX_SPELLINGS {
            done.push(text);
            done.append(&mut todo);
            break;
        }
        match find_first_brace(&text) {
            None => done.push(text),
            Some((open, commas, close)) => {
                let mut from = open + 1;
                for to in commas.into_iter().chain([close]) {
                    let parts = [text.get(..open), text.get(from..to), text.get(close + 1..)];
                    todo.push(parts.into_iter().flatten().collect());
                    from = to + 1;
                }
            }
        }
    }
    done.truncate(MAX_SPELLINGS);
    done
}

fn find_first_brace(text: &str) -> Option<(usize, Vec<usize>, usize)> {
    let mut opens: Vec<(usize, Vec<usize>)> = Vec::new();
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'{' => opens.push((at, Vec::new())),
            b',' => {
                if let Some((_, commas)) = opens.last_mut() {
                    commas.push(at);
                }
            }
            b'}' => match opens.pop() {
                Some((open, commas)) if !commas.is_empty() => return Some((open, commas, at)),
                _ => {}
            },
            _ => {}
        }
    }
    None
}

/// The argument that a program would get, as far as it is known. Unknown parts are left out.
pub(super) fn literal_text(word: &ShellWord<'_>, values: &dyn ShellValues) -> String {
    let mut out = String::new();
    for part in &word.parts {
        match part {
            WordPart::Bare(text) | WordPart::Quoted(text) => out.push_str(text),
            WordPart::Variable { name, .. } => {
                let value = values.variable(name).and_then(|value| value.into_iter().next());
                out.push_str(&value.map(|value| value.plain()).unwrap_or_default());
            }
            WordPart::Substitution(_) | WordPart::Unknown => {}
        }
    }
    out
}

fn escape_wildcards(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        if matches!(char, '*' | '?' | '[' | ']' | '\\') {
            out.push('\\');
        }
        out.push(char);
    }
    out
}

pub(super) fn unescape_wildcards(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        out.extend(if char == '\\' { chars.next() } else { Some(char) });
    }
    out
}
