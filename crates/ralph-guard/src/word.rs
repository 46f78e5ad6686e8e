//! Expands a word of a shell command: all spellings that result from braces, variables and loops, with wildcards left
//! in place.

use super::lexer::{Lexer, Part, Token, Word};
use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

/// A longer word is not a path.
const LONGEST: usize = 4096;

/// No real path consists of more parts.
const MOST_PARTS: usize = 256;

/// The most spellings of a word. Braces multiply them.
const MOST: usize = 64;

/// The deepest nesting of defaults, as in `${A:-${B:-…}}`.
const DEEPEST: usize = 4;

/// A shell pattern: `*`, `?` and `[` are wildcards unless a `\` precedes them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Spelling {
    pub(super) text: String,
    /// An unknown rest may follow.
    pub(super) is_open: bool,
}

/// Provides the values that words refer to.
pub(super) trait Values {
    fn variable(&self, name: &str) -> Option<Vec<Spelling>>;
    /// The output of a command in `$(…)`, if it is known.
    fn printed(&self, command: &str) -> Option<Vec<Spelling>>;
    fn home_of(&self, user: &str) -> Option<String>;
}

impl Spelling {
    pub(super) fn of(text: &str) -> Self {
        Self { text: escaped(text), is_open: false }
    }

    /// The argument that a program would get if the wildcards matched nothing.
    pub(super) fn plain(&self) -> String {
        unescaped(&self.text)
    }
}

pub(super) fn spellings(word: &Word<'_>, values: &dyn Values) -> Vec<Spelling> {
    spelled(word, values, DEEPEST)
}

fn spelled(word: &Word<'_>, values: &dyn Values, depth: usize) -> Vec<Spelling> {
    if word.parts.len() > MOST_PARTS {
        return Vec::new();
    }
    let mut out = vec![Spelling::default()];
    for (at, part) in word.parts.iter().enumerate() {
        let alternatives = match part {
            Part::Bare(text) if text.len() > LONGEST => return Vec::new(),
            Part::Bare(text) => bare(text, at == 0, values),
            Part::Quoted(text) if text.len() > LONGEST => return Vec::new(),
            Part::Quoted(text) => vec![Spelling::of(text)],
            Part::Variable { name, default } => values
                .variable(name)
                .or_else(|| default.and_then(|text| otherwise(text, values, depth)))
                .unwrap_or_else(unknown),
            Part::Substitution(command) => values.printed(command).unwrap_or_else(unknown),
            Part::Unknown => unknown(),
        };
        out = product(&out, &alternatives);
    }
    out.retain(|spelling| spelling.text.len() <= LONGEST);
    out
}

fn otherwise(text: &str, values: &dyn Values, depth: usize) -> Option<Vec<Spelling>> {
    let depth = depth.checked_sub(1)?;
    let Some(Token::Word(word)) = Lexer::new(text).next() else { return None };
    Some(spelled(&word, values, depth))
}

fn unknown() -> Vec<Spelling> {
    vec![Spelling { text: String::new(), is_open: true }]
}

/// Appends every alternative to every spelling. After an unknown part, everything is unknown.
fn product(before: &[Spelling], after: &[Spelling]) -> Vec<Spelling> {
    let mut out = Vec::new();
    for left in before {
        if left.is_open {
            out.push(left.clone());
            continue;
        }
        for right in after {
            let mut text = left.text.clone();
            text.push_str(&right.text);
            out.push(Spelling { text, is_open: right.is_open });
        }
        if out.len() >= MOST {
            break;
        }
    }
    out.truncate(MOST);
    out
}

fn bare(text: &str, is_first: bool, values: &dyn Values) -> Vec<Spelling> {
    braces(text)
        .into_iter()
        .map(|text| {
            let Some(rest) = text.strip_prefix('~').filter(|_| is_first) else {
                return Spelling { text, is_open: false };
            };
            let (user, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            match values.home_of(user) {
                Some(home) => {
                    let mut text = escaped(&home);
                    text.push_str(path);
                    Spelling { text, is_open: false }
                }
                None => Spelling { text: String::new(), is_open: true },
            }
        })
        .collect()
}

/// Expands `a{b,c}d` to `abd` and `acd`. Braces without a comma stay.
fn braces(text: &str) -> Vec<String> {
    let mut done = Vec::new();
    let mut todo = vec![text.to_owned()];
    while let Some(text) = todo.pop() {
        if done.len() + todo.len() >= MOST {
            done.push(text);
            done.append(&mut todo);
            break;
        }
        match first_brace(&text) {
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
    done.truncate(MOST);
    done
}

fn first_brace(text: &str) -> Option<(usize, Vec<usize>, usize)> {
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
pub(super) fn literal(word: &Word<'_>, values: &dyn Values) -> String {
    let mut out = String::new();
    for part in &word.parts {
        match part {
            Part::Bare(text) | Part::Quoted(text) => out.push_str(text),
            Part::Variable { name, .. } => {
                let value = values.variable(name).and_then(|value| value.into_iter().next());
                out.push_str(&value.map(|value| value.plain()).unwrap_or_default());
            }
            Part::Substitution(_) | Part::Unknown => {}
        }
    }
    out
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        if matches!(char, '*' | '?' | '[' | ']' | '\\') {
            out.push('\\');
        }
        out.push(char);
    }
    out
}

pub(super) fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        out.extend(if char == '\\' { chars.next() } else { Some(char) });
    }
    out
}
